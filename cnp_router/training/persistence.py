"""Loading a learned router: a model folder (`cnp_router.storage`) and what is in its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cnp_router.exceptions import InputError, ModelCorruptError, UnknownApiError
from cnp_router.storage import load_model, verify_model
from cnp_router.training.corpus import check_known
from cnp_router.training.dense_encoder import Encoder
from cnp_router.training.integrity import check_parts
from cnp_router.training.learned_router import HISTORY, LearnedRouter

__all__ = ["load_router", "verify_router"]


def load_router(path: str | Path, *, encoder: Encoder | None = None) -> LearnedRouter:
    """Load a router that was saved. Nothing in the folder is executed.

    It may be saved again meanwhile, by this or another process: what is loaded is one router, the
    old or the new one. Its arrays are mapped into memory, not read, and so are catalog and history:
    an item is read when it is asked for. Sizes of the files and whatever could crash or mislead are
    checked, in large arrays once on each machine; `verify_router` compares every byte.

    Parameters
    ----------
    path : str or Path
        The folder.
    encoder : Encoder, optional
        The one that it was fitted with. Without it, such a model can be looked at, but reads no
        request.

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
        If it is truncated, altered or incomplete. A damaged line of catalog or history is found
        by whoever asks for its item, which raises this then, or by `verify_router`.
    ModelStoreError
        If it cannot be read for want of permission, memory or open files.
    InputError
        If the encoder is not the one that it was fitted with, or it was fitted without one.

    Examples
    --------
    >>> load_router("no-such-model")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.ModelNotFoundError: no-such-model: no model there (...)
    """

    def build(folder: Path, state: dict[str, Any], summary: dict[str, Any]) -> LearnedRouter:
        router = LearnedRouter.from_folder(folder, state, summary, encoder)
        check_parts(router)
        return router

    router = load_model(path, build)
    if encoder is not None:
        dense = router.encoders.dense
        if dense is None:
            raise InputError(
                f"{path}: the model was fitted without an encoder (give none, or fit it with one)"
            )
        dense.recognise()
    return router


def verify_router(path: str | Path, *, encoder: Encoder | None = None) -> LearnedRouter:
    """Load a router, compare every byte of the folder with what was saved, and read every item.

    For a model that was copied or downloaded. Checksums find damage, not forgery. Parameters,
    result and errors are those of `load_router`; a checksum that differs is a ModelCorruptError.

    Examples
    --------
    >>> verify_router("no-such-model")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.ModelNotFoundError: no-such-model: no model there (...)
    """
    verify_model(path)
    router = load_router(path, encoder=encoder)
    for _ in router.catalog:
        pass  # each is checked when it is read
    try:
        check_known(router.history, router.catalog, router.removed)
    except UnknownApiError as exc:
        raise ModelCorruptError.of(path, f"{HISTORY}: {exc}") from exc
    return router
