"""How popular an API was about a day: as defined, whichever days are asked for."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from cnp_router import Api, Catalog, History, Mashup
from cnp_router.training.corpus import Corpus
from cnp_router.training.examples import Past
from cnp_router.training.views import popularity
from cnp_router.training.views.popularity import Calendar
from cnp_router.training.views.tables import Brief

APIS = [f"api{i}" for i in range(40)]
CATALOG = Catalog(Api(name, name, "It shows maps.") for name in APIS)
START = datetime.date(2006, 3, 1).toordinal()


def corpus_of(requests):
    """Return the corpus of some past requests: the day of each, and the APIs that it used."""
    history = History(
        Mashup(
            str(i),
            "a map of bars in town",
            tuple(apis),
            date=None if day is None else datetime.date.fromordinal(day),
        )
        for i, (day, apis) in enumerate(requests)
    )
    past = Past.of(CATALOG, history, random_state=0)
    return Corpus.of(past.specifications, past.requests, past.usage, past.membership)


def random_requests(n=400, years=9):
    """Return requests with a long pause, APIs that are used once, and some of unknown date."""
    rng = np.random.default_rng(3)
    requests = []
    for i in range(n):
        day = START + int(rng.integers(0, years * 365))
        if START + 1_000 < day < START + 1_700:
            day += 700
        apis = {APIS[min(int(rng.exponential(6)), 29)] for _ in range(1 + i % 3)}
        requests.append((None if i % 50 == 7 else day, sorted(apis)))
    rare = [(START + 400 * k, [APIS[30 + k]]) for k in range(8)]
    return requests + rare


HISTORIES = {
    "long": random_requests(),
    "of one day": [(START, [APIS[i], APIS[5]]) for i in range(4)],
    "of one request": [(START, [APIS[3]])],
    "of two days": [(START, [APIS[0]]), (START + 3, [APIS[0], APIS[1]]), (START + 3, [APIS[2]])],
}


@pytest.fixture(scope="module", params=HISTORIES)
def corpus(request):
    return corpus_of(HISTORIES[request.param])


def some_days(corpus):
    """Return days before the history, in it, in its pauses, on its edges and after it."""
    known = np.unique(corpus.filled_days)
    oldest, newest = int(known[0]), int(known[-1])
    outside = [1, oldest - 900, oldest - 1, newest + 1, newest + 40, newest + 1_500]
    return sorted({*outside, *known[::7].tolist(), oldest, *range(oldest, newest, 61), newest})


def plain(corpus, day):
    """Return shares by half-life, last use, weight of the quarter and share later: by definition.

    The weights are as of the day of the history that is nearest, so that none of them is too small.
    """
    usage = corpus.usage.toarray()[:, corpus.labels] > 0
    days = corpus.filled_days.astype(float)
    years = np.abs(days - day) / 365.25
    shares = []
    for half_life in (0.25, 1.0, 3.0):
        used = np.exp2(-(years - years.min()) / half_life) @ usage
        shares.append(used / used.sum())
    last = np.exp(-np.where(usage, years[:, None], np.inf).min(axis=0) / 0.5)
    return shares, last, np.exp2(-years / 0.25).sum(), (days > day).mean()


def check(calendar, corpus, day):
    found = calendar.about(float(day))
    shares, last, quarter, later = plain(corpus, day)
    for table, share in zip(found.tables[:3], shares, strict=True):
        assert table.values.dtype == np.float32
        np.testing.assert_allclose(table.values, share, rtol=2e-6)
    np.testing.assert_allclose(found.tables[3].values, last, rtol=1e-5, atol=1e-30)
    assert found.quarter == pytest.approx(quarter, rel=2e-6, abs=1e-30)
    assert found.later == pytest.approx(later)


def test_it_is_what_the_definition_says(corpus):
    calendar = Calendar(corpus)
    for day in some_days(corpus):
        check(calendar, corpus, day)


@pytest.mark.parametrize("n_blocks", [1, 2, 7])
def test_what_is_kept_is_bounded(monkeypatch, n_blocks):
    corpus = corpus_of(HISTORIES["long"])
    numbers = 8 * (len(corpus.labels) + 2)  # of a block
    monkeypatch.setattr(popularity, "_CELLS", numbers * n_blocks)
    calendar = Calendar(corpus)
    assert len(calendar._blocks) == n_blocks
    kept = (calendar._before, calendar._after, calendar._last, calendar._coming)
    assert sum(part.size for part in kept) == numbers * n_blocks
    for day in some_days(corpus)[::3]:
        check(calendar, corpus, day)


def test_a_day_costs_a_small_part_of_a_long_history():
    corpus = corpus_of(HISTORIES["long"])
    uses = [len(block.labels) for block in Calendar(corpus)._blocks]
    assert sum(uses) > 20 * max(uses)


def bits(about):
    return [table.values.tobytes() for table in about.tables], about.quarter, about.later


def test_other_days_that_are_asked_for_change_nothing(corpus):
    days = some_days(corpus)
    calendar = Calendar(corpus)
    forward = [bits(calendar.about(day)) for day in days]
    calendar = Calendar(corpus)
    assert [bits(calendar.about(day)) for day in reversed(days)] == forward[::-1]
    for day, wanted in list(zip(days, forward, strict=True))[::5]:
        assert bits(Calendar(corpus).about(day)) == wanted


def test_after_the_history_only_the_last_use_fades(corpus):
    calendar = Calendar(corpus)
    newest = corpus.newest
    *shares, last = calendar.about(newest).tables
    for years in (1, 30):
        *later, faded = calendar.about(newest + 365.25 * years).tables
        assert all(table is same for table, same in zip(later, shares, strict=True))
        np.testing.assert_allclose(faded.values, last.values * np.exp(-2 * years), rtol=1e-5)


class TestOfManyLabels:
    """Where a day says too much to be kept, what is asked for is made again: the same, in bits."""

    @pytest.fixture(params=[(5, 3), (128, 1 << 16)])
    def brief(self, corpus, monkeypatch, request):
        monkeypatch.setattr(popularity, "_MANY", 0)
        monkeypatch.setattr(popularity, "_BEST", request.param[0])
        monkeypatch.setattr(popularity, "_TOGETHER", request.param[1])
        return Calendar(corpus)

    def times(self, brief, corpus):
        """Return what the brief one says of some days, and what one does that keeps all."""
        days = [float(day) for day in some_days(corpus)[::4]]
        found = list(map(brief.about, days))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(popularity, "_MANY", 4_096)
            return found, list(map(Calendar(corpus).about, days))

    def pairs(self, brief, corpus):
        found, wanted = (
            [t for time in own for t in time.tables] for own in self.times(brief, corpus)
        )
        return zip(found, wanted, strict=True)

    def test_of_all(self, brief, corpus):
        for found, wanted in self.pairs(brief, corpus):
            assert isinstance(found, Brief)
            assert found.values.tobytes() == wanted.values.tobytes()

    def test_of_some(self, brief, corpus):
        found, wanted = self.times(brief, corpus)
        assert [(t.quarter, t.later) for t in found] == [(t.quarter, t.later) for t in wanted]
        labels = np.tile(np.arange(len(corpus.labels))[::-2], len(found))
        rows = np.arange(len(found)).repeat(len(labels) // len(found))
        for line, scores in enumerate(brief.at(found, rows, labels)):
            values = np.stack([time.tables[line].values for time in wanted])
            assert scores.tobytes() == values[rows, labels].tobytes()

    @pytest.mark.parametrize("sizes", [(4, 2), (40, 3)])
    def test_the_best(self, brief, corpus, sizes):
        gone = np.arange(0, len(corpus.labels), 3)
        for found, wanted in self.pairs(brief, corpus):
            same(found.best(sizes), wanted.best(sizes))
            same(found.best_without(gone, sizes), wanted.best_without(gone, sizes))

    def test_other_days_that_are_asked_for_change_nothing(self, brief, corpus, monkeypatch):
        days = some_days(corpus)
        forward = [firsts(brief.about(day)) for day in days]
        assert [firsts(brief.about(day)) for day in reversed(days)] == forward[::-1]
        again = Calendar(corpus)
        monkeypatch.setattr(popularity, "_CELLS", 0)  # what was kept for one makes room for another
        assert [firsts(again.about(day)) for day in days] == forward
        assert len(again._spans) == 1

    def test_less_is_kept(self, corpus, monkeypatch):
        monkeypatch.setattr(popularity, "_BEST", 3)
        calendar = Calendar(corpus)
        before = calendar.n_kept
        monkeypatch.setattr(popularity, "_MANY", 0)
        assert (before, calendar.n_kept) == (4 * len(corpus.labels), 24)


@pytest.fixture(scope="module")
def changing():
    """Return a corpus in which what is popular changes all the time."""
    rng = np.random.default_rng(5)
    days = rng.integers(0, 3_000, 4_000)
    firsts = rng.exponential(3, (4_000, 3)).astype(int) + (days // 100)[:, None]
    apis = [sorted({APIS[i % len(APIS)] for i in own}) for own in firsts.tolist()]
    return corpus_of([(START + int(day), own) for day, own in zip(days, apis, strict=True)])


class TestOfManyDays:
    """A day is looked up among few labels, with few uses: they are those of all of them."""

    @pytest.fixture
    def brief(self, changing, monkeypatch):
        monkeypatch.setattr(popularity, "_MANY", 0)
        monkeypatch.setattr(popularity, "_BEST", 3)
        return Calendar(changing)

    def test_the_best_of_each_day(self, changing, brief, monkeypatch):
        days = range(START - 2, START + 3_002)
        found = [firsts(brief.about(day)) for day in days]
        monkeypatch.setattr(popularity, "_MANY", 4_096)
        calendar = Calendar(changing)
        assert found == [firsts(calendar.about(day)) for day in days]

    def test_few_are_looked_at(self, changing, brief):
        for day in range(START, START + 3_000, 40):
            assert all(len(table._places) <= 3 for table in brief.about(day).tables)
        n_labels = [len(labels) for labels, _ in brief._spans.values()]
        assert len(n_labels) > 40
        assert sum(n_labels) < len(n_labels) * len(changing.labels) / 3
        for labels, part in brief._spans.values():
            # And all uses of each day, and all requests.
            assert part.size <= (len(labels) + 2) * len(part.block.days)


def firsts(about):
    return [own.tolist() for table in about.tables for own in table.best((3, 2))]


def same(found, wanted):
    assert [own.tolist() for own in found] == [own.tolist() for own in wanted]
