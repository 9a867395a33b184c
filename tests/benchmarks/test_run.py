"""The benchmarks run, on little data. What they say is not tested here."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from cnp_router.history import History
from cnp_router.routing import SpecificationRouter

ROOT = Path(__file__).resolve().parents[2]


def benchmark(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "run.py", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(sample, tmp_path_factory):
    """A folder as the benchmarks want it."""
    folder = tmp_path_factory.mktemp("data")
    sample.catalog.write(folder / "apis.jsonl")
    sample.history[:300].write(folder / "mashups-train.jsonl")
    sample.history[300:320].write(folder / "mashups-dev-late.jsonl")
    return folder


def test_quality_on_the_sample(tmp_path):
    file = tmp_path / "results" / "quality.json"
    routers = ["learned", "popularity"]
    done = benchmark("quality", "--json", file, "--full", "--only", *routers)
    assert (done.returncode, done.stderr) == (0, "")
    assert "| learned " in done.stdout
    assert "| popularity (baseline) " in done.stdout
    results = json.loads(file.read_text())
    assert list(results["routers"]) == routers
    assert list(results["routers"]["learned"]["splits"]) == ["random", "cold"]
    assert results["routers"]["learned"]["model_megabytes"] > 0
    assert results["environment"]["seed"] == 0


def test_quality_on_a_folder(folder):
    done = benchmark("quality", "--data", folder, "--only", "random", "broadcast", "specification")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("dev-late") == 4
    assert "No dates: the history cannot be put in order." in done.stdout


@pytest.mark.parametrize("form", ["prompt", "json"])
def test_quality_of_requests_in_a_form(folder, form):
    said = [
        benchmark("quality", "--data", folder, "--only", "learned", *options).stdout
        for options in ((), ("--form", form))
    ]
    assert f"as {form}" in said[1]
    rows = [[line for line in each.splitlines() if "| learned" in line] for each in said]
    figures = [[line.split("|")[3:10] for line in each] for each in rows]
    assert figures[0] == figures[1]
    assert figures[0]


@pytest.fixture
def quality(monkeypatch):
    """The track, with a learned router that is quick to fit and remembers the dates asked."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import quality

    class Learned(SpecificationRouter):
        asked: ClassVar[list] = []

        def _scores(self, request, known, date):
            self.asked.append(date)
            return super()._scores(request, known, date)

    monkeypatch.setitem(quality.ROUTERS, "learned", lambda c, h, *_: Learned(c, h))
    monkeypatch.setattr(quality, "in_child", lambda function, *arguments: function(*arguments))
    quality.Learned = Learned
    return quality


def test_dated_and_undated_and_a_rolling_origin(quality, sample, folder, tmp_path, capsys):
    for file in folder.iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    first = datetime.date(2012, 1, 1)
    dated = [replace(m, date=first + datetime.timedelta(i)) for i, m in enumerate(sample.history)]
    # The file is not in order, and not all of it has a date.
    History([*sample.history[300:320], *reversed(dated[:200])]).write(
        tmp_path / "mashups-train.jsonl"
    )
    History([*dated[320:330], *sample.history[330:340]]).write(tmp_path / "mashups-dev.jsonl")
    result = quality.measure("learned", tmp_path, 0)
    assert {d: f["with_date"] for d, f in result["splits"]["dev"].items()} == {
        "dated": 10,
        "undated": 10,
    }
    assert list(result["splits"]["dev-late"]) == ["dated"]  # no dates, so no second time
    assert [(o["share"], o["dated"]["requests"]) for o in result["rolling"]] == [
        (0.6, 20),
        (0.8, 20),
    ]
    asked = [(date - first).days for date in quality.Learned.asked if date]
    assert set(asked) == {*range(320, 330), *range(120, 140), *range(160, 180)}
    only = ["learned", "random"]
    all_of_it = {"limit": 0, "without_history": False, "form": None, "scheduler": None}
    quality.run(
        argparse.Namespace(data=tmp_path, seed=0, only=only, full=True, vectors=None, **all_of_it)
    )
    main, rolling = capsys.readouterr().out.split("## Rolling origin")
    cells = [line.split("|")[1:4] for line in (main + rolling).splitlines() if line[:1] == "|"]
    rows = [[cell.strip() for cell in row] for row in cells]
    assert ["learned", "dev", "10 given"] in rows
    assert ["learned", "dev", "not given"] in rows
    assert ["random (baseline)", "dev-late", "none"] in rows
    assert ["random (baseline)", "dev", "not given"] not in rows  # it does not go by them
    assert ["learned", "rolling origin", "40 given"] in rows
    assert ["learned", "rolling origin", "not given"] in rows
    assert "asked about 20 and 20 of the" in rolling


def test_a_folder_without_data(tmp_path):
    done = benchmark("quality", "--data", tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"Error: {tmp_path}/apis.jsonl: no such file (check the path)\n"


def test_the_parts_that_scaling_measures(sample, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.scaling import exponent, part

    catalog, train = part(sample.catalog, sample.history, "mashups", 0.25, 0)
    assert (len(catalog), len(train)) == (149, 170)
    catalog, train = part(sample.catalog, sample.history, "contractors", 0.5, 0)
    assert len(catalog) == 74
    assert len(train.known_to(catalog)) == len(train) > 100
    assert exponent([1, 2, 4], [3.0, 6.0, 12.0]) == pytest.approx(1.0)
    assert exponent([1, 2], [None, 3.0]) is None


def test_what_scaling_and_speed_measure(catalog, history, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import scaling, speed

    catalog.write(tmp_path / "apis.jsonl")
    history.write(tmp_path / "mashups-train.jsonl")
    history.write(tmp_path / "mashups-dev.jsonl")
    grown = scaling.measure(tmp_path, "mashups", 0.5, 0)
    assert (grown["mashups"], grown["contractors"]) == (2, 5)
    assert all(grown[key] is None or grown[key] >= 0 for key in scaling._MEASURED.values())
    timed = speed.measure(tmp_path, tmp_path / "apis.jsonl", tmp_path / "model", 0)
    assert timed["contractors"] == 5
    assert 0 < timed["p50"] <= timed["p95"] <= timed["max"]
    assert (tmp_path / "model" / "manifest.json").exists()


def test_what_sizing_measures(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import sizing

    made = sizing.fit(tmp_path / "model", 30, 4, 0)
    assert (made["tools"], made["mashups"]) == (30, 4)
    assert made["fit_seconds"] > 0
    timed = sizing.route(tmp_path / "model", 30, 0)
    assert 0 < timed["p50"] <= timed["p99"]
    found = sizing.search(50, 0)
    assert found["array"] > 0
    assert found["context"] > 0
    assert found["megabytes"] == pytest.approx(50 * 384 * 4 / 1e6)


def test_requests_for_several_things(folder, tmp_path):
    file = tmp_path / "compound.json"
    done = benchmark("compound", "--data", folder, "--history", 120, "--json", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Learned from 120 mashups" in done.stdout
    results = json.loads(file.read_text())
    for steps in results["splits"]["dev-late"].values():
        assert list(steps) == ["whole only", "parts too", "by the history"]
        assert steps["whole only"]["read as several"] == 0


def test_requests_that_quote(folder, tmp_path):
    file = tmp_path / "quotations.json"
    given = ("--data", folder, "--history", 120, "--limit", 30, "--json", file)
    done = benchmark("quotations", *given)
    assert (done.returncode, done.stderr) == (0, "")
    (ways,) = json.loads(file.read_text())["splits"].values()
    assert {figures["requests"] for figures in ways.values()} == {19}  # without marks of their own
    assert ways["quoted itself"] == ways["itself without marks"]
    alone = benchmark("quotations", "--data", folder, "--history", 120, "--limit", 1)
    assert alone.stderr.startswith("Error: no other request to quote in mashup ")


NEW_TRACKS = ("planning", "coordination", "subagents", "reputation", "context", "models")


@pytest.mark.parametrize("track", NEW_TRACKS)
def test_the_help_of_a_track_says_what_it_measures_and_what_each_option_is(track, capsys):
    from benchmarks import run

    with pytest.raises(SystemExit):
        run.main([track, "--help"])
    said = capsys.readouterr().out
    assert str(run.TRACKS[track].__doc__).strip() in said
    options = said.partition("\noptions:\n")[2]
    for entry in options.split("\n  -")[1:]:
        assert len(entry.split(maxsplit=2)) == 3, entry


def test_shared_context_on_little(monkeypatch, tmp_path, capsys):
    from benchmarks import context, run

    for name, few in (("LOADS", (12,)), ("TASKS", 4), ("SEEDS", 2), ("_ENTRIES", 5)):
        monkeypatch.setattr(context, name, few)
    file = tmp_path / "context.json"
    assert run.main(["context", "--seed", "1", "--json", str(file)]) == 0
    results = json.loads(file.read_text())
    assert {row["threshold"] for row in results["rows"]} == set(context.thresholds())
    assert results["stores"].keys() == {"memory", "SQLite"}
    assert "All loads:" in capsys.readouterr().out


def test_coordination_on_little(monkeypatch, tmp_path, capsys):
    from benchmarks import coordination, office_servers, run

    monkeypatch.setattr(office_servers, "_SECONDS", (0.001,) * len(office_servers._SECONDS))
    file = tmp_path / "coordination.json"
    few = ["--servers", "11", "--sessions", "1", "--before", "0", "--limit", "0.1"]
    assert run.main(["coordination", *few, "--seed", "0", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["results"]["rows"]
    assert len(rows) == len(coordination.MODES)
    assert "all on, against none" in capsys.readouterr().out


def test_what_it_costs_to_be_watched():
    done = benchmark("telemetry", "--repeats", 1)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines() if "|" in line][2:] == [
        "route",
        "round",
        "job",
    ]
