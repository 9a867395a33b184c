"""How what was learned is kept: as arrays and JSON, in a folder or as one block of bytes.

Nothing in it can run. A model folder holds

=====================  ==========================================================================
``manifest.json``      which generation is the model, with sizes and checksums; replaced at once
``generation-…/``      one whole model: JSON, JSON Lines, and a ``.npy`` file an array
``lock``               held by whoever saves
=====================  ==========================================================================

and whatever else is put there, which is never touched. Files of a generation are never changed, so
that arrays are mapped into memory as they are.
"""

from __future__ import annotations

import hashlib
import io
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

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.exceptions import (
    DataFileError,
    InputError,
    ModelCorruptError,
    ModelNotFoundError,
    ModelStoreError,
    ModelVersionError,
)
from cnp_router.files import as_path, lock, read_json

__all__ = [
    "MANIFEST",
    "check_target",
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
Arrays = dict[str, NDArray[Any]]

FORMAT = "cnp-router model"
FORMAT_VERSION = 2
MANIFEST, STATE, LOCK = "manifest.json", "state.json", "lock"
MAX_WAIT = 60.0  # seconds for another process that saves

_GENERATION = re.compile(r"generation-[0-9a-f]{16}")
_FILE = re.compile(r"\w[\w.-]*", re.ASCII)
_ARRAY, _SPARSE = " array", " sparse"
_PARTS = ("data", "indices", "indptr")
_MAPPED = 1 << 20  # bytes of an array from which on it is mapped
_NUMBERS = np.typecodes["AllInteger"] + "fd"


def pack(state: dict[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """Split a state into arrays, named by their path, and what JSON can hold.

    A state is a dict of str, not beginning with a space, to ndarray, sparse array, list of str,
    number, None or such a dict. A sparse array is three arrays, and comes back as csr_array.

    Examples
    --------
    >>> arrays, plain = pack({"a": {"x": np.arange(2), "n": 3}})
    >>> list(arrays), plain
    (['a.x'], {'a': {'x': {' array': 'a.x'}, 'n': 3}})
    >>> unpack(arrays, plain)
    {'a': {'x': array([0, 1]), 'n': 3}}
    """
    arrays: Arrays = {}

    def add(name: str, array: NDArray[Any]) -> str:
        while name in arrays:  # "a.b" may be a key, too
            name += "_"
        arrays[name] = array
        return name

    def walk(value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            if any(key.startswith(" ") for key in value):
                raise ValueError(f"a key of a state begins with a space: {list(value)!r}")
            return {key: walk(inner, (*path, key)) for key, inner in value.items()}
        name = ".".join(path)
        if isinstance(value, np.ndarray):
            return {_ARRAY: add(name, value)}
        if sparse.issparse(value):
            rows = sparse.csr_array(value)  # whatever it was: it is read back as this
            names = [add(f"{name}.{part}", getattr(rows, part)) for part in _PARTS]
            return {_SPARSE: names, "shape": [int(n) for n in rows.shape]}
        return value

    return arrays, walk(state, ())


def unpack(arrays: Arrays, plain: dict[str, Any]) -> dict[str, Any]:
    """Put a state together again.

    A KeyError, TypeError or ValueError says that the parts do not fit, or that a sparse array's
    indices, which compiled code will follow, lead nowhere.
    """

    def walk(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
        if not isinstance(value, dict):
            return value
        if _ARRAY in value:
            return arrays[value[_ARRAY]]
        if _SPARSE not in value:
            return {key: walk(inner) for key, inner in value.items()}
        data, *indices = (arrays[name] for name in value[_SPARSE])
        if any(part.dtype.kind not in "iu" for part in indices):
            raise TypeError("the indices of a sparse matrix are whole numbers")
        matrix = sparse.csr_array((data, *indices), shape=tuple(value["shape"]))
        matrix.check_format(full_check=True)
        return matrix

    if not isinstance(plain, dict):
        raise TypeError(f"expected an object, got {type(plain).__name__}")
    return dict(walk(plain))


def state_to_bytes(state: dict[str, Any]) -> bytes:
    """Return a state as one block of bytes, for a place that holds many, such as a database."""
    arrays, plain = pack(state)
    out = io.BytesIO()
    named = {f".{name}": array for name, array in arrays.items()}  # np.savez has own parameters
    np.savez(out, allow_pickle=False, plain=np.frombuffer(_json(plain), np.uint8), **named)
    return out.getvalue()


def state_from_bytes(data: bytes) -> dict[str, Any]:
    """Return the state that `state_to_bytes` was given.

    Other bytes raise KeyError, OSError, TypeError, ValueError or zipfile.BadZipFile.

    Examples
    --------
    >>> state_from_bytes(state_to_bytes({"x": np.arange(2), "n": 3}))
    {'x': array([0, 1]), 'n': 3}
    """
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        plain = json.loads(file["plain"].tobytes())
        arrays = {name[1:]: file[name] for name in file.files if name != "plain"}
    return unpack(arrays, plain)


def save_model(
    path: str | Path,
    state: dict[str, Any],
    *,
    files: Mapping[str, Callable[[Path], object]],
    summary: dict[str, Any],
    overwrite: bool = False,
) -> None:
    """Save a model as a folder: whenever this ends, the old or the new one is there whole.

    Besides the `state`, as `pack` takes it, the model has `files`, each written by the function
    that gets its path, and a `summary` that goes into the manifest. Of two that save at once, the
    second waits for the first.

    Raises
    ------
    InputError
        If something is there already, other than a model to `overwrite`.
    DataFileError
        If the place cannot be written, or a file not be written as JSON.
    ModelStoreError
        If another process has been saving there for a minute.
    """
    folder = as_path(path)
    check_target(folder, overwrite)
    is_new = not folder.exists()
    try:
        with _lock_of(folder):
            try:
                check_target(folder, overwrite)  # another process may have been first
                _clean(folder)
                _write_generation(folder, state, files, summary)
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
        raise DataFileError(path, f"cannot be written: {_reason(exc)}") from exc


def load_model(path: str | Path, build: Callable[[Path, dict[str, Any], dict[str, Any]], T]) -> T:
    """Load a model that was saved: one that stood there whole at some moment, whoever saves.

    `build` makes it of the folder with its further files, its state, whose arrays cannot be written
    to, and its summary; it may be called again, if the model is replaced meanwhile. Sizes are
    checked, and what compiled code relies on; `verify_model` checks the rest. What killed saves
    left is removed by the way.

    Raises
    ------
    ModelNotFoundError, ModelVersionError, ModelCorruptError
    """

    def load(generation: Path, manifest: dict[str, Any]) -> T:
        arrays = {}
        for name in manifest["files"]:
            if name.endswith(".npy"):
                array = _array(generation / name)
                if array.dtype.char not in _NUMBERS or not array.dtype.isnative:
                    raise TypeError(f"{name}: expected numbers, got {array.dtype}")
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    raise ValueError(f"{name}: not all numbers are finite")
                arrays[name.removesuffix(".npy")] = array
        return build(generation, unpack(arrays, read_json(generation / STATE)), manifest["summary"])

    folder = as_path(path)
    found = _while_it_stands(folder, load)
    with suppress(OSError):  # somebody is saving, or the folder is read-only
        if len(_generations(folder)) > 1:
            with (folder / LOCK).open("ab") as file:
                lock(file)
                _clean(folder)
    return found


def _array(path: Path) -> NDArray[Any]:
    """Return a saved array: mapped if it is large, for a mapping keeps a file open."""
    if path.stat().st_size >= _MAPPED:
        return np.asarray(np.lib.format.open_memmap(path, mode="r"))
    with path.open("rb") as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    array.flags.writeable = False
    return array


def summary_of(path: str | Path) -> dict[str, Any]:
    """Return the summary of a model, of which nothing else is read or checked.

    Raises
    ------
    ModelNotFoundError, ModelVersionError, ModelCorruptError
    """
    return dict(_manifest(as_path(path))["summary"])


def verify_model(path: str | Path) -> None:
    """Raise what `load_model` would, and ModelCorruptError if the checksum of a file differs."""

    def verify(generation: Path, manifest: dict[str, Any]) -> None:
        for name, expected in manifest["files"].items():
            if _checksum(generation / name) != expected["sha256"]:
                raise ValueError(f"{name}: altered: its checksum differs")

    _while_it_stands(as_path(path), verify)


def is_model(folder: Path) -> bool:
    """Return whether the folder is a model, be it damaged: many other things have a manifest."""
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    return json.dumps(FORMAT) in text


def check_target(target: Path, overwrite: bool) -> None:
    """Raise what `save_model` would, if something is in its way: before a long fit, say.

    An empty folder, and one that a killed save left, can be saved to.
    """
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            target.lstat()  # it says what os.path.lexists does not, such as a name too long
        there, home = os.path.lexists(target), target.parent.is_dir()
        model = is_model(target)
        bare = target.is_dir() and {*target.iterdir()} <= {target / LOCK, *_generations(target)}
    except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
        raise DataFileError(target, f"cannot be written: {_reason(exc)}") from exc
    if there and (target.is_symlink() or not (model or bare)):
        raise InputError(f"{target}: something that is not a model is there (choose another place)")
    if model and not overwrite:
        raise InputError(f"{target}: a model is there already (choose another place or overwrite)")
    if not home:
        raise DataFileError(target, "its folder does not exist", cure="create it first")
    if not os.access(target if there else target.parent, os.W_OK | os.X_OK):
        raise DataFileError(target, "cannot be written: Permission denied")


def _lock_of(folder: Path) -> ExitStack:
    """Return the lock of those who save to the folder, held; the folder is made if need be."""
    deadline = time.monotonic() + MAX_WAIT
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError), ExitStack() as held:
            folder.mkdir(exist_ok=True)
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
    files: Mapping[str, Callable[[Path], object]],
    summary: dict[str, Any],
) -> None:
    """Write all files of a model, and then make them the model by one rename."""
    generation = folder / f"generation-{secrets.token_hex(8)}"
    generation.mkdir()
    arrays, plain = pack(state)
    for name, write in files.items():
        write(generation / name)
    (generation / STATE).write_bytes(_json(plain))
    for name, array in arrays.items():
        with (generation / f"{name}.npy").open("xb") as out:
            np.save(out, array, allow_pickle=False)
    written = sorted(generation.iterdir())
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "generation": generation.name,
        "summary": summary,
        "files": {
            file.name: {"bytes": file.stat().st_size, "sha256": _checksum(file)} for file in written
        },
    }
    manifest["sha256"] = _seal(manifest)
    prepared = generation / MANIFEST
    prepared.write_text(json.dumps(manifest, indent=1, ensure_ascii=False), encoding="utf-8")
    for file in (*written, prepared):
        with file.open("r+b") as data:
            os.fsync(data.fileno())
    _sync(generation)
    _sync(folder)
    prepared.replace(folder / MANIFEST)
    _sync(folder)


def _sync(folder: Path) -> None:
    """Have the disk know which files are in a folder; Windows sees to that itself."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
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


def _generations(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _GENERATION.fullmatch(path.name)]


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
            if _manifest(folder)["generation"] == generation.name:
                what = exc if str(exc) else type(exc).__name__
                raise _damaged(folder, what) from exc


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
        missing = isinstance(exc.__cause__, FileNotFoundError | NotADirectoryError)
        denied = isinstance(exc.__cause__, PermissionError)
        if missing or not (denied or os.path.lexists(folder / MANIFEST)):
            name = str(folder) if str(folder).isprintable() else repr(str(folder))
            cure = f"cnp-router fit --catalog FILE --output {_in_a_shell(folder)} makes one"
            raise ModelNotFoundError(f"{name}: no model there ({cure})") from exc
        raise _damaged(folder, f"{MANIFEST}: {exc.problem}") from exc
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        what = f"{MANIFEST} lacks {exc}" if isinstance(exc, KeyError) else exc
        raise _damaged(folder, what) from exc
    return manifest


def _in_a_shell(folder: Path) -> str:
    """Return a folder as a word of a command line."""
    name = str(folder)
    return shlex.quote(name) if name.isprintable() else "DIR"


def _damaged(folder: Path, what: object) -> ModelCorruptError:
    return ModelCorruptError(f"{folder}: the model is damaged: {what} (fit it again)")


def _seal(manifest: dict[str, Any]) -> str:
    """Return the checksum of all that a manifest says, itself left out."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _checksum(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _reason(exc: Exception) -> str:
    return getattr(exc, "strerror", None) or str(exc)
