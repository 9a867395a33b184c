"""``--scheduler`` of the benchmarks: the figures are those without one, from a real cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import cold, learning_curve, quality, run, trust
from cnp_router.routing import SpecificationRouter

TRACKS = {
    "cold": ["--limit", "5"],
    "evidence": ["--limit", "2"],
    "evidence in waves": ["--limit", "2", "--waves"],
    "languages": [],
    "learning_curve": ["--sizes", "0", "15", "--draws", "2", "--limit", "10"],
    "routed_vs_broadcast": ["--limit", "2"],
    "routed_vs_broadcast organised": ["--limit", "1", "--organise"],
    "trust": ["--limit", "5"],
}
WITH_A_MODEL = ("evidence", "routed_vs_broadcast")


@pytest.fixture(scope="module")
def address(local_cluster: Any) -> str:
    return str(local_cluster.scheduler_address)


@pytest.fixture(scope="module")
def folder(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    sample.catalog.write(folder / "apis.jsonl")
    sample.history[:100].write(folder / "mashups-train.jsonl")
    sample.history[300:312].write(folder / "mashups-dev.jsonl")
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Routers that are quick to fit, and no peers."""
    for module in (learning_curve, trust):
        monkeypatch.setattr(module, "fit_router", SpecificationRouter)
    monkeypatch.setattr(learning_curve.peers, "PEERS", {})
    routers = {"fitted": lambda catalog, _: SpecificationRouter(catalog)}
    monkeypatch.setattr(cold, "ROUTERS", routers)


@pytest.fixture(params=TRACKS)
def command(request, folder, sample_model):
    """A track with its options, on little."""
    track = request.param.split()[0]
    model = ["--model", str(sample_model)] if track in WITH_A_MODEL else []
    data = [] if track == "languages" else ["--data", str(folder)]
    return [track, *data, *model, *TRACKS[request.param]]


def timeless(found: Any) -> Any:
    """Return the same without what took how long."""
    if isinstance(found, dict):
        timed = ("seconds", "megabytes", "latency_ms")
        return {k: timeless(v) for k, v in found.items() if not k.endswith(timed)}
    return [timeless(each) for each in found] if isinstance(found, list) else found


def test_the_figures_are_the_same(command, address, tmp_path, capsys):
    alone, others = tmp_path / "alone.json", tmp_path / "others.json"
    assert run.main([*command, "--json", str(alone)]) == 0
    said = capsys.readouterr().out
    assert run.main([*command, "--json", str(others), "--scheduler", address]) == 0
    assert capsys.readouterr().out == said
    assert timeless(json.loads(others.read_text())) == timeless(json.loads(alone.read_text()))


def test_nobody_answers(command, monkeypatch, capsys):
    monkeypatch.setattr("cnp_router.cluster.CONNECT_WITHIN", 0.3)
    assert run.main([*command, "--scheduler", "tcp://127.0.0.1:9"]) == 1
    said = "Error: cluster tcp://127.0.0.1:9: it does not answer (start one: dask scheduler"
    assert capsys.readouterr().err.startswith(said)


def test_quality(folder, address):
    alone, others = (
        quality.measure("history kNN", folder, 0, scheduler=scheduler)
        for scheduler in (None, address)
    )
    assert timeless(others) == timeless(alone)
    assert others["splits"]["dev"]["dated"]["requests"] == 12
