"""What every predictor must obey."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from worlds import noisy, run

from cnp_router.exceptions import InputError
from cnp_router.prediction import (
    PREDICTORS,
    AlwaysAsk,
    Context,
    Decay,
)
from cnp_router.trajectories import Step

KINDS = tuple(PREDICTORS.values())
LEARNERS = tuple(kind for kind in KINDS if kind is not AlwaysAsk)
HELD_OUT = noisy(6, seed=1)


def taught(kind, log=None):
    predictor = kind()
    for trajectory in noisy(25) if log is None else log:
        predictor.observe(trajectory)
    return predictor


def restoring(kind, state):
    predictor = kind()
    predictor.restore(state)
    return predictor


def answers(predictor, log=HELD_OUT):
    return [
        predictor.predict_next(trajectory.steps[:place], Context(trajectory.goal))
        for trajectory in log
        for place in range(len(trajectory.steps) + 1)
    ]


def stored(state):
    """The state as it comes back from files: JSON, and arrays on their own."""
    arrays = {name: np.array(v) for name, v in state.items() if isinstance(v, np.ndarray)}
    rest = {name: v for name, v in state.items() if name not in arrays}
    return {**json.loads(json.dumps(rest, allow_nan=False)), **arrays}


@pytest.mark.parametrize("kind", KINDS)
class TestEveryPredictor:
    def test_probabilities_are_some_and_sorted(self, kind):
        for answer in answers(taught(kind)):
            probabilities = [candidate.probability for candidate in answer.candidates]
            assert all(0 <= p <= 1 for p in [answer.confidence, *probabilities])
            assert probabilities == sorted(probabilities, reverse=True)
            assert sum(probabilities) <= 1 + 1e-9
            if answer.candidates:
                first = answer.candidates[0]
                assert (first.tool, first.probability) == (answer.tool, answer.confidence)
            else:
                assert (answer.tool, answer.confidence) == (None, 0.0)
            tools = [candidate.tool for candidate in answer.candidates]
            assert len(set(tools)) == len(tools)
            assert answer.source == kind.name

    def test_before_anything_is_learned_nothing_is_predicted(self, kind):
        for prefix in ([], ["telex"], [Step("telex", {"x": 1}, "done")]):
            answer = kind().predict_next(prefix, Context("Rain?"))
            assert (answer.tool, answer.confidence, answer.candidates) == (None, 0.0, ())

    def test_unknown_tools_are_no_error(self, kind):
        predictor = taught(kind)
        predictor.predict_next(["telex", Step("fax", {"to": "x"}, "busy"), "telex"])
        predictor.observe_step(["telex"], "fax")

    def test_odd_texts_are_no_error(self, kind):
        predictor = taught(kind)
        odd = Step("weather", {"\u202e": [{"a": None}]}, "\x1f\ufffd雨" * 300)
        odd.inputs["\udfff"] = [float("nan")]  # a step's own checks were before that
        predictor.observe_step([odd], odd, Context("\udfff"))
        predictor.predict_next([odd], Context("\x1f"))

    def test_the_same_lessons_give_the_same_answers(self, kind):
        assert answers(taught(kind)) == answers(taught(kind))

    def test_predicting_changes_nothing(self, kind):
        asked, quiet = taught(kind), taught(kind)
        answers(asked)
        assert stored(asked.state()).keys() == stored(quiet.state()).keys()
        assert answers(asked) == answers(quiet)

    def test_the_prefix_is_not_changed(self, kind):
        predictor, prefix = taught(kind), list(HELD_OUT[0].steps)
        before = copy.deepcopy(prefix)
        predictor.predict_next(prefix)
        predictor.observe_step(prefix, "sms")
        assert prefix == before

    def test_a_bare_tool_id_is_a_step(self, kind):
        predictor = taught(kind)
        bare = predictor.predict_next(["weather", "maps"])
        assert bare == predictor.predict_next([Step("weather"), Step("maps")])

    def test_state_and_back_answers_and_learns_the_same(self, kind):
        predictor = taught(kind)
        restored = restoring(kind, stored(predictor.state()))
        assert answers(restored) == answers(predictor)
        for trajectory in noisy(5, seed=2):
            predictor.observe(trajectory)
            restored.observe(trajectory)
        assert answers(restored) == answers(predictor)

    def test_the_state_is_a_copy(self, kind):
        predictor = taught(kind)
        before = answers(predictor)
        state = predictor.state()
        for trajectory in noisy(5, seed=2):
            predictor.observe(trajectory)
        assert answers(restoring(kind, state)) == before

    def test_the_state_of_another_kind(self, kind):
        for state in ({}, {"kind": "other"}, {"kind": None}):
            with pytest.raises(
                InputError, match=rf"^not a state of a '{kind.name}' predictor, got"
            ):
                kind().restore(state)

    def test_a_string_is_no_prefix(self, kind):
        with pytest.raises(
            InputError, match=r"^prefix must be several .*, got 'sms' \(write \['sms'\]\)$"
        ):
            kind().predict_next("sms")

    def test_a_number_is_no_step(self, kind):
        with pytest.raises(InputError, match=r"^a prefix holds steps and tool ids, got 7 \(write"):
            kind().predict_next([7])

    @pytest.mark.parametrize("prefix", [None, 7, Step("sms")])
    def test_no_sequence_is_no_prefix(self, kind, prefix):
        match = r"^prefix must be several steps and tool ids, got .* \(write \[\] where"
        with pytest.raises(InputError, match=match):
            kind().predict_next(prefix)

    @pytest.mark.parametrize("context", ["Rain?", 7, {"goal": "Rain?"}])
    def test_something_else_is_no_context(self, kind, context):
        with pytest.raises(InputError, match=r"^context must be a Context, got "):
            kind().predict_next(["weather"], context)

    def test_the_cure_for_a_bare_goal(self, kind):
        with pytest.raises(InputError, match=r"got 'Rain\?' \(write Context\('Rain\?'\)\)$"):
            kind().predict_next(["weather"], "Rain?")

    def test_a_goal_is_a_string(self, kind):
        with pytest.raises(InputError, match=r"^goal must be a string, got None \(leave it out"):
            kind().predict_next(["weather"], Context(None))

    def test_a_state_is_taken_over(self, kind):
        predictor, other = taught(kind), taught(kind, noisy(3, seed=7))
        other.restore(stored(predictor.state()))
        assert answers(other) == answers(predictor)

    def test_a_state_of_another_kind_changes_nothing(self, kind):
        predictor = taught(kind)
        before = answers(predictor)
        with pytest.raises(InputError, match=r"^not a state of a"):
            predictor.restore({"kind": "other"})
        assert answers(predictor) == before


@pytest.mark.parametrize("kind", LEARNERS)
class TestEveryLearner:
    def test_its_own_parameters_stay(self, kind):
        predictor = kind(decay=Decay(0.5, 10))
        predictor.restore(stored(taught(kind).state()))
        assert predictor.decay == Decay(0.5, 10)
        assert predictor.n_trajectories == 25

    def test_priors_are_taken_over_once(self, kind):
        first, again = (kind(priors={"weather": {"telex": 50}}) for _ in range(2))
        for trajectory in noisy(5):
            first.observe(trajectory)
        again.restore(stored(first.state()))
        assert answers(again) == answers(first)
        assert again.predict_next(["weather"]) == first.predict_next(["weather"])
        assert "telex" in {c.tool for c in again.predict_next(["weather"]).candidates}
        none = kind()
        none.restore(stored(again.state()))
        assert none.priors == again.priors == {"weather": {"telex": 50.0}}

    @pytest.mark.parametrize("stored_priors", [None, {"weather": {"sms": 2}}])
    def test_other_priors_cannot_be_told_apart_from_what_was_learned(self, kind, stored_priors):
        state = stored(kind(priors=stored_priors).state())
        predictor = kind(priors={"weather": {"sms": 3}})
        before = predictor.predict_next(["weather"])
        with pytest.raises(InputError, match=r"began with the priors .* \(give the same ones or"):
            predictor.restore(state)
        assert predictor.predict_next(["weather"]) == before

    def test_a_state_that_breaks_off_changes_nothing(self, kind):
        predictor, state = taught(kind), stored(taught(kind, noisy(3, seed=7)).state())
        before = answers(predictor)
        for name in sorted(state.keys() - {"kind"}):
            with pytest.raises(InputError, match="is broken"):
                predictor.restore({key: value for key, value in state.items() if key != name})
            assert answers(predictor) == before

    def test_one_observation_counts_at_once(self, kind):
        predictor = kind()
        predictor.observe_step(["weather"], "sms")
        assert predictor.predict_next(["weather"]).tool == "sms"

    def test_a_deterministic_cycle_is_predicted_with_confidence(self, kind):
        predictor = taught(kind, [run(n, "Rain?", *"abcabcabcabc") for n in range(30)])
        for prefix, tool in (("a", "b"), ("ab", "c"), ("abc", "a")):
            answer = predictor.predict_next(list(prefix), Context("Rain?"))
            assert answer.tool == tool
            assert answer.confidence > 0.9

    def test_weight_0_reinforces_nothing(self, kind):
        predictor = taught(kind)
        before = answers(predictor)
        predictor.observe_step(["weather"], "telex", weight=0.0)
        assert answers(predictor) == before

    @pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan"), "1", None])
    def test_a_weight_out_of_range(self, kind, weight):
        with pytest.raises(InputError, match=r"^weight must be a number from 0 to 1, got"):
            kind().observe_step([], "sms", weight=weight)

    def test_a_failed_path_is_not_reinforced(self, kind):
        log = [run(0, "Rain?", "a", "b"), run(1, "Rain?", "a", "c", success=False)]
        log += [run(2, "Rain?", "a", Step("c", success=False))]
        answer = taught(kind, log).predict_next(["a"], Context("Rain?"))
        assert answer.tool == "b"
        assert all(candidate.tool != "c" for candidate in answer.candidates)

    def test_priors_speak_before_anything_is_seen_and_yield_to_it(self, kind):
        predictor = kind(priors={"weather": {"sms": 3.0, "mail": 1.0}})
        answer = predictor.predict_next(["weather"])
        assert [candidate.tool for candidate in answer.candidates][:2] == ["sms", "mail"]
        for _ in range(10):
            predictor.observe_step(["weather"], "mail")
        assert predictor.predict_next(["weather"]).tool == "mail"

    def test_priors_are_of_tools_however_they_are_spelled(self, kind):
        predictor = kind(priors={"cafe\u0301": {"the\u0301": 3.0}})
        assert predictor.predict_next(["caf\u00e9"]).tool == "th\u00e9"

    @pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan"), "3", True])
    def test_a_bad_prior(self, kind, weight):
        with pytest.raises(
            InputError, match=r"^the prior of 'weather' to 'sms' must be a number above 0, got"
        ):
            kind(priors={"weather": {"sms": weight}})

    def test_a_broken_state(self, kind):
        state = taught(kind).state()
        for name in set(state) - {"kind"}:
            with pytest.raises(InputError):
                kind().restore({k: v for k, v in state.items() if k != name})

    def test_a_tool_just_learned_can_be_any_of_thousands(self, kind):
        predictor = kind()
        for n in range(1500):
            predictor.observe_step([f"a{n}"], f"b{n}")
        assert predictor.predict_next(["a1234"]).tool == "b1234"


def test_every_predictor_is_registered_by_its_name():
    assert list(PREDICTORS)[:3] == ["context", "backoff", "first-order"]
    assert [kind.name for kind in KINDS] == list(PREDICTORS)


@pytest.mark.parametrize(
    ("factor", "window"), [(0.0, 10), (1.1, 10), (0.9, 0), (0.9, 1.5), (float("nan"), 1)]
)
def test_a_bad_decay(factor, window):
    with pytest.raises(InputError, match="must be"):
        Decay(factor, window)
