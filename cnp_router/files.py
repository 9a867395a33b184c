"""Reading and writing files so that errors are clear and nothing is left half-written."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from cnp_router.exceptions import DataFileError

__all__ = ["atomic_write", "read_json", "read_jsonl", "read_text", "write_jsonl"]


def read_text(path: str | Path) -> str:
    """Read a whole UTF-8 file.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    str

    Raises
    ------
    DataFileError
        If the file is missing, a directory, not permitted, not UTF-8 or empty.

    Examples
    --------
    >>> read_text("no-such-file.jsonl")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.DataFileError: no-such-file.jsonl: no such file (check the path)
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as exc:
        raise DataFileError(path, "no such file", cure="check the path") from exc
    except IsADirectoryError as exc:
        raise DataFileError(path, "is a directory", cure="name a file inside it") from exc
    except PermissionError as exc:
        raise DataFileError(path, "no permission to read it", cure="check its mode") from exc
    except OSError as exc:
        raise DataFileError(path, f"cannot be read: {exc.strerror or exc}") from exc
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise DataFileError(
            path, f"not UTF-8 (byte {data[exc.start]:#04x})", line=line, cure="save it as UTF-8"
        ) from exc
    if not text.strip():
        raise DataFileError(path, "the file is empty", cure="give at least one record")
    return text


def read_json(path: str | Path) -> Any:
    """Read one JSON document.

    Raises
    ------
    DataFileError
        As `read_text`, or if the text is not JSON.
    """
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as exc:
        raise DataFileError(
            path, f"not JSON: {exc.msg}", line=exc.lineno, cure="give one valid JSON document"
        ) from exc


def read_jsonl(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield ``(line number, object)`` for each non-blank line of a JSON Lines file.

    Parameters
    ----------
    path : str or Path
        UTF-8, one JSON object a line. Blank lines are passed over.

    Raises
    ------
    DataFileError
        As `read_text`, or if a line is not a JSON object.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = file.write_text('{"id": "maps"}', encoding="utf-8")
    >>> list(read_jsonl(file))
    [(1, {'id': 'maps'})]
    """
    # Split on "\n" alone: str.splitlines would also break inside JSON strings (U+2028).
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as exc:
            reason = exc.msg if isinstance(exc, json.JSONDecodeError) else "nested too deep"
            raise DataFileError(
                path, f"not JSON: {reason}", line=number, cure="write one JSON object a line"
            ) from exc
        if not isinstance(record, dict):
            raise DataFileError(
                path,
                f"expected a JSON object, got {type(record).__name__}",
                line=number,
                cure="write one JSON object a line",
            )
        yield number, record


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    r"""Open a temporary file beside `path` and rename it into place on success.

    Parameters
    ----------
    path : str or Path
        The final place. Its folder must exist.
    mode : {"w", "wb"}, default="w"
        Text is UTF-8 with ``\n`` line ends.

    Raises
    ------
    DataFileError
        If the place cannot be written. What stood there before is left as it was.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> with atomic_write(file) as out:
    ...     _ = out.write("done")
    >>> file.read_text()
    'done'
    """
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or ".")
    except IsADirectoryError as exc:
        raise DataFileError(path, "is a directory", cure="name a file") from exc
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise DataFileError(path, "its folder does not exist", cure="create it first") from exc
    except OSError as exc:
        raise DataFileError(path, f"cannot be written: {exc.strerror or exc}") from exc
    temporary = Path(name)
    try:
        text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
        with os.fdopen(handle, mode, **text) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        try:
            temporary.replace(target)
        except OSError as exc:
            raise DataFileError(path, f"cannot be written: {exc.strerror or exc}") from exc
    finally:
        temporary.unlink(missing_ok=True)


def write_jsonl(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    r"""Write records as JSON Lines, atomically.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
    >>> write_jsonl(file, [{"id": "maps"}])
    >>> file.read_text()
    '{"id": "maps"}\n'
    """
    with atomic_write(path) as out:
        for record in records:
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
