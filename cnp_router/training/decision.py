"""What out-of-fold answers teach about the decision: the recall promise and the confidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing import RecallControl, TargetRecall
from cnp_router.routing.head import TOLERANCE
from cnp_router.routing.recall import FEEDBACK_TARGET
from cnp_router.routing.selection import mass_positions
from cnp_router.training.answerable import SERVED, Answerable
from cnp_router.training.examples import Fold
from cnp_router.training.linear import Logistic, level
from cnp_router.training.looks import Look
from cnp_router.training.manner import Manner
from cnp_router.training.parts import Part
from cnp_router.training.prior import MOST, Prior
from cnp_router.training.ranker import Ranker
from cnp_router.training.recalibration import Recalibration
from cnp_router.training.tail import Tail
from cnp_router.training.views import Views

__all__ = [
    "CONFIDENCE",
    "Answer",
    "Decision",
    "confidence_features",
    "confidence_rows",
    "judged",
]

MAX_JUDGED = 4_000  # answers from which the confidence is learned
_TOGETHER = 512  # answers
_SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
_LEAST = 1e-9  # what any candidate is given
_SIZES = (1, 3, 5, 10, 20, 50)
CONFIDENCE = ("share outside", "best")
_HIGHEST = 0.5  # threshold: what is more probably needed than not is asked in any case
_LEARNING_RATE, _MOST_RAISED = 0.05, 3.0  # of the log-odds of the confidence


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer to one request, out of fold, or before its mashup was learned.

    `labels` says which candidates it used, `missed` what probability was given to those that are
    no candidates. `answerable` is the probability that anything
    serves it; `months` is how long after the end of the history it was asked, negative before it.
    """

    probabilities: NDArray[Any]
    labels: NDArray[Any]
    missed: NDArray[Any]
    answerable: float = 1.0
    months: float = 0.0

    @property
    def n_used(self) -> int:
        """How many APIs it used."""
        return int(self.labels.sum()) + len(self.missed)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The candidates, most probable first."""
        return np.argsort(-self.probabilities, kind="stable")


@dataclass(frozen=True, eq=False)
class Decision(Part):
    """What out-of-fold answers teach about the decision.

    `confidence` says from `confidence_features` how probably the recipients cover all that a
    request needs, if anything serves it; the others are those of `recall_control`. What became of
    observed requests has `raised` its log-odds, and is the `recalibration` of all probabilities.
    """

    confidence: Logistic
    needed: NDArray[Any]
    request: NDArray[Any]
    months: NDArray[Any]
    shift: float = 0.0
    is_promise: bool = True
    recalibration: Recalibration = field(default_factory=Recalibration)
    raised: float = 0.0

    def adapted(self, answers: Sequence[Answer]) -> Decision:
        """Return it after what was answered to requests, before their mashups were learned.

        The probabilities are uncorrected. The threshold, the confidence and the probabilities go by
        what became of these.
        """
        control, raised, corrected = self.recall_control, self.raised, self.recalibration.of
        target = TargetRecall().target
        for answer in answers:
            p, behind = corrected(answer.probabilities), corrected(answer.missed)
            given = np.concatenate([p[answer.labels], behind])
            # One is always announced to.
            least = control.threshold(target, answer.months)
            least = min(least, p.max(initial=0.0)) - TOLERANCE
            # What was served is no less probably so than others, however it is said.
            served = max(answer.answerable, SERVED)
            sure = self.covering(p, float(p[p < least].sum()), raised) * served
            raised += _LEARNING_RATE * (bool((given >= least).all()) - sure)
            raised = min(max(raised, -_MOST_RAISED), _MOST_RAISED)
            # What nothing speaks for is reached by no threshold, however low.
            lowest = p[p > 0].min(initial=1.0)
            if given.all() or control.threshold(FEEDBACK_TARGET, answer.months) > lowest:
                control = control.adapted(given, answer.months)
        recalibration = self.recalibration.observed(
            [answer.probabilities for answer in answers], [answer.labels for answer in answers]
        )
        return replace(self, shift=control.shift, raised=raised, recalibration=recalibration)

    def covering(self, p: NDArray[Any], outside: float, raised: float | None = None) -> float:
        """Return how probably a selection covers all that a request needs, if anything serves it.

        `p` are the probabilities of its candidates, and `outside` the sum of those that are not
        selected.
        """
        raised = self.raised if raised is None else raised
        return self.confidence.probability_of(confidence_features(p, outside), raised)

    @classmethod
    def fit(
        cls,
        answers: Sequence[Answer],
        n_mashups: int = 0,
        prior: Prior | None = None,
    ) -> Decision:
        """Learn from answers to requests that are as new ones will be.

        The confidence is that of selections of many sizes. With a `prior`, which is for few
        mashups, there may be few answers, or none: then what other needs were given
        counts too, nobody is announced to of whom nothing speaks, and nothing is promised.
        """
        known = np.zeros(0) if prior is None else prior.recall.at(n_mashups)
        unseen = 0.0 if prior is None else _LEAST
        needed = [known]
        for answer in answers:
            needed.extend((answer.probabilities[answer.labels], answer.missed))
        given = np.concatenate(needed)
        given[len(known) :] = np.maximum(given[len(known) :], unseen)
        sizes = [1] * len(known) + [answer.n_used for answer in answers]
        months = np.zeros(len(sizes))
        if prior is None:  # else nothing is promised, to no time
            months[len(known) :] = [answer.months for answer in answers]
        judged_ = answers[:: max(-(-len(answers) // MAX_JUDGED), 1)]
        rows = [_selections(together) for together in _padded(judged_)]
        covering = Logistic(np.zeros(len(CONFIDENCE)), 0.0)
        if rows or prior:
            X = np.concatenate([np.zeros((0, len(CONFIDENCE))), *(own for own, _ in rows)])
            y = np.concatenate([np.zeros(0, dtype=bool), *(covered for _, covered in rows)])
            gaussian = None if prior is None else prior.confidence.covered.at(n_mashups, CONFIDENCE)
            covering = Logistic.fit(X, y, prior=gaussian)
        decision = cls(
            covering,
            given,
            np.repeat(np.arange(len(sizes)), sizes),
            months,
            is_promise=prior is None,
        )
        missing = decision.missing(answers)
        if prior is not None:
            missing = prior.confidence.level.blended(missing, len(answers), n_mashups)
        return decision._raised(missing)

    def at(self, prior: Prior, n_mashups: int, share: float) -> Decision:
        """Return it with a share of the confidence that the prior at some number of mashups has."""
        known = Decision.fit([], n_mashups, prior).confidence
        return replace(self, confidence=self.confidence.blended(known, share))

    def missing(self, answers: Sequence[Answer]) -> float:
        """Return what the log-odds miss so that the confidence is right on average.

        At the default rule, and times the probability that anything serves the request.
        """
        if not answers:
            return 0.0
        parts = [self._by_default(together) for together in _padded(answers)]
        x, right = (np.concatenate(own) for own in zip(*parts, strict=True))
        served = np.array([answer.answerable for answer in answers])
        # Smoothed: what was always covered is not yet certain. It is no surer than being served.
        n = len(right)
        wanted = min(float(right.mean()), float(served.mean()))
        return level(x, wanted * n / (n + 1), served)

    def _by_default(self, answers: _Padded) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the log-odds that the recipients of the default rule cover, and if they do."""
        months, which = np.unique(answers.months, return_inverse=True)
        target, control = TargetRecall().target, self.recall_control
        least = np.array([control.threshold(target, month) for month in months.tolist()])[which]
        reached = answers.descending >= np.maximum(least - TOLERANCE, 0)[:, None]
        size = np.maximum((reached & answers.there).sum(axis=1), 1)
        row, covered = answers.selected(size)
        return self.confidence.log_odds(row), covered

    def _raised(self, by: float) -> Decision:
        confidence = self.confidence
        raised = Logistic(confidence.coefficients, confidence.intercept + by)
        return replace(self, confidence=raised)

    @cached_property
    def recall_control(self) -> RecallControl:
        """The threshold for a target recall."""
        return RecallControl(
            self.needed,
            self.request,
            self.months,
            self.shift,
            is_promise=self.is_promise,
            slope=self.recalibration.slope,
            intercept=self.recalibration.intercept,
            highest=_HIGHEST,
        )


@dataclass(frozen=True, eq=False)
class _Padded:
    """Answers of several requests: their candidates, most probable first, and nothing behind."""

    there: NDArray[Any]  # which places hold a candidate
    descending: NDArray[Any]
    hits: NDArray[Any]  # how many of the first so many it used, from none on
    outside: NDArray[Any]  # what is behind these
    n_used: NDArray[Any]
    months: NDArray[Any]

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> _Padded:
        sizes = np.array([len(answer.probabilities) for answer in answers])
        there = np.arange(sizes.max(initial=1)) < sizes[:, None]
        p, labels = np.full(there.shape, -1.0), np.zeros(there.shape, dtype=bool)
        if sizes.any():
            p[there] = np.concatenate([answer.probabilities for answer in answers])
            labels[there] = np.concatenate([answer.labels for answer in answers])
        order = np.argsort(-p, axis=1, kind="stable")
        descending = np.where(there, np.take_along_axis(p, order, axis=1), 0.0)
        used = np.take_along_axis(labels, order, axis=1)
        n, width = there.shape
        hits, outside = np.zeros((n, width + 1), dtype=int), np.zeros((n, width + 1))
        np.cumsum(used, axis=1, out=hits[:, 1:])
        outside[:, :-1] = descending[:, ::-1].cumsum(axis=1)[:, ::-1]
        n_used = np.array([answer.n_used for answer in answers])
        months = np.array([answer.months for answer in answers])
        return cls(there, descending, hits, outside, n_used, months)

    def selected(self, sizes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the features of selections of some size, and if they cover what it used."""
        each = np.arange(len(sizes))
        sizes = np.minimum(sizes, self.there.shape[1])
        outside, covered = self.outside[each, sizes], self.hits[each, sizes] == self.n_used
        share = outside / np.maximum(self.outside[:, 0], 1e-9)
        return np.column_stack([share, self.descending[:, 0]]), covered


def _padded(answers: Sequence[Answer]) -> Iterator[_Padded]:
    """Yield the answers in parts, so that memory stays bounded."""
    for start in range(0, len(answers), _TOGETHER):
        yield _Padded.of(answers[start : start + _TOGETHER])


def _selections(answers: _Padded) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what the confidence is judged by for selections of many sizes, and if they cover."""
    n = len(answers.there)
    place = np.stack([mass_positions(own) for own in answers.descending])
    place[~answers.there] = np.inf
    sizes = np.empty((n, len(_SHARES) + len(_SIZES)), dtype=int)
    for column, share in enumerate(_SHARES):
        sizes[:, column] = (place <= share).sum(axis=1)
    sizes[:, len(_SHARES) :] = _SIZES
    sizes.sort(axis=1)
    again = np.zeros(sizes.shape, dtype=bool)
    again[:, 1:] = sizes[:, 1:] == sizes[:, :-1]
    sizes = np.minimum(sizes, answers.there.sum(axis=1)[:, None])
    rows, covered = zip(*(answers.selected(own) for own in sizes.T), strict=True)
    kept = (sizes > 0) & ~again
    return np.stack(rows, axis=1)[kept], np.stack(covered, axis=1)[kept]


def confidence_rows(answer: Answer) -> Iterator[tuple[NDArray[Any], bool]]:
    """Yield what the confidence is judged by for selections of many sizes, and if they cover."""
    rows, covered = _selections(_Padded.of([answer]))
    yield from zip(rows, covered.tolist(), strict=True)


def confidence_features(probabilities: NDArray[Any], outside: float) -> tuple[float, float]:
    """Return what the confidence is judged by.

    The share of the probability mass that is `outside` of the selection, and the highest
    probability. Not the mass itself: where little fits it is low, which
    is no sign of being covered.
    """
    total, best = float(probabilities.sum()), float(probabilities.max(initial=0.0))
    return outside / max(total, 1e-9), best


def judged(
    folds: Sequence[Fold],
    answers: Sequence[NDArray[Any]],
    seen: Sequence[Look],
    manner: Manner,
    sounding: NDArray[Any],
    ranker: Ranker,
    tail: Tail,
    views: Views,
    n_mashups: int,
    prior: Prior,
) -> tuple[Answerable, Decision]:
    """Learn whether anything serves a request, and the decision, from what the folds saw.

    `answers` are the ranker's, out of fold, to the examples of all folds; `seen` are `all_looks`,
    and `sounding` is what their `manner` says of each. The `prior` counts with few mashups, or
    none, and of what serves a request with any number: a history tells only of requests like its
    own.
    """
    little = prior if n_mashups <= MOST else None
    probabilities = list(answers)
    for fold in folds:
        if fold.others:  # all looked at through the same views
            found = [look.candidates for look in fold.others]
            probabilities.extend(ranker.each(fold.others[0].co_usage, found))
    probabilities += [np.zeros(0)] * (len(seen) - len(probabilities))  # of parts of specifications
    answerable, evidence = Answerable.fit(
        seen,
        probabilities,
        manner,
        sounding,
        views.corpus.encoders.word,
        views.likeness_names,
        prior.answerable,
        n_mashups,
    )
    examples = [example for fold in folds for example, _ in fold.found]
    served = answerable.probabilities(evidence[: len(examples)]).tolist()
    missed = tail.missed(examples)
    return answerable, Decision.fit(
        [
            Answer(p, example.labels, behind, own, example.months)
            for example, p, behind, own in zip(examples, answers, missed, served, strict=True)
            if example.is_natural
        ],
        n_mashups,
        little,
    )
