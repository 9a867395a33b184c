from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    ndcg_score,
    precision_recall_fscore_support,
)

from cnp_router.evaluation.metrics import (
    Ranking,
    SetScores,
    brier,
    ece,
    percentiles,
    risk_coverage,
    set_scores,
)
from cnp_router.exceptions import InputError

RANKED = ("a", "b", "c", "d", "e")
AT = [Ranking.recall, Ranking.complete, Ranking.ndcg, Ranking.average_precision]


def log2(x):
    return math.log2(x)


class TestByHand:
    @pytest.mark.parametrize(
        ("used", "k", "expected"),
        [
            (["a", "c"], 1, 1 / 2),
            (["a", "c"], 3, 1.0),
            (["e", "z"], 5, 1 / 2),
            (["z"], 5, 0.0),
            (["a", "a", "z"], 5, 1 / 2),
            (["b"], 100, 1.0),
        ],
    )
    def test_recall(self, used, k, expected):
        assert Ranking(RANKED, used).recall(k) == expected

    @pytest.mark.parametrize(
        ("used", "k", "expected"),
        [(["a", "c"], 3, 1.0), (["a", "c"], 2, 0.0), (["a", "z"], 5, 0.0), (["a", "a"], 1, 1.0)],
    )
    def test_complete(self, used, k, expected):
        assert Ranking(RANKED, used).complete(k) == expected

    @pytest.mark.parametrize(
        ("used", "k", "expected"),
        [
            (["a"], 5, 1.0),
            (["b"], 5, 1 / log2(3)),
            (["b", "d"], 5, (1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3))),
            # Normalised by what was used, not by what was hit.
            (["a", "z"], 5, 1 / (1 + 1 / log2(3))),
            # No more than k can be hit.
            (["a", "x", "y", "z"], 2, 1 / (1 + 1 / log2(3))),
            (["z"], 5, 0.0),
        ],
    )
    def test_ndcg(self, used, k, expected):
        assert Ranking(RANKED, used).ndcg(k) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("used", "k", "expected"),
        [
            (["a"], 5, 1.0),
            (["b"], 5, 1 / 2),
            (["a", "c"], 5, (1 + 2 / 3) / 2),
            (["a", "z"], 5, 1 / 2),
            (["a", "x", "y", "z"], 2, 1 / 2),
            (["z"], 5, 0.0),
        ],
    )
    def test_average_precision(self, used, k, expected):
        assert Ranking(RANKED, used).average_precision(k) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("predicted", "used", "expected"),
        [
            (["a", "b"], ["a"], (1 / 2, 1.0, 2 / 3)),
            (["a"], ["a", "b", "c"], (1.0, 1 / 3, 1 / 2)),
            (["a", "a"], ["a"], (1.0, 1.0, 1.0)),
            (["x"], ["a"], (0.0, 0.0, 0.0)),
            ([], ["a"], (0.0, 0.0, 0.0)),
        ],
    )
    def test_sets(self, predicted, used, expected):
        assert set_scores(predicted, used) == SetScores(*expected)

    def test_ece(self):
        # Bins of 1/15: 0.05 alone in the first; 0.93 and 0.91 hold 0.92, half of them true, and
        # 1.0 is in the last.
        p, y = [0.05, 0.91, 0.93, 1.0], [0, 1, 0, 1]
        assert ece(p, y) == pytest.approx((1 * 0.05 + 2 * 0.42 + 1 * 0.0) / 4)

    def test_ece_with_one_bin_is_the_bias(self):
        assert ece([0.2, 0.6], [0, 1], bins=1) == pytest.approx(0.1)

    def test_percentiles_between_neighbours(self):
        assert percentiles([10, 20]) == pytest.approx({"p50": 15, "p95": 19.5})
        assert percentiles([7], [0, 99.9]) == {"p0": 7, "p99.9": 7}


relevance = st.lists(st.booleans(), min_size=2, max_size=30).filter(any)


class TestAgainstScikitLearn:
    @given(relevance, st.integers(1, 40))
    def test_ndcg(self, relevant, k):
        ranked = list(range(len(relevant)))
        used = [i for i in ranked if relevant[i]]
        expected = ndcg_score([relevant], [[-i for i in ranked]], k=k)
        assert Ranking(ranked, used).ndcg(k) == pytest.approx(expected)

    @given(relevance)
    def test_average_precision_of_a_whole_ranking(self, relevant):
        ranked = list(range(len(relevant)))
        used = [i for i in ranked if relevant[i]]
        expected = average_precision_score(relevant, [-i for i in ranked])
        assert Ranking(ranked, used).average_precision(len(ranked)) == pytest.approx(expected)

    @given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
    def test_sets(self, pairs):
        predicted = [i for i, (p, _) in enumerate(pairs) if p]
        used = [i for i, (_, u) in enumerate(pairs) if u]
        if used:
            expected = precision_recall_fscore_support(
                [u for _, u in pairs], [p for p, _ in pairs], average="binary", zero_division=0
            )
            got = set_scores(predicted, used)
            assert (got.precision, got.recall, got.f1) == pytest.approx(expected[:3])

    @given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
    def test_brier(self, pairs):
        p, y = zip(*pairs, strict=True)
        assert brier(p, y) == pytest.approx(brier_score_loss(y, p, pos_label=True))


class TestCalibration:
    def test_frequencies_have_no_error_and_distorted_ones_do(self):
        random = np.random.default_rng(0)
        p = random.random(20_000)
        y = random.random(20_000) < p
        assert ece(p, y) < 0.02
        assert ece(np.sqrt(p), y) > 0.1

    @given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
    def test_it_is_a_share(self, pairs):
        assert 0 <= ece(*zip(*pairs, strict=True)) <= 1

    def test_the_risk_of_the_most_confident(self):
        points = risk_coverage([0.2, 0.9, 0.5, 0.9], [False, True, True, False])
        assert [(p.threshold, p.coverage) for p in points] == [(0.9, 0.5), (0.5, 0.75), (0.2, 1.0)]
        assert [p.risk for p in points] == pytest.approx([1 / 2, 1 / 3, 1 / 2])

    def test_no_more_points_than_asked(self):
        points = risk_coverage(np.linspace(0, 1, 1000), [True] * 1000, n_points=10)
        assert len(points) == 10
        assert {p.risk for p in points} == {0.0}

    @pytest.mark.parametrize("metric", [ece, brier, risk_coverage])
    @pytest.mark.parametrize(
        ("p", "y", "message"),
        [
            ([], [], "as many probabilities as outcomes, at least one"),
            ([0.5], [1, 0], r"\(got 1 and 2\)"),
            ([0.5, 1.5], [1, 0], "must be between 0 and 1, got 1.5"),
            ([float("nan")], [1], "must be between 0 and 1, got nan"),
            ([0.5], [2], "an outcome must be 0 or 1, got 2.0"),
        ],
    )
    def test_what_cannot_be_used(self, metric, p, y, message):
        with pytest.raises(InputError, match=message):
            metric(p, y)

    def test_bins(self):
        with pytest.raises(InputError, match="bins must be a whole number of at least 1, got 0"):
            ece([0.5], [1], bins=0)


class TestWhatCannotBeUsed:
    @pytest.mark.parametrize("metric", AT)
    def test_a_ranking(self, metric):
        with pytest.raises(InputError, match="k must be a whole number of at least 1, got 0"):
            metric(Ranking(RANKED, ["a"]), 0)
        with pytest.raises(InputError, match="nothing was used"):
            metric(Ranking(RANKED, []), 5)

    def test_a_set(self):
        with pytest.raises(InputError, match="nothing was used"):
            set_scores(["a"], [])

    def test_percentiles_of_nothing(self):
        with pytest.raises(InputError, match="at least one value"):
            percentiles([])


@pytest.mark.parametrize("metric", AT)
def test_an_empty_ranking_finds_nothing(metric):
    assert metric(Ranking([], ["a"]), 5) == 0
