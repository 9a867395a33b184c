"""Other libraries in the benchmarks: the seam by a fake, and each library where it is installed."""

from __future__ import annotations

import importlib
import json
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import learning_curve, peers, quality, run
from benchmarks.peers import PEERS, Entry, FittedPeer, Peer
from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.routing import SpecificationRouter
from cnp_router.text import specification_text

ROOT = Path(__file__).resolve().parents[2]
CATALOG = Catalog([Api(name, name.title()) for name in ("maps", "sms", "mail", "tides")])


class Fake(Peer):
    """Knows an API by a letter of the request: 1 where the request has the API's first letter."""

    fits: ClassVar[list] = []
    asked: ClassVar[list] = []

    def fit(self, catalog, history):
        self.apis = catalog.ids
        self.known = {mashup.description for mashup in history}
        self.fits.append(self.known)

    def scores(self, request):
        self.asked.append(request)
        assert request not in self.known
        return np.array([float(request.count(api[0])) for api in self.apis])


@pytest.fixture(autouse=True)
def fake():
    Fake.fits.clear()
    Fake.asked.clear()
    return Entry(__name__, "Fake", ("numpy",))


def mashups(*pairs):
    return History(Mashup(f"m{i}", text, apis) for i, (text, apis) in enumerate(pairs))


class TestThreshold:
    def fitted(self, history):
        peer = Fake()
        peer.fit(CATALOG, history)
        return FittedPeer(peer, Fake, CATALOG, history)

    def test_it_is_chosen_on_requests_that_the_peer_has_not_learned_from(self):
        # Twice the letter says that the API is needed, once that it is not.
        history = mashups(
            *((f"mm s {i}", ("maps", "mail")) for i in range(10)),
            *((f"ss m {i}", ("sms",)) for i in range(10)),
        )
        peer = self.fitted(history)
        assert 1 < peer.threshold <= 2
        assert sorted(Fake.asked) == sorted(history.texts)  # which Fake refuses to know
        assert len(Fake.fits) == 1 + 3
        figures = peer.figures(Mashup("new", "ss mm t", ("sms", "tides")))
        # maps, sms and mail have two, tides has one.
        assert figures.recommendation["mean_apis"] == 3
        assert figures.recommendation["precision"] == pytest.approx(1 / 3)
        assert figures.places == {"sms": 1, "tides": 3}
        assert figures.ranking["recall@5"] == 1

    def test_without_history_the_best_alone_is_recommended(self):
        figures = self.fitted(History([])).figures(Mashup("new", "s mm", ("maps",)))
        assert figures.recommendation["mean_apis"] == 1
        assert figures.recommendation["f1"] == 1

    def test_nothing_is_too_little_to_recommend_the_best(self):
        history = mashups(*((f"{i} mmmmm", ("maps", "mail")) for i in range(6)))
        figures = self.fitted(history).figures(Mashup("new", "x", ("maps",)))
        assert figures.recommendation["mean_apis"] == 1

    def test_means_over_a_history(self):
        history = mashups(*((f"mm s {i}", ("maps", "mail")) for i in range(6)))
        asked = mashups(("mm", ("maps", "mail")), ("tt", ("tides",)), ("?", ("nobody",)))
        found = self.fitted(history).evaluated(asked)
        assert (found["requests"], found["skipped"], found["dated"]) == (2, 1, False)
        assert found["recommendation"]["f1"] == 1
        assert found["latency_ms"]["p50"] > 0


class TestRegistry:
    @pytest.mark.parametrize("name", PEERS)
    def test_each_is_a_file_with_its_class(self, name):
        entry = PEERS[name]
        file = ROOT / f"{entry.module.replace('.', '/')}.py"
        assert f"class {entry.name}(Peer):" in file.read_text()

    def test_what_is_not_there_is_said(self, monkeypatch, capsys, fake):
        there = {
            "one": fake,
            "two": Entry("nowhere", "Two", ("no_such_package",)),
            "three": Entry(__name__, "Fake", ("numpy",), needs_vectors=True),
        }
        monkeypatch.setattr(peers, "PEERS", there)
        assert peers.measurable(there, has_vectors=False) == ["one"]
        assert capsys.readouterr().out == (
            "two: not installed (pip install --group peers).\nthree: needs --vectors.\n"
        )
        assert peers.measurable(["three"], has_vectors=True) == ["three"]

    def test_slow_ones_are_measured_where_they_are_named(self, monkeypatch, capsys, fake):
        there = {"one": fake, "slow": replace(fake, slow=True)}
        monkeypatch.setattr(peers, "PEERS", there)
        assert peers.usual() == ["one"]
        assert capsys.readouterr().out == "slow: slow, so measured by `quality --only` alone.\n"
        assert peers.measurable(["slow"], has_vectors=False) == ["slow"]

    @pytest.mark.filterwarnings("ignore")  # those of the peers are for them to mend
    @pytest.mark.parametrize("name", PEERS)
    def test_it_ranks(self, name, sample):
        """Where it is installed."""
        history = sample.history[:200]
        vectors = meaningful(sample.catalog, history)
        if why := peers.absence(name, has_vectors=True):
            pytest.skip(why)
        peer = peers.build(name, vectors)
        peer.fit(sample.catalog, history)
        seen = 0
        for mashup in history[:50]:
            scores = peer.scores(mashup.description)
            assert scores.shape == (len(sample.catalog),)
            assert np.isfinite(scores).all()
            seen += sample.catalog.ids[int(np.argmax(scores))] in mashup.apis
        by_words = name.startswith(("bm25s", "toolrank", "graph-tool-call"))
        assert seen > (15 if by_words else 40)  # of specifications alone
        if not PEERS[name].needs_vectors:
            assert peer.scores("?! ...").shape == (len(sample.catalog),)
        if not PEERS[name].needs_history:
            peer.fit(sample.catalog, History([]))
            assert peer.scores(mashup.description).shape == (len(sample.catalog),)


def meaningful(catalog, history):
    """Vectors by text: of a request, near to those of the specifications that it needs."""
    rng = np.random.default_rng(0)
    said = {api.id: rng.normal(size=384) for api in catalog}
    vectors = {specification_text(api): said[api.id] for api in catalog}
    for mashup in history:
        near = np.sum([said[api] for api in mashup.apis], axis=0)
        vectors[mashup.description] = near + 0.1 * rng.normal(size=384)
    return {text: each / np.linalg.norm(each) for text, each in vectors.items()}


class TestStandIns:
    """What is done with a library's answer, where a stand-in gives it."""

    CATALOG = Catalog(
        [
            Api("maps", "Big Maps", "Shows places.", ("Mapping",), {"place": "str"}),
            Api("sms", "sms", "Sends texts.", (), {"type": "object", "properties": {"to": {}}}),
            Api("mail", "mail", "Sends mail.", (), {"properties": "str"}),
        ]
    )
    VECTORS: ClassVar[dict] = {
        **{specification_text(api): row for api, row in zip(CATALOG, np.eye(3), strict=True)},
        "a text": np.array([0.6, 0.8, 0.0]),
    }

    def load(self, monkeypatch, module, stand_ins):
        for name, parts in stand_ins.items():
            stand_in = types.ModuleType(name)
            stand_in.__dict__.update(parts)
            monkeypatch.setitem(sys.modules, name, stand_in)
        monkeypatch.delitem(sys.modules, module, raising=False)
        loaded = importlib.import_module(module)
        # So that nothing later finds the module with the stand-in in it.
        monkeypatch.delitem(sys.modules, module)
        return loaded

    def test_embedding_search_is_the_cosine(self):
        peer = peers.build("embedding search", self.VECTORS)
        peer.fit(self.CATALOG, History([]))
        assert peer.scores("a text").tolist() == [0.6, 0.8, 0.0]

    def test_the_order_of_a_store_becomes_scores(self, monkeypatch):
        pytest.importorskip("langgraph")

        def default(namespace, *, limit):
            def retrieve(query, *, store):
                return [item.key for item in store.search(namespace, query=query, limit=limit)]

            return retrieve, None

        stand_ins = {
            "langgraph_bigtool": {},
            "langgraph_bigtool.tools": {"get_default_retrieval_tool": default},
        }
        module = self.load(monkeypatch, "benchmarks.peers.tool_store", stand_ins)
        peer = module.ToolStore(self.VECTORS)
        peer.fit(self.CATALOG, History([]))
        assert peer.scores("a text").tolist() == [19, 20, 18]

    @pytest.mark.parametrize("vectors", [None, VECTORS])
    def test_a_graph_is_given_tools_and_vectors(self, monkeypatch, vectors):
        given = []

        class ToolGraph:
            def add_tools(self, tools):
                given.extend(tools)

            def retrieve_with_scores(self, request, *, top_k):
                assert (request, top_k) == ("a text", 20)
                return [types.SimpleNamespace(tool=given[2], score=0.5)]

            def _get_retrieval_engine(self):
                return types.SimpleNamespace(set_embedding_index=given.append)

        class Index(dict):
            def __init__(self, provider):
                self.provider = provider

            def add(self, name, vector):
                self[name] = vector

        stand_ins = {
            "graph_tool_call": {"ToolGraph": ToolGraph},
            "graph_tool_call.core": {},
            "graph_tool_call.core.tool": {
                "ToolSchema": types.SimpleNamespace,
                "parse_mcp_tool": lambda tool: types.SimpleNamespace(**tool),
            },
            "graph_tool_call.retrieval": {},
            "graph_tool_call.retrieval.embedding": {
                "EmbeddingIndex": Index,
                "wrap_embedding": lambda embed: embed,
            },
        }
        module = self.load(monkeypatch, "benchmarks.peers.tool_graph", stand_ins)
        peer = module.GraphToolCall(vectors)
        peer.fit(self.CATALOG, History([]))
        maps, sms, mail, *index = given
        assert (maps.name, maps.description) == ("maps", "Big Maps: Shows places.")
        assert maps.tags == ["Mapping"]
        assert maps.inputSchema["properties"] == {"place": {"type": "str"}}
        assert sms.inputSchema["properties"] == {"to": {}}
        assert mail.inputSchema["properties"] == {"properties": {"type": "str"}}
        assert peer.scores("a text").tolist() == [0, 0, 0.5]
        assert [each["sms"] for each in index] == ([] if vectors is None else [[0, 1, 0]])
        for each in index:
            assert each.provider(["a text"]) == [[0.6, 0.8, 0]]


@pytest.fixture
def main(monkeypatch, fake):
    """The entry point, with a fake peer, an absent one, and a router that is quick to fit."""
    registered = {
        "fake": replace(fake, needs_history=False),
        "needing": fake,
        "absent": Entry("nowhere", "Absent", ("no_such_package",)),
    }
    for module in (peers, quality, learning_curve, run):
        monkeypatch.setattr(module, "PEERS", registered)
    monkeypatch.setattr(learning_curve, "fit_router", SpecificationRouter)
    monkeypatch.setattr(quality, "in_child", lambda function, *arguments: function(*arguments))
    return run.main


@pytest.fixture(scope="module")
def folder(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    sample.catalog.write(folder / "apis.jsonl")
    sample.history[:60].write(folder / "mashups-train.jsonl")
    sample.history[300:310].write(folder / "mashups-dev.jsonl")
    return folder


def test_quality_measures_them_in_the_same_run(main, folder, tmp_path, capsys):
    file = tmp_path / "quality.json"
    only = ["--only", "popularity", "fake", "absent"]
    assert main(["quality", "--data", str(folder), *only, "--json", str(file), "--full"]) == 0
    out = capsys.readouterr().out
    assert "absent: not installed (pip install --group peers)." in out
    assert "| fake (peer) " in out
    assert "| absent" not in out
    found = json.loads(file.read_text())["routers"]["fake"]
    assert found["fit_seconds"] >= 0
    assert set(found["splits"]["dev"]["dated"]) == {
        "requests", "skipped", "dated", "with_date", "ranking", "recommendation", "latency_ms",
    }  # fmt: skip


def test_quality_without_history_on_a_part_of_the_requests(main, folder, tmp_path, capsys):
    file = tmp_path / "quality.json"
    only = ["--only", "popularity", "specification", "fake", "needing"]
    part = ["--without-history", "--limit", "4"]
    assert main(["quality", "--data", str(folder), *only, *part, "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "Learned from 0 mashups" in out
    assert "Requests: 4 of dev;" in out
    assert "Rolling origin" not in out
    routers = json.loads(file.read_text())["routers"]
    assert list(routers) == ["specification", "fake"]
    found = routers["fake"]["splits"]["dev"]["dated"]
    assert (found["requests"], found["recommendation"]["mean_apis"]) == (4, 1)
    assert Fake.fits == [set()]


def test_quality_without_peers(main, folder, capsys):
    assert main(["quality", "--data", str(folder), "--only", "popularity"]) == 0
    assert "(peer)" not in capsys.readouterr().out


def test_the_learning_curve_has_them_warm_and_cold_apart(main, folder, tmp_path, capsys):
    file, plots = tmp_path / "curve.json", tmp_path / "plots"
    few = ["--sizes", "0", "15", "all", "--draws", "2", "--plots", str(plots), "--json", str(file)]
    assert main(["learning_curve", "--data", str(folder), *few]) == 0
    assert "absent: not installed (pip install --group peers)." in capsys.readouterr().out
    sizes = json.loads(file.read_text())["splits"]["dev"]
    assert "needing" not in sizes["0"]["routers"]  # it needs history
    assert sizes["0"]["requests"] == {"warm": 0, "cold": 10}
    assert 0 < sizes["15"]["requests"]["warm"] <= sizes["all"]["requests"]["warm"] <= 10
    none = sizes["0"]["routers"]["BM25"]
    assert (none["R@5 warm"], none["R@5 cold"]) == (None, none["R@5"])
    fake = sizes["15"]["routers"]["fake"]
    assert 0 <= fake["R@5 cold"] <= fake["R@20 cold"] <= 1
    assert fake["R@20 warm"] is not None
    assert (fake["recipients"], fake["ECE"]) == (None, None)
    assert {"BM25", "fake"} <= set(sizes["all"]["routers"])
    drawing = (plots / "learning-curve.svg").read_text()
    ElementTree.fromstring(drawing)
    assert "fake" in drawing


def test_recalls_by_hand(fake):
    history = mashups(("mm", ("maps", "mail")), ("tt", ("tides",)))
    peer = Fake()
    peer.fit(CATALOG, History([]))
    fitted = FittedPeer(peer, Fake, CATALOG, History([]))
    figures = [fitted.figures(mashup) for mashup in history]
    found = learning_curve._warm_and_cold([figures, figures], [{"maps"}, {"maps", "tides"}])
    assert found == {"R@5 warm": 1, "R@20 warm": 1, "R@5 cold": 1, "R@20 cold": 1}
    assert learning_curve._warm_and_cold([figures], [set()])["R@5 warm"] is None


def test_vectors_that_are_missing_are_an_error(main, folder, tmp_path, capsys):
    arguments = ["learning_curve", "--data", str(folder), "--vectors", str(tmp_path / "no.npz")]
    assert main(arguments) == 1
    assert "no vectors can be read" in capsys.readouterr().err
