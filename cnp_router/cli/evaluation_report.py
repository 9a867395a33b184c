"""What `evaluate` prints of its figures: what each one is, in words, and its name in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cnp_router.cli.output import echo, echo_columns, echo_pairs, echo_table, number

if TYPE_CHECKING:
    from cnp_router.evaluation import LearningCurve

__all__ = ["echo_evaluation"]

_BY = {"text": "from the text", "graph": "from the other APIs", "both": "from both"}


def echo_evaluation(result: dict[str, Any], curve: LearningCurve | None) -> None:
    """Print an evaluation, a completion if it has one, and a learning curve."""
    from cnp_router.evaluation.figure_words import GROUPS, worded

    echo_pairs(_facts(result))
    for name, group in GROUPS.items():
        rows = [[f"  {words}", number(value), key] for key, words, value in worded(result, name)]
        if rows:
            echo("", group.long)
            echo_columns(rows, right=[1])
    if "completion" in result:
        _echo_completion(dict(result["completion"]))
    if curve is not None:
        table = curve.table()
        echo("", "Fitted again on parts of the past mashups (learning curve)")
        echo("The figures are those above, each on the same requests.")
        echo_table(table.columns, table.rows, numbers=table.columns)
        for sentence in table.notes:
            echo("", sentence)


def _facts(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Requests", f"{result['requests']:,}"
    left_out = "without a text, or with an API that the model does not know"
    yield "Left out", f"{result['skipped']:,} {left_out}"
    asked = "asked as of that day" if result["dated"] else "which the router was not given"
    yield "With a date", f"{result['with_date']:,}, {asked}"
    share = f"{result['fallback_rate']:.1%} of the requests"
    yield "Not sure", f"{share}, whose confidence is below {result['threshold']:g}"
    if result["complete_if_sure"] is not None:
        right = f"{result['complete_if_sure']:.1%} of the others"
        yield "If sure", f"{right} have recipients that hold all they needed"
    none = f"{result['nothing_fits_rate']:.1%} of the requests"
    yield "Nothing fits", f"{none}; what comes nearest to them is measured"


def _echo_completion(completion: dict[str, Any]) -> None:
    requests = completion.pop("requests")
    depths = {depth: f"first {depth.partition('@')[2]}" for depth in completion["text"]}
    hidden = f"One API hidden in each of {requests:,} mashups, and looked for"
    echo("", f"{hidden}: how often it is among the first (0 to 1, best 1)")
    echo_table(
        ["", *depths.values()],
        ([f"  {_BY[by]}", *map(number, found.values())] for by, found in completion.items()),
        numbers=list(depths.values()),
    )
