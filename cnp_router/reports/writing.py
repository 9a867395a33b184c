"""`write_html`: a result as one HTML file; the pages of all kinds of result are in `PAGES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cnp_router.evaluation import Comparison, Evaluation, PrequentialEvaluation
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.execution import Execution, Plan
from cnp_router.files import as_path, atomic_write, check_writable
from cnp_router.planning import Run
from cnp_router.protocols import Outcome, Transcript
from cnp_router.reports.comparison_page import comparison_page
from cnp_router.reports.drawing import check_drawing
from cnp_router.reports.evaluation_page import evaluation_page
from cnp_router.reports.execution_page import execution_page, plan_page, run_page
from cnp_router.reports.page import Page, check_template, rendered
from cnp_router.reports.prequential_page import prequential_page
from cnp_router.reports.round_page import outcome_page, transcript_page

__all__ = ["PAGES", "check_html", "write_html"]

PAGES: Mapping[type, Callable[..., Page]] = {
    Evaluation: evaluation_page,
    Comparison: comparison_page,
    PrequentialEvaluation: prequential_page,
    Execution: execution_page,
    Run: run_page,
    Plan: plan_page,
    Outcome: outcome_page,
    Transcript: transcript_page,
}
"""Kind of result to the function that makes its page, of the result and a context by name."""

_BEGINNING = b"<!doctype html>"


def check_html(path: str | Path) -> None:
    """Raise unless a report page can be written there: better before a long run than after.

    It is a DataFileError if the place cannot be written or holds a file that is not such a page,
    and a MissingExtraError if matplotlib or jinja2 is not installed.
    """
    check_drawing()
    check_template()
    check_writable(path)
    file = as_path(path)
    if file.is_file() and file.stat().st_size and not _is_page(file):
        raise DataFileError(
            path, "is there already, and is not a report page", cure="name another file"
        )


def _is_page(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_BEGINNING)) == _BEGINNING


def write_html(result: object, path: str | Path, **context: Any) -> None:
    """Write a result as one HTML page that needs nothing else: no network, no script.

    It can be read on a phone, in the dark, on paper and by a screen reader.

    Parameters
    ----------
    result : object
        An `Evaluation`, `Comparison`, `PrequentialEvaluation`, `Execution`, `Run`, `Plan`,
        `Outcome` or `Transcript`.
    path : str or Path
        Written at once or not at all.
    **context
        What else the page can show: for an `Evaluation`, `curve` (a `LearningCurve`), and
        `model` and `histories`, the names of the folder and the files that it is of; for an
        `Execution` or `Run`, `catalog`, which says what may have changed something; for all but an
        `Evaluation` and a `Comparison`, `facts` (pairs of label and text).

    Raises
    ------
    InputError
        If there is no page of such a result.
    DataFileError
        If the file cannot be written.
    MissingExtraError
        If matplotlib or jinja2 is not installed (``pip install 'cnp-router[report]'``).

    Examples
    --------
    >>> import tempfile
    >>> from cnp_router import PopularityRouter, evaluate, load_sample
    >>> sample = load_sample()
    >>> router = PopularityRouter(sample.catalog, sample.history[:200])
    >>> evaluation = evaluate(router, sample.history[200:])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_html(evaluation, f"{folder}/report.html")
    ...     page = Path(folder, "report.html").read_text()
    >>> page.splitlines()[0], "<script" in page
    ('<!doctype html>', False)
    """
    make = PAGES.get(type(result))
    if make is None:
        kinds = ", ".join(kind.__name__ for kind in PAGES)
        raise InputError(f"there is no page of a {type(result).__name__} (give one of {kinds})")
    check_html(path)
    html = rendered(make(result, **context))
    with atomic_write(path) as out:
        out.write(html)
