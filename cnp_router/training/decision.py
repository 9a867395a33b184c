"""What out-of-fold answers teach about the decision: the recall promise and the confidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.routing import RecallControl, TargetRecall
from cnp_router.routing.recall import FEEDBACK_TARGET
from cnp_router.routing.selection import mass_positions
from cnp_router.text import specification_text
from cnp_router.training.answerable import Answerable
from cnp_router.training.corpus import entries
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.examples import Fold
from cnp_router.training.linear import Logistic, level
from cnp_router.training.parts import Part
from cnp_router.training.prior import Prior, bundled_prior
from cnp_router.training.ranker import Ranker
from cnp_router.training.tail import Tail
from cnp_router.training.views import CoUsageView, Views

__all__ = [
    "CONFIDENCE",
    "Answer",
    "Decision",
    "confidence_features",
    "confidence_rows",
    "judged",
    "renewed",
]

MAX_JUDGED = 4_000  # answers from which the confidence is learned
_MOST_FEEDBACK = 200  # of mashups that are observed together
_SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
_LEAST = 1e-9  # what any candidate is given
_SIZES = (1, 3, 5, 10, 20, 50)
CONFIDENCE = ("share outside", "best")


@dataclass(frozen=True, eq=False)
class Answer:
    """An out-of-fold answer to one past request.

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
    request needs, if anything serves it; the others are those of `recall_control`.
    """

    confidence: Logistic
    needed: NDArray[Any]
    request: NDArray[Any]
    months: NDArray[Any]
    shift: float = 0.0
    is_promise: bool = True

    def adapted(
        self, views: Views, ranker: Ranker, requests: EncodedRequests, usage: sparse.csr_array
    ) -> Decision:
        """Return it after the last of some requests, before the views learn what they used."""
        control = self.recall_control
        last = np.arange(len(requests))[-_MOST_FEEDBACK:]
        found = views.candidates(views.batch(requests.take(last)))
        answers = ranker.each(views[CoUsageView].conditional, found)
        for row, own, p in zip(last, found, answers, strict=True):
            used = entries(usage, np.array([row])).index
            if not len(used):  # all that it used was removed
                continue
            months = views.corpus.months_after(float(requests.day[row]))
            least = min(control.threshold(FEEDBACK_TARGET, months), p.max(initial=0.0))
            asked = own.positions[p >= least]
            control = control.adapted(float(np.isin(used, asked).mean()))
        return replace(self, shift=control.shift)

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
        known = [] if prior is None else prior.recall.at(n_mashups).tolist()
        rows: list[NDArray[Any]] = []
        covered: list[bool] = []
        needed = [[p] for p in known]
        months = [0.0] * len(known)
        unseen = 0.0 if prior is None else _LEAST
        every = -(-len(answers) // MAX_JUDGED)
        for number, answer in enumerate(answers):
            given = np.concatenate([answer.probabilities[answer.labels], answer.missed])
            needed.append(np.maximum(given, unseen).tolist())
            months.append(0.0 if prior else answer.months)  # nothing is promised, to no time
            if number % every:
                continue
            selections = list(confidence_rows(answer))
            rows.extend(row for row, _ in selections)
            covered.extend(is_covered for _, is_covered in selections)
        covering = Logistic(np.zeros(len(CONFIDENCE)), 0.0)
        if rows or prior:
            X = np.array(rows).reshape(-1, len(CONFIDENCE))
            y = np.array(covered, dtype=bool)
            gaussian = None if prior is None else prior.confidence.covered.at(n_mashups, CONFIDENCE)
            covering = Logistic.fit(X, y, prior=gaussian)
        decision = cls(
            covering,
            np.array([p for own in needed for p in own]),
            np.repeat(np.arange(len(needed)), [len(own) for own in needed]),
            np.array(months),
            is_promise=prior is None,
        )
        missing = decision.missing(answers)
        if prior is not None:
            missing = prior.confidence.level.blended(missing, len(answers), n_mashups)
        return decision._raised(missing)

    def at(self, prior: Prior, n_mashups: int) -> Decision:
        """Return it with the confidence that the prior at some number of mashups has.

        The threshold stays: it is that of probabilities whose calibration stays.
        """
        return replace(self, confidence=Decision.fit([], n_mashups, prior).confidence)

    def missing(self, answers: Sequence[Answer]) -> float:
        """Return what the log-odds miss so that the confidence is right on average.

        At the default rule, and times the probability that anything serves the request.
        """
        rows = []
        for answer in answers:
            descending = answer.probabilities[answer.order]
            least = self.recall_control.threshold(TargetRecall().target, answer.months)
            size = max(int(np.count_nonzero(descending >= least - 1e-12)), 1)
            covers = answer.labels[answer.order[:size]].sum() == answer.n_used
            row = confidence_features(descending, float(descending[size:].sum()))
            rows.append((self.confidence.log_odds(row), answer.answerable, covers))
        if not rows:
            return 0.0
        x, served, right = np.array(rows, dtype=float).T
        # Smoothed: what was always covered is not yet certain. It is no surer than being served.
        n = len(right)
        wanted = min(float(right.mean()), float(served.mean()))
        return level(x, wanted * n / (n + 1), served)

    def _raised(self, by: float) -> Decision:
        confidence = self.confidence
        raised = Logistic(confidence.coefficients, confidence.intercept + by)
        return replace(self, confidence=raised)

    @cached_property
    def recall_control(self) -> RecallControl:
        """The threshold for a target recall."""
        return RecallControl(
            self.needed, self.request, self.months, self.shift, is_promise=self.is_promise
        )


def confidence_rows(answer: Answer) -> Iterator[tuple[NDArray[Any], bool]]:
    """Yield what the confidence is judged by for selections of many sizes, and if they cover."""
    order = answer.order
    descending, hits = answer.probabilities[order], np.cumsum(answer.labels[order])
    place = mass_positions(descending)
    sizes = {int(np.count_nonzero(place <= share)) for share in _SHARES} | set(_SIZES)
    for size in sorted(min(size, len(order)) for size in sizes):
        if size:
            outside = float(descending[size:].sum())
            yield (
                confidence_features(answer.probabilities, outside),
                bool(hits[size - 1] == answer.n_used),
            )


def confidence_features(probabilities: NDArray[Any], outside: float) -> NDArray[Any]:
    """Return what the confidence is judged by, of shape (2,).

    The share of the probability mass that is `outside` of the selection, and the highest
    probability. Not the mass itself: where little fits it is low, which
    is no sign of being covered.
    """
    total, best = float(probabilities.sum()), float(probabilities.max(initial=0.0))
    return np.array([outside / max(total, 1e-9), best])


def judged(
    folds: Sequence[Fold],
    answers: Sequence[NDArray[Any]],
    ranker: Ranker,
    tail: Tail,
    views: Views,
    written: Sequence[str],
    n_mashups: int,
    prior: Prior | None,
) -> tuple[Answerable, Decision]:
    """Learn whether anything serves a request, and the decision, from what the folds saw.

    `answers` are the ranker's, out of fold, to the examples of all folds; `written` are the texts
    of nothing. With a `prior`, there may be few mashups, or none.
    """
    whole = [look for fold in folds for look in fold.whole]
    others = [look for fold in folds for look in fold.others]
    probabilities = list(answers)
    for fold in folds:
        if fold.others:  # all looked at through the same views
            found = [look.candidates for look in fold.others]
            probabilities.extend(ranker.each(fold.others[0].co_usage, found))
    specifications = views.corpus.specifications
    texts = [specification_text(api) for api in specifications.catalog]
    answerable, evidence = Answerable.fit(
        [*whole, *others],
        probabilities,
        specifications.encoders.word,
        texts,
        written,
        views.likeness_names,
        prior.answerable if prior else None,
        n_mashups,
    )
    examples = [example for fold in folds for example, _ in fold.found]
    served = [answerable.probability(own) for own in evidence[: len(examples)]]
    return answerable, Decision.fit(
        [
            Answer(p, example.labels, tail.missed(example), own, example.months)
            for example, p, own in zip(examples, answers, served, strict=True)
            if not example.hidden
        ],
        n_mashups,
        prior,
    )


def renewed(
    views: Views, n_mashups: int, ranker: Ranker, answerable: Answerable, decision: Decision
) -> tuple[Ranker, Answerable, Decision]:
    """Return the parts of a router as they are after so many mashups, without fitting again.

    They stay, unless none of them had a request of its own to learn from: then all of them are what
    is known beforehand, which moves with the number of mashups.
    """
    if ranker.n_examples:
        return ranker, answerable, decision
    prior = bundled_prior()
    first = prior.ranker.at(n_mashups, views.feature_names, views.beliefs).most_probable
    return (
        replace(ranker, first=first),
        answerable.at(prior.answerable, n_mashups, views.likeness_names),
        decision.at(prior, n_mashups),
    )
