"""Past requests that have lost all that served them: it was removed from the catalog."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.corpus import TWINS, Corpus, Specifications
from cnp_router.training.postings import best_products

__all__ = ["lost", "share_lost"]


def lost(
    before: Corpus, specifications: Specifications, usage: sparse.csr_array, change: CatalogChange
) -> NDArray[np.float32]:
    """Return `Corpus.lost` after a change: given what was before, and what there is now.

    What used an API that has a near twin among those that were added has lost nothing: it may
    have been renamed.
    """
    is_empty = np.diff(usage.indptr) == 0
    is_new = is_empty & before.serves
    still = np.where(is_empty, before.lost, 0)
    if not is_new.any():
        return still.astype(np.float32)
    succeeded = np.zeros(before.n_apis, dtype=np.float32)
    succeeded[_succeeded(before.specifications, specifications, change)] = 1
    return np.where(is_new, before.usage @ succeeded == 0, still).astype(np.float32)


def _succeeded(
    before: Specifications, now: Specifications, change: CatalogChange
) -> NDArray[np.intp]:
    """Return the positions before of what was removed and has a near twin that was added."""
    gone, added = np.flatnonzero(change.removed), np.flatnonzero(change.added)
    old, new = before.word_rows[gone], now.word_rows[added]
    old.resize(len(gone), new.shape[1])  # terms that came since are behind the others
    starts, _, alike = best_products(old, sparse.csr_array(new.T), 1)
    found = np.flatnonzero(np.diff(starts))
    return np.asarray(gone[found[alike > TWINS]])


def share_lost(
    similarity: NDArray[np.float32], is_lost: NDArray[np.bool_], said: float, usual: float
) -> float:
    """Return the probability that what would serve a request was removed from the catalog.

    Given are the similarity of past requests, whether each has lost what served it, that of the
    specification that is most like the request, and the `usual` share that is lost. It is the share
    that is lost among these, weighted as they vote, as far as that is more than usual: what is like
    no past request tells nothing.

    Examples
    --------
    >>> share_lost(np.array([0.9, 0.3]), np.array([True, False]), said=0.0, usual=0.1)
    0.88...
    >>> share_lost(np.array([0.2, 0.1]), np.array([True, True]), said=1.0, usual=0.1)
    0.0
    """
    weight = np.square(similarity)
    share = float(weight[is_lost].sum()) / max(float(weight.sum()) + said**2, 1e-12)
    return max(share - usual, 0.0) / (1 - usual) if usual < 1 else share
