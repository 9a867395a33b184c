from __future__ import annotations

import math

import pytest

from cnp_router.constraints import Preference, Problem, Rule
from cnp_router.exceptions import InputError

BUDGET = Rule("budget", "the budget is 10", {"tea": 4, "cake": 7}, at_most=10)


def wrong(make, *args, **values):
    with pytest.raises(InputError) as caught:
        make(*args, **values)
    return str(caught.value)


class TestRule:
    def test_it_holds_within_its_bounds(self):
        assert BUDGET.holds({"tea"})
        assert not BUDGET.holds({"tea", "cake"})
        assert BUDGET.breach(11) == "11 instead of at most 10"
        assert Rule("some", "some", {"tea": 4}, at_least=3).breach(0) == "0 instead of at least 3"

    def test_rounding_breaks_nothing(self):
        tenth = Rule("tenth", "a tenth ten times", {f"x{i}": 0.1 for i in range(10)}, at_least=1)
        assert tenth.total([f"x{i}" for i in range(10)]) < 1
        assert tenth.holds([f"x{i}" for i in range(10)])

    def test_a_rule_that_contradicts_itself(self):
        said = wrong(Rule, "budget", "two bounds", {"tea": 4}, at_least=3, at_most=2)
        assert said == "rule 'budget' contradicts itself: at least 3 and at most 2 (two bounds)"

    def test_a_rule_that_can_never_hold(self):
        said = wrong(Rule, "credits", "16 are needed", {"a": 2, "b": 4, "c": -9}, at_least=16)
        assert said == (
            "rule 'credits' can never hold: all together give 6, and it asks for at least 16 "
            "(16 are needed)"
        )
        said = wrong(Rule, "few", "few", {"a": 2, "b": -1}, at_most=-2)
        assert "nothing gives less than -1, and it allows at most -2" in said
        assert "can never hold" in wrong(Rule, "some", "some", {}, at_least=1)

    @pytest.mark.parametrize("value", [math.nan, math.inf, "4", True, None, 1e10])
    def test_coefficients_are_numbers(self, value):
        said = wrong(Rule, "budget", "10", {"tea": value}, at_most=10)
        assert said.startswith("the number of 'tea' in rule 'budget' must be a number")

    @pytest.mark.parametrize("name", ["at_least", "at_most"])
    @pytest.mark.parametrize("value", [math.nan, math.inf, "4", True])
    def test_bounds_are_numbers(self, name, value):
        said = wrong(Rule, "budget", "10", {"tea": 4}, **{name: value})
        assert said.startswith(f"{name} of rule 'budget' must be a number")

    def test_a_rule_binds_something_and_says_why(self):
        assert "binds nothing" in wrong(Rule, "budget", "10", {"tea": 4})
        assert "reason of rule 'budget'" in wrong(Rule, "budget", " ", {"tea": 4}, at_most=1)
        assert "name of a rule" in wrong(Rule, "", "10", {"tea": 4}, at_most=1)
        assert "needs a number by item id" in wrong(Rule, "budget", "10", ["tea"], at_most=1)

    def test_what_is_given_is_copied(self):
        given = {"tea": 4.0}
        rule = Rule("budget", "10", given, at_most=10)
        given["tea"] = 40.0
        assert rule.total(["tea"]) == 4


class TestPreference:
    def test_gain(self):
        likes = Preference("sweets", "likes sweets", {"cake": 2, "ice": 2, "soap": -1}, 2)
        assert likes.gain(["cake", "ice", "soap", "tea"]) == 6

    def test_enough_is_enough(self):
        likes = Preference("sweets", "likes sweets", {"cake": 2, "ice": 2}, 2, at_most=3)
        assert [likes.gain(each) for each in ([], ["cake"], ["cake", "ice"])] == [0, 4, 6]

    @pytest.mark.parametrize("weight", [-1, math.nan, math.inf, "1"])
    def test_weights_are_numbers_from_zero(self, weight):
        assert "the weight of preference 'a'" in wrong(Preference, "a", "a", {}, weight)


class TestProblem:
    def test_unknown_items_are_named_with_a_close_one(self):
        said = wrong(Problem, ["teas", "cake"], [BUDGET])
        assert said == (
            "rule 'budget' names the item 'tea', which is not there (did you mean 'teas'?)"
        )
        likes = Preference("taste", "taste", {"pie": 1})
        assert "preference 'taste'" in wrong(Problem, ["tea", "cake"], [BUDGET], [likes])
        assert "'fixed' names" in wrong(Problem, ["tea", "cake"], [BUDGET], fixed=["pie"])
        assert "'hidden' names" in wrong(Problem, ["tea", "cake"], [BUDGET], hidden=["pie"])

    def test_items_and_preferences_are_distinct(self):
        likes = Preference("taste", "taste", {"tea": 1})
        assert "duplicate item" in wrong(Problem, ["tea", "tea"], [])
        assert "duplicate preference" in wrong(Problem, ["tea"], [], [likes, likes])
        assert "at least one item" in wrong(Problem, [], [])
        assert "items must be a list" in wrong(Problem, "tea", [])

    def test_rules_may_share_a_name(self):
        rules = [Rule("one", why, {"tea": 1}, at_most=1) for why in "ab"]
        assert Problem(["tea"], rules, fixed=["tea"]).lines[-1].reason == "tea is fixed"
