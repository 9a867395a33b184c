"""What an execution teaches: a trajectory of what was called, and a mashup of what served."""

from __future__ import annotations

import datetime
import json

from cnp_router.execution.job_reports import Act, Execution
from cnp_router.history import Mashup
from cnp_router.online import OnlineStore, Receipt
from cnp_router.trajectories import Step, Trajectory

__all__ = ["learn", "mashup_of", "succeeded", "trajectory_of"]

OBSERVATION = 4_000  # characters of a result


def trajectory_of(execution: Execution, *, user: str | None = None) -> Trajectory:
    """Return every act of an execution as a trajectory, failed ones too.

    Parameters
    ----------
    execution : Execution
    user : str, optional
        Whose it is, so that it can be forgotten.

    Returns
    -------
    Trajectory
        Its steps are in the order of the plan's jobs, those before them that failed and were
        planned anew; what was not called now is not a step.
        Observations are cut after 4,000 characters. Of confidential acts there are no inputs and
        no observation.

    Examples
    --------
    >>> from cnp_router.execution import Act, Execution, Job, JobReport, Plan
    >>> from cnp_router.sources import CallResult
    >>> act = Act("time__now", "award", {"zone": "UTC"}, CallResult("12:00"), 1, 0.1)
    >>> plan = Plan("What time is it?", (Job("now", "the time"),))
    >>> report = JobReport("now", "the time", state="done", acts=[act])
    >>> execution = Execution("a1", plan.request, plan, (report,), (), 0.2)
    >>> trajectory_of(execution).steps
    (Step('time__now', {'zone': 'UTC'}, '12:00'),)
    >>> mashup_of(execution).apis
    ('time__now',)
    """
    jobs = (*execution.failed, *execution.jobs)
    steps = (_step(act, job.category) for job in jobs for act in job.acts if act.attempts)
    run = f"-{execution.n_before}" if execution.n_before else ""
    return Trajectory(
        f"execution-{execution.id}{run}",
        execution.request,
        tuple(steps),
        success=execution.is_done,
        user=user,
    )


def mashup_of(execution: Execution, *, user: str | None = None) -> Mashup | None:
    """Return what served the request; None where it is not done.

    A part of what a request needs would teach that the rest is not needed. Parameters are those of
    `trajectory_of`.
    """
    if not execution.is_done:
        return None
    return Mashup(
        f"execution-{execution.id}",
        execution.request,
        execution.apis,
        date=datetime.datetime.now(datetime.UTC).date(),
        user=user,
    )


def learn(store: OnlineStore, execution: Execution, *, user: str | None = None) -> list[Receipt]:
    """Have an online store observe an execution; parameters as for `trajectory_of`.

    Observed again, under the same id, it counts once.
    """
    records = [trajectory_of(execution, user=user), mashup_of(execution, user=user)]
    return [store.observe(each) for each in records if each is not None and not _is_empty(each)]


def succeeded(act: Act) -> bool | None:
    """Return whether an act was done; None where nobody knows, or nothing was called.

    What was not approved, or forbidden by a rule, says nothing about the API.
    """
    failure = act.result.failure
    is_known = act.attempts and (
        failure is None or (failure.was_done == "no" and failure.kind != "declined")
    )
    return act.result.is_done if is_known else None


def _step(act: Act, category: str | None) -> Step:
    if act.is_confidential:
        return Step(act.api, success=succeeded(act), category=category)
    text = act.result.text or (act.result.failure.message if act.result.failure else "")
    if not text and act.result.structured is not None:
        text = json.dumps(act.result.structured, ensure_ascii=False)
    return Step(
        act.api,
        dict(act.inputs),
        text[:OBSERVATION],
        success=succeeded(act),
        category=category,
    )


def _is_empty(record: Trajectory | Mashup) -> bool:
    return isinstance(record, Trajectory) and not record.steps
