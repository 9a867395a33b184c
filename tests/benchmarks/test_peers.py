"""Other libraries in the benchmarks: the seam by a fake, and each library where it is installed."""

from __future__ import annotations

import json
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

    @pytest.mark.filterwarnings("ignore")  # those of the peers are for them to mend
    @pytest.mark.parametrize("name", PEERS)
    def test_it_ranks(self, name, sample):
        """Where it is installed."""
        history = sample.history[:200]
        rng = np.random.default_rng(0)
        texts = [*history.texts, *map(specification_text, sample.catalog)]
        vectors = dict(zip(texts, rng.normal(size=(len(texts), 4096)), strict=True))
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
        assert seen > (15 if name == "bm25s" else 40)  # which knows no past requests
        if not PEERS[name].needs_vectors:
            assert peer.scores("?! ...").shape == (len(sample.catalog),)
        if not PEERS[name].needs_history:
            peer.fit(sample.catalog, History([]))
            assert peer.scores(mashup.description).shape == (len(sample.catalog),)


@pytest.fixture
def main(monkeypatch, fake):
    """The entry point, with a fake peer, an absent one, and a router that is quick to fit."""
    registered = {"fake": fake, "absent": Entry("nowhere", "Absent", ("no_such_package",))}
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


def test_quality_without_peers(main, folder, capsys):
    assert main(["quality", "--data", str(folder), "--only", "popularity"]) == 0
    assert "(peer)" not in capsys.readouterr().out


def test_the_learning_curve_has_them_warm_and_cold_apart(main, folder, tmp_path, capsys):
    file, plots = tmp_path / "curve.json", tmp_path / "plots"
    few = ["--sizes", "0", "15", "all", "--draws", "2", "--plots", str(plots), "--json", str(file)]
    assert main(["learning_curve", "--data", str(folder), *few]) == 0
    assert "absent: not installed (pip install --group peers)." in capsys.readouterr().out
    sizes = json.loads(file.read_text())["splits"]["dev"]
    assert "fake" not in sizes["0"]["routers"]  # it needs history
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
