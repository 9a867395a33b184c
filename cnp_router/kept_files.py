"""Files of a model that go into its next generation as they are: linked, not written again.

An array that was opened remembers which file it is the content of: not by its path, where another
file may stand by now, but by device, inode, size and time of its last change. As long as it is
mapped, the system gives that inode to no other file.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MAPPED",
    "Identity",
    "KeptFiles",
    "hindrance",
    "identity",
    "open_array",
    "open_content",
]

_MORE_FILES = "allow more open files, as by ulimit -n"
_CURES = {
    errno.EACCES: "check its mode",
    errno.EPERM: "check its mode",
    errno.EMFILE: _MORE_FILES,
    errno.ENFILE: _MORE_FILES,
    errno.ENOMEM: "give it more memory",
}
MAPPED = 1 << 20  # bytes of a file from which on it is mapped: a mapping keeps a file open

Identity: TypeAlias = tuple[int, int, int, int]
"""Device, inode, size and time of the last change of a file."""


def identity(status: os.stat_result) -> Identity:
    """Return what a file is known by: another one, or a changed one, has another."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def hindrance(error: BaseException) -> str | None:
    """Return what hinders from reading files and says nothing of what is in them, with its cure.

    Examples
    --------
    >>> hindrance(PermissionError(errno.EACCES, "Permission denied", "model/state.json"))
    'state.json: Permission denied (check its mode)'
    >>> hindrance(ValueError("not JSON")) is None
    True
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return f"too little memory ({_CURES[errno.ENOMEM]})"
        if isinstance(cause, OSError) and cause.errno in _CURES:
            where = f"{Path(os.fsdecode(cause.filename)).name}: " if cause.filename else ""
            return f"{where}{cause.strerror} ({_CURES[cause.errno]})"
        cause = cause.__cause__  # its context may be the caller's own
    return None


class _Mapped(np.memmap[Any, Any]):
    """A mapped array that knows its file."""

    opened: Identity | None = None  # of views, nothing is known


def open_array(path: Path) -> NDArray[Any]:
    """Return a saved array that cannot be written to: mapped if it is large."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_size < MAPPED:
            found: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
            found.flags.writeable = False
            return found
        if np.lib.format.read_magic(file) != (1, 0):  # whatever: it was not written by `write`
            return np.asarray(np.lib.format.open_memmap(path, mode="r"))
        shape, by_columns, kind = np.lib.format.read_array_header_1_0(file)
        if kind.hasobject:
            raise ValueError(f"{path.name}: an array of Python objects")
        order = "F" if by_columns else "C"
        mapped = _Mapped(file, kind, "r", file.tell(), shape, order)  # type: ignore[call-overload]
        mapped.opened = identity(status)
        return np.asarray(mapped)


def open_content(path: Path) -> tuple[bytes | mmap.mmap, Identity | None]:
    """Return what a file holds: mapped if it is large, and then with what it is known by."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_size < MAPPED:
            return file.read(), None
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), identity(status)


def _opened(array: NDArray[Any]) -> Identity | None:
    """Return the file of which an array is the whole content, if there is one."""
    base: Any = array
    while base is not None and not isinstance(base, _Mapped):
        base = getattr(base, "base", None)
    return base.opened if base is not None and _layout(base) == _layout(array) else None


def _layout(array: NDArray[Any]) -> tuple[Any, ...]:
    return array.ctypes.data, array.shape, array.strides, array.dtype


class KeptFiles:
    """The files of a model's generation, of which the next one takes over what has not changed.

    Only for whoever holds the lock of the model.

    Parameters
    ----------
    generation : Path, optional
        Without one, every file is written.
    entries : mapping of str to dict, optional
        What the manifest says of each of its files.
    """

    def __init__(
        self, generation: Path | None = None, entries: Mapping[str, dict[str, Any]] | None = None
    ) -> None:
        self._known: dict[Identity, tuple[Path, dict[str, Any]]] = {}
        self._linked: dict[Path, dict[str, Any]] = {}
        if generation is None:
            return
        for name, entry in (entries or {}).items():
            place = generation / name
            with suppress(OSError):
                status = place.lstat()
                # Without inodes, files cannot be told apart.
                if status.st_ino and status.st_size == entry["bytes"]:
                    self._known[identity(status)] = place, entry

    def has(self, opened: Identity | None) -> bool:
        """Return whether a file that was opened is among them."""
        return opened in self._known

    def link(self, opened: Identity | None, target: Path) -> bool:
        """Have a file that was opened stand at a new place, too; return whether it does."""
        if opened is None or opened not in self._known:
            return False
        place, entry = self._known[opened]
        try:
            os.link(place, target)
        except (OSError, NotImplementedError):  # no links there, or not so many
            return False
        if identity(target.lstat()) != opened:  # somebody has put another file there
            target.unlink()
            return False
        self._linked[target] = entry
        return True

    def write(self, target: Path, array: NDArray[Any]) -> None:
        """Have an array stand in a new file, or in the one that it was opened from."""
        if not self.link(_opened(array), target):
            with target.open("xb") as out:
                np.save(out, array, allow_pickle=False)

    def entry(self, target: Path) -> dict[str, Any] | None:
        """Return what the manifest said of a file that was linked; None if it was written."""
        return self._linked.get(target)
