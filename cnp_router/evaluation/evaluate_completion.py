"""`evaluate_completion`: how well one missing API is found, from the text and from the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cnp_router.cluster import working
from cnp_router.evaluation.metrics import means, rounded
from cnp_router.evaluation.parallel import in_order
from cnp_router.evaluation.table import Table, share
from cnp_router.history import History, Mashup
from cnp_router.records import check_flag, check_number
from cnp_router.training import LearnedRouter

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["METHODS", "CompletionEvaluation", "evaluate_completion"]

METHODS = ("text", "graph", "both")
DEPTHS = (1, 5, 10)


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        hits = ", ".join(f"{name} {share(getattr(self, name).get('hit@5'))}" for name in METHODS)
        return f"CompletionEvaluation({self.requests:,} requests, hit@5 from {hits})"

    def _repr_html_(self) -> str:
        rows = tuple((name, *map(share, getattr(self, name).values())) for name in METHODS)
        title = f"One API hidden in each of {self.requests:,} mashups"
        return Table(title, ("found from", *self.text), rows)._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as a JSON object; floats are rounded to six digits."""
        hits = {name: rounded(getattr(self, name)) for name in METHODS}
        return {"requests": self.requests, **hits}


def evaluate_completion(
    router: LearnedRouter,
    history: History,
    *,
    dated: bool = True,
    seed: int = 0,
    n_jobs: int | None = None,
    scheduler: str | Client | None = None,
) -> CompletionEvaluation:
    """Hide one API of each mashup at random, and look for it.

    Parameters
    ----------
    router : LearnedRouter
    history : History
        Mashups it has not learned from. Those of fewer than two APIs, and those with an API that
        the router does not have, are left out. An API that comes twice counts once.
    dated : bool, default=True
        Ask each mashup as of its date; False: no date is given.
    seed : int >= 0, default=0
        Decides which API is hidden.
    n_jobs : int, optional
        Number of joblib workers; None means one, unless a joblib backend is active.
    scheduler : str or distributed.Client, optional
        As in `evaluate`.

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
    check_flag("dated", dated)
    rng = np.random.default_rng(check_number("seed", seed, 0, whole=True))
    apis = set(router.apis)
    cases = []
    for mashup in history:
        used = tuple(dict.fromkeys(mashup.apis))
        if len(used) > 1 and mashup.description.strip() and apis.issuperset(used):
            cases.append((mashup, used[int(rng.integers(len(used)))]))
    with working(n_jobs, scheduler) as pool:
        places = in_order(partial(_places, router, dated), pool)(cases)
    nothing = dict.fromkeys(f"hit@{k}" for k in DEPTHS)
    hits = {
        name: means([{f"hit@{k}": place[name] < k for k in DEPTHS} for place in places]) or nothing
        for name in METHODS
    }
    return CompletionEvaluation(requests=len(cases), **hits)


def _places(router: LearnedRouter, dated: bool, case: tuple[Mashup, str]) -> dict[str, int]:
    """Return how many others come before the hidden API, by each of the methods."""
    mashup, hidden = case
    known = tuple(dict.fromkeys(api for api in mashup.apis if api != hidden))
    date = mashup.date if dated else None

    def by_score(given: tuple[str, ...]) -> int:
        scores = router.score(mashup.description, given, date=date)
        ranked = [router.apis[i] for i in scores.order]
        return [api for api in ranked if api not in known].index(hidden)

    return {
        "text": by_score(()),
        "graph": _place_in_graph(router, known, hidden),
        "both": by_score(known),
    }


def _place_in_graph(router: LearnedRouter, known: tuple[str, ...], hidden: str) -> int:
    """Return how many come before the hidden API; what the graph gives no score comes last."""
    if not router.views.corpus.counts.any():  # nothing was used together
        return len(router.apis)
    graph = router.graph
    ranked = graph.ranked(graph.scores([graph.position(api) for api in known]))
    found = np.flatnonzero(ranked == graph.position(hidden))
    return int(found[0]) if len(found) else len(graph.apis_)
