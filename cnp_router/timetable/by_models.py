"""A timetable made by language models: planned and executed, or by one agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from cnp_router.catalog import Catalog
from cnp_router.exceptions import InputError
from cnp_router.execution import Executor, Filler, allow_writes
from cnp_router.llm import ChatModel
from cnp_router.planning import PlanAndExecute, Planner, ReAct, Run
from cnp_router.protocols import ContractNet
from cnp_router.records import shown
from cnp_router.sources import Sources
from cnp_router.timetable.board import Board
from cnp_router.timetable.course import Course, load_courses, read_courses
from cnp_router.timetable.form import Form
from cnp_router.timetable.proposal import Proposal
from cnp_router.timetable.timetable_tools import TimetableTools

__all__ = ["propose_by_models"]

REQUEST = (
    "Make a timetable for this semester that suits the student: search courses, add those that fit "
    "best until the credits suffice, and finish."
)


async def propose_by_models(
    form: Form,
    *,
    method: Literal["plan", "react"],
    model: Callable[[Catalog], ChatModel],
    courses: Sequence[Course] | None = None,
    courses_file: str | Path | None = None,
    cut_short: Callable[[Proposal, Run], None] | None = None,
) -> tuple[Proposal, Run]:
    """Return the timetable that models make of a form, and what they did.

    The rules are those of the solver, and the engine keeps them: no model breaks one. Which courses
    are best is up to the models, and so the timetable may end short of a rule such as the credits:
    `Run.unmet` names it, and so does `Proposal.broken`.

    Parameters
    ----------
    form : Form
        Nothing may be missing in it.
    method : {"plan", "react"}
        A planner and executors, or one agent.
    model : callable
        Gets the catalog of the tools, returns the model; a `cnp_router.llm.ModelsByRole` has others
        for planner and executor.
    courses, courses_file
        As of `cnp_router.timetable.propose`.
    cut_short : callable, optional
        Gets how far it came where it ends early: by an error, or because it was cancelled.

    Raises
    ------
    InfeasibleError
        If no timetable keeps the rules: names those in conflict. No model is asked.
    InputError
        If something is missing in the form, or does not fit the courses.
    LanguageModelError
        If there is no usable plan.
    """
    if method not in ("plan", "react"):
        raise InputError(f"method must be 'plan' or 'react', got {shown(method)}")
    file = None if courses_file is None else str(Path(courses_file).resolve())
    if courses is None:
        courses = load_courses() if file is None else read_courses(file)
    board = Board(courses, form=form)
    async with Sources([TimetableTools(board)]) as sources:
        catalog = await sources.catalog()
        async with model(catalog) as asked:
            net = ContractNet(catalog, asked)
            executor = Executor(net, sources, approve=allow_writes, filler=Filler(asked))
            made = PlanAndExecute(Planner(asked), executor) if method == "plan" else ReAct(executor)
            try:
                run = await made.run(
                    REQUEST, apis=tuple(catalog), workspace=board, profile=_profile(form)
                )
            except BaseException:
                if cut_short is not None and made.last is not None:
                    cut_short(_proposal(board, form, method, file), made.last)
                raise
    return _proposal(board, form, method, file), run


def _proposal(board: Board, form: Form, method: str, file: str | None) -> Proposal:
    chosen = tuple(course.id for course in board.chosen)
    return Proposal(form, chosen, method, courses_file=file, courses=board.courses)


def _profile(form: Form) -> str:
    """Return the wishes of a form in words; its rules are the board's."""
    said = [f"A student of {form.department} in year {form.year}."]
    if form.interests:
        said.append(f"Interested in {form.interests}.")
    for kind in ("forms", "assessment", "fields"):
        liking = getattr(form, kind)
        for verb, names in (("Likes", liking.liked), ("Avoids", liking.avoided)):
            said += [f"{verb} {name.replace('_', ' ')}." for name in names]
    return " ".join(said)
