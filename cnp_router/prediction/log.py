r"""The records of an append-only log: one line each, numbered, with a checksum.

``<CRC-32 in hexadecimal> <JSON>\n``, the JSON being ``{"sequence", "kind", "record"}`` and the
checksum that of its bytes.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from cnp_router.exceptions import DataFileError, InputError, ModelCorruptError
from cnp_router.history import Mashup, parse_mashup
from cnp_router.records import Record
from cnp_router.trajectories import Trajectory, parse_trajectory

__all__ = ["Entry", "Segment", "entry_line", "parse_line", "read_segment"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of the log.

    Parameters
    ----------
    sequence : int >= 1
        Rises by 1 from record to record.
    record : Trajectory or Mashup
    """

    sequence: int
    record: Trajectory | Mashup


@dataclass(frozen=True, slots=True)
class Segment:
    """What a file of the log holds.

    Parameters
    ----------
    entries : tuple of Entry
    whole : int
        Bytes up to the end of the last whole record.
    torn : int
        Bytes after it: of a record that was not finished, and so never acknowledged.
    """

    entries: tuple[Entry, ...]
    whole: int
    torn: int


def entry_line(sequence: int, record: Trajectory | Mashup) -> bytes:
    """Return the line of a record.

    Raises
    ------
    InputError
        If it is no trajectory or mashup, or cannot be written as JSON in UTF-8.
    """
    kind = _kind(record)
    try:
        text = json.dumps(
            {"sequence": sequence, "kind": kind, "record": record.to_dict()},
            ensure_ascii=False,
            allow_nan=False,
        )
        data = text.encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise InputError(
            f"{kind} {record.id!r} cannot be written as JSON: {exc} "
            "(use strings, finite numbers, true, false, null, lists and objects)"
        ) from exc
    return f"{zlib.crc32(data):08x} ".encode() + data + b"\n"


def parse_line(line: bytes, path: Path, number: int) -> Entry:
    """Return the record of a line, which is without its line end.

    Raises
    ------
    ModelCorruptError
        If it is not as it was written.
    """
    checksum, _, data = line.partition(b" ")
    if checksum != f"{zlib.crc32(data):08x}".encode():
        raise _corrupt(path, number, "its checksum differs")
    try:
        fields = json.loads(data)
        return Entry(_sequence(fields["sequence"]), _record(fields, path, number))
    except DataFileError as exc:
        raise _corrupt(path, number, exc.problem) from exc
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as exc:
        raise _corrupt(path, number, f"no record: {exc!r}") from exc


def read_segment(path: Path) -> Segment:
    """Read a file of the log.

    Raises
    ------
    ModelCorruptError
        If a line is not as it was written. A last line without an end is no error, but `torn`.
    OSError
        If it cannot be read.
    """
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].split(b"\n")[:-1]
    entries = tuple(parse_line(line, path, number) for number, line in enumerate(lines, 1))
    for number, (one, next_) in enumerate(pairwise(entries), 2):
        if next_.sequence != one.sequence + 1:
            problem = f"record {next_.sequence} follows record {one.sequence}"
            raise _corrupt(path, number, problem)
    return Segment(entries, whole, len(data) - whole)


def _kind(record: Trajectory | Mashup) -> str:
    if isinstance(record, Trajectory):
        return "trajectory"
    if isinstance(record, Mashup):
        return "mashup"
    raise InputError(f"a Trajectory or a Mashup was expected, got {record!r}")


def _record(fields: dict[str, Any], path: Path, number: int) -> Trajectory | Mashup:
    kind, record = fields["kind"], fields["record"]
    if kind == "trajectory":
        return parse_trajectory(record, path, number)
    if kind == "mashup":
        return parse_mashup(Record(record, path, number))
    raise ValueError(f"kind must be 'trajectory' or 'mashup', got {kind!r}")


def _sequence(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"sequence must be a whole number of at least 1, got {value!r}")
    return value


def _corrupt(path: Path, number: int, problem: str) -> ModelCorruptError:
    return ModelCorruptError(
        f"{path}, line {number}: altered: {problem} (restore it from a backup, or remove the "
        "folder and observe again)"
    )
