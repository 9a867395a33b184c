"""What a text quotes at length: what is to be sent, written or searched for, say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cnp_router.text.tokenise import content_words, pieces

__all__ = ["n_set_aside", "put_back", "set_aside", "without_quotations"]

_LEAST_WORDS = 4  # fewer may be a name
_FIRST, _MOST = 0xE000, 1_000  # of private use: each stands for a quotation
_PLACE = re.compile(f"[{chr(_FIRST)}-{chr(_FIRST + _MOST - 1)}]")
_MARKS = re.compile("[\"'`“„«「『]")
_QUOTED = re.compile(
    r"(?<![^\W_])(?<!\":)(?<!\":\s)\"(?=\S)[^\"]++(?<=\S)\"(?![^\W_])"
    r"|(?<!\w)'(?=\S)(?:[^']|(?<=\w)'(?=\w))++(?<=\S)'(?!\w)"
    r"|```[^`]++```|`[^`\n]++`"
    r"|[“„][^“”„]++[”“]|«[^«»]++»|「[^「」]++」|『[^『』]++』"
)


def set_aside(text: str, *, least_words: int = _LEAST_WORDS) -> tuple[str, list[str]]:
    """Return a text with a placeholder for each quotation of so many words or more, and these.

    A character of a script without spaces is half a word. Apostrophes, inches, marks that are not
    closed and values of JSON quote nothing. Nothing is set aside where nothing else is said.

    Examples
    --------
    >>> text = 'Tell Tom: "The lights are out, and the door is locked." Then call Ann.'
    >>> rest, quotations = set_aside(text)
    >>> quotations
    ['"The lights are out, and the door is locked."']
    >>> put_back(rest, quotations) == text
    True
    """
    if not _MARKS.search(text) or _PLACE.search(text):
        return text, []
    found: list[str] = []

    def put(match: re.Match[str]) -> str:
        n_words = sum(0.5 if len(piece) == 1 else 1 for piece in pieces(match[0]))
        if n_words < least_words or len(found) == _MOST:
            return match[0]
        found.append(match[0])
        return chr(_FIRST + len(found) - 1)

    rest = _QUOTED.sub(put, text)
    return (rest, found) if found and any(content_words(rest)) else (text, [])


def put_back(rest: str, quotations: Sequence[str]) -> str:
    """Return a text, or a part of one, with its quotations where they were."""
    if not quotations:
        return rest
    return _PLACE.sub(lambda place: quotations[ord(place[0]) - _FIRST], rest)


def n_set_aside(rest: str) -> int:
    """Return how many quotations a text is without."""
    return 0 if rest.isascii() else len(_PLACE.findall(rest))


def without_quotations(text: str, *, least_words: int = _LEAST_WORDS) -> str:
    """Return a text without what it quotes (`set_aside`).

    Examples
    --------
    >>> without_quotations('Tell Tom: "The lights are out, and the door is locked."')
    'Tell Tom: “…”'
    >>> without_quotations("Play 'Hotel California', don't shuffle")
    "Play 'Hotel California', don't shuffle"
    """
    rest, found = set_aside(text, least_words=least_words)
    return _PLACE.sub("“…”", rest) if found else text
