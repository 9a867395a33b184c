"""``cnp-router demo``: the tour, a request answered four ways, side by side."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options
from cnp_router.cli.output import (
    counted,
    echo,
    echo_json,
    echo_lines,
    echo_pairs,
    echo_table,
    reasons,
    recording,
    table_width,
)
from cnp_router.cli.progress import Progress
from cnp_router.files import check_writable

if TYPE_CHECKING:
    from cnp_router.evaluation.side_by_side import Answer, Asked, MeanAnswer
    from cnp_router.routing import Routing

_EVERY = 17  # of the sample, one past request of so many is held out: 40
_REASONS = 4
_FITS = 80  # columns: the costs and what was found side by side
_PICTURE = 72
_HEADING = "bold cyan"
_COSTS = ("asked", "messages", "tokens", "seconds")
_MODEL = (
    "In both rounds the offline model answers, which compares texts: messages and tokens are those "
    "of the real prompts, what it chooses does not measure a language model."
)
_MCP = "import --mcp mcp.json --output apis.jsonl", 'recommend --catalog apis.jsonl "A request"'


@options.command("cnp-router demo", 'cnp-router demo "Warn me by text message before it rains."')
@click.argument("text", required=False)
@options.file("--svg", help="Write a picture of it there too.")
@options.as_json
def demo(*, text: str | None, svg: Path | None, json_: bool) -> None:
    """Show on the bundled sample what this is good for.

    The same request is answered by keyword search over the specifications, by the learned router,
    and by two rounds of the Contract Net, announced to everyone and to those whom the router
    chooses. Without TEXT, the request is a past one that was held out while learning, so that it
    is known what it needs. Takes some ten seconds.
    """
    if text is not None:
        text = options.request_text(text)
    if svg is not None:
        check_writable(svg)
    tour = _held_out() if text is None else _of(text)
    if json_:
        echo_json(tour.to_dict())
    else:
        _echo(tour)
        _echo_next(tour)
    if svg is not None:
        from cnp_router.cli.picture import write_picture

        with recording(_PICTURE) as recorder:
            _echo(replace(tour, seconds=None))
        write_picture(recorder, svg, title="cnp-router demo", says=_in_words(tour))


@dataclass(frozen=True)
class _Tour:
    """What there is to show; `needed`, `held_out` and `means` are empty for an own request."""

    request: str
    answers: tuple[Answer, ...]
    n_apis: int
    n_learned_from: int
    seconds: float | None  # of learning; None where a kept model was loaded
    needed: tuple[str, ...] = ()
    held_out: tuple[Asked, ...] = ()
    means: tuple[MeanAnswer, ...] = ()

    @property
    def routing(self) -> Routing:
        """What the learned router decided."""
        found = self.answers[1].routing
        assert found is not None
        return found

    @property
    def saved(self) -> str:
        """What routing saves of a broadcast."""
        broadcast, routed = (self.means or self.answers)[2:]
        share = f"{routed.tokens / max(broadcast.tokens, 1):.0%} of the tokens of the broadcast"
        if not self.means:
            return f"The routed round takes {share}."
        reached = f"{self.means[3].reached:.0%} of the contractors needed"
        return f"On average, the routed round takes {share} and asks {reached}."

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object; shares and counts that there are not are None."""
        return {
            "request": self.request,
            "needed": list(self.needed) or None,
            "answers": [
                {**answer.to_dict(), "found": _n_found(answer, self.needed)}
                for answer in self.answers
            ],
            "held_out": len(self.held_out) or None,
            "means": [mean.to_dict() for mean in self.means] or None,
            "n_apis": self.n_apis,
            "n_learned_from": self.n_learned_from,
            "seconds_learning": None if self.seconds is None else round(self.seconds, 3),
            "model": "offline",
            "routing": self.routing.to_dict(),
        }


def _held_out() -> _Tour:
    """Learn without some past requests, and ask those."""
    with Progress("Reading the bundled sample", at_once=True):
        from cnp_router.datasets import load_sample
        from cnp_router.evaluation.side_by_side import SideBySide, mean_answers, typical
        from cnp_router.history import History
        from cnp_router.training import fit_router

        sample = load_sample()
        held_out = sample.history[::_EVERY]
        past = History(m for place, m in enumerate(sample.history) if place % _EVERY)
    begun = perf_counter()
    with Progress(f"Learning from {len(past)} past requests", at_once=True) as progress:
        router = fit_router(sample.catalog, past, n_jobs=-1, progress=progress)
    seconds = perf_counter() - begun
    asked: list[Asked] = []
    with Progress(f"Asking {len(held_out)} others in four ways", at_once=True) as progress:
        ways = SideBySide(sample.catalog, past, router)
        for mashup in held_out:
            progress("requests", len(asked), len(held_out))
            asked.append(ways.asked(mashup))
    one = typical(asked)
    return _Tour(
        one.mashup.description,
        one.answers,
        len(sample.catalog),
        len(past),
        seconds,
        one.mashup.apis,
        tuple(asked),
        mean_answers(asked),
    )


def _of(text: str) -> _Tour:
    """Ask a request that nobody knows the needs of."""
    with Progress("Looking for what was learned from the bundled sample", at_once=True):
        from cnp_router.cli.cache import sample_router
        from cnp_router.evaluation.side_by_side import SideBySide
    router = sample_router(at_once=True)
    with Progress("Asking in four ways", at_once=True):
        answers = SideBySide(router.catalog, router.history, router).answers(text)
    return _Tour(text, answers, len(router.catalog), len(router.history), None)


def _n_found(answer: Answer, needed: Sequence[str]) -> int | None:
    return len(set(needed) & set(answer.apis)) if needed else None


def _echo(tour: _Tour) -> None:
    took = "" if tour.seconds is None else f" in {tour.seconds:.1f} s"
    echo(f"Learned from {tour.n_learned_from} past requests what {tour.n_apis} APIs serve{took}.")
    echo("", f"Request  {tour.request}", style=_HEADING)
    if tour.needed:
        echo(f"Needed   {', '.join(tour.needed)}")
    echo()
    _echo_answers(tour)
    echo("", _MODEL)
    echo("", "Why the router says so", style=_HEADING)
    rows = (
        [each.contractor, f"{each.probability:.2f}", reasons(each)]
        for each in tour.routing.recipients[: max(_REASONS, len(tour.routing.recommendation))]
    )
    echo_table(["API", "probability", "why"], rows, numbers=["probability"])
    if tour.means:
        n = len(tour.held_out)
        echo(
            "", f"On average of {n} past requests that were held out while learning", style=_HEADING
        )
        _echo_means(tour.means)
        echo(
            "",
            "Of those that need three APIs or more, the one above is nearest to these averages.",
        )
    echo("", tour.saved)


def _echo_answers(tour: _Tour) -> None:
    n = len(tour.needed)
    found = [_found(answer, tour.needed) for answer in tour.answers]
    rows = [
        [
            answer.method,
            *([f"{_n_found(answer, tour.needed)} of {n}"] if n else []),
            f"{len(answer.contractors):,}",
            f"{answer.messages:,}",
            f"{answer.tokens:,}",
            f"{answer.seconds:.3f}",
        ]
        for answer in tour.answers
    ]
    titles = ["", *(["found"] if n else []), *_COSTS]
    numbers = titles[1:]
    said = "answer" if n == 0 else "answer (* needed)"
    if table_width() >= _FITS:
        rows = [[*row, apis] for row, apis in zip(rows, found, strict=True)]
        echo_table([*titles, said], rows, numbers=numbers)
    else:
        echo_table(titles, rows, numbers=numbers)
        echo()
        methods = (answer.method for answer in tour.answers)
        echo_pairs([("", said), *zip(methods, found, strict=True)])


def _found(answer: Answer, needed: Sequence[str]) -> str:
    """Return what was found, in words where a router says that it does not fit."""
    apis = ", ".join(_marked(answer, needed)) or "nothing"
    fits = answer.routing is None or answer.routing.fits
    return apis if fits else f"nothing fits (nearest: {apis})"


def _marked(answer: Answer, needed: Sequence[str]) -> Iterator[str]:
    return (f"{api}*" if api in needed else api for api in answer.apis)


def _echo_means(means: Sequence[MeanAnswer]) -> None:
    titles = ["", "recall", "F1", "asked", "messages", "tokens"]
    rows = (
        [
            each.method,
            f"{each.recall:.2f}",
            f"{each.f1:.2f}",
            *(f"{n:,.0f}" for n in (each.contractors, each.messages, each.tokens)),
        ]
        for each in means
    )
    echo_table(titles, rows, numbers=titles[1:])


def _echo_next(tour: _Tour) -> None:
    program, own = _program(), '"What you need."'
    echo("", "What next", style=_HEADING)
    again = f"{program} demo {own}" if tour.needed else f"{program} demo"
    echo_lines(f"  {program} recommend {own}\n  {again}")
    echo("", "With your own MCP servers", style=_HEADING)
    echo_lines("\n".join(f"  {program} {command}" for command in _MCP))


def _program() -> str:
    """Return how this command is called here."""
    name = Path(sys.argv[0])
    if name.name == "__main__.py":
        return "python -m cnp_router"
    return name.name if shutil.which(name.name) else str(name)


def _in_words(tour: _Tour) -> str:
    """Return what the picture shows, for those who cannot see it."""
    shown = (
        f"{each.method}: {', '.join(each.apis) or 'nothing'}, with "
        f"{counted(len(each.contractors), 'contractor')} asked and {counted(each.tokens, 'token')}"
        for each in tour.answers
    )
    needs = f" It needs {', '.join(tour.needed)}." if tour.needed else ""
    return f"The request: {tour.request}{needs} {'; '.join(shown)}. {tour.saved}"
