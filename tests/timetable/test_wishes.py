from __future__ import annotations

import dataclasses
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnp_router.exceptions import InputError
from cnp_router.timetable import Form, Liking, load_courses, read_wishes
from cnp_router.timetable.interests import topics_of

COURSES = load_courses()
SOME = (
    "no not without fewer more only keep drop allow a the free day Friday Wed 2 mornings first "
    "period gaps credits at most least 12 exams seminars labs Finance film ST-104 Econometrics "
    "year study interested in nothing before after 10 pm is fine courses rather prefer take must "
    "everything instead of too lighter"
)
WORDS = SOME.split()
NOTHING = Form()
PAGE = Path(__file__).resolve().parents[2] / "docs" / "timetable.md"


def changed(text, form=NOTHING):
    """What a text changes of a form; all of it must be understood."""
    reading = read_wishes(text, form, COURSES)
    assert reading.not_understood == ()
    return differences(form, reading.form)


def differences(form, other):
    return {
        part.name: getattr(other, part.name)
        for part in dataclasses.fields(Form)
        if getattr(other, part.name) != getattr(form, part.name)
    }


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("no Friday", {"avoid": ("Fri",)}),
        ("Please, no Fridays!", {"avoid": ("Fri",)}),
        ("I don't want to have classes on Friday.", {"avoid": ("Fri",)}),
        ("nothing on Friday or Monday", {"avoid": ("Fri", "Mon")}),
        ("no Friday and no Mon 2", {"avoid": ("Fri", "Mon 2")}),
        ("I can't come on Tuesday mornings", {"avoid": ("Tue 1", "Tue 2")}),
        ("no evenings", {"avoid": ("period 5",)}),
        ("not the fifth period", {"avoid": ("period 5",)}),
        ("no first period", {"first_period": False}),
        ("first period is fine", {"first_period": True}),
        ("nothing before 10", {"first_period": False}),
        ("nothing before 10:30", {"first_period": False}),
        ("no classes before 1 pm", {"first_period": False, "avoid": ("period 2",)}),
        ("nothing after 16:30", {"avoid": ("period 5",)}),
        ("nothing after 4 pm", {"avoid": ("period 4", "period 5")}),
        ("nothing after 5", {"avoid": ("period 5",)}),
        ("a free Wednesday", {"free_day": "Wed"}),
        ("Wednesday off", {"free_day": "Wed"}),
        ("keep Thursday free", {"free_day": "Thu"}),
        ("I'd like a free day", {"free_day": True}),
        ("no free day", {"free_day": False}),
        ("no gaps", {"gaps": False}),
        ("gaps are fine", {"gaps": True}),
        ("at most 16 credits", {"max_credits": 16}),
        ("at least 2.5 credits", {"min_credits": 2.5}),
        ("between 12 and 16 credits", {"min_credits": 12, "max_credits": 16}),
        ("12-16 credits", {"min_credits": 12, "max_credits": 16}),
        ("at least 12 credits, at most 16", {"min_credits": 12, "max_credits": 16}),
        ("exactly 14 credits", {"min_credits": 14, "max_credits": 14}),
        ("at most 3 courses a day", {"max_per_day": 3}),
        ("at most two courses a day", {"max_per_day": 2}),
        ("max 2 classes per day", {"max_per_day": 2}),
        ("at most twelve credits", {"max_credits": 12}),
        ("between twelve and sixteen credits", {"min_credits": 12, "max_credits": 16}),
        ("less than 9 credits", {"max_credits": 8.5}),
        ("more than 9 credits", {"min_credits": 9.5}),
        ("I can't come before 11am", {"first_period": False, "avoid": ("period 2",)}),
        ("no class after 3pm", {"avoid": ("period 4", "period 5")}),
        ("nothing before noon", {"first_period": False, "avoid": ("period 2",)}),
        ("I hate mornings", {"first_period": False, "avoid": ("period 2",)}),
        ("I hate exams", {"assessment": Liking(avoided=["exam"])}),
        ("don't give me exams", {"assessment": Liking(excluded=["exam"])}),
        ("Wednesday afternoon free", {"avoid": ("Wed 3", "Wed 4", "Wed 5")}),
        ("free Monday and Tuesday", {"free_day": "Mon", "avoid": ("Tue",)}),
        ("a free day, Wednesday off, a free day", {"free_day": "Wed"}),
        ("no film history", {"dropped": ("FM-205",)}),
        ("no Friday, but Friday mornings are fine", {"avoid": ("Fri 3", "Fri 4", "Fri 5")}),
        ("swap LA-104 for AR-120", {"fixed": ("AR-120",), "dropped": ("LA-104",)}),
        ("replace LA-104 with AR-120", {"fixed": ("AR-120",), "dropped": ("LA-104",)}),
        ("exchange LA-104 by AR-120", {"fixed": ("AR-120",), "dropped": ("LA-104",)}),
        ("swap LA-104 for something about art", {"interests": "art", "dropped": ("LA-104",)}),
        ("EC-101 instead of ST-104", {"fixed": ("EC-101",), "dropped": ("ST-104",)}),
        ("take EC-101 instead of ST-104", {"fixed": ("EC-101",), "dropped": ("ST-104",)}),
        ("instead of ST-104 take EC-101", {"fixed": ("EC-101",), "dropped": ("ST-104",)}),
        (
            "instead of ST-104 take something about film",
            {"interests": "film", "dropped": ("ST-104",)},
        ),
        (
            "something about film instead of Statistics for Economics",
            {"interests": "film", "dropped": ("ST-104",)},
        ),
        (
            "I'd rather have EC-101 instead of ST-104",
            {"fixed": ("EC-101",), "dropped": ("ST-104",)},
        ),
        ("drop everything on Friday", {"avoid": ("Fri",)}),
        ("drop Friday and Monday", {"avoid": ("Fri", "Mon")}),
        (
            "replace LA-104 with a seminar",
            {"forms": Liking(liked=["seminar"]), "dropped": ("LA-104",)},
        ),
        (
            "swap Statistics for Economics for Statistics with Python",
            {"fixed": ("ST-120",), "dropped": ("ST-104",)},
        ),
        (
            "only seminars and lectures",
            {"forms": Liking(excluded=["exercise", "laboratory", "online"])},
        ),
        ("without exams", {"assessment": Liking(excluded=["exam"])}),
        ("fewer exams", {"assessment": Liking(avoided=["exam"])}),
        ("as few exams as possible", {"assessment": Liking(avoided=["exam"])}),
        ("I prefer essays", {"assessment": Liking(liked=["term_paper"])}),
        (
            "no exams or presentations, rather no labs",
            {
                "assessment": Liking(excluded=["exam", "presentation"]),
                "forms": Liking(avoided=["laboratory"]),
            },
        ),
        ("more seminars", {"forms": Liking(liked=["seminar"])}),
        (
            "only seminars",
            {"forms": Liking(excluded=["lecture", "exercise", "laboratory", "online"])},
        ),
        ("no statistics", {"fields": Liking(excluded=["Statistics"])}),
        ("less finance", {"fields": Liking(avoided=["Finance"])}),
        ("not Art and Design", {"fields": Liking(excluded=["Art and Design"])}),
        ("more statistics", {"interests": "statistics"}),
        ("statistics, film history", {"interests": "statistics, film history"}),
        ("I'm interested in finance and insurance", {"interests": "finance, insurance"}),
        ("more game theory", {"interests": "game theory"}),
        ("drop ST-104", {"dropped": ("ST-104",)}),
        ("drop Econometrics and ST-104", {"dropped": ("EC-205", "ST-104")}),
        ("keep st-104", {"fixed": ("ST-104",)}),
        ("I must take Econometrics", {"fixed": ("EC-205",)}),
        ("I am in year 3", {"year": 3}),
        ("second-year student", {"year": 2}),
        ("I study economics and business", {"department": "Economics and Business"}),
        ("keep the rest", {}),
    ],
)
def test_what_is_understood(text, values):
    assert changed(text) == values


def test_what_the_docs_name_is_understood():
    table = PAGE.read_text(encoding="utf-8").partition("| | such as |")[2].partition("\n\n")[0]
    examples = re.findall("`(.+?)`", table)
    assert len(examples) > 40
    for example in examples:
        reading = read_wishes(example, NOTHING, COURSES)
        assert (example, reading.not_understood) == (example, ())
        assert reading.changes or reading.as_before


class TestWhatWasSaidBefore:
    def test_is_taken_back(self):
        form = Form(avoid=("Fri", "Mon 2", "Mon 3"), free_day="Fri", first_period=False)
        assert changed("Friday is ok again", form) == {
            "avoid": ("Mon 2", "Mon 3"),
            "free_day": False,
        }
        assert changed("Monday is fine", form) == {"avoid": ("Fri",)}
        exams = Form(assessment=Liking(excluded=["exam"]))
        assert changed("exams are fine", exams) == {"assessment": Liking()}
        assert changed("rather no exams", exams) == {"assessment": Liking(avoided=["exam"])}

    def test_keep_and_drop_take_each_other_back(self):
        assert changed("keep ST-104", Form(dropped=("ST-104",))) == {
            "fixed": ("ST-104",),
            "dropped": (),
        }
        assert changed("drop ST-104", Form(fixed=("ST-104",))) == {
            "fixed": (),
            "dropped": ("ST-104",),
        }

    def test_interests_are_added_and_taken_out(self):
        form = Form(interests="film, law of the sea")
        assert changed("more statistics", form) == {"interests": "film, law of the sea, statistics"}
        assert changed("no law of the sea", form) == {"interests": "film"}

    @pytest.mark.parametrize(
        "text",
        [
            "keep Monday free too",
            "I also want Monday free",
            "a free Monday as well",
            "Also, a free Monday",
        ],
    )
    def test_a_further_free_day_takes_none_back(self, text):
        assert changed(text, Form(free_day="Fri")) == {"avoid": ("Mon",)}
        assert changed(text, Form(free_day="Mon")) == {}
        assert changed(text, Form(free_day=True)) == {"free_day": "Mon"}
        assert changed("keep Monday free", Form(free_day="Fri")) == {"free_day": "Mon"}

    def test_a_further_free_day_has_a_name(self):
        form = Form(free_day="Fri")
        reading = read_wishes("a free day too", form, COURSES)
        assert reading.form == form
        assert reading.not_understood[0].endswith("say which day, such as 'Monday free too'")

    def test_the_change_says_what_was_there(self):
        reading = read_wishes("a free Wednesday", Form(free_day="Fri"), COURSES)
        assert reading.changes == ("free day: Wed (before: Fri)",)

    def test_what_was_so_already_is_no_change(self):
        form = Form(gaps=True, max_credits=12, dropped=["ST-104"], free_day=False)
        said = "gaps are fine, at most 12 credits, drop ST-104, Monday is fine, no free day"
        reading = read_wishes(said, form, COURSES).something()
        assert (reading.form, reading.changes) == (form, ())
        assert reading.as_before == (
            "gaps: yes",
            "max credits: 12",
            "dropped: ST-104",
            "Mon allowed",
            "free day: no",
        )

    @pytest.mark.parametrize(
        ("text", "hour"),
        [
            ("nothing after 8", "after 20:00"),
            ("nothing after 22", "after 22:00"),
            ("nothing before 8", "before 8:00"),
            ("nothing before 6", "before 6:00"),
        ],
    )
    def test_hours_without_a_period_change_nothing(self, text, hour):
        reading = read_wishes(text, NOTHING, COURSES).something()
        assert reading.form == NOTHING
        assert reading.as_before == (f"nothing {hour}: no period is then",)

    def test_what_is_wanted_more_is_named(self):
        said = "more statistics, more seminars, fewer exams, no Friday, without quizzes"
        assert read_wishes(said, NOTHING, COURSES).wanted == (
            "about statistics",
            "likes seminar",
            "avoids exam",
        )


class TestWhatIsNotUnderstood:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("I work on Friday evenings", "not a rule that is known"),
            ("surprise me", "neither a rule nor what a course is about"),
            ("no more than 3 exams", "'than 3 exams' is no time, course"),
            (
                "drop ST-109",
                "'st-109' is no time, course, form, assessment or field (did you mean ST-",
            ),
            ("no xylomancy", "'xylomancy' is no time, course"),
            ("Friday", "not a rule that is known"),
            ("no", "it names no time"),
            ("only Fridays", "'only' does not go with 'fridays'"),
            ("keep Friday", "'keep' does not go with 'friday'"),
            ("nothing before 25", "'25' is not an hour of the day"),
            ("I would like to sleep in", "not a rule that is known"),
            ("I study alchemy", "department 'alchemy' is unknown"),
            ("interested in xylomancy", "neither a rule"),
            ("more courses on Monday mornings", "'more' does not go with"),
            ("no exams on Friday", "one of both, such as 'no exams' or 'nothing on friday'"),
            ("nothing before 6 pm", "no period would be left"),
            ("at most 200 credits", "credits go from 0 to 100"),
            ("replace MU-115", "such as 'swap MU-115 for AR-120'"),
            ("swap MU-115 for something else", "such as 'swap MU-115 for AR-120'"),
            ("swap LA-104 for Friday", "'more' does not go with 'friday'"),
            ("nothing instead of MU-115", "not a rule that is known"),
            ("something else instead of MU-115", "such as 'swap MU-115 for AR-120'"),
            ("law instead of xylomancy", "such as 'swap MU-115 for AR-120'"),
            ("fewer credits", "say how many, such as 'at most 12 credits'"),
            ("two more credits", "say how many"),
            ("as few courses as possible", "say how many"),
            ("make it lighter", "say how many"),
            ("swap xylomancy for AR-120", "such as 'swap MU-115 for AR-120'"),
            ("no fun", "'fun' is no time, course"),
        ],
    )
    def test_it_is_said(self, text, said):
        reading = read_wishes(text, NOTHING, COURSES)
        assert reading.form == NOTHING
        assert reading.changes == ()
        (problem,) = reading.not_understood
        assert problem.startswith(f"{text!r}: ")
        assert said in problem
        with pytest.raises(InputError, match="nothing of the text is understood"):
            reading.something()

    @settings(deadline=None, max_examples=200)
    @given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join))
    def test_no_clause_is_dropped_silently(self, text):
        reading = read_wishes(text, NOTHING, COURSES)
        assert reading.changes or reading.as_before or reading.not_understood
        if not reading.changes:
            assert reading.form == NOTHING

    def test_what_is_joined_to_an_interest_may_be_something_else(self):
        reading = read_wishes("law or labs on Monday", NOTHING, COURSES)
        assert reading.form.interests == "law"
        assert reading.not_understood == ("'labs on Monday': not a rule that is known",)

    def test_the_rest_of_the_text_counts(self):
        reading = read_wishes("No Friday. Make my day!", NOTHING, COURSES)
        assert reading.form.avoid == ("Fri",)
        assert len(reading.not_understood) == 1

    def test_several_courses_of_one_name(self):
        reading = read_wishes("keep Calculus I", NOTHING, COURSES)
        assert "there are several of that name: MA-101, MA-102" in reading.not_understood[0]
        assert changed("drop Calculus I") == {"dropped": ("MA-101", "MA-102")}

    @pytest.mark.parametrize("text", ["", "  ", "please", "also", " , . ; "])
    def test_a_text_that_says_nothing(self, text):
        reading = read_wishes(text, NOTHING, COURSES)
        assert (reading.changes, reading.not_understood) == ((), ())
        with pytest.raises(InputError, match="it is empty"):
            reading.something()

    def test_a_thing_takes_the_verb_before_only_if_it_is_of_its_kind(self):
        assert changed("no Friday, statistics") == {"avoid": ("Fri",), "interests": "statistics"}
        assert changed("no Friday. Seminars") == {
            "avoid": ("Fri",),
            "forms": Liking(liked=["seminar"]),
        }

    def test_wishes_that_contradict_the_form(self):
        with pytest.raises(InputError, match="at least 20 credits"):
            read_wishes("at least 20 credits", Form(max_credits=16), COURSES)

    @pytest.mark.parametrize(
        ("text", "one", "other"),
        [
            ("drop PS-101 and keep PS-101", "drop PS-101", "keep PS-101"),
            ("swap PS-101 for PS-101", "swap PS-101 for PS-101", "swap PS-101 for PS-101"),
            ("more seminars, fewer seminars", "more seminars", "fewer seminars"),
            ("only seminars, more lectures", "only seminars", "more lectures"),
            ("no statistics, more statistics", "no statistics", "more statistics"),
            ("no gaps. Gaps are fine.", "no gaps", "Gaps are fine"),
            ("no Friday or Monday, Monday is ok", "Monday", "Monday is ok"),
            ("no free day, a free Friday", "no free day", "a free Friday"),
            ("at most 9 credits, at most 12 credits", "at most 9 credits", "at most 12 credits"),
            ("I am in year 2, year 3", "I am in year 2", "year 3"),
        ],
    )
    def test_wishes_that_contradict_each_other(self, text, one, other):
        with pytest.raises(InputError) as caught:
            read_wishes(text, NOTHING, COURSES)
        assert str(caught.value) == f"the text says both {one!r} and {other!r} (choose one)"

    def test_a_swap_without_for_changes_nothing(self):
        reading = read_wishes("swap MU-115 and AR-120", NOTHING, COURSES)
        assert (reading.form, len(reading.not_understood)) == (NOTHING, 2)
        with pytest.raises(InputError, match="'swap MU-115 for AR-120'"):
            reading.something()

    def test_one_of_two_is_not_both(self):
        either = {"a free Monday or Tuesday": "free_day", "keep AR-120 or MU-115": "fixed"}
        for text, first in either.items():
            reading = read_wishes(text, NOTHING, COURSES)
            assert list(differences(NOTHING, reading.form)) == [first]
            assert "say which" in reading.not_understood[0]

    def test_words_of_an_interest_that_no_course_has_are_said(self):
        reading = read_wishes("swap ST-104 for something about quantum knitting", NOTHING, COURSES)
        assert differences(NOTHING, reading.form) == {
            "interests": "quantum knitting",
            "dropped": ("ST-104",),
        }
        assert reading.not_understood[0].endswith(": no course has to do with knitting")

    def test_words_that_work_are_named(self):
        with pytest.raises(InputError, match="such as 'no Friday', 'at most 14 credits'"):
            read_wishes("Abracadabra", NOTHING, COURSES).something()

    def test_any_text_is_read(self):
        for text in ("\x00", "é" * 5000, "no " * 500, "((((", "and and and", "\\d+ credits"):
            read_wishes(text, NOTHING, COURSES)
        for text in ("swap " + "x for " * 1500, "no " + "x on " * 1500, "x " * 4000 + "free"):
            read_wishes(text, NOTHING, COURSES)

    @pytest.mark.parametrize("piece", [" ", "and ", "a, ", "between 1 and ", "no ", "law;"])
    def test_long_texts_take_no_time(self, piece):
        before = time.thread_time()
        read_wishes(piece * (10_000 // len(piece)), NOTHING, COURSES)
        topics_of(" " * 50_000)
        assert time.thread_time() - before < 5

    def test_a_text_that_is_too_long(self):
        with pytest.raises(InputError, match="has 10,001 characters, and 10,000 are read"):
            read_wishes("x" * 10_001, NOTHING, COURSES)

    def test_white_space_within_a_line_says_nothing(self):
        assert changed("no    Friday,\tmore  film") == {"avoid": ("Fri",), "interests": "film"}
