from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from cnp_router.text import TfidfEncoder, unit_rows
from cnp_router.text.tokenise import ANALYZERS, MAX_CHARACTERS

TEXTS = [
    "Show the weather of my trips on a map.",
    "Show photos on maps, maps and more maps!",
    "Send me a text when it rains: weather by SMS",
    "",
    "Zürich Zu\N{COMBINING DIAERESIS}rich ＺÜＲＩＣＨ",
    "地図に天気を表示する",
    "погода на карте",
    "the the the the",
    "readFile of get_weather_v2",
]


def reference(analyzer, texts, min_df=1):
    vectorizer = TfidfVectorizer(analyzer=ANALYZERS[analyzer], sublinear_tf=True, min_df=min_df)
    return vectorizer, vectorizer.fit_transform(texts)


@pytest.mark.parametrize("analyzer", ANALYZERS)
@pytest.mark.parametrize("min_df", [1, 2])
def test_the_encoder_is_that_of_scikit_learn(analyzer, min_df):
    vectorizer, expected = reference(analyzer, TEXTS, min_df)
    encoder = TfidfEncoder(analyzer, min_df=min_df).fit(TEXTS)
    assert encoder.terms_ == vectorizer.get_feature_names_out().tolist()
    np.testing.assert_allclose(encoder.idf_, vectorizer.idf_, rtol=1e-6)
    np.testing.assert_allclose(encoder.transform(TEXTS).toarray(), expected.toarray(), atol=1e-6)
    unseen = ["weather maps weather weather", "nothing of this was seen xyzzy"]
    np.testing.assert_allclose(
        encoder.transform(unseen).toarray(), vectorizer.transform(unseen).toarray(), atol=1e-6
    )


@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_the_encoder_is_that_of_scikit_learn_on_the_sample(sample, analyzer):
    texts = sample.history.texts
    vectorizer, expected = reference(analyzer, texts, 2)
    encoder = TfidfEncoder(analyzer, min_df=2)
    found = encoder.fit_transform(texts)
    assert encoder.terms_ == vectorizer.get_feature_names_out().tolist()
    assert abs(found - expected).max() < 1e-6


@pytest.mark.parametrize("analyzer", ANALYZERS)
@settings(max_examples=40)
@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=6))
@example(texts=["a_b __ _", "İI ﬁ Ⅷ"])
@example(texts=["A\N{COMBINING ACUTE ACCENT}\N{ZERO WIDTH JOINER}B", "\x00\x1b", "١٢٣"])
@example(texts=["half a \ud800 pair", "\udfff"])
def test_the_encoder_is_that_of_scikit_learn_on_any_text(analyzer, texts):
    encoder = TfidfEncoder(analyzer, min_df=1)
    found = encoder.fit_transform(texts)
    assert (encoder.transform(texts) != found).nnz == 0
    if not encoder.terms_:
        assert found.shape == (len(texts), 0)
        return
    vectorizer, expected = reference(analyzer, texts)
    assert encoder.terms_ == vectorizer.get_feature_names_out().tolist()
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-6)


def test_only_the_beginning_of_a_long_text_counts():
    text = "map " * MAX_CHARACTERS
    encoder = TfidfEncoder(min_df=1).fit([text, "the end"])
    both = encoder.transform([text + "the end", text[:MAX_CHARACTERS]])
    assert (both[[0]] != both[[1]]).nnz == 0


def test_the_most_frequent_terms_are_kept():
    encoder = TfidfEncoder(min_df=1, max_terms=2).fit(["b", "b", "a", "c", "c", "c"])
    assert encoder.terms_ == ["b", "c"]


def test_equally_frequent_terms_are_kept_in_their_order():
    assert TfidfEncoder(min_df=1, max_terms=2).fit(["z y x w"]).terms_ == ["w", "x"]


def test_no_texts_and_no_terms():
    encoder = TfidfEncoder(min_df=2).fit(["a map", "some song"])
    assert encoder.terms_ == []
    assert encoder.transform(["a map"]).shape == (1, 0)
    assert encoder.transform([]).shape == (0, 0)


@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_state_round_trip(analyzer):
    encoder = TfidfEncoder(analyzer, min_df=1).fit(TEXTS)
    again = TfidfEncoder.from_state(encoder.state())
    assert (again.transform(TEXTS) != encoder.transform(TEXTS)).nnz == 0


def test_unit_rows_leaves_the_matrix_and_its_empty_rows():
    matrix = sparse.csr_array(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]], dtype=np.float32))
    before = matrix.toarray()
    expected = [[0.6, 0.8], [0, 0], [0, 1]]
    np.testing.assert_allclose(unit_rows(matrix).toarray(), expected, rtol=1e-6)
    np.testing.assert_array_equal(matrix.toarray(), before)


@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_weights_are_the_row_of_a_text(analyzer):
    encoder = TfidfEncoder(analyzer, min_df=1).fit(TEXTS)
    for text in TEXTS:
        row = encoder.transform([text]).toarray()[0]
        found = encoder.weights(text)
        expected = {encoder.terms_[i]: row[i] for i in np.flatnonzero(row)}
        assert found == pytest.approx(expected, rel=1e-5)


def test_a_term_that_is_in_no_text_weighs_as_the_rarest():
    encoder = TfidfEncoder("content", min_df=1).fit(["map", "song", "song"])
    weights = encoder.weights("map song tune")
    assert weights["tune"] > weights["map"] > weights["song"]
    assert encoder.weights("") == {}


@pytest.mark.parametrize("analyzer", ["word", "content"])
def test_what_is_observed_weighs_as_if_fitted_on_all(analyzer):
    vectorizer, _ = reference(analyzer, TEXTS)
    weights = dict(zip(vectorizer.get_feature_names_out(), vectorizer.idf_, strict=True))
    fitted = TfidfEncoder(analyzer, min_df=1).fit(TEXTS[:3])
    terms = list(fitted.terms_)
    encoder = fitted.observed(TEXTS[3:5]).observed(TEXTS[5:])
    assert encoder.terms_[: len(terms)] == fitted.terms_ == terms
    assert encoder.n_texts == len(TEXTS) and fitted.n_texts == 3
    np.testing.assert_allclose(encoder.idf_, [weights[t] for t in encoder.terms_], rtol=1e-5)
    assert weights.keys() - set(encoder.terms_) == {
        t for t in weights.keys() - set(terms) if " " in t
    }
    again = TfidfEncoder.from_state(encoder.state())
    np.testing.assert_array_equal(
        again.transform(TEXTS).toarray(), encoder.transform(TEXTS).toarray()
    )


def test_words_are_observed_however_many_terms_were_kept():
    encoder = TfidfEncoder(min_df=1, max_terms=2).fit(["a map", "a song"])
    more = encoder.observed(["owl", "bird", "cat", "dog"])
    assert more.terms_ == ["map", "song", "bird", "cat", "dog", "owl"] and more.n_texts == 6


def test_nothing_observed_changes_nothing():
    encoder = TfidfEncoder(min_df=1).fit(TEXTS)
    same = encoder.observed([])
    assert same.terms_ == encoder.terms_ and same.n_texts == encoder.n_texts
    np.testing.assert_allclose(same.idf_, encoder.idf_, rtol=1e-6)


def test_what_an_encoder_of_no_texts_observes_it_knows():
    encoder = TfidfEncoder(min_df=1).fit([]).observed(["a map of bars", "a map"])
    assert encoder.terms_ == ["bar", "map"] and encoder.n_texts == 2
    np.testing.assert_allclose(encoder.idf_, [1 + np.log(3 / 2), 1], rtol=1e-6)


def test_words_that_most_texts_have_find_room_first():
    encoder = TfidfEncoder(min_df=1, max_terms=4).fit(["rain", "wind"])
    more = ["zebra food", "zebra", "ant zebra", "moth food"]
    assert encoder.grown(more).terms_ == ["rain", "wind", "food", "zebra"]
    assert encoder.grown(more[:1]).terms_ == ["rain", "wind", "food", "zebra"]  # not their pair
    full = encoder.grown(more)
    assert full.grown(more) is full
    loaded = TfidfEncoder.from_state(encoder.state())
    assert loaded.grown(more).terms_ == full.terms_


@pytest.mark.parametrize("bound", ["min_df", "max_terms"])
@pytest.mark.parametrize("wrong", [-1, 2.0, True, None])
def test_bounds_that_are_none_are_an_error(bound, wrong):
    state = TfidfEncoder(min_df=1).fit(["a map"]).state()
    with pytest.raises(ValueError, match="whole numbers"):
        TfidfEncoder.from_state({**state, bound: wrong})


def test_a_new_term_weighs_as_if_one_text_had_it():
    encoder = TfidfEncoder(min_df=1).fit(["rain", "wind", "wind"])
    grown = encoder.grown(["snow"])
    assert grown.idf("snow") == pytest.approx(encoder.idf("rain"), rel=1e-6)
    assert grown.idf("wind") == encoder.idf("wind")


class TestTellingTexts:
    """The last texts, whose terms are kept however rare they are."""

    @pytest.mark.parametrize("analyzer", ANALYZERS)
    def test_none_is_as_ever(self, analyzer):
        encoder, other = TfidfEncoder(analyzer), TfidfEncoder(analyzer)
        found = encoder.fit_transform(TEXTS)
        again = other.fit_transform(TEXTS, n_telling=0)
        assert encoder.terms_ == other.terms_
        assert abs(found - again).max() == 0

    @pytest.mark.parametrize("analyzer", ANALYZERS)
    def test_all_is_every_term(self, analyzer):
        all_, every = TfidfEncoder(analyzer), TfidfEncoder(analyzer, min_df=1)
        all_.fit_transform(TEXTS, n_telling=len(TEXTS))
        assert all_.terms_ == every.fit(TEXTS).terms_

    def test_the_rare_terms_of_others_are_not_kept(self):
        encoder = TfidfEncoder("content")
        encoder.fit_transform(["rain map", "rain whelk", "gribble"], n_telling=1)
        assert encoder.terms_ == ["gribble", "rain"]


@pytest.mark.parametrize("analyzer", ANALYZERS)
@pytest.mark.parametrize("text", [*TEXTS, "nothing of this was seen xyzzy"])
def test_linear_is_the_product_with_the_vector(analyzer, text):
    encoder = TfidfEncoder(analyzer, min_df=1).fit(TEXTS)
    weights = np.random.default_rng(0).normal(size=len(encoder.terms_))
    texts = [text, *TEXTS]
    expected = encoder.transform(texts) @ weights
    np.testing.assert_allclose(encoder.linear(texts, weights), expected, atol=1e-6)
    assert encoder.linear([text], weights)[0] == encoder.linear(texts, weights)[0]
