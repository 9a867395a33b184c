"""The parts of a text that may ask for something of their own: sentences, list items, clauses."""

# ruff: noqa: RUF001  (the separators of other scripts)

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from cnp_router.text.quotations import n_set_aside, put_back, set_aside
from cnp_router.text.stop_words import STOP_WORDS
from cnp_router.text.tokenise import MAX_CHARACTERS, pieces

__all__ = ["clauses", "cuts", "quarters"]

# What joins two requests, by language. A further language is one line.
CONJUNCTIONS = {
    "English": "and, then, also, plus, as well as, while, but, additionally, in addition, besides",
    "German": "und, sowie, außerdem, dann, danach, zusätzlich, aber",
    "French": "et, puis, ainsi que, ensuite, mais, également",
    "Spanish": "y, además, luego, también, así como, después, pero",
    "Italian": "e, poi, inoltre, anche",
    "Portuguese": "depois, também, bem como, além disso",
    "Dutch": "en, daarna, ook",
}
# The same where words are not divided by spaces.
UNSPACED_CONJUNCTIONS = {
    "Japanese": "そして, それから, それと, さらに, および, 及び, ならびに, 並びに, 加えて",
    "Chinese": "并且, 而且, 以及, 然后, 然後, 同时, 同時, 还有, 還有, 另外",
}
# A full stop after these ends no sentence.
_ABBREVIATIONS = {"approx", "bzw", "ca", "cf", "dr", "fig", "inc", "incl", "ltd", "mr", "mrs", "ms"}
_ABBREVIATIONS |= {"nr", "prof", "sr", "sra", "st", "usw", "vol", "vs"}
_INITIALS = re.compile(r"[^\W\d](?:\.[^\W\d])*")  # J. K. Rowling, e.g., U.S.
_LEAST_WORDS = 2
_FOUR_PIECES = re.compile(r"[\W_]*+(?:[^\W_]++[\W_]++){3}[^\W_]", re.ASCII)  # two words at least
_MOST_CUTS = 6
_SENTENCE, _CONJUNCTION, _COMMA = range(3)  # the strongest first


def _alternatives(table: dict[str, str], *, ascii_only: bool = False) -> str:
    found = {phrase for line in table.values() for phrase in line.split(", ")}
    found = {phrase for phrase in found if phrase.isascii() or not ascii_only}
    return "|".join(re.escape(phrase) for phrase in sorted(found, key=len, reverse=True))


# What ends a sentence where no space follows, and what may close a quotation behind it.
_WIDE_STOPS, _CLOSING = "。．！？｡।؟", "」』”）"
_SEPARATOR = re.compile(
    # The end of a sentence stays with it, and so does a quotation mark behind it.
    rf"(?P<stop>(?<=[.!?…])(?=\s)|(?<=[.!?…][\"'”’»)\]])(?=\s)"
    rf"|(?<=[{_WIDE_STOPS}])(?![{_WIDE_STOPS}{_CLOSING}])|(?<=[{_WIDE_STOPS}][{_CLOSING}]))"
    r"|(?P<item>(?<!\S)\(?(?P<number>\d{1,2})[.)](?=\s))"
    r"|(?P<line>(?:^|\n)[^\S\n]*+[-*–](?=\s)|\n|[;；•])"
    rf"|(?P<word>(?<!\S)(?:{_alternatives(CONJUNCTIONS)})(?![^\s,])|(?<=\s)[&+](?=\s)"
    rf"|{_alternatives(UNSPACED_CONJUNCTIONS)})"
    r"|(?P<comma>,(?=\s)|[、，､،]|(?<=\s)[-–—](?=\s)|—)",
    re.IGNORECASE,
)
# The same for ASCII in lower case, more than twice as fast. Each begins with one of a few
# characters, or after a space: all other places are given up at once.
_ASCII_SEPARATOR = re.compile(
    r"(?:(?=[\s;,])|(?<!\S))(?:"
    r"(?P<stop>(?=\s)(?:(?<=[.!?])|(?<=[.!?][\"')\]])))"
    r"|(?<!\S)(?:(?P<item>\(?(?P<number>\d{1,2})[.)](?=\s))"
    rf"|(?P<word>(?:{_alternatives(CONJUNCTIONS, ascii_only=True)})(?![^\s,])"
    r"|(?<=\s)[&+](?=\s)))"
    r"|(?P<line>(?:^|\n)[^\S\n]*+[-*](?=\s)|[\n;])"
    r"|(?P<comma>,(?=\s)|(?<=\s)-(?=\s)))"
)


def clauses(text: str, *, cut_quotations: bool = True) -> tuple[str, ...]:
    """Return the parts of a text that may ask for something of their own.

    Each sentence, line or list item, and after it its own parts between conjunctions and commas
    where it has several. A part with hardly a word stays with the one before. The first 2,000
    characters count.

    Parameters
    ----------
    text : str
    cut_quotations : bool, default=True
        Whether what a text quotes at length (`set_aside`) is cut, too. If not, a quotation stays
        whole with what it stands in.

    Returns
    -------
    tuple of str
        The text itself if it is a single part, also if that part is empty.

    Examples
    --------
    >>> clauses("Show a map, and text my mother. Play jazz!")
    ('Show a map, and text my mother.', 'Show a map', 'text my mother.', 'Play jazz!')
    >>> clauses("明日の天気を調べて、地図に表示して。")
    ('明日の天気を調べて、地図に表示して。', '明日の天気を調べて', '地図に表示して。')
    >>> clauses("A map of Last.fm users, i.e. me")
    ('A map of Last.fm users, i.e. me',)
    >>> clauses('Write "I am late, and it rains", then play jazz', cut_quotations=False)[1:]
    ('Write "I am late, and it rains"', 'play jazz')
    """
    if not cut_quotations:
        rest, quotations = set_aside(text)
        return tuple(put_back(part, quotations) for part in clauses(rest))
    found: list[str] = []
    for sentence in _joined(_parts(text), _SENTENCE):
        own = _joined(sentence, _COMMA)
        found.append(_text_of(text, sentence))
        if len(own) > 1:
            found.extend(_text_of(text, clause) for clause in own)
    return tuple(found) if len(found) > 1 else (text,)


def cuts(text: str) -> tuple[tuple[str, str], ...]:
    """Return the ways to cut a text in two where one request may end and another begin.

    At most six: at the ends of sentences, lines and list items first, then at conjunctions,
    then at commas, and of those the nearest to the middle. Both halves have at least two words,
    a stop word being half a word. The first 2,000 characters count.

    Parameters
    ----------
    text : str

    Returns
    -------
    tuple of pairs of str
        In the order of the text; none if it is a single part.

    Examples
    --------
    >>> cuts("Show my run on a map, and text me if it rains")
    (('Show my run on a map', 'text me if it rains'),)
    >>> cuts("A map of bars")
    ()
    """
    parts = _parts(text)
    words = [_words(text[part.start : part.end]) for part in parts]
    total, before, places = sum(words), 0.0, []
    for i in range(1, len(parts)):
        before += words[i - 1]
        if before >= _LEAST_WORDS <= total - before:
            places.append((parts[i].kind, abs(2 * before - total), i))
    return tuple(
        (_text_of(text, parts[:i]), _text_of(text, parts[i:]))
        for i in sorted(i for *_, i in sorted(places)[:_MOST_CUTS])
    )


def quarters(text: str) -> tuple[str, ...]:
    """Return the halves of a text, each halved again, where they can be cut.

    Of the `cuts`, the one that leaves the longest shorter half.

    Parameters
    ----------
    text : str

    Returns
    -------
    tuple of str
        Two to four, in the order of the text; none if it is a single part.

    Examples
    --------
    >>> quarters("Show a map. Text my mother, and play jazz")
    ('Show a map.', 'Text my mother', 'play jazz')
    """
    return tuple(part for half in _halves(text) for part in _halves(half) or (half,))


def _halves(text: str) -> tuple[str, ...]:
    return max(cuts(text), key=lambda pair: min(map(len, pair)), default=())


class _Part(NamedTuple):
    """What stands between two separators, of which the one before it is of that kind."""

    start: int
    end: int
    kind: int
    words: float  # as many, or `_LEAST_WORDS`


@lru_cache(maxsize=64)
def _parts(text: str) -> tuple[_Part, ...]:
    """Return what stands between the separators, nothing empty."""
    found, start, kind = [], 0, _SENTENCE
    text = text[:MAX_CHARACTERS]
    for at, end, own in (*_separators(text), (len(text), len(text), _SENTENCE)):
        inside = text[start:at]
        if stripped := inside.strip():
            first = start + len(inside) - len(inside.lstrip())
            found.append(_Part(first, first + len(stripped), kind, _few_words(stripped)))
            kind = own
        else:
            kind = min(kind, own)
        start = end
    return tuple(found)


def _separators(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield where each begins and ends, and its kind."""
    item = 1
    is_ascii = text.isascii()
    found = _ASCII_SEPARATOR.finditer(text.lower()) if is_ascii else _SEPARATOR.finditer(text)
    for match in found:
        at, end = match.span()
        if match["number"]:
            if int(match["number"]) != item:
                continue  # "iOS 17. Then"
            item += 1
        elif match["stop"] is not None and text[at - 1] == "." and _abbreviates(text[:at]):
            continue
        elif match["word"]:
            yield at, end, _CONJUNCTION
            continue
        elif match["comma"]:
            yield at, end, _COMMA
            continue
        yield at, end, _SENTENCE


def _abbreviates(before: str) -> bool:
    """Return whether the full stop at the end is of an abbreviation or an initial."""
    last = before[-12:-1].lower().replace("(", " ").split()[-1:]
    return any(
        word in _ABBREVIATIONS or (_INITIALS.fullmatch(word) and word not in STOP_WORDS)
        for word in last
    )


def _few_words(text: str) -> float:
    """Return how many words it has, or `_LEAST_WORDS` if there are more."""
    if text.isascii() and _FOUR_PIECES.match(text):
        return _LEAST_WORDS
    return min(_words(text), _LEAST_WORDS)


def _words(text: str) -> float:
    """Return how many words it has; a stop word, or a character without spaces, is half a word."""
    own = sum(0.5 if len(word) == 1 or word in STOP_WORDS else 1 for word in pieces(text))
    return own + n_set_aside(text)


def _joined(parts: Sequence[_Part], kind: int) -> list[list[_Part]]:
    """Return the parts in groups that separators of at most that kind divide.

    Each has enough words, if all of them together have.
    """
    groups: list[list[_Part]] = []
    for part in parts:
        if groups and (part.kind > kind or sum(own.words for own in groups[-1]) < _LEAST_WORDS):
            groups[-1].append(part)
        else:
            groups.append([part])
    if len(groups) > 1 and sum(own.words for own in groups[-1]) < _LEAST_WORDS:
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _text_of(text: str, parts: Sequence[_Part]) -> str:
    return text[parts[0].start : parts[-1].end]
