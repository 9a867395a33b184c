"""`write_report`: a comparison as a folder of JSON, Markdown and pictures."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from cnp_router.evaluation.comparison import Comparison
from cnp_router.evaluation.comparison_plots import check_plots, draw_stages, draw_traffic
from cnp_router.evaluation.comparison_tables import markdown
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.files import atomic_write, read_json

__all__ = ["REPORT_FILES", "check_report", "write_report"]

REPORT_FILES = ("comparison.json", "comparison.md", "traffic-recall.png", "stages.png")


def check_report(folder: str | Path) -> None:
    """Raise unless a report can be written there: better before a long run than after.

    Parameters
    ----------
    folder : str or Path
        It may exist and hold other files, or an earlier report, which is to be replaced.

    Raises
    ------
    DataFileError
        If it is a file, holds files of the names of a report that are none, or cannot be written.
    MissingExtraError
        If matplotlib is not installed.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise DataFileError(folder, "is a file", cure="name a folder")
    _check_writable(folder)
    there = [name for name in REPORT_FILES if (folder / name).exists()]
    if there and not _is_report(folder / REPORT_FILES[0]):
        raise DataFileError(
            folder / there[0],
            "is there already, and is no part of a report of a comparison",
            cure="name another folder",
        )
    check_plots()


def write_report(comparison: Comparison, folder: str | Path) -> None:
    """Write ``comparison.json``, ``comparison.md``, ``traffic-recall.png`` and ``stages.png``.

    Parameters
    ----------
    comparison : Comparison
    folder : str or Path
        Made if it does not exist. Other files in it stay.

    Raises
    ------
    DataFileError, MissingExtraError
        As `check_report`, or if the folder cannot be written.
    """
    check_report(folder)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise DataFileError(folder, f"cannot be made: {exc.strerror or exc}") from exc
    document, text, traffic, stages = (folder / name for name in REPORT_FILES)
    with atomic_write(document) as out:
        out.write(json.dumps(comparison.to_dict(), ensure_ascii=False, indent=2) + "\n")
    with atomic_write(text) as out:
        out.write(markdown(comparison))
    draw_traffic(comparison, traffic)
    draw_stages(comparison, stages)


def _check_writable(folder: Path) -> None:
    """Raise unless the folder can be made and written; nothing is left of the attempt."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except NotADirectoryError as exc:
        raise DataFileError(there, "is a file", cure="name another folder") from exc
    except OSError as exc:
        raise DataFileError(
            folder, f"cannot be written: {exc.strerror or exc}", cure="name another folder"
        ) from exc


def _is_report(path: Path) -> bool:
    try:
        document = read_json(path)
    except InputError:
        return False
    return isinstance(document, dict) and {"requests", "rows", "tokens_are"} <= set(document)
