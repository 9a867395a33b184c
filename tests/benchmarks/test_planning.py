"""The benchmark of plans runs, and its check finds what is wrong where there is something."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def planning(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import planning

    return planning


@pytest.fixture(scope="module")
def courses():
    from cnp_router.timetable import load_courses

    return load_courses()


def test_rows_have_the_fields_and_nothing_is_broken(planning, capsys):
    results = planning.run(argparse.Namespace(seed=3, forms=2))
    assert [row["method"] for row in results["rows"]] == ["react", "plan-and-execute", "solver"]
    for row in results["rows"]:
        assert list(row) == [
            *("method", "requests", "rules_broken", "repeated_calls", "double_bookings", "tokens")
        ]
        assert row["requests"] == 4
        assert row["rules_broken"] == row["repeated_calls"] == row["double_bookings"] == 0
    for method in ("react", "plan-and-execute"):
        more = results["more"][method]
        assert more["completion"] == 1
        assert all(more["mistakes"].values())
        assert more["assumed_price"]["total"] > 0
    assert results["more"]["plan-and-execute"]["tokens_by_role"].keys() == {"planner", "executor"}
    # The same models are as mistaken where nobody keeps the rules, and then it shows.
    for row in results["without_rules"]:
        assert row["rules_broken"]
        assert row["repeated_calls"]
        assert row["double_bookings"]
    assert "Scripted models with seeded mistakes" in capsys.readouterr().out
    json.dumps(results)


def test_there_are_ten_of_each_mistake_by_default(planning):
    """Each request has one of each kind, and every second never says that it is done."""
    assert planning.FORMS * planning.EACH / 2 >= 10


def test_an_engine_that_compares_calls_as_they_are_written_is_found_out(
    planning, courses, monkeypatch
):
    from cnp_router.execution import calling, journal

    def as_written(api, inputs):
        return json.dumps([api.id, inputs], sort_keys=True)

    monkeypatch.setattr(journal, "call_key", as_written)
    monkeypatch.setattr(calling, "call_key", as_written)
    forms = list(planning.forms(courses, 0, 4))
    row, _ = planning.measure("plan-and-execute", forms, courses, 0)
    assert row["repeated_calls"]


def test_a_mistake_counts_when_it_is_made(planning, courses):
    from benchmarks.planning_students import SearchingStudent

    student = SearchingStudent(courses, 0, finishes=False, name="scripted")
    student.end()
    assert not student.mistakes  # it was never asked


def test_forms_differ_by_seed_and_can_be_served(planning, courses):
    one, same, other = (list(planning.forms(courses, seed, 3)) for seed in (0, 0, 1))
    assert one == same
    assert one != other


class TestCheck:
    """What the check finds, in calls and timetables made by hand."""

    def audit(self, planning, courses, seen=(), booked=(), *, is_done=False, **form):
        from cnp_router.timetable import Form

        said = {"year": 1, "min_credits": 2.0, "max_credits": 6.0, "gaps": True}
        made = Form(**{**said, "first_period": True, **form})
        return planning.audit(seen, booked, made, courses, is_done=is_done)

    def test_the_same_call_after_a_success(self, planning, courses):
        calls = [
            ("timetable__search", {"a": 1, "b": 2}, False),
            ("timetable__search", {"b": 2, "a": 1}, True),
            ("timetable__search", {"a": 1, "b": 2}, True),
        ]
        assert len(self.audit(planning, courses, calls)["repeated_calls"]) == 1

    def test_the_same_call_in_another_spelling(self, planning, courses):
        spellings = [
            {"query": "caf\u00e9", "year": [1, 2]},
            {"year": [1.0, 2.0], "query": "cafe\u0301"},
            {"query": "caf\u00e9", "year": [1, 2], "slot": None, "all_courses": False},
        ]
        others = [
            {"query": "caf\u00e9", "year": [2, 1]},
            {"query": "Caf\u00e9", "year": [1, 2]},
            {"query": "caf\u00e9", "year": [1, 2], "all_courses": True},
        ]
        calls = [("timetable__search", inputs, True) for inputs in (*spellings, *others)]
        assert len(self.audit(planning, courses, calls)["repeated_calls"]) == 2

    def test_one_slot_twice(self, planning, courses):
        mondays = [c for c in courses if c.slot == "Mon 2" and 1 in c.years]
        ids = [mondays[0].id, next(c.id for c in mondays if c.name != mondays[0].name)]
        found = self.audit(planning, courses, booked=ids)
        assert found["double_bookings"] == found["rules_broken"] == ["Mon 2: 2 courses"]

    def test_rules_of_the_form(self, planning, courses):
        def broken(course, **form):
            found = self.audit(planning, courses, booked=[course.id], **form)["rules_broken"]
            return len(found)

        early = next(c for c in courses if c.slot == "Tue 1" and 1 in c.years)
        assert broken(early) == 0
        assert broken(early, first_period=False) == 1
        assert broken(early, avoid=["Tue"]) + broken(early, avoid=["Tue 1"]) >= 1
        assert broken(early, avoid=["period 1"]) == 1
        assert broken(early, free_day="Tue") == 1
        assert broken(early, max_credits=0.1, min_credits=0) == 1
        late = next(c for c in courses if 1 not in c.years and c.slot)
        assert broken(late) == 1
        from cnp_router.timetable import Liking

        assert broken(early, forms=Liking(excluded=[early.form])) == 1

    def test_a_course_that_is_not_there_and_an_early_end(self, planning, courses):
        assert self.audit(planning, courses, booked=["ZZ-1"])["rules_broken"] == ["no course ZZ-1"]
        finish = [("timetable__finish", {}, True)]
        early = self.audit(planning, courses, finish)["rules_broken"]
        assert early == ["finished with 0 credits"]
        assert self.audit(planning, courses, is_done=True)["rules_broken"] == early

    def test_a_gap_counts_at_the_end(self, planning, courses):
        ids = [
            next(c.id for c in courses if c.slot == slot and 1 in c.years)
            for slot in ("Wed 2", "Wed 5")
        ]
        how = {"booked": ids, "gaps": False, "max_credits": 20.0}
        assert self.audit(planning, courses, **how)["rules_broken"] == []
        assert self.audit(planning, courses, is_done=True, **how)["rules_broken"] == [
            "a gap on Wed"
        ]
