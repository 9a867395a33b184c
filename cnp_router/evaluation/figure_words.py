"""What each figure of an evaluation is, in words: for the terminal, a page and a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["GROUPS", "FigureGroup", "worded"]

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


@dataclass(frozen=True, slots=True)
class FigureGroup:
    """Figures of one thing.

    Parameters
    ----------
    title : str
    says : str
        What follows the title where there is room; may be empty.
    range : str
        Between what the figures are, and which is best; empty where they differ in that.
    labels : mapping of str to str
        Name in JSON to what it is; none of a ranking, whose names say how many come first.
    """

    title: str
    says: str
    range: str
    labels: Mapping[str, str]

    @property
    def short(self) -> str:
        """The title, with the range."""
        return f"{self.title}{self.range}"

    @property
    def long(self) -> str:
        """The title, with what it says and the range."""
        return f"{self.title}{self.says}{self.range}"


GROUPS: Mapping[str, FigureGroup] = {
    "ranking": FigureGroup(
        "All APIs, ranked", ": how early the needed ones come", " (0 to 1, best 1)", {}
    ),
    "recommendation": FigureGroup(
        "The recommended APIs",
        "",
        " (0 to 1, best 1)",
        {**_SETS, "mean_apis": "how many APIs, on average"},
    ),
    "categories": FigureGroup("The predicted categories", "", " (0 to 1, best 1)", _SETS),
    "recipients": FigureGroup(
        "The recipients",
        ": the contractors that are asked",
        "",
        {
            "target_recall": "share of the needed APIs to reach (0 to 1)",
            "recall": "share that was reached",
            "mean": "how many are asked, on average",
            "p50": "in half of the requests at most",
            "p95": "in 95% of the requests at most",
            "total": "how many contractors there are",
        },
    ),
    "calibration": FigureGroup(
        "Probabilities",
        ", compared with what was needed",
        " (0 to 1, best 0)",
        {
            "ece": "how far they are off, on average",
            "brier": "mean of the squared differences",
        },
    ),
    "latency_ms": FigureGroup(
        "Milliseconds for a request",
        "",
        "",
        {"p50": "half of the requests take at most", "p95": "95% of them take at most"},
    ),
}
"""The figures of `Evaluation.to_dict`, by name there."""


def worded(result: Mapping[str, Any], group: str) -> Iterator[tuple[str, str, float | None]]:
    """Yield name, words and value of the figures of a group of `Evaluation.to_dict`.

    Figures of the first so many are left out where there are no more APIs than that: all of them
    would be the first.

    Examples
    --------
    >>> result = {"ranking": {"recall@2": 0.5, "recall@5": 1.0}, "recipients": {"total": 4}}
    >>> list(worded(result, "ranking"))
    [('recall@2', 'share of the needed APIs among the first 2', 0.5)]
    """
    labels, total = GROUPS[group].labels, result["recipients"]["total"]
    for name, value in result[group].items():
        metric, _, k = name.partition("@")
        if not k:
            yield name, labels[name], value
        elif int(k) < total:
            yield name, _FIRST[metric].format(k=k), value
