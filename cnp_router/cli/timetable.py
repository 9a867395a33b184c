"""``cnp-router timetable``: a timetable from a form and wishes in plain words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnp_router.cli import options
from cnp_router.cli.output import console, echo, echo_json, note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cnp_router.exceptions import InputError
    from cnp_router.timetable import Course, Form, Question, Reading


@options.command(
    "cnp-router timetable --form form.json",
    'cnp-router timetable "no Friday, more statistics" --form form.json --out timetable.json',
)
@click.argument("text", required=False)
@options.file("--form", help="What you say of the timetable, as JSON.  [default: you are asked]")
@options.file("--out", help="Write the timetable there, so that it can be revised.")
@options.file("--courses", help="Courses to choose from, as JSON Lines.  [default: bundled ones]")
@click.option(
    "--ask/--no-ask",
    "ask_",
    default=None,
    help="Ask for what the form does not say.  [default: at a terminal]",
)
@options.as_json
def timetable(
    *,
    text: str | None,
    form: Path | None,
    out: Path | None,
    courses: Path | None,
    ask_: bool | None,
    json_: bool,
) -> None:
    """Make a timetable that keeps every rule of a form.

    TEXT says in plain words what the form does not, such as "no Friday, at most 16 credits, more
    statistics". Of all timetables that keep the rules it is the one that the preferences like best.
    Where none keeps them, the rules in conflict are named.
    """
    from cnp_router.timetable import Form, load_courses, propose, read_courses

    known = load_courses() if courses is None else read_courses(courses)
    said = Form() if form is None else Form.read(form, courses=known)
    reading = None if text is None else _read(options.request_text(text), said, known)
    said = _complete(said if reading is None else reading.form, known, ask_)
    proposal = propose(said, courses=known, courses_file=courses)
    if out is not None:
        proposal.write(out)
    if json_:
        wishes = None if reading is None else reading.to_dict()
        echo_json({"wishes": wishes} | proposal.report())
        return
    if reading is not None:
        echo(*(f"Understood  {change}" for change in reading.changes), "")
    echo(*proposal.draw(console(sys.stdout).width).split("\n"))


def _read(text: str, form: Form, courses: Sequence[Course]) -> Reading:
    """Return what the text says, and say on standard error what is not understood of it."""
    from cnp_router.timetable import read_wishes

    reading = read_wishes(text, form, courses).something()
    for problem in reading.not_understood:
        note(f"not understood: {problem}", "Warning")
    return reading


def _complete(form: Form, courses: Sequence[Course], ask_: bool | None) -> Form:
    """Return a form in which nothing is missing, or raise what is."""
    from cnp_router.timetable.dialogue import ask

    at_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if not (at_terminal if ask_ is None else ask_):
        return form

    def answer(question: Question) -> str:
        default = "" if question.field == "interests" else None
        return str(
            click.prompt(
                question.text, err=True, default=default, show_default=False, prompt_suffix=" "
            )
        )

    def complain(problem: InputError) -> None:
        note(str(problem), "Error")

    return ask(form, courses, answer, complain)
