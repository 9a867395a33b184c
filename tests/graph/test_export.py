"""Files for other tools: what is written is what networkx reads back."""

from __future__ import annotations

import json
import subprocess
import sys

import networkx as nx
import pytest

from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import DataFileError, InputError, MissingExtraError, UnknownApiError
from cnp_router.graph import TransitionGraph, draw_graph, export_graph, to_networkx
from cnp_router.history import History, Mashup

READERS = {
    "graph.graphml": nx.read_graphml,
    "graph.gexf": nx.read_gexf,
    "graph.json": lambda file: nx.node_link_graph(
        json.loads(file.read_text("utf-8")), edges="edges"
    ),
}
ODD = ("quote \"&<>'", "two\nlines", "emoji \N{ROCKET} Ünï", "tab\there", "x" * 300)


@pytest.fixture
def graph() -> TransitionGraph:
    catalog = Catalog(
        [Api(f"api {i}", name, categories=("One", "Two & more")) for i, name in enumerate(ODD)]
    )
    return TransitionGraph().fit(
        History(
            [
                Mashup("1", "x", ("api 0", "api 1", "api 2")),
                Mashup("2", "x", ("api 0", "api 1"), ordered=True),
                Mashup("3", "x", ("api 3", "api 2")),
            ]
        ),
        catalog,
    )


@pytest.mark.parametrize("name", list(READERS))
def test_what_is_written_is_read_back(name, graph, tmp_path):
    export_graph(graph, tmp_path / name)
    found, expected = READERS[name](tmp_path / name), to_networkx(graph)
    assert set(found.nodes) == set(expected.nodes)
    for node, data in expected.nodes(data=True):
        assert {key: found.nodes[node][key] for key in data} == data
    assert {frozenset(edge) for edge in found.edges} == {frozenset(e) for e in expected.edges}
    for a, b, data in expected.edges(data=True):
        assert found.edges[a, b]["count"] == data["count"]
        assert float(found.edges[a, b]["weight"]) == pytest.approx(data["weight"])
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_without_direction_an_edge_weighs_the_mean_of_both(tmp_path):
    catalog = Catalog([Api("a", "A"), Api("b", "B"), Api("c", "C")])
    history = History([Mashup("1", "", ("a", "b")), Mashup("2", "", ("a", "c"))])
    graph = TransitionGraph().fit(history, catalog)
    there, back = graph.transition_[0, 1], graph.transition_[1, 0]
    assert there != back
    export_graph(graph, tmp_path / "graph.graphml")
    written = READERS["graph.graphml"](tmp_path / "graph.graphml").edges["a", "b"]["weight"]
    assert float(written) == pytest.approx((there + back) / 2)


@pytest.mark.parametrize("name", ["graph.graphml", "graph.gexf"])
def test_characters_that_xml_cannot_hold_are_taken_out(name, tmp_path):
    catalog = Catalog([Api("a", "Bell\x07 and \ufffe half"), Api("b", "B")])
    graph = TransitionGraph().fit(History([Mashup("1", "x", ("a", "b"))]), catalog)
    export_graph(graph, tmp_path / name)
    assert READERS[name](tmp_path / name).nodes["a"]["name"] == "Bell and  half"


def test_the_ending_or_the_format_decides(graph, tmp_path):
    export_graph(graph, tmp_path / "graph.txt", format="json")
    assert len(json.loads((tmp_path / "graph.txt").read_text("utf-8"))["nodes"]) == len(ODD)
    with pytest.raises(InputError, match=r"graph\.txt"):
        export_graph(graph, tmp_path / "graph.txt")


def test_a_part_of_the_graph(graph):
    assert set(to_networkx(graph, around=["api 3"], hops=1)) == {"api 3", "api 2"}
    assert set(to_networkx(graph, around=["api 3"], hops=2, max_nodes=3)) == {
        "api 3",
        "api 2",
        "api 0",
    }
    assert [data["count"] for *_, data in to_networkx(graph, min_count=2).edges(data=True)] == [2]
    with pytest.raises(UnknownApiError):
        to_networkx(graph, around=["api 9"])


def test_directed_keeps_the_direction(tmp_path):
    history = History([Mashup("1", "x", ("a", "b", "b"), ordered=True)])
    export_graph(TransitionGraph(directed=True).fit(history), tmp_path / "graph.gexf")
    found = nx.read_gexf(tmp_path / "graph.gexf")
    assert set(found.edges) == {("a", "b"), ("b", "b")}


def test_a_failed_export_leaves_what_was_there(graph, tmp_path, monkeypatch):
    place = tmp_path / "graph.json"
    place.write_text("old")
    monkeypatch.setattr(json, "dump", lambda *a, **k: 1 / 0)
    monkeypatch.setattr(json, "dumps", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_graph(graph, place)
    assert place.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["graph.json"]
    with pytest.raises(DataFileError):
        export_graph(graph, tmp_path / "missing" / "graph.gexf")


class TestDrawing:
    def test_png_and_svg(self, graph, tmp_path):
        draw_graph(graph, tmp_path / "g.png", around=["api 0"])
        draw_graph(graph, tmp_path / "g.svg", around=["api 0"], title="T")
        png = (tmp_path / "g.png").read_bytes()
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = (int.from_bytes(png[i : i + 4], "big") for i in (16, 20))
        assert 400 < height < width < 4000
        assert "<svg" in (tmp_path / "g.svg").read_text("utf-8")

    def test_the_same_graph_gives_the_same_picture(self, graph, tmp_path):
        for name in ("1.svg", "2.svg"):
            draw_graph(graph, tmp_path / name, around=["api 0"], seed=3)
        assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()

    def test_errors(self, graph, tmp_path):
        with pytest.raises(InputError, match=r"\(end it in \.png or \.svg\)$"):
            draw_graph(graph, tmp_path / "g.bmp", around=["api 0"])
        with pytest.raises(UnknownApiError):
            draw_graph(graph, tmp_path / "g.png", around=["nobody"])
        assert list(tmp_path.iterdir()) == []

    def test_without_matplotlib(self, graph, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingExtraError) as caught:
            draw_graph(graph, tmp_path / "g.png", around=["api 0"])
        assert str(caught.value) == "drawing needs matplotlib (pip install 'cnp-router[plot]')"


def test_importing_the_room_imports_neither_networkx_nor_matplotlib():
    code = "import sys, cnp_router.graph; print({'networkx', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
