"""Wishes in plain words: which changes of a form they are.

A text is cut into clauses at commas, full stops, semicolons, "and", "or" and "but". Each clause is

- a sentence about credits, courses a day, hours, the year or the department, such as "at most 16
  credits" or "nothing before 10";
- or a verb and a thing: "no", "fewer", "more", "only", "keep", "drop" or "allow", and a time, a
  course, a form of teaching, a way of assessment, a field of study, "gaps" or "a free day". A thing
  without a verb takes that of the clause before, if it is of the same kind;
- or an interest: words that courses have.

What is none of these is given back as not understood.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.records import check_text
from cnp_router.text import content_words
from cnp_router.timetable.course import DAYS, FORMS, Course
from cnp_router.timetable.form import Form
from cnp_router.timetable.form_fields import Liking, check_day, department_of
from cnp_router.timetable.interests import closeness, topic_words, topics_of
from cnp_router.timetable.wish_words import Thing, periods_outside, swap_of, thing_of

__all__ = ["Reading", "read_wishes"]

_LONGEST = 10_000
_CUT = re.compile(
    r"(?P<stop>[.!?](?=\s|$)|[;\n]|,?\s+\bbut\b\s+)|(?P<and>,?\s+(?:and|or|nor)\b\s+)|(?P<comma>,)",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(?:between|from)\s+[\d.]+\s+(?:and|to)\s+[\d.]+", re.IGNORECASE)
_FILLER = re.compile(
    r"^(?:please|also|then|so|well|ok|maybe|if possible|i(?:'d| would)? (?:like|want|need)"
    r"(?: to have)?(?! not)|(?:want|need)(?! not)"
    r"|(?:something|courses?) with(?= (?:fewer|less|no) )|i wish(?: for)?|give me"
    r"|let me have|can i have|there should be|make it|with|to|i)\s+"
)
_VERBS = {
    "fewer": r"fewer|less|avoid|rather not?|preferably not?|prefer not?|dislike|don't like"
    r"|not so (?:many|much)|do not like",
    "drop": r"drop|remove|take out|get rid of|replace|swap(?: out)?|cancel|don't take|do not take",
    "keep": r"keep|fix|must (?:take|have)|have to take|take|include|add",
    "only": r"only|just|nothing but",
    "no": r"no more|no|not|without|nothing|never|none|exclude|skip|don't want|do not want"
    r"|don't have|do not have|(?:can't|cannot|can not)(?: come| do| make(?: it)?)?",
    "more": r"more|prefer|preferably|rather|mostly",
    "allow": r"allow|permit",
}
_VERB = re.compile("|".join(rf"(?:(?P<{name}>{words})\b\s*)" for name, words in _VERBS.items()))
_FINE = re.compile(r"(?P<what>.+?) (?:is|are) (?P<not>not )?(?:fine|ok|okay|allowed|possible)")
_LAST = re.compile(r"\s+(?:please|again|at all|any ?more|if possible|too|as well|though|now)$")
_ALSO = re.compile(r"\b(?:also|too|as well)\b")
_MANY = re.compile(r"as (?P<how>many|much|few|little) (?P<what>.+) as possible")
_DAY = "(?P<day>mon|tues?|wed(?:nes)?|thu(?:rs)?|fri)(?:day)?s?"
_FREE = re.compile(
    rf"(?:(?:keep|leave|have|get)\s+)?(?:(?:a|every|my)\s+)?(?:free\s+{_DAY}|"
    rf"{_DAY.replace('?P<day>', '?P<other>')}\s+(?:is |to be |should be |must be )?(?:free|off))"
)
_NUMBER = r"(\d+(?:\.\d+)?)"
_INTEREST = re.compile(
    r"^(?:(?:am )?(?:very |also |still )?interested in|my interests? (?:is|are)|curious about|about"
    r"|(?:something|courses?) (?:on|about|with|in)|learn(?: about)?|like|love)\s+"
)
# A clause with one of these says something of the timetable itself, and is not an interest.
_NOT_INTEREST = re.compile(
    rf"\b(?:{_DAY}|no|not|without|nothing|never|only|must|credits?|periods?|days?|mornings?|noon"
    r"|evenings?|afternoons?|before|after|at most|at least|courses?|timetable|keep|drop|free|gaps?"
    r"|year)\b|n't\b|\d"
)
_EMPTY = ("", "please", "thanks", "thank you", "hello", "hi")
_REST = re.compile(
    r"(?:keep\s+)?(?:the rest|everything else|all (?:the )?others?|the others?)(?: .*)?"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says of a form.

    Parameters
    ----------
    form : Form
        With the changes.
    changes : tuple of str
        What was understood, in words.
    not_understood : tuple of str
        Each part of the text that changed nothing, and why.
    wanted : tuple of str
        Names of the preferences of which the text wants more than before.
    """

    form: Form
    changes: tuple[str, ...]
    not_understood: tuple[str, ...]
    wanted: tuple[str, ...] = ()

    def something(self) -> Reading:
        """Return this; InputError if nothing of the text is understood."""
        if not self.changes:
            said = "; ".join(self.not_understood) or "it is empty"
            raise InputError(f"nothing of the text is understood: {said} (say it in other words)")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return what was and what was not understood, as a JSON object."""
        return {"changes": list(self.changes), "not_understood": list(self.not_understood)}


class _UnclearError(Exception):
    """A clause that is not understood; says why."""


def read_wishes(text: str, form: Form, courses: Sequence[Course]) -> Reading:
    """Return the changes of a form that a text asks for.

    Parameters
    ----------
    text : str
        In English.
    form : Form
    courses : sequence of Course
        What it may name.

    Raises
    ------
    InputError
        If the form with the changes contradicts itself, or the text has more than 10,000
        characters.

    Examples
    --------
    >>> from cnp_router.timetable import load_courses
    >>> said = "No Friday or first period, at most 16 credits, more statistics. Abracadabra!"
    >>> reading = read_wishes(said, Form(), load_courses())
    >>> reading.form.avoid, reading.form.first_period, reading.form.interests
    (('Fri',), False, 'statistics')
    >>> reading.not_understood
    ("'Abracadabra': neither a rule nor what a course is about",)
    """
    if len(check_text("text", text)) > _LONGEST:
        raise InputError(
            f"the text has {len(text):,} characters, and {_LONGEST:,} are read (say it in fewer)"
        )
    text = "\n".join(" ".join(line.split()) for line in text.splitlines())
    reader = _Reader(form, courses)
    for clause, joined in _clauses(text, courses):
        reader.read(clause, joined)
    return reader.reading()


def _clauses(text: str, courses: Sequence[Course]) -> Iterator[tuple[str, str]]:
    """Yield each clause, and how it is joined to the one before: "stop", "and" or "comma"."""
    names = {name for c in courses for name in (c.name, c.field, c.department) if _CUT.search(name)}
    spans = [found.span() for found in _RANGE.finditer(text)]
    for name in names:
        spans += [found.span() for found in re.finditer(re.escape(name), text, re.IGNORECASE)]
    start, joined = 0, "stop"
    for cut in _CUT.finditer(text):
        if any(begin < cut.end() and cut.start() < end for begin, end in spans):
            continue
        if clause := text[start : cut.start()].strip():
            yield clause, joined
            joined = str(cut.lastgroup)
        start = cut.end()
    if clause := text[start:].strip():
        yield clause, joined


class _Reader:
    """A form that is changed clause by clause."""

    def __init__(self, form: Form, courses: Sequence[Course]) -> None:
        self.form, self.courses = form, courses
        self.changes: list[str] = []
        self.unclear: list[str] = []
        self._verb, self._kind = "", ""  # of the clause before
        self._also = False  # whether a clause adds to what is there
        self._credits: dict[str, float] = {}  # to be checked together
        self._wanted: dict[str, None] = {}

    def reading(self) -> Reading:
        """Return what was read."""
        bounds: dict[str, Any] = dict(self._credits)
        form = replace(self.form, **bounds)
        return Reading(form, tuple(self.changes), tuple(self.unclear), tuple(self._wanted))

    def credits(self, **bounds: float) -> None:
        """Change the bounds of the credits."""
        self._credits |= bounds
        self.changes += [f"{name.replace('_', ' ')}: {value:g}" for name, value in bounds.items()]

    def read(self, clause: str, joined: str) -> None:
        """Read one clause."""
        words = " ".join(clause.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
        words = re.sub(r"\bi'm\b", "i am", words)
        self._also = bool(_ALSO.search(words))
        while (shorter := _LAST.sub("", _FILLER.sub("", words))) != words:
            words = shorter
        if words in _EMPTY:
            return
        if joined == "stop":
            self._verb = self._kind = ""
        try:
            self._read(words, joined)
        except _UnclearError as exc:
            self.unclear.append(f"{clause!r}: {exc}")

    def _read(self, words: str, joined: str) -> None:
        if found := _MANY.fullmatch(words):
            words = f"{'more' if found['how'] in ('many', 'much') else 'fewer'} {found['what']}"
        if self._credits and re.fullmatch(rf"(?:{_MOST}|{_LEAST}) {_NUMBER}", words):
            words += " credits"
        for pattern, change in _SENTENCES:
            if found := re.fullmatch(pattern, words):
                self._verb = self._kind = ""
                change(self, *found.groups())
                return
        if found := _FREE.fullmatch(words):
            self._free(check_day("free_day", found["day"] or found["other"]))
        elif swap := swap_of(words):
            self._swap(*swap)
        elif _REST.fullmatch(words):
            self.changes.append("the rest is kept")
        elif found := _FINE.fullmatch(words):
            self._do("no" if found["not"] else "allow", found["what"])
        elif (found := _VERB.match(words)) and not _INTEREST.match(words):
            self._do(str(found.lastgroup), words[found.end() :])
        elif self._verb and self._same_kind(words, joined):
            self._do(self._verb, words)
        elif (thing := thing_of(words, self.courses)) and thing.kind in _ALONE:
            self._do(_ALONE[thing.kind], words)
        else:
            self._interest(words)

    def _same_kind(self, words: str, joined: str) -> bool:
        thing = thing_of(words, self.courses)
        if thing is None:
            return joined != "stop" and self._verb == "more" and not _NOT_INTEREST.search(words)
        same = thing.kind == self._kind or {thing.kind, self._kind} <= {"forms", "assessment"}
        return same and (joined == "and" or thing.kind != "fields")

    def _free(self, day: str) -> None:
        """Have nothing on a day, beside another one that is free if the text says so."""
        if self._also and self.form.free_day in DAYS and self.form.free_day != day:
            self.avoid(Thing("time", (day,)))
        else:
            self.set(free_day=day)
        self._verb, self._kind = "free", "time"

    def _swap(self, old: str, new: str) -> None:
        """Give up one thing for another one; ``""``: for anything else."""
        before = self.form, tuple(self.changes)
        thing = thing_of(old, self.courses)
        if thing is None:
            raise self._unknown(old)
        is_time = thing.kind == "time"
        if is_time and {*self.form.avoid, self.form.free_day}.isdisjoint(thing.values):
            raise _UnclearError(f"nothing is said of {old!r} (name the course)")
        self._do("allow" if is_time else "drop", old)
        try:
            taken = thing_of(new, self.courses)
            if taken is not None and taken.kind == "course":
                self.keep(taken)
            elif taken is not None and taken.kind in _LIKED:
                self._do("more", new)
            elif new:
                self._read(new, "stop")
        except _UnclearError:
            self.form, self.changes = before[0], list(before[1])
            raise

    def _do(self, verb: str, words: str) -> None:
        thing = thing_of(words, self.courses)
        if thing is None and verb == "no":
            self._without_interest(words)
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

    def prefer(self, thing: Thing) -> None:
        """Take names of fields as interests."""
        self._interest(", ".join(thing.values).lower(), asked=True)

    def set(self, **values: Any) -> None:
        """Change fields of the form."""
        for name, value in values.items():
            before = getattr(self.form, name)
            was = "" if before in (None, (), value) else f" (before: {_said(before)})"
            self.changes.append(f"{name.replace('_', ' ')}: {_said(value)}{was}")
        self.form = replace(self.form, **values)

    def avoid(self, thing: Thing) -> None:
        """Have nothing at some times."""
        if "period 1" in thing.values:
            self.set(first_period=False)
        more = tuple(each for each in thing.values if each != "period 1")
        if more:
            self.form = replace(self.form, avoid=(*self.form.avoid, *more))
            self.changes.append(f"avoid: {', '.join(more)}")

    def allow(self, thing: Thing) -> None:
        """Take back that there is nothing at some times."""
        if "period 1" in thing.values:
            self.set(first_period=True)
        if thing.values != ("period 1",):
            left = tuple(
                each
                for each in self.form.avoid
                if each not in thing.values and each[:3] not in thing.values
            )
            self.set(avoid=left)
        if self.form.free_day in thing.values:
            self.set(free_day=False)

    def like(self, kind: str | None) -> Callable[[Thing], None]:
        """Return what has a thing liked, avoided or excluded, or nothing said of it."""

        def change(thing: Thing) -> None:
            said = getattr(self.form, thing.kind)
            for value in thing.values:
                said = said.changed(value, kind)
            self.form = replace(self.form, **{thing.kind: said})
            if kind in ("liked", "avoided"):
                verb = kind.replace("liked", "likes").replace("avoided", "avoids")
                self._wanted |= dict.fromkeys(f"{verb} {value}" for value in thing.values)
            names = ", ".join(each.replace("_", " ") for each in thing.values)
            self.changes.append(f"{thing.kind}: {names} {kind or 'allowed'}")

        return change

    def keep(self, thing: Thing) -> None:
        """Fix courses."""
        if len(thing.values) > 1:
            raise _UnclearError(f"there are several of that name: {', '.join(thing.values)}")
        left = tuple(each for each in self.form.dropped if each not in thing.values)
        fixed = tuple(dict.fromkeys((*self.form.fixed, *thing.values)))
        self.form = replace(self.form, fixed=fixed, dropped=left)
        self.changes.append(f"fixed: {', '.join(thing.values)}")

    def drop(self, thing: Thing) -> None:
        """Leave courses out."""
        left = tuple(each for each in self.form.fixed if each not in thing.values)
        dropped = tuple(dict.fromkeys((*self.form.dropped, *thing.values)))
        self.form = replace(self.form, fixed=left, dropped=dropped)
        self.changes.append(f"dropped: {', '.join(thing.values)}")

    def only(self, thing: Thing) -> None:
        """Exclude the other forms."""
        others = tuple(each for each in FORMS if each not in thing.values)
        self.form = replace(self.form, forms=Liking(excluded=others))
        self.changes.append(f"forms: only {', '.join(thing.values)}")

    def hours(self, which: str, hour: str, minute: str | None, half: str | None) -> None:
        """Have nothing before or after an hour."""
        time = int(hour) + int(minute or 0) / 60
        if (half == "pm" and time < 12) or (half is None and time < 8):
            time += 12
        if not 0 <= time <= 24:
            raise _UnclearError(f"{hour!r} is not an hour of the day")
        periods = periods_outside(**{which: time})
        if not periods:
            raise _UnclearError("no period is then")
        self.avoid(Thing("time", tuple(f"period {period}" for period in periods)))

    def how_many(self) -> None:
        """Ask for a number: the form does not say how many there are."""
        raise _UnclearError("say how many, such as 'at most 12 credits'")

    def _interest(self, words: str, *, asked: bool = False) -> None:
        """Add an interest; if no verb has asked for it, only one that courses are about."""
        topic = _INTEREST.sub("", words)
        if topic == words and _NOT_INTEREST.search(words):
            raise _UnclearError("not a rule that is known")
        bare = topic == words and not asked
        parts = topics_of(topic)
        found = [part for part in parts if closeness(part, self.courses)]
        # Words that stand alone are an interest only if courses are about all of them.
        if not found or (bare and not set(content_words(topic)) <= topic_words(self.courses)):
            raise _UnclearError("neither a rule nor what a course is about")
        self._verb, self._kind = ("", "") if bare else ("more", "")  # for what is joined to it
        there = topics_of(self.form.interests or "")
        self.form = replace(self.form, interests=", ".join(dict.fromkeys((*there, *found))))
        self._wanted |= dict.fromkeys(f"about {part}" for part in found)
        self.changes.append(f"interested in {', '.join(found)}")
        if missing := [part for part in parts if part not in found]:
            raise _UnclearError(f"no course is about {', '.join(missing)}")

    def _unknown(self, words: str) -> _UnclearError:
        """Return (not raise) the error of words that name nothing."""
        known = {name.lower(): name for c in self.courses for name in (c.id, c.name, c.field)}
        close = difflib.get_close_matches(words, known, n=2, cutoff=0.8)
        cure = f" (did you mean {' or '.join(known[each] for each in close)}?)" if close else ""
        what = f"{words!r} is" if words else "it names"
        return _UnclearError(f"{what} no time, course, form, assessment or field{cure}")

    def _without_interest(self, words: str) -> None:
        there = topics_of(self.form.interests or "")
        left = tuple(each for each in there if each.lower() != words)
        if left == there:
            raise self._unknown(words)
        self.set(interests=", ".join(left))


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) or "nothing" if isinstance(value, tuple) else f"{value}"


def _department(reader: _Reader, name: str) -> None:
    try:
        named = department_of(name, {course.department for course in reader.courses})
    except InputError as exc:
        raise _UnclearError(str(exc)) from None
    reader.set(department=named)


_MOST = r"(?:at most|no more than|not more than|max(?:imum)?(?: of)?|up to|only)"
_LEAST = r"(?:at least|no fewer than|no less than|min(?:imum)?(?: of)?)"
_TH = r"(?:year (?P<n>[0-9])|(first|second|third|fourth|fifth|sixth)[ -]year)(?: student)?"
_YEARS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6}
_TIME = r"(\d{1,2})(?::(\d\d))?\s*(?:o'clock|h)?\s*(am|pm)?"
_SENTENCES: tuple[tuple[str, Callable[..., None]], ...] = (
    (rf"{_MOST} {_NUMBER} credits?", lambda r, n: r.credits(max_credits=float(n))),
    (rf"{_LEAST} {_NUMBER} credits?", lambda r, n: r.credits(min_credits=float(n))),
    (
        rf"(?:between |from )?{_NUMBER} ?(?:and|to|-) ?{_NUMBER} credits?",
        lambda r, low, high: r.credits(min_credits=float(low), max_credits=float(high)),
    ),
    (
        rf"(?:exactly )?{_NUMBER} credits?",
        lambda r, n: r.credits(min_credits=float(n), max_credits=float(n)),
    ),
    (
        r"(?:.+ )?(?:fewer|less|more) (?:credits?|courses?|work)|(?:much )?lighter",
        lambda r: r.how_many(),
    ),
    (
        rf"{_MOST} ([1-5]) (?:courses?|classes|lessons?) (?:a|per|each|every|on one) day",
        lambda r, n: r.set(max_per_day=int(n)),
    ),
    (
        rf"(?:nothing|no courses?|not?|no classes) before {_TIME}",
        lambda r, *t: r.hours("before", *t),
    ),
    (rf"(?:nothing|no courses?|not?|no classes) after {_TIME}", lambda r, *t: r.hours("after", *t)),
    (
        rf"(?:am )?(?:in )?(?:a |my )?{_TH}",
        lambda r, n, word: r.set(year=int(n) if n else _YEARS[word]),
    ),
    (r"(?:study|studying|department:?|department of) (.+)", _department),
)
_LIKED = ("forms", "assessment", "fields")
_DOING: dict[tuple[str, str], Callable[[_Reader, Thing], None]] = {
    ("no", "time"): _Reader.avoid,
    ("drop", "time"): _Reader.avoid,
    ("free", "time"): _Reader.avoid,
    ("fewer", "time"): _Reader.avoid,
    ("allow", "time"): _Reader.allow,
    ("no", "gaps"): lambda r, t: r.set(gaps=False),
    ("fewer", "gaps"): lambda r, t: r.set(gaps=False),
    ("allow", "gaps"): lambda r, t: r.set(gaps=True),
    ("no", "free day"): lambda r, t: r.set(free_day=False),
    ("keep", "free day"): lambda r, t: r.set(free_day=True),
    ("keep", "course"): _Reader.keep,
    ("drop", "course"): _Reader.drop,
    ("no", "course"): _Reader.drop,
    ("allow", "course"): lambda r, t: r.set(
        dropped=tuple(each for each in r.form.dropped if each not in t.values)
    ),
    ("only", "forms"): _Reader.only,
    **{("no", kind): lambda r, t: r.like("excluded")(t) for kind in _LIKED},
    **{("drop", kind): lambda r, t: r.like("excluded")(t) for kind in _LIKED},
    **{("fewer", kind): lambda r, t: r.like("avoided")(t) for kind in _LIKED},
    **{("more", kind): lambda r, t: r.like("liked")(t) for kind in _LIKED[:2]},
    ("more", "fields"): _Reader.prefer,
    ("keep", "fields"): _Reader.prefer,
    **{("keep", kind): lambda r, t: r.like("liked")(t) for kind in _LIKED[:2]},
    **{("allow", kind): lambda r, t: r.like(None)(t) for kind in _LIKED},
}
_ALONE = {"forms": "more", "assessment": "more", "free day": "keep", "fields": "more"}
