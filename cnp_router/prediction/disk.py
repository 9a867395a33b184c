"""What a crash-safe store does to the disk: few operations, each in a function of its own.

A process may be killed before, after and, for `append`, within each of them. `OnlineStore` does
nothing else to its files, so a test that ends the process at each is exhaustive.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import IO

from cnp_router.exceptions import ModelStoreError
from cnp_router.files import lock

__all__ = ["Lock", "append", "create_folder", "cut", "put", "remove", "sync_folder", "write_file"]


class Lock:
    """One writer at a time. The system lets go of it when the process ends, however it ends.

    Parameters
    ----------
    path : Path
        The lock file, made if it is not there. It stays.

    Raises
    ------
    ModelStoreError
        If another writer holds it.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("ab")
        try:
            lock(self._file)
        except OSError as exc:
            self._file.close()
            raise ModelStoreError(
                f"{path.parent}: another process or object is writing there (close it first)"
            ) from exc

    def release(self) -> None:
        """Let others write."""
        self._file.close()


def append(path: Path, data: bytes) -> None:
    """Write data at the end of a file, made if it is not there, and wait until it is on disk."""
    is_new = not path.exists()
    with path.open("ab", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    if is_new:
        sync_folder(path.parent)


def cut(path: Path, size: int) -> None:
    """Cut a file to a size, and wait until that is on disk."""
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def create_folder(path: Path) -> None:
    """Make a folder, if it is not there, and those above it."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent)


def write_file(path: Path, data: bytes) -> None:
    """Write a new file, and wait until it is on disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def put(temporary: Path, target: Path) -> None:
    """Rename a folder into place, in one step."""
    temporary.rename(target)


def remove(path: Path) -> None:
    """Remove a file or a folder."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk, where the system can."""
    if sys.platform == "win32":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
