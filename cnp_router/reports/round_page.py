"""The pages of a round: of its `Outcome`, or of the `Transcript` of one that failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cnp_router.evaluation.table import Table, count
from cnp_router.protocols import Award, Failure, Outcome, Proposal, Refusal, Transcript
from cnp_router.protocols.messages import Report
from cnp_router.reports.lifelines import category_managers
from cnp_router.reports.listing import limited, not_listed, paragraphs
from cnp_router.reports.page import Page, Section
from cnp_router.reports.sequence import sequence_figure
from cnp_router.reports.shapes import time_text
from cnp_router.reports.token_tables import role_table, tokens_figure

__all__ = ["outcome_page", "transcript_page"]

_MOST_ROWS = 100
_GROUNDS = 240  # characters


def outcome_page(outcome: Outcome, *, facts: Iterable[tuple[str, str]] = ()) -> Page:
    """Return the page of a round.

    Parameters
    ----------
    outcome : Outcome
    facts : iterable of (str, str), default=()
        What else is to be said below the request: label and text.

    Returns
    -------
    Page

    Examples
    --------
    >>> from cnp_router import ContractNet, fit_router, load_sample, offline_model
    >>> catalog = load_sample().catalog
    >>> net = ContractNet(catalog, offline_model(catalog), router=fit_router(catalog))
    >>> page = outcome_page(net.run_sync("Text me when it rains.", protocol="learned"))
    >>> [section.title for section in page.sections]
    ['Recommendation', 'The round', 'Recipients']
    """
    lead = [f"Request: {outcome.request}", _held(outcome)]
    if outcome.choice is not None:
        lead.append(f"Why {outcome.protocol}: {outcome.choice.reason}")
    if outcome.routing is not None:
        lead.append(outcome.routing.verdict)
    if outcome.failure:
        lead.append(f"Nothing came of it: {outcome.failure}")
    lead += [f"{label}: {said}" for label, said in facts]
    first = ("APIs recommended", count(len(outcome.recommendation)))
    asked = f"{len(outcome.recipients):,} of {outcome.n_contractors:,}"
    managers = len(category_managers(outcome.transcript))
    tiles = (
        first,
        ("contractors asked", asked),
        *([("category managers asked", count(managers))] if managers else []),
        *_facts(outcome.transcript),
    )
    proposed = _proposals(outcome.transcript)
    sections = [
        Section("Recommendation", tables=(_recommendation(outcome),)),
        *_round(outcome.transcript),
        *([Section("Who proposed what", tables=(proposed,))] if proposed.rows else []),
        *([Section("Recipients", tables=(_recipients(outcome),))] if _known(outcome) else []),
    ]
    return Page("A round of the Contract Net", paragraphs(lead), tiles, tuple(sections))


def transcript_page(transcript: Transcript, *, facts: Iterable[tuple[str, str]] = ()) -> Page:
    """Return the page of a round without its outcome, or one that failed; see `outcome_page`."""
    lead = [f"Request: {transcript.request}", f"Protocol: {transcript.protocol}"]
    lead += [transcript.failure] if transcript.failure else []
    lead += [f"{label}: {said}" for label, said in facts]
    proposed = _proposals(transcript)
    sections = [
        *_round(transcript),
        *([Section("Who proposed what", tables=(proposed,))] if proposed.rows else []),
    ]
    has_ended = any(isinstance(message, Report) for message in transcript.messages)
    title = "A round of the Contract Net" if has_ended else "A round that failed"
    return Page(title, paragraphs(lead), _facts(transcript), tuple(sections))


def _held(outcome: Outcome) -> str:
    said = f"Protocol: {outcome.protocol}, {outcome.announcement} announcement, "
    said += f"contractors by {outcome.organisation}. Model: {outcome.transcript.model}."
    if outcome.transcript.evidence != "none":
        said += f" Evidence of the router: for {outcome.transcript.evidence}."
    return said


def _facts(transcript: Transcript) -> tuple[tuple[str, str], ...]:
    ledger = transcript.ledger
    estimated = "" if ledger.usage.source == "server" or not ledger.tokens else ", estimated"
    return (
        ("messages", count(ledger.n_messages)),
        ("model calls", count(ledger.model_calls)),
        (f"tokens{estimated}", count(ledger.tokens)),
        ("waves", count(ledger.waves)),
        ("failures", count(sum(ledger.failures.values()))),
        ("took", time_text(transcript.seconds)),
    )


def _round(transcript: Transcript) -> Iterator[Section]:
    if transcript.messages:
        yield Section("The round", figures=(sequence_figure(transcript),))
    if transcript.ledger.tokens:
        figure = tokens_figure(transcript.ledger, transcript.calls)
        yield Section("Tokens", figures=(figure,), tables=(role_table(transcript.ledger),))


def _recommendation(outcome: Outcome) -> Table:
    grounds = outcome.grounds()
    rows = tuple(
        (limited(name, 60), limited(grounds.get(name, ""), _GROUNDS))
        for name in outcome.recommendation[:_MOST_ROWS]
    )
    notes = () if rows else ("No API was recommended.",)
    if not any(said for _, said in rows):
        return Table("", ("API",), tuple(row[:1] for row in rows), notes=notes)
    return Table("", ("API", "grounds"), rows, labels=2, notes=notes)


def _proposals(transcript: Transcript) -> Table:
    """Return each proposal: who, which API, why, and whether it was accepted."""
    taken = {
        (message.in_reply_to, api)
        for message in transcript.messages
        if isinstance(message, Award)
        for api in message.apis
    }
    rows = [
        (
            limited(message.sender, 60),
            limited(proposed.api, 60),
            "late" if message.late else "yes" if (message.id, proposed.api) in taken else "no",
            limited(proposed.grounds, _GROUNDS),
        )
        for message in transcript.messages
        if isinstance(message, Proposal)
        for proposed in message.apis
    ]
    rows.sort(key=lambda row: row[2] != "yes")
    notes = not_listed(len(rows), _MOST_ROWS)
    columns = ("contractor", "API", "accepted", "grounds")
    return Table("", columns, tuple(rows[:_MOST_ROWS]), labels=4, notes=notes)


def _known(outcome: Outcome) -> bool:
    return bool(outcome.recipients or outcome.probabilities)


def _recipients(outcome: Outcome) -> Table:
    """Return who was asked, with the router's probability, and what each answered."""
    answers: dict[str, list[str]] = {}
    for message in outcome.transcript.messages:
        if isinstance(message, Proposal | Refusal | Failure):
            answers.setdefault(message.sender, []).append(message.performative)
    names = list(dict.fromkeys([*outcome.recipients, *outcome.probabilities]))
    p = outcome.probabilities
    names.sort(key=lambda name: (-p.get(name, 0.0), "propose" not in answers.get(name, [])))
    rows = tuple(
        (
            limited(name, 60),
            ", ".join(dict.fromkeys(answers.get(name, []))) or "-",
            f"{p[name]:.2f}" if name in p else "-",
        )
        for name in names[:_MOST_ROWS]
    )
    notes = ["Probability: that the router sees, the highest of a contractor's APIs."]
    notes += not_listed(len(names), _MOST_ROWS)
    columns = ("contractor", "answer", "probability")
    return Table("", columns, rows, labels=2, notes=tuple(notes))
