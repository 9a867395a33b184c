"""What a text quotes at length: what is to be sent, written or searched for, say."""

from __future__ import annotations

import re

from cnp_router.text.tokenise import pieces

__all__ = ["without_quotations"]

_LEAST_WORDS = 4  # fewer may be a name
_MARKS = re.compile("[\"'`“„«「『]")
_QUOTED = re.compile(
    r"(?<![^\W_])(?<!\":)(?<!\":\s)\"(?=\S)[^\"]++(?<=\S)\"(?![^\W_])"
    r"|(?<!\w)'(?=\S)(?:[^']|(?<=\w)'(?=\w))++(?<=\S)'(?!\w)"
    r"|```[^`]++```|`[^`\n]++`"
    r"|[“„][^“”„]++[”“]|«[^«»]++»|「[^「」]++」|『[^『』]++』"
)


def without_quotations(text: str) -> str:
    """Return a text without what it quotes, where that is four words or more.

    A character of a script without spaces is half a word. Apostrophes, inches, marks that are not
    closed and values of JSON quote nothing.

    Examples
    --------
    >>> without_quotations('Tell Tom: "The lights are out, and the door is locked."')
    'Tell Tom: "…"'
    >>> without_quotations("Play 'Hotel California', don't shuffle")
    "Play 'Hotel California', don't shuffle"
    >>> without_quotations("「明日の会議は延期になりました」とメールして")
    '「…」とメールして'
    """
    return _QUOTED.sub(_shortened, text) if _MARKS.search(text) else text


def _shortened(match: re.Match[str]) -> str:
    quoted = match[0]
    n_words = sum(0.5 if len(piece) == 1 else 1 for piece in pieces(quoted))
    mark = "```" if quoted.startswith("```") else quoted[0]
    return quoted if n_words < _LEAST_WORDS else f"{mark}…{quoted[-len(mark) :]}"
