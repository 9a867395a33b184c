"""Boilerplate: what requests have in common word for word, whatever they ask for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from cnp_router.text.term_counts import evenly
from cnp_router.text.tokenise import placed_tokens

__all__ = ["Boilerplate"]

_RUN = 5  # words
_NEAR = 8  # words
_LEAST_SHARE = 0.8
_LEAST_THERE = 0.5  # of the runs, where it is there at all
_LEAST_APIS = 5  # fewer may have anything in common
_SAMPLED = 500  # requests
_READ = 20_000  # characters of a request
_BETWEEN = " \t\r\n.,:;!?\u3002\u3001\uff1a\uff01\uff1f"
_NAMES = ("after", "before", "runs")


@dataclass(frozen=True)
class Boilerplate:
    """Runs of words that are in most requests for any API, such as those of a system prompt.

    They say nothing of what is asked, and make all requests alike: who logs prompts logs them, too.
    A run of words is a shingle (Broder, "On the resemblance and containment of documents", 1997).

    Parameters
    ----------
    runs : frozenset of str
        Five words each.
    after, before : frozenset of str
        Words near the end of such a run, or its beginning, and how far off: between them is what
        differs, such as the name of a user.

    Examples
    --------
    >>> prompt = "You are the assistant of a harbour. It is {}day. User: "
    >>> asked = zip(["Mon", "Tues", "Sun", "Fri", "Sun"], ["rain", "jazz", "tea", "loans", "taxis"])
    >>> texts = [prompt.format(day) + wish for day, wish in asked]
    >>> common = Boilerplate.of(texts, [["met"], ["bank"], ["radio"], ["shop"], ["taxi"]])
    >>> common.without("You are the assistant of a harbour. It is Sunday. User: And tomorrow?")
    'And tomorrow?'
    """

    runs: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()

    @classmethod
    def of(cls, texts: Sequence[str], used: Sequence[Collection[str]]) -> Boilerplate:
        """Return that of past requests: what four fifths have, of those for an API on average.

        `used` says which APIs each has used. Of many requests, some are looked at, from all over;
        where they used fewer than five APIs, there is none.
        """
        rows = evenly(len(texts), _SAMPLED)
        apis = [frozenset(used[row]) for row in rows]
        times = Counter(chain.from_iterable(apis))
        if len(times) < _LEAST_APIS:
            return cls()
        weights = [sum(1 / times[api] for api in own) / len(times) for own in apis]
        said = [_words(texts[row]) for row in rows]
        runs = _common([set(_runs(words)) for words in said], weights)
        if not runs:
            return cls()
        covered = [_covered(words, runs) for words in said]
        after = [set(_near(*pair)) for pair in zip(said, covered, strict=True)]
        before = [set(_near(w[::-1], c[::-1])) for w, c in zip(said, covered, strict=True)]
        return cls(runs, _common(after, weights), _common(before, weights))

    def without(self, text: str) -> str:
        """Return a text without it; one that has less than half of it, or only it, is returned."""
        if not self.runs:
            return text
        placed = placed_tokens(text[:_READ])
        words = [word for word, *_ in placed]
        if len(self.runs.intersection(_runs(words))) < _LEAST_THERE * len(self.runs):
            return text
        covered = _covered(words, self.runs)
        goes = _spread(words, covered, self.after)
        back = _spread(words[::-1], covered[::-1], self.before)[::-1]
        gone = [a or b for a, b in zip(goes, back, strict=True)]
        if all(gone) and len(text) <= _READ:
            return text
        left, end, is_within = [], 0, False
        for (_, begin, behind), is_gone in zip(placed, gone, strict=True):
            if is_gone:
                if not is_within:
                    left.append(text[end:begin])
                end = behind
            is_within = is_gone
        rest = (part.lstrip(_BETWEEN) for part in [*left[1:], text[end:]])
        return " ".join(filter(None, [left[0].strip(), *rest])).strip()

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
    return [word for word, *_ in placed_tokens(text[:_READ])]


def _runs(words: Sequence[str]) -> Iterator[str]:
    return (" ".join(words[i : i + _RUN]) for i in range(len(words) - _RUN + 1))


def _common(found: Sequence[set[str]], weights: Sequence[float]) -> frozenset[str]:
    """Return what most texts have, by their weights."""
    share: defaultdict[str, float] = defaultdict(float)
    for own, weight in zip(found, weights, strict=True):
        for each in own:
            share[each] += weight
    return frozenset(each for each, total in share.items() if total >= _LEAST_SHARE)


def _covered(words: Sequence[str], runs: frozenset[str]) -> list[bool]:
    """Return which words are part of a run."""
    covered = [False] * len(words)
    for place, run in enumerate(_runs(words)):
        if run in runs:
            covered[place : place + _RUN] = [True] * _RUN
    return covered


def _near(words: Sequence[str], covered: Sequence[bool]) -> Iterator[str]:
    """Yield the words behind each end of what is covered, with its last word and how far off."""
    for end in _ends(covered):
        for offset, word in enumerate(words[end + 1 : end + 1 + _NEAR]):
            yield f"{words[end]} {offset} {word}"


def _ends(covered: Sequence[bool]) -> Iterator[int]:
    return (i for i in range(len(covered) - 1) if covered[i] and not covered[i + 1])


def _spread(words: Sequence[str], covered: Sequence[bool], near: frozenset[str]) -> list[bool]:
    """Return which words are covered, or between an end of that and a word that belongs near it."""
    spread = list(covered)
    for end in _ends(covered):
        own = words[end + 1 : end + 1 + _NEAR]
        known = [i for i, word in enumerate(own) if f"{words[end]} {i} {word}" in near]
        spread[end + 1 : end + 2 + max(known, default=-1)] = [True] * (max(known, default=-1) + 1)
    return spread
