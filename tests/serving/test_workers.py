"""Several workers: their start, and what becomes of those that fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SERVED = Path(__file__).with_name("workers_that_fail.py")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def served(tmp_path):
    """Serve in a folder of its own, and return what is printed, and the lines of a traceback."""

    def run(what):
        (tmp_path / "tmp").mkdir()
        done = subprocess.run(
            [sys.executable, "-W", "error", SERVED, what],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")},
            capture_output=True,
            text=True,
            timeout=50,
            check=True,
        )
        assert list((tmp_path / "tmp").iterdir()) == []
        return done.stdout.splitlines(), done.stderr

    return run


def test_it_listens_when_all_answer(served):
    assert served("slow") == (["listening: [0, 1]", "left: 0 2"], "")


def test_a_worker_that_cannot_begin_is_one_line(served):
    said = ["Error: it is refused (why not)", "left: 0 1"]
    assert served("refuse 1") == (said, "")


@pytest.mark.parametrize("number", [0, 1])
def test_an_error_that_nobody_foresaw_is_no_start(served, number):
    said, traceback = served(f"raise {number}")
    assert said == [f"Error: worker {number} has ended: exit code 1", f"left: 0 {number}"]
    assert traceback.endswith("RuntimeError: not foreseen\n")


def test_a_worker_that_leaves_at_its_start(served):
    assert served("leave 1") == (["Error: worker 1 has ended: exit code 3", "left: 0 1"], "")


def test_the_system_has_no_process_at_the_start(served):
    problem = "[Errno 11] Resource temporarily unavailable"
    said = [f"Error: worker 1 cannot begin: {problem}", "left: 0 1"]
    assert served("no process 2") == (said, "")


def test_the_system_has_no_process_for_another_at_first(served):
    said, traceback = served("no process 3")
    assert said[0] == "listening: [0, 1]"
    assert re.fullmatch(r"Warning: worker [01] has ended: exit code -9; another begins", said[1])
    assert re.fullmatch(
        r"Warning: worker [01] cannot begin: .* unavailable; it is tried again in 1 s", said[2]
    )
    assert said[3:] == ["left: 0 3"]
    assert traceback == ""


def test_it_ends_while_a_place_is_empty(served):
    said, traceback = served("end while a place is empty")
    assert "cannot begin" in said[2]
    assert said[3:] == ["left: 0 2"]
    assert traceback == ""
