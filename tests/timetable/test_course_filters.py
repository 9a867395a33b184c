from __future__ import annotations

import pytest

from cnp_router.exceptions import InputError
from cnp_router.timetable.course import ASSESSMENTS, SLOTS, load_courses
from cnp_router.timetable.course_filters import (
    matching,
    read_filters,
    why_nothing,
    without_negated,
)
from cnp_router.timetable.course_index import scores

COURSES = load_courses()


def found(query="", **given):
    return matching(query, read_filters(given, COURSES), COURSES)


def nothing(query="", **given):
    filters = read_filters(given, COURSES)
    assert matching(query, filters, COURSES) == []
    return why_nothing(query, filters, COURSES)


class TestRanking:
    @pytest.mark.parametrize(
        ("query", "first"),
        [
            ("statistics for economics", "ST-104"),
            ("something about film", "FM-101"),
            ("learn to program from scratch", "CS-101"),
            ("how the brain works", "BI-226"),
            ("climate change", "EL-207"),
            ("a course about money and saving", "FI-105"),
            ("machine learning", "CS-305"),
            ("I want to learn Spanish", "LA-101"),
            ("creative writing", "LT-220"),
            ("cooking", "CH-230"),
            ("public speaking", "EN-120"),
            ("how to build a robot", "CS-333"),
            ("cryptography", "MA-220"),
            ("law for computer scientists", "LW-214"),
            ("stress relief", "SP-118"),
            ("negotiation and leadership", "BU-220"),
            ("music without reading notes", "MU-101"),
            ("ancient Rome", "HI-101"),
            ("quantum computing", "PH-210"),
            ("immigration", "PO-215"),
            ("become a teacher", "ED-115"),
            ("photo", "AR-140"),
            ("computer games", "CS-350"),
        ],
    )
    def test_what_a_student_asks_for_comes_first(self, query, first):
        assert found(query)[0].id == first

    @pytest.mark.parametrize(
        "query", ["qwertz", "asdf qwerty zxcv", "blockchain", "hello", "easy credits", "???"]
    )
    def test_nonsense_finds_nothing(self, query):
        assert not scores(query, COURSES).any()
        assert nothing(query) == f"no course has to do with {query!r}"

    def test_a_word_in_passing_is_not_found(self):
        assert [course.id for course in found("cooking")] == ["CH-230"]

    def test_a_blank_query_keeps_the_order(self):
        assert found(" ") == list(COURSES)

    def test_the_order_of_the_courses_does_not_matter(self):
        turned = scores("law and film", COURSES[::-1])[::-1]
        assert (turned == scores("law and film", COURSES)).all()

    def test_other_courses_have_another_index(self):
        few = [course for course in COURSES if course.field == "Film"]
        assert scores("law", few).shape == (len(few),)
        assert not scores("chemistry", few).any()


class TestFilters:
    def test_a_list_is_either_and_filters_are_all(self):
        either = found(slot=["Mon 2", "Tue 3"], field=["Statistics", "History"])
        assert either
        assert all(course.slot in ("Mon 2", "Tue 3") for course in either)
        assert all(course.field in ("Statistics", "History") for course in either)
        alone = [found(slot=slot, field=field) for slot in ("Mon 2", "Tue 3")
                 for field in ("Statistics", "History")]  # fmt: skip
        assert {c.id for c in either} == {c.id for each in alone for c in each}

    def test_each_filter(self):
        assert {course.slot[:3] for course in found(slot="friday")} == {"Fri"}
        assert {course.slot[4] for course in found(slot="Period 3")} == {"3"}
        assert {course.slot for course in found(slot="intensive")} == {None}
        assert {c.department for c in found(department="media AND arts")} == {"Media and Arts"}
        assert all(6 in course.years for course in found(year=6))
        assert {course.form for course in found(form="online")} == {"online"}
        assert not any(
            course.assessment.get("term_paper") for course in found(without="term paper")
        )

    @pytest.mark.parametrize("empty", [None, "", []])
    def test_an_empty_filter_filters_nothing(self, empty):
        assert len(found(field=empty)) == len(COURSES)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"field": "Filmm"}, "field 'Filmm' is unknown (did you mean 'Film'?)"),
            ({"form": "lab course"}, "form 'lab course' is unknown"),
            ({"slot": "Sunday"}, "slot must be a day and a period"),
            ({"year": 7}, "year must be a whole number from 1 to 6, got 7"),
            ({"year": "first"}, "year must be a whole number from 1 to 6, got 'first'"),
            ({"field": [3]}, "field must be a string, got 3"),
            ({"without": "homework"}, "without 'homework' is unknown"),
        ],
    )
    def test_an_unknown_value_is_an_error(self, given, said):
        with pytest.raises(InputError) as caught:
            read_filters(given, COURSES)
        assert str(caught.value).startswith(said)


class TestWhyNothing:
    def test_it_counts_what_there_is_without_a_filter(self):
        assert nothing("film", slot="Mon 2") == (
            "no course on Monday 2 about 'film' (there are 4 without the slot, 6 without the query)"
        )

    def test_of_one_there_is_one(self):
        said = nothing("cooking", slot="Mon 2")
        assert said.startswith("no course on Monday 2 about 'cooking' (there is 1 without the slot")

    def test_what_leaves_nothing_either_is_not_counted(self):
        said = nothing("chess openings", field="Philosophy", year=1, slot="Tue 2")
        assert "0 without" not in said

    @pytest.mark.parametrize("slot", SLOTS)
    def test_the_counts_are_right(self, slot):
        for field in ("Film", "Law", "Sport"):
            filters = read_filters({"field": field, "slot": slot}, COURSES)
            if not matching("", filters, COURSES):
                said = why_nothing("", filters, COURSES)
                of_field, of_slot = len(found(field=field)), len(found(slot=slot))
                assert f"{of_field} without the slot" in said
                assert f"{of_slot} without the field" in said

    def test_many_slots_are_not_all_named(self):
        said = nothing("cooking", slot=["Mon", "Tue", "intensive"])
        assert "on Monday 1 or Monday 2 or Monday 3 or Monday 4 or 6 more slots or no slot" in said


class TestWithoutNegated:
    @pytest.mark.parametrize(
        ("query", "words", "parts"),
        [
            ("statistics without exam", "statistics", ("exam",)),
            ("no presentations, but film", ", but film", ("presentation",)),
            ("law, not a term_paper", "law,", ("term_paper",)),
            ("economics without mathematics", "economics", ()),
            ("nothing of note", "nothing of note", ()),
            ("no exams and no quizzes", "", ("exam", "quizzes")),
            ("no quiz, no final examination, no term paper", "", ("quizzes", "exam", "term_paper")),
            ("", "", ()),
        ],
    )
    def test_what_is_not_wanted_is_no_word_of_the_query(self, query, words, parts):
        assert without_negated(query) == (words, parts)

    @pytest.mark.parametrize("part", ASSESSMENTS)
    def test_every_part_of_the_mark_can_be_unwanted(self, part):
        assert without_negated(f"art without {part}") == ("art", (part,))
