"""Saving and loading a learned router: a folder of data, checked before it is used.

========================  ==========================================================
file                      content
========================  ==========================================================
``manifest.json``         format version, library versions, checksums, summary
``catalog.jsonl``         the catalog
``history.jsonl``         the history it was fitted on
``state.json``            vocabularies and numbers
``arrays.npz``            arrays, read with ``allow_pickle=False``
========================  ==========================================================
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from cnp_router.catalog import Catalog
from cnp_router.exceptions import (
    DataFileError,
    InputError,
    ModelCorruptError,
    ModelNotFoundError,
    ModelVersionError,
)
from cnp_router.history import History
from cnp_router.storage import pack, unpack
from cnp_router.training.integrity import check_parts
from cnp_router.training.learned import LearnedRouter

__all__ = ["FORMAT_VERSION", "check_target", "load_router", "save_router"]

FORMAT = "cnp-router model"
FORMAT_VERSION = 2
MANIFEST = "manifest.json"
_FILES = ("catalog.jsonl", "history.jsonl", "state.json", "arrays.npz")


def save_router(router: LearnedRouter, path: str | Path, *, overwrite: bool = False) -> None:
    """Save a router as a folder, atomically: it is there whole or not at all.

    Parameters
    ----------
    router : LearnedRouter
    path : str or Path
        The folder to make. The one above it must exist.
    overwrite : bool, default=False
        Replace a model that is there. Anything else that is there is never replaced.

    Raises
    ------
    InputError
        If something is there already.
    DataFileError
        If the place cannot be written, or the catalog or the history not be written as JSON.
    """
    target = Path(path)
    check_target(target, overwrite)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise DataFileError(path, "its folder does not exist", cure="create it first") from exc
    except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
        raise DataFileError(path, f"cannot be written: {_reason(exc)}") from exc
    try:
        _write(router, temporary)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o777 & ~umask)
        _put(temporary, target)
    except DataFileError as exc:
        problem = f"{exc.path.name}: {exc.problem}"
        raise DataFileError(path, problem, line=exc.line, cure=exc.cure) from exc
    except OSError as exc:
        raise DataFileError(path, f"cannot be written: {_reason(exc)}") from exc
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_router(path: str | Path) -> LearnedRouter:
    """Load a router that was saved. Nothing in the folder is executed.

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
    folder = Path(path)
    manifest = _read_manifest(folder)
    for name in _FILES:
        _check_file(folder / name, manifest["files"].get(name))
    try:
        plain = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        # Opened here, as np.load leaves a file open that turns out to be no zip.
        with (folder / "arrays.npz").open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        catalog = Catalog.read(folder / "catalog.jsonl")
        history = History.read(folder / "history.jsonl", catalog=catalog)
        state = unpack(arrays, plain)
        router = LearnedRouter.from_state(catalog, history, state, manifest["summary"])
        check_parts(router)
        return router
    except Exception as exc:
        # Whatever the readers of JSON, zip and arrays raise on content that nobody saved.
        what = exc if str(exc) else type(exc).__name__
        raise ModelCorruptError(
            f"{folder}: the parts of the model do not fit together: {what} (fit it again)"
        ) from exc


def check_target(target: Path, overwrite: bool) -> None:
    """Raise what `save_router` would, if something is in its way: before a long fit, say."""
    try:
        if not os.path.lexists(target):
            return
        is_model = not target.is_symlink() and _is_model(target)
    except OSError as exc:
        raise DataFileError(target, f"cannot be written: {_reason(exc)}") from exc
    if not is_model:
        raise InputError(f"{target}: something that is not a model is there (choose another place)")
    if not overwrite:
        raise InputError(f"{target}: a model is there already (choose another place or overwrite)")


def _is_model(folder: Path) -> bool:
    """Return whether the folder is a model, be it damaged: many other things have a manifest."""
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    return json.dumps(FORMAT) in text


def _put(temporary: Path, target: Path) -> None:
    """Rename the new model into place; one that is there stays until then, or comes back."""
    if not target.exists():
        temporary.replace(target)
        return
    old = temporary.with_name(f"{temporary.name}.old")
    try:
        target.replace(old)
        temporary.replace(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.replace(target)
        raise
    # What the model did not make is not ours to throw away.
    for entry in old.iterdir():
        if entry.name not in (*_FILES, MANIFEST):
            entry.replace(target / entry.name)
    shutil.rmtree(old, ignore_errors=True)


def _write(router: LearnedRouter, folder: Path) -> None:
    router.catalog.write(folder / "catalog.jsonl")
    router.history.write(folder / "history.jsonl")
    arrays, plain = pack(router.state())
    with (folder / "state.json").open("w", encoding="utf-8") as out:
        json.dump(plain, out, ensure_ascii=False)
    with (folder / "arrays.npz").open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "summary": router.summary,
        "files": {
            name: {
                "bytes": (folder / name).stat().st_size,
                "sha256": _checksum(folder / name),
            }
            for name in _FILES
        },
    }
    manifest["sha256"] = _seal(manifest)
    with (folder / MANIFEST).open("w", encoding="utf-8") as out:
        json.dump(manifest, out, indent=2, ensure_ascii=False)
    for name in (*_FILES, MANIFEST):
        with (folder / name).open("rb") as file:
            os.fsync(file.fileno())


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise ModelNotFoundError(f"{folder}: no model there (fit one first)") from exc
    except UnicodeDecodeError as exc:
        raise ModelCorruptError(f"{folder}: {MANIFEST} is damaged: {exc} (fit it again)") from exc
    except OSError as exc:
        raise ModelCorruptError(
            f"{folder}: {MANIFEST} cannot be read: {_reason(exc)} (check its mode)"
        ) from exc
    except ValueError as exc:  # a path with a NUL character
        raise ModelNotFoundError(f"{str(folder)!r}: no model there (fit one first)") from exc
    try:
        manifest = json.loads(text)
        if not isinstance(manifest, dict):
            raise TypeError(f"expected an object, got {type(manifest).__name__}")
        if manifest["format"] != FORMAT:
            raise ModelCorruptError(f"{folder}: {MANIFEST} is not that of a model (fit one first)")
        found = manifest["format_version"]
        if not isinstance(found, int) or isinstance(found, bool):
            raise TypeError(f"'format_version' must be a whole number, got {found!r}")
        if found != FORMAT_VERSION:
            age = "a newer" if found > FORMAT_VERSION else "an older"
            cure = "upgrade cnp-router" if age == "a newer" else "fit it again"
            raise ModelVersionError(
                f"{folder}: written in {age} format ({found!r}, this version reads "
                f"{FORMAT_VERSION}) ({cure})"
            )
        if not isinstance(manifest["files"], dict) or not isinstance(manifest["summary"], dict):
            raise TypeError("'files' and 'summary' must be objects")
        if manifest["sha256"] != _seal(manifest):
            raise ValueError("its checksum differs")
    except (KeyError, TypeError, ValueError, RecursionError) as exc:
        what = f"missing {exc}" if isinstance(exc, KeyError) else exc
        raise ModelCorruptError(f"{folder}: {MANIFEST} is damaged: {what} (fit it again)") from exc
    return manifest


def _seal(manifest: dict[str, Any]) -> str:
    """Return the checksum of all that a manifest says, itself left out."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_file(file: Path, expected: Any) -> None:
    try:
        size = file.stat().st_size
        if not isinstance(expected, dict) or size != expected.get("bytes"):
            raise ModelCorruptError(f"{file}: truncated or altered: {size} bytes (fit it again)")
        if _checksum(file) != expected.get("sha256"):
            raise ModelCorruptError(f"{file}: altered: its checksum differs (fit it again)")
    except OSError as exc:
        raise ModelCorruptError(f"{file}: cannot be read: {_reason(exc)} (fit it again)") from exc


def _reason(exc: Exception) -> str:
    return getattr(exc, "strerror", None) or str(exc)


def _checksum(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
