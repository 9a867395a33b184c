"""Several evaluations side by side, as plain text or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cnp_router.evaluation.evaluate import Evaluation
from cnp_router.exceptions import InputError

__all__ = ["FIGURES", "comparison_rows", "markdown_table", "text_table"]

FIGURES: Mapping[str, Callable[[Evaluation], float | None]] = {
    "R@5": lambda e: e.ranking["recall@5"],
    "R@20": lambda e: e.ranking["recall@20"],
    "nDCG@10": lambda e: e.ranking["ndcg@10"],
    "F1": lambda e: e.recommendation["f1"],
    "ECE": lambda e: e.calibration["ece"],
    "recall": lambda e: e.recipients["recall"],
    "recipients": lambda e: e.recipients["mean"],
    "fallback": lambda e: e.fallback_rate,
    "ms": lambda e: e.latency_ms["p50"],
}
"""Column to figure. ``recall`` and ``recipients`` are those of the announcement."""


def comparison_rows(
    evaluations: Mapping[str, Evaluation],
    figures: Mapping[str, Callable[[Evaluation], float | None]] = FIGURES,
) -> list[list[str]]:
    """Return a table of routers and figures: the head, then a row for each router.

    Parameters
    ----------
    evaluations : mapping of str to Evaluation
        Router name to evaluation, in the order of the rows; at least one.
    figures : mapping of str to callable, default=FIGURES
        Column name to the figure of an evaluation; None is shown as ``-``.

    Returns
    -------
    list of list of str

    Raises
    ------
    InputError
        If there is no evaluation.
    """
    if not evaluations:
        raise InputError("there is no evaluation to show (give at least one)")
    return [
        ["router", *figures],
        *([name, *(_shown(of(e)) for of in figures.values())] for name, e in evaluations.items()),
    ]


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as aligned text, the first column to the left, the others to the right.

    Parameters
    ----------
    rows : sequence of sequence of str
        The head first.

    Returns
    -------
    str
        Without a line end at its end.

    Examples
    --------
    >>> print(text_table([["router", "F1"], ["learned", ".683"], ["random", ".002"]]))
    router     F1
    -------  ----
    learned  .683
    random   .002
    """
    widths = _widths(rows)
    lines = [_aligned(row, widths, "  ") for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table, aligned as in `text_table`.

    Parameters
    ----------
    rows : sequence of sequence of str
        The head first. A ``|`` in a cell is escaped.

    Returns
    -------
    str
        Without a line end at its end.

    Examples
    --------
    >>> print(markdown_table([["router", "F1"], ["learned", ".683"]]))
    | router  |   F1 |
    | :------ | ---: |
    | learned | .683 |
    """
    cells = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    widths = [max(width, 3) for width in _widths(cells)]
    lines = [f"| {_aligned(row, widths, ' | ', strip=False)} |" for row in cells]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([lines[0], f"| {' | '.join(rule)} |", *lines[1:]])


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    # Shares as in the literature, ".683"; counts and milliseconds with one digit.
    if 0 <= value < 0.9995:
        return f"{value:.3f}"[1:]
    return f"{value:.3f}" if value <= 1 else f"{value:.1f}"


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]


def _aligned(row: Sequence[str], widths: Sequence[int], gap: str, *, strip: bool = True) -> str:
    first, *others = zip(row, widths, strict=True)
    cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    line = gap.join(cells)
    return line.rstrip() if strip else line
