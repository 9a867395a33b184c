"""What out-of-fold answers teach about the decision: the recall promise and the confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.routing.selection import RecallControl, mass_positions
from cnp_router.text import specification_text
from cnp_router.training.answerable import NO_EVIDENCE, Answerable, met, rising
from cnp_router.training.corpus import Specifications
from cnp_router.training.examples import Fold
from cnp_router.training.linear import Logistic
from cnp_router.training.parts import Part
from cnp_router.training.ranker import Ranker

__all__ = ["Answer", "Decision", "confidence_features", "judged"]

_SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
_SIZES = (1, 3, 5, 10, 20, 50)
_N_FEATURES = 6


@dataclass(frozen=True, eq=False)
class Answer:
    """An out-of-fold answer to one past request, or to one that nothing serves.

    `labels` says which candidates it used, `n_used` how many APIs in all: those that are not
    candidates can be reached by a broadcast only; 0 where nothing serves it. `evidence` is that of
    `Answerable`, `weight` how many such requests it stands for.
    """

    probabilities: NDArray[Any]
    labels: NDArray[Any]
    n_used: int
    evidence: NDArray[Any] = field(default_factory=lambda: NO_EVIDENCE)
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Decision(Part):
    """What out-of-fold answers teach about the decision.

    `confidence` says from `confidence_features` how probably the recipients cover all that a
    request needs, which none do where nothing serves it; the others are those of `recall_control`,
    with 2 for what no share reaches.
    """

    confidence: Logistic
    needed: NDArray[Any]
    weights: NDArray[Any]
    n_requests: int

    @classmethod
    def fit(cls, answers: Sequence[Answer], shares: NDArray[Any] | None = None) -> Decision:
        """Learn from answers to requests that are as new ones will be.

        The confidence is that of selections of many sizes. `shares` are what other needs took of
        the probability mass, where there are too few answers to promise a recall: with
        them nobody is announced to of whom nothing speaks, and nothing is promised.
        """
        rows, covered, counts = [], [], []
        needed = [] if shares is None else shares.tolist()
        weights = [1.0] * len(needed)
        n_requests = sum(answer.n_used > 0 for answer in answers) + len(needed)
        unseen = 2.0 if shares is None else 1.0
        for answer in answers:
            order = np.argsort(-answer.probabilities, kind="stable")
            descending, labels = answer.probabilities[order], answer.labels[order]
            place, hits = mass_positions(descending), np.cumsum(labels)
            if answer.n_used:
                found = np.minimum(place[labels], unseen)
                needed.extend([*found, *[unseen] * (answer.n_used - len(found))])
                weights.extend([1 / answer.n_used] * answer.n_used)
            sizes = {int(np.count_nonzero(place <= share)) for share in _SHARES} | set(_SIZES)
            for size in sorted(min(size, len(order)) for size in sizes):
                if size:
                    outside = float(descending[size:].sum())
                    rows.append(confidence_features(answer.probabilities, outside, answer.evidence))
                    covered.append(answer.n_used > 0 and hits[size - 1] == answer.n_used)
                    counts.append(answer.weight)
        confidence = Logistic(np.zeros(_N_FEATURES), 0.0)
        if rows:
            confidence = rising(
                np.array(rows), np.array(covered), np.array(counts), free=_N_FEATURES - 2
            )
        return cls(confidence, np.array(needed), np.array(weights), n_requests)

    @cached_property
    def recall_control(self) -> RecallControl:
        """The cut for a target recall."""
        needed = np.where(self.needed > 1, np.inf, self.needed)
        return RecallControl(needed, self.weights, self.n_requests)


def confidence_features(
    probabilities: NDArray[Any], outside: float, evidence: NDArray[Any] = NO_EVIDENCE
) -> NDArray[Any]:
    """Return what the confidence is judged by, of shape (6,).

    The logarithm of the mass `outside` of the selection, its share of the whole, the highest
    probability, the logarithm of the whole mass, and the `evidence` that anything serves the
    request.
    """
    total = float(probabilities.sum())
    best = float(probabilities.max(initial=0.0))
    return np.array(
        [np.log(outside + 1e-3), outside / max(total, 1e-9), best, np.log(total + 1e-3), *evidence]
    )


def judged(
    folds: Sequence[Fold],
    answers: Sequence[NDArray[Any]],
    ranker: Ranker,
    specifications: Specifications,
    written: Sequence[str],
    shares: NDArray[Any] | None = None,
) -> tuple[Answerable, Decision]:
    """Learn whether anything serves a request, and the decision, from what the folds saw.

    `answers` are the ranker's, out of fold, to the examples of all folds; `written` are the texts
    of nothing, `shares` as in `Decision.fit`.
    """
    whole = [look for fold in folds for look in fold.whole]
    others = [look for fold in folds for look in fold.others]
    probabilities = [
        *answers,
        *(ranker.probabilities(look.co_usage, look.candidates) for look in others),
    ]
    texts = [specification_text(api) for api in specifications.catalog]
    looks = [*whole, *others]
    answerable, evidence = Answerable.fit(
        looks, probabilities, specifications.encoders.word, texts, written
    )
    hidden = np.array([e.hidden for fold in folds for e, _ in fold.found], dtype=bool)
    natural = np.concatenate([~hidden, np.ones(len(others), dtype=bool)])
    kinds = np.where(natural, [look.kind for look in looks], "hidden")
    weights = met(kinds)
    return answerable, Decision.fit(
        [
            Answer(
                probabilities[i],
                np.isin(looks[i].candidates.positions, looks[i].used),
                len(looks[i].used),
                evidence[i],
                weights[i],
            )
            for i in np.flatnonzero(weights)
        ],
        shares,
    )
