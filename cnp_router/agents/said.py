"""`Said`: the values that stand in a text and can be recognised by their form."""

from __future__ import annotations

import datetime
import itertools
import re
import zoneinfo
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from unicodedata import normalize

from cnp_router.text.tokenise import singular

__all__ = ["COUNTING", "Said", "Value"]

_MOST_READ = 10_000  # characters
_QUOTED = r"\"([^\"\n]+)\"|“([^”\n]+)”|「([^」\n]+)」|`([^`\n]+)`|(?<!\w)'([^'\n]+)'(?!\w)"
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?"
# No part of a version, an address of the network or a fraction.
# Nor one with marks between its digits, which mean one thing here and another there.
_NUMBER = re.compile(r"(?<![\w./])(?<![0-9],)-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?![0-9:/]|[.,][0-9])")
# What stands within a value of one kind is not looked for in those after it.
_KINDS = (
    ("url", re.compile(r"https?://[^\s\"'<>“”「」`]+")),
    ("email", re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("datetime", re.compile(rf"\b{_DAY}[T ]{_CLOCK}(?:Z|[+-][0-9]{{2}}:[0-9]{{2}})?")),
    ("date", re.compile(rf"\b{_DAY}\b")),
    ("time", re.compile(rf"\b{_CLOCK}\b")),
    ("zone", re.compile(r"\b(?:UTC|[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_+-]+){1,2})\b")),
    (
        "path",
        re.compile(
            r"(?<![\w/])(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)*/?|(?<!\w)[A-Za-z]:\\[^\s\"'`]+"
            r"|(?<![\w/])\w[\w-]*(?:/[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,4}\b"
        ),
    ),
    ("number", _NUMBER),
)
_BEFORE = re.compile(r"(\w+)\W*$")
# Of a number: "room 5", "room no. 5", "5 days". One of several, "3 to 5 days", is of no word.
_NOUN = re.compile(r"(?i)(?:([^\W\d]+)[\s:=#-]+)?([^\W\d]+)(?:(?<=\bn[or])\.)?[\s:=#-]*$")
_UNIT = re.compile(r"[\s-]*([^\W\d]+)")
_CONNECTED = re.compile(r"\s+(?:and|or|with|und|et)$", re.IGNORECASE)
# Behind the first word of a value that has no quotation marks: another thing is said.
_MORE = re.compile(
    r"[.!?]\s|\s[-\u2013\u2014]\s|\s(?:after|and|are|as|at|because|before|but|by|for|from|has|have|if|in"
    r"|into|is|it|not|now|on|or|please|since|so|thanks?|then|to|today|tomorrow|tonight|until|was"
    r"|were|when|while|will|with|bitte|et|oder|ou|porque|und|weil)\b",
    re.IGNORECASE,
)
COUNTING = frozenset({"id", "no", "nr", "num", "number"})
_LISTED = re.compile(r"(?:[\s,;/&\u2013-]|\b(?:and|or|to|until|through)\b)+")


@dataclass(frozen=True, slots=True)
class Value:
    """A value, the word before it in lower case, and those that may say what a number is of."""

    value: Any
    before: str
    of: tuple[str, ...] = field(default=(), repr=False)


class Said:
    """Values in a text, each with the word before it.

    Examples
    --------
    >>> said = Said('Convert 16:30 from Asia/Tokyo to Europe/Berlin, and save "it" in /tmp/a.txt.')
    >>> said.of("zone")
    [Value(value='Asia/Tokyo', before='from'), Value(value='Europe/Berlin', before='to')]
    >>> [(number.value, number.of) for number in Said("Room no. 5 for 3 days.").of("number")]
    [(5, ('no', 'room', 'for')), (3, ('for', 'day'))]
    >>> [value.value for kind in ("time", "quoted", "path") for value in said.of(kind)]
    ['16:30', 'it', '/tmp/a.txt']
    """

    def __init__(self, text: str) -> None:
        self.text = normalize("NFC", text[:_MOST_READ])
        self.kinds: dict[str, list[Value]] = {"quoted": list(_values(_QUOTED, self.text))}
        rest = self.text
        for kind, pattern in _KINDS:
            found = [*(_numbers(rest) if kind == "number" else _values(pattern, rest, kind))]
            self.kinds[kind] = list({(value.value, value.of): value for value in found}.values())
            taken = {str(value.value) for value in found}
            rest = pattern.sub(lambda m, t=taken: _blank(m[0], t), rest)  # type: ignore[misc]

    def of(self, kind: str) -> list[Value]:
        """Return the distinct values of a kind, in order."""
        return self.kinds[kind]

    def beside(self, name: str, others: Iterable[str] = (), *, prose: bool = True) -> list[str]:
        """Return what is said after a name and a colon or an equals sign, up to another name.

        Unless it is prose, nothing is certain where words without quotation marks go on with
        something else: "dome: two because it rains".
        """
        names = [re.escape(normalize("NFC", each)) for each in (name, *others)]
        until = rf"(?!\s(?:{'|'.join(names)})\s*[:=])"
        bare = rf"[^\s,;\"'](?:{until}(?:[^,;\n]|,(?=[0-9])))*"
        pattern = rf"(?<!\w){names[0]}\s*[:=]\s*(?:{_QUOTED}|(?P<bare>{bare}))"
        found = []
        for match in re.finditer(pattern, self.text, re.IGNORECASE):
            value = next(part for part in match.groups() if part).strip()
            if match["bare"] and not prose:
                value = _alone(value)
            if not value:
                return []
            found.append(value)
        return found

    def has(self, words: str) -> bool:
        """Return whether words stand in the text, whole and in any case."""
        pattern = rf"(?<!\w){re.escape(words)}(?!\w)"
        return re.search(pattern, self.text, re.IGNORECASE) is not None


def _values(pattern: str | re.Pattern[str], text: str, kind: str = "") -> Iterator[Value]:
    for match in re.finditer(pattern, text):
        value = _value(kind, next((part for part in match.groups() if part), match[0]))
        if value is not None:
            before = _BEFORE.search(text[max(match.start() - 30, 0) : match.start()])
            yield Value(value, before[1].lower() if before else "")


def _alone(words: str) -> str:
    """Return words without quotation marks as a value; empty where they say more than one thing."""
    value = _CONNECTED.sub("", words.rstrip(".!?"))
    return "" if _MORE.search(value) else value


def _numbers(text: str) -> Iterator[Value]:
    """Yield the numbers in a text, each with the words beside it that say what it is of."""
    found = list(_NUMBER.finditer(text))
    gaps = [_LISTED.fullmatch(text, a.end(), b.start()) for a, b in itertools.pairwise(found)]
    beside = itertools.pairwise([None, *gaps, None])
    for match, listed in zip(found, beside, strict=False):  # without a number there is one, too
        before = text[max(match.start() - 40, 0) : match.start()]
        of = [] if any(listed) else _beside(before, text, match.end())
        word = _BEFORE.search(before)
        value = _value("number", match[0])
        yield Value(value, word[1].lower() if word else "", tuple(map(singular, of)))


def _beside(before: str, text: str, end: int) -> list[str]:
    """Return the words that stand right before and after a number."""
    noun, unit = _NOUN.search(before), _UNIT.match(text, end)
    words = [] if noun is None else [noun[2].lower()]
    if noun is not None and noun[1] and words[0] in COUNTING:
        words.append(noun[1].lower())
    return words if unit is None else [*words, unit[1].lower()]


def _value(kind: str, text: str) -> Any:
    """Return the value that a text of a kind is; None where it only looks like one."""
    with suppress(ValueError):
        if kind in ("url", "path"):
            return text.rstrip(".,;:!?)") or None
        if kind == "number":
            return float(text) if "." in text else int(text)
        if kind in ("date", "datetime"):
            datetime.datetime.fromisoformat(text)
        if kind == "zone" and not _is_zone(text):
            return None
        return text
    return None


@lru_cache(maxsize=1024)
def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True


def _blank(text: str, taken: set[str]) -> str:
    return " " if any(value in text for value in taken) else text
