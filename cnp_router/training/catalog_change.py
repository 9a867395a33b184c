"""What became of each API of a catalog, and which specifications have to be read anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Catalog
from cnp_router.text import specification_text

__all__ = ["CatalogChange"]


@dataclass(frozen=True, eq=False)
class CatalogChange:
    """From one catalog to the next.

    ``apis[i, j]`` is 1 where position i of the catalog before is position j of the one now: an
    empty row is an API that was removed, an empty column one that was added. `respecified`, of
    shape (n_apis now,), says which have another text than before: changed ones and added ones.
    The catalog `keeps_names` where all that was there is there in its place under its name, and
    `only_grows` where it is as it was, too.
    """

    apis: sparse.csr_array
    respecified: NDArray[Any]
    keeps_names: bool
    only_grows: bool

    @classmethod
    def between(cls, before: Catalog, now: Catalog) -> Self:
        """Compare two catalogs, by the ids of their APIs."""
        n_shared = before.n_shared(now)
        later = enumerate(now.ids[n_shared:], start=n_shared)
        pairs = [(before.position(api), j) for j, api in later if api in before]
        origin, place = (
            np.concatenate([np.arange(n_shared), own])
            for own in np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        )
        ones = np.ones(len(origin), dtype=np.float32)
        apis = sparse.csr_array((ones, (origin, place)), shape=(len(before), len(now)))
        respecified = np.ones(len(now), dtype=bool)
        respecified[:n_shared] = False
        every = np.arange(len(before))
        in_place = np.array_equal(place, every) and np.array_equal(origin, every)
        is_same, keeps_names = True, True
        for i, j in pairs:
            if before.holds(i, new := now[j]):
                respecified[j] = False
                continue
            old, is_same = before[i], False
            keeps_names &= old.name == new.name
            respecified[j] = specification_text(old) != specification_text(new)
        return cls(apis, respecified, in_place and keeps_names, in_place and is_same)

    @property
    def removed(self) -> NDArray[np.bool_]:
        """Which positions before are none now."""
        return np.asarray(np.diff(self.apis.indptr) == 0)

    @property
    def added(self) -> NDArray[np.bool_]:
        """Which positions now were none before."""
        return np.asarray(np.bincount(self.apis.indices, minlength=self.apis.shape[1]) == 0)

    def forgetting(self, apis: NDArray[np.intp]) -> CatalogChange:
        """Return it where some APIs of now are others than before, which nobody has used."""
        anew = np.zeros(self.apis.shape[1], dtype=bool)
        anew[apis] = True
        places = sparse.csr_array(self.apis @ sparse.diags_array((~anew).astype(np.float32)))
        places.eliminate_zeros()
        return replace(self, apis=places, respecified=self.respecified | anew)

    def labels(self, before: NDArray[Any], now: NDArray[Any]) -> sparse.csr_array:
        """Return the same of some positions before, and some now, that stand for a column each."""
        by_row = sparse.csr_array(self.apis[before])
        return sparse.csr_array(sparse.csc_array(by_row)[:, now])
