"""`Table`: figures as Markdown or HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import TypeVar

from cnp_router.catalog import html_table
from cnp_router.printing import printable

__all__ = ["Table", "count", "share"]

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    r"""Figures in columns. Cells and notes are shown as one line of printable characters each.

    Parameters
    ----------
    title : str
        May be empty.
    columns : tuple of str
    rows : tuple of tuple of str
        As many cells as columns.
    labels : int, default=1
        How many columns say what a row is about: they are aligned to the left, the others to the
        right.
    notes : tuple of str, default=()
        What one has to know of some rows, a sentence each.

    Examples
    --------
    >>> table = Table.of("", {"router": str, "F1": lambda name: share(len(name) / 9)}, ["kNN"])
    >>> print(table.markdown())
    | router |   F1 |
    | :----- | ---: |
    | kNN    | .333 |
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        title: str,
        columns: Mapping[str, Callable[[Item], str]],
        items: Iterable[Item],
        *,
        labels: int = 1,
        notes: Iterable[str] = (),
    ) -> Table:
        """Return a table with a row for each item; a column is its heading and what it shows."""
        rows = tuple(tuple(shown(item) for shown in columns.values()) for item in items)
        return cls(title, tuple(columns), rows, labels, tuple(notes))

    def __repr__(self) -> str:
        return f"Table({self.title!r}, {len(self.rows)} rows of {len(self.columns)} columns)"

    def markdown(self) -> str:
        """Return the table in Markdown, its title above and its notes below."""
        cells = [[cell.replace("|", r"\|") for cell in row] for row in self._cells()]
        widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
        rule = [
            f":{'-' * (width - 1)}" if place < self.labels else f"{'-' * (width - 1)}:"
            for place, width in enumerate(widths)
        ]
        lines = []
        for row in (cells[0], rule, *cells[1:]):
            aligned = [
                cell.ljust(width) if place < self.labels else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append(f"| {' | '.join(aligned)} |")
        title = [f"**{printable(self.title)}**"] if self.title else []
        return "\n\n".join([*title, "\n".join(lines), *map(printable, self.notes)])

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        page = html_table(printable(self.title), head, rows, len(rows))
        notes = [f"<p>{escape(printable(note))}</p>" for note in self.notes]
        return "\n".join([page, *notes])

    def _cells(self) -> list[list[str]]:
        return [[printable(cell) for cell in row] for row in (self.columns, *self.rows)]


def share(value: float | None) -> str:
    """Return a share as the literature has it; nothing measured is a dash.

    Examples
    --------
    >>> share(0.6834), share(1.0), share(None)
    ('.683', '1.000', '-')
    """
    return "-" if value is None else f"{value:.3f}".removeprefix("0")


def count(value: float | None, digits: int = 0) -> str:
    """Return a number with so many digits; nothing measured is a dash.

    Examples
    --------
    >>> count(1345), count(2.75, 1), count(None)
    ('1,345', '2.8', '-')
    """
    return "-" if value is None else f"{value:,.{digits}f}"
