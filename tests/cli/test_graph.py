from __future__ import annotations

import json

import networkx as nx
import pytest

from cnp_router.graph import TransitionGraph

SOURCES = [
    (),
    ("--history", "mashups.jsonl"),
    ("--history", "mashups.jsonl", "--catalog", "apis.jsonl"),
    ("--model", "model"),
]


@pytest.fixture(autouse=True)
def here(files, sample_model, tmp_path):
    (tmp_path / "model").symlink_to(sample_model)


@pytest.mark.parametrize("source", SOURCES)
def test_next(run, sample, source):
    result = run("graph", "next", "google-maps", "twilio", "--k", 3, *source, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    graph = TransitionGraph().fit(sample.history, sample.catalog)
    predicted = graph.predict_next(["google-maps", "twilio"], k=3)
    document = json.loads(result.stdout)
    assert document["known"] == ["google-maps", "twilio"]
    assert [n["api"] for n in document["next"]] == [n.api for n in predicted]
    assert set(document["next"][0]) == {"api", "probability", "count"}


def test_next_as_a_table(run):
    lines = run("graph", "next", "google-maps", "--k", 2).stdout.splitlines()
    assert (lines[0].split(), lines[1].split()) == (["times"], ["API", "probability", "seen"])
    assert lines[4] == ""
    assert lines[5].startswith("Probability: from 0 to 1, that it comes next. Times seen: past")


@pytest.mark.parametrize("source", SOURCES)
def test_next_in_order(run, sample, source):
    result = run("graph", "next", "--directed", "google-vision", *source, "--json")
    graph = TransitionGraph(directed=True).fit(sample.history, sample.catalog)
    best = graph.predict_next(["google-vision"])[0]
    assert json.loads(result.stdout)["next"][0]["api"] == best.api


def test_nothing_comes_next(run, tmp_path):
    (tmp_path / "one.jsonl").write_text('{"id": "m", "description": "d", "apis": ["sms"]}\n')
    result = run("graph", "next", "sms", "--history", "one.jsonl")
    assert result.exit_code == 0
    assert result.stdout == "Nothing has been used together with these yet.\n"


def test_an_unknown_api(run):
    result = run("graph", "next", "google-map")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: unknown API 'google-map' (did you mean 'google-maps'?)\n"


@pytest.mark.parametrize("source", SOURCES)
def test_stats(run, source):
    result = run("graph", "stats", *source)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(
        "APIs                                   149\nAPIs that some mashup uses             149\n"
    )
    assert json.loads(run("graph", "stats", *source, "--json").stdout)["n_apis"] == 149


def test_export(run, tmp_path):
    result = run("graph", "export", "graph.graphml")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Wrote graph.graphml\n", "")
    assert len(nx.read_graphml(tmp_path / "graph.graphml")) == 149
    run("graph", "export", "few.graphml", "--min-count", 5)
    few = nx.read_graphml(tmp_path / "few.graphml")
    assert few.number_of_edges() < nx.read_graphml(tmp_path / "graph.graphml").number_of_edges()


def test_export_to_what_it_cannot(run):
    result = run("graph", "export", "graph.txt")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: cannot tell the format of 'graph.txt'")


def test_draw(run, tmp_path):
    pytest.importorskip("matplotlib")
    result = run("graph", "draw", "maps.svg", "--around", "google-maps")
    assert (result.exit_code, result.stdout) == (0, "Wrote maps.svg\n")
    assert "<svg" in (tmp_path / "maps.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("next",), "Missing argument 'ID...'"),
        (("next", "sms", "--k", "0"), "Invalid value for '--k'"),
        (("draw", "a.png"), "Missing option '--around'"),
        (("stats", "--catalog", "apis.jsonl"), "--catalog needs --history."),
        (("stats", "--model", "model", "--history", "mashups.jsonl"), "--model takes no"),
    ],
)
def test_usage(run, arguments, message):
    result = run("graph", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
