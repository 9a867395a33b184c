from __future__ import annotations

import pytest
from worlds import run

from cnp_router.exceptions import InputError
from cnp_router.prediction import Context, ContextPredictor
from cnp_router.prediction.context_keys import CONTEXTS, context_keys
from cnp_router.prediction.counts import ContextMemory
from cnp_router.trajectories import Step


def taught(log, **options):
    predictor = ContextPredictor(**options)
    for trajectory in log:
        predictor.observe(trajectory)
    return predictor


class TestPlanted:
    """In each world a coin was thrown, and one thing alone tells what comes next."""

    def test_only_the_observation_decides(self):
        log = [
            run(n, "Warn me.", Step("weather", {"x": n}, sky), tool)
            for n, (sky, tool) in enumerate([("rain", "sms"), ("sun", "mail")] * 20)
        ]
        predictor = taught(log)
        for sky, tool in (("rain", "sms"), ("sun", "mail")):
            answer = predictor.predict_next([Step("weather", {"x": 99}, sky)], Context("Warn me."))
            assert answer.tool == tool
            assert answer.confidence > 0.8

    def test_only_the_inputs_decide(self):
        log = [
            run(n, "Warn me.", Step("weather", {"city": city}, f"{n}"), tool)
            for n, (city, tool) in enumerate([("Kyoto", "sms"), ("Nara", "mail")] * 20)
        ]
        predictor = taught(log)
        for city, tool in (("Kyoto", "sms"), ("Nara", "mail")):
            steps = [Step("weather", {"city": city}, "something new")]
            answer = predictor.predict_next(steps, Context("Warn me."))
            assert answer.tool == tool
            assert answer.confidence > 0.8

    def test_only_the_goal_decides(self):
        log = [
            run(n, goal, "weather", tool)
            for n, (goal, tool) in enumerate([("Text me.", "sms"), ("Write me.", "mail")] * 20)
        ]
        predictor = taught(log)
        for goal, tool in (("Text me.", "sms"), ("Write me.", "mail")):
            answer = predictor.predict_next(["weather"], Context(goal))
            assert answer.tool == tool
            assert answer.confidence > 0.8

    def test_a_goal_never_seen_is_judged_by_its_kind(self):
        log = []
        for n in range(20):
            start = "Please look up the weather and then send a message to"
            log.append(run(2 * n, f"{start} Ann {n}.", "weather", "sms"))
            log.append(run(2 * n + 1, f"Find a shop that sells {n}.", "weather", "pay"))
        answer = taught(log).predict_next(["weather"], Context(f"{start} somebody else."))
        assert answer.tool == "sms"

    def test_how_often_it_failed_decides(self):
        failed = Step("open", {"x": 1}, "No such door.")
        log = [run(n, "In.", failed, failed, failed, "ask") for n in range(40)]
        predictor = taught(log)
        assert predictor.predict_next([failed] * 2, Context("In.")).tool == "open"
        assert predictor.predict_next([failed] * 3, Context("In.")).tool == "ask"

    def test_a_change_of_habit_is_learned_within_a_few_trajectories(self):
        predictor = taught([run(n, "Warn me.", "weather", "sms") for n in range(200)])
        for n in range(10):
            predictor.observe(run(n, "Warn me.", "weather", "mail"))
        assert predictor.predict_next(["weather"], Context("Warn me.")).tool == "mail"

    def test_this_trajectory_is_looked_at(self):
        predictor = taught([run(n, f"Goal {n}", *[f"x{n}", f"y{n}"] * 6) for n in range(10)])
        loop = ["new", "other"] * 3 + ["new"]
        for place, tool in enumerate(loop):
            predictor.observe_step(loop[:place], tool, Context("Anything"))
        assert predictor.predict_next(loop, Context("Anything")).tool == "other"


class TestProbabilities:
    def test_something_is_left_for_tools_never_observed(self):
        predictor = taught([run(n, f"Goal {n}", f"a{n}", f"b{n}") for n in range(30)])
        answer = predictor.predict_next(["telex"], Context("Fax it."))
        assert sum(candidate.probability for candidate in answer.candidates) < 0.9


class TestParameters:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"context_decay": 1.0}, "^context_decay must be a number between 0 and 1, got 1.0$"),
            ({"context_decay": 0.0}, "^context_decay must be a number between 0 and 1, got 0.0$"),
            ({"learning_rate": 0.0}, "^learning_rate must be a number above 0, got 0.0$"),
            ({"size": 0}, "^size must be a whole number of at least 1, got 0$"),
        ],
    )
    def test_one_out_of_range(self, options, message):
        with pytest.raises(InputError, match=message):
            ContextPredictor(**options)

    def test_arrays_of_the_wrong_shape(self):
        state = taught([run(0, "Rain?", "a", "b")]).state()
        for name in ("trust", "squares", "keys", "ends", "followers", "counts"):
            with pytest.raises(InputError, match=r"^the state of a 'context' predictor is broken"):
                ContextPredictor().restore({**state, name: state[name][1:]})


class TestMemory:
    def test_it_is_bounded_and_the_one_not_observed_for_longest_goes_first(self):
        memory = ContextMemory(0.5, 2)
        for key in (1, 2, 1, 3):
            memory.add([key], "sms", 1.0)
        assert memory.state()["keys"].tolist() == [1, 3]
        assert (memory.get(2), memory.get(3)) == ({}, {"sms": 1.0})
        assert memory.get(1) == {"sms": 1.5}

    def test_a_context_holds_few_tools_however_many_followed(self):
        memory = ContextMemory(0.8, 10)
        for n in range(1000):
            memory.add([1], f"t{n}", 1.0)
        assert 10 < len(memory.get(1)) < 25


class TestContexts:
    def test_there_is_a_key_for_each_and_all_are_distinct(self):
        for steps in ([], [Step("a")], [Step("a"), Step("b", {"x": 1}, "done")] * 5):
            keys = context_keys(steps, "Rain?")
            assert len(keys) == len(set(keys)) == len(CONTEXTS)
            assert all(0 <= key < 2**64 for key in keys)

    def test_keys_do_not_depend_on_the_order_of_the_inputs(self):
        one, two = Step("a", {"x": 1, "y": 2}), Step("a", {"y": 2, "x": 1})
        assert context_keys([one], "Rain?") == context_keys([two], "Rain?")

    def test_keys_are_the_same_in_every_process(self):
        assert context_keys([Step("a")], "Rain?")[1] == 9036351346772228697
