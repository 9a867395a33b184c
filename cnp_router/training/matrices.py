"""Catalog and history as sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from cnp_router.catalog import Catalog
from cnp_router.history import History

__all__ = ["category_membership", "usage_matrix"]


def usage_matrix(catalog: Catalog, history: History) -> sparse.csr_array:
    """Return which API each mashup used.

    Returns
    -------
    csr_array of shape (n_mashups, n_apis), of ones

    Raises
    ------
    UnknownApiError
        If a mashup names an API that the catalog does not have.
    """
    rows = [sorted({catalog.position(api) for api in mashup.apis}) for mashup in history]
    pointers = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    indices = np.array([i for row in rows for i in row], dtype=np.int32)
    return sparse.csr_array(
        (np.ones(len(indices), dtype=np.float32), indices, pointers),
        shape=(len(history), len(catalog)),
    )


def category_membership(catalog: Catalog, classes: Sequence[str]) -> sparse.csr_array:
    """Return which API is filed under which category.

    Returns
    -------
    csr_array of shape (n_apis, n_classes), of ones
    """
    column = {name: i for i, name in enumerate(classes)}
    rows = [sorted({column[name] for name in api.categories if name in column}) for api in catalog]
    pointers = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    indices = np.array([i for row in rows for i in row], dtype=np.int32)
    return sparse.csr_array(
        (np.ones(len(indices), dtype=np.float32), indices, pointers),
        shape=(len(catalog), len(classes)),
    )
