"""The benchmarks of the protocols run, on little data. What they say is not tested here."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def benchmark(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "run.py", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CNP_ROUTER_MODEL_REQUESTS": "loopback"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    sample.catalog.write(folder / "apis.jsonl")
    sample.history[:300].write(folder / "mashups-train.jsonl")
    sample.history[300:304].write(folder / "mashups-dev-late.jsonl")
    sample.history[304:307].write(folder / "mashups-dev.jsonl")
    return folder


def test_routed_vs_broadcast(folder, sample_model, tmp_path):
    file = tmp_path / "figures.json"
    some = ("routed_vs_broadcast", "--data", folder, "--model", sample_model)
    done = benchmark(*some, "--limit", 2, "--json", file, "--report", tmp_path / "report")
    assert (done.returncode, done.stderr) == (0, "")
    assert ", dev\n" in done.stdout
    assert "149 contractors. 2 requests; figures are means over them." in done.stdout
    results = json.loads(file.read_text())
    assert len(results["figures"]) == 15
    assert done.stdout.count("| pass |") + done.stdout.count("| FAIL |") == 15
    rows = [(row["protocol"], row["announce"]) for row in results["comparison"]["rows"]]
    assert len(rows) == 16
    assert rows[1:4] == [
        ("manager-led", "broadcast"), ("manager-led", "routed"), ("manager-led", "routed in waves"),
    ]  # fmt: skip
    assert "InterpretRequest 211" in done.stdout
    assert (tmp_path / "report" / "stages.png").exists()


def test_organisations(folder, sample_model, tmp_path):
    some = ("routed_vs_broadcast", "--data", folder, "--model", sample_model)
    done = benchmark(*some, "--organise", "--limit", 1, "--split", "dev-late")
    assert (done.returncode, done.stderr) == (0, "")
    for organise in ("api", "category", "community", "size"):
        assert done.stdout.count(f"| {organise} ") + done.stdout.count(f" {organise} |") == 8
    done = benchmark(*some, "--split", "test")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no split 'test' (there are: dev-late, dev)" in done.stderr


def test_evidence(folder, sample_model, tmp_path):
    file = tmp_path / "figures.json"
    some = ("evidence", "--data", folder, "--model", sample_model, "--limit", 2, "--json", file)
    done = benchmark(*some)
    assert (done.returncode, done.stderr) == (0, "")
    results = json.loads(file.read_text())
    assert len(results["rows"]) == 11
    assert done.stdout.count("| pass |") + done.stdout.count("| FAIL |") == 6
    assert "The router alone has an F1 of " in done.stdout


def test_the_engine(folder):
    done = benchmark("engine", "--data", folder, "--contractors", 40, "--requests", 1, 3)
    assert (done.returncode, done.stderr) == (0, "")
    assert "to 40 contractors" in done.stdout
    assert "| 82 " in done.stdout  # messages: a call and a reply each, a request and a report
    assert "the openai SDK alone" in done.stdout


def test_the_marks_are_computed(monkeypatch, sample, sample_router):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.routed_vs_broadcast import figures
    from cnp_router.agents import offline_model
    from cnp_router.evaluation import compare

    comparison = compare(
        sample.catalog,
        offline_model(sample.catalog),
        sample.history[:1],
        router=sample_router,
    )
    marks = {figure.name: figure for figure in figures(comparison)}
    name = "contractor-led: broadcast / routed tokens"
    dear = [
        replace(row, tokens_in=1e9) if row.method.announcement == "broadcast" else row
        for row in comparison.rows
    ]
    cheap = [replace(row, tokens_in=0.0, tokens_out=0.0) for row in comparison.rows]
    assert {f.name: f for f in figures(replace(comparison, rows=tuple(dear)))}[name].passed
    nothing = {f.name: f for f in figures(replace(comparison, rows=tuple(cheap)))}[name]
    assert math.isnan(nothing.measured)
    assert not nothing.passed
    assert marks["learned: model calls (exactly)"].passed


def test_a_method_of_which_all_rounds_failed_reaches_nothing(monkeypatch, sample, sample_router):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.routed_vs_broadcast import _ORGANISED, figures
    from cnp_router.agents import offline_model
    from cnp_router.evaluation import ComparisonRow, compare
    from cnp_router.evaluation.comparison import RoundResult

    comparison = compare(
        sample.catalog, offline_model(sample.catalog), sample.history[:1], router=sample_router
    )
    nothing = [
        ComparisonRow.of(row.method, [RoundResult(row.method, "m", None, "nonsense")])
        for row in comparison.rows
    ]
    found = figures(replace(comparison, rows=tuple(nothing)))
    assert not any(figure.passed for figure in found)
    cells = [shown((nothing[3], 149)) for shown in _ORGANISED.values()]
    assert cells[3:] == ["149", *"-------"]
