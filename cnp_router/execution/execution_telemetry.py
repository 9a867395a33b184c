"""What is seen of an execution by whoever watches: the ends of spans, and counts."""

from __future__ import annotations

from collections.abc import Iterator

from cnp_router import telemetry
from cnp_router.execution.job_reports import Act, Execution, JobReport
from cnp_router.sources.source import SEPARATOR

__all__ = ["watched_execution", "watched_job"]

_SHARED = ("earlier", "context")  # acts in which nobody was called


def watched_job(report: JobReport, is_done: bool, span: telemetry.Span) -> None:
    """Say in the span of a job how it ended."""
    failure = report.acts[-1].result.failure if report.acts else None
    if not is_done:
        span.fail("failed" if failure is None else failure.kind)
    outcome = "done" if is_done else "failed"
    span.set(cnp_router__acts=len(report.acts), cnp_router__outcome=outcome)


def watched_execution(execution: Execution, is_cancelled: bool, span: telemetry.Span) -> None:
    """Say in the span of an execution how it ended, and count what came of it."""
    outcome = "done" if execution.is_done else "late" if execution.is_late else "failed"
    outcome = "cancelled" if is_cancelled else outcome
    if outcome in ("late", "failed"):
        span.fail(outcome)
    span.set(cnp_router__jobs=len(execution.jobs), cnp_router__outcome=outcome)
    if not telemetry.is_on():
        return
    telemetry.add("cnp_router.executions", 1, {"outcome": outcome})
    jobs = [job for job in (*execution.failed, *execution.jobs) if not job.is_resumed]
    for job in jobs:
        telemetry.add("cnp_router.jobs", 1, {"outcome": job.state})
        for act in job.acts:
            telemetry.add("cnp_router.acts", 1, {"by": act.by, "outcome": _outcome(act)})
        if job.acts and job.acts[0].by not in _SHARED:
            first = _outcome(job.acts[0])
            if first != "cancelled":  # nobody knows whether it would have done it
                right = {"correct": first == "done", "by": "award"}
                telemetry.add("cnp_router.selections", 1, right)
    was_broken_off = is_cancelled or execution.is_late
    for resolved in _dependencies(execution, jobs, execution.problem if was_broken_off else ""):
        telemetry.add("cnp_router.dependencies", 1, {"resolved": resolved})


def _outcome(act: Act) -> str:
    """Return what came of an act; one that was broken off did not fail."""
    if act.result.failure is None:
        return "done"
    return "cancelled" if act.result.failure.kind == "cancelled" else "failed"


def _dependencies(execution: Execution, jobs: list[JobReport], broken_off: str) -> Iterator[bool]:
    """Yield whether what a job waits for, of another source, was done and reached it.

    Nothing of what was broken off, which is what has that problem.
    """
    reports = {job.id: job for job in execution.jobs}
    named = {} if execution.plan is None else {job.id: job.api for job in execution.plan.jobs}
    for job in jobs:
        for before in (reports[name] for name in job.after if name in reports):
            sources = {
                (each.api or named.get(each.id) or each.id).partition(SEPARATOR)[0]
                for each in (job, before)
            }
            if len(sources) == 1:
                continue
            if broken_off and broken_off in before.problem:
                continue
            is_begun = any(act.attempts or act.by in _SHARED for act in job.acts)
            if before.state == "done" and not (is_begun or job.acts):
                continue  # it was broken off before this one began
            yield before.state == "done" and is_begun
