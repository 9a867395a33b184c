from __future__ import annotations

import json
from collections import Counter

import pytest

from cnp_router.exceptions import DataFileError, InputError
from cnp_router.llm.tokens import estimate_tokens
from cnp_router.timetable.course import (
    ASSESSMENTS,
    DAYS,
    FORMS,
    SLOTS,
    SUMMARY,
    Course,
    check_slot,
    load_courses,
    read_courses,
    slot_in_words,
    slots_of,
)

COURSES = load_courses()


def fields(**changed):
    given = {
        "id": "ST-1",
        "name": "Statistics",
        "slot": "Mon 2",
        "credits": 1.5,
        "department": "Mathematics",
        "field": "Statistics",
        "years": [2, 1],
        "form": "lecture",
        "assessment": {"exam": 60, "quizzes": 40},
        "pass_rate": 0.8,
        "text": "Means and medians, and how to compare two groups.",
        "summary": dict.fromkeys(SUMMARY, "something"),
        "keywords": ["means"],
    }
    return given | changed


class TestBundledCourses:
    def test_there_are_many_in_many_departments_and_fields(self):
        assert len(COURSES) >= 160
        assert len({course.department for course in COURSES}) >= 8
        assert len({course.field for course in COURSES}) >= 20

    def test_every_slot_has_a_choice(self):
        by_slot = Counter(course.slot for course in COURSES)
        assert all(4 <= by_slot[slot] <= 9 for slot in SLOTS), by_slot
        assert by_slot[None] >= 3

    def test_credits_forms_assessments_and_years_are_varied(self):
        assert {course.credits for course in COURSES} == {0.5, 1.0, 1.5, 2.0, 3.0, 4.0}
        assert {course.form for course in COURSES} == set(FORMS)
        assert {part for course in COURSES for part in course.assessment} == set(ASSESSMENTS)
        assert {year for course in COURSES for year in course.years} == {1, 2, 3, 4, 5, 6}
        assert any(course.pass_rate is None for course in COURSES)

    def test_ids_and_texts_are_unique(self):
        assert len({course.id for course in COURSES}) == len(COURSES)
        assert len({course.text for course in COURSES}) == len(COURSES)
        assert len({course.summary_text for course in COURSES}) == len(COURSES)

    def test_some_courses_are_given_at_two_times(self):
        names = Counter(course.name for course in COURSES)
        assert sum(n > 1 for n in names.values()) >= 3

    @pytest.mark.parametrize("course", COURSES, ids=lambda course: course.id)
    def test_a_summary_has_at_most_half_the_tokens_of_the_text(self, course):
        assert 2 * estimate_tokens(course.summary_text) <= estimate_tokens(course.text)
        assert 85 <= len(course.text.split()) <= 145
        assert 3 <= len(course.keywords) <= 5
        assert all(len(keyword) <= 30 for keyword in course.keywords)

    def test_they_are_read_once(self):
        assert load_courses() is COURSES


class TestCourse:
    def test_values_are_kept_as_they_are_meant(self):
        course = Course(**fields(slot="monday 2", credits=2))
        assert course.slot == "Mon 2"
        assert course.years == (1, 2)
        assert isinstance(course.credits, float)
        assert course.brief == {"id": "ST-1", "name": "Statistics", "keywords": ["means"]}
        assert course.summary_text.splitlines()[0] == "topic: something"

    def test_it_can_be_written_and_read(self, tmp_path):
        course = Course(**fields(slot=None, pass_rate=None))
        path = tmp_path / "courses.jsonl"
        path.write_text(json.dumps(course.to_dict()) + "\n")
        assert read_courses(path) == (course,)

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"id": " "}, "an id must be a non-blank string"),
            ({"name": ""}, "name must not be blank"),
            ({"slot": "Sun 2"}, "slot must be a day and a period from 1 to 5"),
            ({"slot": "Mon 6"}, "slot must be a day and a period from 1 to 5"),
            ({"slot": 12}, "slot must be a day and a period from 1 to 5"),
            ({"credits": 0}, "credits must be a number above 0"),
            ({"credits": "2"}, "credits must be a number above 0"),
            ({"department": 1}, "department must be a string"),
            ({"field": " "}, "field must not be blank"),
            ({"years": []}, "years must be a list of numbers from 1 to 6"),
            ({"years": [0]}, "years must be a whole number from 1 to 6"),
            ({"years": [7]}, "years must be a whole number from 1 to 6"),
            ({"years": 2}, "years must be a list of numbers from 1 to 6"),
            ({"form": "talk"}, "form must be one of lecture, seminar"),
            ({"assessment": {}}, "assessment must be an object of shares"),
            ({"assessment": {"exam": 90}}, "assessment must add up to 100, got 90"),
            ({"assessment": {"test": 100}}, "assessment must be one of participation"),
            ({"assessment": {"exam": 50.0, "quizzes": 50}}, "assessment of exam must be a whole"),
            ({"assessment": {"exam": 120, "quizzes": -20}}, "assessment of exam must be a whole"),
            ({"pass_rate": 1.2}, "pass_rate must be a number from 0 to 1"),
            ({"text": ""}, "text must not be blank"),
            ({"summary": {"topic": "x"}}, "summary must be an object with topic, aims"),
            ({"summary": dict.fromkeys(SUMMARY, "")}, "summary topic must not be blank"),
            ({"keywords": []}, "keywords must have at least one"),
            ({"keywords": "means"}, "keywords must be a list of strings"),
            ({"keywords": [""]}, "keywords must not be blank"),
        ],
    )
    def test_an_error_names_the_field(self, changed, said):
        with pytest.raises(InputError) as caught:
            Course(**fields(**changed))
        assert str(caught.value).startswith(said)


class TestReadCourses:
    def write(self, tmp_path, *records):
        path = tmp_path / "mine.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return path

    @pytest.mark.parametrize(
        ("records", "said"),
        [
            ([fields(), fields()], "line 2: duplicate course id 'ST-1', first on line 1"),
            ([fields(years=[9])], "line 1: field 'years' must be a whole number from 1 to 6"),
            ([{k: v for k, v in fields().items() if k != "slot"}], "missing field 'slot' (null is"),
            ([{k: v for k, v in fields().items() if k != "credits"}], "missing field 'credits'"),
            ([fields() | {"romm": "A 1"}], "unknown key 'romm' (use 'id', 'name'"),
            ([], "the file is empty"),
        ],
    )
    def test_an_error_says_where_it_is(self, tmp_path, records, said):
        with pytest.raises(DataFileError) as caught:
            read_courses(self.write(tmp_path, *records))
        assert "mine.jsonl" in str(caught.value)
        assert said in str(caught.value)

    def test_a_missing_file_is_an_error(self, tmp_path):
        with pytest.raises(DataFileError):
            read_courses(tmp_path / "none.jsonl")


class TestSlots:
    @pytest.mark.parametrize("slot", SLOTS)
    def test_words_and_slots_are_the_same(self, slot):
        assert check_slot("slot", slot_in_words(slot)) == slot
        assert slots_of("avoid", slot) == (slot,)

    @pytest.mark.parametrize(
        "said", ["Mon 2", "monday 2", "MON, period 2", "Mon. 2", "Mon2", "Monday-2", "Mondays 2"]
    )
    def test_there_are_several_ways_to_say_it(self, said):
        assert check_slot("slot", said) == "Mon 2"

    @pytest.mark.parametrize("day", DAYS)
    def test_a_day_is_its_five_slots(self, day):
        assert len(slots_of("avoid", DAYS[day])) == 5
        assert slots_of("avoid", day) == slots_of("avoid", DAYS[day].lower())

    @pytest.mark.parametrize("said", ["", "Saturday", "period 6", "Mon 2 3", "moonday 2", None, 3])
    def test_all_else_is_an_error(self, said):
        with pytest.raises(InputError, match=r"^avoid must be a day and a period"):
            slots_of("avoid", said)
