"""`TimetableTools`: searching courses, adding one, finishing, as tools that work on a board."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.sources import CallResult, FunctionSource
from cnp_router.timetable.board import SOURCE, Board
from cnp_router.timetable.course import Course
from cnp_router.timetable.course_filters import (
    matching,
    read_filters,
    why_nothing,
    without_negated,
)

__all__ = ["TimetableTools"]

_MOST_SHOWN = 7  # about 1,000 tokens, which is what agents in turns are shown of a result

Texts = str | list[str] | None
Numbers = int | list[int] | None


class TimetableTools(FunctionSource):
    """The tools ``timetable__search``, ``timetable__add`` and ``timetable__finish`` of a board.

    Searching reads. Adding and finishing change the board and nothing else: a draft in memory,
    which `cnp_router.execution.allow_writes` may approve.

    Parameters
    ----------
    board : Board

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.sources import Call
    >>> from cnp_router.timetable import load_courses
    >>> board = Board(load_courses())
    >>> tools = TimetableTools(board)
    >>> def call(name, **inputs):
    ...     return asyncio.run(tools.call(Call(api=f"timetable__{name}", inputs=inputs)))
    >>> found = call("search", query="poems and stories", slot="Thursday").data
    >>> found["found"], found["courses"][0]["name"]
    (1, 'How to Read a Poem')
    >>> call("add", course_id="LT-101").data
    {'added': 'LT-101', 'slot': 'Thu 2', 'credits': 1.0}
    >>> call("add", course_id="PL-215")
    CallResult(declined: 'Thursday 2 is taken (by LT-101, How to Read a Poem)')
    """

    def __init__(self, board: Board) -> None:
        self.board = board
        super().__init__(
            SOURCE,
            [self.search, self.add, self.finish],
            effects={"search": "reads", "add": "writes", "finish": "writes"},
        )

    async def search(
        self,
        query: str = "",
        slot: Texts = None,
        department: Texts = None,
        field: Texts = None,
        year: Numbers = None,
        form: Texts = None,
        without: Texts = None,
        all_courses: bool = False,
    ) -> dict[str, Any]:
        """Search courses by words and filters. A course has to pass every filter that is given; a
        filter takes one value, or a list of which any one will do. Shows the best 7 of those that
        can be added now, counts why others are left out, and says why nothing is found.

        Parameters
        ----------
        query : str
            What the course should be about, in a few words; empty: anything, what suits the
            student best first.
        slot : str or list of str
            "Mon 2", "Friday", "period 3" or "intensive".
        department : str or list of str
            Who teaches it.
        field : str or list of str
            The field of study.
        year : int or list of int
            Open to students of this year, 1 to 6.
        form : str or list of str
            lecture, seminar, exercise, laboratory or online.
        without : str or list of str
            What must not count for the mark: participation, assignments, presentation,
            discussion, reports, quizzes, term_paper or exam.
        all_courses : bool
            Also courses that cannot be added now, such as those of slots that are taken.
        """  # noqa: D205  (models are shown the first paragraph)
        words, unwanted = without_negated(query)
        given: dict[str, Any] = {"slot": slot, "department": department, "field": field}
        given |= {"year": year, "form": form, "without": [*_listed(without), *unwanted]}
        board = self.board
        courses = sorted(board.courses, key=board.gain, reverse=True)
        try:
            filters = read_filters(given, courses)
        except InputError as exc:
            return {"found": 0, "courses": [], "note": str(exc)}
        found = matching(words, filters, courses)
        shown: list[dict[str, Any]] = []
        left_out = Counter[str]()
        for course in found:
            # Looking ahead takes time, and nobody sees more than these.
            obstacle = board.obstacle(course, look_ahead=len(shown) < _MOST_SHOWN)
            if obstacle is None or all_courses:
                shown.append(_shown(course))
            else:
                left_out[obstacle] += 1
        answer: dict[str, Any] = {"found": len(found), "courses": shown[:_MOST_SHOWN]}
        if len(shown) > _MOST_SHOWN:
            answer["more"] = len(shown) - _MOST_SHOWN
        if left_out:
            answer["left_out"] = dict(left_out)
        if not found:
            answer["note"] = why_nothing(words, filters, courses)
        elif not shown:
            answer["note"] = "none of those that were found can be added now"
        if words != query.strip():
            answer["read_as"] = {"query": words, "without": list(unwanted)}
        return answer

    async def add(self, course_id: str) -> Any:
        """Add a course to the timetable; where a rule forbids it, the reason is the answer.

        Parameters
        ----------
        course_id : str
            As search shows it, such as "ST-101".
        """
        try:
            course = self.board.add(course_id)
        except InputError as exc:
            return CallResult.failed("declined", str(exc))
        return {"added": course.id, "slot": course.slot, "credits": self.board.credits}

    async def finish(self) -> Any:
        """Finish the timetable; where a rule is not met yet, that is the answer."""
        try:
            self.board.finish()
        except InputError as exc:
            return CallResult.failed("declined", str(exc))
        chosen = [course.id for course in self.board.chosen]
        return {"finished": True, "courses": chosen, "credits": self.board.credits}


def _listed(value: Texts) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _shown(course: Course) -> dict[str, Any]:
    """Return what is needed to compare a course with others."""
    return {
        "id": course.id,
        "name": course.name,
        "slot": course.slot,
        "form": course.form,
        "assessment": dict(course.assessment),
        "pass_rate": course.pass_rate,
        "credits": course.credits,
        "summary": dict(course.summary),
    }
