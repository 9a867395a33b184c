"""Patterns of the phrases in which wishes are said, all in lower case."""

from __future__ import annotations

import re

__all__ = [
    "ALSO",
    "ANOTHER",
    "EMPTY",
    "FILLER",
    "FINE",
    "FREE",
    "INSTEAD",
    "INTEREST",
    "LAST",
    "LEAST",
    "LESS",
    "LIGHTER",
    "MANY",
    "MORE",
    "MOST",
    "NONE",
    "NOT_INTEREST",
    "NUMBER",
    "PER_DAY",
    "REST",
    "SWAP",
    "TIME",
    "VERB",
    "WORKS",
    "YEAR",
    "YEARS",
    "with_digits",
]

WORKS = "'no Friday', 'at most 14 credits', 'more statistics'"
"""Examples of what is understood, for errors."""

FILLER = re.compile(
    r"^(?:please|also|then|so|well|ok|maybe|if possible"
    r"|i(?:'d| would)?(?: also)? (?:like|want|need)(?: to have)?(?! not)"
    r"|i wish(?: for)?|give me|let me have|can i have|there should be|make it|with|to|i)\s+"
)
LAST = re.compile(r"\s+(?:please|again|at all|any ?more|if possible|too|as well|though|now)$")
ALSO = re.compile(r"\b(?:also|too|as well)\b")
"""Adds to what is there."""
EMPTY = ("", "also", "please", "thanks", "thank you", "hello", "hi", "no problem", "no thanks")

_VERBS = {
    "fewer": r"fewer|less|avoid|rather not?|preferably not?|prefer not?|dislike|don't like"
    r"|not so (?:many|much)|do not like|hate",
    "drop": r"drop|remove|take out|get rid of|cancel|don't take|do not take",
    "swap": r"(?:swap|replace|exchange|switch|substitute)(?: out)?",
    "keep": r"keep|fix|must (?:take|have)|have to take|take|include|add",
    "only": r"only|just|nothing but",
    "no": r"no more|no|not|without|nothing|never|none|exclude|skip|don't want|do not want"
    r"|don't have|do not have|(?:don't|do not) give me"
    r"|(?:can't|cannot|can not)(?: come| do| make(?: it)?)?",
    "more": r"more|prefer|preferably|rather|mostly",
    "allow": r"allow|permit",
}
VERB = re.compile("|".join(rf"(?:(?P<{name}>{words})\b\s*)" for name, words in _VERBS.items()))
SWAP = re.compile(r" (?:for|with|by) ")
"""Between what goes and what comes."""
INSTEAD = re.compile(
    r"instead of (?P<old>.+?) (?:take|add|have|want|give me) (?P<new>.+)"
    r"|(?:(?:take|add|have|(?:i'd |i would )?rather(?: have| take)?) )?"
    r"(?P<other>.+) instead of (?P<of>.+)"
)
ANOTHER = re.compile(r"(?:something|anything) else|(?:an)?other(?:s| courses?| one)?")

FINE = re.compile(r"(?P<what>.+?) (?:is|are) (?P<not>not )?(?:fine|ok|okay|allowed|possible)")
MANY = re.compile(r"as (?P<how>many|much|few|little) (?P<what>.+) as possible")
FREE = re.compile(
    r"(?:(?:keep|leave|have|get)\s+)?(?:(?:a|every|my)\s+)?"
    r"(?:free\s+(?P<time>.+)|(?P<other>.+?)\s+(?:is |to be |should be |must be )?(?:free|off))"
)
REST = re.compile(
    r"(?:keep\s+)?(?:the rest|everything else|all (?:the )?others?|the others?)(?: .*)?"
)

_DAY = "(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri)(?:day)?s?"
INTEREST = re.compile(
    r"^(?:(?:am )?(?:very |also |still )?interested in|my interests? (?:is|are)|curious about|about"
    r"|(?:something|courses?) (?:on|about|with|in)|learn(?: about)?|like|love)\s+"
)
NOT_INTEREST = re.compile(
    rf"\b(?:{_DAY}|no|not|without|nothing|never|only|must|credits?"
    r"|periods?|days?|mornings?|noon|evenings?|afternoons?|before|after|at most|at least|courses?"
    r"|timetable|keep|drop|free|gaps?|year)\b|n't\b|\d"
)
"""A clause with one of these says something of the timetable itself, and is not an interest."""

NUMBER = r"(\d+(?:\.\d+)?)"
MOST = r"(?:at most|no more than|not more than|max(?:imum)?(?: of)?|up to|only)"
LEAST = r"(?:at least|no fewer than|no less than|min(?:imum)?(?: of)?)"
LIGHTER = (
    r"(?:(?:a few|a bit|a little|a lot|some|much|no|\d+(?:\.\d+)?) )?(?:fewer|less|more) "
    r"(?:credits?|courses?|work)|(?:an? )?(?:bit |little |much )?(?:lighter|heavier)(?: timetable)?"
)
"""Fewer or more credits, without a number that they come to."""
LESS = r"(?:less than|fewer than|under|below)"
MORE = r"(?:more than|over|above)"
NONE = (
    r"(?:nothing|not?|(?:no|never|(?:don't|do not) want|hate) (?:any )?(?:courses?|class(?:es)?"
    r"|lessons?|anything)|(?:can't|cannot|can not)(?: come| be there| make it)?)"
)
PER_DAY = r"(?: (?:courses?|class(?:es)?|lessons?))? (?:a|per|each|every|on one) day"
TIME = r"(\d{1,2}|noon)(?::(\d\d))?\s*(?:o'clock|h)?\s*(am|pm)?"
YEAR = r"(?:year (?P<n>[0-9])|(first|second|third|fourth|fifth|sixth)[ -]year)(?: student)?"
YEARS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6}

# fmt: off
_NUMBERS = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
    "twenty",
]
# fmt: on
_IN_WORDS = re.compile(rf"\b(?:{'|'.join(_NUMBERS)})\b")


def with_digits(words: str) -> str:
    """Return words with the numbers up to twenty as digits.

    Examples
    --------
    >>> with_digits("at most two courses a day")
    'at most 2 courses a day'
    """
    return _IN_WORDS.sub(lambda found: str(_NUMBERS.index(found[0]) + 1), words)
