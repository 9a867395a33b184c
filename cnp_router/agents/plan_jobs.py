"""`PlanJobs`: the task of a planner, who makes a plan once and revises it where a job failed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cnp_router.agents.answers import AnswerModel
from cnp_router.agents.prompts import (
    Instructions,
    json_list,
    json_object,
    quoted,
    sendable,
    short_specification,
)
from cnp_router.agents.tasks import Task
from cnp_router.catalog import Api
from cnp_router.records import one_line

__all__ = ["DoneJob", "FailedJob", "PlanJobs", "PlannedJob", "PlannedJobs"]


class _Job(AnswerModel):
    id: str
    task: str
    api: str | None
    inputs: dict[str, Any] | None
    after: list[str]


class _Jobs(AnswerModel):
    guideline: str
    jobs: list[_Job]


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job as a planner wrote it."""

    id: str
    task: str
    api: str | None = None
    inputs: Mapping[str, Any] | None = field(default=None, hash=False)
    after: tuple[str, ...] = ()

    __repr__ = one_line


@dataclass(frozen=True, slots=True)
class PlannedJobs:
    """The answer to `PlanJobs`: not checked, so that what is wrong can be said to the planner."""

    guideline: str
    jobs: tuple[PlannedJob, ...]

    __repr__ = one_line


@dataclass(frozen=True, slots=True)
class DoneJob:
    """A job that stays done when a plan is revised."""

    id: str
    task: str
    api: str | None = None
    keywords: tuple[str, ...] = ()
    """Of the API."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as the JSON object that the prompt shows."""
        said = {"id": self.id, "task": self.task, "api": self.api, "keywords": list(self.keywords)}
        return {name: value for name, value in said.items() if value}


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that failed, or was skipped for one that did.

    Parameters
    ----------
    id, task : str
    why : str
        In the words of the engine. A text of a tool has no place here: it would steer the plan.
    api : str or None, default=None
        Who tried.
    """

    id: str
    task: str
    why: str
    api: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as the JSON object that the prompt shows."""
        said = {"id": self.id, "task": self.task, "api": self.api, "why": self.why}
        return {name: value for name, value in said.items() if value}


@dataclass(frozen=True, slots=True, repr=False)
class PlanJobs(Task[PlannedJobs]):
    """The jobs that a request is made of, and a guideline for who does them.

    Parameters
    ----------
    request : str
    apis : tuple of Api
        The tools that there are, shown by their `summary` where they have one.
    profile : str, default=""
        What is known of the user. Nobody but the planner sees it.
    hints : tuple of str, default=()
        What is known of the domain.
    recommended : tuple of mapping, default=()
        Items that may be worth choosing, JSON objects.
    state : mapping, default={}
        How far the work is, of a `Workspace`.
    guideline : str, default=""
        Of the plan that is revised.
    done : tuple of DoneJob, default=()
        What stays as it is.
    failed : tuple of FailedJob, default=()
    unmet : tuple of str, default=()
        Rules that are not met yet.

    Examples
    --------
    >>> maps = Api("maps__find", "find", "Finds places.")
    >>> task = PlanJobs("Where is Kyoto?", (maps,), profile="Likes tea.")
    >>> print(task.information())
    {"request": "Where is Kyoto?", "profile": "Likes tea.", \
"tools": [{"id": "maps__find", "summary": "Finds places."}]}
    >>> job = {"id": "place", "task": "Find Kyoto.", "api": "maps__find",
    ...        "inputs": {"name": "Kyoto"}, "after": []}
    >>> task.read({"guideline": "Be quick.", "jobs": [job]}).jobs[0].api
    'maps__find'
    """

    request: str
    apis: tuple[Api, ...]
    profile: str = ""
    hints: tuple[str, ...] = ()
    recommended: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    state: Mapping[str, Any] = field(default_factory=dict, hash=False)
    guideline: str = ""
    done: tuple[DoneJob, ...] = ()
    failed: tuple[FailedJob, ...] = ()
    unmet: tuple[str, ...] = ()

    role = "planner"
    steps = ()
    stage = "planning"
    answer_tokens = 400
    answer_model = _Jobs
    instructions = Instructions(
        "You are a planner. You make a plan once; an executor who sees neither request nor profile "
        "does it, job by job. You call nothing, and name no tool that is not in the list.",
        "Consider the whole: what the user wants, the state, the rules that are not met, the "
        "hints. Divide it into as few jobs as will do. In each task, say all that its executor has "
        "to know: what to look for, how to compare, what to choose. Name a tool where one call "
        "does the job, with its inputs where you know them; otherwise leave tool and inputs null, "
        "and the executor chooses calls itself. A job waits for those whose results it needs. A "
        'part of a result is an input {"$from": id, "path": JSON pointer}. What is done stays '
        'done: do not list it again, you may name it in "after". Where jobs failed, find another '
        "way for what is left.",
        '"guideline": what holds for all jobs, in a few sentences. "jobs": objects of "id", a '
        'short name of its own, "task", "api", "inputs" and "after", ids of jobs.',
    )

    def information(self) -> str:
        """Return what the planner knows, as one JSON object; what is empty is left out."""
        fields = {
            "request": quoted(self.request),
            "profile": quoted(self.profile) if self.profile else "",
            "tools": json_list(map(short_specification, self.apis)),
            "hints": _json(list(self.hints)),
            "recommended": _json([dict(item) for item in self.recommended]),
            "state": _json(dict(self.state)),
            "not met": _json(list(self.unmet)),
            "guideline so far": quoted(self.guideline) if self.guideline else "",
            "done": _json([job.to_dict() for job in self.done]),
            "failed": _json([job.to_dict() for job in self.failed]),
        }
        return json_object({name: text for name, text in fields.items() if text})

    def understand(self, said: _Jobs) -> PlannedJobs:
        """Return the jobs as they were written."""
        jobs = (PlannedJob(j.id, j.task, j.api, j.inputs, tuple(j.after)) for j in said.jobs)
        return PlannedJobs(said.guideline, tuple(jobs))


def _json(value: Any) -> str:
    return sendable(json.dumps(value, ensure_ascii=False)) if value else ""
