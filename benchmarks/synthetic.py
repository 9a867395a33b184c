"""Synthetic catalogs and histories of any size: drawn by a seed, in chunks, to read or to write.

What a request says and what a specification says have little in common but what follows from the
APIs that are needed:

- Use follows Zipf's law; a third of the APIs are never used. Half of them appear over the years.
- An API belongs to a topic or two. It has concepts of theirs, rare words of its own, and a name;
  fixed partners are used together with it.
- Many concepts and rare words have a synonym (or a derived form) that requests prefer and
  specifications avoid.
- A request uses one to four APIs: by use, as partners, by topic. It says some concepts of each,
  at times a rare word or the name, and topic words, words of other topics, noise, function words.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.synthetic_words import (
    DERIVED,
    FUNCTION,
    LONG,
    SHORT,
    spelled,
)
from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup

__all__ = ["Kind", "Synthetic"]

Kind = Literal["history", "tuning", "random", "later"]
"""Past requests, others of the same years (to choose thresholds; to ask), and those after them."""

_KINDS: dict[Kind, tuple[int, str]] = {
    "history": (2, "m"),
    "tuning": (3, "t"),
    "random": (4, "r"),
    "later": (5, "l"),
}
_CHUNK = 10_000
_FIRST_DAY = datetime.date(2016, 1, 1)
_DAYS = 2_922  # eight years
_LATER = 90  # and so many days after them

_APIS_OF_TOPIC = 40
_MOST_TOPICS = 5_000
_MOST_CATEGORIES = 400
_CONCEPTS_OF_TOPIC, _SHARED = 60, 15  # the last ones are those of other topics, too
_CONCEPTS, _OF_SECOND, _RARE, _PARTNERS = 8, 2, 4, 3
_NOISE = 5_000

_NEVER_USED = 0.35
_ALWAYS_THERE = 0.5
_N_APIS = (0.42, 0.31, 0.17, 0.10)  # of requests that use one, two, three, four
_PARTNER, _SAME_TOPIC = 0.5, 0.3  # how the further APIs come in; else by use alone
_SYNONYM, _DERIVED = 0.35, 0.3  # shares of concepts and rare words with another form
_ASKED, _SPECIFIED = 0.7, 0.1  # how often that form is said
_UNSAID = 0.25  # share of needed APIs of which a request says no word of their own

_Ints = NDArray[np.int64]


class Synthetic:
    """A catalog, a history and held-out requests. Each item is made when it is asked for.

    Parameters
    ----------
    n_apis : int
    n_mashups : int
    seed : int, default=0
    length : float, default=1.0
        How long the texts are: 1 is about 40 words a specification and 20 a request.

    Examples
    --------
    >>> world = Synthetic(50, 200)
    >>> catalog, history = world.catalog(), world.history()
    >>> len(catalog), len(history), all(m.apis[0] in catalog for m in history)
    (50, 200, True)
    >>> max(m.date for m in history) < world.held_out("later", 1)[0].date
    True
    """

    def __init__(self, n_apis: int, n_mashups: int, *, seed: int = 0, length: float = 1.0) -> None:
        self.n_apis = n_apis
        self.n_mashups = n_mashups
        self.seed = seed
        self.length = length
        rng = self._rng(0, 0)
        self._n_topics = int(np.clip(n_apis // _APIS_OF_TOPIC, 6, _MOST_TOPICS))
        n_concepts = self._n_topics * (_CONCEPTS_OF_TOPIC - _SHARED)
        n_rare = 2 * max(n_apis, 500)
        # The numbers of the words of each kind; behind concepts and rare words their synonyms.
        self._first_rare = LONG + 2 * n_concepts
        self._n_concepts, self._n_rare = n_concepts, n_rare
        self._first_brand = self._first_rare + 2 * n_rare

        own = np.arange(n_concepts).reshape(self._n_topics, -1)
        shared = rng.integers(n_concepts, size=(self._n_topics, _SHARED))
        mixed = rng.permuted(np.hstack([own, shared]), axis=1)
        self._concepts_of_topic = mixed.astype(np.int32)
        topics = _zipf_places(rng, (n_apis, 2), self._n_topics, 10.0)
        one_topic = rng.random(n_apis) < 0.6
        topics[one_topic, 1] = topics[one_topic, 0]
        self._topics = topics
        places = _zipf_places(rng, (n_apis, _CONCEPTS), _CONCEPTS_OF_TOPIC, 8.0)
        of_topic = np.repeat(topics, [_CONCEPTS - _OF_SECOND, _OF_SECOND], axis=1)
        self._concepts = self._concepts_of_topic[of_topic, places]
        self._rare = rng.integers(n_rare, size=(n_apis, _RARE), dtype=np.int32)

        weights = 1 / (rng.permutation(n_apis) + 8.0) ** 1.05
        never = rng.random(n_apis) < _NEVER_USED
        never[np.argmax(weights)] = False
        weights[never] = 0.0
        self._by_use = np.cumsum(weights)
        self._born = rng.integers(_DAYS + _LATER, size=n_apis)
        self._born[rng.random(n_apis) < _ALWAYS_THERE] = 0
        self._born[np.argmax(weights)] = 0
        self._most_used = int(np.argmax(weights))
        self._in_topic = np.argsort(topics[:, 0], kind="stable")
        self._by_topic = np.concatenate([[0.0], np.cumsum(weights[self._in_topic])])
        ends = np.searchsorted(topics[self._in_topic, 0], np.arange(self._n_topics + 1))
        self._topic_ends = ends
        partners = self._drawn_by_use(rng, (n_apis, _PARTNERS))
        near = rng.random((n_apis, _PARTNERS)) < 0.6
        same = self._drawn_of_topic(rng, np.repeat(topics[:, :1], _PARTNERS, axis=1))
        self._partners = np.where(near, same, partners).astype(np.int32)

    @cached_property
    def api_ids(self) -> list[str]:
        """The ids, which are their names."""
        numbers = np.arange(self._first_brand, self._first_brand + self.n_apis)
        return cast(list[str], spelled(numbers).tolist())

    def catalog(self) -> Catalog:
        """Return all APIs."""
        return Catalog(Api(**record) for record in self.api_records())

    def history(self) -> History:
        """Return all past mashups."""
        return _history(self.records("history", self.n_mashups))

    def held_out(self, kind: Kind, n: int) -> History:
        """Return so many mashups that are not in the history."""
        return _history(self.records(kind, n))

    def api_records(self) -> Iterator[dict[str, Any]]:
        """Yield the APIs, as objects of their JSON Lines."""
        for chunk, begin in enumerate(range(0, self.n_apis, _CHUNK)):
            apis = np.arange(begin, min(begin + _CHUNK, self.n_apis))
            texts = self._specifications(self._rng(1, chunk), apis)
            names = self._category_names[self._topics[apis] % len(self._category_names)]
            for api, text, categories in zip(apis.tolist(), texts, names.tolist(), strict=True):
                name = self.api_ids[api]
                yield {
                    "id": name,
                    "name": name.capitalize(),
                    "description": text,
                    "categories": list(dict.fromkeys(categories)),
                }

    def records(self, kind: Kind, n: int) -> Iterator[dict[str, Any]]:
        """Yield so many mashups, oldest first, as objects of their JSON Lines."""
        stream, letter = _KINDS[kind]
        ids, categories = self.api_ids, self._category_names
        for chunk, begin in enumerate(range(0, n, _CHUNK)):
            rng = self._rng(stream, chunk)
            size = min(_CHUNK, n - begin)
            share = (np.arange(begin, begin + size) + rng.random(size)) / n
            day = (_DAYS + share * _LATER if kind == "later" else share * _DAYS).astype(np.int64)
            used = self._used(rng, day)
            texts = self._requests(rng, used)
            topics = self._topics[used[:, 0], 0] % len(categories)
            for i, (row, text) in enumerate(zip(used.tolist(), texts, strict=True)):
                yield {
                    "id": f"{letter}{begin + i}",
                    "description": text,
                    "apis": [ids[api] for api in row if api >= 0],
                    "categories": [categories[topics[i]]],
                    "date": (_FIRST_DAY + datetime.timedelta(days=int(day[i]))).isoformat(),
                }

    def write(
        self, folder: Path, *, shards: int = 1, compressed: bool = False, asked: int = 500
    ) -> list[Path]:
        """Write a folder as the benchmarks read it, and return the files of the history.

        With several shards, those are ``mashups-train-00000.jsonl`` and so on, oldest first;
        compressed, they are ``.jsonl.gz``.
        """
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "apis.jsonl", self.api_records())
        held: tuple[Kind, ...] = ("random", "later")
        for kind in held:
            _write(folder / f"mashups-dev-{kind}.jsonl", self.records(kind, asked))
        ending = ".jsonl.gz" if compressed else ".jsonl"
        names = [f"mashups-train-{i:05}{ending}" for i in range(shards)]
        files = [folder / name for name in (names if shards > 1 else [f"mashups-train{ending}"])]
        records = self.records("history", self.n_mashups)
        ends = np.linspace(0, self.n_mashups, shards + 1).astype(int)
        for file, count in zip(files, np.diff(ends).tolist(), strict=True):
            _write(file, (next(records) for _ in range(count)))
        return files

    def __repr__(self) -> str:
        return f"Synthetic({self.n_apis}, {self.n_mashups}, seed={self.seed}, length={self.length})"

    def _rng(self, stream: int, chunk: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, stream, chunk])

    @cached_property
    def _category_names(self) -> NDArray[Any]:
        n = min(self._n_topics, _MOST_CATEGORIES)
        numbers = LONG + self._concepts_of_topic[:n, 0].astype(np.int64)
        names = [word.capitalize() for word in spelled(numbers)]
        # A concept may be the first of two topics.
        return np.array([f"{name} {i}" for i, name in enumerate(names)], dtype=object)

    def _drawn_by_use(self, rng: np.random.Generator, shape: tuple[int, ...]) -> _Ints:
        drawn = rng.random(shape) * self._by_use[-1]
        found = np.searchsorted(self._by_use, drawn, side="right")
        return np.asarray(np.minimum(found, self.n_apis - 1))

    def _drawn_of_topic(self, rng: np.random.Generator, topics: _Ints) -> _Ints:
        low = self._by_topic[self._topic_ends[topics]]
        high = self._by_topic[self._topic_ends[topics + 1]]
        drawn = low + rng.random(topics.shape) * (high - low)
        place = np.searchsorted(self._by_topic, drawn, side="right") - 1
        found = self._in_topic[place.clip(0, self.n_apis - 1)]
        return np.where(high > low, found, self._most_used)

    def _used(self, rng: np.random.Generator, day: _Ints) -> _Ints:
        """Return the APIs of each mashup, shape (n, 4), the first before the others; -1 is none."""
        n = len(day)
        first = self._drawn_by_use(rng, (n,))
        for _ in range(8):
            unborn = self._born[first] > day
            first[unborn] = self._drawn_by_use(rng, (int(unborn.sum()),))
        first[self._born[first] > day] = self._most_used
        used = np.full((n, len(_N_APIS)), -1, dtype=np.int64)
        used[:, 0] = first
        wanted = rng.choice(len(_N_APIS), n, p=_N_APIS) + 1
        topics = self._topics[first, rng.integers(2, size=n)]
        rows = np.arange(n)
        for place in range(1, len(_N_APIS)):
            how = rng.random(n)
            which = rng.choice(_PARTNERS, n, p=(0.55, 0.3, 0.15))
            partner = self._partners[first, which].astype(np.int64)
            same = self._drawn_of_topic(rng, topics)
            other = self._drawn_by_use(rng, (n,))
            further = np.where(how < _PARTNER, partner, other)
            further = np.where((how >= _PARTNER) & (how < _PARTNER + _SAME_TOPIC), same, further)
            fits = (wanted > place) & (self._born[further] <= day)
            fits &= (used != further[:, None]).all(axis=1)
            used[rows[fits], place] = further[fits]
        return used

    def _requests(self, rng: np.random.Generator, used: _Ints) -> list[str]:
        n, slots = used.shape
        said: list[_Ints] = []
        topics = self._topics[used[:, 0], 0]
        for slot in range(slots):
            there = (used[:, slot] >= 0) & (rng.random(n) >= _UNSAID)
            apis = used[:, slot].clip(min=0)
            n_concepts = self._n(2)
            which = (_CONCEPTS * rng.random((n, n_concepts)) ** 1.5).astype(np.int64)
            concepts = self._concepts[apis[:, None], which].astype(np.int64)
            rare = self._rare[apis[:, None], rng.integers(_RARE, size=(n, 2))].astype(np.int64)
            rare = _sometimes(rng, rare, (0.3, 0.1))
            brand = _sometimes(rng, (self._first_brand + apis)[:, None], (0.04,))
            words = np.hstack(
                [self._concept_words(rng, concepts, _ASKED), self._rare_words(rng, rare, _ASKED)]
            )
            said += [np.where(there[:, None], np.hstack([words, brand]), -1)]
        places = _zipf_places(rng, (n, self._n(3)), _CONCEPTS_OF_TOPIC, 6.0)
        topical = self._concepts_of_topic[topics[:, None], places].astype(np.int64)
        stray = _sometimes(rng, rng.integers(self._n_concepts, size=(n, 2)), (0.6,))
        said += [
            self._concept_words(rng, topical, _ASKED),
            self._concept_words(rng, stray, _ASKED),
            _noise(rng, (n, self._n(4))),
            rng.integers(len(FUNCTION), size=(n, self._n(6))),
            _sometimes(rng, _common(rng, (n, self._n(3))), (0.6,)),
        ]
        return _texts(rng, np.hstack(said))

    def _specifications(self, rng: np.random.Generator, apis: _Ints) -> list[str]:
        n = len(apis)
        which = np.hstack(
            [
                np.tile(np.arange(_CONCEPTS), (n, 1)),
                rng.integers(_CONCEPTS, size=(n, self._n(3))),
            ]
        )
        concepts = self._concepts[apis[:, None], which].astype(np.int64)
        concepts = _sometimes(rng, concepts, (0.85,))
        places = _zipf_places(rng, (n, self._n(3)), _CONCEPTS_OF_TOPIC, 6.0)
        topical = self._concepts_of_topic[self._topics[apis, :1], places].astype(np.int64)
        rare = _sometimes(rng, self._rare[apis].astype(np.int64), (0.85,))
        said = [
            self._concept_words(rng, concepts, _SPECIFIED),
            self._concept_words(rng, topical, _SPECIFIED),
            self._rare_words(rng, rare, _SPECIFIED),
            (self._first_brand + apis)[:, None],
            _noise(rng, (n, self._n(6))),
            rng.integers(len(FUNCTION), size=(n, self._n(8))),
            _common(rng, (n, self._n(8))),
        ]
        return _texts(rng, np.hstack(said))

    def _n(self, count: int) -> int:
        return max(round(self.length * count), 1)

    def _concept_words(self, rng: np.random.Generator, concepts: _Ints, often: float) -> _Ints:
        return _forms(rng, concepts, often, LONG, self._n_concepts)

    def _rare_words(self, rng: np.random.Generator, rare: _Ints, often: float) -> _Ints:
        return _forms(rng, rare, often, self._first_rare, self._n_rare)


def _forms(
    rng: np.random.Generator, places: _Ints, often: float, first: int, synonyms: int
) -> _Ints:
    """Return the words at some places of a kind; those with another form have it so often."""
    # Which of them have one is fixed: by a hash of the place.
    kind = (places * 2_654_435_761 % 4_294_967_291) / 4_294_967_291
    other = np.where(kind < _SYNONYM, synonyms, np.where(kind < _SYNONYM + _DERIVED, DERIVED, 0))
    words = first + places + other * (rng.random(places.shape) < often)
    return np.where(places >= 0, words, -1)


def _sometimes(rng: np.random.Generator, words: _Ints, chances: Iterable[float]) -> _Ints:
    """Return words, each there by chance: of its column, or the same for all; -1 is none."""
    return np.where(rng.random(words.shape) < np.array(list(chances)), words, -1)


def _zipf_places(rng: np.random.Generator, shape: tuple[int, ...], n: int, offset: float) -> _Ints:
    """Return places below `n`, of which the first are the likeliest."""
    by_place = np.cumsum(1 / (np.arange(n) + offset))
    found = np.searchsorted(by_place, rng.random(shape) * by_place[-1])
    return np.asarray(np.minimum(found, n - 1))


def _noise(rng: np.random.Generator, shape: tuple[int, ...]) -> _Ints:
    return SHORT + _zipf_places(rng, shape, _NOISE, 20.0)


def _common(rng: np.random.Generator, shape: tuple[int, ...]) -> _Ints:
    return len(FUNCTION) + rng.integers(SHORT - len(FUNCTION), size=shape)


def _texts(rng: np.random.Generator, words: _Ints) -> list[str]:
    """Return a text a row: its words in any order, without -1."""
    key = np.where(words >= 0, rng.random(words.shape), 2.0)
    mixed = np.take_along_axis(words, np.argsort(key, axis=1), axis=1)
    numbers, places = np.unique(mixed, return_inverse=True)
    strings = np.empty(len(numbers), dtype=object)
    strings[numbers >= 0] = spelled(numbers[numbers >= 0])
    rows = strings[places.reshape(mixed.shape)].tolist()
    lengths = (mixed >= 0).sum(axis=1).tolist()
    return [_sentences(row[:n]) for row, n in zip(rows, lengths, strict=True)]


def _sentences(words: list[str]) -> str:
    step = 14
    parts = [" ".join(words[i : i + step]) for i in range(0, len(words), step)]
    return ". ".join(part[:1].upper() + part[1:] for part in parts) + "."


def _history(records: Iterable[dict[str, Any]]) -> History:
    day: Callable[[str], datetime.date] = datetime.date.fromisoformat
    return History(Mashup(**record | {"date": day(record["date"])}) for record in records)


def _write(path: Path, records: Iterable[dict[str, Any]]) -> None:
    lines = (f"{json.dumps(record)}\n" for record in records)
    if path.suffix == ".gz":
        with gzip.open(path, "wt", 3) as packed:
            packed.writelines(lines)
    else:
        with path.open("w") as out:
            out.writelines(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Write a folder: ``python -m benchmarks.synthetic DIR --apis 20000 --mashups 50000``."""
    parser = argparse.ArgumentParser(description="Write a synthetic catalog and its history.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--apis", type=int, metavar="N", default=1_000)
    parser.add_argument("--mashups", type=int, metavar="N", default=5_000)
    parser.add_argument("--shards", type=int, metavar="N", default=1, help="files of the history")
    parser.add_argument("--gz", action="store_true", help="compress the history")
    parser.add_argument("--asked", type=int, metavar="N", default=500, help="requests of each kind")
    parser.add_argument("--length", type=float, metavar="X", default=1.0, help="of the texts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    made = Synthetic(options.apis, options.mashups, seed=options.seed, length=options.length)
    made.write(options.folder, shards=options.shards, compressed=options.gz, asked=options.asked)


if __name__ == "__main__":
    main()
