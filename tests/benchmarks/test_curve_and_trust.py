"""The tracks about little history, cold APIs and trust, on little data, and not what they say."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.routing import SpecificationRouter

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def main(monkeypatch):
    """The benchmarks' entry point, with a router that is quick to fit."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import learning_curve, run, trust

    monkeypatch.setattr(learning_curve, "fit_router", SpecificationRouter)
    monkeypatch.setattr(trust, "fit_router", SpecificationRouter)
    monkeypatch.setattr(learning_curve, "PEERS", {})
    monkeypatch.setattr(learning_curve.peers, "PEERS", {})
    return run.main


@pytest.fixture(scope="module")
def folder(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    sample.catalog.write(folder / "apis.jsonl")
    sample.history[:100].write(folder / "mashups-train.jsonl")
    sample.history[300:320].write(folder / "mashups-dev.jsonl")
    sample.history[320:345].write(folder / "mashups-dev-late.jsonl")
    return folder


def test_the_learning_curve(main, folder, tmp_path, capsys):
    file = tmp_path / "curve.json"
    sizes = ["--sizes", "0", "15", "200", "all"]
    few = ["--draws", "2", "--limit", "22", "--json", str(file)]
    assert main(["learning_curve", "--data", str(folder), *sizes, *few]) == 0
    out = capsys.readouterr().out
    assert "Requests: 22 of dev-late, 20 of dev;" in out
    results = json.loads(file.read_text())["splits"]
    assert list(results) == ["dev-late", "dev"]
    assert list(results["dev"]) == ["0", "15", "all"]  # there are no 200
    assert list(results["dev"]["0"]["routers"]) == ["learned", "BM25", "TF-IDF"]
    assert list(results["dev"]["15"]["routers"])[3:] == ["nearest requests"]
    assert results["dev"]["0"]["routers"]["BM25"]["repeats R@5"] is None
    assert results["dev"]["15"]["routers"]["nearest requests"]["repeats R@5"] > 0.9
    assert set(results["dev"]["all"]["comparison"]) == {"R@5", "R@20", "F1", "recipients"}
    assert "0 drops" in out  # it is compared with itself, and with others


@pytest.mark.parametrize("track", ["learning_curve", "trust", "compound"])
def test_held_out_requests_are_asked_as_of_their_date(main, folder, tmp_path, monkeypatch, track):
    from benchmarks import compound, learning_curve, trust

    asked = set()

    class Asked(SpecificationRouter):
        def __init__(self, catalog, history=None, **_):
            super().__init__(catalog, history)

        def _scores(self, request, known, date):
            asked.add((request, date))
            return super()._scores(request, known, date)

    for module in (compound, learning_curve, trust):
        monkeypatch.setattr(module, "fit_router", Asked)
    for file in folder.iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    first = datetime.date(2012, 1, 1)
    held = [
        replace(m, date=first + datetime.timedelta(i) if i % 2 else None)
        for i, m in enumerate(History.read(folder / "mashups-dev.jsonl"))
    ]
    History(held).write(tmp_path / "mashups-dev.jsonl")
    few = ["--sizes", "15", "--draws", "1"] if track == "learning_curve" else []
    assert main([track, "--data", str(tmp_path), *few]) == 0
    assert {(m.description, m.date) for m in held} <= asked
    texts = {m.description for m in held if m.date}
    assert all(date for text, date in asked if text in texts)


def test_a_log_of_patterns(main, tmp_path, monkeypatch):
    from benchmarks import patterns

    monkeypatch.setattr(patterns, "SIZES", (72,))
    file = tmp_path / "patterns.json"
    assert main(["patterns", "--json", str(file)]) == 0
    found = json.loads(file.read_text())["sizes"]["72"]
    assert found["the same patterns"]["F1"] > found["quite other words"]["F1"]
    assert found["nothing"]["refused"] > found["the same patterns"]["refused"]


def test_the_learning_curve_needs_numbers(main, capsys):
    with pytest.raises(SystemExit):
        main(["learning_curve", "--sizes", "many"])
    assert "a number or 'all', not 'many'" in capsys.readouterr().err


def test_a_drop_is_large_and_no_chance(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.learning_curve import verdict

    rng = np.random.default_rng(0)
    some = rng.random(400)
    assert verdict(some, some)["verdict"] == "ok"
    assert verdict(some, some + 0.009)["verdict"] == "ok"  # below .01
    assert verdict(some, some + 0.02)["verdict"] == "drop"
    assert verdict(some + 0.02, some)["verdict"] == "ok"
    noisy = some + 0.02 + rng.normal(0, 1, 400)
    assert verdict(some, noisy)["verdict"] == "ok"  # within two standard errors
    found = verdict(np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    assert (found["difference"], found["error"]) == (-0.5, 0.5)


def test_repeats_lose_a_fifth_of_their_words(monkeypatch, sample):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.learning_curve import repeats

    past = sample.history[:60]
    shorter = repeats(past, np.random.default_rng(1))
    assert len(shorter) == 40
    for mashup in shorter:
        (whole,) = (m for m in past if m.id == mashup.id)
        said, left = whole.description.split(), mashup.description.split()
        assert len(left) == len(said) - max(round(len(said) / 5), 1)
        words = iter(said)
        assert all(word in words for word in left)  # in their order
        assert mashup.apis == whole.apis
    again = repeats(past, np.random.default_rng(1))
    assert again == shorter
    japanese = History([Mashup("m", "明日の雨を知らせて", ("sms",)), Mashup("n", "雨", ("sms",))])
    (one,) = repeats(japanese, np.random.default_rng(0))
    assert len(one.description) == 7


def test_the_tfidf_baseline(monkeypatch, sample):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.learning_curve import TfidfRouter

    catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    assert TfidfRouter(catalog).recommend("It sends texts") == ("sms",)
    fitted = TfidfRouter(sample.catalog, sample.history[:50])
    assert fitted.recall_control is not None
    assert fitted.route("Show me maps of my town").n_mashups in (0, 50)


def test_trust(main, folder, tmp_path, capsys):
    file = tmp_path / "trust.json"
    options = ["--limit", "10", "--final", "--json", str(file)]
    assert main(["trust", "--data", str(folder), *options]) == 0
    out = capsys.readouterr().out
    assert "left out, which an API of the catalog may serve" in out
    results = json.loads(file.read_text())
    assert list(results["past mashups"]) == ["100", "0", "15"]
    full = results["past mashups"]["100"]
    assert list(full["out of scope"]) == ["bundled", "kept for the end"]
    groups = full["out of scope"]["bundled"]
    assert sum(g["texts"] for name, g in groups.items() if "," in name) == groups["all"]["texts"]
    assert groups["all"]["texts"] >= 100
    assert list(full["held out"]["dev"]) == ["whole", "first 7 words"]
    assert 0 <= full["restricted"]["dev"]["AUROC"]["confidence"] <= 1
    mix = full["restricted"]["dev"]["calibration"]["confidence, even mix"]["bins"]
    assert sum(one["requests"] for one in mix) == 20
    assert len(results["unseen categories"]) == 2
    for draw in results["unseen categories"]:
        assert len(draw["removed"]) == round(len(set(_main(folder))) / 3)
    assert out.count("pass |") + out.count("FAIL |") == len(results["marks"])
    assert main(["trust", "--data", str(folder), "--limit", "5"]) == 0
    assert "kept for the end" not in capsys.readouterr().out


def _main(folder):
    return [api.categories[0] for api in Catalog.read(folder / "apis.jsonl")]


def test_a_catalog_without_categories(main, sample, folder, tmp_path, capsys):
    Catalog(Api(a.id, a.name, a.description) for a in sample.catalog).write(tmp_path / "apis.jsonl")
    for file in folder.glob("mashups*"):
        (tmp_path / file.name).write_text(file.read_text())
    assert main(["trust", "--data", str(tmp_path), "--limit", "5"]) == 0
    assert "The catalog has no categories: none can be left out." in capsys.readouterr().out


def test_a_reliability_table(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.measures import auroc
    from benchmarks.trust import Judged, Mark, _reliability

    judged = [
        Judged(0.95, 1.0, True, True, True),
        Judged(0.91, 1.0, True, False, True),
        Judged(1.0, 1.0, True, True, True),
        Judged(0.05, 0.2, False, False, False),
    ]
    found = _reliability(judged, "confidence", "is_covered")
    assert [one["requests"] for one in found["bins"]] == [1, 3]
    assert found["bins"][1]["share"] == pytest.approx(2 / 3)
    assert found["ece"] == pytest.approx((0.05 + (2.86 - 2)) / 4)
    assert auroc([0.9, 0.8], [0.1, 0.85]) == 0.75
    assert auroc([0.9], []) is None
    assert Mark("x", 0.04, most=0.05).row()[3] == "pass"
    assert Mark("x", 0.06, most=0.05).row()[3] == "FAIL"
    assert Mark("x", 0.06, least=0.05).row()[1:] == ["0.060", "at least 0.05", "pass"]


def test_cold(main, folder, tmp_path, capsys):
    file = tmp_path / "cold.json"
    assert main(["cold", "--data", str(folder), "--limit", "10", "--json", str(file)]) == 0
    histories = json.loads(file.read_text())["histories"]
    used = {api for mashup in History.read(folder / "mashups-train.jsonl") for api in mashup.apis}
    assert max(found["apis"] for found in histories) <= len(used) / 2 + 1
    said = capsys.readouterr().out
    for found in histories:
        assert f"{found['mashups']} past mashups of {found['apis']} of 149 APIs" in said
        assert {row["kind"] for row in found["requests"]} >= {"cold"}
        for row in found["requests"]:
            assert 0 < row["n"] <= 10
            assert all(0 <= row[key] <= 1 for key in ("R@5", "F1", "confident"))
    alike = [row for row in histories[0]["requests"] if row["router"] == "without history"]
    assert len(alike) == len({(row["split"], row["kind"]) for row in alike})


def test_removed(main, folder, tmp_path):
    file = tmp_path / "removed.json"
    assert main(["removed", "--data", str(folder), "--json", str(file)]) == 0
    found = json.loads(file.read_text())["found"]
    assert found
    for removal in found:
        ways = {row.pop("router"): row for row in removal["ways"]}
        assert all(0 <= value <= 1 for row in ways.values() for value in row.values())
        as_it_was, gone = ways["as it was"], ways["removed (synced)"]
        assert gone["lost: nothing fits"] >= as_it_was["lost: nothing fits"]
        assert gone["AUROC"] > as_it_was["AUROC"]
