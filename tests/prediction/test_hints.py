from __future__ import annotations

import json

import pytest

from cnp_router.exceptions import InputError
from cnp_router.prediction import Hint, ParameterHints
from cnp_router.trajectories import Step


def learned(*pairs):
    hints = ParameterHints()
    for prefix, step in pairs:
        hints.observe_step(prefix, step)
    return hints


def find(name, observation=""):
    return Step("find", {"name": name, "limit": 3}, observation)


class TestWhatCounts:
    def test_an_equal_input(self):
        hints = learned(*(([find(c)], Step("weather", {"city": c})) for c in ("Oslo", "Rome")))
        assert hints.hints("weather", [find("Kyoto")]) == (
            Hint("city", 0, "find", "inputs", "name", "Kyoto", 2, 2),
        )

    def test_a_value_in_an_observation_that_is_json(self):
        def seen(number):
            return json.dumps({"items": [{"id": number, "ok": True}], "note": "x"})

        hints = learned(
            *(([find("a", seen(n))], Step("open", {"item": n})) for n in (17, 18)),
            ([find("a", seen(19))], Step("open", {"item": 99})),
        )
        assert hints.hints("open", [Step("other"), find("b", seen(20))]) == (
            Hint("item", 1, "find", "observation", "items[0].id", 20, 2, 3),
        )

    def test_a_text_that_stands_in_an_observation(self):
        hints = learned(
            ([find("a", "There is a metal pot here.")], Step("use", {"on": "metal pot"}))
        )
        (hint,) = hints.hints("use", [find("b", "A lamp.")])
        assert (hint.source, hint.key, hint.value, hint.count) == ("observation", None, None, 1)

    @pytest.mark.parametrize(
        ("value", "observation"),
        [
            ("pot", "A potter."),
            ("pot", "despot"),
            ("a", "a b"),
            (3, "There are 3."),
            (True, '{"x": true}'),
            (True, '{"x": 1}'),
            ("1", '{"x": 1}'),
            (1, '{"x": "1"}'),
            ("", '{"x": ""}'),
            (None, '{"x": null}'),
            (float("nan"), '{"x": NaN}'),
        ],
    )
    def test_what_is_no_match(self, value, observation):
        use = Step("use")
        use.inputs["on"] = value  # where a step would refuse it
        hints = learned(([Step("look", {}, observation)], use))
        assert hints.hints("use", [Step("look", {}, observation)]) == ()

    def test_the_latest_call_of_a_tool_is_meant(self):
        prefix = [find("Oslo"), find("Rome")]
        hints = learned((prefix, Step("weather", {"city": "Oslo"})))
        assert hints.hints("weather", prefix) == ()
        hints.observe_step(prefix, Step("weather", {"city": "Rome"}))
        (hint,) = hints.hints("weather", [*prefix, find("Bern"), Step("x")])
        assert (hint.value, hint.place, hint.count, hint.of) == ("Bern", 2, 1, 2)

    def test_inputs_inside_others(self):
        hints = learned(([find("Oslo")], Step("send", {"to": {"cities": ["Rome", "Oslo"]}})))
        (hint,) = hints.hints("send", [find("Bern")])
        assert (hint.input, hint.key, hint.value) == ("to.cities[1]", "name", "Bern")


class TestAnswers:
    def test_the_most_frequent_place_comes_first(self):
        pairs = [
            ([find("a"), Step("look", {"at": at})], Step("go", {"to": "a"})) for at in ("a", "b")
        ]
        found = learned(*pairs).hints("go", [find("x"), Step("look", {"at": "y"})])
        assert [(h.tool, h.value, h.count, h.of) for h in found] == [
            ("find", "x", 2, 2),
            ("look", "y", 1, 2),
        ]

    def test_only_places_that_are_there(self):
        hints = learned(([find("a")], Step("go", {"to": "a"})))
        assert hints.hints("go", [Step("look")]) == ()
        assert hints.hints("go", [Step("find", {"other": 1})]) == ()
        assert hints.hints("telex", [find("a")]) == ()
        assert hints.hints("go", []) == ()

    def test_a_bare_tool_id_has_no_value(self):
        hints = learned(([find("a")], Step("go", {"to": "a"})))
        (hint,) = hints.hints("go", ["look", "find"])
        assert (hint.place, hint.key, hint.value) == (1, "name", None)

    def test_some_inputs_only(self):
        hints = learned(([find("a")], Step("go", {"to": "a", "n": 3})))
        assert [h.input for h in hints.hints("go", [find("b")])] == ["n", "to"]
        assert [h.input for h in hints.hints("go", [find("b")], inputs=["to"])] == ["to"]

    def test_a_long_prefix_is_looked_back_at_twenty_steps_far(self):
        hints = learned(([find("a")], Step("go", {"to": "a"})))
        assert hints.hints("go", [find("b"), *[Step("x")] * 19])[0].place == 0
        assert hints.hints("go", [find("b"), *[Step("x")] * 20]) == ()


class TestBounds:
    def test_tools_not_used_for_long_are_forgotten(self):
        hints = ParameterHints(size=2)
        for tool in ("one", "two", "one", "three"):
            hints.observe_step([find("a")], Step(tool, {"to": "a"}))
        kept = [t for t in ("one", "two", "three") if hints.hints(t, [find("a")])]
        assert kept == ["one", "three"]

    def test_places_and_inputs_are_bounded(self):
        hints = ParameterHints()
        wide = {f"k{n}": f"value {n}" for n in range(300)}
        for n in range(300):
            hints.observe_step([Step(f"t{n}", {"x": "same"})], Step("go", {"to": "same"}))
            hints.observe_step([], Step("many", {f"i{n}": n}))
            hints.observe_step([Step("wide", wide)], Step("wide", wide))
        assert len(json.dumps(hints.state())) < 200_000

    @pytest.mark.parametrize(
        "observation",
        ["[" * 100_000, '{"a": ' * 5000, "{" + "x" * 50_000, '[1, "\\ud800"]', "{}", "[]", "{bad}"],
    )
    def test_odd_observations(self, observation):
        hints = learned(([find("a", observation)], Step("go", {"to": "abc"})))
        hints.hints("go", [find("a", observation)])

    def test_a_wrong_size(self):
        with pytest.raises(InputError, match="size must be a whole number of at least 1, got 0"):
            ParameterHints(size=0)


class TestState:
    def test_it_comes_back(self):
        hints = learned(
            ([find("a", '{"id": "a"}')], Step("go", {"to": "a", "on": "pot"})),
            ([find("b", "The pot.")], Step("go", {"to": "b", "on": "pot"})),
        )
        again = ParameterHints()
        again.restore(json.loads(json.dumps(hints.state())))
        prefix = [find("c", "A pan.")]
        assert again.hints("go", prefix) == hints.hints("go", prefix) != ()
        assert again.state() == hints.state()

    @pytest.mark.parametrize(
        "uses",
        [
            [["go", "to", 1, [["find", "elsewhere", "x", 1]]]],
            [["go", "to", 1, [["find", "inputs", "x", 2]]]],
            [["go", "to", 1]],
            [7],
        ],
    )
    def test_a_state_that_is_none(self, uses):
        with pytest.raises((TypeError, ValueError)):
            ParameterHints().restore({"uses": uses})

    def test_its_own_size_stays(self):
        hints, small = ParameterHints(), ParameterHints(size=1)
        for tool in ("weather", "maps"):
            hints.observe_step([Step("find", {"name": "Oslo"})], Step(tool, {"city": "Oslo"}))
        small.restore(hints.state())
        assert small.size == 1
        asked = [Step("find", {"name": "Rome"})]
        assert not small.hints("weather", asked) and small.hints("maps", asked)

    def test_no_sequence_is_no_prefix(self):
        hints = ParameterHints()
        hints.observe_step([], Step("weather", {"city": "Oslo"}))
        with pytest.raises(InputError, match="prefix must be several steps and tool ids"):
            hints.hints("weather", None)
