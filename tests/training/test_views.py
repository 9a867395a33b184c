"""What every view promises, and what each one sees."""

import datetime
from dataclasses import dataclass, fields, replace
from typing import Annotated, ClassVar

import numpy as np
import pytest
from word_vectors import WordVectors

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.routing import Reason
from cnp_router.training import fit_router, load_router
from cnp_router.training.corpus import Corpus
from cnp_router.training.dense_encoder import DenseEncoder
from cnp_router.training.examples import Past
from cnp_router.training.views import (
    VIEWS,
    Evidence,
    HistoryView,
    Views,
    together,
)
from cnp_router.training.views.base import Dense, Sparse, View
from cnp_router.training.views.names import NameIndex, NamesView


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


def test_names_are_unique(views):
    for names in ([v.name for v in views], views.feature_names):
        assert len(set(names)) == len(names)
    assert views.kinds == VIEWS


@pytest.mark.parametrize("kind", VIEWS, ids=lambda kind: kind.name)
class TestEveryView:
    def test_candidates_are_the_best_by_its_scores(self, views, batch, kind):
        view, everyone = views[kind], np.arange(views.corpus.n_apis)
        scores = view.features(batch, [everyone] * len(batch))
        for row, values in enumerate(scores):
            found = np.concatenate([best for (best,) in view.candidates(batch, row, (3,))])
            best = set()
            for own in values[: len(view.scores)]:
                order = np.argsort(-own, kind="stable")[:3]
                best |= set(order[own[order] > 0].tolist())
            assert set(found.tolist()) == best

    def test_it_answers_by_request_and_never_by_catalog(self, views, batch, kind):
        view = views[kind]
        some = [np.array([2, 5]), np.array([], dtype=int), *[np.array([7])] * (len(batch) - 2)]
        shapes = [features.shape for features in view.features(batch, some)]
        assert shapes == [(len(view.scores) + len(view.extras), len(own)) for own in some]
        assert view.request_features(batch).shape == (len(batch), len(view.context))
        assert all(len(own) <= 3 for (own,) in view.candidates(batch, 0, (3,)))

    def test_one_by_one_is_all_at_once(self, router, views, batch, kind):
        some = [np.arange(0, views.corpus.n_apis, 2)] * len(batch)
        together = views[kind].features(batch, some)
        for i, expected in enumerate(together):
            alone = views.batch(batch.requests.take(np.array([i])))
            (found,) = views[kind].features(alone, some[:1])
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    def test_it_is_kept_by_name(self, views, batch, kind):
        again = Views.from_state(views.corpus.specifications, views.state())[kind]
        assert set(again.state()) == {f.name for f in fields(kind)} - {"corpus"}
        some = [np.arange(views.corpus.n_apis)] * len(batch)
        for left, right in zip(
            again.features(views.batch(batch.requests), some),
            views[kind].features(batch, some),
            strict=True,
        ):
            np.testing.assert_array_equal(left, right)

    def test_a_part_of_another_shape_is_refused(self, views, kind):
        view = views[kind]
        for name in view.state():
            state = views.state()
            array = state[kind.name][name]
            state[kind.name] = {**state[kind.name], name: array[:-1]}
            with pytest.raises(ValueError):
                Views.from_state(views.corpus.specifications, state)

    def test_its_reasons_are_of_the_apis_that_were_asked_for(
        self, router, encoders, world, views, kind
    ):
        batch = views.batch(encoders.encode([world.cases[0].request]))
        evidence = Evidence(batch, router.history, (1,), {world.catalog.categories[0]: 0.9})
        assert set(views[kind].reasons(evidence, [0, 3, 8])) <= {0, 3, 8}


def test_columns_without_scores_propose_nobody():
    assert [len(own) for own in Dense(np.zeros((2, 5))).best(1, (3, 2))] == [0, 0]
    none = Sparse([(np.zeros(0, dtype=int), np.zeros(0))])
    assert [len(own) for own in none.best(0, (3, 2))] == [0, 0]
    assert none.at(0, np.array([1, 2])).tolist() == [0, 0]
    assert none.highest().tolist() == none.total().tolist() == [0]


@pytest.mark.parametrize("sizes", [(1,), (2, 1), (3, 2), (8, 3), (9, 8)])
def test_dense_and_sparse_columns_agree(sizes):
    rng = np.random.default_rng(sizes[0])
    values = np.round(np.clip(rng.normal(size=(30, 8)), 0, None), 1).astype(np.float32)
    dense = Dense(values)
    sparse = Sparse([(np.flatnonzero(row), row[row > 0]) for row in values])
    for row in range(30):
        for left, right in zip(dense.best(row, sizes), sparse.best(row, sizes), strict=True):
            assert left.tolist() == sorted(right.tolist())
    np.testing.assert_allclose(dense.total(), sparse.total(), rtol=1e-6)
    np.testing.assert_array_equal(dense.highest(), sparse.highest())
    places = np.array([0, 3, 7])
    for row in range(30):
        np.testing.assert_array_equal(dense.at(row, places), sparse.at(row, places))


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


def test_the_first_request_does_not_wait_for_the_index_of_names(model, world, monkeypatch):
    def late(self, specifications):
        raise AssertionError("the names are looked at when the model is loaded")

    router = load_router(model)
    monkeypatch.setattr(NameIndex, "__init__", late)
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
            everyone = np.arange(len(cls.NAMES))
            return {name: column.at(0, everyone) for name, column in columns.items()}

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
