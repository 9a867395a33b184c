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
@pytest.mark.parametrize("cut", [0, 1, 3, len(TEXTS)])
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
