"""How much of a history a transition graph predicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cnp_router.exceptions import InputError
from cnp_router.graph.transitions import TransitionGraph
from cnp_router.history import History, Mashup
from cnp_router.records import check_number

__all__ = ["HitRate", "hit_rate"]


@dataclass(frozen=True, slots=True)
class HitRate:
    """The share of composition steps whose API was among the first predicted.

    Examples
    --------
    >>> HitRate((1, 5), (1, 2), steps=4, mashups=2, unknown=1).at(5)
    0.5
    """

    ks: tuple[int, ...]  # the list lengths asked for, ascending
    hits: tuple[int, ...]  # for each of ks, the steps whose API was among the first so many
    steps: int  # every step asked about
    mashups: int  # those that they come from
    unknown: int  # steps whose API the graph does not know; they count as missed

    def at(self, k: int) -> float:
        """Return the share for one of `ks`, in [0, 1]; 0 without steps."""
        if k not in self.ks:
            raise InputError(f"hits were counted at k in {self.ks}, not at {k!r} (use one of them)")
        return self.hits[self.ks.index(k)] / max(self.steps, 1)


def hit_rate(
    graph: TransitionGraph, history: History, *, k: int | Sequence[int] = (1, 3, 5, 10)
) -> HitRate:
    """Measure how often the graph predicts the API that was in fact used.

    Undirected: of each mashup with at least two APIs, each API is left out in turn and looked for
    among the first `k` given the others. Directed: of each ordered mashup, each API after the
    first is looked for among the first `k` given the ones before it. Known APIs that the graph
    does not know are passed over; an unknown API that is looked for counts as missed.

    Parameters
    ----------
    graph : TransitionGraph
        Fitted, on other mashups: on its own history it flatters itself.
    history : History
        Held out.
    k : int or sequence of int, default=(1, 3, 5, 10)

    Raises
    ------
    InputError
        If a `k` is below 1, or there is none.
    NotFittedError
        Before `fit`.

    Examples
    --------
    >>> past = History([
    ...     Mashup("m1", "Weather on a map", ("maps", "weather")),
    ...     Mashup("m2", "Photos on a map", ("maps", "photos")),
    ...     Mashup("m3", "Rain where you are", ("maps", "weather")),
    ... ])
    >>> held_out = History([Mashup("m4", "Snow on a map", ("maps", "weather"))])
    >>> hit_rate(TransitionGraph().fit(past), held_out, k=1)
    HitRate(ks=(1,), hits=(2,), steps=2, mashups=1, unknown=0)
    """
    graph.check_fitted()
    ks = tuple(sorted({k} if isinstance(k, int) else set(k)))
    check_number("k", ks[0] if ks else None, 1, whole=True)
    positions = {api: position for position, api in enumerate(graph.apis_)}
    ranks: list[float] = []  # of each API that was looked for; inf where it was not found
    mashups = unknown = 0
    for mashup in history:
        steps = list(_steps(mashup, directed=graph.directed))
        mashups += bool(steps)
        for known, wanted in steps:
            unknown += wanted not in positions
            evidence = [positions[api] for api in known if api in positions]
            place = np.flatnonzero(graph.ranked(graph.scores(evidence)) == positions.get(wanted))
            ranks.append(int(place[0]) if place.size else np.inf)
    hits = tuple(sum(rank < k for rank in ranks) for k in ks)
    return HitRate(ks, hits, len(ranks), mashups, unknown)


def _steps(mashup: Mashup, *, directed: bool) -> Iterator[tuple[Sequence[str], str]]:
    if not directed:
        apis = sorted(set(mashup.apis))
        for position, wanted in enumerate(apis if len(apis) > 1 else ()):
            yield apis[:position] + apis[position + 1 :], wanted
    elif mashup.ordered:
        for position in range(1, len(mashup.apis)):
            yield mashup.apis[:position], mashup.apis[position]
