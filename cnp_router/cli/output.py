"""What the commands print: tables that fit the terminal where they can, and JSON. Plain text."""

from __future__ import annotations

import json
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

__all__ = ["Column", "echo_json", "echo_pairs", "echo_table", "note", "one_line"]

_WIDEST = 110
_LEAST_TEXT = 24  # where there is less room than this, a text goes below its row
_LEAST_VALUE = 16
_GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    title : str
    right : bool, default=False
        Align to the right.
    text : bool, default=False
        Sentences, which may take several lines. Only the last column can be one.
    """

    title: str
    right: bool = False
    text: bool = False


def echo_json(document: Any) -> None:
    """Print one JSON document on standard output."""
    utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    click.echo(json.dumps(document, ensure_ascii=not utf8, indent=2, allow_nan=False))


def note(message: str) -> None:
    """Say something beside the result, on standard error."""
    click.echo(message, err=True)


def echo_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table that fits the terminal.

    Parameters
    ----------
    columns : sequence of Column
    rows : iterable of sequence of str
        As many cells as columns.
    """
    for line in table_lines(columns, rows, terminal_width()):
        click.echo(line)


def echo_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Print lines of a label and what belongs to it."""
    cells = [(label, one_line(value)) for label, value in pairs]
    width = terminal_width()
    indent = max((len(label) for label, _ in cells), default=0) + len(_GAP)
    for label, value in cells:
        if width - indent < _LEAST_VALUE:
            lines = [label, *("  " + line for line in wrapped(value, width - 2) if line)]
        else:
            first, *rest = wrapped(value, width - indent)
            lines = [f"{label:<{indent}}{first}", *(" " * indent + line for line in rest)]
        for line in lines:
            click.echo(line.rstrip())


def terminal_width() -> int:
    """Return the columns to use: 80 where there is no terminal and ``COLUMNS`` is not set."""
    return max(20, min(shutil.get_terminal_size((80, 24)).columns, _WIDEST))


def one_line(text: str) -> str:
    r"""Return a text as one line of printable characters.

    Examples
    --------
    >>> one_line("Maps\n\x1b[31m of  the world")
    'Maps [31m of the world'
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def display_width(text: str) -> int:
    """Return how many columns a text takes.

    Examples
    --------
    >>> display_width("maps"), display_width("地図")
    (4, 4)
    """
    return sum(_character_width(character) for character in text)


def clipped(text: str, width: int) -> str:
    """Return the text, cut to a width.

    Examples
    --------
    >>> clipped("openstreetmap", 8)
    'opens...'
    """
    if display_width(text) <= width:
        return text
    return _head(text, width - 3) + "..."


def wrapped(text: str, width: int) -> list[str]:
    """Break a text into lines; at spaces where it can be.

    Examples
    --------
    >>> wrapped("used by two mashups like this one", 14)
    ['used by two', 'mashups like', 'this one']
    """
    lines = [""]
    for word in text.split():
        rest = word
        if lines[-1] and display_width(lines[-1]) + 1 + display_width(rest) <= width:
            lines[-1] += f" {rest}"
            continue
        while display_width(rest) > width:
            head = _head(rest, width)
            lines.append(head)
            rest = rest[len(head) :]
        lines.append(rest)
    return [line for line in lines if line] or [""]


def table_lines(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int
) -> Iterator[str]:
    r"""Yield the lines of a table.

    Parameters
    ----------
    columns : sequence of Column
    rows : iterable of sequence of str
    width : int
        Columns of the terminal. The widest cell column is clipped, if it must be.

    Examples
    --------
    >>> columns = [Column("API"), Column("p", right=True), Column("why", text=True)]
    >>> rows = [["maps", "0.90", "used by many mashups like this one"]]
    >>> print("\n".join(table_lines(columns, rows, 36)))
    API      p  why
    maps  0.90  used by many mashups
                like this one
    >>> print("\n".join(table_lines(columns, rows, 24)))
    API      p
    maps  0.90
        used by many mashups
        like this one
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    fixed = [i for i, column in enumerate(columns) if not column.text]
    texts = [i for i, column in enumerate(columns) if column.text]
    sizes = {
        i: max(display_width(columns[i].title), *(display_width(row[i]) for row in cells), 0)
        for i in fixed
    }
    gaps = len(_GAP) * (len(fixed) - 1)
    widest = max(sizes, key=lambda i: sizes[i])
    left = width - gaps - sum(sizes.values()) + sizes[widest]
    sizes[widest] = min(sizes[widest], max(left, 8))
    indent = sum(sizes.values()) + gaps + len(_GAP)
    beside = width - indent >= _LEAST_TEXT
    room = width - indent if beside else width - 4
    titles = [columns[i].title for i in texts] if beside else []
    yield _GAP.join(
        [*(_padded(columns[i].title, sizes[i], columns[i].right) for i in fixed), *titles]
    ).rstrip()
    for row in cells:
        start = _GAP.join(_padded(row[i], sizes[i], columns[i].right) for i in fixed)
        lines = wrapped(row[texts[0]], room) if texts else [""]
        if beside:
            yield f"{start}{_GAP}{lines[0]}".rstrip()
            yield from (" " * indent + line for line in lines[1:])
        else:
            yield start.rstrip()
            yield from (" " * 4 + line for line in lines if line)


def _padded(text: str, size: int, right: bool) -> str:
    text = clipped(text, size)
    blank = " " * (size - display_width(text))
    return blank + text if right else text + blank


def _head(text: str, width: int) -> str:
    used = 0
    for position, character in enumerate(text):
        used += _character_width(character)
        # At least one character, or wrapping would never end.
        if used > width and position > 0:
            return text[:position]
    return text


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
