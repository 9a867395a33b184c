"""Texts that no API of a usual catalog serves: what a router should know to be out of scope."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

from cnp_router.catalog import Catalog
from cnp_router.files import read_jsonl
from cnp_router.records import Record, check_text, one_line, string_tuple

__all__ = ["OutOfScope", "read_out_of_scope", "served_by_none"]


@dataclass(frozen=True, slots=True)
class OutOfScope:
    """A text that nothing serves, unless the catalog has an API that says one of some words.

    Parameters
    ----------
    text : str
    kind : str
        ``"noise"``, ``"chit-chat"``, ``"arithmetic"`` or ``"general knowledge"``.
    length : str
        ``"short"``, a few words, or ``"long"``, a sentence or several.
    language : str
        Its ISO 639-1 code.
    served_by : tuple of str, default=()
        Words and phrases. Where the name, description or a category of an API says one of them,
        that API may serve the text.

    Examples
    --------
    >>> OutOfScope("9 x 8 = ?", "arithmetic", "short", "en", ("calculator",)).served_by
    ('calculator',)
    """

    text: str
    kind: str
    length: str
    language: str
    served_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("text", "kind", "length", "language"):
            check_text(name, getattr(self, name))
        object.__setattr__(self, "served_by", string_tuple("served_by", self.served_by))

    __repr__ = one_line


def read_out_of_scope(path: str | Path) -> tuple[OutOfScope, ...]:
    """Read such texts from JSON Lines: one object a line, with the fields of `OutOfScope`.

    Raises
    ------
    DataFileError
        With the line number and the cure.
    """
    return tuple(Record(fields, path, line).make(OutOfScope) for line, fields in read_jsonl(path))


def served_by_none(texts: Iterable[OutOfScope], catalog: Catalog) -> tuple[OutOfScope, ...]:
    """Return those of some texts that no API of a catalog may serve.

    Examples
    --------
    >>> from cnp_router.catalog import Api
    >>> sum_ = OutOfScope("9 x 8 = ?", "arithmetic", "short", "en", ("calculator",))
    >>> len(served_by_none([sum_], Catalog([Api("maps", "Maps")])))
    1
    >>> served_by_none([sum_], Catalog([Api("math", "Calculators for schools")]))
    ()
    """
    said = [part for api in catalog for part in (api.name, api.description, *api.categories)]
    spelt = [unicodedata.normalize("NFKC", part).lower() for part in said]
    starts = list(accumulate((len(part) + 1 for part in spelt), initial=0))
    everything = "\n".join(spelt)

    @cache
    def is_said(words: str) -> bool:
        """Return whether a part says some words: only those are read that may."""
        phrase = _phrase(words)
        stem = max(map(_stem, phrase.split()), key=len, default="")
        at = everything.find(stem)
        while at >= 0 and (place := bisect_right(starts, at) - 1) < len(said):
            if phrase in _phrase(said[place]):
                return True
            at = everything.find(stem, starts[place + 1])
        return False

    return tuple(text for text in texts if not any(map(is_said, text.served_by)))


def _stem(word: str) -> str:
    """Return what a word and its plural begin with: toy and toys, stor of story and stories."""
    return word[:-1] if word.endswith("y") and word[-2:-1] not in "aeiou" else word


def _phrase(text: str) -> str:
    """Return the words of a text, without their plural, between blanks."""
    from cnp_router.text import singular, words

    return f" {' '.join(map(singular, words(text)))} "
