"""`Checkpoint`: what is measured is on disk, request by request, so that a killed run can go on."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cnp_router.exceptions import DataFileError
from cnp_router.files import lock

__all__ = ["FORMAT_VERSION", "Checkpoint"]

FORMAT_VERSION = 2

_KIND = "comparison"
_NEW_FILE = "name another file, or one that does not exist"


class Checkpoint:
    r"""A JSON Lines file that only grows: the settings first, then a line for each record.

    A line is on disk when `add` returns. The end of a line that was cut off by a kill is dropped
    when the file is opened again. While it is open, nobody else can open it.

    Parameters
    ----------
    path : str or Path
        Made if it does not exist; its folder must.
    settings : mapping of str to JSON value
        What the records depend on. A file with other settings is refused.

    Attributes
    ----------
    records : list of (int, dict)
        Line number and record, of those that were there.

    Raises
    ------
    DataFileError
        If the file is no checkpoint, belongs to other settings (it says which), is damaged, is
        being written by another comparison, or cannot be written. It is left as it is.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
    >>> with Checkpoint(file, {"model": "tiny"}) as checkpoint:
    ...     checkpoint.add({"request": "m1"})
    >>> with file.open("a") as torn:
    ...     _ = torn.write('{"request": "m')
    >>> with Checkpoint(file, {"model": "tiny"}) as checkpoint:
    ...     checkpoint.records
    [(2, {'request': 'm1'})]
    """

    def __init__(self, path: str | Path, settings: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self._out = self._opened()
        try:
            self._begin(dict(settings))
        except BaseException:
            self.close()
            raise

    def add(self, record: Mapping[str, Any]) -> None:
        """Append a record, and return when it is on disk.

        Parameters
        ----------
        record : mapping of str to JSON value

        Raises
        ------
        DataFileError
            If it cannot be written.
        """
        try:
            self._put(_line(record))
        except OSError as exc:
            raise self._unwritable(exc) from exc

    def close(self) -> None:
        """Close the file."""
        self._out.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _opened(self) -> io.FileIO:
        """Return the file, open and locked before it is read: another run may be writing to it."""
        try:
            # Unbuffered, and each line in one write: what is there is whole lines and one torn end.
            out = self.path.open("a+b", buffering=0)
        except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
            raise self._unwritable(exc, _NEW_FILE) from exc
        try:
            lock(out)
        except OSError as exc:
            out.close()
            if isinstance(exc, (BlockingIOError, PermissionError)):
                raise DataFileError(
                    self.path, "another comparison is writing to it", cure="wait, or " + _NEW_FILE
                ) from exc
            raise self._unwritable(exc, _NEW_FILE) from exc
        return out

    def _begin(self, settings: dict[str, Any]) -> None:
        head = _line({"record": _KIND, "format": FORMAT_VERSION, "settings": settings})
        try:
            self._out.seek(0)
            data = self._out.read()
        except OSError as exc:
            raise DataFileError(self.path, f"cannot be read: {exc.strerror or exc}") from exc
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and not head.startswith(data):
            raise self._no_checkpoint()
        self.records = list(self._read(whole, settings))
        try:
            if len(whole) < len(data):
                self._out.truncate(len(whole))
            if not whole:
                self._put(head)
        except OSError as exc:
            raise self._unwritable(exc) from exc

    def _read(self, data: bytes, settings: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in enumerate(data.splitlines(), 1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if number == 1:
                self._check_head(record, settings)
            elif isinstance(record, dict):
                yield number, record
            else:
                raise DataFileError(
                    self.path, "no JSON object", line=number, cure="was it altered? " + _NEW_FILE
                )

    def _check_head(self, head: Any, settings: dict[str, Any]) -> None:
        if not isinstance(head, dict) or head.get("record") != _KIND:
            raise self._no_checkpoint()
        if head.get("format") != FORMAT_VERSION:
            raise DataFileError(
                self.path,
                f"written in format {head.get('format')!r}, and this version has {FORMAT_VERSION}",
                cure=_NEW_FILE,
            )
        there = head.get("settings")
        if not isinstance(there, dict):
            raise self._no_checkpoint()
        # As JSON, in which a tuple is a list.
        here = json.loads(json.dumps(settings))
        differing = [
            f"{name} was {there.get(name)!r} and is {here.get(name)!r}"
            for name in dict.fromkeys((*there, *here))
            if there.get(name) != here.get(name)
        ]
        if differing:
            raise DataFileError(
                self.path,
                f"belongs to another comparison: {'; '.join(differing)}",
                cure="go on with the same, or name another file",
            )

    def _no_checkpoint(self) -> DataFileError:
        return DataFileError(self.path, "is no checkpoint of a comparison", cure=_NEW_FILE)

    def _unwritable(self, exc: OSError | ValueError, cure: str | None = None) -> DataFileError:
        reason = getattr(exc, "strerror", None) or exc
        return DataFileError(self.path, f"cannot be written: {reason}", cure=cure)

    def _put(self, line: bytes) -> None:
        left = memoryview(line)
        while left:
            left = left[self._out.write(left) :]
        os.fsync(self._out.fileno())


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=True, allow_nan=False).encode() + b"\n"
