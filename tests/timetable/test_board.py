from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnp_router.constraints import Problem, Rule, broken
from cnp_router.exceptions import InfeasibleError, InputError
from cnp_router.timetable.board import Board
from cnp_router.timetable.course import SLOTS, Course, load_courses
from cnp_router.timetable.form import Form, Liking
from cnp_router.timetable.timetable_rules import credits_between, no_gaps

COURSES = load_courses()
IDS = [course.id for course in COURSES]
BY_ID = {course.id: course for course in COURSES}


def form(**changed):
    said = {
        "department": "Economics and Business",
        "year": 2,
        "min_credits": 8,
        "max_credits": 12,
        "first_period": False,
        "gaps": True,
        "free_day": False,
        "interests": "statistics, film",
    }
    return Form(**said | changed)


def board(**changed):
    return Board(COURSES, form=form(**changed))


def small(*slots, name="Course", credits=1.0):
    """Courses C0, C1, ... in these slots."""
    first = COURSES[0]
    return [
        Course(
            **first.to_dict()
            | {"id": f"C{i}", "name": f"{name} {i}", "slot": slot, "credits": credits}
        )
        for i, slot in enumerate(slots)
    ]


class TestReasons:
    def test_an_unknown_id_comes_with_close_ones(self):
        reason = board().reason_against("EC-2205")
        assert reason.startswith("there is no course 'EC-2205' (did you mean 'EC-2")

    def test_a_name_leads_to_the_id(self):
        assert "'EC-205'" in board().reason_against("econometrics")

    def test_nothing_close(self):
        said = "there is no course 'zzz' (search shows the ids)"
        assert board().reason_against("zzz") == said

    def test_a_taken_slot_says_by_whom(self):
        own = board()
        own.add("ST-104")
        said = "Wednesday 2 is taken (by ST-104, Statistics for Economics)"
        assert own.reason_against("AR-230") == said
        assert own.reason_against("AR-230") == own.refusal(
            "timetable__add", {"course_id": "AR-230"}
        )

    def test_it_is_chosen_already(self):
        own = board()
        own.add("ST-104")
        assert own.reason_against("ST-104") == "ST-104 is chosen already"

    def test_the_same_course_at_another_time(self):
        own = Board(COURSES)
        own.add("MA-101")
        assert own.reason_against("MA-102") == "'Calculus I' is chosen already (MA-101, Monday 1)"

    @pytest.mark.parametrize(
        ("changed", "course", "said"),
        [
            ({}, "EC-301", "EC-301 is not allowed: only courses for year 2"),
            ({}, "BI-112", "BI-112 is not allowed: no first period"),
            ({"avoid": ["Fri 2"]}, "GE-205", "GE-205 is not allowed: nothing on Friday 2"),
            ({"avoid": ["Friday"]}, "GE-205", "GE-205 is not allowed: nothing on Friday"),
            ({"free_day": "Fri"}, "GE-205", "GE-205 is not allowed: Friday is free"),
            (
                {"forms": Liking(excluded=["laboratory"])},
                "PH-102",
                "PH-102 is not allowed: no laboratory",
            ),
            ({"dropped": ["ST-104"]}, "ST-104", "ST-104 is not allowed: without ST-104"),
        ],
    )
    def test_a_rule_of_the_form_is_the_reason(self, changed, course, said):
        assert board(**changed).reason_against(course) == said

    def test_too_many_credits(self):
        own = board(min_credits=2, max_credits=4)
        own.add("CS-110")
        assert own.reason_against("ST-104") == (
            "with ST-104 a rule would be broken: at most 4 credits (5 instead of at most 4)"
        )

    def test_too_many_courses_a_day(self):
        own = board(max_per_day=1)
        own.add("ST-104")
        assert own.reason_against("BI-205").startswith(
            "with BI-205 a rule would be broken: at most 1 course on Wednesday"
        )

    def test_what_leads_nowhere_is_refused(self):
        # A and C leave a gap that nothing fills within the credits.
        courses = small("Mon 2", "Mon 3", "Mon 4", "Tue 2")
        rules = [*credits_between(2, 2, courses), *no_gaps(courses)]
        own = Board(courses, rules=rules)
        own.add("C0")
        reason = own.reason_against("C2")
        assert reason == (
            "with C2 the timetable cannot be completed: at most 2 credits; no gap on Monday"
        )
        own.add("C3")
        own.finish()

    def test_nothing_is_added_after_the_end(self):
        own = Board(COURSES)
        own.add("MA-101")
        own.finish()
        assert own.reason_against("ST-101") == "the timetable is finished"
        assert own.refusal("timetable__finish", {}) == "the timetable is finished already"

    def test_a_refused_course_changes_nothing(self):
        own = board()
        own.add("ST-104")
        before = own.state()
        with pytest.raises(InputError, match="Wednesday 2 is taken"):
            own.add("AR-230")
        assert own.state() == before

    @pytest.mark.parametrize("inputs", [{}, {"course_id": None}, {"course_id": 3}, {"id": "ST-1"}])
    def test_inputs_that_the_tool_itself_refuses(self, inputs):
        assert board().refusal("timetable__add", inputs) is None

    def test_other_calls_are_not_its_business(self):
        own = board()
        assert own.refusal("timetable__search", {"query": "x"}) is None
        assert own.refusal("mail__add", {"course_id": "zzz"}) is None


class TestFinish:
    def test_an_early_end_names_what_is_unmet(self):
        own = board()
        own.add("ST-104")
        said = "it is not finished: at least 8 credits (2 instead of at least 8)"
        assert own.refusal("timetable__finish", {}) == said
        with pytest.raises(InputError, match="at least 8 credits"):
            own.finish()
        assert not own.is_finished

    def test_an_empty_timetable_is_not_finished(self):
        assert Board(COURSES).unmet() == ("at least one course (0 instead of at least 1)",)

    def test_a_gap_is_unmet_until_it_is_filled(self):
        courses = small("Mon 2", "Mon 3", "Mon 4")
        own = Board(courses, rules=[*credits_between(2, 3, courses), *no_gaps(courses)])
        own.add("C0")
        own.add("C2")
        assert own.unmet() == ("no gap on Monday (2 instead of at most 1)",)
        own.add("C1")
        assert own.unmet() == ()


class TestState:
    def test_it_is_json_and_has_keywords_only(self):
        own = board(avoid=["Mon 2"])
        own.add("ST-104")
        state = own.state()
        assert json.loads(json.dumps(state)) == state
        assert state["credits"] == 2.0
        assert "Mon 2" in state["avoided_slots"]
        assert "Mon 1" in state["avoided_slots"]
        assert "Wed 2" not in state["free_slots"]
        assert state["chosen"] == [
            {
                "id": "ST-104",
                "name": "Statistics for Economics",
                "keywords": ["economic data", "R", "regression"],
                "slot": "Wed 2",
            }
        ]

    def test_it_says_nothing_of_the_student(self):
        text = json.dumps(board().state())
        assert "Economics and Business" not in text
        assert "film" not in text

    def test_free_avoided_and_taken_slots_are_the_week(self):
        own = board(avoid=["Friday"])
        own.add("ST-104")
        taken = {course.slot for course in own.chosen}
        assert {*own.free_slots, *own.avoided_slots, *taken} == set(SLOTS)
        assert len(own.free_slots) + len(own.avoided_slots) + len(taken) == len(SLOTS)

    def test_a_slot_without_courses_is_free(self):
        none = Rule("none", "nothing on Monday", {"C0": 1}, at_most=0)
        own = Board(small("Mon 1", "Tue 2"), rules=[none])
        assert own.avoided_slots == {"Mon 1": "nothing on Monday"}
        assert len(own.free_slots) == 24

    def test_an_intensive_course_takes_no_slot(self):
        own = board()
        own.add("ST-240")
        assert own.credits == 0.5
        assert len(own.free_slots) == 20

    def test_fixed_courses_are_there_from_the_beginning(self):
        assert [course.id for course in board(fixed=["ST-104"]).chosen] == ["ST-104"]


class TestPlannerSide:
    def test_hints_name_fields_and_rules(self):
        hints = board(avoid=["Fri 5"]).hints()
        assert any("Applied Mathematics" in hint for hint in hints)
        assert "Rule: only courses for year 2." in hints
        assert "Rule: nothing on Friday 5." in hints

    def test_what_is_recommended_suits_and_can_be_added(self):
        own = board(interests="film")
        own.add("ST-104")
        ids = [each["id"] for each in own.recommended()]
        assert 1 <= len(ids) <= 12
        assert ids[0] == "FM-205"
        assert all(own.reason_against(each) is None for each in ids)

    def test_without_a_form_nothing_is_recommended(self):
        assert Board(COURSES).recommended() == ()


class TestRulesThatCannotHold:
    def test_they_are_named_at_once(self):
        with pytest.raises(InfeasibleError, match="at least 90 credits"):
            board(min_credits=90, max_credits=95)

    def test_an_unknown_item_is_an_error(self):
        with pytest.raises(InputError, match="ZZ-1"):
            Board(COURSES, rules=[Rule("r", "r", {"ZZ-1": 1}, at_most=1)])

    def test_two_courses_of_an_id_are_an_error(self):
        with pytest.raises(InputError, match="duplicate course id 'C0'"):
            Board([*small("Mon 1"), *small("Mon 1")])

    def test_no_courses_are_an_error(self):
        with pytest.raises(InputError):
            Board([])


FORMS = [
    form(),
    form(gaps=False, max_per_day=3),
    form(free_day=True, avoid=["Thu 5", "Mon"], min_credits=6, max_credits=7),
    form(first_period=True, free_day="Wed", fixed=["ST-240"], gaps=False),
]
PROBLEMS = [each.rules(COURSES) for each in FORMS]


class TestNoOrderBreaksARule:
    @settings(max_examples=20, deadline=None)
    @given(st.sampled_from(range(len(FORMS))), st.permutations(IDS), st.integers(10, 40))
    def test_whatever_is_tried(self, which, ids, most):
        own = Board(COURSES, form=FORMS[which])
        for each in ids[:most]:
            obstacle = own.obstacle(BY_ID[each])
            if obstacle is None:
                own.add(each)
            elif obstacle != "the timetable could not be completed":  # to say why takes time
                with pytest.raises(InputError, match=re.escape(obstacle).removeprefix("it\\ is")):
                    own.add(each)
            chosen = [course.id for course in own.chosen]
            slots = [course.slot for course in own.chosen if course.slot]
            assert len(slots) == len(set(slots))
            assert len({course.name for course in own.chosen}) == len(chosen)
            for rule in PROBLEMS[which].rules:
                if rule.at_most is not None and min(rule.coefficients.values(), default=0) >= 0:
                    hidden = set(rule.coefficients) - set(IDS)
                    assert hidden or rule.holds(chosen)

    @settings(max_examples=20, deadline=None)
    @given(st.sampled_from(range(len(FORMS))), st.permutations(IDS))
    def test_whoever_goes_on_ends_with_all_rules_kept(self, which, ids):
        own = Board(COURSES, form=FORMS[which])
        for each in ids:
            if not own.unmet():
                break
            if own.obstacle(BY_ID[each]) is None:
                own.add(each)
        assert own.unmet() == ()
        assert broken(PROBLEMS[which], [course.id for course in own.chosen]) == ()
        own.finish()


def test_a_problem_and_a_form_are_kept_both():
    few = Problem(IDS, [Rule("few", "at most 2 courses", dict.fromkeys(IDS, 1), at_most=2)])
    own = Board(COURSES, form=form(min_credits=2), rules=few)
    own.add("ST-104")
    own.add("CS-110")
    assert "at most 2 courses" in own.reason_against("ST-240")
    assert "no first period" in own.reason_against("BI-112")
