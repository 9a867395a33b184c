"""Reading and writing files so that errors are clear and nothing is left half-written."""

from __future__ import annotations

import errno
import gzip
import itertools
import json
import os
import re
import secrets
import stat
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from cnp_router.exceptions import DataFileError, EmptyFileError, InputError, shown

__all__ = [
    "JSON_VALUES",
    "WRITING",
    "alone",
    "as_path",
    "atomic_write",
    "check_not_csv",
    "check_writable",
    "is_same_file",
    "json_line",
    "lock",
    "object_of",
    "objects_of",
    "place_of",
    "read_json",
    "read_jsonl",
    "read_text",
    "reason",
    "text_of",
    "trouble",
    "value_of",
    "write_jsonl",
    "writing",
]

_READING: dict[type[BaseException], tuple[str, str]] = {
    FileNotFoundError: ("no such file", "check the path"),
    IsADirectoryError: ("is a directory", "name a file inside it"),
    PermissionError: ("no permission to read it", "check its mode"),
}
WRITING: dict[type[BaseException], tuple[str, str]] = {
    IsADirectoryError: ("is a directory", "name a file"),
    FileNotFoundError: ("its folder does not exist", "create it first"),
    NotADirectoryError: ("its folder does not exist", "create it first"),
}
JSON_VALUES = "use strings, finite numbers, true, false, null, lists and objects"
_GZIP = b"\x1f\x8b"  # how all that gzip packs begins
_A_LINE = "write one JSON object a line"
_CSV = (".csv", ".tsv")
_HEADER = re.compile(r"\s*\"?[\w-]+\"?(?:([,;\t])\"?[\w-]+\"?)(?:\1\"?[\w-]+\"?)*\s*")
_DEVICE_TROUBLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def read_text(path: str | Path) -> str:
    """Return a whole UTF-8 file that is not empty, or raise DataFileError."""
    file = as_path(path)
    try:
        data = file.read_bytes()
    except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
        raise trouble(path, exc, "cannot be read", _READING) from exc
    return text_of(data, path)


def text_of(data: bytes, path: str | Path) -> str:
    """Return the text of some bytes in UTF-8, which say something; errors name their origin."""
    text = _text_of(data, path)
    if not text.strip():
        raise DataFileError(path, "the file is empty", cure="give at least one record")
    return text


def value_of(data: bytes, origin: str) -> Any:
    """Return the one JSON document of some bytes; errors name their origin in place of a file."""
    return _decode(_text_of(data, origin), origin, None, "give one valid JSON document")


def read_json(path: str | Path) -> Any:
    """Return the one JSON document of a file.

    NaN, infinities, lone surrogates and repeated keys are not JSON here.
    """
    return _decode(read_text(path), path, None, "give one valid JSON document")


def read_jsonl(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield ``(line number, object)`` for each line of JSON Lines that is not blank.

    One line at a time is held. A file whose name ends in ``.gz`` is unpacked on the way.
    """
    lines = ((n, text) for n, text in _lines(path) if text.strip())
    first = next(lines, None)
    if first is None:
        raise EmptyFileError(path)
    start = [first]
    if not first[1].lstrip().startswith("{"):  # it may be CSV, which the next line tells
        start.extend(itertools.islice(lines, 1))
        check_not_csv("\n".join(text for _, text in start), path)
    for number, text in itertools.chain(start, lines):
        yield number, object_of(text, path, number)


def objects_of(text: str, path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield ``(line number, object)`` as `read_jsonl` does, of a text that was read already."""
    check_not_csv(text, path)
    # Split on "\n" alone: str.splitlines would also break inside JSON strings (U+2028).
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, object_of(line, path, number)


def object_of(line: str, path: str | Path, number: int) -> dict[str, Any]:
    """Return the JSON object of one line; errors name file and line."""
    record = _decode(line, path, number, _A_LINE)
    if not isinstance(record, dict):
        problem = f"expected a JSON object, got {type(record).__name__}"
        raise DataFileError(path, problem, line=number, cure=_A_LINE)
    return record


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line of a file that may be packed by gzip."""
    file = as_path(path)
    try:
        with gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                text = line.removesuffix(b"\n")
                try:
                    yield number, text.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as exc:
                    raise _not_text(path, line, exc, number) from exc
    except (gzip.BadGzipFile, zlib.error, EOFError) as exc:
        problem = f"cannot be unpacked as gzip: {exc}"
        raise DataFileError(path, problem, cure="pack it again, or drop the .gz") from exc
    except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
        if isinstance(exc, DataFileError):  # of the line, or of whoever reads on
            raise
        raise trouble(path, exc, "cannot be read", _READING) from exc


def check_not_csv(text: str, path: str | Path) -> None:
    """Raise DataFileError where a text that is to be something else looks like a spreadsheet.

    Its file is called so, or its first line names columns and the next has as many values.
    """
    first, _, rest = text.lstrip("\ufeff\n\r ").partition("\n")
    if first.startswith("{"):
        return
    names = _HEADER.fullmatch(first)
    many = names and rest.partition("\n")[0].count(names[1]) >= first.count(names[1])
    if many or Path(path).suffix.lower() in _CSV:
        cure = "make it JSON Lines: docs/data.md, From a spreadsheet, says how"
        raise DataFileError(path, "this looks like CSV", cure=cure)


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    r"""Open a temporary file beside `path`, and rename it into place on success.

    Otherwise what stood there before is left as it was. A symbolic link is followed, and the mode
    of a file that stood there is kept. A device or pipe (``/dev/null``) is written directly. Text
    (mode ``"w"``) is UTF-8 with ``\n`` line ends.
    """
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    target = as_path(path)
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
    except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
        raise trouble(path, exc, "cannot be written", WRITING) from exc
    try:
        with os.fdopen(handle, mode, **text) as out:
            yield out
            out.flush()
            if temporary is not None:
                os.fsync(out.fileno())
        if temporary is not None:
            try:
                if target.exists():
                    temporary.chmod(stat.S_IMODE(target.stat().st_mode))
                temporary.replace(target)
            except OSError as exc:
                raise trouble(path, exc, "cannot be written") from exc
    except OSError as exc:
        # Only what the device says of this file: the caller's block may raise its own errors.
        if exc.errno in _DEVICE_TROUBLE and exc.filename is None:
            raise trouble(path, exc, "cannot be written") from exc
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Say of what the system refuses inside, while files are made there: a DataFileError."""
    try:
        yield
    except OSError as exc:
        raise trouble(path, exc, "cannot be written", WRITING) from exc


def lock(file: IO[Any]) -> None:
    """Lock an open file for one writer, without waiting; OSError if another holds it.

    The system lets go of it when the file is closed or the process ends, however it ends.
    """
    if sys.platform == "win32":
        import msvcrt

        # Beyond any content: a byte that is locked there cannot be read by others.
        file.seek(2**40)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def alone(path: str | Path, *, wait: float = 10.0) -> Iterator[None]:
    """Let one process at a time read a file and write it anew; others wait so many seconds.

    It holds the lock of an empty file beside it, which is gone afterwards.

    Raises
    ------
    DataFileError
        If nothing can be written there, or others write for longer than that.
    """
    target = Path(os.path.realpath(as_path(path)))
    beside = target.with_name(f".{target.name}.writing")
    until = time.monotonic() + wait
    while (file := _held(beside, path)) is None:
        if time.monotonic() > until:
            problem = f"others have been writing it for {wait:g} s"
            raise DataFileError(path, problem, cure="try again later")
        time.sleep(0.005)
    try:
        yield
    finally:
        if sys.platform == "win32":  # where a file that is open cannot be deleted
            file.close()
        with suppress(PermissionError):  # who opened it meanwhile deletes it
            beside.unlink(missing_ok=True)
        file.close()


def _held(beside: Path, path: str | Path) -> IO[Any] | None:
    """Return an open file whose lock was free, or None."""
    try:
        file = beside.open("ab")
    except OSError as exc:
        raise trouble(path, exc, "cannot be written", WRITING) from exc
    try:
        lock(file)
        # Who held it before may have deleted it since it was opened here.
        if os.path.samestat(beside.stat(), os.fstat(file.fileno())):
            return file
    except (BlockingIOError, PermissionError, FileNotFoundError):
        pass
    except OSError as exc:  # as on a file system that has no locks
        file.close()
        raise trouble(path, exc, "cannot be locked") from exc
    file.close()
    return None


class _EnoughSeenError(Exception):
    pass


def is_same_file(one: str | Path, other: str | Path) -> bool:
    """Return whether two paths lead to one file, which need not be there."""
    try:
        return Path(one).samefile(other)
    except OSError:  # one is not there
        return Path(one).resolve() == Path(other).resolve()


def place_of(path: Path) -> tuple[int, int] | None:
    """Return what tells a file or folder from another at its path; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def check_writable(path: str | Path) -> None:
    """Raise DataFileError where a file could not be written now; nothing is left behind.

    For what is to be written at the end of something that costs time or money.
    """
    with suppress(_EnoughSeenError), atomic_write(path):
        raise _EnoughSeenError


def write_jsonl(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write records as JSON Lines, atomically; an error says which line it would have been."""
    with atomic_write(path, "wb") as out:
        for number, record in enumerate(records, start=1):
            out.write(json_line(record, path, number))


def json_line(record: Mapping[str, Any], path: str | Path, number: int) -> bytes:
    """Return a record as a line of JSON Lines; an error says which line it would have been."""
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as exc:
        problem = "cannot be written as JSON"
        raise _not_json(exc, path, number, problem, JSON_VALUES) from exc


def as_path(path: str | Path) -> Path:
    """Return a path; InputError if it is none."""
    try:
        return Path(path)
    except TypeError as exc:
        raise InputError(f"a path must be a string or a Path, got {shown(path)}") from exc


def _text_of(data: bytes, path: str | Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise _not_text(path, data, exc, line) from exc


def _not_text(path: str | Path, data: bytes, exc: UnicodeDecodeError, line: int) -> DataFileError:
    if line == 1 and data.startswith(_GZIP):
        cure = "unpack it, or end its name in .gz if it is JSON Lines"
        return DataFileError(path, "it is packed by gzip", cure=cure)
    problem = f"not UTF-8 (byte {data[exc.start]:#04x})"
    return DataFileError(path, problem, line=line, cure="save it as UTF-8")


def trouble(
    path: str | Path,
    exc: BaseException,
    otherwise: str,
    usual: Mapping[type[BaseException], tuple[str, str]] | None = None,
) -> DataFileError:
    """Return the error of a file: a usual one with its cure, or what the system says."""
    is_full = getattr(exc, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
    told = f"{otherwise}: {reason(exc)}", "make room" if is_full else None
    problem, cure = (usual or {}).get(type(exc), told)
    return DataFileError(path, problem, cure=cure)


def _decode(text: str, path: str | Path, line: int | None, cure: str) -> Any:
    try:
        value = _DECODER.decode(text)
        # Only an escape can smuggle a surrogate in: the bytes around it were checked as UTF-8.
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as exc:
        problem = exc.msg.removesuffix(" at").removesuffix(" starting")
        problem = f"not JSON at column {exc.colno}: {problem}"
        raise DataFileError(path, problem, line=line or exc.lineno, cure=cure) from exc
    except (ValueError, RecursionError) as exc:
        raise _not_json(exc, path, line, "not JSON", cure) from exc
    return value


def _not_json(
    exc: BaseException, path: str | Path, line: int | None, problem: str, cure: str
) -> DataFileError:
    if isinstance(exc, UnicodeEncodeError):
        problem = f"half of a surrogate pair, {exc.object[exc.start]!a}, is not a character"
        return DataFileError(path, problem, line=line, cure="replace it; UTF-8 cannot hold it")
    return DataFileError(path, f"{problem}: {reason(exc)}", line=line, cure=cure)


def reason(exc: BaseException) -> str:
    """Return what an exception says, without its path."""
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
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"key {twice!r} occurs twice in one object")
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
