"""What the commands print: tables, sentences and JSON, in which no data steers the terminal."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Any

import click

from cnp_router.printing import is_harmless, printable

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod, RenderableType

    from cnp_router.prediction import NextToolRouter
    from cnp_router.routing import Recipient

_WIDEST = 110  # columns of prose: longer lines are hard to read; a table may be as wide as it can
_GAP = 2
_LEAST = 12  # columns of a text in a table
_UNBROKEN = 32  # columns up to which a column of names, without spaces, is not broken
_STYLES = {"Error": "bold red", "Warning": "yellow"}
_NOT_ASCII = re.compile(r"[^\n -~]")
_recorder: ContextVar[Console | None] = ContextVar("recorder", default=None)


def echo(*lines: str, style: str = "") -> None:
    """Print lines of text, or an empty one, broken to the width of the terminal."""
    from rich.text import Text

    _show(Text("\n".join(map(printable, lines)), style=style))


def echo_lines(text: str) -> None:
    """Print a text of others line by line as it is, however long the lines are."""
    click.echo("\n".join(map(printable, text.rstrip("\n").split("\n"))))


def echo_json(document: Any) -> None:
    """Print one JSON document on standard output; what steers a terminal is escaped in it."""
    click.echo(json_text(document, indent=2))


def json_text(document: Any, *, indent: int | None = None) -> str:
    """Return a JSON document as `echo_json` prints it."""
    utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    text = json.dumps(document, ensure_ascii=not utf8, indent=indent, allow_nan=False)
    return _NOT_ASCII.sub(lambda match: _json_character(match[0]), text)


def echo_table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = ()
) -> None:
    """Print a table; where the terminal is too narrow for it, a block of lines for each row.

    The columns whose titles are in `numbers` are aligned to the right, and never broken. Others are
    broken between words, and within a word only where it is very long.
    """
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(cell) for cell in row] for row in rows]
    heads = [title.replace(" ", "\n") if title in numbers else title for title in titles]
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    needed = 0
    for place, (title, head) in enumerate(zip(titles, heads, strict=True)):
        right = title in numbers
        widest = max(map(cell_len, [*head.split("\n"), *(row[place] for row in cells)]))
        names = widest <= _UNBROKEN and not any(" " in row[place] for row in cells)
        needed += _GAP + (widest if right or names else min(widest, _LEAST))
        above = "\n" * (max(h.count("\n") for h in heads) - head.count("\n"))
        justify: JustifyMethod = "right" if right else "left"
        table.add_column(
            Text(above + head), justify=justify, no_wrap=right or names, overflow="fold"
        )
    for row in cells:
        table.add_row(*map(Text, row))
    if needed - _GAP <= table_width():
        _show(table, table_width())
        return
    for place, row in enumerate(cells):
        if place:
            echo()
        echo_pairs(pair for pair in zip(titles, row, strict=True) if any(pair))


def echo_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Print lines of a label and what belongs to it."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, _GAP, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in pairs:
        table.add_row(Text(printable(label)), Text(printable(value)))
    _show(table)


def echo_columns(rows: Iterable[Sequence[str]], *, right: Collection[int] = ()) -> None:
    """Print rows without a heading; the columns whose places are in `right` are aligned so."""
    from rich.table import Table
    from rich.text import Text

    cells = [list(map(printable, row)) for row in rows]
    table = Table.grid(padding=(0, _GAP, 0, 0))
    for place in range(len(cells[0])):
        table.add_column(justify="right" if place in right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    _show(table)


def note(message: str, label: str = "") -> None:
    """Say something beside the result, in one line on standard error, after a coloured label."""
    from rich.text import Text

    start = (f"{label}: " if label else "", _STYLES.get(label, ""))
    console(sys.stderr).print(Text.assemble(start, printable(message)), soft_wrap=True)


def echo_error(error: Exception) -> None:
    """Say on standard error what went wrong, and after wrong usage what the usage is."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        click.echo(error, err=True)
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"Try '{error.ctx.command_path} {error.ctx.help_option_names[-1]}' for help."
        click.echo(f"{error.ctx.get_usage()}\n{hint}\n", err=True)
    message = error.format_message() if isinstance(error, click.ClickException) else str(error)
    note(message, "Error")


def table_width() -> int:
    """Return how many columns a table may have: all of the terminal's."""
    recorder = _recorder.get()
    return _terminal_width() if recorder is None else recorder.width


@contextmanager
def recording(width: int) -> Iterator[Console]:
    """Record what is printed meanwhile, so many columns wide, and print none of it."""
    from rich.console import Console

    recorder = Console(
        file=io.StringIO(),
        record=True,
        width=width,
        force_terminal=True,
        color_system="truecolor",
        markup=False,
        emoji=False,
        highlight=False,
    )
    before = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(before)


def console(stream: IO[str], widest: int = _WIDEST) -> Console:
    """Return a console as wide as the terminal, or 80 columns, with colours only at a terminal."""
    from rich.console import Console

    width = min(_terminal_width(), widest)
    terminal = stream.isatty()
    colours = terminal and not os.environ.get("NO_COLOR")
    return Console(
        file=stream,
        width=width,
        force_terminal=terminal,
        color_system="auto" if colours else None,
        markup=False,
        emoji=False,
        highlight=False,
    )


def counted(n: int, noun: str) -> str:
    """Return a number and what it counts: ``1 step``, ``2,000 steps``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def cold_start(router: NextToolRouter) -> str:
    """Return how many runs have been observed, of those needed before a prediction counts."""
    of = counted(router.policy.ask_first, "run")
    return f"{router.n_trajectories:,} of the {of} needed before it acts"


def number(value: float | None) -> str:
    """Return a figure for a table: counts whole, shares with three digits, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"


def reasons(recipient: Recipient) -> str:
    """Return the strongest reasons for a recipient."""
    return "; ".join(reason.text for reason in recipient.reasons[:2])


def _terminal_width() -> int:
    return max(20, shutil.get_terminal_size((80, 24)).columns)


def _show(renderable: RenderableType, widest: int = _WIDEST) -> None:
    if (recorder := _recorder.get()) is not None:
        recorder.print(renderable)
        return
    out = console(sys.stdout, widest)
    with out.capture() as captured:
        out.print(renderable)
    # Not by the console itself: it takes a closed pipe for an end of its own.
    click.echo(re.sub(r" +$", "", captured.get(), flags=re.MULTILINE), nl=False)


def _json_character(character: str) -> str:
    return character if is_harmless(character) else json.dumps(character)[1:-1]
