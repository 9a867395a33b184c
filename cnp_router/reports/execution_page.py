"""The pages of an `Execution`, of a `Run` of a planner or an agent, and of a `Plan`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from cnp_router.catalog import Catalog
from cnp_router.evaluation.table import Table, count
from cnp_router.execution import Act, Execution, JobReport, Plan
from cnp_router.execution.sharing import HIDDEN
from cnp_router.llm.redaction import without_secrets
from cnp_router.planning import Run
from cnp_router.protocols import Ledger, Transcript
from cnp_router.reports.listing import limited, not_listed, paragraphs
from cnp_router.reports.page import Figure, Page, Section
from cnp_router.reports.plan_graph import execution_figure
from cnp_router.reports.plan_levels import plan_figure
from cnp_router.reports.sequence import sequence_figure
from cnp_router.reports.shapes import time_text
from cnp_router.reports.token_tables import role_table

__all__ = ["execution_page", "plan_page", "run_page"]

_RESULT = 600  # characters of a result
_INPUTS = 160  # of inputs
_MOST_ROWS = 200
_MOST_ROUNDS = 5

_HOW = {
    "award": "awarded",
    "re-award": "awarded again",
    "directed": "named",
    "fallback": "fallback",
    "direct": "called directly",
    "earlier": "known: called before",
    "context": "known: shared context",
}


def execution_page(
    execution: Execution,
    *,
    catalog: Catalog | None = None,
    facts: Iterable[tuple[str, str]] = (),
) -> Page:
    """Return the page of an execution.

    What is confidential is not on it, and neither are secrets that can be told by name or shape.

    Parameters
    ----------
    execution : Execution
    catalog : Catalog, optional
        Says which calls may have changed something.
    facts : iterable of (str, str), default=()
        What else is to be said below the request, such as a price: label and text.

    Returns
    -------
    Page

    Examples
    --------
    >>> page = execution_page(Execution("a1", "Rain?", None, (), (), 0.2, "nothing was awarded"))
    >>> page.title, page.lead
    ('Not done: an execution', ('Request: Rain?', 'Broken off: nothing was awarded'))
    """
    return _page(execution, list(_lead(execution, facts)), catalog)


def run_page(
    run: Run, *, catalog: Catalog | None = None, facts: Iterable[tuple[str, str]] = ()
) -> Page:
    """Return the page of a run of a planner or an agent; see `execution_page`."""
    lead = list(_lead(run.execution, facts))
    if run.unmet:
        lead.append(f"Rules that are not met: {'; '.join(run.unmet)}")
    if revised := len(run.plans) - 1 if run.plans else 0:
        lead.append(f"Planned anew {revised} times; {len(run.failed)} jobs had failed.")
    turns = (Section("Turns of the agents", tables=(_turns(run),)),) if run.turns else ()
    return _page(run.execution, lead, catalog, ledger=run.ledger, more=turns)


def plan_page(plan: Plan, *, facts: Iterable[tuple[str, str]] = ()) -> Page:
    """Return the page of a plan that was not executed."""
    lead = [f"Request: {plan.request}"]
    lead += [f"Guideline: {plan.guideline}"] if plan.guideline else []
    lead += [f"{label}: {said}" for label, said in facts]
    tiles = (
        ("jobs", count(len(plan.jobs))),
        ("levels", count(len(plan.levels))),
        ("parallelism", count(plan.parallelism)),
    )
    section = Section("Jobs", figures=(plan_figure(plan),))
    return Page("A plan, not executed", paragraphs(lead), tiles, (section,))


def _lead(execution: Execution, facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"Request: {execution.request}"
    if execution.problem:
        yield f"Broken off: {execution.problem}"
    if execution.unmet:
        yield f"Rules that are not met: {'; '.join(execution.unmet)}"
    if execution.context_problem:
        yield f"Without shared context: {execution.context_problem}"
    for why in dict.fromkeys(job.lost for job in execution.jobs if job.lost):
        names = ", ".join(job.id for job in execution.jobs if job.lost == why)
        yield f"Called directly: {names}: {limited(why, _RESULT)}"
    for label, said in facts:
        yield f"{label}: {said}"


def _page(
    execution: Execution,
    lead: list[str],
    catalog: Catalog | None,
    *,
    ledger: Ledger | None = None,
    more: tuple[Section, ...] = (),
) -> Page:
    paid = ledger or Ledger.of((), execution.model_calls)
    sections = []
    if execution.plan is not None:
        figure = execution_figure(execution)
        sections.append(Section("Jobs and times", figures=(figure,)))
    if execution.jobs:
        sections.append(Section("Results", tables=(_results(execution),)))
    if execution.acts:
        acts = _acts(execution, catalog)
        sections.append(Section("What was called", tables=(acts,)))
    if rounds := _rounds(execution.transcripts):
        sections.append(rounds)
    sections += more
    if paid.tokens:
        sections.append(Section("Tokens", tables=(role_table(paid),)))
    title = "Done: an execution" if execution.is_done else "Not done: an execution"
    return Page(title, paragraphs(lead), _facts(execution, paid), tuple(sections))


def _facts(execution: Execution, paid: Ledger) -> tuple[tuple[str, str], ...]:
    done = sum(job.state == "done" for job in execution.jobs)
    moved = sum(act.by in ("re-award", "fallback") for act in execution.acts)
    asked = sum(t.ledger.messages.get("cfp", 0) for t in execution.transcripts)
    estimated = "" if paid.usage.source == "server" or not paid.tokens else ", estimated"
    some = {
        "calls repeated": execution.n_retries,
        "awarded again": moved,
        "known, not called": execution.n_avoided,
        "calls for proposals": asked,
    }
    return (
        ("jobs done", f"{done} of {len(execution.jobs)}"),
        ("took", time_text(execution.seconds)),
        ("parallelism", count(execution.plan.parallelism if execution.plan else 0)),
        ("calls of tools", count(execution.n_calls)),
        *((label, count(number)) for label, number in some.items() if number),
        (f"tokens{estimated}", count(paid.tokens)),
    )


def _results(execution: Execution) -> Table:
    jobs = execution.jobs[:_MOST_ROWS]
    rows = tuple(
        (limited(job.id, 60), job.state, limited(job.api or "", 60), _came_to(job)) for job in jobs
    )
    notes = not_listed(len(execution.jobs), _MOST_ROWS, "more jobs")
    return Table("", ("job", "state", "by", "result"), rows, labels=4, notes=notes)


def _came_to(job: JobReport) -> str:
    if job.problem:
        return limited(job.problem, _RESULT)
    return _result(job.acts[-1]) if job.acts else ""


def _result(act: Act) -> str:
    """Return what an act gave, as a text that can be shown to others."""
    result = act.result
    if act.is_confidential:
        return HIDDEN if result.failure is None else f"{result.failure.kind} ({HIDDEN})"
    if result.failure is not None:
        said = f"{result.failure.kind}: {result.failure.message}"
        return limited(said, _RESULT)
    text = _json(result.data)
    attached = f"{len(result.attachments)} attachments" if result.attachments else ""
    return limited(text, _RESULT) or attached


def _json(data: Any) -> str:
    shown = without_secrets(data)
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, default=str)


def _acts(execution: Execution, catalog: Catalog | None) -> Table:
    jobs = [*execution.failed, *execution.jobs]
    acts = [(job, act) for job in jobs for act in job.acts]
    rows = tuple(
        (
            limited(job.id, 60),
            limited(act.api, 60),
            _HOW[act.by],
            *([] if catalog is None else [_changed(act, catalog)]),
            HIDDEN if act.is_confidential else limited(_json(dict(act.inputs)), _INPUTS),
            "ok" if act.result.failure is None else limited(_result(act), 200),
            count(act.attempts),
            f"{act.seconds:.3f}",
            count(act.result.n_bytes),
        )
        for job, act in acts[:_MOST_ROWS]
    )
    notes = not_listed(len(acts), _MOST_ROWS)
    named = ("job", "tool", "how", *(["changes"] if catalog else []), "inputs", "end")
    columns = (*named, "calls", "seconds", "bytes")
    return Table("", columns, rows, labels=len(named), notes=notes)


def _changed(act: Act, catalog: Catalog) -> str:
    """Return whether an act changed something, as far as anybody knows."""
    effects = catalog[act.api].effects if act.api in catalog else "unknown"
    failure = act.result.failure
    if not act.attempts or effects == "reads" or (failure and failure.was_done == "no"):
        return ""
    return "changed" if failure is None and effects == "writes" else "may have changed"


def _rounds(transcripts: tuple[Transcript, ...]) -> Section | None:
    """Return the rounds in which somebody was asked; where there is none, the longest one."""
    if not transcripts:
        return None
    longest = sorted(range(len(transcripts)), key=lambda n: -len(transcripts[n].messages))
    asked = [n for n in longest if "cfp" in transcripts[n].ledger.messages]
    shown = [transcripts[n] for n in sorted(asked[:_MOST_ROUNDS] or longest[:1])]
    figures: list[Figure] = [
        sequence_figure(each, f"{each.protocol}: {limited(each.request, 90)}") for each in shown
    ]
    left = len(transcripts) - len(shown)
    text = (f"Drawn are the longest rounds; {left:,} more are not.",) if left else ()
    title = "The round" if len(transcripts) == 1 else f"The rounds ({len(transcripts):,})"
    return Section(title, text, tuple(figures))


def _turns(run: Run) -> Table:
    turns = run.turns[:_MOST_ROWS]
    kept = {act.api for act in run.execution.acts if act.is_confidential}
    rows = tuple(
        (
            limited(turn.job, 60),
            str(turn.number),
            turn.kind,
            limited(turn.tool, 60),
            HIDDEN if turn.tool in kept else limited(_json(dict(turn.inputs)), _INPUTS),
            limited(_json(turn.seen), 200),
        )
        for turn in turns
    )
    notes = not_listed(len(run.turns), _MOST_ROWS, "more turns")
    columns = ("job", "turn", "what it was", "tool", "inputs", "what the agent was told")
    return Table("", columns, rows, labels=6, notes=notes)
