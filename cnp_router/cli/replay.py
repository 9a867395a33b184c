"""``cnp-router replay``: what predicting the next tool would have saved on a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import llm_options, options
from cnp_router.cli.billing import money
from cnp_router.cli.html_page import write_page
from cnp_router.cli.output import counted, echo, echo_json, echo_pairs, echo_table, number
from cnp_router.exceptions import InputError

if TYPE_CHECKING:
    from cnp_router.evaluation import PrequentialEvaluation
    from cnp_router.evaluation.prequential import AtThreshold, PredictorEvaluation
    from cnp_router.llm import Prices

_FIGURES = {
    "coverage": "coverage",
    "accuracy": "accuracy",
    "tokens saved": "tokens_saved",
    "tokens saved less errors": "tokens_saved_net",
    "seconds saved": "seconds_saved",
}


_LEGEND = (
    "Method: what a step is predicted from. Threshold: the least confidence that is acted upon. "
    "The others are shares, from 0 to 1. Coverage: of the steps, those that are predicted. "
    "Accuracy: of these, those predicted rightly. Saved: of the tokens and seconds of the log; "
    "less errors, the tokens of steps predicted wrongly are taken off."
)


@dataclass(frozen=True, slots=True)
class _Priced:
    """What the tokens of a log cost: those of one model, for a log does not say whose they are."""

    prices: Prices
    model: str

    @classmethod
    def read(cls, prices: Path | None, log_model: str | None) -> _Priced | None:
        """Return the prices that the options name; None if there are none."""
        listed = llm_options.read_prices(prices)
        if listed is None:
            if log_model is not None:
                raise click.UsageError("--log-model needs --prices.")
            return None
        if log_model is None and len(listed.models) > 1:
            raise click.UsageError(f"{prices} has several models: name one with --log-model.")
        model = log_model or next(iter(listed.models))
        if model not in listed.models:
            known = ", ".join(listed.models)
            raise InputError(f"{prices} has no price of the model {model!r} (it has: {known})")
        return cls(listed, model)

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """Return the price of some tokens."""
        from cnp_router.llm import Usage

        price = self.prices.price(self.model, Usage(tokens_in, tokens_out, "server"))
        assert price is not None  # the model is listed
        return price

    def saved(self, at: AtThreshold) -> float:
        """Return what is saved at a threshold."""
        return self.of(at.tokens_in_saved, at.tokens_out_saved)

    def to_dict(self, found: PrequentialEvaluation) -> dict[str, Any]:
        """Return the price of a log as a JSON object, and what is saved, by method."""
        return {
            "currency": self.prices.currency,
            "model": self.model,
            "total": self.of(found.tokens_in, found.tokens_out),
            "saved": {
                name: [{"threshold": at.threshold, "price": self.saved(at)} for at in m.thresholds]
                for name, m in found.methods.items()
            },
        }


@options.command(
    "cnp-router replay --trajectories trajectories.jsonl",
    "cnp-router replay --trajectories trajectories.jsonl --threshold 0.8 --json",
    "cnp-router replay --trajectories trajectories.jsonl --exclude unknown",
)
@options.files(
    "--trajectories", help="The log to replay: what agents did, as JSON Lines.", required=True
)
@options.files("--warm", help="Trajectories to learn from beforehand.")
@options.several(
    "--threshold",
    "thresholds",
    type=options.Finite(0, 1),
    metavar="X",
    help="Act on predictions from this confidence on, from 0 to 1.",
    default="0.3 to 0.95",
)
@options.several(
    "--exclude",
    metavar="TOOL",
    help="Do not act on a prediction of this tool. Its steps count all the same.",
)
@options.gathered(
    "priced",
    _Priced.read,
    llm_options.prices,
    click.option(
        "--log-model",
        metavar="NAME",
        help="Which of the priced models took the log's tokens.  [default: the only one]",
    ),
)
@options.html
@options.as_json
def replay(
    *,
    trajectories: tuple[Path, ...],
    warm: tuple[Path, ...],
    priced: _Priced | None,
    html: Path | None,
    json_: bool,
    **how: Any,
) -> None:
    """Count what predicting each step of a log would have saved.

    Each step is predicted from what came before it only, and then learned from. Tokens and seconds
    saved are shares of the log's, for the steps that are predicted rightly; less errors, they lose
    the tokens of the steps predicted wrongly. No model is asked: --prices say what the log's tokens
    have cost, and those saved.
    """
    from cnp_router.evaluation import prequential
    from cnp_router.trajectories import read_trajectories

    log = read_trajectories(trajectories)
    before = read_trajectories(warm) if warm else ()
    found = prequential(None, log, warm=before, **options.given(**how))
    if json_:
        echo_json(found.to_dict() | ({} if priced is None else {"price": priced.to_dict(found)}))
    else:
        _echo(found, priced)
    write_page(found, html, aside=json_, facts=tuple(_paid(found, priced)))


def _echo(found: PrequentialEvaluation, priced: _Priced | None) -> None:
    titles = ["threshold", *_FIGURES, *(["price saved"] if priced else [])]
    rows = (row for name, method in found.methods.items() for row in _rows(name, method, priced))
    echo_table(["method", *titles], rows, numbers=titles)
    echo("", _LEGEND, "")
    echo_pairs(_facts(found, priced))


def _facts(found: PrequentialEvaluation, priced: _Priced | None) -> Iterator[tuple[str, str]]:
    steps, runs = counted(found.n_steps, "step"), counted(found.n_trajectories, "run")
    before = f", having learned from {counted(found.n_warm, 'other')}" if found.n_warm else ""
    yield "Replayed", f"{steps} in {runs}{before}"
    if found.exclude:
        yield "Not acted upon", ", ".join(found.exclude)
    yield "Cost", f"{counted(found.tokens, 'token')} and {found.seconds:,.1f} seconds"
    yield from _paid(found, priced)
    for name, method in found.methods.items():
        if not method.predicts:
            continue
        off = f"{method.calibration_error:.3f} off on average (ECE; 0 is best)"
        yield f"Confidence of {name}", off
    yield "Advice", found.advice


def _paid(found: PrequentialEvaluation, priced: _Priced | None) -> Iterator[tuple[str, str]]:
    if priced is not None:
        paid = money(priced.of(found.tokens_in, found.tokens_out), priced.prices.currency)
        yield "Price", f"{paid}, if {priced.model} took the tokens"


def _rows(name: str, method: PredictorEvaluation, priced: _Priced | None) -> Iterator[list[str]]:
    acted = any(at.coverage for at in method.thresholds)
    for at in method.thresholds if acted else method.thresholds[:1]:
        figures = (number(getattr(at, figure)) for figure in _FIGURES.values())
        saved = [] if priced is None else [money(priced.saved(at))]
        yield [name, f"{at.threshold:.2f}" if acted else "any", *figures, *saved]
