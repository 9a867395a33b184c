from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cnp_router.text import evenly, specification_text
from cnp_router.training import encoders as module
from cnp_router.training.encoders import EncodedRequests, Encoders, encode_chunk


@pytest.fixture(scope="module")
def texts(sample):
    return sample.history.texts, [specification_text(api) for api in sample.catalog]


@pytest.fixture(scope="module")
def fitted(texts):
    return Encoders.fit(*texts, n_components=8, random_state=0)


def parts_of(encoded, *bounds):
    ends = zip((0, *bounds), (*bounds, len(encoded)), strict=True)
    return [encoded.take(np.arange(*pair)) for pair in ends]


def assert_same(found, expected):
    assert found.texts == expected.texts
    for name in ("word", "character"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.shape == other.shape
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
            assert getattr(one, part).dtype == getattr(other, part).dtype
    for name in ("day", "dense"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_one_request_is_encoded_as_among_many(texts, fitted):
    some = [*texts[0][:300], "", "xyzzy", "天気 map"]
    many = fitted[0].encode(some)
    for i, text in enumerate(some):
        assert_same(fitted[0].encode([text]), many.take(np.array([i])))


def test_requests_that_are_learned_from_are_encoded_as_others(texts, fitted):
    encoders, encoded = fitted
    again = encoders.encode([*texts[0], *texts[1]])
    assert (again.word != encoded.word).nnz == (again.character != encoded.character).nnz == 0


def test_a_word_of_one_specification_is_known_however_many_requests_there_are():
    requests = [f"mail the {i % 90} plans to number {i % 70}" for i in range(module.FEW_TEXTS)]
    described = ["Tells the forecast of the town.", "Sends mail."]
    encoders, _ = Encoders.fit(requests, described, n_components=8, random_state=0)
    assert encoders.know("What does the forecast say?")
    assert "tell forecast" not in encoders.word.terms_


def test_parts_are_concatenated_to_the_whole(texts, fitted):
    encoders = fitted[0]
    days = np.arange(len(texts[0]), dtype=np.float32)
    whole = encoders.encode(texts[0], days)
    assert_same(EncodedRequests.concatenated(iter(parts_of(whole, 1, 1, 50, 300))), whole)


def test_chunks_are_encoded_elsewhere_as_here(texts, fitted):
    encoders = fitted[0]
    sent = pickle.dumps(encoders.for_chunks)
    assert len(sent) < len(pickle.dumps(encoders))
    whole = encoders.encode(texts[0])
    found = []
    for start in range(0, len(texts[0]), 100):
        own = texts[0][start : start + 100]
        n = len(own)
        none = np.zeros(n, dtype=np.float32), np.zeros((n, 0), dtype=np.float32)
        found.append(EncodedRequests(own, *encode_chunk(pickle.loads(sent), own), *none))
    assert_same(EncodedRequests.concatenated(found), whole)


def test_threads_encode_alike(texts, fitted):
    encoders = pickle.loads(pickle.dumps(fitted[0]))  # nothing is remembered
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: encoders.encode([text]), texts[0][:200]))
    assert_same(EncodedRequests.concatenated(found), fitted[0].encode(texts[0][:200]))


@pytest.mark.parametrize("rows", [[0], [3, 4, 5], [4, 3], [2, 2], [1, 3], []])
def test_taken_requests_are_those(fitted, rows):
    encoded = fitted[1]
    taken = encoded.take(np.array(rows, dtype=int))
    assert taken.texts == [encoded.texts[i] for i in rows]
    np.testing.assert_array_equal(taken.word.toarray(), encoded.word.toarray()[rows])
    np.testing.assert_array_equal(taken.character.toarray(), encoded.character.toarray()[rows])


class TestObserved:
    """The words of requests that are observed."""

    NEW = ("a zeppelin over the fjord", "fjord in fog")

    def test_new_words_are_known_and_pairs_and_characters_stay(self, fitted):
        encoders = fitted[0]
        observed = encoders.observed(self.NEW)
        terms = encoders.word.terms_
        new = observed.word.terms_[len(terms) :]
        assert observed.word.terms_[: len(terms)] == terms
        assert {"zeppelin", "fjord"} <= set(new) and not any(" " in term for term in new)
        assert observed.character is encoders.character
        assert not encoders.know("fjord") and observed.know("fjord")
        assert observed.projection is encoders.projection
        texts = ["a zeppelin on the map", "the map", "zeppelin"]
        found, wanted = (e.latent(e.word.transform(texts)) for e in (observed, encoders))
        np.testing.assert_allclose(found[1], wanted[1], rtol=0.1)  # a map is not as rare as before
        assert found[0].any() and not found[2].any()

    def test_requests_are_reworded_as_if_encoded_by_it(self, fitted):
        days = np.array([1, 2], dtype=np.float32)
        observed = fitted[0].observed(self.NEW)
        before = fitted[0].encode(self.NEW, days)
        assert_same(observed.reworded(before), observed.encode(self.NEW, days))

    def test_where_many_texts_are_known_no_words_are_added(self, fitted, monkeypatch):
        encoders = fitted[0]
        monkeypatch.setattr(module, "FEW_TEXTS", encoders.word.n_texts)
        assert encoders.observed(self.NEW) is encoders
        monkeypatch.setattr(module, "FEW_TEXTS", encoders.word.n_texts + 1)
        once = encoders.observed(self.NEW)  # the first of these makes them many
        assert once.know("zeppelin") and not once.know("fog")
        assert once.observed(self.NEW) is once

    def test_by_one_or_several_they_know_the_same(self, fitted, monkeypatch):
        texts = [f"new{i} word{i % 7}" for i in range(20)]
        monkeypatch.setattr(module, "FEW_TEXTS", fitted[0].word.n_texts + 11)
        several, one = fitted[0].observed(texts), fitted[0]
        for text in texts:
            one = one.observed([text])
        assert set(one.word.terms_) == set(several.word.terms_)
        assert one.word.n_texts == several.word.n_texts == module.FEW_TEXTS
        np.testing.assert_allclose(sorted(one.word.idf_), sorted(several.word.idf_), rtol=1e-5)

    def test_words_of_specifications_are_still_known_after_many_requests(self, fitted, monkeypatch):
        monkeypatch.setattr(module, "FEW_TEXTS", fitted[0].word.n_texts + 1)
        many = fitted[0].observed(self.NEW).observed(self.NEW)
        assert many.grown(["restarts pods in a quuxspace"]).know("quuxspace")
        assert not many.observed(["pods in a quuxspace"]).know("quuxspace")


class TestManyTexts:
    """Of many, some tell the terms, and all are encoded."""

    @pytest.fixture(autouse=True)
    def limits(self, monkeypatch):
        monkeypatch.setattr(module, "MAX_SAMPLED", 300)
        monkeypatch.setattr(module, "MAX_SAMPLED_SPECIFICATIONS", 40)

    def test_terms_are_those_of_the_sample(self, texts):
        requests, specifications = texts
        encoders, encoded = Encoders.fit(*texts, n_components=8, random_state=0)
        some = [requests[i] for i in evenly(len(requests), 300)]
        described = [specifications[i] for i in evenly(len(specifications), 40)]
        expected, _ = Encoders.fit(some, described, n_components=8, random_state=0)
        assert len(some) == 300 < len(requests) and len(described) == 40 < len(specifications)
        assert encoders.word.n_texts == 340
        assert encoders.word.terms_ == expected.word.terms_
        assert encoders.character.terms_ == expected.character.terms_
        np.testing.assert_array_equal(encoders.projection, expected.projection)
        assert_same(encoded, expected.encode([*requests, *specifications]))

    def test_as_many_as_allowed_are_all_learned_from(self, texts):
        some = texts[0][:300], texts[1][:40]
        encoders, encoded = Encoders.fit(*some, n_components=8, random_state=0)
        assert encoders.word.n_texts == len(encoded) == 340
        assert encoded.word.has_sorted_indices


@pytest.mark.parametrize(("n", "most"), [(0, 3), (3, 3), (4, 3), (1_000_000, 50_000)])
def test_evenly_takes_distinct_places_from_all_over(n, most):
    places = list(evenly(n, most))
    assert len(set(places)) == len(places) == min(n, most)
    assert all(0 <= place < n for place in places)
    if n > most:
        assert max(np.diff(places)) - min(np.diff(places)) <= 1
