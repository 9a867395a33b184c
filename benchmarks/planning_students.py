"""Scripted models that make timetables, and make mistakes by a seed; no language model.

What they know of a timetable is what their prompts show. Their mistakes are those of cheap models:
they add a course into a taken slot, search the same again (in another spelling, too), say that they
are done too early, or never, and name courses that are not there.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from cnp_router.agents import NextAct, NextStep, PlanJobs
from cnp_router.llm import ChatRequest
from cnp_router.testing import FunctionChatModel
from cnp_router.timetable import Course, Form

__all__ = ["MISTAKES", "PlanningStudent", "SearchingStudent"]

MISTAKES = ("taken slot", "repeated search", "early finish", "no finish", "unknown id")
_SEARCH, _ADD, _FINISH = "timetable__search", "timetable__add", "timetable__finish"
_FIRST_MISTAKE = 3  # turns: before, there is nothing to be mistaken about
_BETWEEN = 2  # turns from one mistake to the next
_YEARS = [1, 2, 3, 4, 5, 6]

# The same search, written in other ways.
_SPELLINGS: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (
    dict,
    lambda inputs: {name: inputs[name] for name in reversed(inputs)},
    lambda inputs: {"query": "", "slot": None, "year": None, "all_courses": False, **inputs},
    lambda inputs: {**inputs, **({"year": [float(n) for n in _YEARS]} if "year" in inputs else {})},
)


class PlanningStudent(FunctionChatModel):
    """A scripted planner: a job for each interest, and one that fills up the rest.

    Every third plan has a circle of jobs at first, and is repaired.
    """

    def __init__(self, form: Form, number: int, *, name: str = "scripted-large") -> None:
        super().__init__(self._plan, name=name)
        self.form = form
        self.is_wrong = number % 3 == 2

    def _plan(self, request: ChatRequest) -> dict[str, Any]:
        task = request.task
        assert isinstance(task, PlanJobs)
        before = len(task.done) + len(task.failed)
        topics = [] if before else (self.form.interests or "").split(", ")
        tasks = [f'Search for courses on "{topic}" and add 2 of them.' for topic in topics]
        tasks.append("Fill up: add courses in free slots until all rules are met.")
        jobs: list[dict[str, Any]] = []
        for number, text in enumerate(tasks, start=before + 1):
            after = [jobs[-1]["id"]] if jobs else []
            name = f"job-{number}"
            jobs.append({"id": name, "task": text, "api": None, "inputs": None, "after": after})
        if self.is_wrong and not before and len(jobs) > 1:
            self.is_wrong = False
            jobs[0]["after"] = [jobs[-1]["id"]]
        guideline = "Take the first course of a search that has a free slot. Compare no further."
        return {"guideline": guideline, "jobs": jobs}


class SearchingStudent(FunctionChatModel):
    """A scripted agent or executor: searches, adds what it found, and is mistaken by a seed.

    Attributes
    ----------
    mistakes : Counter of str
        How many of each kind it made.
    """

    def __init__(
        self, courses: tuple[Course, ...], seed: int, *, finishes: bool, name: str
    ) -> None:
        super().__init__(self._act, name=name)
        self.random = random.Random(seed)
        self.courses = courses
        self.finishes = finishes
        self.mistakes: Counter[str] = Counter()
        self.left = ["taken slot", "repeated search", "early finish", "unknown id"]
        self.random.shuffle(self.left)
        self.turns = 0

    def end(self) -> None:
        """Take note that the run is over, in which it may never have said that it is done."""
        if self.turns and not self.finishes:
            self.mistakes["no finish"] += 1

    def _act(self, request: ChatRequest) -> dict[str, Any]:
        task = request.task
        assert isinstance(task, NextAct | NextStep)
        self.turns += 1
        if self.left and self.turns >= _FIRST_MISTAKE and not self.turns % _BETWEEN:
            for kind in self.left:
                wrong = self._mistake(kind, task)
                if wrong is not None:
                    self.left.remove(kind)
                    self.mistakes[kind] += 1
                    return wrong
        wanted = re.search(r"add (\d+) of them", task.job)
        n_added = sum(each.tool == _ADD and "result" in each.seen for each in task.history.last)
        if self.finishes and wanted and n_added >= int(wanted[1]):
            return _said("", done=True)
        for course in self._found(task):
            return _said(_ADD, course_id=course)
        return self._next_search(task)

    def _mistake(self, kind: str, task: NextAct | NextStep) -> dict[str, Any] | None:
        """Return what is wrong to do now; None if there is no occasion for this mistake."""
        chosen = task.state["chosen"]
        searches = [each.inputs for each in task.history.last if each.tool == _SEARCH]
        if kind == "taken slot":
            taken = {each["slot"] for each in chosen} - {None}
            there = {each["id"] for each in chosen}
            clash = [c.id for c in self.courses if c.slot in taken and c.id not in there]
            return _said(_ADD, course_id=self.random.choice(clash)) if clash else None
        if kind == "repeated search":
            if not searches:
                return None
            again = dict(self.random.choice(searches))
            return _said(_SEARCH, **self.random.choice(_SPELLINGS)(again))
        if kind == "early finish":
            if not task.unmet:
                return None
            return _said("", done=True) if self.random.random() < 0.5 else _said(_FINISH)
        return _said(_ADD, course_id=f"ZZ-{self.random.randrange(100, 999)}")

    @staticmethod
    def _found(task: NextAct | NextStep) -> Iterator[str]:
        """Yield the courses of the last search that can be added, by what is shown."""
        free = {*task.state["free_slots"], None}
        tried = {each.inputs.get("course_id") for each in task.history.last if each.tool == _ADD}
        tried |= {each["id"] for each in task.state["chosen"]}
        for each in reversed(task.history.last):
            if each.tool == _SEARCH and "result" in each.seen:
                for course in each.seen["result"]["courses"]:
                    if course["slot"] in free and course["id"] not in tried:
                        yield course["id"]
                return

    def _next_search(self, task: NextAct | NextStep) -> dict[str, Any]:
        """Search for what the job or the request asks, then slot by slot."""
        done = [dict(each.inputs) for each in task.history.last if each.tool == _SEARCH]
        said = re.findall(r'"([^"]+)"', task.job)
        wanted: list[dict[str, Any]] = [{"query": topic, "year": _YEARS} for topic in said]
        wanted += [{"slot": slot} for slot in (*task.state["free_slots"], "intensive")]
        new = [inputs for inputs in wanted if inputs not in done]
        if new:
            return _said(_SEARCH, **new[0])
        return _said(_SEARCH, query=f"anything {self.turns}")


def _said(tool: str, *, done: bool = False, **inputs: Any) -> dict[str, Any]:
    return {"thought": "", "tool": tool, "inputs": inputs, "done": done}
