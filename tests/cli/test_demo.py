"""The tour: what it shows, from the first second on, and the picture of it."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rich.cells import cell_len

from cnp_router.evaluation.side_by_side import METHODS

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def few(monkeypatch, fits):
    """The tour holds out ten requests, and learning takes no time."""
    monkeypatch.setattr("cnp_router.cli.demo._EVERY", 68)
    return fits


@pytest.fixture
def shown(run, few):
    """What the tour prints, and what it says meanwhile."""
    return run("demo")


class TestHeldOut:
    def test_what_is_asked_was_not_learned(self, run, few, sample):
        told = json.loads(run("demo", "--json").stdout)
        [(_, history, _)] = few
        asked = {m.description for m in sample.history} - set(history.texts)
        assert len(asked) == told["held_out"] == 10
        assert told["n_learned_from"] == len(history) == 670
        assert told["request"] in asked
        mashup = next(m for m in sample.history if m.description == told["request"])
        assert tuple(told["needed"]) == mashup.apis

    def test_the_methods_stand_side_by_side(self, shown):
        assert shown.exit_code == 0
        lines = shown.stdout.splitlines()
        for method in METHODS:
            assert sum(line.startswith(method) for line in lines) == 2  # the request, the average
        assert "found  asked  messages  tokens  seconds" in shown.stdout
        assert "recall    F1  asked  messages  tokens" in shown.stdout
        assert "On average of 10 past requests" in shown.stdout
        assert "offline model" in shown.stdout

    def test_json_says_the_same(self, run, few):
        told = json.loads(run("demo", "--json").stdout)
        assert [answer["method"] for answer in told["answers"]] == list(METHODS)
        assert [mean["method"] for mean in told["means"]] == list(METHODS)
        assert told["model"] == "offline"
        for answer in told["answers"]:
            assert answer["found"] == len(set(answer["apis"]) & set(told["needed"]))
        _, _, broadcast, routed = told["answers"]
        assert broadcast["contractors"] == told["n_apis"] == 149
        assert routed["contractors"] == told["routing"]["n_recipients"]

    @pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
    def test_at_any_width(self, run, few, monkeypatch, width):
        monkeypatch.setenv("COLUMNS", str(width))
        text = run("demo").stdout
        result, commands = text.split("What next\n")
        assert max(map(cell_len, result.splitlines())) <= width
        assert "\n  " in commands  # what is to be typed is on a line of its own

    def test_it_ends_with_what_to_type_next(self, shown):
        lines = shown.stdout.splitlines()
        place = lines.index("What next")
        assert all(" recommend " in line or " demo " in line for line in lines[place + 1 :][:2])
        assert lines[-3] == "With your own MCP servers"
        assert " import --mcp mcp.json --output apis.jsonl" in lines[-2]
        assert " recommend --catalog apis.jsonl " in lines[-1]

    def test_what_it_does_is_said_before_it_is_done(self, shown):
        assert shown.stderr.splitlines() == [
            "Reading the bundled sample ...",
            "Learning from 670 past requests ...",
            "Asking 10 others in four ways ...",
        ]


class TestOwnRequest:
    @pytest.fixture
    def own(self, run, kept):
        return run("demo", "Text me when it rains.")

    def test_nobody_knows_what_it_needs(self, own):
        assert own.exit_code == 0
        assert "found" not in own.stdout
        assert "Needed" not in own.stdout
        assert "On average" not in own.stdout
        assert "twilio" in own.stdout

    def test_the_kept_model_answers(self, own, kept, run):
        told = json.loads(run("demo", "--json", "Text me when it rains.").stdout)
        recommended = json.loads(run("recommend", "--json", "Text me when it rains.").stdout)
        assert told["routing"] == recommended
        assert (told["needed"], told["held_out"], told["means"]) == (None, None, None)

    def test_an_empty_request(self, run):
        result = run("demo", " ")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "The request is empty" in result.stderr

    def test_markup_and_control_characters_do_nothing(self, run, kept):
        result = run("demo", "[red]Text[/red] me \x1b[31m when it rains.")
        assert "[red]Text[/red] me \\x1b[31m when it rains." in result.stdout


class TestPicture:
    @pytest.fixture
    def picture(self, run, few):
        result = run("demo", "--svg", "demo.svg")
        assert result.exit_code == 0
        return Path("demo.svg")

    def test_it_needs_nothing_else(self, picture):
        text = picture.read_text(encoding="utf-8")
        assert len(text) < 200_000
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        for word in ("url(", "@font-face", "@import", "<script", "<image", "href"):
            assert word not in text.replace("url(#", "")

    def test_a_screen_reader_has_a_title_and_what_it_shows(self, picture):
        root = ET.parse(picture).getroot()
        named = root.attrib["aria-labelledby"].split()
        texts = {each.get("id"): each.text for each in root if each.get("id")}
        assert root.get("role") == "img"
        assert texts[named[0]] == "cnp-router demo"
        assert "broadcast round: " in texts[named[1]]

    def test_it_shows_what_is_printed(self, picture):
        text = "".join(ET.parse(picture).getroot().itertext()).replace("\xa0", " ")
        for method in METHODS:
            assert method in text
        assert "What next" not in text
        assert "APIs serve." in text  # how long learning took here, is of no interest there

    def test_the_request_is_text(self, run, kept):
        request = "<b>Text</b> & {rain} &#160; ]]> me when it rains."
        assert run("demo", "--svg", "own.svg", request).exit_code == 0
        root = ET.parse("own.svg").getroot()
        assert request in (root.findtext(f"{SVG}desc") or "")
        assert not root.findall(f".//{SVG}b")

    def test_it_is_known_at_once_that_it_cannot_be_written(self, run, few):
        result = run("demo", "--svg", "nowhere/demo.svg")
        assert (result.exit_code, result.stdout) == (1, "")
        assert few == []


class TestTerminal:
    @pytest.fixture
    def begun(self, tmp_path):
        """The tour in a process of its own, at a terminal; what it says is read there."""
        ours, theirs = pty.openpty()
        started = subprocess.Popen(
            [sys.executable, "-m", "cnp_router", "demo"],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "HOME": str(tmp_path)},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        yield started, ours
        os.close(ours)
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()

    def test_it_says_something_before_anything_heavy_is_there(self, begun):
        process, terminal = begun
        assert b"Reading the bundled sample" in read_until(terminal, b"sample")
        os.killpg(process.pid, signal.SIGINT)
        rest = read_until(terminal, b"Interrupted.")
        assert process.wait(30) == 130
        assert b"Traceback" not in rest

    def test_it_is_interrupted_while_it_learns(self, begun):
        process, terminal = begun
        read_until(terminal, b"Learning from")
        os.killpg(process.pid, signal.SIGINT)
        rest = read_until(terminal, b"Interrupted.")
        assert process.wait(30) == 130
        assert b"Traceback" not in rest


def read_until(terminal, wanted):
    """Return what comes from a terminal up to some words, or to its end; not for ever."""
    found = b""
    with selectors.DefaultSelector() as selector:
        selector.register(terminal, selectors.EVENT_READ)
        while wanted not in found:
            assert selector.select(timeout=60), f"nothing came after {found!r}"
            try:
                more = os.read(terminal, 4096)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            found += more
    return found
