"""Reading what a store has left on disk: the latest sound checkpoint, and the records after it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from cnp_router.exceptions import ModelCorruptError
from cnp_router.prediction.checkpoints import Checkpoint, read_checkpoint
from cnp_router.prediction.log import Entry, read_segment

__all__ = ["CHECKPOINT", "LOG", "Found", "number_of", "numbered", "read_folder", "read_patiently"]

CHECKPOINT, LOG = "checkpoint-", "log-"
_ATTEMPTS = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """What is in the folder.

    Parameters
    ----------
    checkpoint : Checkpoint or None
    entries : tuple of Entry
        The records after it.
    segments : tuple of Path
        All files of the log, the oldest first.
    whole, torn : int
        Bytes of the last one up to the end of its last whole record, and after it.
    """

    checkpoint: Checkpoint | None
    entries: tuple[Entry, ...]
    segments: tuple[Path, ...]
    whole: int
    torn: int


def read_patiently(folder: Path) -> Found:
    """Read a folder that somebody may be writing to, who removes what he needs no longer.

    Raises
    ------
    ModelCorruptError
        As `read_folder`, each time it was tried.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return read_folder(folder)
        except (FileNotFoundError, ModelCorruptError):
            continue
    return read_folder(folder)


def read_folder(folder: Path) -> Found:
    """Read the latest sound checkpoint, and the records after it.

    Raises
    ------
    ModelCorruptError
        If a record is altered or missing.
    """
    checkpoint = _latest_checkpoint(folder)
    done = checkpoint.sequence if checkpoint else 0
    entries: list[Entry] = []
    segments, whole, torn = numbered(folder, LOG), 0, 0
    for path in segments:
        if torn:
            raise _gap(path, done + 1)
        segment = read_segment(path)
        whole, torn = segment.whole, segment.torn
        for entry in segment.entries:
            if entry.sequence > done + 1:
                raise _gap(path, done + 1)
            if entry.sequence == done + 1:  # else the checkpoint has it
                entries.append(entry)
                done += 1
    folders = numbered(folder, CHECKPOINT)
    if folders and done < number_of(folders[-1]):
        raise _gap(folders[-1], done + 1)
    return Found(checkpoint, tuple(entries), tuple(segments), whole, torn)


def numbered(folder: Path, start: str) -> list[Path]:
    """Return the entries of a folder that are called `start` and a number, in its order."""
    found = folder.glob(f"{start}*")
    return sorted((p for p in found if p.stem.removeprefix(start).isdecimal()), key=number_of)


def number_of(path: Path) -> int:
    """Return the number in a name: of the last record in a checkpoint, or the first in a log."""
    return int(path.stem.rpartition("-")[2])


def _latest_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the latest checkpoint that is sound, None if there is none.

    One that is not sound is made up for by the log, as long as that reaches back so far.
    """
    error: ModelCorruptError | None = None
    for place in reversed(numbered(folder, CHECKPOINT)):
        try:
            return read_checkpoint(place)
        except ModelCorruptError as exc:
            _log.warning("%s", exc)
            error = error or exc
    if error is not None and not any(number_of(path) == 1 for path in numbered(folder, LOG)):
        raise error
    return None


def _gap(path: Path, sequence: int) -> ModelCorruptError:
    return ModelCorruptError(
        f"{path}: record {sequence}, which should come before, is missing (restore it from a "
        "backup, or remove the folder and observe again)"
    )
