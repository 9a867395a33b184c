"""The offline model's plans and acts: parts of a request matched to tools by words.

A stand-in for plumbing, as `cnp_router.agents.offline_answers`. It compares nothing and chooses
nothing out of a result; what it plans says nothing about what a language model would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cnp_router.agents.fill_inputs import FillInputs
from cnp_router.agents.next_act import NextAct, NextStep
from cnp_router.agents.offline_inputs import certain_inputs
from cnp_router.agents.plan_jobs import PlanJobs
from cnp_router.catalog import Api
from cnp_router.text import clauses, specification_text, without_quotations

__all__ = ["LEAST_MATCH", "OfflinePlans", "parts"]

MOST_JOBS = 6
LEAST_MATCH = 0.05  # cosine from which a tool is said to do a part of a request


class OfflinePlans:
    """Answers `PlanJobs`, `NextAct` and `NextStep` by the similarity of two texts.

    Examples
    --------
    >>> def shared(left, right):
    ...     return len({*left.lower().split()} & {*right.lower().split()}) / 10
    >>> tools = (Api("maps__find", "find", "Find a place"), Api("sms__send", "send", "Text a note"))
    >>> plans = OfflinePlans(shared)
    >>> task = PlanJobs("Find a place, then text a note to Aiko", tools)
    >>> [(job["task"], job["api"], job["after"]) for job in plans.plan(task)["jobs"]]
    [('Find a place', 'maps__find', []), ('text a note to Aiko', 'sms__send', ['job-1'])]
    """

    def __init__(self, similarity: Callable[[str, str], float]) -> None:
        self.similarity = similarity

    def plan(self, task: PlanJobs) -> dict[str, Any]:
        """Make a job of each part of the request: the nearest tool does it, after the one before.

        Where there is a state to work on, the tool is left to the executor. In a revision, only
        parts that failed come again, without the tools that failed them.
        """
        wanted = [each.task for each in task.failed] if task.failed else parts(task.request)
        tried = {each.task: each.api for each in task.failed}
        before = len(task.done) + len(task.failed)
        jobs: list[dict[str, Any]] = []
        for part in dict.fromkeys(wanted[:MOST_JOBS]) or [task.request]:
            left = [api for api in task.apis if api.id != tried.get(part)]
            api = None if task.state else self._nearest(part, left)
            after = [jobs[-1]["id"]] if jobs else []
            name = f"job-{before + len(jobs) + 1}"
            job = {"id": name, "task": part, "api": api and api.id, "inputs": None, "after": after}
            jobs.append(job)
        return {"guideline": "", "jobs": jobs}

    def act(self, task: NextAct | NextStep) -> dict[str, Any]:
        """Call the nearest tool that was not called yet and whose inputs are certain."""
        called = {act.tool for act in (*task.history.before, *task.history.last)}
        left = [api for api in task.apis if api.id not in called]
        while (api := self._nearest(task.job, left)) is not None:
            written = certain_inputs(FillInputs("", task.job, api))
            if not written["missing"]:
                inputs = written["inputs"]
                return {"thought": "", "tool": api.id, "inputs": inputs, "done": False}
            left.remove(api)
        return {"thought": "", "tool": "", "inputs": {}, "done": True}

    def _nearest(self, text: str, apis: Iterable[Api]) -> Api | None:
        text = without_quotations(text)
        scored = [(self.similarity(text, specification_text(api)), api) for api in apis]
        best = max(scored, key=lambda pair: pair[0], default=None)
        return None if best is None or best[0] < LEAST_MATCH else best[1]


def parts(request: str) -> list[str]:
    """Return the smallest parts of a request, in order."""
    found = clauses(request, cut_quotations=False)
    return [part for part in found if not any(part != o and o in part for o in found)]
