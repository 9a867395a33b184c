"""What the dense view sees: its six scores by hand, and what observing and new APIs change."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from planted import planted
from word_vectors import WordVectors

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.training import corpus, fit_router, load_router, vector_index
from cnp_router.training.views import Evidence, Views, dense
from cnp_router.training.views.columns import Pairs, Sparse
from cnp_router.training.views.dense import DenseView

WORLD = planted(n_cliques=5, size=4, rounds=6)


@pytest.fixture(scope="module")
def router():
    return fit_router(WORLD.catalog, WORLD.history, encoder=WordVectors())


def unit(values):
    return values / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), 1e-12)


def scored(router, texts, absent=()):
    batch = router.views.batch(router.encoders.encode(texts), absent)
    everyone = Pairs.across([np.arange(len(router.apis))] * len(texts))
    columns = router.views[DenseView].scored(batch)
    return {name: c.at(everyone).reshape(len(texts), -1) for name, c in columns.items()}


def test_its_scores_are_as_they_are_defined(router):
    corpus, texts = router.views.corpus, [case.request for case in WORLD.cases[:7]]
    T, A = corpus.history_vectors.astype(float), corpus.specifications.vectors.astype(float)
    U = corpus.usage.toarray().astype(float)
    found = scored(router, texts)
    gram = T.T @ T + np.eye(T.shape[1])
    ridge, towards = np.linalg.solve(gram, T.T @ U), T.T @ (U @ A / U.sum(1, keepdims=True))
    for row, text in enumerate(texts):
        e = unit(router.encoders.encode([text]).dense[0].astype(float))
        s = np.maximum(T @ e, 0)
        floor = np.sort(s)[-40]
        w = np.where(s >= floor, s - 0.8 * floor, 0)
        users = [s[U[:, a] > 0].max() for a in range(U.shape[1])]
        expected = {
            "dense specification": A @ e,
            "dense neighbours": w @ U / w.sum(),
            "dense nearest": users,
            "dense centroid": unit(U.T @ T) @ e,
            "dense ridge": e @ ridge,
            "dense expected": A @ unit(e @ np.linalg.solve(gram, towards)),
        }
        assert set(found) == set(expected)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name][row], values, rtol=2e-3, atol=2e-4, err_msg=name)


def test_one_by_one_is_all_at_once(router):
    texts = [case.request for case in WORLD.cases[:9]]
    together = scored(router, texts)
    for row, text in enumerate(texts):
        for name, [alone] in scored(router, [text]).items():
            assert np.array_equal(alone, together[name][row]), name


@pytest.mark.parametrize("n_mashups", [0, 60])
def test_what_means_the_same_in_other_words_is_found(n_mashups):
    """No word of the request is in the catalog or the history."""
    words = ["rain", *(f"ta{letter}u" for letter in "bcdfghjklmnpqrstvwx")]
    catalog = Catalog([Api(f"api{i}", word) for i, word in enumerate(words)])
    mashups = [Mashup(f"m{i}", f"{words[i % 20]} today", (f"api{i % 20}",)) for i in range(60)]
    history = History(mashups[:n_mashups])
    sees = fit_router(catalog, history, encoder=WordVectors(256, same={"wetness": "rain"}))
    blind = fit_router(catalog, history)
    assert sees.score("wetness").order[0] == 0
    assert np.ptp(blind.score("wetness").probabilities) < 0.05


def test_past_requests_of_what_is_absent_are_forgotten(router):
    text = WORLD.cases[0].request
    clique = [router.catalog.position(api) for api in WORLD.cases[0].clique]
    whole, without = scored(router, [text]), scored(router, [text], [np.array(clique)])
    others = np.setdiff1d(np.arange(len(router.apis)), clique)
    for name in ("dense neighbours", "dense nearest"):
        assert (
            whole[name][0][clique].min() > without[name][0].max(initial=0)
            or (without[name][0][clique] == 0).all()
        )
    assert whole["dense neighbours"][0][others].sum() < without["dense neighbours"][0].sum()


def test_observing_is_as_if_fitted_on_all(router):
    half = History(list(WORLD.history)[::2])
    observed = fit_router(WORLD.catalog, half, encoder=WordVectors())
    observed.observe(WORLD.history)
    views = observed.views
    everything = observed.encoders.encode(observed.history.texts)
    again = Views.fit(views.corpus, everything)
    for name, array in views[DenseView].state().items():
        expected = again[DenseView].state()[name]
        np.testing.assert_allclose(array, expected, rtol=1e-3, atol=1e-4, err_msg=name)
    np.testing.assert_allclose(views.corpus.history_vectors, everything.dense, atol=1e-6)


def test_what_removed_apis_taught_is_forgotten_whatever_comes_first(router):
    half = History(list(WORLD.history)[::2])
    fewer = Catalog([*WORLD.catalog][3:])
    first = fit_router(WORLD.catalog, half, encoder=WordVectors())
    last = first.synced(fewer)
    first.observe(WORLD.history)
    last.observe(WORLD.history)
    states = [each.views[DenseView].state() for each in (first.synced(fewer), last)]
    for name in ("gram", "toward", "total"):
        np.testing.assert_allclose(*(state[name] for state in states), atol=1e-4, err_msg=name)


def test_new_apis_are_known_by_their_specification(router, tmp_path):
    wide = router.extended([Api("pollen", "Pollen", "Counts pollen in spring.")])
    found = scored(wide, ["pollen in spring"])
    assert found["dense specification"][0].argmax() == len(router.apis)
    assert found["dense nearest"][0][-1] == found["dense ridge"][0][-1] == 0
    assert len(router.views.corpus.specifications.vectors) == len(router.apis)
    later = copy.copy(wide)
    later.observe(Mashup("new", "when does the birch bloom", ("pollen",)))
    assert scored(later, ["when does the birch bloom"])["dense nearest"][0][-1] > 0.99
    later.save(tmp_path / "model")
    loaded = load_router(tmp_path / "model", encoder=WordVectors())
    request = "when does the birch bloom"
    assert loaded.route(request).to_dict() == later.route(request).to_dict()


@pytest.mark.parametrize("n_mashups", [0, 1, 3])
def test_there_may_be_little_history_or_none(n_mashups):
    history = History(list(WORLD.history)[:n_mashups])
    router = fit_router(WORLD.catalog, history, encoder=WordVectors())
    assert np.isfinite(router.score(WORLD.cases[0].request).probabilities).all()
    assert DenseView in router.views.kinds


def test_a_text_of_which_nothing_is_known_scores_nothing(router):
    for name, [values] in scored(router, ["the of and"]).items():
        assert not values.any(), name


def test_past_requests_that_mean_the_same_are_its_reason():
    words = [f"ta{letter}u" for letter in "bcdfghjklmnpqrstvwx"]
    catalog = Catalog([Api("rain", "Umbra"), *(Api(word, word) for word in words)])
    mashups = [Mashup("past", "rain today", ("rain",))]
    mashups += [Mashup(f"m{i}", f"{words[i % 19]} hour", (words[i % 19],)) for i in range(60)]
    encoder = WordVectors(256, same={"wetness": "rain", "dry": "drought"})
    router = fit_router(catalog, History(mashups), encoder=encoder)

    def reasons(request, api):
        batch = router.views.batch(router.encoders.encode([request]))
        evidence = Evidence(batch, router.history, (), {})
        return router.views.reasons(evidence, [catalog.position(api)])[catalog.position(api)]

    [reason, _] = reasons("wetness", "rain")
    assert (reason.kind, reason.references) == ("history", ("past",))
    assert reason.text == "used by a similar past request: “rain today”"
    assert [r.kind for r in reasons("dry", "rain")] == ["popularity"]
    kinds = [r.kind for r in reasons("rain today", "rain")]
    assert kinds.count("history") == 1


class TestManyVectors:
    """A catalog and a history that are taken for too large to compare with all."""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def large(cls):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vector_index, "EXACT", 15)
            patch.setattr(vector_index, "LOOKED_AT", 40)
            patch.setattr(corpus, "EXACT", 10)  # APIs with history
            yield fit_router(WORLD.catalog, WORLD.history, encoder=WordVectors())

    def test_values_are_those_of_all(self, router, large):
        texts = [case.request for case in WORLD.cases[:9]]
        exact, found = scored(router, texts), scored(large, texts)
        names = ("specification", "centroid", "ridge", "expected")
        for name in (f"dense {name}" for name in names):
            np.testing.assert_allclose(found[name], exact[name], rtol=0, atol=2e-6, err_msg=name)
        # What the nearest past requests used is what matters of the others.
        for name in ("dense neighbours", "dense nearest"):
            assert (found[name].argmax(axis=1) == exact[name].argmax(axis=1)).mean() > 0.8

    def test_columns_propose_few(self, large):
        batch = large.views.batch(large.encoders.encode([WORLD.cases[0].request]))
        columns = large.views[DenseView].scored(batch)
        assert all(isinstance(column, Sparse) for column in columns.values())
        assert len(columns["dense specification"].positions)
        assert not len(columns["dense ridge"].positions)

    def test_it_answers_as_well(self, router, large):
        found = [large.score(case.request).order[:4] for case in WORLD.cases]
        wanted = [[WORLD.catalog.position(api) for api in case.clique] for case in WORLD.cases]
        hits = [np.isin(*pair).mean() for pair in zip(wanted, found, strict=True)]
        assert np.mean(hits) > 0.9

    def test_no_other_vectors_are_compared(self, large, monkeypatch):
        compared = []

        def products(self, requests, vectors):
            found = original(self, requests, vectors)
            compared.extend(np.diff(found.indptr).tolist())
            return found

        original = vector_index.VectorIndex.products
        monkeypatch.setattr(vector_index.VectorIndex, "products", products)
        monkeypatch.setattr(dense, "_products", self.only(dense._products, 48))
        large.route(WORLD.cases[0].request)
        assert compared
        assert max(compared) <= 40

    def only(self, products, n_rows):
        def bounded(vectors, matrix):
            assert len(matrix) <= n_rows  # the map alone
            return products(vectors, matrix)

        return bounded

    def test_past_requests_of_what_is_absent_are_forgotten(self, large):
        case = WORLD.cases[0]
        clique = [large.catalog.position(api) for api in case.clique]
        without = scored(large, [case.request], [np.array(clique)])
        for name in ("dense neighbours", "dense nearest"):
            assert not without[name][0][clique].any()

    def test_reasons_are_those_of_all(self, router, large, monkeypatch):
        monkeypatch.setattr(dense, "_APART", 1)  # all of a clique are alike here
        request = WORLD.cases[0].request

        def cited(router):
            batch = router.views.batch(router.encoders.encode([request]))
            evidence = Evidence(batch, router.history, (), {})
            positions = range(len(router.apis))
            reasons = router.views[DenseView].reasons(evidence, positions)
            return {api: reason.references for api, reason in reasons.items()}

        assert cited(large)
        assert cited(large) == cited(router)

    def test_it_can_be_saved(self, large, tmp_path):
        large.save(tmp_path / "model")
        loaded = load_router(tmp_path / "model", encoder=WordVectors())
        for case in WORLD.cases[:3]:
            assert loaded.route(case.request).to_dict() == large.route(case.request).to_dict()

    def test_observing_is_as_if_fitted_on_all(self, large):
        half = fit_router(WORLD.catalog, History(list(WORLD.history)[::2]), encoder=WordVectors())
        half.observe(WORLD.history)
        known = half.views.corpus
        assert known.vector_index.cells.sum() == len(known.history_vectors)
        texts = [case.request for case in WORLD.cases[:5]]
        again = Views.fit(known, half.encoders.encode(half.history.texts))
        for name, array in half.views[DenseView].state().items():
            expected = again[DenseView].state()[name]
            np.testing.assert_allclose(array, expected, rtol=1e-3, atol=1e-4, err_msg=name)
        assert np.isfinite(scored(half, texts)["dense nearest"]).all()

    def test_another_catalog(self, large):
        [first, *others] = WORLD.catalog
        changed = Api(others[0].id, "Pollen", "Counts pollen in spring.")
        catalog = Catalog([*others[1:], changed, Api("birch", "Birch", "Says when birches bloom.")])
        synced = large.synced(catalog)
        index = synced.views.corpus.specifications
        assert index.vector_index.cells.sum() == len(catalog)
        for request, api in (("pollen in spring", changed.id), ("birches bloom", "birch")):
            found = scored(synced, [request])["dense specification"][0]
            assert found.argmax() == catalog.position(api)
            batch = synced.views.batch(synced.encoders.encode([request]))
            column = synced.views[DenseView].scored(batch)["dense specification"]
            assert catalog.position(api) in column.positions
        assert first.id not in synced.apis

    def test_a_request_of_which_nothing_is_known(self, large):
        for name, [values] in scored(large, ["the of and"]).items():
            assert not values.any(), name


def test_a_history_grows_too_long_to_compare_with_all(monkeypatch):
    monkeypatch.setattr(vector_index, "EXACT", len(WORLD.history) - 1)
    mashups = list(WORLD.history)
    router = fit_router(WORLD.catalog, History(mashups[:-1]), encoder=WordVectors())
    assert router.views.corpus.vector_index.is_exact
    router.observe(mashups[-1])
    assert not router.views.corpus.vector_index.is_exact
    assert router.route(WORLD.cases[0].request).recipients
