"""The benchmark of executions runs, on few jobs. What it says is not tested here."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def execution(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import execution

    monkeypatch.setattr(execution, "in_child", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(execution, "REPEATS", 1)
    monkeypatch.setattr(execution, "TOOL_SECONDS", 0.0)
    monkeypatch.setattr(execution, "CHAIN_SECONDS", 0.0)
    return execution


def test_time_and_memory(execution, capsys):
    results = execution.run(argparse.Namespace(seed=0, jobs=4, executions=20))
    assert len(results["time"]) == 10
    for title, case in results["time"].items():
        assert case["jobs"] == (20 if "levels" in title else 4)
        assert [len(case[name]["all_seconds"]) for name in ("loop", "calls", "execution")] == [
            1
        ] * 3
    for case in results["memory"].values():
        assert list(case["megabytes"]) == [2, 20]
    assert results["memory"]["allocated by Python"]["last_to_first"] > 0
    said = capsys.readouterr().out
    assert said.count(" pass |") + said.count(" FAIL |") == 10
    assert "| after 2 | after 20 | last / first |" in said


def test_plans_have_the_shapes_that_they_are_called_by(execution):
    assert [len(level) for level in execution.parallel(5).levels] == [5]
    assert [len(level) for level in execution.chain(5).levels] == [1] * 5
    levels = execution.levels(5, 3).levels
    assert [len(level) for level in levels] == [5] * 3
    assert {len(job.after) for level in levels[1:] for job in level} == {2}
