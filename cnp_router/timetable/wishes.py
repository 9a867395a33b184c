"""Wishes in plain words: which changes of a form they are.

A text is cut into clauses at commas, full stops, semicolons, "and", "or" and "but". Each clause is

- a sentence about credits, courses a day, hours, the year or the department, such as "at most 16
  credits" or "nothing before 10";
- or a verb and a thing: "no", "fewer", "more", "only", "keep", "drop" or "allow", and a time, a
  course, a form of teaching, a way of assessment, a field of study, "gaps" or "a free day". A thing
  without a verb takes that of the clause before, if it is of the same kind;
- or "swap X for Y" or "Y instead of X": a course, and a course or what another is to be about;
- or an interest: words that courses have.

What is none of these is given back as not understood. What contradicts itself is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cnp_router.exceptions import InputError
from cnp_router.records import check_text
from cnp_router.timetable.course import Course
from cnp_router.timetable.form import Form
from cnp_router.timetable.wish_reader import WishReader
from cnp_router.timetable.wish_reading import Reading

__all__ = ["Reading", "read_wishes"]

_LONGEST = 10_000
_CUT = re.compile(
    r"(?P<stop>[.!?](?=\s|$)|[;\n]|,?\s+\bbut\b\s+)|(?P<and>,?\s+(?:and|or|nor)\b\s+)|(?P<comma>,)",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(?:between|from)\s+[\w.]+\s+(?:and|to)\s+[\w.]+", re.IGNORECASE)


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
        If the text contradicts itself, or the form with the changes does, or the text has more
        than 10,000 characters.

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
    reader = WishReader(form, courses)
    for clause, joined in _clauses(text, courses):
        reader.read(clause, joined)
    return reader.reading()


def _clauses(text: str, courses: Sequence[Course]) -> Iterator[tuple[str, str]]:
    """Yield each clause, and its joint: "stop", "and", "or" or "comma"."""
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
            joined = "or" if cut[0].strip(" ,").lower() == "or" else str(cut.lastgroup)
        start = cut.end()
    if clause := text[start:].strip():
        yield clause, joined
