"""Boilerplate: what requests have in common word for word, whatever they ask for."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any
from unicodedata import normalize

from cnp_router.text.term_counts import evenly
from cnp_router.text.tokenise import placed_tokens

__all__ = ["Boilerplate"]

_RUN, _BLOCK = 5, 6  # words: of a run, and at least of those that follow each other
_NEAR = 12  # words
_SAMPLED = 500  # requests
_READ = 20_000  # characters of a request
_LEAST_APIS = 5  # fewer may have anything in common
_MANY_APIS = 20  # have no word in common because of what they do
_MOST = 0.8  # of requests, or APIs: nearly all
_LEAST_SHARE, _LEAST_TEXTS = 0.15, 10  # of several prompts
_MOST_ERRORS = 4.0  # standard errors
_MOST_ALIKE, _LEAST_PAIRS = 1.5, 20  # times as alike as any two, of so many pairs
# What may stand between it and what is asked: before that, and behind.
_CLOSING, _OPENING = " \t\r\n.,:;!?\"'=>|}])\u3002\u3001\uff1a\uff01\uff1f", " \t\r\n,:;\"'=<|{[("
_NAMES = ("after", "before", "runs")


@dataclass(frozen=True)
class Boilerplate:
    """Runs of words that are in many requests whatever they ask for, such as a system prompt.

    They say nothing of what is asked, and make requests alike: who logs prompts logs them, too. A
    run of words is a shingle (Broder, "On the resemblance and containment of documents", 1997).

    Parameters
    ----------
    runs : frozenset of str
        Five words each.
    after, before : frozenset of str
        Words near the end of such runs, or their beginning, and how far off: between them is what
        differs, such as the name of a user. Near no word: near the beginning of the request, or its
        end.

    Examples
    --------
    >>> prompt = "You are the assistant of a harbour. It is {} hours. User: "
    >>> wishes = enumerate(["rain", "jazz", "tea", "a loan", "soup"])
    >>> texts = [prompt.format(hour) + wish for hour, wish in wishes]
    >>> common = Boilerplate.of(texts, [["sky"], ["radio"], ["shop"], ["bank"], ["bar"]], 5)
    >>> common.without("You are the assistant of a harbour. It is 9 hours. User: And tomorrow?")
    'And tomorrow?'
    """

    runs: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.runs) + len(self.after) + len(self.before)

    @classmethod
    def of(cls, texts: Sequence[str], used: Sequence[Collection[str]], n_apis: int) -> Boilerplate:
        """Return that of past requests; `used` says which of `n_apis` APIs each has used.

        A run is in at least .15 of them, and in ten, or in .8, of those for an API on average. It
        is with nearly as many APIs as if it were in requests at random, and with none of them more
        often than by chance. Of many requests, some are looked at, from all over; where they used
        fewer than five APIs, there is none, and nothing alone at the beginning or the end where
        they used fewer than twenty, and than four fifths of all: send may be what all of these do.
        """
        rows = evenly(len(texts), _SAMPLED)
        apis = _Apis([frozenset(used[row]) for row in rows])
        if len(apis.times) < _LEAST_APIS:
            return cls()
        said = [_words(texts[row]) for row in rows]
        places = _places(map(_runs, said))
        says_nothing = {own: apis.are_as_any(own) for own in set(places.values())}
        times = Counter(part for words in said for part in set(_runs(words, _RUN - 1)))
        runs = frozenset(
            run
            for run, own in places.items()
            if says_nothing[own] and all(len(own) >= _MOST * times[part] for part in _parts_of(run))
        )
        covered = [_covered(words, runs) for words in said]
        ends = [words[::-1] for words in said], [each[::-1] for each in covered]
        after, before = _standing(apis, said, covered), _standing(apis, *ends)
        if len(apis.times) < min(_MANY_APIS, _MOST * n_apis):
            after, before = (frozenset(p for p in own if p[0] != " ") for own in (after, before))
        return cls(runs, after, before)

    def without(self, text: str) -> str:
        """Return a text without it, in Unicode's normal form C; one of nothing else stays whole."""
        text = normalize("NFC", text)
        if not len(self):
            return text
        placed = placed_tokens(text[:_READ])
        words = [word for word, *_ in placed]
        covered = _covered(words, self.runs)
        goes = _spread(words, covered, self.after)
        back = _spread(words[::-1], covered[::-1], self.before)[::-1]
        gone = [a or b for a, b in zip(goes, back, strict=True)]
        if not any(gone) or (all(gone) and len(text) <= _READ):
            return text
        cuts = [(placed[start][1], placed[stop - 1][2]) for start, stop in _stretches(gone)]
        begins, ends = [0, *(end for _, end in cuts)], [*(begin for begin, _ in cuts), len(text)]
        first, *others = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
        left = [first, *(part.lstrip(_CLOSING) for part in others)]
        left[:-1] = [part.rstrip(_OPENING) for part in left[:-1]]
        return " ".join(filter(None, left)).strip()

    def state(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {name: sorted(getattr(self, name)) for name in _NAMES}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Boilerplate:
        """Rebuild it; raises TypeError or ValueError if it was none."""
        if set(state) != set(_NAMES):
            raise ValueError(f"boilerplate of {sorted(state)}, not {sorted(_NAMES)}")
        for texts in state.values():
            if not set(map(type, texts)) <= {str}:
                raise ValueError("expected runs of words")
        return cls(**{name: frozenset(texts) for name, texts in state.items()})


def _words(text: str) -> list[str]:
    return [word for word, *_ in placed_tokens(normalize("NFC", text)[:_READ])]


def _runs(words: Sequence[str], size: int = _RUN) -> Iterator[str]:
    return (" ".join(words[i : i + size]) for i in range(len(words) - size + 1))


def _parts_of(run: str) -> tuple[str, str]:
    """Return a run without its last word, and without its first: where requests begin, many do."""
    return run.rpartition(" ")[0], run.partition(" ")[2]


class _Apis:
    """Which APIs some requests used."""

    def __init__(self, used: Sequence[frozenset[str]]) -> None:
        self._used = used
        self.times = Counter(chain.from_iterable(used))
        self._weights = [sum(1 / self.times[api] for api in own) for own in used]

    def are_as_any(self, rows: tuple[int, ...]) -> bool:
        """Return whether some of the requests use what any others do: many of them, any API."""
        n_apis, n = len(self.times), len(self._used)
        share = sum(self._weights[row] for row in rows) / n_apis
        if share < _LEAST_SHARE or (len(rows) < _LEAST_TEXTS and share < _MOST):
            return False
        there = Counter(chain.from_iterable(self._used[row] for row in rows))
        p = len(rows) / n
        expected = sum(1 - (1 - p) ** times for times in self.times.values())
        if len(there) < _MOST * expected:
            return False
        error = math.sqrt(p * (1 - p))
        return all(
            count - p * self.times[api] <= _MOST_ERRORS * error * math.sqrt(self.times[api])
            for api, count in there.items()
        )

    def are_told(self, words: Mapping[int, str]) -> bool:
        """Return whether a word of each of some requests, by row, may tell what it uses.

        It does not if requests with the same word use the same APIs hardly more often than any two.
        Of few that have the same word nobody knows, but for numbers.
        """
        by_word: defaultdict[str, list[int]] = defaultdict(list)
        for row, word in words.items():
            by_word[word].append(row)
        if all(any(map(str.isdigit, word)) for word in by_word):
            return False
        pairs = sum(len(rows) * (len(rows) - 1) for rows in by_word.values())
        all_alike = self._alike(words)
        if pairs < _LEAST_PAIRS or not all_alike:
            return True
        alike = sum(map(self._alike, by_word.values())) / pairs
        return alike > _MOST_ALIKE * all_alike / (len(words) * (len(words) - 1))

    def _alike(self, rows: Iterable[int]) -> int:
        """Return how often one of some requests uses an API that another one uses, too."""
        times = Counter(chain.from_iterable(self._used[row] for row in rows))
        return sum(n * (n - 1) for n in times.values())


def _places(texts: Iterable[Iterable[str]]) -> dict[str, tuple[int, ...]]:
    """Return in which texts each thing is that is in several."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for place, things in enumerate(texts):
        for each in set(things):
            found[each].append(place)
    return {each: tuple(own) for each, own in found.items() if len(own) > 1}


def _covered(words: Sequence[str], runs: frozenset[str]) -> list[bool]:
    """Return which words are part of runs, several of which follow each other."""
    covered = [False] * len(words)
    for place, run in enumerate(_runs(words)):
        if run in runs:
            covered[place : place + _RUN] = [True] * _RUN
    for start, stop in _stretches(covered):
        if stop - start < _BLOCK:
            covered[start:stop] = [False] * (stop - start)
    return covered


def _stretches(chosen: Sequence[bool]) -> list[tuple[int, int]]:
    """Return begin and end of each stretch of what is chosen."""
    changes = [i for i, (a, b) in enumerate(pairwise([False, *chosen, False])) if a != b]
    return list(zip(changes[::2], changes[1::2], strict=True))


def _standing(
    apis: _Apis, texts: Sequence[Sequence[str]], covered: Sequence[Sequence[bool]]
) -> frozenset[str]:
    """Return the words that nearly always stand as far behind an end of what is covered.

    Between them and it is nothing that may tell what is used.
    """
    behind: defaultdict[str, dict[int, Sequence[str]]] = defaultdict(dict)
    for row, (words, own) in enumerate(zip(texts, covered, strict=True)):
        for _, last, next_words in _ends(words, own):
            behind[last][row] = next_words
    standing = set()
    for last, near in behind.items():
        for offset in range(_NEAR):
            there = {row: own[offset] for row, own in near.items() if offset < len(own)}
            if not there:
                break
            [(word, n)] = Counter(there.values()).most_common(1)
            rows = tuple(row for row, own in there.items() if own == word)
            if n >= _MOST * len(near) and apis.are_as_any(rows):
                standing.add(f"{last} {offset} {word}")
            elif apis.are_told(there):
                break
    return frozenset(standing)


def _ends(
    words: Sequence[str], covered: Sequence[bool]
) -> Iterator[tuple[int, str, Sequence[str]]]:
    """Yield where what is covered ends: the place behind it, its last word, and the next words.

    The beginning of a text is such an end, too, of no word.
    """
    for place, (before, own) in enumerate(pairwise([True, *covered])):
        if before and not own:
            yield place, words[place - 1] if place else "", words[place : place + _NEAR]


def _spread(words: Sequence[str], covered: Sequence[bool], near: frozenset[str]) -> list[bool]:
    """Return which words are covered, or between an end of that and a word that belongs near it."""
    spread = list(covered)
    for place, last, next_words in _ends(words, covered):
        for offset, word in enumerate(next_words):
            if f"{last} {offset} {word}" in near:
                spread[place : place + offset + 1] = [True] * (offset + 1)
    return spread
