"""How good a router is by how many past mashups it has, from none to all."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data, learning_curve_plots, peers
from benchmarks.peers import PEERS, FittedPeer
from benchmarks.report import environment, heading, number, table
from benchmarks.vectors import load_vectors
from cnp_router.catalog import Catalog
from cnp_router.cluster import working
from cnp_router.evaluation.evaluate import RequestFigures, request_figures
from cnp_router.evaluation.metrics import ece
from cnp_router.evaluation.parallel import in_order
from cnp_router.evaluation.plots import check_plots
from cnp_router.history import History, Mashup
from cnp_router.pool import Pool
from cnp_router.routing import HistoryKNNRouter, Router, SpecificationRouter, TargetRecall
from cnp_router.text import TfidfEncoder, dense_product
from cnp_router.training import fit_router

__all__ = [
    "DRAWS",
    "LIMIT",
    "NEED_HISTORY",
    "ROUTERS",
    "SIZES",
    "TfidfRouter",
    "repeats",
    "run",
    "verdict",
]

SIZES = ("0", "5", "15", "60", "120", "250", "all")
DRAWS = 5
LIMIT = 300

_HELD_OUT = 200  # of the sample
_REPEATS = 40
_DROPPED = 0.2  # of the words of a repeat
_TOLERATED = 0.01
_ERRORS = 2  # standard errors

_LEARNED = "learned"
_COVERED = "recall of recipients"
Build = Callable[[Catalog, History], Router | FittedPeer]

_FIGURES: Mapping[str, Callable[[RequestFigures], float]] = {
    "R@5": lambda figures: figures.ranking["recall@5"],
    "R@20": lambda figures: figures.ranking["recall@20"],
    "F1": lambda figures: figures.recommendation["f1"],
    # A peer has no recipients.
    _COVERED: lambda figures: figures.recipients.get("recall", np.nan),
    "recipients": lambda figures: figures.recipients.get("mean", np.nan),
}
_COMPARED = ("R@5", "R@20", "F1")
_DEPTHS = (5, 20)
_KINDS = tuple((kind, k) for kind in ("warm", "cold") for k in _DEPTHS)


class _TfidfIndex:
    """The cosine of a text and each document, on a scale like that of log-odds."""

    _SCALE = 20.0

    def __init__(self, documents: Sequence[str]) -> None:
        self._encoder = TfidfEncoder("word", min_df=1)
        self._by_term = self._encoder.fit_transform(documents).T.tocsr()

    def scores(self, text: str) -> NDArray[Any]:
        (cosines,) = dense_product(self._encoder.transform([text]), self._by_term)
        return np.asarray(cosines, dtype=np.float64) * self._SCALE

    def shared_words(self, *_: Any) -> list[tuple[str, ...]]:
        return []


class TfidfRouter(SpecificationRouter):
    """As the specification router, by TF-IDF of words and pairs of words instead of BM25."""

    def __init__(self, catalog: Catalog, history: History | None = None) -> None:
        super().__init__(catalog)
        texts = [" ".join((api.name, api.description, *api.categories)) for api in catalog]
        self._index: Any = _TfidfIndex(texts)
        if history:
            self._calibrate(history)


ROUTERS: dict[str, Callable[[Catalog, History], Router]] = {
    _LEARNED: lambda catalog, history: fit_router(catalog, history or None),
    "BM25": SpecificationRouter,
    "TF-IDF": TfidfRouter,
    "nearest requests": HistoryKNNRouter,
}
NEED_HISTORY = ("nearest requests",)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure all routers and peers at all sizes and print the tables."""
    if options.plots:
        check_plots()
    splits = data.load_limited(options.data, _HELD_OUT, options.limit, options.seed)
    facts = environment(options.seed)
    heading(f"Learning curve on {splits.name}", facts)
    print(f"{len(splits.catalog)} APIs. Requests: {splits.asked}; figures are means over them.")
    print(f"Up to {len(splits.train)} past mashups, drawn at random {options.draws} times;")
    print("none and all of them are one draw. Recipients are those of a target recall of .90.")
    print("Of what was needed, APIs that the past mashups use are warm, others cold. Requests are")
    print("asked as of their date, where they have one.\n")
    builds = {**ROUTERS, **_peers(splits, options)}
    results: dict[str, Any] = {name: {} for name in splits.held_out}
    with working(1, options.scheduler) as pool:
        for size in options.sizes:
            n = len(splits.train) if size == "all" else int(size)
            if n <= len(splits.train):
                measured = _measure(splits, builds, n, options, pool)
                for split, found in measured.items():
                    results[split][size] = found
                    _print_size(n, split, found)
    for split, sizes in results.items():
        print(f"## Learned against the best of the others, {split}\n")
        table([_COMPARISON_HEAD, *_comparison_rows(sizes)])
    drops = sum(
        c["verdict"] == "drop"
        for sizes in results.values()
        for found in sizes.values()
        for c in found["comparison"].values()
    )
    print(f"{drops} drops: of more than {_TOLERATED} and {_ERRORS} paired standard errors.")
    if options.plots:
        learning_curve_plots.draw(results, options.plots / "learning-curve.svg")
    return {"environment": facts, "data": splits.name, "splits": results}


def _peers(splits: data.Splits, options: argparse.Namespace) -> dict[str, Build]:
    """Return how to make each peer that can be measured here."""
    vectors = None if options.vectors is None else load_vectors(options.vectors, splits)

    def builder(name: str) -> Build:
        return lambda catalog, history: peers.fitted(name, catalog, history, vectors)[0]

    there = peers.measurable(peers.usual(), has_vectors=vectors is not None)
    return {name: builder(name) for name in there}


def _measure(
    splits: data.Splits,
    builds: Mapping[str, Build],
    n: int,
    options: argparse.Namespace,
    pool: Pool,
) -> dict[str, Any]:
    """Return by split what each router comes to with `n` past mashups."""
    figures: dict[str, dict[str, list[list[RequestFigures]]]] = {
        split: {} for split in splits.held_out
    }
    again: dict[str, list[float]] = {}
    warm: list[set[str]] = []
    for past, rng in _draws(splits.train, n, options):
        dropped = repeats(past, rng)
        warm.append({api for mashup in past for api in mashup.apis})
        for name, build in builds.items():
            if not n and _needs_history(name):
                continue
            ask = _asked(build(splits.catalog, past), pool)
            for split, history in splits.held_out.items():
                figures[split].setdefault(name, []).append(ask(history))
            # New texts have no vectors.
            if len(dropped) and not (name in PEERS and PEERS[name].needs_vectors):
                found = [_FIGURES["R@5"](f) for f in ask(dropped)]
                again.setdefault(name, []).append(float(np.mean(found)))
    return {
        split: {
            "mashups": n,
            "requests": _needing(splits.held_out[split], warm),
            "routers": {
                name: {
                    **_means(draws),
                    **_warm_and_cold(draws, warm),
                    "repeats R@5": _mean(again.get(name)),
                }
                for name, draws in by_router.items()
            },
            "comparison": _comparison(by_router),
        }
        for split, by_router in figures.items()
    }


def _draws(
    train: History, n: int, options: argparse.Namespace
) -> Iterator[tuple[History, np.random.Generator]]:
    """Yield parts of a history: of one draw, a smaller part is in each larger one."""
    for draw in range(1 if n in (0, len(train)) else options.draws):
        rng = np.random.default_rng([options.seed, draw])
        chosen = sorted(rng.permutation(len(train))[:n].tolist())
        yield History(train[i] for i in chosen), rng


def repeats(past: History, rng: np.random.Generator, most: int = _REPEATS) -> History:
    """Return some past mashups whose request has lost a fifth of its words, at least one.

    Where a text has no spaces, a fifth of its characters. Those of one word stay away.
    """
    chosen = rng.permutation(len(past))[:most].tolist()
    shorter = []
    for mashup in (past[i] for i in chosen):
        parts = re.findall(r"\S+\s*", mashup.description)
        if len(parts) == 1:
            parts = list(mashup.description)
        lost = set(rng.permutation(len(parts))[: max(round(_DROPPED * len(parts)), 1)].tolist())
        text = "".join(part for i, part in enumerate(parts) if i not in lost).strip()
        if text:
            shorter.append(replace(mashup, description=text, date=None))
    return History(shorter)


def _needs_history(name: str) -> bool:
    return name in NEED_HISTORY or (name in PEERS and PEERS[name].needs_history)


def _asked(
    router: Router | FittedPeer, pool: Pool
) -> Callable[[Sequence[Mashup]], list[RequestFigures]]:
    """Return what asks a router all of a history, perhaps over a cluster; a peer is asked here."""
    if isinstance(router, FittedPeer):
        return lambda history: [router.figures(mashup) for mashup in history]
    figures = partial(
        request_figures, router, select=TargetRecall(0.9), threshold=0.6, fallback="none"
    )
    return in_order(figures, pool)


def _by_request(draws: Sequence[Sequence[RequestFigures]], figure: str) -> NDArray[Any]:
    """Return a figure of each request, its mean over the draws."""
    values = [[_FIGURES[figure](one) for one in draw] for draw in draws]
    return np.asarray(np.mean(values, axis=0))


def _means(draws: Sequence[Sequence[RequestFigures]]) -> dict[str, float | None]:
    figures = {name: float(_by_request(draws, name).mean()) for name in _FIGURES}
    said = {name: None if np.isnan(value) else value for name, value in figures.items()}
    errors = [
        ece(probabilities, np.concatenate([one.labels for one in draw]))
        for draw in draws
        if len(probabilities := np.concatenate([one.probabilities for one in draw]))
    ]
    return {**said, "ECE": _mean(errors)}


def _needing(history: History, warm: Sequence[set[str]]) -> dict[str, float]:
    """Return how many requests need a warm API, and how many a cold one; means over the draws."""
    needs = [set(mashup.apis) for mashup in history]
    return {
        "warm": float(np.mean([sum(bool(apis & used) for apis in needs) for used in warm])),
        "cold": float(np.mean([sum(bool(apis - used) for apis in needs) for used in warm])),
    }


def _warm_and_cold(
    draws: Sequence[Sequence[RequestFigures]], warm: Sequence[set[str]]
) -> dict[str, float | None]:
    """Return the recall of needed APIs that were used before, and of those that were not.

    Each is a mean over the requests that need any such, in all draws.
    """
    recalls: dict[str, list[float]] = {}
    for draw, used in zip(draws, warm, strict=True):
        for figures in draw:
            for kind, is_warm in (("warm", True), ("cold", False)):
                places = [p for api, p in figures.places.items() if (api in used) is is_warm]
                for k in _DEPTHS if places else ():
                    found = sum(place < k for place in places) / len(places)
                    recalls.setdefault(f"R@{k} {kind}", []).append(found)
    return {f"R@{k} {kind}": _mean(recalls.get(f"R@{k} {kind}")) for kind, k in _KINDS}


def _comparison(by_router: Mapping[str, Sequence[Sequence[RequestFigures]]]) -> dict[str, Any]:
    """Compare the learned router, figure by figure, with the other that is best at it."""
    if _LEARNED not in by_router:
        return {}
    compared = {}
    for figure in _COMPARED:
        values = {name: _by_request(draws, figure) for name, draws in by_router.items()}
        learned = values.pop(_LEARNED)
        best = max(values, key=lambda name: float(values[name].mean()))
        compared[figure] = {
            "learned": float(learned.mean()),
            "best": best,
            "baseline": float(values[best].mean()),
            **verdict(learned, values[best]),
        }
    compared["recipients"] = _recipients(by_router[_LEARNED], by_router["BM25"])
    return compared


def _recipients(
    learned: Sequence[Sequence[RequestFigures]], baseline: Sequence[Sequence[RequestFigures]]
) -> dict[str, Any]:
    """Compare the numbers of recipients; more are no drop where they also cover more."""
    own, other = (_by_request(draws, "recipients") for draws in (learned, baseline))
    gained = float(
        np.mean(_by_request(learned, _COVERED)) - np.mean(_by_request(baseline, _COVERED))
    )
    found = verdict(own, other)
    more = "more, at a higher recall" if gained > _TOLERATED else "more"
    return {
        "learned": float(own.mean()),
        "best": "BM25",
        "baseline": float(other.mean()),
        **found,
        "verdict": more if found["difference"] > 0 else "ok",
    }


def verdict(learned: NDArray[Any], baseline: NDArray[Any]) -> dict[str, Any]:
    """Return the mean paired difference, its standard error over requests, and what it means.

    Examples
    --------
    >>> verdict(np.array([0.0, 0.0, 0.5]), np.array([0.5, 0.5, 1.0]))["verdict"]
    'drop'
    """
    differences = learned - baseline
    difference = float(differences.mean())
    error = float(differences.std(ddof=1) / np.sqrt(len(differences))) if len(learned) > 1 else 0.0
    drop = -difference > _TOLERATED and -difference > _ERRORS * error
    return {"difference": difference, "error": error, "verdict": "drop" if drop else "ok"}


def _mean(values: Sequence[float] | None) -> float | None:
    """Return the mean; None of nothing."""
    return float(np.mean(values)) if values else None


_COLUMNS = (
    ("R@5", 3),
    ("R@20", 3),
    ("F1", 3),
    ("ECE", 3),
    (_COVERED, 3),
    ("recipients", 1),
    *((f"R@{k} {kind}", 3) for kind, k in _KINDS),
    ("repeats R@5", 3),
)
_COMPARISON_HEAD = (
    "past mashups",
    "figure",
    "learned",
    "best other",
    "its figure",
    "difference",
    "standard error",
    "verdict",
)


def _title(name: str) -> str:
    return name if name == _LEARNED else f"{name} ({'peer' if name in PEERS else 'baseline'})"


def _print_size(n: int, split: str, found: Mapping[str, Any]) -> None:
    print(f"## {n} past mashups, {split}\n")
    needing = found["requests"]
    print(f"{needing['warm']:.0f} requests need a warm API, {needing['cold']:.0f} a cold one.\n")
    rows = [
        [
            _title(name),
            *(number(figures[column], digits) for column, digits in _COLUMNS),
        ]
        for name, figures in found["routers"].items()
    ]
    table([["router", *(column for column, _ in _COLUMNS)], *rows])


def _comparison_rows(sizes: Mapping[str, Any]) -> Iterator[list[str]]:
    for size, found in sizes.items():
        for figure, compared in found["comparison"].items():
            digits = 1 if figure == "recipients" else 3
            yield [
                size,
                figure,
                number(compared["learned"], digits),
                compared["best"],
                number(compared["baseline"], digits),
                f"{compared['difference']:+.{digits}f}",
                number(compared["error"], digits),
                compared["verdict"],
            ]
