"""`WishReader`: a form that is changed clause by clause."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.text import content_words
from cnp_router.timetable.course import DAYS, FORMS, PERIODS, Course
from cnp_router.timetable.form import Form
from cnp_router.timetable.form_fields import Liking, department_of
from cnp_router.timetable.interests import (
    about,
    closeness,
    topic_words,
    topics_of,
    unknown_interests,
)
from cnp_router.timetable.wish_bounds import check_bounds, without_slots
from cnp_router.timetable.wish_phrases import (
    ALSO,
    ANOTHER,
    EMPTY,
    FILLER,
    FINE,
    FREE,
    INSTEAD,
    INTEREST,
    LAST,
    LEAST,
    LESS,
    LIGHTER,
    MANY,
    MORE,
    MOST,
    NONE,
    NOT_INTEREST,
    NUMBER,
    PER_DAY,
    REST,
    SWAP,
    TIME,
    VERB,
    YEAR,
    YEARS,
    with_digits,
)
from cnp_router.timetable.wish_reading import Reading
from cnp_router.timetable.wish_words import Thing, hour_of, periods_outside, thing_of

__all__ = ["WishReader"]

_MOST_CREDITS = 100
_FEW = 10  # places of a clause that are tried
_SWAPS = (
    "say which course for what, such as 'swap MU-115 for AR-120' or 'swap MU-115 for something "
    "about art'"
)
_TIME_OF = re.compile(r" (?=(?:on|in|at|before|after) )")


class _UnclearError(Exception):
    """A clause that is not understood; says why."""


class WishReader:
    """A form that is changed clause by clause."""

    def __init__(self, form: Form, courses: Sequence[Course]) -> None:
        self.form, self.courses = form, courses
        self.changes: list[str] = []
        self.as_before: list[str] = []
        self.unclear: list[str] = []
        self._clause, self._joined = "", "stop"
        self._to = False  # whether the clause is what somebody wants to do
        self._also = False  # whether it adds to what is there
        self._verb, self._kind = "", ""  # of the clause before
        self._credits: dict[str, float] = {}  # to be checked together
        self._wanted: dict[str, None] = {}
        self._decided: dict[Any, tuple[object, str]] = {}  # and in which clause
        self._free: str | None = None  # the day
        self._only: tuple[str, ...] = ()  # forms

    def reading(self) -> Reading:
        """Return what was read."""
        bounds: dict[str, Any] = dict(self._credits)
        check_bounds(self.form, self._credits)
        form = replace(self.form, **bounds)
        return Reading(
            form,
            tuple(self.changes),
            tuple(self.unclear),
            tuple(self._wanted),
            tuple(self.as_before),
        )

    def credits(self, **bounds: float) -> None:
        """Change the bounds of the credits."""
        for name, value in bounds.items():
            if not 0 <= value <= _MOST_CREDITS:
                raise _UnclearError(f"credits go from 0 to {_MOST_CREDITS}")
            self._decide(name, value)
            same = value == getattr(self.form, name)
            self._credits[name] = value
            (self.as_before if same else self.changes).append(
                f"{name.replace('_', ' ')}: {value:g}"
            )

    def beyond(self, number: str, *, less: bool) -> None:
        """Have less than a number of credits, or more: courses have them in steps."""
        sizes = (round(course.credits * 100) for course in self.courses)
        step = math.gcd(*sizes) / 100 or 0.01
        steps = round(float(number) / step, 6)
        if less:
            self.credits(max_credits=round((math.ceil(steps) - 1) * step, 2))
        else:
            self.credits(min_credits=round((math.floor(steps) + 1) * step, 2))

    def read(self, clause: str, joined: str) -> None:
        """Read one clause."""
        words = " ".join(clause.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
        words = re.sub(r"\bi'm\b", "i am", words)
        self._to = False
        self._also |= bool(ALSO.search(words))
        while (shorter := LAST.sub("", FILLER.sub("", words))) != words:
            self._to |= words.startswith("to ")
            words = shorter
        if words in EMPTY:
            return
        if joined == "stop":
            self._verb = self._kind = ""
        self._clause, self._joined = clause, joined
        try:
            self._read(words)
        except _UnclearError as exc:
            self.unclear.append(f"{clause!r}: {exc}")
        self._also = False

    def _read(self, words: str) -> None:
        if found := MANY.fullmatch(words):
            words = f"{'more' if found['how'] in ('many', 'much') else 'fewer'} {found['what']}"
        elif found := INSTEAD.fullmatch(words):
            words = f"swap {found['old'] or found['of']} for {found['new'] or found['other']}"
        numbers = with_digits(words)
        if self._credits and re.fullmatch(rf"(?:{MOST}|{LEAST}|{LESS}|{MORE}) {NUMBER}", numbers):
            numbers += " credits"
        for pattern, change in _SENTENCES:
            if found := re.fullmatch(pattern, numbers):
                self._verb = self._kind = ""
                change(self, *found.groups())
                return
        free = FREE.fullmatch(words)
        times = thing_of(free["time"] or free["other"], self.courses) if free else None
        if times is not None and times.kind == "time":
            self._verb, self._kind = "free", "time"
            self.free(times)
        elif REST.fullmatch(words):
            self.changes.append("the rest is kept")
        elif found := FINE.fullmatch(words):
            self._do("no" if found["not"] else "allow", found["what"])
        elif (found := VERB.match(words)) and not INTEREST.match(words):
            self._do(str(found.lastgroup), words[found.end() :])
        elif self._verb and self._same_kind(words):
            self._do_too(words)
        elif (thing := thing_of(words, self.courses)) and thing.kind in _ALONE:
            self._do(_ALONE[thing.kind], words)
        else:
            self._interest(words)

    def _same_kind(self, words: str) -> bool:
        thing = thing_of(words, self.courses)
        if thing is None:
            more = self._joined != "stop" and self._verb == "more"
            return more and not NOT_INTEREST.search(words)
        same = thing.kind == self._kind or {thing.kind, self._kind} <= {"forms", "assessment"}
        return same and (self._joined in ("and", "or") or thing.kind != "fields")

    def _do_too(self, words: str) -> None:
        """Do with a thing what was done with the one before."""
        if self._verb == "swap":
            raise _UnclearError("part of a swap that is not clear")
        if self._joined == "or" and self._verb in ("free", "keep"):
            raise _UnclearError("say which: of two, one cannot be chosen")
        self._do(self._verb, words)

    def _do(self, verb: str, words: str) -> None:
        if verb == "swap":
            self._swap(words)
            return
        thing = thing_of(words, self.courses)
        if thing is None and verb in ("no", "drop"):
            self._without(words)
            return
        if verb == "more" and (thing is None or thing.kind == "course"):
            self._interest(words, asked=True)
            return
        if thing is None:
            raise self._unknown(words)
        change = _DOING.get((verb, thing.kind))
        if change is None:
            raise _UnclearError(f"{verb!r} does not go with {words!r}")
        self._verb, self._kind = verb, thing.kind
        change(self, thing)

    def _swap(self, words: str) -> None:
        """Drop a course and take another, or what is about something."""
        self._verb, self._kind = "swap", "course"
        for cut in islice(SWAP.finditer(words), _FEW):
            old = thing_of(words[: cut.start()], self.courses)
            if old is not None and old.kind == "course":
                break
        else:
            raise _UnclearError(_SWAPS)
        new = words[cut.end() :]
        if ANOTHER.fullmatch(new):
            raise _UnclearError(_SWAPS)
        thing = thing_of(new, self.courses)
        self._do("keep" if thing is not None and thing.kind == "course" else "more", new)
        self.drop(old)

    def _decide(self, what: object, value: object) -> None:
        """Raise InputError where the text has said something else of the same thing."""
        before, clause = self._decided.setdefault(what, (value, self._clause))
        if before != value:
            raise InputError(f"the text says both {clause!r} and {self._clause!r} (choose one)")

    def _take(self, said: str, **values: Any) -> None:
        """Change fields of the form, and note it."""
        form = replace(self.form, **values)
        (self.as_before if form == self.form else self.changes).append(said)
        self.form = form

    def prefer(self, thing: Thing) -> None:
        """Take names of fields as interests."""
        self._interest(", ".join(thing.values).lower(), asked=True)

    def set(self, **values: Any) -> None:
        """Change fields of the form."""
        for name, value in values.items():
            self._decide(name, value)
            before = getattr(self.form, name)
            was = "" if before in (None, (), value) else f" (before: {_said(before)})"
            self._take(f"{name.replace('_', ' ')}: {_said(value)}{was}", **{name: value})

    def free(self, thing: Thing) -> None:
        """Keep days and other times free: the first day as the free day, the others by avoiding."""
        self._decide("free day", True)
        if self._also and isinstance(self.form.free_day, str):
            self._free = self.form.free_day
        for time in thing.values:
            self._decide(("time", time), False)
            if time in DAYS and self._free in (None, time):
                self._free = time
                before = self.form.free_day
                was = f" (before: {_said(before)})" if before not in (None, time) else ""
                self._take(f"free day: {time}{was}", free_day=time)
            else:
                self.avoid(Thing("time", (time,)))

    def any_free_day(self, _: Thing) -> None:
        """Keep a day free, if none is named."""
        before = self.form.free_day
        if self._also and isinstance(before, str) and self._free is None:
            raise _UnclearError("say which day, such as 'Monday free too'")
        self._decide("free day", True)
        was = f" (before: {_said(before)})" if before not in (None, True) else ""
        if self._free is None:
            self._take(f"free day: yes{was}", free_day=True)

    def no_free_day(self, _: Thing) -> None:
        """Keep no day free."""
        self._decide("free day", False)
        self._take("free day: no", free_day=False)

    def avoid(self, thing: Thing) -> None:
        """Have nothing at some times."""
        for time in thing.values:
            self._decide(("time", time), False)
        if "period 1" in thing.values:
            self.set(first_period=False)
        more = tuple(each for each in thing.values if each != "period 1")
        if more:
            self._take(f"avoid: {', '.join(more)}", avoid=(*self.form.avoid, *more))

    def allow(self, thing: Thing) -> None:
        """Take back that there is nothing at some times."""
        for time in thing.values:
            self._decide(("time", time), True)
        if "period 1" in thing.values:
            self.set(first_period=True)
        if thing.values != ("period 1",):
            left = [
                each
                for entry in self.form.avoid
                for each in without_slots(entry, thing.values)
                if each not in thing.values and each[:3] not in thing.values
            ]
            said = f"avoid: {', '.join(left) or 'nothing'}"
            as_before = f"{', '.join(thing.values)} allowed"
            self._take(as_before if tuple(left) == self.form.avoid else said, avoid=tuple(left))
        if self.form.free_day in thing.values:
            self._take(f"free day: no (before: {self.form.free_day})", free_day=False)

    def like(self, kind: str | None) -> Callable[[Thing], None]:
        """Return what has a thing liked, avoided or excluded, or nothing said of it."""

        def change(thing: Thing) -> None:
            said = getattr(self.form, thing.kind)
            names = ", ".join(each.replace("_", " ") for each in thing.values)
            for value in thing.values:
                self._decide((thing.kind, value), kind)
                if thing.kind == "fields":
                    self._decide(("about", value.lower()), kind)
                said = said.changed(value, kind)
            self._take(f"{thing.kind}: {names} {kind or 'allowed'}", **{thing.kind: said})
            if kind in ("liked", "avoided"):
                verb = kind.replace("liked", "likes").replace("avoided", "avoids")
                self._wanted |= dict.fromkeys(f"{verb} {value}" for value in thing.values)

        return change

    def keep(self, thing: Thing) -> None:
        """Fix courses."""
        if len(thing.values) > 1:
            raise _UnclearError(f"there are several of that name: {', '.join(thing.values)}")
        for each in thing.values:
            self._decide(("course", each), "kept")
        left = tuple(each for each in self.form.dropped if each not in thing.values)
        fixed = tuple(dict.fromkeys((*self.form.fixed, *thing.values)))
        self._take(f"fixed: {', '.join(thing.values)}", fixed=fixed, dropped=left)

    def drop(self, thing: Thing, why: str = "") -> None:
        """Leave courses out."""
        for each in thing.values:
            self._decide(("course", each), "dropped")
        left = tuple(each for each in self.form.fixed if each not in thing.values)
        dropped = tuple(dict.fromkeys((*self.form.dropped, *thing.values)))
        self._take(f"dropped: {', '.join(thing.values)}{why}", fixed=left, dropped=dropped)

    def allow_course(self, thing: Thing) -> None:
        """Take back that courses are left out."""
        for each in thing.values:
            self._decide(("course", each), "allowed")
        left = tuple(each for each in self.form.dropped if each not in thing.values)
        self._take(f"allowed: {', '.join(thing.values)}", dropped=left)

    def only(self, thing: Thing) -> None:
        """Exclude the other forms."""
        self._only += thing.values
        for each in FORMS:
            self._decided.pop(("forms", each), None)
            self._decide(("forms", each), "liked" if each in self._only else "excluded")
        others = tuple(each for each in FORMS if each not in self._only)
        self._take(f"forms: only {', '.join(self._only)}", forms=Liking(excluded=others))

    def hours(self, which: str, *said: Any) -> None:
        """Have nothing before or after an hour."""
        time = hour_of(which, *said)
        if time is None:
            raise _UnclearError(f"{said[0]!r} is not an hour of the day")
        periods = periods_outside(**{which: time})
        if not periods:
            hour = f"{int(time)}:{time % 1 * 60:02.0f}"
            self.as_before.append(f"nothing {which} {hour}: no period is then")
            return
        if len(periods) == len(PERIODS):
            raise _UnclearError("no period would be left")
        self.avoid(Thing("time", tuple(f"period {period}" for period in periods)))

    def how_many(self) -> None:
        """Ask for a number of credits."""
        raise _UnclearError("say how many, such as 'at most 12 credits'")

    def _interest(self, words: str, *, asked: bool = False) -> None:
        """Add an interest; if no verb has asked for it, only one that courses are about."""
        topic = INTEREST.sub("", words)
        if topic == words and (NOT_INTEREST.search(words) or (self._to and not asked)):
            raise _UnclearError("not a rule that is known")
        bare = topic == words and not asked
        parts = topics_of(topic)
        found = [part for part in parts if closeness(part, self.courses)]
        # Words that stand alone are an interest only if courses are about all of them.
        if not found or (bare and not set(content_words(topic)) <= topic_words(self.courses)):
            raise _UnclearError("neither a rule nor what a course is about")
        self._verb, self._kind = ("", "") if bare else ("more", "")  # for what is joined to it
        for part in found:
            self._decide(("about", part.lower()), "liked")
        there = topics_of(self.form.interests or "")
        self.form = replace(self.form, interests=", ".join(dict.fromkeys((*there, *found))))
        self._wanted |= dict.fromkeys(f"about {part}" for part in found)
        self.changes.append(f"interested in {', '.join(found)}")
        if missing := unknown_interests(topic, self.courses):
            problem = f"no course has to do with {', '.join(missing)}"
            self.unclear.append(f"{self._clause!r}: {problem}")

    def _unknown(self, words: str) -> _UnclearError:
        """Return (not raise) the error of words that name nothing."""
        for cut in islice(_TIME_OF.finditer(words), _FEW):
            both = words[: cut.start()], words[cut.end() :]
            if all(thing_of(each, self.courses) for each in both):
                return _UnclearError(
                    f"a rule has one of both, such as 'no {both[0]}' or 'nothing {both[1]}'"
                )
        known = {name.lower(): name for c in self.courses for name in (c.id, c.name, c.field)}
        close = difflib.get_close_matches(words, known, n=2, cutoff=0.8)
        cure = f" (did you mean {' or '.join(known[each] for each in close)}?)" if close else ""
        what = f"{words!r} is" if words else "it names"
        return _UnclearError(f"{what} no time, course, form, assessment or field{cure}")

    def _without(self, words: str) -> None:
        """Take an interest out, or drop the courses that are about all of some words."""
        there = topics_of(self.form.interests or "")
        left = tuple(each for each in there if each.lower() != words)
        if left != there:
            self._decide(("about", words), "excluded")
            self.set(interests=", ".join(left))
            return
        unwanted = () if NOT_INTEREST.search(words) else about(words, self.courses)
        if not unwanted:
            raise self._unknown(words)
        self._decide(("about", words), "excluded")
        self.drop(Thing("course", unwanted), f" (about {words})")


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) or "nothing" if isinstance(value, tuple) else f"{value}"


def _department(reader: WishReader, name: str) -> None:
    try:
        named = department_of(name, {course.department for course in reader.courses})
    except InputError as exc:
        raise _UnclearError(str(exc)) from None
    reader.set(department=named)


_SENTENCES: tuple[tuple[str, Callable[..., None]], ...] = (
    (rf"{MOST} {NUMBER} credits?", lambda r, n: r.credits(max_credits=float(n))),
    (rf"{LEAST} {NUMBER} credits?", lambda r, n: r.credits(min_credits=float(n))),
    (rf"{LESS} {NUMBER} credits?", lambda r, n: r.beyond(n, less=True)),
    (rf"{MORE} {NUMBER} credits?", lambda r, n: r.beyond(n, less=False)),
    (
        rf"(?:between |from )?{NUMBER} ?(?:and|to|-) ?{NUMBER} credits?",
        lambda r, low, high: r.credits(min_credits=float(low), max_credits=float(high)),
    ),
    (
        rf"(?:exactly )?{NUMBER} credits?",
        lambda r, n: r.credits(min_credits=float(n), max_credits=float(n)),
    ),
    (LIGHTER, WishReader.how_many),
    (rf"{MOST} ([1-5]){PER_DAY}", lambda r, n: r.set(max_per_day=int(n))),
    (rf"{NONE} (before|after) {TIME}", WishReader.hours),
    (
        rf"(?:am )?(?:in )?(?:a |my )?{YEAR}",
        lambda r, n, word: r.set(year=int(n) if n else YEARS[word]),
    ),
    (r"(?:study|studying|department:?|department of) (.+)", _department),
)
_LIKED = ("forms", "assessment", "fields")
_DOING: dict[tuple[str, str], Callable[[WishReader, Thing], None]] = {
    ("no", "time"): WishReader.avoid,
    ("drop", "time"): WishReader.avoid,
    ("fewer", "time"): WishReader.avoid,
    ("allow", "time"): WishReader.allow,
    ("no", "gaps"): lambda r, t: r.set(gaps=False),
    ("fewer", "gaps"): lambda r, t: r.set(gaps=False),
    ("allow", "gaps"): lambda r, t: r.set(gaps=True),
    ("free", "time"): WishReader.free,
    ("no", "free day"): WishReader.no_free_day,
    ("keep", "free day"): WishReader.any_free_day,
    ("keep", "course"): WishReader.keep,
    ("drop", "course"): WishReader.drop,
    ("no", "course"): WishReader.drop,
    ("allow", "course"): WishReader.allow_course,
    ("only", "forms"): WishReader.only,
    **{("no", kind): lambda r, t: r.like("excluded")(t) for kind in _LIKED},
    **{("drop", kind): lambda r, t: r.like("excluded")(t) for kind in _LIKED},
    **{("fewer", kind): lambda r, t: r.like("avoided")(t) for kind in _LIKED},
    **{("more", kind): lambda r, t: r.like("liked")(t) for kind in _LIKED[:2]},
    ("more", "fields"): WishReader.prefer,
    ("keep", "fields"): WishReader.prefer,
    **{("keep", kind): lambda r, t: r.like("liked")(t) for kind in _LIKED[:2]},
    **{("allow", kind): lambda r, t: r.like(None)(t) for kind in _LIKED},
}
_ALONE = {"forms": "more", "assessment": "more", "free day": "keep", "fields": "more"}
