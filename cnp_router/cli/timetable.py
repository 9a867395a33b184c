"""``cnp-router timetable``: a timetable from a form and wishes in plain words."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.output import console, echo, echo_json, echo_pairs, note
from cnp_router.exceptions import CnpRouterError, DataFileError, ExecutionError
from cnp_router.files import is_same_file
from cnp_router.records import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cnp_router.exceptions import InputError
    from cnp_router.planning import Run
    from cnp_router.timetable import Course, Form, Proposal, Question, Reading

Method = Literal["solver", "plan", "react"]


@options.command(
    "cnp-router timetable --form form.json",
    'cnp-router timetable "no Friday, more film" --form form.json --output my.json',
)
@click.argument("text", required=False)
@options.file("--form", help="What you say of the timetable, as JSON.  [default: you are asked]")
@options.file("--output", help="Write the timetable there, for cnp-router execute --revise.")
@options.file("--courses", help="Courses to choose from, as JSON Lines.  [default: bundled ones]")
@click.option(
    "--ask/--no-ask",
    "ask_",
    default=None,
    help="Ask for what the form does not say.  [default: at a terminal]",
)
@options.choice(
    "--method",
    of=["solver", "plan", "react"],
    default="solver",
    help="The best timetable by a solver; or one by language models: a plan by a planner, whose "
    "jobs executors do, or one agent that chooses call after call.",
)
@llm_options.chat_options(
    "Who plans and chooses, with --method plan or react", "nobody", ("planner", "executor")
)
@options.as_json
def timetable(
    *,
    text: str | None,
    form: Path | None,
    output: Path | None,
    courses: Path | None,
    ask_: bool | None,
    method: Method,
    chat: llm_options.Chat,
    json_: bool,
) -> None:
    """Make a timetable that keeps every rule of a form.

    TEXT says in plain words what the form does not, such as "no Friday, at most 16 credits, more
    statistics". Of all timetables that keep the rules it is the one that the preferences like best.
    Where none keeps them, the rules in conflict are named.
    """
    from cnp_router.timetable import Form, load_courses, propose, read_courses

    _check(method, chat)
    _check_output(output, {"form": form, "courses": courses})
    known = load_courses() if courses is None else read_courses(courses)
    said = Form() if form is None else _read_form(form, known)
    reading = None if text is None else _read(options.request_text(text), said, known)
    said = _complete(said if reading is None else reading.form, form, known, ask_)
    run = None
    if method == "solver":
        proposal = propose(said, courses=known, courses_file=courses)
    else:
        proposal, run = _by_models(said, method, chat, known, courses, reading, json_)
    if output is not None and not proposal.broken:
        proposal.write(output)
    _print(proposal, reading, run, chat, json_)
    if proposal.broken:
        unwritten = "" if output is None else f" ({output} is not written)"
        raise ExecutionError(
            f"the timetable is not finished: {'; '.join(map(str, proposal.broken))}{unwritten}"
        )


def _check(method: Method, chat: llm_options.Chat) -> None:
    """Raise UsageError for options that do not go together."""
    if method == "solver" and (chat.llm is not None or chat.roles):
        raise click.UsageError("A language model goes with --method plan or react.")
    needed = ("planner", "executor") if method == "plan" else ("single-agent",)
    if method != "solver" and not all(chat.asks_server(role) for role in needed):
        raise click.UsageError(
            f"--method {method} needs a language model on a server, --llm openai: the offline one "
            "cannot choose courses."
        )


def _check_output(output: Path | None, inputs: dict[str, Path | None]) -> None:
    """Raise DataFileError where the timetable would overwrite what it is made of."""
    for what, file in inputs.items():
        if output is not None and file is not None and is_same_file(output, file):
            problem = f"this is the file of --{what}, which is read"
            raise DataFileError(output, problem, cure="give --output another name")


def _read_form(path: Path, courses: Sequence[Course]) -> Form:
    """Return the form of a file, and say what of its interests no course is about."""
    from cnp_router.timetable import Form
    from cnp_router.timetable.interests import unknown_interests

    form = Form.read(path, courses=courses)
    for each in unknown_interests(form.interests or "", courses):
        note(f"{path}: interests: no course has to do with {shown(each)}", "Warning")
    return form


def _by_models(
    form: Form,
    method: Literal["plan", "react"],
    chat: llm_options.Chat,
    courses: Sequence[Course],
    file: Path | None,
    reading: Reading | None,
    json_: bool,
) -> tuple[Proposal, Run]:
    from cnp_router.timetable.by_models import propose_by_models

    until_then: list[tuple[Proposal, Run]] = []
    made = propose_by_models(
        form,
        method=method,
        model=chat.model,
        courses=courses,
        courses_file=file,
        cut_short=lambda *reached: until_then.append(reached),
    )
    try:
        return asyncio.run(made)
    except (KeyboardInterrupt, CnpRouterError) as exc:
        for proposal, run in until_then:
            stopped = isinstance(exc, KeyboardInterrupt)
            note("Interrupted. Until then:" if stopped else "Until then:")
            _print(proposal, reading, run, chat, json_)
        raise


def _print(
    proposal: Proposal,
    reading: Reading | None,
    run: Run | None,
    chat: llm_options.Chat,
    json_: bool,
) -> None:
    """Print what was understood, the timetable, and what models took for it."""
    from cnp_router.cli.billing import price_facts, with_price
    from cnp_router.cli.execution_run import run_facts

    bill = None if run is None else chat.bill(run.model_calls)
    if json_:
        wishes = None if reading is None else reading.to_dict()
        models = None if run is None else run.to_dict()
        report = {"wishes": wishes} | proposal.report() | {"run": models}
        echo_json(with_price(report, bill))
        return
    if reading is not None:
        understood = [f"Understood  {change}" for change in reading.changes]
        as_before = [f"Nothing had to change ({same})" for same in reading.as_before]
        echo(*understood, *as_before, "")
    echo(*proposal.draw(console(sys.stdout).width).split("\n"))
    if run is not None:
        echo()
        echo_pairs([*run_facts(run), *price_facts(bill, chat.prices)])


def _read(text: str, form: Form, courses: Sequence[Course]) -> Reading:
    """Return what the text says, and say on standard error what is not understood of it."""
    from cnp_router.timetable import read_wishes
    from cnp_router.timetable.wish_phrases import WORKS

    reading = read_wishes(text, form, courses).something()
    for problem in reading.not_understood:
        note(f"not understood: {problem}", "Warning")
    if reading.not_understood:
        note(f"words that work: {WORKS}")
    return reading


def _complete(form: Form, path: Path | None, courses: Sequence[Course], ask_: bool | None) -> Form:
    """Return a form in which nothing is missing; DataFileError if nobody can be asked."""
    from cnp_router.timetable.dialogue import ask

    at_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if not (at_terminal if ask_ is None else ask_):
        if path is not None and (missing := form.missing()):
            fields = ", ".join(question.field for question in missing)
            cure = f"add it; first: {missing[0].text}"
            raise DataFileError(path, f"the form does not say {fields}", cure=cure)
        return form

    def answer(question: Question) -> str:
        default = "" if question.field == "interests" else None
        text = f"{question.text} "
        return str(click.prompt(text, default, show_default=False, prompt_suffix="", err=True))

    def complain(problem: InputError) -> None:
        note(str(problem), "Error")

    return ask(form, courses, answer, complain)
