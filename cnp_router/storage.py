"""How what was learned is kept: as arrays and JSON, in a folder or as one block of bytes.

Nothing in it can run. A model folder holds

=====================  ==========================================================================
``manifest.json``      which generation is the model, with sizes and checksums; replaced at once
``generation-…/``      one whole model: JSON, JSON Lines, and a ``.npy`` file an array
``generation-….seen``  that its large arrays were looked through, on this machine
``lock``               held by whoever saves
=====================  ==========================================================================

and whatever else is put there, which is never touched. Files of a generation are never changed, so
that arrays are mapped into memory as they are.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from cnp_router.exceptions import (
    DataFileError,
    InputError,
    ModelCorruptError,
    ModelNotFoundError,
    ModelStoreError,
    ModelVersionError,
)
from cnp_router.files import as_path, atomic_write, lock, read_json
from cnp_router.kept_beside import is_kept_beside
from cnp_router.kept_files import KeptFiles, hindrance, open_array
from cnp_router.packing import (
    LARGE,
    check_numbers,
    json_bytes,
    pack,
    state_from_bytes,
    state_to_bytes,
    unpack,
)

__all__ = [
    "MANIFEST",
    "check_place",
    "check_target",
    "generation_of",
    "how_to_fit",
    "is_model",
    "load_model",
    "pack",
    "save_model",
    "state_from_bytes",
    "state_to_bytes",
    "summary_of",
    "unpack",
    "verify_model",
]

T = TypeVar("T")
FORMAT = "cnp-router model"
FORMAT_VERSION = 12
MANIFEST, STATE, LOCK = "manifest.json", "state.json", "lock"
MAX_WAIT = 60.0  # seconds for another process that saves

_GENERATION = re.compile(r"generation-[0-9a-f]{16}")
_STAMP = re.compile(r"generation-[0-9a-f]{16}\.seen")
_FILE = re.compile(r"\w[\w.-]*", re.ASCII)


def save_model(
    path: str | Path,
    state: dict[str, Any],
    *,
    files: Mapping[str, Callable[[Path, KeptFiles], object]],
    summary: dict[str, Any],
    overwrite: bool = False,
    replaces: Path | None = None,
) -> Path:
    """Save a model as a folder, of which this returns the generation's.

    Whenever this ends, the old or the new one is there whole.

    Besides the `state`, as `pack` takes it, the model has `files`, each written by the function
    that gets its path and the files that it may link, and a `summary` that goes into the manifest.
    What was mapped from the model that is replaced, and has not changed, is linked, not written
    again. Of two that save at once, the second waits for the first. Only the generation is
    replaced that it `replaces`, as of `generation_of`, if that is given.

    Raises
    ------
    InputError
        If something is there already, other than a model to `overwrite`.
    DataFileError
        If the place cannot be written, or a file not be written as JSON.
    ModelStoreError
        If another process has been saving there for a minute, or has replaced what was to be.
    """
    folder = as_path(path)
    check_target(folder, overwrite)
    is_new = not folder.exists()
    try:
        with _lock_of(folder):
            try:
                check_target(folder, overwrite)  # another process may have been first
                if replaces is not None and generation_of(folder).name != replaces.name:
                    problem = "another process has replaced the model meanwhile: nothing was saved"
                    raise ModelStoreError(f"{folder}: {problem} (do it again with the new one)")
                _clean(folder)
                return _write_generation(folder, state, files, summary)
            finally:
                _clean(folder)
                if is_new and not (folder / MANIFEST).exists():
                    with suppress(OSError):
                        (folder / LOCK).unlink()
                        folder.rmdir()
    except DataFileError as exc:
        problem = exc.problem if exc.path == folder else f"{exc.path.name}: {exc.problem}"
        raise DataFileError(path, problem, line=exc.line, cure=exc.cure) from exc
    except OSError as exc:
        is_full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
        said, cure = _reason(exc), "make room" if is_full else None
        if exc.errno is None:  # numpy does not say why
            said = "not all of it could be written"
            cure = "make room: the disk may be full, or a limit on the size of files be reached"
        raise DataFileError(path, f"cannot be written: {said}", cure=cure) from exc


def load_model(path: str | Path, build: Callable[[Path, dict[str, Any], dict[str, Any]], T]) -> T:
    """Load a model that was saved: one that stood there whole at some moment, whoever saves.

    `build` makes it of the folder with its further files, its state, whose arrays cannot be written
    to, and its summary; it may be called again, if the model is replaced meanwhile. Sizes are
    checked, the checksums of all but large files, and what compiled code relies on: in large
    models once, until a file changes, which a file beside the generation says. `verify_model`
    compares the checksums of large files, too. What killed saves left is removed by the way.

    Raises
    ------
    ModelNotFoundError, ModelVersionError, ModelCorruptError
    ModelStoreError
        If it cannot be read for want of permission, memory or open files.
    """
    folder = as_path(path)

    def load(generation: Path, manifest: dict[str, Any]) -> T:
        stamp = _stamp(generation, manifest)
        seen = stamp == _stamped(generation)
        if not seen:
            _compare(generation, manifest, below=LARGE)
        arrays = {}
        for name in manifest["files"]:
            if name.endswith(".npy"):
                array = open_array(generation / name)
                check_numbers(name, array, seen=seen)
                arrays[name.removesuffix(".npy")] = array
        state = unpack(arrays, read_json(generation / STATE), seen=seen)
        built = build(generation, state, manifest["summary"])
        if not seen and any(array.nbytes >= LARGE for array in arrays.values()):
            with suppress(OSError, DataFileError), atomic_write(_stamp_file(generation)) as out:
                json.dump(stamp, out)
        return built

    found = _while_it_stands(folder, load)
    with suppress(OSError):  # somebody is saving, or the folder is read-only
        if len(_generations(folder)) > 1:
            with (folder / LOCK).open("ab") as file:
                lock(file)
                _clean(folder)
    return found


def _stamp_file(generation: Path) -> Path:
    return generation.with_name(f"{generation.name}.seen")


def _stamp(generation: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what changes whenever a file of a generation does, or it is copied elsewhere.

    Large arrays that were once looked through are not again, as long as this is the same.
    """
    files = {name: (generation / name).stat() for name in manifest["files"]}
    return {
        "format_version": FORMAT_VERSION,
        "seal": manifest["sha256"],
        "files": {
            name: [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
            for name, found in files.items()
        },
    }


def _stamped(generation: Path) -> Any:
    try:
        return json.loads(_stamp_file(generation).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None  # nobody has looked, or it is no stamp: look again


def summary_of(path: str | Path) -> dict[str, Any]:
    """Return the summary of a model, of which nothing else is read or checked.

    Raises
    ------
    ModelNotFoundError, ModelVersionError, ModelCorruptError, ModelStoreError
        As `load_model`.
    """
    return dict(_manifest(as_path(path))["summary"])


def generation_of(path: str | Path) -> Path:
    """Return the folder of a model's generation, of which nothing is read or checked.

    Raises
    ------
    ModelNotFoundError, ModelVersionError, ModelCorruptError, ModelStoreError
        As `load_model`.
    """
    folder = as_path(path)
    return folder / str(_manifest(folder)["generation"])


def verify_model(path: str | Path) -> None:
    """Raise what `load_model` would, and ModelCorruptError if the checksum of a file differs."""
    _while_it_stands(as_path(path), _compare)


def _compare(generation: Path, manifest: dict[str, Any], below: float = math.inf) -> None:
    """Compare the files of fewer bytes with their checksums."""
    for name, expected in manifest["files"].items():
        if expected["bytes"] < below and _checksum(generation / name) != expected["sha256"]:
            raise ValueError(f"{name}: altered: its checksum differs")


def is_model(folder: Path) -> bool:
    """Return whether the folder is a model, be it damaged: many other things have a manifest."""
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    return json.dumps(FORMAT) in text


def check_place(place: Path) -> None:
    """Raise InputError if something is there that is no model, nor what is kept beside one.

    What a killed save left is not in the way, nor is an empty folder.
    """
    try:
        try:  # at one look: somebody may be saving there for the first time
            found = [path.name for path in place.iterdir()]
        except FileNotFoundError:
            found = [""] if place.is_symlink() else []
        except NotADirectoryError:  # nor need the one above it be a folder
            found = [""] if os.path.lexists(place) else []
        bare = all(_is_of_a_save(name) or is_kept_beside(name) for name in found)
        is_ours = bare or is_model(place)
    except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
        raise DataFileError(place, f"cannot be written: {_reason(exc)}") from exc
    if not is_ours:
        raise InputError(f"{place}: something that is not a model is there (choose another place)")


def check_target(target: Path, overwrite: bool) -> None:
    """Raise what `save_model` would, if something is in its way: before a long fit, say."""
    check_place(target)
    if target.is_symlink():
        raise InputError(f"{target}: a link is there (give the folder itself, or another place)")
    if is_model(target) and not overwrite:
        raise InputError(f"{target}: a model is there already (choose another place or overwrite)")
    if not target.parent.is_dir():
        raise DataFileError(target, "its folder does not exist", cure="create it first")
    if not os.access(target if target.exists() else target.parent, os.W_OK | os.X_OK):
        problem = "Read-only file system" if _is_read_only(target.parent) else "Permission denied"
        raise DataFileError(target, f"cannot be written: {problem}", cure="choose another place")


def _is_read_only(folder: Path) -> bool:
    """Return whether nobody can write there; False where the system does not say."""
    return hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _lock_of(folder: Path) -> ExitStack:
    """Return the lock of those who save to the folder, held; the folder is made if need be."""
    deadline = time.monotonic() + MAX_WAIT
    while time.monotonic() < deadline:
        folder.mkdir(exist_ok=True)
        with suppress(FileNotFoundError), ExitStack() as held:
            file = held.enter_context((folder / LOCK).open("ab"))
            with suppress(BlockingIOError, PermissionError):
                lock(file)
                # Whoever held it before may have taken it away, with the folder.
                if os.path.samestat(os.fstat(file.fileno()), (folder / LOCK).stat()):
                    return held.pop_all()
        time.sleep(0.005)
    raise ModelStoreError(f"{folder}: another process is saving there (try again when it is done)")


def _write_generation(
    folder: Path,
    state: dict[str, Any],
    files: Mapping[str, Callable[[Path, KeptFiles], object]],
    summary: dict[str, Any],
) -> Path:
    """Write all files of a model, make them the model by one rename, and return their folder."""
    kept = _kept(folder)
    generation = folder / f"generation-{secrets.token_hex(8)}"
    generation.mkdir()
    arrays, plain = pack(state)
    for name, write in files.items():
        write(generation / name, kept)
    (generation / STATE).write_bytes(json_bytes(plain))
    for name, array in arrays.items():
        kept.write(generation / f"{name}.npy", array)
    there = sorted(generation.iterdir())
    entries = {file.name: kept.entry(file) or _entry(file) for file in there}
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "generation": generation.name,
        "summary": summary,
        "files": entries,
    }
    manifest["sha256"] = _seal(manifest)
    prepared = generation / MANIFEST
    prepared.write_text(json.dumps(manifest, indent=1, ensure_ascii=False), encoding="utf-8")
    for file in (*there, prepared):
        if kept.entry(file) is not None:  # the old model's too: it is never opened to be written
            _sync(file)
            continue
        with file.open("r+b") as data:
            os.fsync(data.fileno())
    _sync(generation)
    _sync(folder)
    prepared.replace(folder / MANIFEST)
    _sync(folder)
    return generation


def _kept(folder: Path) -> KeptFiles:
    """Return the files of the model that is there."""
    try:
        manifest = _manifest(folder)
    except ModelStoreError:  # none is there, or nobody can say which files are its
        return KeptFiles()
    return KeptFiles(folder / manifest["generation"], manifest["files"])


def _entry(file: Path) -> dict[str, Any]:
    return {"bytes": file.stat().st_size, "sha256": _checksum(file)}


def _sync(place: Path) -> None:
    """Have the disk know which files are in a folder; Windows sees to that itself.

    And what is in a file that is not to be written: one that was copied may not be on it yet.
    """
    if os.name == "posix":
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _clean(folder: Path) -> None:
    """Remove all generations but the model's. Only for whoever holds the lock."""
    try:
        current = _manifest(folder)["generation"]
    except ModelNotFoundError:
        current = None
    except ModelStoreError:  # damaged: nobody can say which it is
        return
    for entry in _generations(folder):
        if entry.name != current:
            shutil.rmtree(entry, ignore_errors=True)
    for entry in _stamps(folder):
        if entry.stem != current:
            entry.unlink(missing_ok=True)


def _generations(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _GENERATION.fullmatch(path.name)]


def _is_of_a_save(name: str) -> bool:
    return bool(name == LOCK or _GENERATION.fullmatch(name) or _STAMP.fullmatch(name))


def _stamps(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _STAMP.fullmatch(path.name)]


def _while_it_stands(folder: Path, use: Callable[[Path, dict[str, Any]], T]) -> T:
    """Do something with the current generation; again, if a save replaces it meanwhile."""
    while True:
        manifest = _manifest(folder)
        generation = folder / manifest["generation"]
        try:
            for name, expected in manifest["files"].items():
                size = (generation / name).stat().st_size
                if size != expected["bytes"]:
                    raise ValueError(f"{name}: truncated or altered: {size} bytes")
            return use(generation, manifest)
        # Whatever the readers of JSON and of arrays raise on content that nobody saved.
        except Exception as exc:
            _raise_if_hindered(folder, exc)
            if _manifest(folder)["generation"] == generation.name:
                if isinstance(exc, ModelCorruptError):  # it says where
                    raise
                what = exc if str(exc) else type(exc).__name__
                raise ModelCorruptError.of(folder, what) from exc


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = read_json(folder / MANIFEST)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise ValueError(f"{MANIFEST} is not that of a model")
        found = manifest["format_version"]
        if found != FORMAT_VERSION and type(found) is int:
            newer = found > FORMAT_VERSION
            age, cure = ("a newer", "upgrade cnp-router") if newer else ("an older", "fit it again")
            which = f"({found}, this version reads {FORMAT_VERSION})"
            raise ModelVersionError(f"{folder}: written in {age} format {which} ({cure})")
        names = (manifest["generation"], *manifest["files"])
        sound = type(found) is int and isinstance(manifest["summary"], dict)
        if not (sound and _GENERATION.fullmatch(names[0]) and all(map(_FILE.fullmatch, names[1:]))):
            raise ValueError(f"{MANIFEST} holds what no save writes")
        if manifest["sha256"] != _seal(manifest):
            raise ValueError(f"the checksum of {MANIFEST} differs")
    except DataFileError as exc:
        _raise_if_hindered(folder, exc)
        missing = isinstance(exc.__cause__, FileNotFoundError | NotADirectoryError)
        if missing or not os.path.lexists(folder / MANIFEST):
            name = str(folder) if str(folder).isprintable() else repr(str(folder))
            is_file = os.path.isfile(folder)  # noqa: PTH113  (a Path's raises at a name too long)
            cure = "give the folder of a model" if is_file else how_to_fit(folder)
            raise ModelNotFoundError(f"{name}: no model there ({cure})") from exc
        raise ModelCorruptError.of(folder, f"{MANIFEST}: {exc.problem}") from exc
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        what = f"{MANIFEST} lacks {exc}" if isinstance(exc, KeyError) else exc
        raise ModelCorruptError.of(folder, what) from exc
    return manifest


def how_to_fit(folder: Path) -> str:
    """Return what makes a model in a folder where there is none: the cure of an error.

    Examples
    --------
    >>> how_to_fit(Path("my model"))
    "cnp-router fit --catalog FILE --output 'my model' makes one"
    """
    return f"cnp-router fit --catalog FILE --output {_in_a_shell(folder)} makes one"


def _in_a_shell(folder: Path) -> str:
    """Return a folder as a word of a command line."""
    name = str(folder)
    return shlex.quote(name) if name.isprintable() else "DIR"


def _raise_if_hindered(folder: Path, error: Exception) -> None:
    reason = hindrance(error)
    if reason:
        raise ModelStoreError(f"{folder}: the model cannot be read: {reason}") from error


def _seal(manifest: dict[str, Any]) -> str:
    """Return the checksum of all that a manifest says, itself left out."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _checksum(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _reason(exc: Exception) -> str:
    return getattr(exc, "strerror", None) or str(exc)
