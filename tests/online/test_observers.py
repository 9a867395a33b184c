from __future__ import annotations

import re
from pathlib import Path

import pytest

from cnp_router.catalog import Catalog
from cnp_router.exceptions import UnknownApiError
from cnp_router.history import Mashup
from cnp_router.online import OnlineStore, RouterObserver
from cnp_router.trajectories import Step, Trajectory

NEW = [Mashup(f"new{n}", f"tell me the tides {n}", ("tides",)) for n in range(5)]


class Learner:
    """Remembers what a fitted router would learn."""

    def __init__(self, catalog):
        self.catalog = catalog
        self.calls = []
        self.known = {"new0", "new1"}  # its history

    def observe(self, mashups):
        self.calls.append([mashup.id for mashup in mashups])
        known, self.known = self.known, self.known | {mashup.id for mashup in mashups}
        return len(self.known) - len(known)

    @property
    def ids(self):
        return [name for call in self.calls for name in call]


def test_mashups_are_learned_at_once_and_again_when_opened(tmp_path, catalog):
    live, again = Learner(catalog), Learner(catalog)
    with OnlineStore(tmp_path / "o", [RouterObserver(live)], checkpoint_every=3) as store:
        for mashup in (*NEW, NEW[0]):
            store.observe(mashup)
        store.observe(Trajectory("t", "Rain?", (Step("x"),)))
    OnlineStore(tmp_path / "o", [RouterObserver(again)], read_only=True)
    assert live.ids == again.ids == [mashup.id for mashup in NEW]
    assert len(again.calls) == 1


def test_what_is_in_the_log_alone_is_learned_at_once_when_opened(tmp_path, catalog):
    again = Learner(catalog)
    store = OnlineStore(tmp_path / "o", [RouterObserver(Learner(catalog))])
    for mashup in NEW:
        store.observe(mashup)
    OnlineStore(tmp_path / "o", [RouterObserver(again)], read_only=True)  # no checkpoint yet
    store.close()
    assert again.calls == [[mashup.id for mashup in NEW]]


def test_how_many_were_new_to_the_router(tmp_path, catalog):
    observer = RouterObserver(Learner(catalog))
    with OnlineStore(tmp_path / "o", [observer]) as store:
        for mashup in NEW[:3]:
            store.observe(mashup)
        assert observer.n_learned == 1


def test_an_unknown_api_is_refused_before_it_is_kept(tmp_path, catalog):
    learner = Learner(catalog)
    with OnlineStore(tmp_path / "o", [RouterObserver(learner)]) as store:
        with pytest.raises(UnknownApiError, match="'tidse'"):
            store.observe(Mashup("m", "tides", ("tidse",)))
        assert store.sequence == 0
    assert learner.ids == []


def test_what_a_later_catalog_does_not_have_is_left_out_and_said(tmp_path, catalog, caplog):
    with OnlineStore(tmp_path / "o", [RouterObserver(Learner(catalog))]) as store:
        store.observe(NEW[0])
        store.observe(Mashup("m", "Mail me", ("mail",)))
    smaller = Learner(Catalog(api for api in catalog if api.id != "tides"))
    with OnlineStore(tmp_path / "o", [RouterObserver(smaller)]) as store:
        store.observe(Mashup("m2", "Mail me", ("mail",)))
    assert smaller.ids == ["m", "m2"]
    assert "mashups that name APIs the catalog does not have, left out: 1" in caplog.text
    whole = Learner(catalog)
    OnlineStore(tmp_path / "o", [RouterObserver(whole)], read_only=True)
    assert whole.ids == ["new0", "m", "m2"]


def test_a_model_is_saved_again_while_its_store_is_open(tmp_path, sample_router, catalog):
    sample_router.save(tmp_path / "m")
    learner = Learner(catalog)
    with OnlineStore(tmp_path / "m" / "online.sqlite", [RouterObserver(learner)]) as store:
        store.observe(NEW[0])
        sample_router.save(tmp_path / "m", overwrite=True)
        store.observe(NEW[1])
    again = Learner(catalog)
    OnlineStore(tmp_path / "m" / "online.sqlite", [RouterObserver(again)], read_only=True)
    assert again.ids == [mashup.id for mashup in NEW[:2]]


def test_the_observer_of_the_docs_runs(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "online.md"
    (code,) = re.findall(r"^```python\n(.*?class Usage.*?)^```$", page.read_text(), re.M | re.S)
    monkeypatch.chdir(tmp_path)
    exec(code.rpartition("```python\n")[2], {})
    assert (tmp_path / "usage.sqlite").exists()
