"""The words of a text: of prose, of identifiers, and of scripts that write no spaces."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from operator import attrgetter
from typing import NamedTuple, TypeVar

from cnp_router.text.stop_words import STOP_WORDS, foreign_stop_words

__all__ = [
    "ANALYZERS",
    "character_grams",
    "content_words",
    "grams_of",
    "is_unspaced",
    "pieces",
    "placed_tokens",
    "placed_words",
    "singular",
    "split_identifier",
    "standing_words",
    "word_grams",
    "words",
]

T = TypeVar("T")

# A longer text says nothing new about what it is for, and would cost memory and time.
MAX_CHARACTERS = 2_000
_REMEMBERED = 2_048  # texts: those that are looked at together, and their clauses

# Thai, Lao, Myanmar, Khmer, and the characters and syllables of Chinese and Japanese.
UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u1000-\u103f\u1050-\u109f\u1780-\u17d3"
    "\u3005-\u3007\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U000323af"
)
# No letters to Python, but parts of words behind a letter: accents that no letter has as its own,
# vowel signs of Hebrew, Arabic, Indic scripts and Tibetan.
_MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f"
    "\u0670\u0900-\u0963\u0966-\u0dff\u0f71-\u0fbc"
)
_LETTER, _LETTER_OF_NAME = rf"[^\W{UNSPACED}]", rf"[^\W_{UNSPACED}]"
_TOKEN = re.compile(rf"[{UNSPACED}]+|{_LETTER}(?:{_LETTER}|[{_MARKS}])*")
_PIECE = re.compile(rf"[{UNSPACED}]|{_LETTER_OF_NAME}(?:{_LETTER_OF_NAME}|[{_MARKS}])*")
# The same of ASCII alone, several times faster.
_ASCII_TOKEN, _ASCII_PIECE = re.compile(r"\w+", re.ASCII), re.compile(r"[^\W_]+", re.ASCII)
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
_BOUNDARY = re.compile(
    r"_+|(?<=[^\W_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z]{2})(?=[0-9])"
)

# Prose is full of such names: YouTube, SoundCloud, eBay.
_BRAND = re.compile(r"(?:[A-Z][a-z]+){2}|[a-z][A-Z][a-z]+")


def split_identifier(text: str) -> str:
    """Put spaces between the words of identifiers.

    Examples
    --------
    >>> [split_identifier(name) for name in ("getWeather_v2", "HTTPServer2")]
    ['get Weather v2', 'HTTP Server 2']
    """
    return _BOUNDARY.sub(" ", text)


def _of_beginnings(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a function of the beginning of a text that remembers what it was asked last."""
    remembered = lru_cache(maxsize=_REMEMBERED)(read)
    return wraps(read)(lambda text: remembered(text[:MAX_CHARACTERS]))


@_of_beginnings
def words(text: str) -> tuple[str, ...]:
    """Return the lower-case words of a text, of any script.

    The first 2,000 characters count. An identifier is a word, and so are its parts. Where a script
    writes no spaces, each two characters that stand together are a word (Nie et al., "On the use of
    words and n-grams for Chinese information retrieval", 2000).

    Examples
    --------
    >>> words("Send SMS via Last.fm")
    ('send', 'sms', 'via', 'last', 'fm')
    >>> words("readFile, get_weather_v2")
    ('readfile', 'read', 'file', 'get_weather_v2', 'get', 'weather', 'v2')
    >>> words("天気予報 API")
    ('天気', '気予', '予報', 'api')
    """
    found: list[str] = []
    for token in _tokens(text):
        found.append(token.word)
        found += token.parts
    return tuple(found)


def standing_words(text: str) -> tuple[str, ...]:
    """Return the `words` of a text without the parts of identifiers, and without stop words."""
    return tuple(map(_word, filter(_single, _tokens(text))))


@_of_beginnings
def pieces(text: str) -> tuple[str, ...]:
    """Return what stands in a text, nothing twice: joined, the pieces of a name are the name."""
    text = _plain(text).lower()
    return tuple((_ASCII_PIECE if text.isascii() else _PIECE).findall(text))


def singular(word: str) -> str:
    """Return a word without its plural or third-person ``s``: English, harmless elsewhere.

    Harman's S-stemmer ("How effective is suffixing?", 1991).
    """
    if len(word) > 3 and word.endswith("s"):
        if word.endswith("ies") and word[-4] not in "ae":
            return word[:-3] + "y"
        if word.endswith("es") and word[-3] not in "aeo":
            return word[:-1]
        if word[-2] not in "us":
            return word[:-1]
    return word


def content_words(text: str) -> Iterator[str]:
    """Yield the words of a text without their plural, and without stop words."""
    return iter(_content_words(text))


@_of_beginnings
def _content_words(text: str) -> tuple[str, ...]:
    tokens = _tokens(text)
    if not any(map(_parts, tokens)):
        return tuple(filter(None, map(_single, tokens)))
    every = itertools.chain.from_iterable(
        (token.single, *map(_content_word, token.parts)) for token in tokens
    )
    return tuple(filter(None, every))


def placed_words(text: str) -> list[tuple[str, int, int]]:
    """Return the `content_words` of a text, and where each begins and ends.

    Without the parts of identifiers.

    Examples
    --------
    >>> placed_words("Photos on maps")
    [('photo', 0, 6), ('map', 10, 14)]
    >>> placed_words("雨の地図")
    [('雨の', 0, 2), ('の地', 1, 3), ('地図', 2, 4)]
    """
    placed = placed_tokens(text[:MAX_CHARACTERS])
    foreign = foreign_stop_words(token for token, _, _ in placed)
    telling = (own for own in placed if own[0] not in foreign)
    return [(word, i, j) for token, i, j in telling if (word := _content_word(token))]


def placed_tokens(text: str) -> list[tuple[str, int, int]]:
    """Return all words of a text in lower case, and where each begins and ends.

    Examples
    --------
    >>> placed_tokens("Photos on maps")
    [('photos', 0, 6), ('on', 7, 9), ('maps', 10, 14)]
    """
    plain = text.lower() if text.isascii() else "".join(map(_same_length, text))
    spans = [match.span() for match in _TOKEN.finditer(plain)]
    if not text.isascii():
        spans = [span for each in spans for span in _pairs(plain, *each)]
    return [(plain[start:end], start, end) for start, end in spans]


def _pairs(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return where each two characters of a token are, if its script writes no spaces."""
    if not is_unspaced(text[start]) or end - start < 2:
        return [(start, end)]
    return [(i, i + 2) for i in range(start, end - 1)]


@lru_cache(maxsize=50_000)
def _content_word(token: str) -> str:
    """Return a word without its plural; nothing of a stop word."""
    return "" if token in STOP_WORDS else singular(token.strip("_"))


def is_unspaced(character: str) -> bool:
    """Return whether it is of a script that writes no spaces."""
    return _IS_UNSPACED.match(character) is not None


@lru_cache(maxsize=10_000)
def _same_length(character: str) -> str:
    """Return a character as words have it, if that is one character."""
    plain = unicodedata.normalize("NFKC", character).lower()
    return plain if len(plain) == 1 else character


def word_grams(text: str) -> Iterator[str]:
    """Return the words of a text without their plural, and each two that then stand together.

    Stop words are left out.

    The parts of a brand count together only: "sound" and "cloud" say little of SoundCloud.

    Examples
    --------
    >>> list(word_grams("photos on maps"))
    ['photo', 'map', 'photo map']
    >>> list(word_grams("readFile"))
    ['readfile', 'read', 'file', 'read file']
    >>> list(word_grams("YouTube"))
    ['youtube', 'you tube']
    """
    tokens = _tokens(text)
    terms = list(filter(None, map(_single, tokens)))
    phrases = [terms[:]]
    for token in filter(_parts, tokens):
        if token.single:
            phrases.append([singular(part) for part in token.parts])
            if not token.is_brand:
                terms += phrases[-1]
    for phrase in phrases:
        terms += map(" ".join, itertools.pairwise(phrase))
    return iter(terms)


def character_grams(text: str) -> Iterator[str]:
    """Yield the runs of 3 to 5 characters inside each word, its ends marked by blanks.

    Stop words are left out.
    """
    return itertools.chain.from_iterable(map(grams_of, standing_words(text)))


def grams_of(word: str) -> tuple[str, ...]:
    """Return the `character_grams` of one word."""
    padded = f" {word} "
    return tuple([padded[i : i + n] for n in (3, 4, 5) for i in range(len(padded) - n + 1)])


ANALYZERS: dict[str, Callable[[str], Iterator[str]]] = {
    "word": word_grams,
    "content": content_words,
    "character": character_grams,
}


class _Token(NamedTuple):
    word: str
    single: str  # without its plural; nothing of a stop word
    parts: tuple[str, ...] = ()
    is_brand: bool = False


# Faster than an expression.
_word, _single, _parts = attrgetter("word"), attrgetter("single"), attrgetter("parts")


@_of_beginnings
def _tokens(text: str) -> tuple[_Token, ...]:
    text = _plain(text)
    found = (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)
    tokens = tuple(itertools.chain.from_iterable(map(_token, found)))
    foreign = foreign_stop_words(map(_word, tokens))
    if not foreign:
        return tokens
    return tuple(token._replace(single="") if token.word in foreign else token for token in tokens)


def _plain(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


@lru_cache(maxsize=100_000)
def _token(found: str) -> tuple[_Token, ...]:
    if found.isalpha() and found.islower():
        return (_plain_token(found),)
    if _IS_UNSPACED.match(found):
        pairs = [a + b for a, b in itertools.pairwise(found)] or [found]
        return tuple(map(_plain_token, pairs))
    whole = found.strip("_")
    parts = tuple(part.lower() for part in _BOUNDARY.split(whole) if part)
    if len(parts) < 2:
        return (_plain_token(whole.lower()),) if whole else ()
    word, is_brand = whole.lower(), _BRAND.fullmatch(whole) is not None
    return (_Token(word, _content_word(word), parts, is_brand),)


def _plain_token(word: str) -> _Token:
    return _Token(word, _content_word(word))
