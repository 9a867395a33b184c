"""The router of the bundled sample, fitted once and kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
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


def sample_router(*, at_once: bool = False) -> LearnedRouter:
    """Return the router of the bundled sample, from the cache if it is there and sound.

    `at_once` is as in `Progress`.
    """
    from cnp_router.datasets import load_sample
    from cnp_router.training import fit_router, load_router

    place = sample_place()
    if place is not None:
        try:
            return load_router(place)
        except ModelStoreError as exc:
            if os.path.lexists(place):
                note(f"the kept model of the sample is fitted again: {exc}", "Note")
    sample = load_sample()
    with Progress("Fitting on the bundled sample", at_once=at_once) as progress:
        router = fit_router(sample.catalog, sample.history, n_jobs=-1, progress=progress)
    try:
        if place is None:
            raise OSError("there is no home folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_file():  # nothing else than a model is ever replaced, but this place is ours
            place.unlink()
        router.save(place, overwrite=True)
    except (OSError, CnpRouterError) as exc:
        where = place.parent if place else "a cache folder"
        reason = getattr(exc, "strerror", None) or exc
        cost = "so the next run fits it again"
        note(f"cannot keep the model in {where} ({reason}), {cost}", "Warning")
    return router


def cache_folder() -> Path:
    """Return our folder among the platform's for what can be made again, or raise RuntimeError."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if Path(given).is_absolute():  # the XDG specification says to pass over a relative one
        return Path(given) / "cnp-router"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "cnp-router"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "cnp-router"
    return Path.home() / ".cache" / "cnp-router"


def sample_place() -> Path | None:
    """Return where the model of this version of the library and of the sample is kept."""
    from cnp_router.storage import FORMAT_VERSION

    digest = hashlib.sha256(str(FORMAT_VERSION).encode())
    folder = resources.files("cnp_router.datasets") / "sample"
    for name in ("apis.jsonl", "mashups.jsonl"):
        digest.update((folder / name).read_bytes())
    try:
        return cache_folder() / f"sample-{__version__}-{digest.hexdigest()[:12]}"
    except RuntimeError:
        return None
