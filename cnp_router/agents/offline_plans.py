"""The offline model's plans and acts: parts of a request matched to tools by words.

A stand-in for plumbing, as `cnp_router.agents.offline_answers`. It compares nothing and chooses
nothing out of a result; what it plans says nothing about what a language model would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from cnp_router.agents.fill_inputs import FillInputs
from cnp_router.agents.next_act import NextAct, NextStep
from cnp_router.agents.offline_inputs import certain_inputs
from cnp_router.agents.plan_jobs import PlanJobs
from cnp_router.catalog import Api
from cnp_router.text import clauses, specification_text, without_quotations
from cnp_router.text.prohibition import forbids, objection

__all__ = ["LEAST_MATCH", "OfflinePlans", "parts"]

MOST_JOBS = 6
LEAST_MATCH = 0.05  # cosine from which a tool is said to do a part of a request
_GIVES = re.compile(r"[^\W\d][\w-]*\s*[:=]\s*\S")  # "amount: 5"


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
        parts that failed come again, by other tools that read where one that reads failed: what
        is alike may do the opposite. A request that says what is not to be done stays whole.
        """
        if task.failed:
            reads = {api.id: api for api in task.apis if api.effects == "reads"}
            tried = {each.task: each.api for each in task.failed}
            left = {
                part: [api for name, api in reads.items() if name != own]
                for part, own in tried.items()
                if own in reads
            }
            if len(left) < len(tried):  # what cannot be done may be what others wait for
                left = {}
        else:
            left = {part: [*task.apis] for part in _wanted(task.request)[:MOST_JOBS]}
        before = len(task.done) + len(task.failed)
        jobs: list[dict[str, Any]] = []
        for part, apis in left.items():
            api = None if task.state else self._nearest(part, apis)
            after = [jobs[-1]["id"]] if jobs else []
            name = f"job-{before + len(jobs) + 1}"
            job = {"id": name, "task": part, "api": api and api.id, "inputs": None, "after": after}
            jobs.append(job)
        return {"guideline": "", "jobs": jobs}

    def act(self, task: NextAct | NextStep) -> dict[str, Any]:
        """Call the tool that is nearest to a part of the job, if its inputs are certain.

        In place of one that reads, the next one that reads may be called.
        """
        called = {act.tool for act in (*task.history.before, *task.history.last)}
        thought = ""
        for part in _wanted(task.job):
            left = list(task.apis)
            while (api := self._nearest(part, left)) is not None and api.id not in called:
                reads = api.effects == "reads"
                if why := objection(task.job, api.effects):
                    thought = why
                elif not (written := certain_inputs(FillInputs("", task.job, api)))["missing"]:
                    inputs = written["inputs"]
                    return {"thought": "", "tool": api.id, "inputs": inputs, "done": False}
                left = [o for o in left if o is not api and reads and o.effects == "reads"]
        return {"thought": thought, "tool": "", "inputs": {}, "done": True}

    def _nearest(self, text: str, apis: Iterable[Api]) -> Api | None:
        text = without_quotations(text, least_words=1)
        scored = [(self.similarity(text, specification_text(api)), api) for api in apis]
        best = max(scored, key=lambda pair: pair[0], default=None)
        return None if best is None or best[0] < LEAST_MATCH else best[1]


def _wanted(request: str) -> list[str]:
    """Return the parts of a request that tools are matched to."""
    return [request] if forbids(request) else parts(request)


def parts(request: str) -> list[str]:
    """Return the smallest parts of a request, in order. One that gives a value stays with another.

    Examples
    --------
    >>> parts("Book a table, name: Ann, then text her")
    ['Book a table, name: Ann', 'text her']
    """
    found = clauses(request, cut_quotations=False)
    smallest = [part for part in found if not any(part != o and o in part for o in found)]
    joined: list[str] = []
    place = 0
    for part in smallest:
        begin = request.index(part, place)
        place = begin + len(part)
        if joined and _GIVES.match(part):
            joined[-1] = request[request.rindex(joined[-1], 0, begin) : place]
        else:
            joined.append(part)
    return joined
