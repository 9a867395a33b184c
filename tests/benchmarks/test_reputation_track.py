"""The track of reputation, on little. What it says is not tested."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def track(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import reputation

    return reputation


def test_it_runs_and_writes_its_rows(track, monkeypatch, tmp_path, capsys):
    from benchmarks import run

    worlds = [track.World(match, 4, 3, 20) for match in ("the same", "varies")]
    monkeypatch.setattr(track, "WORLDS", worlds)
    file = tmp_path / "reputation.json"
    few = ["--runs", "2", "--contractors", "3", "6", "--json", str(file), "--seed", "1"]
    assert run.main(["reputation", *few]) == 0
    results = json.loads(file.read_text())
    assert [row["method"] for row in results["rows"]] == [*track.METHODS] * 2
    assert all(0 <= row["success"] <= 1 for row in results["rows"])
    assert {each["contractors"] for each in results["overhead"]} == {3, 6}
    assert "formula, Thompson" in capsys.readouterr().out


def test_the_best_possible_is_not_worse_than_by_chance(track):
    world = track.World("varies", 8, 8, 400)
    by = {m: asyncio.run(track.simulate(world, m, 3)) for m in ("random", "best possible")}
    assert by["best possible"] > by["random"] + 0.1
    assert by["random"] == asyncio.run(track.simulate(world, "random", 3))
