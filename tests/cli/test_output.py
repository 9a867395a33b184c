"""Tables, texts and progress."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.cli import progress as progress_module
from cnp_router.cli.output import (
    Column,
    clipped,
    display_width,
    one_line,
    table_lines,
    terminal_width,
    wrapped,
)
from cnp_router.cli.progress import Progress

COLUMNS = [Column(""), Column("API"), Column("prob.", right=True), Column("why", text=True)]
ROWS = [
    ["*", "google-maps", "0.91", "named in the request, and used in 12 mashups like this one"],
    ["", "国土地理院-地図-東京都新宿区", "0.10", "地図 と 天気"],
    ["", "x" * 60, "0.05", ""],
]


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 110])
def test_a_table_is_never_wider_than_the_terminal(width):
    lines = list(table_lines(COLUMNS, ROWS, width))
    assert max(map(display_width, lines)) <= width
    assert all(line == line.rstrip() for line in lines)
    text = " ".join(" ".join(lines).split())
    assert "12 mashups" in text


def test_the_reasons_come_beside_where_there_is_room():
    lines = list(table_lines(COLUMNS, ROWS[:1], 80))
    assert lines[0] == "   API          prob.  why"
    assert (
        lines[1] == "*  google-maps   0.91  named in the request, and used in 12 mashups like this"
    )
    assert lines[2] == " " * 23 + "one"


def test_and_below_where_there_is_not():
    assert list(table_lines(COLUMNS, ROWS[:1], 40)) == [
        "   API          prob.",
        "*  google-maps   0.91",
        "    named in the request, and used in 12",
        "    mashups like this one",
    ]


def test_a_table_without_rows():
    assert list(table_lines([Column("API"), Column("n", right=True)], [], 80)) == ["API  n"]


@given(st.text(max_size=80), st.integers(5, 30))
def test_a_wrapped_text_fits_and_keeps_every_character(text, width):
    line = one_line(text)
    lines = wrapped(line, width)
    assert all(display_width(part) <= width for part in lines)
    assert "".join("".join(lines).split()) == "".join(line.split())
    assert display_width(clipped(line, width)) <= width


def test_nothing_in_a_text_steers_the_terminal():
    assert one_line("a\x1b[2Jb\r\nc\td\u202ee") == "a [2Jb c d e"


@pytest.mark.parametrize(("columns", "width"), [("40", 40), ("5", 20), ("400", 110), ("x", 80)])
def test_the_width_of_the_terminal(monkeypatch, columns, width):
    monkeypatch.setattr("shutil.get_terminal_size", fake_size(columns))
    assert terminal_width() == width


def fake_size(columns):
    import os

    def size(fallback):
        return os.terminal_size((int(columns), 24) if columns.isdigit() else fallback)

    return size


class Terminal(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


class TestProgress:
    @pytest.fixture
    def shown(self, monkeypatch):
        def shown(at, *, is_terminal=True):
            clock = iter([0.0, *at])
            stream = Terminal(is_terminal)
            monkeypatch.setattr("sys.stderr", stream)
            monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(clock))
            with Progress("Fitting") as progress:
                for done in range(len(at)):
                    progress("folds", done + 1, 5)
            return stream.getvalue()

        return shown

    def test_quick_fits_say_nothing(self, shown):
        assert shown([0.2, 0.5, 0.9]) == ""

    def test_slow_ones_do_and_clear_the_line(self, shown):
        assert shown([0.5, 2.0]) == "\r\x1b[KFitting: folds 2/5 (2 s)\r\x1b[K"

    def test_not_too_often(self, shown):
        assert shown([2.0, 2.01, 2.02, 3.0]).count("Fitting") == 2

    def test_not_without_a_terminal(self, shown):
        assert shown([2.0, 3.0], is_terminal=False) == ""
