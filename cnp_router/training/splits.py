"""How a history is parted: what views are fitted on, and which of its requests they are asked."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cnp_router.training.corpus import MANY

__all__ = ["MOST_SPLITS", "Split", "dated_splits", "random_splits"]

# Share of the APIs whose history each fold hides. The folds that hide none calibrate the
# probabilities: they are as new requests will be.
HIDDEN_SHARES = (0.0, 0.0, 0.1, 0.2, 0.3)
# With fewer mashups each fold leaves out less of them, and hides none: most APIs are cold as it is.
LITTLE_FOLDS = 10
N_RANDOM = 5
# The ranker has some hundred features: more examples than this cost time and teach it nothing.
MAX_EXAMPLES = 5_000
# Tenths of the history, the oldest first: a fold is fitted on so many, and asked the next one, or
# some of all that is later.
ROLLING = (4, 5, 6, 7, 8, 9)
LONG = (3, 5, 7)
MOST_SPLITS = max(LITTLE_FOLDS, N_RANDOM + len(ROLLING) + len(LONG))
UNDATED = 0.4  # share of the random examples that are asked as if nobody knew when

_NONE = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of a history: what views are fitted on, and the requests that they are asked.

    The history of a `hidden` share of the APIs is hidden from them. The `undated` of the asked
    are asked without their date; `is_random` says whether the parts are alike.
    """

    train: NDArray[np.intp]
    asked: NDArray[np.intp]
    hidden: float = 0.0
    undated: NDArray[np.intp] = field(default_factory=_NONE.copy)
    is_random: bool = True


def random_splits(n_mashups: int, *, dated: bool, random_state: int) -> list[Split]:
    """Return random folds, which leave out each mashup once.

    Those of a dated history hide nothing: it has other folds in which much is new.
    """
    rng = np.random.default_rng(random_state)
    if n_mashups < MANY:
        hidden = (0.0,) * (min(n_mashups, LITTLE_FOLDS) if n_mashups > 1 else 0)
    else:
        hidden = (0.0,) * N_RANDOM if dated else HIDDEN_SHARES
    fold = rng.permutation(n_mashups) % max(len(hidden), 1)
    sampled = np.sort(rng.permutation(n_mashups)[:MAX_EXAMPLES])
    undated = rng.random(n_mashups) < UNDATED * dated
    found = []
    for number, share in enumerate(hidden):
        asked = sampled[fold[sampled] == number]
        found.append(Split(np.flatnonzero(fold != number), asked, share, asked[undated[asked]]))
    return found


def dated_splits(days: NDArray[np.floating], *, random_state: int) -> list[Split]:
    """Return folds in which all that is asked is later than all that is known.

    Rolling origin (Tashman, 2000), and longer horizons. `days` are those of the mashups.
    """
    rng = np.random.default_rng(random_state)
    order, n = np.argsort(days, kind="stable"), len(days)
    ends = [(k, k + 1) for k in ROLLING] + [(k, 10) for k in LONG]
    size = min(n, MAX_EXAMPLES) // (2 * len(ends))
    found = []
    for known, end in ends:
        later = order[known * n // 10 : end * n // 10]
        asked = np.sort(rng.permutation(later)[:size])
        found.append(Split(np.sort(order[: known * n // 10]), asked, is_random=False))
    return found
