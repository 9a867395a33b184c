from __future__ import annotations

import json
from pathlib import Path

import pytest

from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.routing import SpecificationRouter

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def twins():
    folder = ROOT / "benchmarks" / "japanese"
    return [
        (Catalog.read(place / "apis.jsonl"), History.read(place / "mashups-dev.jsonl"))
        for place in (folder / "ja", folder / "en")
    ]


def test_both_languages_have_the_same_apis_and_needs(twins):
    (japanese, asked), (english, said) = twins
    assert japanese.ids == english.ids
    assert len(japanese) == len(asked) == 30
    assert [m.apis for m in asked] == [m.apis for m in said]
    assert {api for m in asked for api in m.apis} == set(japanese.ids)
    assert all(len(m.apis) in (1, 2) for m in asked)
    assert all(japanese.ids[i].isascii() for i in range(30))
    assert [len(api.categories) for api in japanese] == [len(api.categories) for api in english]


def test_each_is_in_its_language(twins):
    (japanese, asked), (english, said) = twins
    for api in japanese:
        assert not api.description.isascii() and not "".join(api.categories).isascii()
    assert not any(text.isascii() for text in asked.texts)
    assert all(api.name.isascii() and api.description.isascii() for api in english)
    assert all(text.isascii() for text in said.texts)


def test_no_request_is_there_twice(twins):
    for _, requests in twins:
        assert len(set(requests.texts)) == len(requests)


def test_the_track(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import learning_curve, run

    monkeypatch.setattr(learning_curve, "fit_router", SpecificationRouter)
    assert run.main(["languages", "--json", str(tmp_path / "twins.json")]) == 0
    routers = json.loads((tmp_path / "twins.json").read_text())["routers"]
    assert list(routers) == ["learned", "BM25", "TF-IDF"]
    for figures in routers.values():
        assert list(figures) == ["en", "ja"]
        assert all(0 <= figure <= 1 for found in figures.values() for figure in found.values())
    assert "|       ja |   30 |       30 |" in capsys.readouterr().out
