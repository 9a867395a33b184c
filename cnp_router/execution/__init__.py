"""From award to action: plans of jobs, calls of tools, what came of them."""

from cnp_router.execution.approval import Approval, Approve, allow_writes
from cnp_router.execution.calling import Caller, Performed
from cnp_router.execution.execute import Executor
from cnp_router.execution.execution_settings import ExecutionSettings
from cnp_router.execution.filling import Filled, Filler
from cnp_router.execution.job_reports import Act, Execution, JobEvent, JobReport
from cnp_router.execution.journal import Journal, StartedCall
from cnp_router.execution.task_graph import Job, JobEnd, Plan, run_jobs

__all__ = [
    "Act",
    "Approval",
    "Approve",
    "Caller",
    "Execution",
    "ExecutionSettings",
    "Executor",
    "Filled",
    "Filler",
    "Job",
    "JobEnd",
    "JobEvent",
    "JobReport",
    "Journal",
    "Performed",
    "Plan",
    "StartedCall",
    "allow_writes",
    "run_jobs",
]
