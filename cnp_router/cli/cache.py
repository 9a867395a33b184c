"""The router of the bundled sample, fitted once and kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from cnp_router.cli.output import note
from cnp_router.cli.progress import Progress
from cnp_router.exceptions import CnpRouterError, ModelStoreError
from cnp_router.version import __version__

if TYPE_CHECKING:
    from cnp_router.training import LearnedRouter

__all__ = ["cache_folder", "sample_router"]


def sample_router() -> LearnedRouter:
    """Return the router of the bundled sample, from the cache if it is there and sound."""
    from cnp_router.datasets import load_sample
    from cnp_router.training import fit_router, load_router

    place = _place()
    if place is not None:
        try:
            return load_router(place)
        except ModelStoreError as exc:
            if os.path.lexists(place):
                note(f"Note: the kept model of the sample is fitted again: {exc}")
                _move_away(place)
    sample = load_sample()
    with Progress("Fitting on the bundled sample") as progress:
        router = fit_router(sample.catalog, sample.history, n_jobs=-1, progress=progress)
    _keep(router, place)
    return router


def cache_folder() -> Path:
    """Return the folder of the platform for what can be made again, with our name at its end.

    Raises
    ------
    RuntimeError
        If the user has no home folder.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    if Path(given).is_absolute():  # the XDG specification says to pass over a relative one
        return Path(given) / "cnp-router"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "cnp-router"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "cnp-router"
    return Path.home() / ".cache" / "cnp-router"


def _place() -> Path | None:
    """Return where the model of this version of the library and of the sample is kept."""
    digest = hashlib.sha256()
    folder = resources.files("cnp_router.datasets") / "sample"
    for name in ("apis.jsonl", "mashups.jsonl"):
        digest.update((folder / name).read_bytes())
    try:
        return cache_folder() / f"sample-{__version__}-{digest.hexdigest()[:12]}"
    except RuntimeError:
        return None


def _keep(router: LearnedRouter, place: Path | None) -> None:
    try:
        if place is None:
            raise OSError("there is no home folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        router.save(place)
    except (OSError, CnpRouterError) as exc:
        # Another process may have been first. Its model is the same.
        if place is None or not os.path.lexists(place):
            reason = getattr(exc, "strerror", None) or exc
            note(
                f"Warning: cannot keep the model in {place.parent if place else 'a cache folder'} "
                f"({reason}), so the next run fits it again"
            )


def _move_away(place: Path) -> None:
    """Take a damaged model away in one step, as another process may be about to read it."""
    away = place.with_name(f".{place.name}-{secrets.token_hex(4)}")
    try:
        place.rename(away)
    except OSError:
        return
    if away.is_dir() and not away.is_symlink():
        shutil.rmtree(away, ignore_errors=True)
    else:
        away.unlink(missing_ok=True)
