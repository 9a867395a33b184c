"""`read_history`: a history of many files, each read by one of a pool."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cnp_router.catalog import Catalog
from cnp_router.data_files import data_files, pass_over
from cnp_router.exceptions import DataFileError, EmptyFileError
from cnp_router.history import History, Mashup, UnknownPolicy
from cnp_router.pool import Pool

__all__ = ["read_history"]


def read_history(
    pool: Pool,
    paths: str | Path | Iterable[str | Path],
    *,
    catalog: Catalog | None = None,
    unknown: UnknownPolicy = "error",
) -> History:
    """Return what `History.read` returns, whose files a pool has read: the order is that of them.

    Patterns are expanded here; all workers must see the files under the same paths.

    Examples
    --------
    >>> import tempfile
    >>> from cnp_router.pool import LocalPool
    >>> folder = Path(tempfile.mkdtemp())
    >>> for n in range(2):
    ...     History([Mashup(f"m{n}", "Rain by text", ("rain",))]).write(folder / f"{n}.jsonl")
    >>> read_history(LocalPool(2, threads=True), folder / "*.jsonl")
    History(2 mashups)
    """
    files = [Path(path).absolute() for path in data_files(paths)]
    mashups: list[Mashup] = []
    seen: dict[str, Path] = {}
    skipped = 0
    shared = pool.share((catalog, unknown, pool.is_remote))
    sizes = {file: _size(file) for file in files}
    empty: list[EmptyFileError] = []
    found = pool.each(_read, [{file: sizes[file]} for file in files], shared)
    for file, read in zip(files, found, strict=True):
        if isinstance(read, EmptyFileError):
            empty.append(read)
            continue
        own, left_out = read
        for mashup in own:
            if seen.setdefault(mashup.id, file) is not file:
                # Whoever reads both says in which lines.
                both = {each: sizes[each] for each in (seen[mashup.id], file)}
                pool.begin(_read, both, shared)()
        mashups.extend(own)
        skipped += left_out
    pass_over(empty, len(files))
    return History(mashups, skipped=skipped)


def _read(
    shared: tuple[Any, Any, bool], files: Mapping[Path, int | None]
) -> tuple[tuple[Mashup, ...], int] | EmptyFileError:
    """Read some files, which have so many bytes where it was asked for, as a piece of work."""
    catalog, unknown, is_remote = shared
    for file, size in files.items() if is_remote else ():
        _check_there(file, size)
    try:
        history = History.read(list(files), catalog=catalog, unknown=unknown)
    except EmptyFileError as exc:  # the others may hold something
        return exc
    return tuple(history), history.skipped


def _check_there(file: Path, size: int | None) -> None:
    """Raise DataFileError unless this worker sees the file that was meant."""
    host = socket.gethostname()
    try:
        own = file.stat()
    except FileNotFoundError as exc:
        cure = "the workers read it: put it where all of them see it under this path"
        raise DataFileError(file, f"no such file on {host}", cure=cure) from exc
    except (OSError, ValueError):  # who reads it says what is wrong
        return
    if not (stat.S_ISREG(own.st_mode) or stat.S_ISDIR(own.st_mode)):
        # A pipe would keep the worker waiting, and whoever asks it for something later.
        cure = "the workers read it: it must be one"
        raise DataFileError(file, f"is no regular file on {host}", cure=cure)
    if size not in (None, own.st_size):
        problem = f"has {own.st_size:,} bytes on {host}, and {size:,} where it was asked for"
        cure = "the workers read it: under this path all of them must see the same file"
        raise DataFileError(file, problem, cure=cure)


def _size(file: Path) -> int | None:
    """Return how many bytes a file has, if that can be seen here."""
    try:
        return file.stat().st_size
    except (OSError, ValueError):
        return None
