from __future__ import annotations

import dataclasses
import json
import math
from typing import ClassVar

import pytest

from cnp_router.constraints import broken
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.timetable import SLOTS, Course, Form, Liking, load_courses
from cnp_router.timetable.dialogue import ask
from cnp_router.timetable.questions import QUESTIONS

COURSES = load_courses()
WHOLE = Form(
    department="Computer Science",
    year=2,
    min_credits=4,
    max_credits=30,
    first_period=True,
    gaps=True,
    free_day=False,
    interests="",
)


def course(id, slot="Mon 2", **values):
    summary = dict.fromkeys(("topic", "aims", "topics", "skills", "style", "prerequisites"), "-")
    given = {
        "name": f"Course {id}",
        "credits": 2.0,
        "department": "Computer Science",
        "field": "Programming",
        "years": (2,),
        "form": "lecture",
        "assessment": {"exam": 100},
        "text": "A text.",
        "summary": summary,
        "keywords": ("words",),
    }
    return Course(id=id, slot=slot, **given | values)


def wrong(**values):
    with pytest.raises(InputError) as caught:
        Form(**values)
    return str(caught.value)


def names_broken(form, courses, chosen):
    return {each.name for each in broken(form.rules(courses), chosen)} - {"least credits"}


class TestValues:
    @pytest.mark.parametrize("year", [0, 7, -1, 2.5, "2", True])
    def test_an_impossible_year(self, year):
        assert wrong(year=year).startswith("year must be a whole number from 1 to 6, got")
        assert wrong(years=[2, year]).startswith("years must be")

    @pytest.mark.parametrize("value", [math.nan, math.inf, -1, 101, "12"])
    def test_credits(self, value):
        assert "must be a number from 0 to 100" in wrong(min_credits=value)
        assert "must be a number from 0 to 100" in wrong(max_credits=value)

    def test_credits_that_contradict_each_other(self):
        assert wrong(min_credits=18, max_credits=16) == (
            "min_credits must be at most max_credits, got 18 and 16 "
            "(lower min_credits, or raise max_credits)"
        )

    @pytest.mark.parametrize("slot", ["Mon 6", "Sun 1", "Sunday", "period 9", "noon", "", "2 Mon"])
    def test_an_unknown_slot(self, slot):
        assert wrong(avoid=[slot]).startswith("avoid must be a day and a period from 1 to 5")

    def test_times_are_said_in_one_way(self):
        form = Form(avoid=["friday", "Monday 2", "mon, period 2", "Period 5"], free_day="wednesday")
        assert (form.avoid, form.free_day) == (("Fri", "Mon 2", "period 5"), "Wed")

    @pytest.mark.parametrize("day", ["Mon 2", "someday", 3, "period 1", "Sunday", "yes"])
    def test_a_free_day_is_a_day(self, day):
        said = wrong(free_day=day)
        assert said.startswith("free_day must be true, false or a day from Mon to Fri,")

    def test_other_values(self):
        assert "first_period must be true or false" in wrong(first_period="yes")
        assert "max_per_day must be a whole number from 1 to 5" in wrong(max_per_day=6)
        assert "did you mean 'seminar'?" in wrong(forms=Liking(liked=["seminars"]))
        assert "assessment 'exams' is unknown" in wrong(assessment=Liking(excluded=["exams"]))
        assert "forms must be an object with 'liked'" in wrong(forms=["seminar"])
        assert "weights 'interest' is unknown (did you mean 'interests'?)" in wrong(
            weights={"interest": 1}
        )
        assert "weights of forms must be a number" in wrong(weights={"forms": math.nan})
        assert "avoid must be a list" in wrong(avoid="Fri")
        assert "fixed and dropped both have 'X'" in wrong(fixed=["X"], dropped=["X"])

    def test_a_name_is_liked_in_one_way(self):
        with pytest.raises(InputError, match="'seminar' is both liked and avoided"):
            Liking(liked=["seminar"], avoided=["seminar"])


class TestCheck:
    def test_unknown_names_with_close_ones(self):
        for values, said in (
            ({"department": "Computer Sience"}, "did you mean 'Computer Science' or"),
            ({"fields": Liking(liked=["Statistic"])}, "field 'Statistic' is unknown (did you mean"),
            ({"fixed": ["ST-10"]}, "course 'ST-10' is unknown (did you mean"),
            ({"dropped": ["st-101"]}, "did you mean 'ST-101'?"),
        ):
            with pytest.raises(InputError) as caught:
                Form(**values).check(COURSES)
            assert said in str(caught.value)

    def test_a_fixed_course_at_a_time_to_avoid(self):
        for entry in ("Mon", "Mon 2", "period 2"):
            with pytest.raises(InputError) as caught:
                Form(fixed=["ST-101"], avoid=[entry]).check(COURSES)
            assert str(caught.value) == (
                "fixed has ST-101 (Introduction to Statistics) on Mon 2, and avoid has "
                f"{entry!r} (take one of them out)"
            )

    def test_two_fixed_in_one_slot(self):
        both = [course("A"), course("B")]
        with pytest.raises(InputError) as caught:
            Form(fixed=["A", "B"]).check(both)
        assert str(caught.value) == (
            "fixed has A (Course A) and B (Course B), both on Mon 2 (take one of them out)"
        )

    def test_intensive_courses_clash_with_nothing(self):
        both = [course("A", None), course("B", None)]
        Form(fixed=["A", "B"], avoid=["Mon", "Tue", "Wed", "Thu", "Fri"]).check(both)


class TestFiles:
    def test_round_trip(self, tmp_path):
        form = dataclasses.replace(
            WHOLE,
            avoid=("Fri",),
            years=(1, 2),
            max_per_day=3,
            forms=Liking(["seminar"], ["laboratory"]),
            assessment=Liking(excluded=["exam"]),
            fields=Liking(liked=["Statistics"]),
            fixed=("ST-101",),
            dropped=("ST-120",),
            weights={"interests": 2.0},
        )
        form.write(tmp_path / "form.json")
        assert Form.read(tmp_path / "form.json") == form
        assert "forms" in json.loads((tmp_path / "form.json").read_text())
        Form().write(tmp_path / "empty.json")
        assert json.loads((tmp_path / "empty.json").read_text()) == {}

    @pytest.mark.parametrize(
        ("document", "said"),
        [
            ({"year": 9}, "field 'year' must be a whole number from 1 to 6, got 9"),
            ({"yaer": 2}, "unknown key 'yaer' (did you mean 'year'?)"),
            ({"avoid": ["Sun"]}, "field 'avoid' must be a day and a period"),
            ({"avoid": "Fri"}, "field 'avoid' must be a list of strings"),
            ({"department": "Magic"}, "department 'Magic' is unknown"),
            ({"fields": {"liked": ["Magic"]}}, "field 'Magic' is unknown"),
            ({"forms": {"likd": []}}, "unknown key 'likd' (did you mean 'liked'?)"),
            ({"forms": ["seminar"]}, "field 'forms' must be an object with"),
            ({"forms": {"liked": ["seminars"]}}, "did you mean 'seminar'?"),
            ({"fixed": ["XX-1"]}, "course 'XX-1' is unknown"),
            ({"gaps": 1}, "field 'gaps' must be true or false, got 1"),
            ([], "expected the JSON object of a form, got []"),
        ],
    )
    def test_errors_name_the_file_and_the_field(self, tmp_path, document, said):
        path = tmp_path / "form.json"
        path.write_text(json.dumps(document))
        with pytest.raises(DataFileError) as caught:
            Form.read(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert said in str(caught.value)

    def test_own_courses(self, tmp_path):
        path = tmp_path / "form.json"
        Form(fixed=("A",)).write(path)
        assert Form.read(path, courses=[course("A")]).fixed == ("A",)


class TestRules:
    """Small courses, and what the form says of a choice of them."""

    WEEK = tuple(course(slot.replace(" ", ""), slot) for slot in SLOTS)

    @pytest.mark.parametrize(
        ("values", "chosen", "rule"),
        [
            ({"gaps": False}, ["Mon1", "Mon3"], "no gaps"),
            ({"gaps": False}, ["Mon1", "Mon2", "Mon5"], "no gaps"),
            (
                {"free_day": True},
                ["Mon1", "Tue1", "Wed2", "Thu3", "Fri4"],
                "at least one day is free",
            ),
            ({"free_day": "Wed"}, ["Wed2"], "Wednesday is free"),
            ({"first_period": False}, ["Thu1"], "no first period"),
            ({"avoid": ["Fri"]}, ["Fri3"], "nothing on Friday"),
            ({"avoid": ["Fri 3"]}, ["Fri3"], "nothing on Friday 3"),
            ({"avoid": ["period 5"]}, ["Tue5"], "nothing in period 5"),
            ({"max_per_day": 2}, ["Mon1", "Mon2", "Mon3"], "at most 2 courses a day"),
            ({"year": 3}, ["Mon1"], "year"),
            ({"forms": Liking(excluded=["lecture"])}, ["Mon1"], "no lecture"),
            ({"assessment": Liking(excluded=["exam"])}, ["Mon1"], "no exam"),
            ({"fields": Liking(excluded=["Programming"])}, ["Mon1"], "nothing of Programming"),
            ({"fixed": ["Mon1"]}, ["Mon2"], "Mon1 is fixed"),
            ({"dropped": ["Mon1"]}, ["Mon1"], "without Mon1"),
            ({"max_credits": 5}, ["Mon1", "Tue1", "Wed1"], "most credits"),
        ],
    )
    def test_each_rule_is_broken_by_what_it_forbids(self, values, chosen, rule):
        form = dataclasses.replace(WHOLE, **values)
        assert names_broken(form, self.WEEK, chosen) == {rule}
        if "year" not in values:
            assert names_broken(WHOLE, self.WEEK, chosen) == set()

    @pytest.mark.parametrize(
        ("values", "chosen"),
        [
            ({"gaps": False}, ["Mon1", "Mon2", "Mon3", "Tue4", "Tue5"]),
            ({"free_day": True}, ["Mon1", "Tue1", "Wed2", "Thu3", "Thu4"]),
            ({"free_day": "Wed"}, ["Tue2", "Fri2"]),
            ({"first_period": False}, ["Thu2"]),
            ({"avoid": ["Fri"]}, ["Thu3"]),
            ({"max_per_day": 2}, ["Mon1", "Mon2", "Tue3"]),
            ({"year": 3, "years": [1, 2]}, ["Mon1"]),
            ({"max_credits": 6}, ["Mon1", "Tue1", "Wed1"]),
        ],
    )
    def test_and_allows_the_rest(self, values, chosen):
        assert names_broken(dataclasses.replace(WHOLE, **values), self.WEEK, chosen) == set()

    def test_one_course_at_a_time_and_each_course_once(self):
        courses = [
            course("A"),
            course("B"),
            course("C", "Tue 1", name="Course A"),
            course("D", None),
        ]
        assert names_broken(WHOLE, courses, ["A", "B"]) == {"one course at a time"}
        assert names_broken(WHOLE, courses, ["A", "C"]) == {"each course once"}
        assert names_broken(WHOLE, courses, ["A", "D"]) == set()

    def test_intensive_courses_take_no_time(self):
        courses = [course(f"I{n}", None) for n in range(4)]
        form = dataclasses.replace(
            WHOLE, first_period=False, gaps=False, free_day=True, max_per_day=1, avoid=["Fri"]
        )
        assert names_broken(form, courses, ["I0", "I1", "I2", "I3"]) == set()

    def test_what_is_missing_is_named(self):
        with pytest.raises(InputError) as caught:
            Form(year=2, interests="").rules(COURSES)
        assert str(caught.value) == (
            "the form does not say department, min_credits, max_credits, first_period, gaps, "
            'free_day (add to its JSON, with what is true of you: "department": "Computer '
            'Science", "min_credits": 10, "max_credits": 16, "first_period": true, "gaps": true, '
            '"free_day": "Wed")'
        )

    def test_what_to_add_is_a_form_that_says_all(self, tmp_path):
        with pytest.raises(InputError) as caught:
            Form(year=2).rules(COURSES)
        added = str(caught.value).partition("true of you: ")[2].removesuffix(")")
        (tmp_path / "form.json").write_text(f'{{"year": 2, {added}}}')
        assert Form.read(tmp_path / "form.json").missing() == ()

    def test_an_interest_that_no_course_is_about_is_seen(self):
        form = dataclasses.replace(WHOLE, interests="film, zymurgy")
        gains = {each.name: each.values for each in form.rules(COURSES).preferences}
        assert gains["about film"]
        assert gains["about zymurgy"] == {}

    def test_a_day_that_there_is_not(self):
        with pytest.raises(
            InputError,
            match="must be true, false or a day from Mon to Fri, such as 'Wed', got 'Sat'",
        ):
            Form(free_day="Sat")

    def test_a_part_of_a_department_is_enough_for_a_cure(self):
        with pytest.raises(InputError, match="did you mean 'Economics and Business'"):
            Form(department="Econ").check(COURSES)


class TestPreferences:
    def gains(self, form, chosen, courses=COURSES):
        return {each.name: each.gain(chosen) for each in form.rules(courses).preferences}

    def test_interests_share_the_credits(self):
        form = dataclasses.replace(WHOLE, max_credits=4, interests="statistics, japanese")
        few = self.gains(form, ["ST-101"])
        many = self.gains(form, ["ST-101", "ST-104", "ST-120"])
        assert 0 < few["about statistics"] <= many["about statistics"] == 3 * 2
        assert few["about japanese"] == 0

    def test_likings_are_weighed_by_credits_and_share(self):
        courses = [
            course("A", credits=4, assessment={"exam": 25, "reports": 75}),
            course("B", form="seminar", credits=1, field="Film"),
        ]
        form = dataclasses.replace(
            WHOLE,
            min_credits=0,
            forms=Liking(["seminar"]),
            assessment=Liking(avoided=["exam"], liked=["reports"]),
            fields=Liking(avoided=["Film"]),
            weights={"assessment": 2},
        )
        gains = self.gains(form, ["A", "B"], courses)
        assert gains["likes seminar"] == 1
        assert gains["avoids exam"] == -(0.25 * 4 + 1) * 2
        assert gains["likes reports"] == 0.75 * 4 * 2
        assert gains["avoids Film"] == -1

    def test_few_fail(self):
        courses = [course("A", pass_rate=0.5), course("B", pass_rate=1.0), course("C")]
        form = dataclasses.replace(WHOLE, min_credits=0, weights={"pass_rate": 1})
        gained = [self.gains(form, [each], courses)["pass rate"] for each in "ABC"]
        assert gained == [-1, 0, -0.5]


class TestDialogue:
    SAID: ClassVar = {
        "department": "law",
        "year": "2",
        "min_credits": "10",
        "max_credits": "14.5",
        "first_period": "No",
        "gaps": "yes",
        "free_day": "wednesday",
        "interests": "crime, courts",
    }

    def test_questions_have_a_fixed_order(self):
        assert [each.field for each in Form().missing()] == list(self.SAID)
        assert Form(year=2, gaps=False).missing() == tuple(
            each for each in QUESTIONS if each.field not in ("year", "gaps")
        )

    def test_it_asks_for_what_is_missing_and_nothing_else(self):
        asked = []

        def answer(question):
            asked.append(question.field)
            return self.SAID[question.field]

        form = ask(Form(gaps=False), COURSES, answer, lambda problem: pytest.fail(str(problem)))
        assert asked == [field for field in self.SAID if field != "gaps"]
        assert form == Form(
            department="Law and Politics",
            year=2,
            min_credits=10,
            max_credits=14.5,
            first_period=False,
            gaps=False,
            free_day="Wed",
            interests="crime, courts",
        )
        assert form.missing() == ()

    def test_it_asks_again(self):
        answers = iter(["seventh", "9", "6"])
        problems = []
        form = dataclasses.replace(WHOLE, year=None)
        form = ask(
            form, COURSES, lambda _: next(answers), lambda problem: problems.append(str(problem))
        )
        assert form.year == 6
        assert problems == [
            "year must be a number, got 'seventh'",
            "year must be a whole number from 1 to 6, got 9",
        ]

    def test_the_last_answer_may_hold_any_wishes(self):
        form = dataclasses.replace(WHOLE, interests=None)
        problems = []
        answers = iter(["Abracadabra", "crime, no Friday, Abracadabra, at most 12 credits"])
        asked = ask(form, COURSES, lambda _: next(answers), lambda p: problems.append(str(p)))
        assert asked == dataclasses.replace(form, interests="crime", avoid=("Fri",), max_credits=12)
        assert problems[0].startswith("nothing of the text is understood: 'Abracadabra'")
        assert problems[1].startswith("not understood: 'Abracadabra'")
        nothing = ask(form, COURSES, lambda _: " ", problems.append)
        assert nothing.interests == ""

    def test_it_does_not_ask_forever(self):
        form = dataclasses.replace(WHOLE, gaps=None)
        problems = []
        with pytest.raises(InputError, match="gaps must be yes or no, got 'perhaps'"):
            ask(form, COURSES, lambda _: "perhaps", problems.append)
        assert len(problems) == 4
