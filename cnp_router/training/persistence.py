"""Loading a learned router: a model folder (`cnp_router.storage`) and what is in its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.storage import load_model, verify_model
from cnp_router.training.integrity import check_parts
from cnp_router.training.learned_router import CATALOG, HISTORY, LearnedRouter

__all__ = ["load_router", "verify_router"]


def load_router(path: str | Path) -> LearnedRouter:
    """Load a router that was saved. Nothing in the folder is executed.

    It may be saved again meanwhile, by this or another process: what is loaded is one router, the
    old or the new one. Its arrays are mapped into memory, not read. Sizes of the files and
    whatever could crash or mislead are checked; `verify_router` compares every byte.

    Parameters
    ----------
    path : str or Path
        The folder.

    Returns
    -------
    LearnedRouter

    Raises
    ------
    ModelNotFoundError
        If there is no model.
    ModelVersionError
        If another version of the format wrote it.
    ModelCorruptError
        If it is truncated, altered or incomplete.

    Examples
    --------
    >>> load_router("no-such-model")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.ModelNotFoundError: no-such-model: no model there (fit one first)
    """

    def build(folder: Path, state: dict[str, Any], summary: dict[str, Any]) -> LearnedRouter:
        catalog = Catalog.read(folder / CATALOG)
        past = folder / HISTORY  # empty where nothing was known but the catalog
        history = History.read(past, catalog=catalog) if past.stat().st_size else History([])
        router = LearnedRouter.from_state(catalog, history, state, summary)
        check_parts(router)
        return router

    return load_model(path, build)


def verify_router(path: str | Path) -> LearnedRouter:
    """Load a router and compare every byte of the folder with what was saved.

    For a model that was copied or downloaded. Checksums find damage, not forgery. Parameters,
    result and errors are those of `load_router`; a checksum that differs is a ModelCorruptError.

    Examples
    --------
    >>> verify_router("no-such-model")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.ModelNotFoundError: no-such-model: no model there (fit one first)
    """
    verify_model(path)
    return load_router(path)
