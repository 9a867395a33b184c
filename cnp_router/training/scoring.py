"""From requests to scores: views, ranker, completion, and what stands behind the candidates."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.history import History
from cnp_router.routing import HeadScores, Scores
from cnp_router.routing.eligible import Chosen, First
from cnp_router.routing.head import is_in
from cnp_router.text import mask_links, without_quotations
from cnp_router.training.answerable import Answerable, said
from cnp_router.training.co_usage_features import CoUsageFeatures
from cnp_router.training.completion import Completion
from cnp_router.training.compound import Compound, most_doubt, prior_log_odds, read
from cnp_router.training.corpus import Corpus
from cnp_router.training.decision import Decision
from cnp_router.training.encoders import UNKNOWN, EncodedRequests, Encoders
from cnp_router.training.lost import share_lost
from cnp_router.training.ranker import Ranker
from cnp_router.training.tail import Tail
from cnp_router.training.views import (
    Batch,
    Candidates,
    CoUsageView,
    HistoryView,
    Neighbours,
    Views,
)

__all__ = ["LearnedScores", "Scoring", "served"]

_OF_THE_ROUTER = {"apis", "probabilities", "evidence", "group_of", "batch", "views", "decision"}
_MOST_AGAIN = 1_000  # past requests that say the same
# Probability that what stands around a quotation, or around links, asks for the best API for it,
# from which that is read alone: measured.
_ASKS_ALONE, _ASKS_WITHOUT_LINKS = 0.4, 0.15
_REPEAT = 0.7  # similarity to a past request from which it is nearly the same


@dataclass(frozen=True, eq=False, repr=False)
class LearnedScores(HeadScores):
    """The scores of a learned router, and what its reasons and its confidence are made of.

    `served` is the probability that anything serves the request, `candidates` are the positions
    of its candidates; `batch` gives the request as `views` look at it, and they are decided on by
    the `decision` of the same moment.
    """

    batch: Callable[[], Batch] = field(kw_only=True)
    views: Views = field(kw_only=True)
    decision: Decision = field(kw_only=True)
    known: tuple[int, ...] = field(kw_only=True)
    compound: Compound | None = field(kw_only=True)
    served: float = field(kw_only=True)
    candidates: NDArray[np.intp] = field(kw_only=True)

    def of_candidates(self, chosen: Chosen) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the probability of each candidate, and whether it is not among some chosen."""
        head, candidates = self.head, self.candidates
        if isinstance(chosen, First):
            return self.at(candidates), ~chosen.holds(candidates)
        places, taken = head.places(candidates), head.places(chosen)
        if places is None or taken is None:
            return self.at(candidates), ~is_in(candidates, chosen)
        return head.probabilities[places], head.left(taken)[places]

    def packed(self) -> dict[str, Any]:
        """Return what of it is not the router's: what goes from one process to another."""
        own = {each.name for each in fields(self)} - _OF_THE_ROUTER
        return {name: getattr(self, name) for name in own}


def served(scores: Scores) -> float:
    """Return the probability that anything serves the request; other routers do not say."""
    return scores.served if isinstance(scores, LearnedScores) else 1.0


@dataclass(frozen=True, eq=False)
class Scoring:
    """What a learned router knows at one moment: others may observe meanwhile.

    `compound` is that of `LearnedRouter`; `co_usage` is made of the views when it is needed.
    """

    apis: tuple[str, ...]
    views: Views
    ranker: Ranker
    tail: Tail
    completion: Completion
    answerable: Answerable
    decision: Decision
    history: History
    compound: bool | None
    co_usage: Callable[[], CoUsageFeatures]

    @property
    def encoders(self) -> Encoders:
        """The encoders that these views know: others may know more words meanwhile."""
        return self.views.corpus.encoders

    def scores(
        self,
        requests: Sequence[str],
        known: Sequence[int],
        dates: Sequence[datetime.date | None],
    ) -> Iterator[LearnedScores]:
        """Yield the scores of each of some requests, which are looked at together."""
        views = self.views
        days = _days(dates)
        asked = self.encoders.encode(self._read(requests, days), days)
        batch = views.batch(asked)
        found, ranked = self._ranked(batch)
        near = views[HistoryView].neighbours(batch)
        served = self._served(requests, asked.texts, found, ranked, near)
        months = np.array([views.corpus.months_after(day) for day in days.tolist()], dtype=float)
        behind = self._behind(found, months)
        alone = len(requests) == 1
        for row, request in enumerate(asked.texts):
            own = partial(_same, batch) if alone else partial(_looked_at, views, asked, row)
            compound = self._compound(request, days[[row]], found[row].positions, ranked[row])
            positions, p = found[row].positions, ranked[row]
            if compound is not None:
                there = compound.probabilities > 0
                positions, p = compound.positions[there], compound.probabilities[there]
            if len(known):
                completed = self.completion.complete(
                    positions, p, self.co_usage(), near[row], known
                )
                positions, p = completed.positions, completed.probabilities
            p = self.decision.recalibration.of(p)  # last: what is before was fitted without
            yield self._with(
                own,
                **self._head(found[row], positions, p, *behind[row]),
                n_needs=1 if compound is None else compound.n_needs(known),
                months=float(months[row]),
                has_known_words=self.encoders.know(request),
                candidates=positions,
                known=tuple(known),
                compound=compound,
                served=float(served[row]),
            )

    def _read(self, requests: Sequence[str], days: NDArray[Any]) -> list[str]:
        """Return what is read of some requests: without boilerplate, links and what they quote.

        All is read where what is left seems to ask for nothing that there is; and as it was learned
        where the same was asked before.
        """
        whole = list(map(self.encoders.boilerplate.without, requests))
        read = list(map(mask_links, whole))
        around = list(map(without_quotations, read))
        rows = [
            row
            for row, (text, rest) in enumerate(zip(whole, around, strict=True))
            if text != rest and not len(self._again(requests[row]))
        ]
        if not rows:
            return read
        texts = [around[row] for row in rows]
        batch = self.views.batch(self.encoders.encode(texts, days[rows]))
        found, ranked = self._ranked(batch)
        near = self.views[HistoryView].neighbours(batch)
        served = self._served(texts, texts, found, ranked, near)
        for row, text, p, is_served in zip(rows, texts, ranked, served.tolist(), strict=True):
            best = self.decision.recalibration.of(p).max(initial=0.0)
            least = _ASKS_ALONE if text != read[row] else _ASKS_WITHOUT_LINKS
            read[row] = text if is_served * best >= least else whole[row]
        return read

    def _ranked(self, batch: Batch) -> tuple[list[Candidates], list[NDArray[Any]]]:
        """Return the candidates of requests, and their probabilities."""
        found = self.views.candidates(batch)
        return found, self.ranker.each(self.views[CoUsageView].pairs, found)

    def _with(self, batch: Callable[[], Batch], **own: Any) -> LearnedScores:
        """Return scores, with what all those of this router have in common."""
        group_of = _no_group
        if self.tail.model is not None:
            group_of = partial(_group_of, self.views.corpus)
        own |= {"views": self.views, "decision": self.decision}
        return LearnedScores(self.apis, group_of=group_of, batch=batch, **own)

    def unpacked(
        self, own: dict[str, Any], request: str, date: datetime.date | None
    ) -> LearnedScores:
        """Return the scores that were packed in another process."""
        return self._with(partial(self._asked, request, date), **own)

    def _asked(self, request: str, date: datetime.date | None) -> Batch:
        days = _days([date])
        return self.views.batch(self.encoders.encode(self._read([request], days), days))

    def _behind(
        self, found: Sequence[Candidates], months: NDArray[Any]
    ) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return the probabilities of the next best of each request, and of all groups behind."""
        corpus = self.views.corpus
        sizes = [len(own.next_best) for own in found]
        n_naming = np.concatenate([own.n_naming for own in found])
        counts = corpus.counts[np.concatenate([own.next_best for own in found])]
        corrected = self.decision.recalibration.of
        named = corrected(self.tail.groups(n_naming, counts, months.repeat(sizes)))
        values, _ = corpus.count_groups
        groups = corrected(self.tail.groups(np.zeros(1), values, months[:, None]))
        return list(zip(np.split(named, np.cumsum(sizes)[:-1]), groups, strict=True))

    def _head(
        self,
        found: Candidates,
        positions: NDArray[Any],
        p: NDArray[Any],
        given: NDArray[Any],
        groups: NDArray[Any],
    ) -> dict[str, Any]:
        """Return the named and the groups behind them, as `HeadScores` takes them."""
        corpus = self.views.corpus
        behind = found.next_best
        if positions is not found.positions:
            # As parts of something compound, or beside what is known, others are probable.
            behind = np.union1d(behind, found.positions)
            given_of = np.zeros(len(behind))
            given_of[behind.searchsorted(found.next_best)] = given
            left = ~is_in(behind, positions)
            behind, given = behind[left], given_of[left]
        named = np.concatenate([positions, behind])
        order = named.argsort()
        named, given = named[order], np.concatenate([p, given])[order]
        if self.tail.model is None:  # all are alike
            groups = np.zeros(1)
            sizes = np.array([corpus.n_apis - len(named)])
        else:
            _, sizes = corpus.count_groups
            sizes = sizes - np.bincount(_group_of(corpus, named), minlength=len(sizes))
        return {"positions": named, "named": given, "behind": groups, "sizes": sizes}

    def _served(
        self,
        requests: Sequence[str],
        texts: Sequence[str],
        found: Sequence[Candidates],
        ranked: Sequence[NDArray[Any]],
        near: Sequence[Neighbours],
    ) -> NDArray[Any]:
        """Return the probability that anything serves each request, given as what is read of it."""
        told = said(self.encoders.word, texts)
        evidence = self.answerable.evidences(told, texts, found, ranked)
        served = self.answerable.probabilities(evidence)
        corpus = self.views.corpus
        for row, request in enumerate(requests):
            # Something served what says nearly the same, however strange it sounds.
            serving = corpus.serves[near[row].rows]  # what did may be removed
            likeness = min(float(near[row].similarity[serving].max(initial=0.0)), 1.0)
            if likeness >= _REPEAT:
                served[row] = max(served[row], likeness * told[row, 2])
            if not told[row, 1] and self.encoders.dense is None:
                # No word of it is known: runs of characters are all that speaks for anything.
                served[row] = min(served[row], 1 - float(np.prod(1 - ranked[row])))
            again = self._again(request)
            if corpus.share_lost:
                served[row] *= 1 - self._lost(near[row], again, found[row], ranked[row])
            # The same text again may have no known word, and so no neighbour.
            if len(again):
                served[row] = max(served[row], corpus.serves[again].mean())
        return served

    def _again(self, request: str) -> NDArray[np.intp]:
        """Return which past requests say the same: of a log that says it very often, some.

        One tells as much as all where nothing was removed that served any.
        """
        corpus = self.views.corpus
        there = (p for p in self.history.each_asked(request) if p < len(corpus.serves))
        most = 1 if corpus.serves_all else _MOST_AGAIN
        return np.array(list(itertools.islice(there, most)), dtype=np.intp)

    def _lost(
        self, near: Neighbours, again: NDArray[np.intp], found: Candidates, p: NDArray[Any]
    ) -> float:
        """Return the probability that what would serve a request is gone, and nothing new does."""
        corpus = self.views.corpus
        words = found.features[:, self.views.score_names.index("words")]
        gone, said = corpus.lost[near.rows] > 0, float(words.max(initial=0.0))
        share = share_lost(near.similarity, gone, said, corpus.share_lost)
        if len(again):
            share = max(share, float(corpus.lost[again].min()))
        is_new = corpus.fitted[found.positions] == 0
        return share * (1 - float(p[is_new].max(initial=0.0)))

    def _compound(
        self, request: str, day: NDArray[Any], positions: NDArray[Any], whole: NDArray[Any]
    ) -> Compound | None:
        """Return the request as one of several things, if it seems to be."""
        views = self.views
        n_mashups = views.corpus.usage.shape[0]
        prior = prior_log_odds(n_mashups, 0 if self.compound else views.corpus.n_compound)
        if prior is None or self.compound is False:
            return None

        def judge(texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
            encoded = self.encoders.encode(texts, day.repeat(len(texts)))
            found, ranked = self._ranked(views.batch(encoded))
            every = np.unique(np.concatenate([own.positions for own in found]))
            given = np.zeros((len(found), len(every)))
            for row, own, p in zip(given, found, ranked, strict=True):
                row[np.searchsorted(every, own.positions)] = p
            return every, given

        def glance(texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
            labels, linear = views[HistoryView].linear(self.encoders.word.transform(texts))
            return views.corpus.labels[labels], linear

        # The linear model knows nothing of APIs without history.
        most_have_history = 2 * len(views.corpus.labels) >= len(self.apis)
        seen = glance if most_have_history else None
        doubt = most_doubt(n_mashups)
        return read(request, positions, whole, judge, seen, prior=prior, doubt=doubt)


def _days(dates: Sequence[datetime.date | None]) -> NDArray[Any]:
    return np.array([UNKNOWN if date is None else date.toordinal() for date in dates])


def _same(batch: Batch) -> Batch:
    return batch


def _looked_at(views: Views, asked: EncodedRequests, row: int) -> Batch:
    return views.batch(asked.take(np.array([row])))


def _no_group(positions: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.zeros(len(positions), dtype=np.intp)


def _group_of(corpus: Corpus, positions: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return in which group APIs are: that of as many uses."""
    return corpus.count_group[positions]
