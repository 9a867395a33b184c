"""The view of the date, and what a date changes."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pytest

from cnp_router import Api, Catalog, History, Mashup, fit_router, load_router
from cnp_router.training.corpus import UNKNOWN, Corpus
from cnp_router.training.examples import Past
from cnp_router.training.views import Views, date, popularity
from cnp_router.training.views.columns import Pairs
from cnp_router.training.views.date import DateView

CATALOG = Catalog(Api(name, name, "It shows maps.") for name in ("old", "middle", "new", "never"))
DAYS = (datetime.date(2010, 1, 1), datetime.date(2011, 1, 1), datetime.date(2012, 1, 1))


@pytest.fixture(scope="module")
def view():
    """Three past requests for the same, each served by another API, a year apart."""
    history = History(
        Mashup(api, "a map of bars in town", (api,), date=day)
        for api, day in zip(("old", "middle", "new"), DAYS, strict=True)
    )
    past = Past.of(CATALOG, history, random_state=0)
    corpus = Corpus.of(past.specifications, past.requests, past.usage, past.membership)
    return Views.fit(corpus, past.requests, (*past.kinds, DateView))[DateView], past


def scores(view, day):
    own, past = view
    views = Views.fit(own.corpus, past.requests, (*past.kinds, DateView))
    days = np.array([UNKNOWN if day is None else day.toordinal()])
    batch = views.batch(past.encoders.encode(["a map of bars in town"], days))
    columns = views[DateView].scored(batch)
    everyone = Pairs.across([np.arange(4)])
    return {name: column.at(everyone) for name, column in columns.items()}, batch, views


@pytest.mark.parametrize(("day", "best"), list(zip(DAYS, range(3), strict=True)))
def test_what_was_used_at_the_time_is_first(view, day, best):
    found, _, _ = scores(view, day)
    for name, values in found.items():
        assert values.argmax() == best, name
        assert values[3] == 0, name


def test_the_formulas(view):
    found, batch, views = scores(view, DAYS[2])
    years = np.array([(DAYS[2] - day).days / 365.25 for day in DAYS])
    np.testing.assert_allclose(
        found["popular in the year"][:3], 0.5**years / (0.5**years).sum(), rtol=1e-4
    )
    quarter = 0.5 ** (years / 0.25)
    np.testing.assert_allclose(
        found["neighbours of the quarter"][:3], quarter / quarter.sum(), rtol=1e-3
    )
    np.testing.assert_allclose(found["last used"][:3], np.exp(-years / 0.5), rtol=1e-4)
    nearest = found["nearest of the time"][:3]
    np.testing.assert_allclose(nearest / nearest[2], 0.5 ** (years / 2), rtol=1e-4)
    ((months, density, later),) = views[DateView].request_features(batch)
    assert (months, later) == (0, 0)
    assert density == pytest.approx(np.log(0.01 + quarter.sum()), rel=1e-4)


def test_an_unknown_date_is_the_newest_of_the_history(view):
    unknown, _, _ = scores(view, None)
    newest, _, _ = scores(view, DAYS[2])
    for name, values in unknown.items():
        np.testing.assert_array_equal(values, newest[name])


class Cleared(dict):
    """What is kept, where another thread clears it after each look."""

    def get(self, key, default=None):
        found = super().get(key, default)
        self.clear()
        return found

    def keys(self):
        found = set(super().keys())
        self.clear()
        return found


def test_another_thread_may_clear_what_is_kept(view):
    own = replace(view[0])
    days = np.array([day.toordinal() for day in DAYS], dtype=np.float32)
    wanted = [time.quarter for time in own._at(days)]
    own.__dict__["_kept"] = Cleared(own._kept)
    assert [time.quarter for time in own._at(days)] == wanted


def test_of_many_days_only_some_are_kept(view, monkeypatch):
    monkeypatch.setattr(date, "_CELLS", 0)
    own, first = replace(view[0]), DAYS[0].toordinal()
    for begin in range(0, 60, 6):
        days = np.arange(begin, begin + 6 + begin % 12, dtype=np.float32) + np.float32(first)
        assert [time.day for time in own._at(days)] == days.tolist()
        assert 0 < len(own._kept) <= 8


def test_requests_of_several_days_are_answered_as_each_alone(view):
    own, past = view
    views = Views.fit(own.corpus, past.requests, (*past.kinds, DateView))
    days = np.array([DAYS[i].toordinal() + more for i in (2, 0, 1) for more in (0, 45)])
    texts = ["a map of bars in town"] * len(days)
    together = views.batch(past.encoders.encode(texts, days))
    context = views[DateView].request_features(together)
    for row, day in enumerate(days):
        found, batch, alone = scores(view, datetime.date.fromordinal(int(day)))
        np.testing.assert_array_equal(context[[row]], alone[DateView].request_features(batch))
        for name, column in views[DateView].scored(together).items():
            everyone = Pairs.across([np.arange(4)] * len(days))
            np.testing.assert_array_equal(column.at(everyone)[4 * row : 4 * row + 4], found[name])


def test_how_long_after_the_history(view):
    _, batch, views = scores(view, DAYS[2] + datetime.timedelta(days=300))
    ((months, _, later),) = views[DateView].request_features(batch)
    assert months == pytest.approx(np.log1p(10))
    assert later == 0
    assert views.corpus.months_after(DAYS[0].toordinal()) < -20


WORDS = ("bar", "park", "shop", "beach", "museum", "cinema", "hotel", "school", "bridge", "sea")


def drifting(n=600):
    """First one API serves all who ask for a map, then another."""
    rng = np.random.default_rng(0)
    words = np.array(WORDS)
    start = datetime.date(2015, 1, 1)
    mashups = []
    for i in range(n):
        text = "a map of every " + " ".join(rng.choice(words, 3, replace=False))
        api = "old" if i < n // 2 else "new"
        mashups.append(Mashup(str(i), text, (api,), date=start + datetime.timedelta(days=2 * i)))
    return History(mashups)


@pytest.fixture(scope="module")
def dated_router():
    return fit_router(CATALOG, drifting())


class TestRouter:
    request_ = "a map of every bar park bridge"

    def test_a_request_is_answered_as_of_its_date(self, dated_router):
        then = dated_router.score(self.request_, date=datetime.date(2015, 6, 1))
        now = dated_router.score(self.request_, date=datetime.date(2018, 6, 1))
        assert then.top(1)[0][0] == "old" and now.top(1)[0][0] == "new"
        assert then.months < 0 < now.months

    def test_without_a_date_it_is_asked_on_the_newest_one(self, dated_router):
        newest = max(mashup.date for mashup in dated_router.history)
        plain, dated = (
            dated_router.score(self.request_),
            dated_router.score(self.request_, date=newest),
        )
        np.testing.assert_array_equal(plain.probabilities, dated.probabilities)
        assert plain.months == dated.months == 0

    def test_it_is_saved(self, dated_router, tmp_path):
        dated_router.save(tmp_path / "model")
        again, day = load_router(tmp_path / "model"), datetime.date(2015, 3, 1)
        assert (
            again.route(self.request_, date=day).to_dict()
            == dated_router.route(self.request_, date=day).to_dict()
        )

    def test_a_history_without_dates_has_no_such_view(self, dated_router):
        undated = History(Mashup(m.id, m.description, m.apis) for m in drifting())
        router = fit_router(CATALOG, undated)
        assert DateView in dated_router.views.kinds
        assert DateView not in router.views.kinds
        day = datetime.date(2015, 6, 1)
        assert (
            router.route(self.request_, date=day).to_dict() == router.route(self.request_).to_dict()
        )

    def test_observing_moves_the_threshold_and_it_is_saved(self, tmp_path):
        router = fit_router(CATALOG, drifting())
        before = router.recall_control.shift
        day = datetime.date(2018, 6, 1)
        router.observe(
            Mashup(f"more {i}", f"{self.request_} {i}", ("never",), date=day) for i in range(20)
        )
        assert router.recall_control.shift != before == 0
        router.save(tmp_path / "model")
        assert load_router(tmp_path / "model").recall_control.shift == router.recall_control.shift


@pytest.mark.parametrize("best", [3, 128])
def test_a_history_of_many_apis_says_the_same(sample, monkeypatch, best):
    rng = np.random.default_rng(0)
    first = datetime.date(2006, 1, 1).toordinal()
    days = first + rng.integers(0, 2_500, len(sample.history))
    history = History(
        replace(mashup, date=datetime.date.fromordinal(int(day)))
        for mashup, day in zip(sample.history, days, strict=True)
    )
    catalog = Catalog([Api("never", "Never", "Nobody used it."), *sample.catalog])
    past = Past.of(catalog, history, random_state=0)
    corpus = Corpus.of(past.specifications, past.requests, past.usage, past.membership)
    asked = np.array([UNKNOWN, first - 900, first, first + 800, first + 800, first + 9_000])
    texts = [mashup.description for mashup in history[: len(asked)]]
    requests = past.encoders.encode(texts, asked)
    gone = [np.arange(1 + row, len(catalog), 4) for row in range(len(asked))]
    everything = Pairs.across([np.arange(len(catalog))] * len(asked))

    def found():
        views = Views.fit(corpus, past.requests, (*past.kinds, DateView))
        for absent in ((), gone):
            batch = views.batch(requests, absent)
            yield from (own.at(everything) for own in views[DateView].scored(batch).values())
            for own in views.candidates(batch):
                yield from (own.positions, own.features, own.next_best, own.n_naming)

    wanted = list(found())
    monkeypatch.setattr(popularity, "_MANY", 0)
    monkeypatch.setattr(popularity, "_BEST", best)
    for one, other in zip(found(), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
