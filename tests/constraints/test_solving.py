"""Against brute force: all choices of a few items."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import OptimizeResult

from cnp_router.constraints import Preference, Problem, Rule, broken, conflict_of, program, solve
from cnp_router.exceptions import InfeasibleError, InputError

ITEMS = tuple("abcdef")
HALVES = st.integers(-6, 6).map(lambda n: n / 2)
ROOMY = settings(deadline=None, max_examples=60)


def all_choices(items):
    for size in range(len(items) + 1):
        yield from map(frozenset, itertools.combinations(items, size))


def fits(lines, choice):
    return all(line.holds(choice) for line in lines)


@st.composite
def rules(draw):
    """A rule that some choice keeps: others are errors of their own."""
    numbers = draw(st.dictionaries(st.sampled_from(ITEMS), HALVES, max_size=5))
    some = draw(st.sampled_from(list(all_choices(ITEMS))))
    total = sum(value for item, value in numbers.items() if item in some)
    kind = draw(st.sampled_from(["least", "most", "both"]))
    low, high = total - draw(st.integers(0, 3)), total + draw(st.integers(0, 3))
    bounds = {"least": {"at_least": low}, "most": {"at_most": high}}
    both = {"at_least": low, "at_most": high}
    name = draw(st.sampled_from(["one", "two", "three"]))
    return Rule(name, f"{name} {numbers}", numbers, **bounds.get(kind, both))


@st.composite
def problems(draw):
    preferences = [
        Preference(
            f"p{n}",
            "liked",
            draw(st.dictionaries(st.sampled_from(ITEMS), HALVES)),
            draw(st.sampled_from([0, 0.5, 2])),
            at_most=draw(st.sampled_from([None, 0, 1, 3])),
        )
        for n in range(draw(st.integers(0, 3)))
    ]
    return Problem(
        ITEMS,
        draw(st.lists(rules(), max_size=6)),
        preferences,
        fixed=draw(st.lists(st.sampled_from(ITEMS), max_size=2)),
    )


def value(problem, choice):
    return sum(each.gain(choice) for each in problem.preferences)


class TestAgainstBruteForce:
    @ROOMY
    @given(problems())
    def test_it_keeps_every_rule_and_nothing_gains_more(self, problem):
        fitting = [each for each in all_choices(ITEMS) if fits(problem.lines, each)]
        if not fitting:
            with pytest.raises(InfeasibleError):
                solve(problem)
            return
        solution = solve(problem)
        assert frozenset(solution.items) in fitting
        assert solution.value == pytest.approx(max(value(problem, each) for each in fitting))
        assert solution.value == pytest.approx(value(problem, solution.items))
        assert solution.is_optimal
        assert solve(problem) == solution

    @ROOMY
    @given(problems(), st.lists(st.sampled_from(ITEMS), unique=True))
    def test_it_keeps_as_many_as_possible_first(self, problem, keep):
        fitting = [each for each in all_choices(ITEMS) if fits(problem.lines, each)]
        if not fitting:
            return
        solution = solve(problem, keep=keep)
        most = max(len(each & set(keep)) for each in fitting)
        best = max(value(problem, each) for each in fitting if len(each & set(keep)) == most)
        assert len(solution.kept) == most
        assert solution.value == pytest.approx(best)
        assert set(solution.kept) | set(solution.given_up) == set(keep)

    @ROOMY
    @given(problems(), st.lists(st.sampled_from(ITEMS), unique=True), st.sampled_from([0, 0.5, 9]))
    def test_keeping_can_be_weighed(self, problem, keep, weight):
        fitting = [each for each in all_choices(ITEMS) if fits(problem.lines, each)]
        if not fitting:
            return
        solution = solve(problem, keep=keep, keep_weight=weight)
        best = max(value(problem, each) + weight * len(each & set(keep)) for each in fitting)
        assert solution.value + weight * len(solution.kept) == pytest.approx(best)

    @ROOMY
    @given(problems())
    def test_a_conflict_is_one_and_none_of_it_can_be_spared(self, problem):
        choices = list(all_choices(ITEMS))
        conflict = conflict_of(problem)
        if any(fits(problem.lines, each) for each in choices):
            assert conflict is None
            return
        assert conflict.is_minimal
        assert not any(fits(conflict.rules, each) for each in choices)
        for spared in range(len(conflict.rules)):
            others = conflict.rules[:spared] + conflict.rules[spared + 1 :]
            assert any(fits(others, each) for each in choices)

    @ROOMY
    @given(problems(), st.sampled_from(list(all_choices(ITEMS))))
    def test_broken_names_what_does_not_hold(self, problem, choice):
        wrong = [line for line in problem.lines if not line.holds(choice)]
        assert [each.rule for each in broken(problem, choice)] == wrong
        assert [each.rule for each in broken(problem.rules, choice)] == [
            line for line in wrong if line in problem.rules
        ]


DAYS = {"a": "Mon", "b": "Mon", "c": "Tue", "d": "Tue"}


def with_free_day(*more, preferences=(), **options):
    """One of two days has to be free: hidden items stand for it."""
    link = [
        Rule(
            "free day",
            f"{day} is free or not",
            {**{item: 1.0 for item in DAYS if DAYS[item] == day}, f"{day} is free": 2.0},
            at_most=2,
        )
        for day in ("Mon", "Tue")
    ]
    some = Rule("free day", "a day is free", {"Mon is free": 1, "Tue is free": 1}, at_least=1)
    hidden = ("Mon is free", "Tue is free")
    return Problem((*DAYS, *hidden), (*link, some, *more), preferences, hidden=hidden, **options)


class TestHiddenItems:
    def test_they_are_not_shown(self):
        likes = Preference("all", "all", dict.fromkeys(DAYS, 1.0) | {"c": 2.0})
        assert solve(with_free_day(preferences=[likes])).items == ("c", "d")

    def test_broken_chooses_them_as_they_suit_best(self):
        assert broken(with_free_day(), ["a", "b"]) == ()
        assert broken(with_free_day(), []) == ()
        assert {each.name for each in broken(with_free_day(), ["a", "c"])} == {"free day"}

    def test_only_other_rules_are_broken_besides(self):
        few = Rule("few", "at most one", dict.fromkeys(DAYS, 1.0), at_most=1)
        assert [str(each) for each in broken(with_free_day(few), ["a", "b"])] == [
            "at most one (2 instead of at most 1)"
        ]

    def test_they_are_part_of_a_conflict(self):
        conflict = conflict_of(with_free_day(fixed=["a", "d"]))
        assert set(conflict.reasons) == {"free day", "a is fixed", "d is fixed"}


class TestErrors:
    def test_the_error_names_the_conflict(self):
        rules = [
            Rule("thirsty", "there has to be tea", {"tea": 1}, at_least=1),
            Rule("hungry", "at most one cake", {"cake": 1}, at_most=1),
            Rule("budget", "the budget is 3", {"tea": 4, "cake": 7}, at_most=3),
        ]
        with pytest.raises(InfeasibleError) as caught:
            solve(Problem(["tea", "cake"], rules))
        assert str(caught.value) == (
            "nothing fits these rules together: there has to be tea; the budget is 3 "
            "(take back one of them)"
        )
        assert caught.value.reasons == {
            "thirsty": ("there has to be tea",),
            "budget": ("the budget is 3",),
        }
        assert caught.value.conflict.is_minimal

    def test_rules_of_one_name_are_counted_where_there_are_many(self):
        items = [f"x{i}" for i in range(9)]
        rules = [Rule("no", f"no {item}", {item: 1}, at_most=0) for item in items]
        rules.append(Rule("all", "at least one", dict.fromkeys(items, 1.0), at_least=1))
        with pytest.raises(InfeasibleError, match=r"together: no \(9 such rules\); at least one"):
            solve(Problem(items, rules))

    def test_what_is_fixed_is_part_of_it(self):
        rule = Rule("none", "no tea", {"tea": 1}, at_most=0)
        with pytest.raises(InfeasibleError, match="no tea; tea is fixed"):
            solve(Problem(["tea"], [rule], fixed=["tea"]))

    def test_many_names_are_looked_at_by_their_slack_first(self):
        items = [f"x{i}" for i in range(200)]
        rules = [Rule(f"r{i}", f"no {item}", {item: 1}, at_most=0) for i, item in enumerate(items)]
        rules.append(Rule("some", "x7 or x9", {"x7": 1, "x9": 1}, at_least=1))
        conflict = conflict_of(Problem(items, rules))
        assert [rule.reason for rule in conflict.rules] == ["no x7", "no x9", "x7 or x9"]

    def test_time_that_is_up_is_said(self, monkeypatch):
        stopped = OptimizeResult(status=1, x=None, message="time")
        monkeypatch.setattr("cnp_router.constraints.program.milp", lambda *_, **__: stopped)
        with pytest.raises(InputError, match=r"no choice was found within 0\.5 s"):
            solve(Problem(["tea"], []), timeout=0.5)

    def test_what_is_found_in_time_may_not_be_the_best(self, monkeypatch):
        found = OptimizeResult(status=1, x=[1.0, 0.0], message="time")
        monkeypatch.setattr("cnp_router.constraints.program.milp", lambda *_, **__: found)
        solution = solve(Problem(["tea", "cake"], []))
        assert (solution.items, solution.is_optimal) == (("tea",), False)

    def test_a_conflict_that_is_not_sure_to_be_minimal_says_so(self, monkeypatch):
        rules = [Rule(f"r{i}", f"no {i}", {"tea": 1}, at_most=0) for i in range(3)]
        rules.append(Rule("some", "tea", {"tea": 1}, at_least=1))
        problem = Problem(["tea"], rules)
        times = iter([5.0, 5.0, 5.0, 0.0])
        left = property(lambda _: next(times, 0.0))
        monkeypatch.setattr("cnp_router.constraints.program.Deadline.left", left)
        conflict = conflict_of(problem)
        assert not conflict.is_minimal
        assert "some of them may have no part in it" in str(conflict.error())

    @pytest.mark.parametrize("n_solved", range(1, 6))
    def test_where_time_is_up_all_that_may_have_a_part_in_it_is_named(self, monkeypatch, n_solved):
        items = [f"x{i}" for i in range(60)]
        rules = [Rule(f"r{i}", f"no {item}", {item: 1}, at_most=0) for i, item in enumerate(items)]
        rules.append(Rule("some", "x7 or x9", {"x7": 1, "x9": 1}, at_least=1))
        solver, calls = program.milp, iter(range(n_solved))

        def for_a_time(*given, **settings):
            stopped = OptimizeResult(status=1, x=None, message="time")
            return stopped if next(calls, None) is None else solver(*given, **settings)

        monkeypatch.setattr(program, "milp", for_a_time)
        conflict = conflict_of(Problem(items, rules))
        assert not conflict.is_minimal
        assert {"no x7", "no x9", "x7 or x9"} <= {rule.reason for rule in conflict.rules}

    def test_what_the_presolve_of_the_solver_fails_at_is_solved_without_it(self):
        numbers = {"a": 100.0, "c": -1.0, "d": 0.1, "e": 1.0, "f": 3.0}
        rule = Rule("one", "cannot hold", numbers, at_least=0.3, at_most=0.3)
        lines = program.Program(list(numbers), [rule])
        assert lines.can_hold([0], program.Deadline(5.0)) is False

    def test_a_solver_that_is_not_sure_makes_nothing_minimal(self, monkeypatch):
        solver = program.milp

        def fails(cost, *, integrality, bounds, constraints, options):
            if constraints[0].A.shape[0] == 1:
                return OptimizeResult(status=4, x=None, message="solve error")
            if len(cost) == 1 and constraints[0].A.shape[0] == 2:
                return OptimizeResult(status=2, x=None, message="infeasible")
            return solver(
                cost,
                integrality=integrality,
                bounds=bounds,
                constraints=constraints,
                options=options,
            )

        monkeypatch.setattr(program, "milp", fails)
        rules = [
            Rule("none", "no tea", {"tea": 1}, at_most=0),
            Rule("some", "tea", {"tea": 1}, at_least=1),
        ]
        conflict = conflict_of(Problem(["tea"], rules))
        assert (conflict.is_minimal, conflict.rules) == (False, tuple(rules))

    @pytest.mark.parametrize(
        "values", [{"timeout": 0}, {"keep": "tea"}, {"keep": ["tea"], "keep_weight": -1}]
    )
    def test_arguments(self, values):
        with pytest.raises(InputError):
            solve(Problem(["tea"], []), **values)

    def test_broken_knows_the_items(self):
        with pytest.raises(InputError, match="the choice names the item 'tee'"):
            broken(Problem(["tea"], []), ["tee"])

    def test_what_is_kept_is_known(self):
        with pytest.raises(InputError, match=r"what is kept names the item 'tee'.*mean 'tea'"):
            solve(Problem(["tea"], []), keep=["tee", "tea"])

    def test_numbers_too_far_apart_are_an_error_and_no_loophole(self):
        rule = Rule("big", "at most the big one", {"a": 1e9, "b": 100}, at_most=1e9)
        likes = Preference("both", "both", {"a": 1, "b": 1})
        with pytest.raises(InputError, match="rule 'big' has numbers too far apart"):
            solve(Problem(["a", "b"], [rule], [likes]))
