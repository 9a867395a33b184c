"""Whether the catalog serves a request at all, learned from requests that it does not serve.

Of these there are three kinds: past requests looked at as if what they needed, and its near twins,
had never been in the catalog; the same without their whole main category; and the bundled texts of
nothing. Two judges look at a request: one at how it is said, the other at how well anything fits.
Their evidence may only rise with similarity: what falls is an accident of how absence is simulated.
A history that is all alike would teach that nothing else is ever served: so they start from a
prior, and requests are expected to be said as specifications are, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cnp_router.text import TfidfEncoder, content_words
from cnp_router.training.linear import Gaussian, Logistic, level, rising, sigmoid
from cnp_router.training.looks import Kind, Look
from cnp_router.training.manner import Manner
from cnp_router.training.parts import Part
from cnp_router.training.prior import AnswerablePrior
from cnp_router.training.views import Candidates

__all__ = [
    "BOTH",
    "SAID",
    "SERVED",
    "Answerable",
    "Judge",
    "fitting",
    "log_probabilities",
    "look_weights",
    "said",
    "sides",
]

Judge = Literal["says", "fits", "both"]
_BEST = 5  # candidates that are expected together
# What each kind weighs, in the weight of all whole past requests: in how a request is said, and
# in how well anything fits it.
_SAYS: dict[Kind, float] = {
    "whole": 1.0,
    "shortened": 0.3,
    "written": 2.0,
    "joined": 1.0,
    "described": 2.0,
}
_FITS: dict[Kind, float] = {
    "whole": 1.0,
    "shortened": 0.2,
    "without": 0.1,
    "without category": 0.2,
}
# And in the judgement that is made of both.
_MEETS: dict[Kind, float] = {
    "whole": 1.0,
    "without category": 0.02,
    "written": 5.0,
    "joined": 2.5,
}
SAID = ("sounding", "familiar", "known")
BOTH = ("says", "fits")
SERVED = 0.87
_LEAST_COLD = 20  # requests that tell what is answered to those of what nobody tried


@dataclass(frozen=True, eq=False)
class Answerable(Part):
    """Probability that anything in the catalog serves a request.

    `says` judges by `said`, `fits` by `_fitting`; `both` by the logarithms of what these two say,
    as if one met many requests that nothing serves. `level` is added to its log-odds, so that past
    requests, all of which something served, get `SERVED` on average, and so do those of them of
    which all that served them was hidden.
    """

    manner: Manner
    says: Logistic
    fits: Logistic
    both: Logistic
    level: float

    @classmethod
    def fit(
        cls,
        seen: Sequence[Look],
        probabilities: Sequence[NDArray[Any]],
        manner: Manner,
        sounding: NDArray[Any],
        word: TfidfEncoder,
        scores: Sequence[str],
        prior: AnswerablePrior,
        n_mashups: int,
    ) -> tuple[Answerable, NDArray[Any]]:
        """Learn from looks and the probabilities of their candidates; return the evidence, too.

        `manner` is that of the looks, and `sounding` what it says of each out of its half; `scores`
        are the names of the scores that candidates have. With the `prior` at `n_mashups` there may
        be few looks, or none.
        """
        S, F = sides(sounding, seen, probabilities, word, scores)
        serves = np.array([len(look.used) > 0 for look in seen], dtype=bool)

        def judge(name: Judge, X: NDArray[Any], names: Sequence[str]) -> Logistic:
            weight = look_weights(seen, name)
            kept = weight > 0
            own: Gaussian = getattr(prior, name).at(n_mashups, names)
            rows = own.standardised(X[kept])  # no feature lowers what it says
            return own.logistic(rising(rows, serves[kept], weight[kept], own))

        says = judge("says", S, SAID)
        fits = judge("fits", F, fitting(scores))
        evidence = log_probabilities(says, fits, S, F)
        both = judge("both", evidence, BOTH)
        whole = np.array([look.kind == "whole" for look in seen], dtype=bool)
        added = level(both.log_odds(evidence[whole]), SERVED) if whole.any() else 0.0
        cold = np.array([look.is_cold for look in seen], dtype=bool)
        if cold.sum() >= _LEAST_COLD:
            added = max(added, level(both.log_odds(evidence[cold]), SERVED))
        added = prior.level.blended(added, int(whole.sum()), n_mashups)
        return cls(manner, says, fits, both, added), evidence

    def at(
        self, prior: AnswerablePrior, n_mashups: int, scores: Sequence[str], share: float
    ) -> Answerable:
        """Return it with a share of what the prior at some number of mashups says."""
        says = prior.says.at(n_mashups, SAID).most_probable
        fits = prior.fits.at(n_mashups, fitting(scores)).most_probable
        both = prior.both.at(n_mashups, BOTH).most_probable
        return replace(
            self,
            says=self.says.blended(says, share),
            fits=self.fits.blended(fits, share),
            both=self.both.blended(both, share),
            level=(1 - share) * self.level + share * float(prior.level.at(n_mashups)),
        )

    def evidences(
        self,
        said: NDArray[Any],
        texts: Sequence[str],
        found: Sequence[Candidates],
        probabilities: Sequence[NDArray[Any]],
    ) -> NDArray[Any]:
        """Return the logarithms of what both judges say of each request, of shape (n_texts, 2).

        `said` is what the function of that name says of the texts; the probabilities are those of
        their candidates.
        """
        S = said.copy()
        S[:, 1:] = said[:, :2]
        S[:, 0] = self.manner.log_odds(texts)
        F = _fitting(found, probabilities, said[:, 2])
        return log_probabilities(self.says, self.fits, S, F)

    def probabilities(self, evidence: NDArray[Any]) -> NDArray[Any]:
        """Return the probability that anything in the whole catalog serves each request."""
        return sigmoid(self.both.log_odds(evidence) + self.level)


def said(word: TfidfEncoder, texts: Sequence[str], seen: Sequence[bool] = ()) -> NDArray[Any]:
    """Return how familiar the words of texts are, what share is known, and the strength: (n, 3).

    The strength is what is left of the length of its vector without the unknown words: by that much
    likeness is overrated. Function words do not count. Where the encoder has `seen` a text, it is
    judged without it.
    """
    words = [sorted(set(content_words(text))) for text in texts]
    found = np.zeros((len(texts), 3))
    count = np.array(list(map(len, words)), dtype=np.intp)
    some = np.flatnonzero(count)
    if not len(some):
        return found
    starts, rare = (np.cumsum(count) - count)[some], word.rare_
    weight = word.idf_of(list(chain.from_iterable(words)))
    of_seen = np.array(seen, dtype=bool).repeat(count) if len(seen) else np.False_
    others = np.exp(rare - weight) - 1 - of_seen  # in how many other texts each word is
    known = others >= np.where(of_seen, word.min_df, 0.5)
    familiar = np.log1p(np.maximum(others, 0))
    square = np.square(np.where(known, weight, rare))
    found[some, 0] = np.add.reduceat(familiar, starts) / count[some] / (rare - 1)
    found[some, 1] = np.add.reduceat(known, starts, dtype=np.float64) / count[some]
    of_known = np.add.reduceat(square * known, starts)
    found[some, 2] = np.sqrt(of_known / np.add.reduceat(square, starts))
    return found


def _fitting(
    found: Sequence[Candidates], probabilities: Sequence[NDArray[Any]], strength: NDArray[Any]
) -> NDArray[Any]:
    """Return the best of each score, and its mean over the most probable candidates, by request."""
    rows = [
        _fits_of(own, p, each)
        for own, p, each in zip(found, probabilities, strength.tolist(), strict=True)
    ]
    return np.array(rows)


def _fits_of(found: Candidates, p: NDArray[Any], strength: float) -> NDArray[Any]:
    if not len(p):
        return np.zeros(2 * len(found.likeness))
    features, columns = found.features, found.likeness
    best = np.argpartition(p, -_BEST)[-_BEST:] if len(p) > _BEST else np.arange(len(p))
    share = p[best]
    share /= max(share.sum(), 1e-9)
    highest = features[:, : columns.max(initial=-1) + 1].max(axis=0)[columns]
    mean = share @ features[best[:, None], columns]
    return np.asarray(strength * np.concatenate([highest, mean]))


def fitting(scores: Sequence[str]) -> tuple[str, ...]:
    """Return the names of how well anything fits, given those of the scores."""
    return (*(f"best {name}" for name in scores), *(f"mean {name}" for name in scores))


def sides(
    sounding: NDArray[Any],
    seen: Sequence[Look],
    probabilities: Sequence[Any],
    word: TfidfEncoder,
    scores: Sequence[str],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return how looks are said (`SAID`), and how well anything fits them (`fitting`)."""
    manners = said(word, [look.text for look in seen], [look.seen for look in seen])
    F = _fitting([look.candidates for look in seen], probabilities, manners[:, 2])
    return (
        np.column_stack([sounding, manners[:, :2]]),
        F.reshape(-1, len(fitting(scores))),
    )


def log_probabilities(
    says: Logistic, fits: Logistic, S: NDArray[Any], F: NDArray[Any]
) -> NDArray[Any]:
    """Return the logarithms of both: 0 where it is sure, and ever less where not."""
    columns = [-np.logaddexp(0, -judge.log_odds(X)) for judge, X in ((says, S), (fits, F))]
    return np.column_stack(columns)


def look_weights(seen: Sequence[Look], judge: Judge) -> NDArray[Any]:
    """Return the weight of each look, 1 for a whole request."""
    of = {"says": _SAYS, "fits": _FITS, "both": _MEETS}[judge]
    kinds = np.array([look.kind for look in seen])
    n_whole = np.count_nonzero(kinds == "whole")
    weight = np.zeros(len(kinds))
    for kind, share in of.items():
        own = np.flatnonzero(kinds == kind)
        weight[own] = share * n_whole / max(len(own), 1)
    return weight
