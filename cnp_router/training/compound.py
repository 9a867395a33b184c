"""Requests that ask for several things at once, of a router whose history asks one at a time.

Each way to cut the request in two is judged as two requests. Where the halves are sure of two
different APIs, and the whole does not speak against it, the halves decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing import Reason
from cnp_router.routing.head import is_in
from cnp_router.text import cuts
from cnp_router.training.keyed import distinct
from cnp_router.training.prior import MOST
from cnp_router.training.views.quotation import beginning

__all__ = ["Compound", "clause_reasons", "most_doubt", "prior_log_odds", "read"]

# A history of which a larger share needs several APIs knows by itself how such requests look. So
# many more mashups of one API are counted, so that the first few do not decide.
MOST_SHARE = 0.2
PSEUDO_MASHUPS = 10
# What speaks for a cut before it is looked at, in log-odds, and how many mashups it takes until
# what half a request says can be trusted half as much: measured on several data sets.
_PRIOR = 2.75
_LITTLE = 1_000
_MOST_JUDGED = 2
_LEAST_AT_A_GLANCE = -4.5  # log-odds, without the prior
_LEAST_BELIEF = 0.05  # below, nothing would change
_BELIEVED = 0.2
# With little history needs take from each other's probability: that the whole thinks nothing of one
# counts no more than this, in log-odds.
_MOST_DOUBT = 2.0
_CALLED_FOR = 0.1
_SAME = 0.8
_FLOOR = 1e-4

# Texts to the positions of some APIs, ascending, and probabilities: (n_texts, n_positions).
Judge = Callable[[Sequence[str]], tuple[NDArray[Any], NDArray[Any]]]


@dataclass(frozen=True, eq=False)
class Compound:
    """A request that may ask for several things.

    `probabilities` are those of the APIs at `positions`, which ascend, for the request as it is
    understood now; that of all others is 0. `halves`, of shape (n_texts, n_positions), are those
    of the halves `texts` of the cuts that are believed; `favourites` the positions of the APIs
    that are the best one of such a half, ascending.
    """

    positions: NDArray[np.intp]
    probabilities: NDArray[Any]
    texts: tuple[str, ...]
    halves: NDArray[Any]
    favourites: NDArray[np.intp]

    def n_needs(self, known: Sequence[int] = ()) -> int:
        """Return how many things it asks for besides what known APIs serve, at least 1."""
        return max(1, len(np.setdiff1d(self.favourites, known)))


def prior_log_odds(n_mashups: int, n_compound: int) -> float | None:
    """Return what speaks for a cut beforehand, given past mashups, some of several APIs.

    None if requests are not cut: a history of many compound mashups knows better. Without history,
    where the needs of a request share what is probable, either is as likely; the first mashups take
    from that, since with them needs are judged each on its own.
    """
    if n_compound > MOST_SHARE * (n_mashups + PSEUDO_MASHUPS):
        return None
    learned = _PRIOR + math.log(n_mashups / (n_mashups + _LITTLE)) if n_mashups else -math.inf
    return max(learned, -math.log1p(n_mashups))


def most_doubt(n_mashups: int) -> float:
    """Return what the whole of a request can say against a cut at most, given past mashups."""
    return _MOST_DOUBT if n_mashups <= MOST else math.inf


def read(
    request: str,
    positions: NDArray[Any],
    whole: NDArray[Any],
    judge: Judge,
    glance: Judge | None = None,
    *,
    prior: float = _PRIOR,
    doubt: float = math.inf,
) -> Compound | None:
    """Return the request as one of several things; None if it seems to ask for one.

    Parameters
    ----------
    request : str
    positions : ndarray of shape (n_positions,), int
        The APIs that may serve it, ascending.
    whole : ndarray of shape (n_positions,), in [0, 1]
        Their probabilities for the request as one; those of all others are 0.
    judge : callable
        Texts to the positions of all APIs that may serve any of them, ascending, and to their
        probabilities, of shape (n_texts, n_positions): that of the request, for any text.
    glance : callable, optional
        A cheap one, of the same form: cuts that it does not believe in at all are not judged.
    prior : float, log-odds
        What speaks for a cut beforehand.
    doubt : float, log-odds, default=inf
        What the whole can say against one at most.
    """
    pairs = cuts(request)
    if not pairs:
        return None
    if glance is not None:
        odds = _log_odds(pairs, *glance(_flat(pairs)), positions, whole, doubt)
        best = np.argsort(-odds, kind="stable")
        kept = best[odds[best] >= _LEAST_AT_A_GLANCE]
    else:
        kept = np.argsort(-_balance(pairs), kind="stable")
    pairs = tuple(pairs[i] for i in np.sort(kept[:_MOST_JUDGED]))
    if not pairs:
        return None
    found, halves = judge(_flat(pairs))
    odds = _log_odds(pairs, found, halves, positions, whole, doubt)
    belief = 0.5 * (1 + np.tanh(0.5 * (odds + prior)))
    if belief.max() < _LEAST_BELIEF:
        return None
    every = np.union1d(positions, found)
    halves, before = _placed(every, found, halves), _placed(every, positions, whole)
    called_for = np.where(halves >= _CALLED_FOR, halves, 0.0)
    either = 1 - (1 - called_for[0::2]) * (1 - called_for[1::2])
    mixed = belief[:, None] * either + (1 - belief[:, None]) * before
    believed = np.repeat(belief >= _BELIEVED, 2)
    return Compound(
        every,
        np.maximum(mixed.max(axis=0), before),
        tuple(text for text, own in zip(_flat(pairs), believed, strict=True) if own),
        halves[believed].astype(np.float32),
        np.unique(every[halves[believed].argmax(axis=1)]),
    )


def clause_reasons(compound: Compound, positions: Sequence[int]) -> dict[int, Reason]:
    """Return for some APIs which half of the request called for each, where one did."""
    if not len(compound.halves):
        return {}
    lengths = np.array([len(text) for text in compound.texts])
    found = {}
    for position in positions:
        place = int(np.searchsorted(compound.positions, position))
        if place == len(compound.positions) or compound.positions[place] != position:
            continue
        own = compound.halves[:, place]
        best = own.max()
        if position in compound.favourites or best >= _CALLED_FOR:
            # Of halves that say about the same, the shortest.
            row = int(np.where(own >= _SAME * best, lengths, lengths.max() + 1).argmin())
            text = compound.texts[row]
            found[position] = Reason("clause", f"asked for in “{beginning(text)}”", (text,))
    return found


def _log_odds(
    pairs: Sequence[tuple[str, str]],
    found: NDArray[Any],
    halves: NDArray[Any],
    positions: NDArray[Any],
    whole: NDArray[Any],
    doubt: float,
) -> NDArray[Any]:
    """Return what speaks for each cut being one between two needs.

    Odds grow with those of the half that is less sure of its best API. They fall with the root of
    the ratio of the odds that the whole gives to the two, by `doubt` at most: if it is sure of one
    and thinks nothing of the other, what the other half says is mere context. And they fall where
    one half is much shorter: a fragment is easily misunderstood.
    """
    if not len(found):  # nothing speaks for any API
        return np.full(len(pairs), -np.inf)
    best = found[halves.argmax(axis=1)].reshape(-1, 2)
    sure = halves.max(axis=1).reshape(-1, 2).min(axis=1)
    asked = distinct(best.ravel())
    there = is_in(positions, asked)
    given = _placed(asked, positions[there], whole[there])
    first, second = _logit(given[np.searchsorted(asked, best)]).T
    against = np.minimum(0.5 * np.abs(first - second), doubt)
    odds = _logit(sure) - against + np.log(_balance(pairs))
    return np.where(best[:, 0] == best[:, 1], -np.inf, odds)


def _placed(every: NDArray[Any], positions: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Return what some of these positions have, on the last axis, and 0 for the others."""
    placed = np.zeros((*values.shape[:-1], len(every)))
    placed[..., np.searchsorted(every, positions)] = values
    return placed


def _balance(pairs: Sequence[tuple[str, str]]) -> NDArray[Any]:
    """Return the length of the shorter half over that of the longer one."""
    lengths = np.array([[len(text) for text in pair] for pair in pairs], dtype=float)
    return np.asarray(lengths.min(axis=1) / lengths.max(axis=1))


def _logit(p: NDArray[Any]) -> NDArray[Any]:
    p = np.clip(p, _FLOOR, 1 - _FLOOR)
    return np.asarray(np.log(p / (1 - p)))


def _flat(pairs: Sequence[tuple[str, str]]) -> list[str]:
    return [text for pair in pairs for text in pair]
