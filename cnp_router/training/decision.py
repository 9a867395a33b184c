"""What out-of-fold answers teach about the decision: the recall promise and the confidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing.selection import RecallControl, mass_positions
from cnp_router.text import specification_text
from cnp_router.training.answerable import Answerable
from cnp_router.training.corpus import Specifications
from cnp_router.training.examples import Fold
from cnp_router.training.linear import Gaussian, Logistic
from cnp_router.training.parts import Part
from cnp_router.training.prior import Prior
from cnp_router.training.ranker import Ranker

__all__ = ["CONFIDENCE", "Answer", "Decision", "confidence_features", "confidence_rows", "judged"]

_SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
_SIZES = (1, 3, 5, 10, 20, 50)
CONFIDENCE = ("log outside", "share outside", "best", "log mass")


@dataclass(frozen=True, eq=False)
class Answer:
    """An out-of-fold answer to one past request.

    `labels` says which candidates it used, `n_used` how many APIs in all: those that are not
    candidates can be reached by a broadcast only.
    """

    probabilities: NDArray[Any]
    labels: NDArray[Any]
    n_used: int


@dataclass(frozen=True, eq=False)
class Decision(Part):
    """What out-of-fold answers teach about the decision.

    `confidence` says from `confidence_features` how probably the recipients cover all that a
    request needs, if anything serves it; the others are those of `recall_control`, with 2 for what
    no share reaches.
    """

    confidence: Logistic
    needed: NDArray[Any]
    weights: NDArray[Any]
    n_requests: int

    @classmethod
    def fit(
        cls,
        answers: Sequence[Answer],
        shares: NDArray[Any] | None = None,
        prior: Gaussian | None = None,
    ) -> Decision:
        """Learn from answers to requests that are as new ones will be.

        The confidence is that of selections of many sizes. `shares` are what other needs took of
        the probability mass, where there are too few answers to promise a recall: with
        them nobody is announced to of whom nothing speaks, and nothing is promised. With a `prior`
        of the confidence, there may be few answers, or none.
        """
        rows: list[NDArray[Any]] = []
        covered: list[bool] = []
        needed = [] if shares is None else shares.tolist()
        weights = [1.0] * len(needed)
        n_requests = len(answers) + len(needed)
        unseen = 2.0 if shares is None else 1.0
        for answer in answers:
            order = np.argsort(-answer.probabilities, kind="stable")
            place = mass_positions(answer.probabilities[order])
            found = np.minimum(place[answer.labels[order]], unseen)
            needed.extend([*found, *[unseen] * (answer.n_used - len(found))])
            weights.extend([1 / answer.n_used] * answer.n_used)
            selections = list(confidence_rows(answer))
            rows.extend(row for row, _ in selections)
            covered.extend(is_covered for _, is_covered in selections)
        confidence = Logistic(np.zeros(4), 0.0)
        if rows or prior:
            X = np.array(rows).reshape(-1, 4)
            confidence = Logistic.fit(X, np.array(covered, dtype=bool), prior=prior)
        return cls(confidence, np.array(needed), np.array(weights), n_requests)

    @cached_property
    def recall_control(self) -> RecallControl:
        """The cut for a target recall."""
        needed = np.where(self.needed > 1, np.inf, self.needed)
        return RecallControl(needed, self.weights, self.n_requests)


def confidence_rows(answer: Answer) -> Iterator[tuple[NDArray[Any], bool]]:
    """Yield what the confidence is judged by for selections of many sizes, and if they cover."""
    order = np.argsort(-answer.probabilities, kind="stable")
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
    """Return what the confidence is judged by, of shape (4,).

    The logarithm of the mass `outside` of the selection, its share of the whole, the highest
    probability, and the logarithm of the whole mass.
    """
    total = float(probabilities.sum())
    best = float(probabilities.max(initial=0.0))
    return np.array(
        [np.log(outside + 1e-3), outside / max(total, 1e-9), best, np.log(total + 1e-3)]
    )


def judged(
    folds: Sequence[Fold],
    answers: Sequence[NDArray[Any]],
    ranker: Ranker,
    specifications: Specifications,
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
    probabilities = [
        *answers,
        *(ranker.probabilities(look.co_usage, look.candidates) for look in others),
    ]
    texts = [specification_text(api) for api in specifications.catalog]
    answerable = Answerable.fit(
        [*whole, *others],
        probabilities,
        specifications.encoders.word,
        texts,
        written,
        prior.answerable if prior else None,
        n_mashups,
    )
    examples = [example for fold in folds for example, _ in fold.found]
    return answerable, Decision.fit(
        [
            Answer(p, example.labels, len(example.used))
            for example, p in zip(examples, answers, strict=True)
            if not example.hidden
        ],
        prior.recall.at(n_mashups) if prior else None,
        prior.confidence.at(n_mashups, CONFIDENCE) if prior else None,
    )
