"""What was observed online: where it is, beside a model or on its own, and how it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cnp_router.cli.cache import sample_router
from cnp_router.exceptions import InputError, ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cnp_router.catalog import Api
    from cnp_router.llm import ChatModel
    from cnp_router.prediction import NextToolPolicy, NextToolRouter
    from cnp_router.training import LearnedRouter

__all__ = ["any_router", "fitted_router", "is_fitted", "next_tool_router", "online_file"]


def online_file(model: Path) -> Path:
    """Return where to write what is observed: in the folder of a model, or in a new one.

    Raises
    ------
    InputError
        If something else is there.
    """
    from cnp_router.online import ONLINE_FILE

    file = model / ONLINE_FILE
    ours = file.exists() or is_fitted(model) or not model.exists()
    if not ours and not (model.is_dir() and _is_empty(model, but=ONLINE_FILE)):
        raise InputError(f"{model}: something that is not a model is there (choose another place)")
    return file


def any_router(model: Path | None) -> LearnedRouter:
    """Return the fitted router of a folder, or without one that of the bundled sample."""
    return sample_router() if model is None else fitted_router(model)


def fitted_router(model: Path) -> LearnedRouter:
    """Return the fitted router of a folder, which knows the mashups that were observed there.

    Raises
    ------
    ModelStoreError
        If there is none, or what is there cannot be used.
    """
    from cnp_router.online import ONLINE_FILE
    from cnp_router.training import load_router

    router = load_router(model)
    if (model / ONLINE_FILE).exists():
        from cnp_router.online import OnlineStore, RouterObserver

        OnlineStore(model / ONLINE_FILE, [RouterObserver(router)], read_only=True)
    return router


def next_tool_router(
    model: Path, policy: NextToolPolicy, asked: ChatModel | None
) -> NextToolRouter:
    """Return a router of next tools that knows what has been observed.

    Parameters
    ----------
    model : Path
    policy : NextToolPolicy
    asked : ChatModel or None
        Chooses among what has been observed and the APIs of the fitted model.

    Raises
    ------
    ModelNotFoundError
        If there is neither a model nor anything observed.
    """
    from cnp_router.online import ONLINE_FILE, OnlineStore
    from cnp_router.prediction import NextToolRouter

    fitted, observed = is_fitted(model), (model / ONLINE_FILE).exists()
    if not (fitted or observed):
        raise ModelNotFoundError(f"{model}: no model there, and nothing observed (observe first)")
    catalog: Iterable[Api] = ()
    if asked is not None and fitted:
        from cnp_router.training import load_router

        catalog = load_router(model).catalog
    router = NextToolRouter(model=asked, catalog=catalog, policy=policy)
    if observed:
        OnlineStore(model / ONLINE_FILE, [router], read_only=True)
    return router


def is_fitted(model: Path) -> bool:
    """Return whether a fitted model is there, be it damaged."""
    try:
        manifest = (model / "manifest.json").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return '"cnp-router model"' in manifest


def _is_empty(folder: Path, *, but: str) -> bool:
    """Return whether nothing is there except what a killed `observe` leaves before its file."""
    return all(but in entry.name for entry in folder.iterdir())
