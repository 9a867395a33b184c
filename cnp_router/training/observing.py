"""What observing teaches a router beside its views: the ranker and the decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.history import History, Mashup
from cnp_router.routing.head import is_in
from cnp_router.text.entries import entries
from cnp_router.training.answerable import Answerable, said
from cnp_router.training.corpus import history_days
from cnp_router.training.decision import Answer, Decision
from cnp_router.training.encoders import EncodedRequests, Encoders, as_learned
from cnp_router.training.examples import behind_of
from cnp_router.training.prior import bundled_prior
from cnp_router.training.ranker import Ranker, RankerPrior
from cnp_router.training.tail import Tail
from cnp_router.training.views import Candidates, CoUsageView, Views

__all__ = ["MOST_FEEDBACK", "asked", "renewed", "turns"]

MOST_FEEDBACK = 200  # of mashups that are observed together
# A ranker that learns is asked in turns of a quarter of what is known, within these bounds.
_SHARE, _LEAST_TURN, _MOST_TURN = 4, 8, 500


def turns(
    new: Sequence[Mashup], n_known: int, ranker: Ranker, encoders: Callable[[], Encoders]
) -> Iterator[tuple[History, EncodedRequests, bool]]:
    """Yield the mashups that are learned together, encoded, and whether these are asked first.

    The last of them are, of what has learned all before them. A ranker that learns is asked about
    all, and often enough to see what the views will be like. `encoders` are those that know what
    was learned until then.
    """
    first = encoders()
    read = as_learned((mashup.description for mashup in new), first.boilerplate)
    every = first.encode(read, history_days(History(new)))
    for own, is_asked in _cuts(len(new), n_known, ranker):
        requests, now = every.take(np.arange(len(new))[own]), encoders()
        yield History(new[own]), requests if now is first else now.reworded(requests), is_asked


def _cuts(n_new: int, n_known: int, ranker: Ranker) -> Iterator[tuple[slice, bool]]:
    start, asked_from = 0, 0 if ranker.learns else max(n_new - MOST_FEEDBACK, 0)
    while start < n_new:
        end = asked_from if start < asked_from else n_new
        if ranker.learns:
            end = min(end, start + min(max((n_known + start) // _SHARE, _LEAST_TURN), _MOST_TURN))
        yield slice(start, end), start >= asked_from
        start = end


def asked(
    views: Views,
    ranker: Ranker,
    tail: Tail,
    answerable: Answerable,
    decision: Decision,
    requests: EncodedRequests,
    usage: sparse.csr_array,
) -> tuple[Ranker, Decision]:
    """Return ranker and decision after some requests, before the views learn what they used.

    Requests that say nothing known tell nothing of how candidates are to be taken.
    """
    corpus = views.corpus
    # All that one used may have been removed.
    tells = np.diff(usage.indptr) > 0
    tells &= np.array([corpus.encoders.read(text) for text in requests.texts])
    if not tells.any():
        return ranker, decision
    requests, usage = requests.take(np.flatnonzero(tells)), usage[tells]
    found = views.candidates(views.batch(requests))
    given = ranker.each(views[CoUsageView].pairs, found)
    texts = requests.texts
    evidence = answerable.evidences(said(corpus.encoders.word, texts), texts, found, given)
    served = answerable.probabilities(evidence).tolist()
    outcomes = []
    for row, (own, p) in enumerate(zip(found, given, strict=True)):
        used = entries(usage, np.array([row])).index
        months = corpus.months_after(float(requests.day[row]))
        n_naming, counts = behind_of(own, used, corpus)
        behind = tail.probabilities(n_naming, counts, months)
        outcomes.append(Answer(p, is_in(own.positions, used), behind, served[row], months))
    decision = decision.adapted(outcomes)
    if ranker.learns:
        prior = RankerPrior.at(corpus.usage.shape[0], views)
        rows = [
            _comparable(own, outcome.labels, corpus.counts)
            for own, outcome in zip(found, outcomes, strict=True)
        ]
        ranker = ranker.observed(prior.first, [own for own in rows if len(own[1])])
    return ranker, decision


def _comparable(
    found: Candidates, labels: NDArray[np.bool_], counts: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return features and labels of the candidates that tell what speaks for those that were used.

    Where these had a history, the others that have one: that nobody used the rest yet says nothing
    of it, since it may be new, or never have been proposed.
    """
    has_history = counts[found.positions] > 0
    if has_history[labels].all():
        return found.features[has_history], labels[has_history]
    return found.features, labels


def renewed(
    views: Views,
    n_mashups: int,
    n_new: int,
    ranker: Ranker,
    answerable: Answerable,
    decision: Decision,
) -> tuple[Ranker, Answerable, Decision]:
    """Return the parts of a router as they are after so many mashups, without fitting again.

    They stay, unless the ranker learns: then they go over to what is known beforehand of as many
    mashups, by the share of these that are new, and to what the ranker has learned.
    """
    if not ranker.learns:
        return ranker, answerable, decision
    prior = bundled_prior()
    share = n_new / n_mashups if ranker.n_examples else 1.0
    return (
        ranker.at(n_mashups, views),
        answerable.at(prior.answerable, n_mashups, views.likeness_names, share),
        decision.at(prior, n_mashups, share),
    )
