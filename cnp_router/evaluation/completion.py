"""`evaluate_completion`: how well one missing API is found, from the text and from the others."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cnp_router.evaluation.metrics import mean
from cnp_router.exceptions import InputError
from cnp_router.history import History
from cnp_router.training import LearnedRouter

__all__ = ["METHODS", "CompletionEvaluation", "evaluate_completion"]

METHODS = ("text", "graph", "both")
DEPTHS = (1, 5, 10)


@dataclass(frozen=True)
class CompletionEvaluation:
    """How often the hidden API is among the first few.

    Parameters
    ----------
    requests : int
        Mashups of two or more APIs, all of them known to the router; one is hidden in each.
    text : mapping
        ``hit@1 hit@5 hit@10``, each in [0, 1]: of the router's order from the text alone, without
        the APIs that are not hidden. None each where there is no request.
    graph : mapping
        The same of the transition graph's scores, from the other APIs alone.
    both : mapping
        The same of the router's order, given text and the other APIs.
    """

    requests: int
    text: Mapping[str, float | None]
    graph: Mapping[str, float | None]
    both: Mapping[str, float | None]

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as a JSON object; floats are rounded to six digits.

        Examples
        --------
        >>> half = {"hit@1": 0.5}
        >>> CompletionEvaluation(3, {"hit@1": 1 / 3}, half, half).to_dict()["text"]
        {'hit@1': 0.333333}
        """
        return {
            "requests": self.requests,
            **{name: _rounded(getattr(self, name)) for name in METHODS},
        }


def evaluate_completion(
    router: LearnedRouter, history: History, *, seed: int = 0, n_jobs: int | None = None
) -> CompletionEvaluation:
    """Hide one API of each mashup at random, and look for it.

    Parameters
    ----------
    router : LearnedRouter
    history : History
        Mashups it has not learned from. Those of fewer than two APIs, and those with an API that
        the router does not have, are left out. An API that comes twice counts once.
    seed : int >= 0, default=0
        Decides which API is hidden.
    n_jobs : int, optional
        Number of joblib workers; None means one, unless a joblib backend is active.

    Returns
    -------
    CompletionEvaluation

    Raises
    ------
    InputError
        If the seed is not a whole number of at least 0.

    Examples
    --------
    >>> from cnp_router import Api, Catalog, Mashup, fit_router
    >>> catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    >>> past = History([
    ...     Mashup("m1", "bars on a map", ("maps",)),
    ...     Mashup("m2", "text me the news", ("sms",)),
    ...     Mashup("m3", "text me a map", ("maps", "sms")),
    ...     Mashup("m4", "map of parks", ("maps",)),
    ... ])
    >>> new = History([Mashup("m5", "a map in a text", ("sms", "maps"))])
    >>> evaluate_completion(fit_router(catalog, past), new).both
    {'hit@1': 1.0, 'hit@5': 1.0, 'hit@10': 1.0}
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    cases = _cases(router, history, np.random.default_rng(seed))
    places = _in_parallel(router, cases, n_jobs)
    figures = {
        name: {
            f"hit@{k}": mean([float(place[column] < k) for place in places]) if places else None
            for k in DEPTHS
        }
        for column, name in enumerate(METHODS)
    }
    return CompletionEvaluation(len(cases), figures["text"], figures["graph"], figures["both"])


@dataclass(frozen=True, slots=True)
class _Case:
    request: str
    hidden: str
    known: tuple[str, ...]


def _cases(router: LearnedRouter, history: History, rng: np.random.Generator) -> list[_Case]:
    apis = set(router.apis)
    cases = []
    for mashup in history:
        used = tuple(dict.fromkeys(mashup.apis))
        if len(used) < 2 or not mashup.description.strip() or not apis.issuperset(used):
            continue
        hidden = used[int(rng.integers(len(used)))]
        cases.append(_Case(mashup.description, hidden, tuple(api for api in used if api != hidden)))
    return cases


def _places(router: LearnedRouter, cases: Sequence[_Case]) -> list[tuple[int, ...]]:
    """Return how many others come before the hidden API, by each of the methods."""
    return [
        (
            _place_by_score(router, case, ()),
            _place_in_graph(router, case),
            _place_by_score(router, case, case.known),
        )
        for case in cases
    ]


def _place_by_score(router: LearnedRouter, case: _Case, known: tuple[str, ...]) -> int:
    beside = set(case.known)
    ranked = (router.apis[i] for i in router.score(case.request, known).order)
    return next(
        place
        for place, api in enumerate(api for api in ranked if api not in beside)
        if api == case.hidden
    )


def _place_in_graph(router: LearnedRouter, case: _Case) -> int:
    graph = router.graph
    ranked = graph.ranked(graph.scores([graph.position(api) for api in case.known]))
    place = np.flatnonzero(ranked == graph.position(case.hidden))
    # What the graph gives no score comes after all others.
    return int(place[0]) if len(place) else len(graph.apis_)


def _in_parallel(
    router: LearnedRouter, cases: Sequence[_Case], n_jobs: int | None
) -> list[tuple[int, ...]]:
    """Return the places in the order of the cases."""
    import joblib

    parallel = joblib.Parallel(n_jobs=n_jobs)
    workers = min(joblib.effective_n_jobs(parallel.n_jobs), len(cases))
    if workers <= 1:
        return _places(router, cases)
    cuts = np.linspace(0, len(cases), workers + 1).astype(int)
    chunks = parallel(
        joblib.delayed(_places)(router, cases[i:j]) for i, j in itertools.pairwise(cuts)
    )
    return [place for chunk in chunks for place in chunk]


def _rounded(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: None if v is None else round(v, 6) for name, v in figures.items()}
