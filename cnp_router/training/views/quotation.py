"""What of a past request is quoted in a reason: the part that has most to do with a request."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from cnp_router.text import STOP_WORDS, is_unspaced, placed_words

__all__ = ["beginning", "best_quote"]

Idf = Callable[[str], float | None]

LONGEST = 58  # characters, without the marks of what is missing
_SHORTEST = 20
# A word counts as much as it is rare: of the request, twice if the API says it too; else little.
_BY_BOTH, _BY_REQUEST, _BY_API = 2.0, 1.0, 0.25
_MISSING = "…"
_SENTENCE = re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？｡]")  # noqa: RUF001
_CLAUSE = re.compile(r"[.!?…,;:][\"'”’)\]]*\s+|\s[-–—(]+\s*|—|[。！？｡、，；：]")  # noqa: RUF001
_EDGES = " \t,;:-–—(、，；："  # noqa: RUF001  # of a part, they say nothing


class _Part(NamedTuple):
    """A part of a text, from its first telling word to its last, and how telling they are."""

    weight: float
    start: int
    end: int


class Quotable:
    """A text that may be quoted: on one line, with its words and the ends of its sentences."""

    def __init__(self, text: str) -> None:
        self.line = unicodedata.normalize("NFC", " ".join(text.split()))
        self._words = placed_words(self.line)
        self._ends = [match.end() for match in _SENTENCE.finditer(self.line)]

    def best(self, wanted: Set[str], said: Set[str], idf: Idf) -> _Part:
        """Return the part of a sentence whose words are most telling, of equal ones the first.

        A word that comes twice tells no more. Without any such word it is the beginning.
        """
        found = [each for each in self._words if each[0] in wanted or each[0] in said]
        weights: dict[str, float] = {}
        for word, _, _ in found:
            both = _BY_BOTH if word in said else _BY_REQUEST
            weights[word] = (both if word in wanted else _BY_API) * (idf(word) or 0.0)
        best = _Part(0.0, 0, 0)
        for i, (_, begin, _) in enumerate(found):
            most = min(begin + LONGEST, self._sentence_end(begin))
            near = {word: end for word, _, end in found[i:] if end <= most}
            weight = sum(map(weights.__getitem__, near))
            if weight > best.weight:
                best = _Part(weight, begin, max(near.values()))
            if most >= found[-1][2]:  # those further on are parts of this one
                break
        return best

    def _sentence_end(self, place: int) -> int:
        later = bisect_right(self._ends, place)
        return self._ends[later] if later < len(self._ends) else len(self.line)

    def quote(self, part: _Part) -> str:
        """Return the sentence that a part stands in, or its clause, or what is around it.

        The first that is short enough.
        """
        line = self.line
        if len(line) <= LONGEST + len(_MISSING):
            return line
        for ends in (_SENTENCE, _CLAUSE):
            start, end = _between(line, ends, part)
            if _SHORTEST <= end - start <= LONGEST:
                break
        else:
            start = start if part.end - start <= LONGEST else _left(line, part)
            end = _right(line, part.end, start + LONGEST)
        before = _MISSING if start else ""
        after = _MISSING if end < len(line) else ""
        return before + line[start:end].strip(_EDGES) + after


# Some past requests are quoted again and again.
_quotable = lru_cache(maxsize=1_000)(Quotable)


def best_quote(texts: Sequence[str], wanted: Set[str], said: Set[str], idf: Idf) -> str:
    """Return the part of a text that fits best, of equal ones that of the first text.

    Parameters
    ----------
    texts : sequence of str
        At least one.
    wanted, said : set of str
        Words of the request, and of the API's specification.
    idf : callable
        Returns the inverse document frequency of a word, if it has one.

    Examples
    --------
    >>> past = "Walk dogs. Owners pay through the app, and see on a map where their dogs are."
    >>> best_quote([past], {"dog", "map"}, {"map"}, lambda word: 2.0)
    '…and see on a map where their dogs are.'
    """
    quotable = [_quotable(text) for text in texts]
    parts = [text.best(wanted, said, idf) for text in quotable]
    best = max(range(len(parts)), key=lambda i: parts[i].weight)
    return quotable[best].quote(parts[best])


def beginning(text: str, longest: int = LONGEST) -> str:
    r"""Return the beginning of a text on one line, cut between words.

    Examples
    --------
    >>> beginning("bars on a  map of\nour town", 14)
    'bars on a map…'
    >>> beginning("雨が降りそうなら知らせて", 8)
    '雨が降りそうなら…'
    """
    line = " ".join(text[: 20 * longest].split())
    if len(line) <= longest + len(_MISSING):
        return line
    return line[: _right(line, 0, longest)].strip(_EDGES) + _MISSING


def _between(line: str, ends: re.Pattern[str], part: _Part) -> tuple[int, int]:
    """Return from where to where the part reaches that is between two such ends."""
    # Further away there is nothing that fits.
    far = max(0, part.start - LONGEST - 1)
    before = [match.end() for match in ends.finditer(line, far, part.start)]
    start = before[-1] if before else far
    after = ends.search(line, part.end, part.end + LONGEST + 1)
    end = min(len(line), part.end + LONGEST + 1) if after is None else after.end()
    return start, len(line[:end].rstrip())


def _left(line: str, part: _Part) -> int:
    """Return where to begin before a part, so that half of the room is left behind it."""
    at = max(0, part.start - (LONGEST - (part.end - part.start)) // 2)
    while at < part.start and not _is_border(line, at):
        at += 1
    return at


def _right(line: str, least: int, most: int) -> int:
    """Return where to end: at most there, between two words, and not before `least`.

    And not with a word that leads on, such as "and".
    """
    at = min(len(line), most)
    while at > least and not _is_border(line, at):
        at -= 1
    if not at:
        return min(len(line), most)
    if at < len(line):
        at = len(line[:at].rstrip())
        while (space := line.rfind(" ", max(least, 1), at)) > 0:
            if line[space + 1 : at].lower() not in STOP_WORDS:
                break
            at = space
    return at


def _is_border(line: str, at: int) -> bool:
    """Return whether a text may be cut there."""
    if at in (0, len(line)):
        return True
    before, after = line[at - 1], line[at]
    if before == " " or after == " ":
        return True
    if unicodedata.combining(after):
        return False
    return is_unspaced(before) or is_unspaced(after)
