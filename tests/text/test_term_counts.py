from __future__ import annotations

import pickle

import pytest

from cnp_router.text import TermCounts, TfidfEncoder
from cnp_router.text.term_counts import BLOCK
from cnp_router.text.tokenise import ANALYZERS

TEXTS = ["a map of maps", "", "rain maps in Kyoto", "readFile of a map", "地図に天気", "rain rain"]


def learned(encoder):
    return encoder.terms_, encoder.idf_.tolist(), encoder.rare_


@pytest.mark.parametrize("analyzer", ANALYZERS)
@pytest.mark.parametrize("cut", [0, 1, 3, 5, len(TEXTS)])
def test_counts_of_parts_merge_to_those_of_the_whole(analyzer, cut):
    whole, one, other = (TermCounts(analyzer) for _ in range(3))
    whole.add(TEXTS[:4])
    whole.add(TEXTS[4:], telling=True)
    one.add(TEXTS[:cut][:4])
    one.add(TEXTS[:cut][4:], telling=True)
    other.add(TEXTS[cut:4])
    other.add(TEXTS[max(cut, 4) :], telling=True)
    other.merge(pickle.loads(pickle.dumps(one)))
    assert other.n_texts == whole.n_texts == len(TEXTS)
    for min_df, max_terms in ((1, 100), (2, 100), (2, 3)):
        merged, expected = (
            TfidfEncoder.of_counts(own, min_df=min_df, max_terms=max_terms)
            for own in (other, whole)
        )
        assert learned(merged) == learned(expected)


@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_an_encoder_of_counts_is_the_fitted_one(analyzer):
    counts = TermCounts(analyzer)
    for text in TEXTS:
        counts.add([text])
    assert learned(TfidfEncoder.of_counts(counts)) == learned(TfidfEncoder(analyzer).fit(TEXTS))


@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_a_term_counts_once_a_text(analyzer):
    counts = TermCounts(analyzer)
    counts.add(["rain rain"] * (BLOCK + 3))
    (first, *_) = ANALYZERS[analyzer]("rain")
    assert counts.in_texts(first) == counts.n_texts == BLOCK + 3
    assert counts.in_texts("no such term") == 0


def test_counts_of_other_terms_do_not_merge():
    with pytest.raises(ValueError, match="counts of 'content' terms, not of 'word' ones"):
        TermCounts("word").merge(TermCounts("content"))


def test_of_telling_texts_rare_words_are_kept_and_pairs_only_on_demand():
    counts = TermCounts("word")
    counts.add(["rain map", "rain song"] * 10)
    counts.add(["quux vivarium"], telling=True)
    kept = TfidfEncoder.of_counts(counts).terms_
    assert {"quux", "vivarium", "quux vivarium"} <= set(kept)
    words = TfidfEncoder.of_counts(counts, telling_pairs=False).terms_
    assert set(kept) - set(words) == {"quux vivarium"}
    runs = TermCounts("character")
    runs.add(["rain"] * 3)
    runs.add(["quux"], telling=True)
    assert " qu" in TfidfEncoder.of_counts(runs, min_df=3, telling_pairs=False).terms_


def test_where_there_is_no_room_for_all_words_come_first_and_then_what_most_say():
    counts = TermCounts("word")
    counts.add(["rain map"] * 3 + ["song bird"])
    encoders = [TfidfEncoder.of_counts(counts, min_df=1, max_terms=n) for n in (2, 4, 5)]
    assert [set(encoder.terms_) for encoder in encoders] == [
        {"rain", "map"},
        {"rain", "map", "song", "bird"},
        {"rain", "map", "song", "bird", "rain map"},
    ]
