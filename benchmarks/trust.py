"""Whether a router knows what it knows: requests that nothing serves, and calibrated confidence."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.measures import auroc, share_true
from benchmarks.report import environment, heading, number, table
from cnp_router import datasets
from cnp_router.catalog import Catalog
from cnp_router.cluster import working
from cnp_router.datasets import OutOfScope, read_out_of_scope, served_by_none
from cnp_router.evaluation.metrics import ece
from cnp_router.evaluation.parallel import in_order
from cnp_router.history import History, Mashup
from cnp_router.pool import Pool
from cnp_router.routing import Router, Routing
from cnp_router.training import fit_router

__all__ = ["LIMIT", "run"]

LIMIT = 300

_HELD_OUT = 150  # of the sample
_FEW = 15
_FIRST_WORDS = 7
_JOINED = 3
_UNSEEN_SHARE = 1 / 3
_DRAWS = 2
_BINS = 10
_BUNDLED = Path(datasets.__file__).parent / "nothing" / "texts.jsonl"
_KEPT_FOR_THE_END = Path(__file__).with_name("out_of_scope.jsonl")


class Request(NamedTuple):
    """What a router is asked, and how."""

    text: str
    date: datetime.date | None = None
    among: Sequence[str] | None = None


# A router that is asked, here or by the workers of a cluster; it answers in order.
Ask = Callable[[Sequence[Request]], list[Routing]]


class Judged(NamedTuple):
    """What a router said to one request, and whether it was so."""

    confidence: float
    answerable: float
    is_confident: bool
    is_covered: bool  # all that was needed is among the recipients
    is_served: bool  # anything that was needed could be asked


class Mark(NamedTuple):
    """A figure and what it should be at least, or at most."""

    figure: str
    measured: float | None
    least: float | None = None
    most: float | None = None

    def row(self) -> list[str]:
        """Return the row of the table."""
        wanted = f"at most {self.most}" if self.least is None else f"at least {self.least}"
        verdict = ""
        if self.measured is not None:
            low = self.least is not None and self.measured < self.least
            high = self.most is not None and self.measured > self.most
            verdict = "FAIL" if low or high else "pass"
        return [self.figure, number(self.measured), wanted, verdict]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Fit, ask, and print the tables."""
    splits = data.load_limited(options.data, _HELD_OUT, options.limit, options.seed)
    facts = environment(options.seed)
    heading(f"Trust on {splits.name}", facts)
    held_out = splits.held_out
    print(
        f"{len(splits.catalog)} APIs, {len(splits.train)} past mashups. Requests: {splits.asked}."
    )
    print("Held-out requests are asked as of their date, where they have one. A request is")
    print("confident at the default threshold of .60.\n", flush=True)
    texts = _texts(splits.catalog, final=options.final)
    chosen = np.random.default_rng(options.seed).permutation(len(splits.train))
    results: dict[str, Any] = {}
    with working(1, options.scheduler) as pool:
        for n in dict.fromkeys((len(splits.train), 0, _FEW)):
            past = History(splits.train[i] for i in sorted(chosen[:n].tolist()))
            ask = _fitted(splits.catalog, past, pool)
            print(f"## {n} past mashups\n")
            results[str(n)] = {
                "out of scope": _out_of_scope(ask, texts, options.seed),
                "held out": _in_scope(ask, held_out),
            }
            if n == len(splits.train):
                results[str(n)] |= _restricted(ask, splits.catalog, held_out)
        unseen = _unseen(splits, options, pool)
    marks = list(_marks(results[str(len(splits.train))], unseen))
    print(f"## What is wanted, with all {len(splits.train)} past mashups\n")
    table([["figure", "measured", "wanted", "verdict"], *(mark.row() for mark in marks)])
    return {
        "environment": facts,
        "data": splits.name,
        "past mashups": results,
        "unseen categories": unseen,
        "marks": [mark._asdict() for mark in marks],
    }


def _marks(found: Mapping[str, Any], unseen: Sequence[Mapping[str, Any]]) -> Iterator[Mark]:
    """Yield what is wanted of a router with a history."""
    for half, groups in found["out of scope"].items():
        for group in ("all", "joined by threes"):
            share = groups[group]["confident"]
            yield Mark(f"confident, nothing serves, {half}, {group}", share, most=0.05)
    for split, cuts in found["held out"].items():
        for cut, least in zip(_CUTS, (0.85, 0.75), strict=True):
            yield Mark(f"confident, {split}, {cut}", cuts[cut]["confident"], least=least)
    for split, figures in found["restricted"].items():
        told_apart = figures["AUROC"]["confidence"]
        yield Mark(f"AUROC, needed categories outside `among`, {split}", told_apart, least=0.9)
        for title in ("confidence, held out", "confidence, even mix"):
            error = figures["calibration"][title]["ece"]
            yield Mark(f"calibration of {title}, {split}", error, most=0.05)
    for draw, figures in enumerate(unseen, start=1):
        yield Mark(f"AUROC, unseen categories, draw {draw}", figures["AUROC"], least=0.75)


def _fitted(catalog: Catalog, past: History, pool: Pool) -> Ask:
    return in_order(partial(_route, fit_router(catalog, past or None)), pool)


def _route(router: Router, request: Request) -> Routing:
    return router.route(request.text, among=request.among, date=request.date)


def _texts(catalog: Catalog, *, final: bool) -> dict[str, tuple[OutOfScope, ...]]:
    """Return the texts that count for a catalog, and say how many do not."""
    halves = {"bundled": read_out_of_scope(_BUNDLED)}
    if final:
        halves["kept for the end"] = read_out_of_scope(_KEPT_FOR_THE_END)
    counted = {name: served_by_none(half, catalog) for name, half in halves.items()}
    for name, half in halves.items():
        print(
            f"Texts that nothing serves, {name}: {len(counted[name])}; "
            f"{len(half) - len(counted[name])} of {len(half)} left out, which an API of the "
            "catalog may serve."
        )
    print(flush=True)
    return counted


def _out_of_scope(
    ask: Ask, halves: Mapping[str, Sequence[OutOfScope]], seed: int
) -> dict[str, Any]:
    """Ask what nothing serves; print how often the router was sure, or said that nothing fits."""
    figures: dict[str, Any] = {}
    rows = []
    for half, texts in halves.items():
        for group, asked in _groups(texts, seed):
            said = ask([Request(text) for text in asked])
            sure = share_true(routing.is_confident for routing in said)
            none = share_true(not routing.fits for routing in said)
            figures.setdefault(half, {})[group] = {
                "texts": len(asked),
                "confident": sure,
                "nothing fits": none,
            }
            rows.append([half, group, str(len(asked)), number(sure), number(none)])
    print("What nothing serves: the share that is confident, and the share answered 'nothing fits'")
    print("(the probability that anything does is below one half).\n")
    table([["texts", "kind", "number", "confident", "nothing fits"], *rows])
    return figures


def _groups(texts: Sequence[OutOfScope], seed: int) -> Iterator[tuple[str, list[str]]]:
    """Yield texts by kind and length, the Japanese ones, all, and all joined by threes."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(f"{text.kind}, {text.length}", []).append(text.text)
    yield from groups.items()
    japanese = [text.text for text in texts if text.language == "ja"]
    if japanese:
        yield "in Japanese", japanese
    yield "all", [text.text for text in texts]
    rng = np.random.default_rng(seed)
    yield (
        "joined by threes",
        [
            " ".join(texts[i].text for i in rng.choice(len(texts), _JOINED, replace=False))
            for _ in texts
        ],
    )


def _in_scope(ask: Ask, held_out: Mapping[str, History]) -> dict[str, Any]:
    """Ask what was held out, whole and shortened; print how often the router was sure."""
    figures: dict[str, Any] = {}
    rows = []
    for split, history in held_out.items():
        for title, cut in _CUTS.items():
            said = ask([Request(cut(m.description), m.date) for m in history])
            sure = share_true(routing.is_confident for routing in said)
            none = share_true(not routing.fits for routing in said)
            figures.setdefault(split, {})[title] = {"confident": sure, "nothing fits": none}
            rows.append([split, title, number(sure), number(none)])
    print("Held-out requests: the same shares.\n")
    table([["requests", "length", "confident", "nothing fits"], *rows])
    return figures


def _first_words(text: str) -> str:
    return " ".join(text.split()[:_FIRST_WORDS])


_CUTS: dict[str, Callable[[str], str]] = {
    "whole": str,
    f"first {_FIRST_WORDS} words": _first_words,
}


def _restricted(ask: Ask, catalog: Catalog, held_out: Mapping[str, History]) -> dict[str, Any]:
    """Ask what was held out, with and without what it needs; print what the confidence says."""
    main = _main_categories(catalog)
    figures: dict[str, Any] = {}
    rows, tables = [], []
    for split, history in held_out.items():
        pairs = [(m, _others(m, main)) for m in history]
        pairs = [(mashup, others) for mashup, others in pairs if others]
        among_all = ask([Request(m.description, m.date) for m, _ in pairs])
        among_others = ask([Request(m.description, m.date, others) for m, others in pairs])
        mashups = [mashup for mashup, _ in pairs]
        there = [_judged(r, m, is_served=True) for r, m in zip(among_all, mashups, strict=True)]
        gone = [_judged(r, m, is_served=False) for r, m in zip(among_others, mashups, strict=True)]
        told_apart = {
            name: auroc([getattr(j, name) for j in there], [getattr(j, name) for j in gone])
            for name in ("confidence", "answerable")
        }
        confident = share_true(judged.is_confident for judged in gone)
        rows.append([split, *(number(value) for value in told_apart.values()), number(confident)])
        calibration = {
            "confidence, held out": _reliability(there, "confidence", "is_covered"),
            "confidence, even mix": _reliability([*there, *gone], "confidence", "is_covered"),
            "answerable, even mix": _reliability([*there, *gone], "answerable", "is_served"),
        }
        tables += [(f"{title}, {split}", found) for title, found in calibration.items()]
        figures[split] = {"AUROC": told_apart, "confident": confident, "calibration": calibration}
    print("The same requests with the needed APIs, and all of their main categories, outside")
    print("`among`: how well the two are told apart (AUROC), and the share still confident.\n")
    table([["requests", "by confidence", "by answerable", "confident without"], *rows])
    print(
        "Calibration: whether the recipients cover all that was needed as often as the confidence"
    )
    print("says, and whether anything needed can be asked as often as `answerable` says; on")
    print("held-out requests, and on an even mix of them with those above.\n")
    for title, found in tables:
        _print_reliability(title, found)
    return {"restricted": figures}


def _main_categories(catalog: Catalog) -> dict[str, str]:
    """Return the first category of each API; one without any is a category of its own."""
    return {api.id: next(iter(api.categories), f"API {api.id}") for api in catalog}


def _others(mashup: Mashup, main: Mapping[str, str]) -> list[str]:
    """Return the APIs that share no main category with what a mashup needs."""
    needed = {main[api] for api in mashup.apis}
    return [api for api, category in main.items() if category not in needed]


def _judged(routing: Routing, mashup: Mashup, *, is_served: bool) -> Judged:
    is_covered = set(mashup.apis) <= set(routing.contractors)
    return Judged(
        routing.confidence, routing.answerable, routing.is_confident, is_covered, is_served
    )


def _reliability(judged: Sequence[Judged], said: str, true: str) -> dict[str, Any]:
    """Return mean probability, share of truth and number by bin of equal width, and the ECE."""
    p = np.array([getattr(one, said) for one in judged])
    y = np.array([getattr(one, true) for one in judged], dtype=float)
    bins = np.minimum((p * _BINS).astype(int), _BINS - 1)
    filled = np.unique(bins).tolist()
    return {
        "ece": ece(p, y, bins=_BINS),
        "bins": [
            {
                "from": b / _BINS,
                "to": (b + 1) / _BINS,
                "probability": float(p[bins == b].mean()),
                "share": float(y[bins == b].mean()),
                "requests": int((bins == b).sum()),
            }
            for b in filled
        ],
    }


def _print_reliability(title: str, found: Mapping[str, Any]) -> None:
    print(f"{title}: ECE {number(found['ece'])}\n")
    rows = [
        [
            f"{one['from']:.1f} to {one['to']:.1f}",
            number(one["probability"]),
            number(one["share"]),
            str(one["requests"]),
        ]
        for one in found["bins"]
    ]
    table([["said", "mean said", "share true", "requests"], *rows])


def _unseen(splits: data.Splits, options: argparse.Namespace, pool: Pool) -> list[dict[str, Any]]:
    """Remove a third of the main categories before fitting; print whether the router notices."""
    main = _main_categories(splits.catalog)
    categories = sorted(set(main.values()) & set(splits.catalog.categories))
    if not categories:
        print("The catalog has no categories: none can be left out.")
        return []
    figures, rows = [], []
    for draw in range(_DRAWS):
        rng = np.random.default_rng([options.seed, draw])
        n = round(len(categories) * _UNSEEN_SHARE)
        removed = set(rng.choice(categories, n, replace=False).tolist())
        unseen = {api for api, category in main.items() if category in removed}
        catalog = Catalog(api for api in splits.catalog if api.id not in unseen)
        ask = _fitted(catalog, splits.train.known_to(catalog), pool)
        # The router has seen neither these past requests nor the held-out ones.
        others = History(m for m in splits.train if unseen.issuperset(m.apis))
        strange = [
            *(
                m
                for history in splits.held_out.values()
                for m in history
                if unseen.issuperset(m.apis)
            ),
            *data.limited(others, options.limit, options.seed),
        ]
        usual = [
            m
            for history in splits.held_out.values()
            for m in history
            if not unseen.intersection(m.apis)
        ]
        inside, outside = (
            ask([Request(m.description, m.date) for m in mashups]) for mashups in (usual, strange)
        )
        found: dict[str, Any] = {
            "removed": sorted(removed),
            "requests": len(inside),
            "of removed categories": len(outside),
            "AUROC": auroc([r.confidence for r in inside], [r.confidence for r in outside]),
            "AUROC of answerable": auroc(
                [r.answerable for r in inside], [r.answerable for r in outside]
            ),
            "confident": share_true(r.is_confident for r in inside),
            "confident without": share_true(r.is_confident for r in outside),
        }
        figures.append(found)
        rows.append(
            [
                str(draw + 1),
                f"{len(removed)} of {len(categories)}",
                str(len(inside)),
                str(len(outside)),
                *(number(found[key]) for key in list(found)[3:]),
            ]
        )
    print("A third of the main categories removed from catalog and history before fitting:")
    print("requests of the others against requests that need removed ones only.\n")
    head = ["draw", "removed", "requests", "of removed categories"]
    table([[*head, "AUROC of confidence", "AUROC of answerable", "confident", "without"], *rows])
    return figures
