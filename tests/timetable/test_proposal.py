from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnp_router.exceptions import DataFileError, InfeasibleError, InputError
from cnp_router.planning.proposals import PROPOSALS, read_proposal
from cnp_router.timetable import Form, Liking, Proposal, load_courses, propose

COURSES = load_courses()
BY_ID = {course.id: course for course in COURSES}
FORM = Form(
    department="Economics and Business",
    year=2,
    min_credits=12,
    max_credits=16,
    first_period=False,
    gaps=True,
    free_day=True,
    interests="statistics, finance, film",
)


@pytest.fixture(scope="module")
def proposal():
    return propose(FORM)


@pytest.fixture
def path(proposal, tmp_path):
    proposal.write(tmp_path / "timetable.json")
    return tmp_path / "timetable.json"


def days_of(proposal):
    return {course.slot[:3] for course in proposal.timetable if course.slot is not None}


class TestPropose:
    def test_every_rule_holds(self, proposal):
        assert proposal.broken == ()
        assert set(proposal.rules.values()) == {""}
        assert 12 <= proposal.credits <= 16
        assert len(days_of(proposal)) < 5
        slots = [course.slot for course in proposal.timetable if course.slot]
        assert len(slots) == len(set(slots))
        assert not any(slot.endswith(" 1") for slot in slots)
        assert all(2 in course.years for course in proposal.timetable)

    def test_interests_are_met(self, proposal):
        fields = {course.field for course in proposal.timetable}
        assert {"Statistics", "Finance", "Film"} <= fields
        assert all(
            proposal.gains[f"about {each}"] > 0 for each in ("statistics", "finance", "film")
        )

    def test_the_same_form_gives_the_same(self, proposal):
        assert propose(FORM).chosen == proposal.chosen

    def test_a_form_that_nothing_fits(self):
        form = dataclasses.replace(
            FORM, min_credits=50, max_credits=60, assessment=Liking(excluded=["exam"])
        )
        with pytest.raises(InfeasibleError) as caught:
            propose(form)
        assert {"no exam", "least credits"} <= set(caught.value.reasons)

    def test_arguments(self):
        with pytest.raises(InputError, match="method must be 'solver', got 'magic'"):
            propose(FORM, method="magic")
        with pytest.raises(InputError, match="form must be of type Form"):
            propose({"year": 2})
        with pytest.raises(InputError, match="does not say department"):
            propose(Form())
        with pytest.raises(InputError, match="course 'XX' is unknown"):
            Proposal(FORM, ("XX",))
        with pytest.raises(InputError, match="duplicate course id 'ST-101'"):
            Proposal(FORM, ("ST-101", "ST-101"))


@st.composite
def forms(draw):
    low = draw(st.integers(0, 20))
    return Form(
        department="Computer Science",
        year=draw(st.integers(1, 4)),
        min_credits=low,
        max_credits=low + draw(st.integers(0, 6)),
        first_period=draw(st.booleans()),
        gaps=draw(st.booleans()),
        free_day=draw(st.sampled_from([True, False, "Wed"])),
        interests=draw(st.sampled_from(["", "film", "statistics, law"])),
        avoid=draw(st.lists(st.sampled_from(["Fri", "Mon 2", "period 5"]), unique=True)),
        max_per_day=draw(st.sampled_from([None, 1, 3])),
        forms=draw(st.sampled_from([Liking(), Liking(excluded=["lecture"])])),
        assessment=draw(st.sampled_from([Liking(), Liking(excluded=["exam"])])),
    )


def complaints(form, timetable):
    """What is wrong with a timetable, found without the rules."""
    days = {}
    for course in timetable:
        if course.slot is not None:
            days.setdefault(course.slot[:3], []).append(int(course.slot[4:]))
    slots = [course.slot for course in timetable if course.slot is not None]
    yield "credits", not form.min_credits <= sum(c.credits for c in timetable) <= form.max_credits
    yield "double booking", len(slots) != len(set(slots))
    yield "twice", len({c.name for c in timetable}) != len(timetable)
    yield "year", any(form.year not in c.years for c in timetable)
    yield "first period", not form.first_period and any(1 in each for each in days.values())
    yield "free day", form.free_day is True and len(days) == 5
    yield "free Wednesday", form.free_day == "Wed" and "Wed" in days
    spans = (max(each) - min(each) + 1 - len(each) for each in days.values())
    yield "gaps", not form.gaps and any(spans)
    yield "a day", max(map(len, days.values()), default=0) > (form.max_per_day or 5)
    yield (
        "avoid",
        any(
            slot in form.avoid or slot[:3] in form.avoid or f"period {slot[4:]}" in form.avoid
            for slot in slots
        ),
    )
    yield "forms", any(course.form in form.forms.excluded for course in timetable)
    yield (
        "exams",
        any(set(course.assessment) & set(form.assessment.excluded) for course in timetable),
    )


@settings(deadline=None, max_examples=40)
@given(forms(), st.sampled_from(["no Monday", "more film, fewer exams", "at most 21 credits"]))
def test_no_timetable_breaks_a_rule(form, text):
    with contextlib.suppress(InfeasibleError):
        made = propose(form)
        assert [name for name, wrong in complaints(form, made.timetable) if wrong] == []
        revised = made.revise(text)
        assert [name for name, wrong in complaints(revised.form, revised.timetable) if wrong] == []
        assert set(revised.revision.kept) | set(revised.revision.dropped) == set(made.chosen)
        assert set(revised.revision.kept) | set(revised.revision.added) == set(revised.chosen)
        if (
            "more" not in text
            and made.credits - sum(BY_ID[each].credits for each in revised.revision.dropped)
            >= form.min_credits
            and form.gaps
        ):
            assert revised.revision.added == {}


class TestRevise:
    def test_no_friday_keeps_the_rest(self, proposal):
        revised = proposal.revise("no Friday")
        assert "Fri" not in days_of(revised)
        friday = {c.id for c in proposal.timetable if c.slot and c.slot.startswith("Fri")}
        assert friday
        assert set(revised.revision.dropped) == friday
        assert set(revised.revision.dropped.values()) == {"nothing on Friday"}
        assert set(revised.revision.kept) == set(proposal.chosen) - friday
        assert set(revised.chosen) == set(revised.revision.kept) | set(revised.revision.added)
        assert revised.revision.changes == ("avoid: Fri",)
        assert revised.form.avoid == ("Fri",)
        assert revised.broken == ()

    def test_nothing_changes_that_need_not(self, proposal):
        revised = proposal.revise("keep the rest")
        assert revised.chosen == proposal.chosen
        assert revised.revision.dropped == {}

    @pytest.mark.parametrize(
        "text", ["at most 40 credits", "gaps are fine", "Friday is fine", "no Latin, no law"]
    )
    def test_nothing_is_added_that_nobody_asks_for(self, proposal, text):
        revised = proposal.revise(text)
        assert revised.revision.added == {}
        assert set(revised.chosen) == set(proposal.chosen) - set(revised.revision.dropped)

    def test_what_is_dropped_is_not_replaced_while_the_credits_suffice(self, proposal):
        first = proposal.chosen[0]
        revised = proposal.revise(f"drop {first}")
        assert set(revised.chosen) == set(proposal.chosen) - {first}
        assert revised.credits >= FORM.min_credits

    def test_what_is_added_has_a_reason(self, proposal):
        few = proposal.revise("no Monday, no Tuesday, no Thursday")
        assert set(few.revision.added.values()) == {"at least 12 credits"}
        assert "): at least 12 credits\n" in few.draw()
        assert few.credits - min(BY_ID[each].credits for each in few.revision.added) < 12
        law = proposal.revise("more law")
        assert set(law.revision.added.values()) == {"more about law than before"}

    def test_a_swap_changes_two_courses(self, proposal):
        assert not {"PL-204"} & set(proposal.chosen)
        revised = proposal.revise("swap ST-101 for PL-204")
        assert set(revised.chosen) == set(proposal.chosen) - {"ST-101"} | {"PL-204"}

    def test_what_was_so_already_is_said(self, proposal):
        assert "Nothing had to change (gaps: yes)\n" in proposal.revise("gaps are fine").draw()

    def test_more_of_something_is_more_than_before(self, proposal):
        revised = proposal.revise("more statistics")
        (about,) = (p for p in revised.problem.preferences if p.name == "about statistics")
        assert about.total(revised.chosen) > about.total(proposal.chosen)
        assert len(revised.revision.dropped) <= 2

    def test_fewer_exams_are_fewer_than_before(self, proposal):
        def exams(chosen):
            return sum(BY_ID[c].credits * BY_ID[c].assessment.get("exam", 0) for c in chosen)

        revised = proposal.revise("fewer exams")
        assert exams(revised.chosen) < exams(proposal.chosen)
        assert exams(revised.revise("without exams").chosen) == 0

    def test_a_preference_never_makes_it_fail(self, proposal):
        tight = proposal.revise("no Monday, no Tuesday, no Wednesday, no Thursday, less finance")
        revised = tight.revise("more finance")
        assert revised.broken == ()
        (said,) = revised.revision.not_possible
        assert said.startswith("more about finance than before: ")

    def test_dropped_and_fixed_courses(self, proposal):
        first, second = proposal.chosen[:2]
        revised = proposal.revise(f"drop {first}, keep {second}")
        assert first not in revised.chosen
        assert revised.revision.dropped[first] == f"without {first}"
        again = revised.revise(f"no {BY_ID[proposal.chosen[3]].slot}")
        assert second in again.chosen
        assert first not in again.chosen

    def test_what_stands_against_a_course_is_named(self, proposal):
        revised = proposal.revise("at most 12 credits")
        assert revised.credits <= 12
        for why in revised.revision.dropped.values():
            assert why.startswith("at most 12 credits (beside ")

    def test_reasons_that_take_too_long_are_not_waited_for(self, proposal, monkeypatch):
        over = SimpleNamespace(left=0.0)
        monkeypatch.setattr("cnp_router.timetable.revision.Deadline", lambda _: over)
        revised = proposal.revise("at most 12 credits")
        assert set(revised.revision.dropped.values()) == {"it does not fit beside the others"}

    def test_what_is_not_understood_is_said(self, proposal):
        revised = proposal.revise("no Friday. Whatever!")
        assert len(revised.revision.not_understood) == 1
        assert "Not understood: 'Whatever'" in revised.draw()
        assert "\nWords that work: 'no Friday', 'at most 14 credits'" in revised.draw()
        with pytest.raises(InputError, match="nothing of the text is understood: 'Whatever'"):
            proposal.revise("Whatever!")

    def test_where_nothing_fits_the_conflict_is_named(self, proposal):
        with pytest.raises(InfeasibleError) as caught:
            proposal.revise(
                "no Monday, no Tuesday, no Wednesday, no Thursday, no online courses, "
                "without presentations and at least 15 credits"
            )
        assert "at least 15 credits" in str(caught.value)
        assert caught.value.is_minimal

    def test_a_clash_with_a_fixed_course(self, proposal):
        fixed = next(course for course in proposal.timetable if course.slot)
        with pytest.raises(InputError, match=f"fixed has {fixed.id} .* and avoid has"):
            proposal.revise(f"keep {fixed.id}, no {fixed.slot}")


class TestFiles:
    def test_round_trip(self, proposal, path):
        read = Proposal.read(path)
        assert read == proposal
        assert read_proposal(path) == proposal
        revised = proposal.revise("no Friday")
        revised.write(path)
        assert Proposal.read(path) == dataclasses.replace(revised, revision=None)

    def test_own_courses_are_found_again(self, tmp_path):
        own = tmp_path / "own.jsonl"
        own.write_text("".join(json.dumps(c.to_dict()) + "\n" for c in COURSES[:120]))
        made = propose(dataclasses.replace(FORM, min_credits=6), courses_file=own)
        assert set(made.chosen) <= {course.id for course in COURSES[:120]}
        made.write(tmp_path / "timetable.json")
        assert Proposal.read(tmp_path / "timetable.json").courses == COURSES[:120]
        own.unlink()
        with pytest.raises(DataFileError, match="no such file"):
            Proposal.read(tmp_path / "timetable.json")

    @pytest.mark.parametrize("place", ["/dev/zero", "pipe", "large"])
    def test_what_is_no_file_of_courses_is_not_read(self, path, tmp_path, place):
        if place == "pipe":
            os.mkfifo(tmp_path / place)
        if place == "large":
            with (tmp_path / place).open("w") as out:
                out.truncate(50_000_001)  # sparse
        document = json.loads(path.read_text()) | {"courses_file": str(tmp_path / place)}
        path.write_text(json.dumps(document))
        with pytest.raises(DataFileError, match=r"is not a regular file|has 50,000,001 bytes"):
            Proposal.read(path)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"chosen": ["XX-1"]}, "course 'XX-1' is unknown"),
            ({"chosen": ["ST-101", "ST-101"]}, "duplicate course id 'ST-101'"),
            ({"chosen": "ST-101"}, "field 'chosen' must be a list"),
            ({"chosen": [1]}, "chosen must be a list of strings"),
            ({"form": {"year": 9}}, "field 'year' must be a whole number from 1 to 6"),
            ({"form": None}, "field 'form' is null"),
            ({"form": []}, "field 'form' must be an object"),
            ({"method": 3}, "field 'method' must be a string"),
            ({"method": "\x1b[31mme"}, r"method '\x1b[31mme' is unknown"),
            ({"kind": "trip"}, "not a proposal: its kind is 'trip' (use a file whose kind is"),
            ({"kind": ["timetable"]}, "not a proposal"),
            ({"chosn": []}, "unknown key 'chosn'"),
            ({"courses_file": 3}, "field 'courses_file' must be a string"),
        ],
    )
    def test_errors_name_the_file(self, path, change, said):
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        before = path.read_bytes()
        with pytest.raises(DataFileError) as caught:
            read_proposal(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert said in str(caught.value)
        assert path.read_bytes() == before

    def test_a_file_of_something_else(self, path):
        path.write_text("[]")
        with pytest.raises(DataFileError, match="not a proposal: its kind is None"):
            read_proposal(path)
        with pytest.raises(DataFileError, match=r"object of a timetable.*timetable --output\)"):
            Proposal.read(path)

    def test_a_timetable_that_was_edited_says_which_rules_it_breaks(self, path):
        document = json.loads(path.read_text())
        document["chosen"] = ["MA-101", "ST-101"]
        path.write_text(json.dumps(document))
        edited = Proposal.read(path)
        assert {each.name for each in edited.broken} == {"no first period", "least credits", "year"}
        assert "NO  no first period" in edited.draw()
        assert edited.revise("gaps are fine").broken == ()

    def test_every_kind_can_be_loaded(self):
        assert list(PROPOSALS) == ["timetable"]


class TestDrawing:
    def test_no_course_steers_a_terminal(self):
        odd = [
            dataclasses.replace(c, name=f"\x1b[2J{c.name}\n", keywords=("\x1b]0;x\x07",))
            for c in COURSES[:60]
        ]
        form = dataclasses.replace(FORM, min_credits=2, fixed=("MA-115",), interests="algebra")
        made = propose(dataclasses.replace(form, year=1, free_day=False), courses=odd)
        revised = made.revise("drop MA-115, more film")
        for text in (made.draw(), revised.draw()):
            assert "\x1b" not in text and "\x07" not in text

    def test_the_table_has_each_course_in_its_place(self, proposal):
        lines = proposal.draw(100).splitlines()
        assert lines[0].split() == ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
        for course in proposal.timetable:
            (listed,) = (line for line in lines if line.startswith(f"{course.id} "))
            assert course.name in listed
            assert ", ".join(course.keywords) in "\n".join(lines)

    @pytest.mark.parametrize("width", [20, 60, 80, 100])
    def test_it_is_as_wide_as_asked_for(self, proposal, width):
        table = proposal.draw(width).split("\n\n")[0].splitlines()
        assert max(map(len, table)) <= max(width, 50)

    def test_the_report_is_json(self, proposal):
        report = json.loads(json.dumps(proposal.revise("no Friday").report()))
        assert report["credits"] == sum(course["credits"] for course in report["courses"])
        assert all(rule["holds"] for rule in report["rules"])
        assert report["revision"]["changes"] == ["avoid: Fri"]
        assert report["value"] == pytest.approx(sum(report["preferences"].values()), abs=1e-3)
