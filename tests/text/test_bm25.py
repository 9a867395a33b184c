from __future__ import annotations

import numpy as np
import pytest

from cnp_router.text import BM25


def test_by_hand():
    index = BM25(["alpha beta", "alpha gamma delta gamma"])
    idf = np.log(1 + 1.5 / 1.5)
    norm = 1.2 * (0.25 + 0.75 * 4 / 3)
    assert index.scores("gamma") == pytest.approx([0.0, idf * 2 * 2.2 / (2 + norm)])


def test_shared_words():
    index = BM25(["alpha beta", "alpha gamma"])
    assert index.shared_words("gamma alpha zeta", [0, 1]) == [("alpha",), ("gamma", "alpha")]
    assert index.shared_words("Gammas", [1]) == [("gammas",)]


def test_a_word_said_twice_counts_once():
    index = BM25(["alpha beta", "alpha gamma"])
    assert index.scores("gamma gamma").tolist() == index.scores("gamma").tolist()


def test_no_words_at_all():
    index = BM25(["!", ""])
    assert index.scores("anything").tolist() == [0.0, 0.0]
    assert index.shared_words("anything", [0, 1]) == [(), ()]
