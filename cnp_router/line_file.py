"""`LineFile`: a file of lines that only grows, as a journal is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cnp_router.exceptions import DataFileError
from cnp_router.files import WRITING, as_path, lock, trouble

__all__ = ["LineFile"]


class LineFile:
    """A file of lines that only grows, open for one writer.

    After a kill it is whole lines and perhaps one torn one, the last. Nothing is changed in it
    before the first line is added; then the torn one goes.

    Parameters
    ----------
    path : str or Path
        Made if it does not exist; its folder must.
    kind : str
        Who else could be writing to it, for the error.
    private : bool, default=False
        Whether only its owner may read it.

    Attributes
    ----------
    lines : list of bytes
        Those that were there, without the torn one.
    torn : bytes
        The torn one.

    Raises
    ------
    DataFileError
        If it cannot be read or written, or somebody else has it open.
    """

    def __init__(self, path: str | Path, kind: str, *, private: bool = False) -> None:
        self.path = as_path(path)
        try:
            # Unbuffered, and each line in one write: a kill tears no line but the last.
            self._file = open(  # noqa: SIM115  (it stays open; a Path has no opener)
                self.path,
                "a+b",
                buffering=0,
                opener=lambda name, flags: os.open(name, flags, 0o600 if private else 0o666),
            )
        except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
            raise trouble(path, exc, "cannot be written", WRITING) from exc
        try:
            data = self._begin(kind)
        except BaseException:
            self._file.close()
            raise
        self._size = data.rfind(b"\n") + 1
        self.lines = data[: self._size].split(b"\n")[:-1]
        self.torn = data[self._size :]
        self._ends_torn = bool(self.torn)

    def append(self, line: bytes) -> None:
        """Write one line. It survives the end of this process, and once `sync` is done any end."""
        left = memoryview(line + b"\n")
        try:
            if self._ends_torn:
                self._file.truncate(self._size)
            self._ends_torn = True
            while left:
                left = left[self._file.write(left) :]
        except OSError as exc:
            raise trouble(self.path, exc, "cannot be written") from exc
        self._ends_torn = False
        self._size += len(line) + 1

    def sync(self) -> None:
        """Return when all lines are on disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as exc:
            raise trouble(self.path, exc, "cannot be written") from exc

    def close(self) -> None:
        """Let go of the file. Can be called twice."""
        self._file.close()

    def _begin(self, kind: str) -> bytes:
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            raise DataFileError(self.path, "is not a regular file", cure="name another")
        try:
            lock(self._file)  # before it is read: somebody else may be writing to it
        except (BlockingIOError, PermissionError) as exc:
            problem = f"another {kind} is writing to it"
            cure = "wait, or name another file"
            raise DataFileError(self.path, problem, cure=cure) from exc
        try:
            self._file.seek(0)
            return self._file.read()
        except OSError as exc:
            raise trouble(self.path, exc, "cannot be read") from exc
