"""What `evaluate` prints of its figures: what each one is, in words, and its name in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cnp_router.cli.output import echo, echo_columns, echo_pairs, echo_table, number

if TYPE_CHECKING:
    from cnp_router.evaluation import LearningCurve

__all__ = ["echo_evaluation"]

_FIRST = {  # of a ranking, by what stands before the @
    "recall": "share of the needed APIs among the first {k}",
    "complete": "requests with all of them among the first {k}",
    "ndcg": "the same, the earlier the better, first {k}",
    "map": "precision where each one stands, first {k}",
}
_SETS = {
    "precision": "share of it that is needed",
    "recall": "share of what is needed that is in it",
    "f1": "both in one (their harmonic mean)",
}
_GROUPS: dict[str, tuple[str, dict[str, str]]] = {
    "ranking": ("All APIs, ranked: how early the needed ones come (0 to 1, best 1)", {}),
    "recommendation": (
        "The recommended APIs (0 to 1, best 1)",
        {**_SETS, "mean_apis": "how many APIs, on average"},
    ),
    "categories": ("The predicted categories (0 to 1, best 1)", _SETS),
    "recipients": (
        "The recipients: the contractors that are asked",
        {
            "target_recall": "share of the needed APIs to reach (0 to 1)",
            "recall": "share that was reached",
            "mean": "how many are asked, on average",
            "p50": "in half of the requests at most",
            "p95": "in 95% of the requests at most",
            "total": "how many contractors there are",
        },
    ),
    "calibration": (
        "Probabilities, compared with what was needed (0 to 1, best 0)",
        {
            "ece": "how far they are off, on average",
            "brier": "mean of the squared differences",
        },
    ),
    "latency_ms": (
        "Milliseconds for a request",
        {"p50": "half of the requests take at most", "p95": "95% of them take at most"},
    ),
}
_BY = {"text": "from the text", "graph": "from the other APIs", "both": "from both"}


def echo_evaluation(result: dict[str, Any], curve: LearningCurve | None) -> None:
    """Print an evaluation, a completion if it has one, and a learning curve."""
    echo_pairs(_facts(result))
    for name, (title, labels) in _GROUPS.items():
        echo("", title)
        figures = result[name]
        rows = [[f"  {_label(labels, key)}", number(value), key] for key, value in figures.items()]
        echo_columns(rows, right=[1])
    if "completion" in result:
        _echo_completion(dict(result["completion"]))
    if curve is not None:
        table = curve.table()
        echo("", "Fitted again on parts of the past mashups (learning curve)")
        echo("Shares and errors are those above: recall@5, recall@20, f1, recall, ece.")
        echo_table(table.columns, table.rows, numbers=table.columns)
        for sentence in table.notes:
            echo("", sentence)


def _facts(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Requests", f"{result['requests']:,}"
    yield "Left out", f"{result['skipped']:,}, which name an API that the model does not know"
    asked = "asked as of that day" if result["dated"] else "which the router was not given"
    yield "With a date", f"{result['with_date']:,}, {asked}"
    share = f"{result['fallback_rate']:.1%} of the requests"
    yield "Not sure", f"{share}, whose confidence is below {result['threshold']:g}"
    if result["complete_if_sure"] is not None:
        right = f"{result['complete_if_sure']:.1%} of the other requests"
        yield "If sure", f"the recipients hold all that was needed, in {right}"


def _label(labels: dict[str, str], key: str) -> str:
    if key in labels:
        return labels[key]
    metric, _, k = key.partition("@")
    return _FIRST[metric].format(k=k)


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
