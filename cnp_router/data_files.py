"""Which files a path means, and Parquet: what readers of data take besides JSON Lines."""

from __future__ import annotations

import datetime
import glob
import itertools
import logging
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnp_router.exceptions import DataFileError, EmptyFileError, MissingExtraError
from cnp_router.files import as_path, reason, value_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["data_files", "is_parquet", "pass_over", "read_parquet"]

_log = logging.getLogger(__name__)
_ROWS = 4096  # of a table, held at once
_OBJECTS = ("parameters", "returns")  # columns that may hold JSON as text


def data_files(paths: str | Path | Iterable[str | Path]) -> tuple[str | Path, ...]:
    """Return the files that some paths mean, in order: a pattern means all that match it, sorted.

    A path that is there is itself, whatever characters its name has. All that matches and is no
    folder is one of them: reading a link that leads nowhere is an error. A folder called
    ``.parquet``, as Dask and Spark write a table, means the Parquet files in it. Of other folders
    that match, or are in it, it is said that they are passed over. A pattern with ``**``, which
    finds what is in folders, means files alone.

    Raises
    ------
    DataFileError
        If nothing matches a pattern, a file is meant twice, such a folder has no Parquet file, or
        one where some may be cannot be looked into.

    Examples
    --------
    >>> data_files("mashups.jsonl")
    ('mashups.jsonl',)
    >>> data_files("no-such-part-*.jsonl.gz")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.DataFileError: no-such-part-*.jsonl.gz: no file matches (check the ...)
    """
    found: dict[str, str | Path] = {}
    for path in [paths] if isinstance(paths, str | Path) else paths:
        pattern = str(as_path(path))
        is_plain = not glob.has_magic(pattern) or os.path.exists(pattern)  # noqa: PTH110
        matches = [path] if is_plain else _matches(pattern)
        for match in itertools.chain.from_iterable(map(_parts, matches)):
            place = os.path.abspath(match)  # noqa: PTH100  (resolve would follow links)
            if place in found:
                raise DataFileError(match, "it is given twice", cure=f"{pattern} means it, too")
            found[place] = match
    return tuple(found.values())


def _matches(pattern: str) -> list[Path]:
    _check_folders(Path(pattern))
    # A Path's own methods raise where a folder may not be entered.
    matches, folders = _sorted_out(map(Path, _found(pattern)))
    tables = [] if "**" in pattern else [folder for folder in folders if is_parquet(folder)]
    if not (matches or tables):
        cure = f"give what is in it, as {folders[0] / '*'}" if folders else "check the pattern"
        raise DataFileError(pattern, "no file matches", cure=cure)
    if "**" not in pattern:
        _say_folders([folder for folder in folders if not is_parquet(folder)])
    return sorted([*matches, *tables])


def _parts(path: str | Path) -> Iterable[str | Path]:
    """Return the files of a table that is a folder, or the path itself."""
    if not (is_parquet(path) and _is_folder(path)):
        return [path]
    folder = Path(glob.escape(str(path)))
    _check_folders(folder / "*")
    found, folders = _sorted_out(map(Path, _found(str(folder / "*"))))
    files = [file for file in found if is_parquet(file)]
    if not files:
        cure = f"give them, as {folder / '**' / '*.parquet'}"
        raise DataFileError(path, "no Parquet file in it", cure=cure)
    _say_folders(folders)
    return files


def _sorted_out(places: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Return those that are no folders, and those that are."""
    found: tuple[list[Path], list[Path]] = ([], [])
    for place in places:
        found[_is_folder(place)].append(place)
    return found


def _say_folders(folders: Sequence[Path]) -> None:
    if folders:
        _say_passed_over(folders[0], "is a folder", len(folders))


def _say_passed_over(first: str | Path, problem: str, n: int) -> None:
    more = f", and {n - 1} more" if n > 1 else ""
    _log.warning("%s: %s, and passed over%s", first, problem, more)


def _is_folder(path: str | Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  (a Path's raises where one may not be entered)


def _check_folders(pattern: Path) -> None:
    """Raise DataFileError where a folder may not be looked into: glob passes over it."""
    places = [*reversed(pattern.parents), pattern]
    if pattern.name == "**":
        places.append(pattern / "*")
    for above, place in itertools.pairwise(places):
        is_listed = above.name == "**" or glob.has_magic(place.name)
        for folder in _found(f"{above}{os.sep}"):
            try:
                os.stat(f"{folder}.")  # noqa: PTH116  (a Path has no dot at its end)
                if is_listed:
                    os.scandir(folder).close()
            except PermissionError as exc:
                problem = "no permission to look into it"
                raise DataFileError(folder, problem, cure="check its mode") from exc


def _found(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  (a Path's takes no root)


def pass_over(empty: Sequence[EmptyFileError], n_files: int) -> None:
    """Warn of those of so many files that hold nothing, as who writes in parts leaves some behind.

    Raises
    ------
    EmptyFileError
        If none holds anything.
    """
    if len(empty) == n_files > 0:
        raise empty[0]
    if empty:
        _say_passed_over(empty[0].path, empty[0].problem, len(empty))


def is_parquet(path: str | Path) -> bool:
    """Return whether a file is called a Parquet file."""
    return as_path(path).suffix.lower() == ".parquet"


def read_parquet(
    path: str | Path, columns: Collection[str] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield ``(row number, object)`` for each row of a Parquet file, numbered from 1.

    Columns are called as the keys of the JSON objects. Dates may be dates, times at midnight or
    text; ``parameters`` and ``returns`` may be JSON as text. A null is a missing key, in columns
    that are objects too.

    Parameters
    ----------
    path : str or Path
    columns : collection of str, optional
        Those to read, where the file has them. Default: all.

    Raises
    ------
    MissingExtraError
        Where pyarrow is not installed (``pip install 'cnp-router[parquet]'``).
    DataFileError
        If it cannot be read, or has none of the columns.
    EmptyFileError
        If it has no row.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError as exc:
        raise MissingExtraError("reading Parquet", package="pyarrow", extra="parquet") from exc
    file = as_path(path)
    number = 0
    try:
        if file.is_file() and not file.stat().st_size:
            raise EmptyFileError(path)
        with file.open("rb") as data, ParquetFile(data) as table:
            there = list(table.schema_arrow.names)
            twice = [name for name, n in Counter(there).items() if n > 1]
            if twice:
                problem = f"it has the column {twice[0]!r} more than once"
                raise DataFileError(path, problem, cure="give each column a name of its own")
            wanted = [name for name in there if columns is None or name in columns]
            if not wanted:
                names = ", ".join(map(repr, there[:6])) or "no columns"
                cure = f"it has {names}; rename its columns to the keys of the JSON objects"
                raise DataFileError(path, "no column of it is known", cure=cure)
            for batch in table.iter_batches(_ROWS, columns=wanted):
                for row in _rows(batch, path, number):
                    number += 1
                    yield number, _object(row, path, number)
    except (ArrowException, OSError, ValueError) as exc:  # ValueError: a NUL character
        if isinstance(exc, DataFileError):
            raise
        known: dict[type, str] = {
            FileNotFoundError: "no such file",
            IsADirectoryError: "is a directory",
            PermissionError: "no permission to read it",
        }
        problem = known.get(type(exc), f"cannot be read as Parquet: {reason(exc)}")
        denied = isinstance(exc, PermissionError)
        cure = "check its mode" if denied else "check the path, or write it again"
        raise DataFileError(path, problem, cure=cure) from exc
    if not number:
        raise EmptyFileError(path, "table")


def _rows(batch: RecordBatch, path: str | Path, before: int) -> list[dict[str, Any]]:
    """Return the rows of a part of a table, that has so many before it."""
    try:
        found: list[dict[str, Any]] = batch.to_pylist()
    except (ValueError, OverflowError) as exc:  # times and dates that Python has not
        if len(batch) > 1:  # which row is it?
            return [
                row for i in range(len(batch)) for row in _rows(batch.slice(i, 1), path, before + i)
            ]
        cure = "write times in microseconds, of the years 1 to 9999, in UTC or no time zone"
        raise DataFileError(
            path, f"row {before + 1} has a value that cannot be read: {reason(exc)}", cure=cure
        ) from exc
    return found


def _object(row: dict[str, Any], path: str | Path, number: int) -> dict[str, Any]:
    for name in _OBJECTS:
        if isinstance(row.get(name), str):
            row[name] = value_of(row[name].encode(), f"{path}: row {number}, column {name!r}")
    return {key: _plain(value) for key, value in row.items() if value is not None}


def _plain(value: Any) -> Any:
    """Return a value as it would stand in JSON."""
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time()
        return value.date().isoformat() if midnight else value.isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
