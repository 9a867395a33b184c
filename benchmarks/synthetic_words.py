"""Words that nobody uses and anybody can pronounce: as many as a synthetic catalog needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DERIVED",
    "FUNCTION",
    "GENERIC",
    "LONG",
    "LONG_WORDS",
    "SHORT",
    "SHORT_WORDS",
    "spelled",
]

_FUNCTION = (
    "the of and to a in for with on is that by from as an or are your it can be at all this which "
    "their you will about into when our its them any has where"
)
_GENERIC = (
    "api service data users developers application access information web site platform online "
    "rest json methods provides allows returns integrate features search find show create share "
    "app best new people free"
)
FUNCTION, GENERIC = _FUNCTION.split(), _GENERIC.split()

# A syllable is consonants and a vowel, so that a word can be parted in one way only, and no two
# numbers are the same word.
_CONSONANTS = "b c d f g h j k l m n p r s t v w z br tr st ch sh pl"
_SYLLABLES = np.array(
    [onset + vowel for onset in _CONSONANTS.split() for vowel in "aeiou"], dtype=object
)
_CODAS = np.array(["", "n", "r", "l", "t", "m"], dtype=object)
_ENDINGS = np.array(["", "ing"], dtype=object)
_N = len(_SYLLABLES)

SHORT = len(FUNCTION) + len(GENERIC)
SHORT_WORDS = _N**2 * len(_CODAS)
LONG = SHORT + SHORT_WORDS
LONG_WORDS = _N**3 * len(_CODAS)
DERIVED = LONG + LONG_WORDS
"""Where the numbers of each kind of word begin; `DERIVED` is added for the derived form."""


def spelled(words: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Return the words of some numbers: short ones have two syllables, long ones three.

    Examples
    --------
    >>> spelled(np.array([0, SHORT, LONG, LONG + 1, LONG + 1 + DERIVED])).tolist()
    ['the', 'shostem', 'hestisom', 'shifiba', 'shifibaing']
    """
    found = np.empty(len(words), dtype=object)
    form, base = np.divmod(words, DERIVED)
    known = base < SHORT
    found[known] = np.array([*FUNCTION, *GENERIC], dtype=object)[base[known]]
    # Neighbours shall not look alike. The factors are primes that do not divide the counts.
    kinds = ((SHORT, SHORT_WORDS, 2, 1_299_709), (LONG, LONG_WORDS, 3, 7_368_787))
    for begin, count, n_syllables, factor in kinds:
        here = (base >= begin) & (base < begin + count)
        scrambled = (base[here] - begin + 7_919) * factor % count
        rest, coda = np.divmod(scrambled, len(_CODAS))
        text = _CODAS[coda]
        for _ in range(n_syllables):
            rest, syllable = np.divmod(rest, _N)
            text = _SYLLABLES[syllable] + text
        found[here] = text
    return np.asarray(found + _ENDINGS[form])
