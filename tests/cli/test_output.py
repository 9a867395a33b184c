"""Tables, texts and progress."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cnp_router.cli import progress as progress_module
from cnp_router.cli.output import (
    counted,
    echo,
    echo_json,
    echo_pairs,
    echo_table,
    note,
    number,
    recording,
)
from cnp_router.cli.progress import Progress
from cnp_router.printing import printable

TITLES = ["", "API", "prob.", "why"]
ROWS = [
    ["*", "google-maps", "0.91", "named in the request, and used in 12 mashups like this one"],
    ["", "国土地理院-地図-東京都新宿区", "0.10", "地図 と 天気"],
    ["", "x" * 60, "0.05", ""],
]

recommended = partial(echo_table, TITLES, numbers=["prob."])


@pytest.fixture
def printed(monkeypatch, capsys):
    def printed(write, *arguments, columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        write(*arguments)
        return capsys.readouterr().out

    return printed


@pytest.mark.parametrize("width", [30, 40, 60, 80, 110])
def test_a_table_is_never_wider_than_the_terminal_and_loses_nothing(printed, width):
    lines = printed(recommended, ROWS, columns=width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)
    letters = "".join("".join(lines).split())
    for row in ROWS:
        for character in set("".join(row)) - {" "}:
            assert letters.count(character) >= "".join(row).count(character)


def test_a_table(printed):
    assert printed(recommended, ROWS[:1]) == (
        "   API          prob.  why\n"
        "*  google-maps   0.91  named in the request, and used in 12 mashups like this\n"
        "                       one\n"
    )


def test_a_table_takes_all_of_a_wide_terminal(printed):
    why = "a b " * 44 + "end"
    lines = printed(recommended, [["", "maps", "0.91", why]], columns=220).splitlines()
    assert lines == ["  API   prob.  why", f"  maps   0.91  {why}"]


@pytest.mark.parametrize("width", [34, 40, 50, 60])
def test_a_name_is_not_broken(printed, width):
    rows = [["", "firebase-cloud-messaging", "0.91", "its specification says what it is for"]]
    assert "firebase-cloud-messaging" in printed(recommended, rows, columns=width)


def test_what_is_recorded_is_not_printed(printed):
    def write():
        with recording(30) as recorder:
            recommended(ROWS[:1])
            echo("a b " * 20)
        recorded.extend(recorder.export_text().splitlines())

    recorded = []
    assert printed(write, columns=100) == ""
    assert "google-maps" in "".join(recorded)
    assert max(map(len, recorded)) <= 30


def test_a_narrow_table(printed):
    assert printed(recommended, ROWS[:1], columns=40).splitlines() == [
        "   API          prob.  why",
        "*  google-maps   0.91  named in the",
        "                       request, and used",
        "                       in 12 mashups",
        "                       like this one",
    ]


def test_a_table_that_does_not_fit_is_a_block_of_lines_for_each_row(printed):
    rows = [["*", "maps", "0.91", "named in it"], ["", "sms", "0.10", "popular"]]
    assert printed(recommended, rows, columns=20).splitlines() == [
        "       *",
        "API    maps",
        "prob.  0.91",
        "why    named in it",
        "",
        "API    sms",
        "prob.  0.10",
        "why    popular",
    ]


def test_wide_characters_take_two_columns(printed):
    lines = printed(recommended, [["", "地図", "0.10", "天気"], ROWS[0]]).splitlines()
    assert lines[1] == "   地図          0.10  天気"


def test_a_table_without_rows(printed):
    assert printed(partial(echo_table, numbers=["n"]), ["API", "n"], []) == "API  n\n"


def test_pairs(printed):
    pairs = [("Model", "offline"), ("Why", "used by many mashups that are like this one")]
    assert printed(echo_pairs, pairs, columns=30) == (
        "Model  offline\nWhy    used by many mashups\n       that are like this one\n"
    )


def test_figures():
    assert [counted(1, "step"), counted(2_000, "step")] == ["1 step", "2,000 steps"]
    assert [number(1_200), number(0.5), number(None)] == ["1,200", "0.500", "-"]


@pytest.mark.parametrize(
    ("columns", "width"), [("40", 40), ("5", 20), ("400", 110), ("x", 80), ("", 80)]
)
def test_the_width_of_the_terminal(printed, columns, width):
    lines = printed(echo, "a b " * 200, columns=columns).splitlines()
    assert width - 3 <= max(map(len, lines)) <= width


def test_markup_in_data_is_not_interpreted(printed, capsys):
    text = "[red]stop[/red] [/] [link=http://x]here[/link] :warning:"
    assert printed(echo, text) == f"{text}\n"
    assert text in printed(echo_table, ["[b]API[/b]"], [[text]])
    assert text in printed(echo_pairs, [("[b]", text)])
    note(text, "Warning")
    assert capsys.readouterr().err == f"Warning: {text}\n"


@given(st.recursive(st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_json_is_valid_and_steers_nothing(document):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        echo_json(document)
    stream.seek(0)
    text = stream.read()
    assert json.loads(text) == document
    assert printable(text.replace("\n", "")) == text.replace("\n", "")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def __init__(self, is_terminal=True):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


class TestColours:
    @pytest.fixture
    def shown(self, monkeypatch):
        def shown(is_terminal, **environment):
            for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
                monkeypatch.delenv(name, raising=False)
            for name, value in {"TERM": "xterm-256color", **environment}.items():
                monkeypatch.setenv(name, value)
            stream = Terminal(is_terminal)
            monkeypatch.setattr("sys.stderr", stream)
            note("no such file", "Error")
            return stream.getvalue()

        return shown

    def test_at_a_terminal(self, shown):
        assert shown(True) == "\x1b[1;31mError: \x1b[0mno such file\n"

    @pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}])
    def test_none_when_piped(self, shown, environment):
        assert shown(False, **environment) == "Error: no such file\n"

    @pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
    def test_none_where_they_are_not_wanted(self, shown, environment):
        assert shown(True, **environment) == "Error: no such file\n"


class TestProgress:
    @pytest.fixture
    def shown(self, monkeypatch):
        def shown(at, *, is_terminal=True, title="Fitting", at_once=False):
            clock = iter([0.0, *at])
            stream = Terminal(is_terminal)
            monkeypatch.setenv("TERM", "xterm")
            monkeypatch.setattr("sys.stderr", stream)
            monkeypatch.setattr(progress_module, "monotonic", lambda: next(clock, [0, *at][-1]))
            with Progress(title, at_once=at_once) as progress:
                for done in range(len(at)):
                    progress("folds", done + 1, 5)
            return stream.getvalue()

        return shown

    def test_quick_fits_say_nothing(self, shown):
        assert shown([0.2, 0.5, 0.9]) == ""

    def test_slow_ones_do_and_vanish(self, shown):
        text = shown([0.5, 2.0])
        assert "Fitting: folds" in text and "2/5" in text
        assert text.endswith("\x1b[2K")

    def test_not_without_a_terminal(self, shown):
        assert shown([2.0, 3.0], is_terminal=False) == ""

    def test_at_once_there_is_something_before_the_first_step(self, shown):
        text = shown([], at_once=True)
        assert "Fitting" in text
        assert text.endswith("\x1b[2K")

    def test_at_once_a_line_does_without_a_terminal(self, shown):
        assert shown([0.1, 0.2], is_terminal=False, at_once=True) == "Fitting ...\n"

    def test_its_title_is_data_too(self, shown):
        text = shown([2.0], title="[red]\x9bA")
        assert r"[red]\x9bA: folds" in text and "\x9b" not in text


@pytest.mark.skipif(os.name == "nt", reason="no shell that closes it")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_standard_output_or_error_may_be_closed(closed, tmp_path):
    command = [sys.executable, "-m", "cnp_router", "verify", "--model", str(tmp_path)]
    shell = ["sh", "-c", f'exec "$0" "$@" {closed}', *command]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert ("no model there" in done.stderr) == ("2" not in closed)
