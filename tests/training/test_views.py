"""What every view promises, and what each one sees."""

import datetime
from dataclasses import dataclass, fields, replace
from typing import Annotated, ClassVar

import numpy as np
import pytest
from word_vectors import WordVectors

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.routing import Reason, TopK
from cnp_router.training import fit_router, load_router
from cnp_router.training.corpus import Corpus
from cnp_router.training.dense_encoder import DenseEncoder
from cnp_router.training.examples import Past
from cnp_router.training.views import (
    VIEWS,
    CategoryView,
    Evidence,
    HistoryView,
    Views,
    together,
)
from cnp_router.training.views.base import View
from cnp_router.training.views.columns import Dense, Pairs, Shared, Sparse, named
from cnp_router.training.views.name_index import NameIndex
from cnp_router.training.views.names import NamesView
from cnp_router.training.views.tables import Table
from cnp_router.training.views.together import _features


@pytest.fixture(scope="module")
def views(world):
    """All of them, those that apply only to other histories too."""
    start = datetime.date(2020, 1, 1)
    mashups = [
        replace(m, date=start + datetime.timedelta(days=7 * i)) for i, m in enumerate(world.history)
    ]
    dense = DenseEncoder.of(WordVectors())
    past = Past.of(world.catalog, History(mashups), random_state=0, dense=dense)
    corpus = Corpus.of(past.specifications, past.requests, past.usage, past.membership)
    return Views.fit(corpus, past.requests, VIEWS)


@pytest.fixture(scope="module")
def encoders(views):
    return views.corpus.specifications.encoders


@pytest.fixture(scope="module")
def batch(views, encoders, world):
    texts = [case.request for case in world.cases[:3]]
    texts += [f"only {world.catalog[0].name}", "", "qwxyz"]
    return views.batch(encoders.encode(texts))


def said(view, batch, some):
    """Return all that a view says of some APIs of each request."""
    pairs = Pairs.across(some)
    scores = [column.at(pairs) for column in view.scored(batch).values()]
    return np.concatenate([np.array(scores), view.features(batch, pairs)])


def test_names_are_unique(views):
    for names in ([v.name for v in views], views.feature_names):
        assert len(set(names)) == len(names)
    assert views.kinds == VIEWS


def places(state):
    """Yield where the arrays of a view are, those of its parts too."""
    for name, value in state.items():
        inside = places(value) if isinstance(value, dict) else [()]
        yield from ((name, *path) for path in inside)


@pytest.mark.parametrize("kind", VIEWS, ids=lambda kind: kind.name)
class TestEveryView:
    def test_candidates_are_the_best_by_its_scores(self, views, batch, kind):
        view, n_apis = views[kind], views.corpus.n_apis
        everyone = Pairs.across([np.arange(n_apis)] * len(batch))
        columns = list(view.scored(batch).values())
        found = named(columns, len(batch), n_apis, most=3, n_next=5)
        expected = set()
        for column in columns:
            for row, own in enumerate(column.at(everyone).reshape(len(batch), -1)):
                order = np.argsort(-own, kind="stable")[:3]
                expected |= {row * n_apis + i for i in order[own[order] > 0].tolist()}
        assert set(found.best.tolist()) == expected

    def test_it_answers_by_request_and_never_by_catalog(self, views, batch, kind):
        view = views[kind]
        some = [np.array([2, 5]), np.array([], dtype=int), *[np.array([7])] * (len(batch) - 2)]
        pairs = Pairs.across(some)
        columns = view.scored(batch)
        assert tuple(columns) == view.scores
        assert {column.at(pairs).shape for column in columns.values()} == {(len(pairs),)}
        assert view.features(batch, pairs).shape == (len(view.extras), len(pairs))
        assert view.request_features(batch).shape == (len(batch), len(view.context))

    def test_one_by_one_is_all_at_once(self, views, batch, kind):
        own = np.arange(0, views.corpus.n_apis, 2)
        together = said(views[kind], batch, [own] * len(batch)).reshape(-1, len(batch), len(own))
        for i in range(len(batch)):
            alone = views.batch(batch.requests.take(np.array([i])))
            found = said(views[kind], alone, [own])
            np.testing.assert_allclose(found, together[:, i], rtol=1e-5, atol=1e-6)

    def test_it_is_kept_by_name(self, views, batch, kind):
        again = Views.from_state(views.corpus.specifications, views.state())[kind]
        assert set(again.state()) == {f.name for f in fields(kind)} - {"corpus"}
        some = [np.arange(views.corpus.n_apis)] * len(batch)
        np.testing.assert_array_equal(
            said(again, views.batch(batch.requests), some), said(views[kind], batch, some)
        )

    def test_a_part_of_another_shape_is_refused(self, views, kind):
        for path in places(views[kind].state()):
            state = views.state()
            inside = state[kind.name]
            for name in path[:-1]:
                inside = inside[name]
            inside[path[-1]] = inside[path[-1]][:-1]
            with pytest.raises(ValueError):
                Views.from_state(views.corpus.specifications, state)

    def test_its_reasons_are_of_the_apis_that_were_asked_for(
        self, router, encoders, world, views, kind
    ):
        batch = views.batch(encoders.encode([world.cases[0].request]))
        evidence = Evidence(batch, router.history, (1,), {0: (0.9, world.catalog.categories[0])})
        assert set(views[kind].reasons(evidence, [0, 3, 8])) <= {0, 3, 8}


def best(column, n_requests, sizes):
    """Return the keys of the next best, the best among them, and those of the best."""
    n_next, most = sizes
    found = named([column], n_requests, 8, most, n_next)
    assert (found.n_naming == 1).all()
    assert not set(found.best.tolist()) & set(found.next_best.tolist())
    return [sorted([*found.best.tolist(), *found.next_best.tolist()]), found.best.tolist()]


def test_columns_without_scores_propose_nobody():
    assert best(Dense(np.zeros((2, 8), dtype=np.float32)), 2, (3, 2)) == [[], []]
    none = Sparse.across([(np.zeros(0, dtype=int), np.zeros(0))])
    assert best(none, 1, (3, 2)) == [[], []]
    assert none.at(Pairs.across([np.array([1, 2])])).tolist() == [0, 0]
    assert none.highest().tolist() == none.total().tolist() == [0]


@pytest.mark.parametrize("sizes", [(2, 1), (3, 2), (8, 3), (9, 8), (4, 4)])
@pytest.mark.parametrize("n_requests", [1, 30])
def test_dense_sparse_and_shared_columns_agree(sizes, n_requests):
    rng = np.random.default_rng(sizes[0])
    values = np.clip(rng.normal(size=(n_requests, 8)), 0, None).round(1).astype(np.float32)
    dense = Dense(values)
    sparse = Sparse.across([(np.flatnonzero(row), row[row > 0]) for row in values])
    every = np.arange(8)
    shared = Shared([Table(row, every) for row in values], every)
    found = best(dense, n_requests, sizes)
    assert best(sparse, n_requests, sizes) == best(shared, n_requests, sizes) == found
    for size, keys in zip(sizes, found, strict=True):
        for row, own in enumerate(values):
            order = [i for i in np.argsort(-own, kind="stable")[:size].tolist() if own[i] > 0]
            assert [key - 8 * row for key in keys if key // 8 == row] == sorted(order)
    np.testing.assert_allclose(dense.total(), sparse.total(), rtol=1e-6)
    np.testing.assert_array_equal(dense.highest(), sparse.highest())
    pairs = Pairs.across([np.array([0, 3, 7])] * n_requests)
    np.testing.assert_array_equal(dense.at(pairs), sparse.at(pairs))


def test_what_is_absent_is_not_taken_from_others():
    kept = np.array([0.5, 0.25], dtype=np.float32)
    tables = [Table(kept, np.array([0, 1]))]
    whole = Shared(tables, np.array([0, 1]), exact=lambda _: kept)
    everyone = Pairs.across([np.array([0, 1])])
    assert whole.without([np.array([1])]).at(everyone).tolist() == [0.5, 0]
    assert whole.at(everyone).tolist() == [0.5, 0.25]


@pytest.mark.parametrize("n_asked", [1, 40])
def test_long_sparse_columns_say_the_same(n_asked):
    rng = np.random.default_rng(2)
    positions = [np.sort(rng.choice(2_000, n, replace=False)) for n in (900, 0, 700, 1)]
    rows = [(own, rng.random(len(own), dtype=np.float32)) for own in positions]
    asked = Pairs.across([np.sort(rng.choice(2_000, n_asked, replace=False)) for _ in rows])
    values = np.zeros((4, 2_000), dtype=np.float32)
    for line, (own, scores) in zip(values, rows, strict=True):
        line[own] = scores
    found = Sparse.across(rows).at(asked)
    assert found.tolist() == values[asked.rows, asked.positions].tolist()
    assert np.count_nonzero(found) or n_asked == 1


def test_a_category_of_which_nothing_is_left_says_nothing(views, encoders, world):
    def scored(n_left):
        batch = views.batch(encoders.encode([world.cases[0].request]))
        before = batch.product("categories")[0].copy()
        likely = int(before.argmax())
        members = np.flatnonzero(views.corpus.membership.toarray()[:, likely])
        views[CategoryView].forget(batch, 0, members[n_left:])
        after = batch.product("categories")[0]
        assert before[likely] > 0 and len(members) > 1
        np.testing.assert_array_equal(np.delete(after, likely), np.delete(before, likely))
        return after[likely] / before[likely]

    assert scored(n_left=0) == 0
    assert scored(n_left=1) == 1


def test_the_reason_is_the_known_api_that_one_was_most_used_with():
    catalog = Catalog([Api(name, name.title()) for name in ("rain", "maps", "sms")])
    used = [("rain", "sms")] * 1 + [("maps", "sms")] * 3 + [("rain",)] * 3
    history = History([Mashup(str(i), f"request {i}", apis) for i, apis in enumerate(used)])
    router = fit_router(catalog, history)
    (sms,) = router.route("request", known=["rain", "maps"], select=TopK(1)).recipients
    (reason,) = [each for each in sms.reasons if each.kind == "co-usage"]
    assert (reason.text, reason.references) == ("100% of past uses of Maps came with it", ("maps",))


def test_who_is_named_by_several_columns_is_counted():
    high = Dense(np.array([[5, 4, 3, 0, 0]], dtype=np.float32))
    low = Sparse.across([(np.array([1, 2, 3]), np.array([1.0, 2.0, 3.0]))])
    found = named([high, low], 1, 5, most=1, n_next=3)
    assert found.best.tolist() == [0, 3]
    assert dict(zip(found.next_best.tolist(), found.n_naming.tolist(), strict=True)) == {1: 2, 2: 2}


@pytest.mark.parametrize("n_requests", [1, 4])
@pytest.mark.parametrize("together", [1, 1_000])
def test_ranks_are_shared_by_equal_scores(n_requests, together, monkeypatch):
    monkeypatch.setattr("cnp_router.training.views.together._TOGETHER", together)
    rng = np.random.default_rng(n_requests)
    pairs = Pairs.across([np.arange(n) for n in (6, 0, 3, 1)[:n_requests]])
    scores = rng.integers(-2, 3, size=(3, len(pairs))).astype(np.float32)
    scores[scores == 0] *= -1  # minus zero is zero
    extra, context = [scores[:1] + 7], np.arange(n_requests, dtype=np.float32)[:, None]
    features = _features(scores, extra, context, pairs).T
    assert np.array_equal(features[:3], scores)
    assert np.array_equal(features[9:], [scores[0] + 7, pairs.rows])
    for row in range(n_requests):
        own = slice(*pairs.starts[row : row + 2])
        lines = zip(scores[:, own], features[3:6, own], features[6:9, own], strict=True)
        for line, rank, share in lines:
            expected = [np.log1p((line > score).sum()) for score in line]
            np.testing.assert_allclose(rank, expected, rtol=1e-6)
            best = max(line.max(initial=0), 1e-6)
            np.testing.assert_allclose(share, np.clip(line / best, -1, 1), rtol=1e-6)


def test_a_view_can_be_added_with_a_file_and_a_line(world, monkeypatch, tmp_path):
    """As the recipe says: a class and its place in the registry; all else follows."""

    @dataclass(frozen=True, eq=False)
    class ShortView(View):
        """The shorter the specification, the better."""

        name: ClassVar[str] = "short"
        scores: ClassVar[tuple[str, ...]] = ("shortness",)
        telling: ClassVar[int] = -1

        lengths: Annotated[np.ndarray, "apis"]

        @classmethod
        def fit(cls, corpus, requests):
            return cls(corpus, cls._lengths(corpus))

        @staticmethod
        def _lengths(corpus):
            return np.array([1 / len(api.name) for api in corpus.specifications.catalog])

        def synced(self, corpus, change):
            return type(self)(corpus, self._lengths(corpus))

        def columns(self, batch):
            return (Dense(np.tile(self.lengths, (len(batch), 1))),)

        def reasons(self, evidence, positions):
            return {i: Reason("specification", "it is short") for i in positions}

    monkeypatch.setattr(together, "VIEWS", (*VIEWS, ShortView))
    router = fit_router(world.catalog, world.history)
    assert "share of the best shortness" in router.views.feature_names
    wide = router.extended([Api("x", "X", "Something new.")])
    wide.observe(Mashup("more", "Something new.", ("x",)))
    wide.save(tmp_path / "model")
    request = world.cases[0].request
    assert load_router(tmp_path / "model").route(request).to_dict() == wide.route(request).to_dict()
    assert wide.route(request).recipients[0].reasons[0].text == "it is short"


def test_neighbours_are_the_most_similar_past_requests(router, world):
    views = router.views
    (near,) = views[HistoryView].neighbours(
        views.batch(router.encoders.encode([world.history[5].description]))
    )
    assert near.rows[0] == 5
    assert (np.diff(near.similarity) <= 0).all() and near.similarity[0] == pytest.approx(1)


def test_nobody_waits_for_the_index_of_names(model, world, monkeypatch):
    def late(specifications):
        raise AssertionError("the names are looked at when the model is fitted")

    monkeypatch.setattr(NameIndex, "of", late)
    router = load_router(model)
    assert router.route(world.cases[0].request).recipients


class TestNames:
    """What the request says of names, with words in them that say nothing."""

    NAMES = ("The Weather", "Weather for You", "Do It", "Open Tides", "Slow Tides")

    @pytest.fixture(scope="class")
    @classmethod
    def scored(cls):
        catalog = Catalog([Api(f"a{i}", name) for i, name in enumerate(cls.NAMES)])
        router = fit_router(catalog)

        def scored(request):
            batch = router.views.batch(router.encoders.encode([request]))
            columns = router.views[NamesView].scored(batch)
            everyone = Pairs.across([np.arange(len(cls.NAMES))])
            return {name: column.at(everyone) for name, column in columns.items()}

        return scored

    def test_stop_words_are_not_part_of_a_name(self, scored):
        found = scored("will there be weather tomorrow")
        assert found["name words"].tolist() == [1, 1, 0, 0, 0]

    def test_saying_stop_words_names_nobody(self, scored):
        found = scored("what is the best for you and the others")
        assert not any(column.any() for column in found.values())

    def test_where_a_name_has_no_other_words_they_count(self, scored):
        found = scored("can you do this for me, and make it quick")
        assert found["name words"].tolist() == [0, 0, 1, 0, 0]
        assert found["name weight"][2] > 0 == found["name"][2]

    def test_a_whole_name_has_its_stop_words(self, scored):
        said, half = scored("ask The Weather"), scored("ask Weather")
        assert (said["name"] > 0).tolist() == [True, False, False, False, False]
        assert not half["name"].any()

    def test_a_word_that_many_names_share_says_less(self, scored):
        found = scored("open the tides")
        assert found["name weight"][3] > found["name weight"][4] > 0
        assert found["name words"][3] == 1 > found["name words"][4] > 0


def test_equal_scores_share_a_rank(router, views, batch):
    """Their order in the catalog says nothing."""
    place = {name: i for i, name in enumerate(views.feature_names)}
    for found in views.candidates(batch):
        for name in views.score_names:
            values = found.features[:, place[name]]
            rank = np.rint(np.expm1(found.features[:, place[f"rank by {name}"]])).astype(int)
            assert rank.tolist() == [int((values > value).sum()) for value in values]
