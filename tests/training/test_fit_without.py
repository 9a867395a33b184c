"""A router that has forgotten something is one that was fitted without it."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from planted import planted
from word_vectors import WordVectors

from cnp_router import checks
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import InputError
from cnp_router.forgetting import Forgetting
from cnp_router.history import History, Mashup
from cnp_router.storage import state_to_bytes
from cnp_router.training import fit_router, fit_without, load_router, remainder

WORLD = planted(n_cliques=3, size=3, rounds=3)
HISTORY = History(
    replace(m, user="ann@here" if number % 5 == 0 else "bob")
    for number, m in enumerate(WORLD.history)
)
SEED = 7


@pytest.fixture(scope="module")
def router():
    return fit_router(WORLD.catalog, HISTORY, random_state=SEED)


def fitted(catalog, mashups):
    return fit_router(catalog, History(mashups), random_state=SEED)


def same(left, right):
    return state_to_bytes(left.state()) == state_to_bytes(right.state())


def test_a_mashup(router):
    gone = HISTORY[4].id
    router = copy.copy(router)
    router.compound = True
    now = fit_without(router, Forgetting(mashups=(gone,)))
    assert now.compound is True
    other = fitted(WORLD.catalog, [m for m in HISTORY if m.id != gone])
    assert same(now, other) and not same(now, router)
    assert now.history == other.history and now.summary["mashups"] == len(HISTORY) - 1


def test_a_user(router, tmp_path):
    now = fit_without(router, Forgetting(users=("ann@here",)))
    other = fitted(WORLD.catalog, [m for m in HISTORY if m.user != "ann@here"])
    assert same(now, other)
    now.save(tmp_path / "model")
    files = [path.read_bytes() for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert not any(b"ann@here" in content for content in files)
    assert same(load_router(tmp_path / "model"), other)
    checks.check_router(now, load=load_router)


def test_an_api(router):
    gone = WORLD.catalog[0].id
    left = [m for m in HISTORY if m.apis != (gone,)]
    now = fit_without(router, Forgetting(apis=(gone,)))
    without = [replace(m, apis=tuple(a for a in m.apis if a != gone)) for m in left]
    other = fitted(Catalog(WORLD.catalog[1:]), without)
    assert same(now, other)
    assert gone not in now.apis and now.removed == ()
    assert not any(gone in m.apis for m in now.history)


def test_what_was_observed_is_fitted_on_too(router):
    seen = fit_router(WORLD.catalog, HISTORY[5:], random_state=SEED)
    seen.observe(list(HISTORY[:5]))
    gone = HISTORY[10].id
    now = fit_without(seen, Forgetting(mashups=(gone,)))
    order = [*HISTORY[5:], *HISTORY[:5]]
    assert same(now, fitted(WORLD.catalog, [m for m in order if m.id != gone]))


def test_with_an_encoder(tmp_path):
    past = HISTORY[:12]
    router = fit_router(WORLD.catalog, past, encoder=WordVectors())
    what = Forgetting(mashups=(past[0].id,))
    now = fit_without(router, what)
    assert same(now, fit_router(WORLD.catalog, past[1:], encoder=WordVectors()))
    router.save(tmp_path / "model")
    with pytest.raises(InputError, match="give the encoder when it is loaded"):
        fit_without(load_router(tmp_path / "model"), what)


def test_nothing_of_it(router):
    what = Forgetting(mashups=("no such",), users=("eve",), apis=("telex",))
    assert fit_without(router, what) is router
    assert not remainder(router, what)


def test_all_history(router):
    now = fit_without(router, Forgetting(users=("ann@here", "bob")))
    assert len(now.history) == 0 and now.route("anything").recipients


def test_the_only_api():
    router = fit_router(Catalog([Api("sms", "SMS")]), History([Mashup("m", "Text me.", ("sms",))]))
    with pytest.raises(InputError, match="no API would be left"):
        fit_without(router, Forgetting(apis=("sms",)))


class TestAfterSync:
    """Some APIs were removed from the catalog before."""

    GONE = WORLD.catalog[0].id

    @pytest.fixture(scope="class")
    @classmethod
    def synced(cls, router):
        extra = Mashup("alone", "Only this.", (cls.GONE,))
        grown = fit_router(WORLD.catalog, History([*HISTORY, extra]), random_state=SEED)
        return grown.synced(Catalog(WORLD.catalog[1:]))

    def test_they_stay_removed(self, synced, tmp_path):
        what = Forgetting(mashups=(HISTORY[3].id,))
        left = remainder(synced, what)
        assert left.removed == (self.GONE,)
        now = fit_without(synced, what)
        assert now.removed == (self.GONE,) and now.summary["removed"] == [self.GONE]
        assert self.GONE not in now.apis
        assert {m.id for m in now.history} == {m.id for m in synced.history} - {HISTORY[3].id}
        now.save(tmp_path / "model")
        assert load_router(tmp_path / "model").removed == (self.GONE,)

    def test_and_come_back_with_their_history(self, synced):
        now = fit_without(synced, Forgetting(mashups=(HISTORY[3].id,)))
        back = now.synced(WORLD.catalog)
        used = sum(self.GONE in m.apis for m in HISTORY if m.id != HISTORY[3].id)
        assert back.views.corpus.counts[0] == used + 1  # that of which it served all, too
        np.testing.assert_array_equal(back.views.corpus.counts[1:], now.views.corpus.counts)

    def test_one_that_is_forgotten_too(self, synced):
        now = fit_without(synced, Forgetting(apis=(self.GONE,)))
        assert now.removed == () and "removed" not in now.summary
        assert not any(self.GONE in m.apis for m in now.history)
