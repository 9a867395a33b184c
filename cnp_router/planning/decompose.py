"""`decompose`: a request as a plan, by its clauses, where no model plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cnp_router.catalog import Api
from cnp_router.execution import Job, Plan
from cnp_router.planning.data_flow import with_dependencies
from cnp_router.planning.likely_api import LikelyApi
from cnp_router.prediction import ParameterHints
from cnp_router.records import check_request
from cnp_router.text import clauses

__all__ = ["decompose"]


def decompose(
    request: str,
    apis: Iterable[Api],
    *,
    likely: Callable[[str], str | None] | None = None,
    hints: ParameterHints | None = None,
) -> Plan:
    """Return a plan of a request: a job for each clause that asks for something of its own.

    A stand-in for a planner, by words alone: the parts of the request between stops, conjunctions
    and commas are jobs, where an API fits them; a part that fits none, or the same one as the part
    before, belongs to the part before. Jobs name no API, and wait for each other as
    `with_dependencies` says.

    Parameters
    ----------
    request : str
    apis : iterable of Api
        At least one.
    likely : callable, optional
        The id of the API that a text would go to, or None; by default by the words of
        specifications.
    hints : ParameterHints, optional
        Where inputs came from in past calls.

    Raises
    ------
    InputError
        If the request is blank, or there is no API.

    Examples
    --------
    >>> find = Api("find", "find", "Finds a person.", effects="reads", parameters={
    ...     "properties": {"name": {"type": "string"}}, "required": ["name"]},
    ...     returns={"properties": {"email": {"type": "string"}}})
    >>> send = Api("send", "send", "Sends a letter.", effects="writes", parameters={
    ...     "properties": {"email": {"type": "string"}}, "required": ["email"]})
    >>> plan = decompose('Send a letter of thanks, and find the person "Aiko".', [find, send])
    >>> [(job.id, job.task, job.after) for job in plan.jobs]
    [('job-1', 'Send a letter of thanks', ('job-2',)), ('job-2', 'find the person "Aiko".', ())]
    """
    apis = list(apis)
    guess = likely or LikelyApi(apis)
    tasks: list[str] = []
    last: str | None = None
    for clause in _smallest(clauses(check_request(request), cut_quotations=False)):
        api = guess(clause)
        if tasks and (api is None or api == last):
            tasks[-1] += f", {clause}"
        elif tasks and last is None:
            tasks[-1], last = f"{tasks[-1]}, {clause}", api
        else:
            tasks.append(clause)
            last = api
    jobs = tuple(Job(f"job-{number}", task) for number, task in enumerate(tasks, 1))
    return with_dependencies(Plan(request, jobs), apis, likely=guess, hints=hints)


def _smallest(parts: tuple[str, ...]) -> list[str]:
    """Return the clauses without those that the ones after them are parts of."""
    found: list[str] = []
    for place, part in enumerate(parts):
        after = parts[place + 1] if place + 1 < len(parts) else None
        if after is None or not part.startswith(after) or part == after:
            found.append(part)
    return found
