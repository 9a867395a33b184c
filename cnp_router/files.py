"""Reading and writing files so that errors are clear and nothing is left half-written."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from cnp_router.exceptions import DataFileError, InputError

__all__ = [
    "atomic_write",
    "check_writable",
    "lock",
    "read_json",
    "read_jsonl",
    "read_text",
    "write_jsonl",
]

_ONE_DOCUMENT = "give one valid JSON document"
_ONE_A_LINE = "write one JSON object a line"
_DEVICE_TROUBLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


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
    file = _as_path(path)
    try:
        data = file.read_bytes()
    except FileNotFoundError as exc:
        raise DataFileError(path, "no such file", cure="check the path") from exc
    except IsADirectoryError as exc:
        raise DataFileError(path, "is a directory", cure="name a file inside it") from exc
    except PermissionError as exc:
        raise DataFileError(path, "no permission to read it", cure="check its mode") from exc
    except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
        raise DataFileError(path, f"cannot be read: {_reason(exc)}") from exc
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

    Parameters
    ----------
    path : str or Path
        UTF-8. NaN, infinities, lone surrogates and repeated keys are not JSON here.

    Raises
    ------
    DataFileError
        As `read_text`, or if the text is not JSON.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.json")
    >>> _ = file.write_text('["maps", "sms"]', encoding="utf-8")
    >>> read_json(file)
    ['maps', 'sms']
    """
    return _decode(read_text(path), path, None, _ONE_DOCUMENT)


def read_jsonl(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield ``(line number, object)`` for each non-blank line of a JSON Lines file.

    Parameters
    ----------
    path : str or Path
        UTF-8, one JSON object a line. Blank lines are passed over.

    Raises
    ------
    DataFileError
        As `read_text`, or if a line is not a JSON object. NaN, infinities, lone surrogates and
        repeated keys are not JSON here.

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
        record = _decode(line, path, number, _ONE_A_LINE)
        if not isinstance(record, dict):
            raise DataFileError(
                path,
                f"expected a JSON object, got {type(record).__name__}",
                line=number,
                cure=_ONE_A_LINE,
            )
        yield number, record


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    r"""Open a temporary file beside `path` and rename it into place on success.

    Parameters
    ----------
    path : str or Path
        The final place. Its folder must exist. A symbolic link is followed, and the mode of a
        file that stood there is kept. A device or pipe (``/dev/null``) is written directly.
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
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    target = _as_path(path)
    temporary: Path | None = None
    try:
        if target.is_dir():
            raise IsADirectoryError
        if target.exists() and not target.is_file():
            handle = os.open(target, os.O_WRONLY)
        else:
            target = Path(os.path.realpath(target))
            temporary = target.with_name(f".cnp-router-{secrets.token_hex(8)}.tmp")
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except IsADirectoryError as exc:
        raise DataFileError(path, "is a directory", cure="name a file") from exc
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise DataFileError(path, "its folder does not exist", cure="create it first") from exc
    except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
        raise DataFileError(path, f"cannot be written: {_reason(exc)}") from exc
    try:
        with os.fdopen(handle, mode, **text) as out:
            yield out
            out.flush()
            if temporary is not None:
                os.fsync(out.fileno())
        if temporary is not None:
            _put(temporary, target, path)
    except OSError as exc:
        # Only what the device says of this file: the caller's block may raise its own errors.
        if exc.errno in _DEVICE_TROUBLE and exc.filename is None:
            raise DataFileError(path, f"cannot be written: {_reason(exc)}") from exc
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def lock(file: IO[Any]) -> None:
    """Lock an open file for one writer, without waiting.

    The system lets go of it when the file is closed or the process ends, however it ends.

    Parameters
    ----------
    file : file object
        Open for writing.

    Raises
    ------
    OSError
        If another process or file object holds it (BlockingIOError, or PermissionError on
        Windows), or the file system has no locks.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
    >>> with file.open("ab") as mine, file.open("ab") as yours:
    ...     lock(mine)
    ...     try:
    ...         lock(yours)
    ...     except OSError:
    ...         print("held by another")
    held by another
    """
    if sys.platform == "win32":
        import msvcrt

        # Beyond any content: a byte that is locked there cannot be read by others.
        file.seek(2**40)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


class _EnoughSeenError(Exception):
    pass


def check_writable(path: str | Path) -> None:
    """Raise DataFileError where a file could not be written now; nothing is left behind.

    For what is to be written at the end of something that costs time or money.

    Examples
    --------
    >>> check_writable("no-such-folder/a.jsonl")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.DataFileError: no-such-folder/a.jsonl: its folder does not exist \
(create it first)
    """
    with suppress(_EnoughSeenError), atomic_write(path):
        raise _EnoughSeenError


def write_jsonl(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    r"""Write records as JSON Lines, atomically.

    Parameters
    ----------
    path : str or Path
    records : iterable of mapping

    Raises
    ------
    DataFileError
        As `atomic_write`, or if a record cannot be written as JSON in UTF-8: it says which line
        it would have been.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
    >>> write_jsonl(file, [{"id": "maps"}])
    >>> file.read_text()
    '{"id": "maps"}\n'
    """
    with atomic_write(path, "wb") as out:
        for number, record in enumerate(records, start=1):
            try:
                line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
            except UnicodeEncodeError as exc:
                raise _surrogate(exc, path, number) from exc
            except (TypeError, ValueError, RecursionError) as exc:
                raise DataFileError(
                    path,
                    f"cannot be written as JSON: {_reason(exc)}",
                    line=number,
                    cure="use strings, finite numbers, true, false, null, lists and objects",
                ) from exc
            out.write(line + b"\n")


def _as_path(path: str | Path) -> Path:
    try:
        return Path(path)
    except TypeError as exc:
        raise InputError(f"a path must be a string or a Path, got {path!r}") from exc


def _put(temporary: Path, target: Path, path: str | Path) -> None:
    try:
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except OSError as exc:
        raise DataFileError(path, f"cannot be written: {_reason(exc)}") from exc


def _decode(text: str, path: str | Path, line: int | None, cure: str) -> Any:
    try:
        value = _DECODER.decode(text)
        # Only an escape can smuggle a surrogate in: the bytes around it were checked as UTF-8.
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as exc:
        problem = exc.msg.removesuffix(" at").removesuffix(" starting")
        raise DataFileError(
            path,
            f"not JSON at column {exc.colno}: {problem}",
            line=exc.lineno if line is None else line,
            cure=cure,
        ) from exc
    except UnicodeEncodeError as exc:
        raise _surrogate(exc, path, line) from exc
    except (ValueError, RecursionError) as exc:
        raise DataFileError(path, f"not JSON: {_reason(exc)}", line=line, cure=cure) from exc
    return value


def _surrogate(exc: UnicodeEncodeError, path: str | Path, line: int | None) -> DataFileError:
    return DataFileError(
        path,
        f"half of a surrogate pair, {exc.object[exc.start]!a}, is not a character",
        line=line,
        cure="replace it; UTF-8 cannot hold it",
    )


def _reason(exc: BaseException) -> str:
    if isinstance(exc, RecursionError):
        return "nested too deep"
    if isinstance(exc, OSError):
        return exc.strerror or str(exc)
    return str(exc)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} occurs twice in one object")
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
