from __future__ import annotations

import pytest
from worlds import run

from cnp_router.exceptions import InputError
from cnp_router.prediction import BackoffPredictor, Context, Decay, FirstOrderPredictor
from cnp_router.prediction.counts import Followers
from cnp_router.trajectories import Step


def raw(predictor, *tools):
    """The probabilities before calibration."""
    return dict(predictor._judge([Step(tool) for tool in tools], Context()).ranked)


class TestFirstOrder:
    def test_the_formula(self):
        predictor = FirstOrderPredictor()
        for n, follower in enumerate("bbbc"):
            predictor.observe(run(n, "Rain?", "a", follower))
        assert raw(predictor, "a") == {"b": 0.75, "c": 0.25}
        assert raw(predictor) == {"a": 1.0}

    def test_only_the_last_tool_counts(self):
        predictor = FirstOrderPredictor()
        predictor.observe(run(0, "Rain?", "a", "b", "c"))
        assert raw(predictor, "x", "b") == raw(predictor, "b") == {"c": 1.0}
        assert raw(predictor, "x") == {}

    def test_ties_go_by_id(self):
        predictor = FirstOrderPredictor()
        for n, follower in enumerate("cab"):
            predictor.observe(run(n, "Rain?", "x", follower))
        answer = predictor.predict_next(["x"])
        assert [candidate.tool for candidate in answer.candidates] == ["a", "b", "c"]

    def test_priors_count_as_observations(self):
        predictor = FirstOrderPredictor(priors={"a": {"b": 3.0}})
        predictor.observe_step(["a"], "c")
        assert raw(predictor, "a") == {"b": 0.75, "c": 0.25}

    def test_what_was_learned_decays_when_the_window_is_full(self):
        predictor = FirstOrderPredictor(decay=Decay(0.5, window=2))
        predictor.observe(run(0, "Rain?", "a", "b"))
        predictor.observe(run(1, "Rain?", "a", "b"))
        predictor.observe(run(2, "Rain?", "a", "c"))
        assert raw(predictor, "a") == {"b": 0.5, "c": 0.5}
        assert predictor.n_trajectories == 3

    def test_what_has_decayed_is_forgotten(self):
        predictor = FirstOrderPredictor(decay=Decay(0.5, window=1))
        predictor.observe(run(0, "Rain?", "a", "b"))
        for _ in range(12):
            predictor.end_trajectory()
        assert predictor.state()["counts"] == []


class TestBackoff:
    def test_the_formula(self):
        predictor = BackoffPredictor(2)
        predictor.observe_step(["x", "a"], "b")
        predictor.observe_step(["y", "a"], "c")
        # Nothing: b 1/4, c 1/4. After a: (1 + 2/4) / 4. After x, a: (1 + 3/8) / 2.
        assert raw(predictor, "x", "a") == pytest.approx({"b": 0.6875, "c": 0.1875})
        assert raw(predictor, "z", "a") == pytest.approx({"b": 0.375, "c": 0.375})
        assert raw(predictor, "z") == pytest.approx({"b": 0.25, "c": 0.25})

    def test_the_longest_suffix_decides(self):
        predictor = BackoffPredictor(3)
        for n in range(10):
            predictor.observe(run(n, "Rain?", "x", "a", "b", "yes"))
            predictor.observe(run(n, "Rain?", "y", "a", "b", "no"))
        assert predictor.predict_next(["x", "a", "b"]).tool == "yes"
        assert predictor.predict_next(["y", "a", "b"]).tool == "no"

    def test_a_longer_look_back_than_it_has_is_none(self):
        predictor = BackoffPredictor(2)
        for n in range(10):
            predictor.observe(run(n, "Rain?", "x", "a", "b", "yes"))
            predictor.observe(run(n, "Rain?", "y", "a", "b", "no"))
        answer = predictor.predict_next(["x", "a", "b"])
        assert answer == predictor.predict_next(["y", "a", "b"])

    @pytest.mark.parametrize("order", [0, -1])
    def test_a_bad_order(self, order):
        with pytest.raises(InputError, match=r"^order must be a whole number of at least 1, got"):
            BackoffPredictor(order)

    def test_what_was_learned_in_another_order(self):
        state = BackoffPredictor(3).state()
        match = r"is of order 3, and this predictor of order 2 \(give the same order"
        with pytest.raises(InputError, match=match):
            BackoffPredictor(2).restore(state)


class TestFollowers:
    def test_the_shortlist_is_that_of_a_full_sort(self):
        followers, plain = Followers(), {}
        for n in range(3000):
            tool = f"t{n * n % 97}"
            followers.add(tool, 1.0 + n % 3)
            plain[tool] = plain.get(tool, 0.0) + 1.0 + n % 3
        expected = sorted(plain.items(), key=lambda pair: (-pair[1], pair[0]))[:32]
        assert followers.shortlist() == expected == Followers(plain.items()).shortlist()
        assert followers.total == sum(plain.values())
