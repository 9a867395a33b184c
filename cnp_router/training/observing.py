"""What observing teaches a router beside its views: the ranker and the decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.history import Mashup
from cnp_router.routing.head import is_in
from cnp_router.text.entries import entries
from cnp_router.training.answerable import Answerable
from cnp_router.training.decision import Decision, Outcome
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.prior import bundled_prior
from cnp_router.training.ranker import Ranker
from cnp_router.training.tail import Tail
from cnp_router.training.views import Views

__all__ = ["MOST_FEEDBACK", "asked", "renewed", "turns"]

MOST_FEEDBACK = 200  # of mashups that are observed together
# A ranker that learns is asked in turns of a quarter of what is known, within these bounds.
_SHARE, _LEAST_TURN, _MOST_TURN = 4, 8, 500


def turns(
    new: Sequence[Mashup], n_known: int, ranker: Ranker
) -> Iterator[tuple[Sequence[Mashup], bool]]:
    """Yield the mashups that are learned together, and whether they move the threshold.

    Those that do, the last of them, are asked of what has learned all before them. A ranker that
    learns is asked often enough to see what the views will be like.

    Examples
    --------
    >>> mashups = [Mashup(str(i), "a map", ("maps",)) for i in range(500)]
    >>> fitted = Ranker(None, None, (), None, 0.0, n_examples=4_000)
    >>> [(len(own), moves) for own, moves in turns(mashups, 4_000, fitted)]
    [(300, False), (200, True)]
    """
    start, moving = 0, max(len(new) - MOST_FEEDBACK, 0)
    while start < len(new):
        end = moving if start < moving else len(new)
        if ranker.learns:
            most = min(max((n_known + start) // _SHARE, _LEAST_TURN), _MOST_TURN)
            end = min(end, start + most)
        yield new[start:end], start >= moving
        start = end


def asked(
    views: Views,
    ranker: Ranker,
    tail: Tail,
    decision: Decision,
    requests: EncodedRequests,
    usage: sparse.csr_array,
    *,
    moves: bool,
) -> tuple[Ranker, Decision]:
    """Return ranker and decision after some requests, before the views learn what they used.

    Requests without any known word tell nothing of how candidates are to be taken.
    """
    if not (moves or ranker.learns):
        return ranker, decision
    corpus = views.corpus
    outcomes = []
    for row, found in enumerate(views.candidates(views.batch(requests))):
        used = entries(usage, np.array([row])).index
        # All that it used may have been removed.
        if len(used) and corpus.encoders.know(requests.texts[row]):
            labels = is_in(found.positions, used)
            outcomes.append(Outcome(found, labels, used, float(requests.day[row])))
    if moves:
        decision = decision.adapted(views, ranker, tail, outcomes)
    if ranker.learns and outcomes:
        n_mashups = corpus.usage.shape[0]
        prior = bundled_prior().ranker.at(n_mashups, views.feature_names, views.beliefs)
        rows = [_comparable(outcome, corpus.counts) for outcome in outcomes]
        features, labels = zip(*rows, strict=True)
        ranker = ranker.observed(prior, features, labels)
    return ranker, decision


def _comparable(outcome: Outcome, counts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return features and labels of the candidates that tell what speaks for those that were used.

    Where these had a history, the others that have one: that nobody used the rest yet says nothing
    of it, since it may be new, or never have been proposed.
    """
    features, labels = outcome.candidates.features, outcome.labels
    has_history = counts[outcome.candidates.positions] > 0
    if has_history[labels].all():
        return features[has_history], labels[has_history]
    return features, labels


def renewed(
    views: Views, n_mashups: int, ranker: Ranker, answerable: Answerable, decision: Decision
) -> tuple[Ranker, Answerable, Decision]:
    """Return the parts of a router as they are after so many mashups, without fitting again.

    They stay, unless none of them had a request of its own to learn from: then all of them are what
    is known beforehand, which moves with the number of mashups, and what the ranker has observed.
    """
    if not ranker.learns:
        return ranker, answerable, decision
    prior = bundled_prior()
    return (
        ranker.at(prior.ranker.at(n_mashups, views.feature_names, views.beliefs)),
        answerable.at(prior.answerable, n_mashups, views.likeness_names),
        decision.at(prior, n_mashups),
    )
