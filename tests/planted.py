"""A history with a planted answer: disjoint cliques of APIs, each with its own vocabulary.

Every mashup uses all APIs of one clique but one, and every API is the missing one equally often.
So a request in the words of a clique needs the clique, and where all but one of it are known, the
one that is left.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup

COMMON = (
    *("please", "find", "show", "build", "page", "users"),
    *("service", "people", "want", "simple", "daily", "share"),
)


@dataclass(frozen=True)
class Case:
    request: str
    clique: tuple[str, ...]
    missing: str

    @property
    def known(self) -> tuple[str, ...]:
        return tuple(api for api in self.clique if api != self.missing)


@dataclass(frozen=True)
class Planted:
    catalog: Catalog
    history: History
    cases: tuple[Case, ...]


def planted(*, n_cliques: int = 8, size: int = 4, rounds: int = 8, seed: int = 0) -> Planted:
    """Return a catalog of `n_cliques` cliques and `rounds` mashups for each missing API."""
    draw = random.Random(seed)
    words = iter(_words(draw, n_cliques * (12 + 3 * size)))
    apis, mashups, cases = [], [], []
    for c in range(n_cliques):
        topic = [next(words) for _ in range(12)]

        def text(n: int, topic: list[str] = topic) -> str:
            chosen = [*draw.sample(topic, n), *draw.sample(COMMON, 3)]
            return " ".join(draw.sample(chosen, len(chosen))).capitalize() + "."

        clique = []
        for _ in range(size):
            name, *own = (next(words) for _ in range(3))
            description = f"{' '.join(own)} {text(8)}"
            clique.append(Api(name, name.capitalize(), description, (f"{topic[0]}s",)))
        apis += clique
        ids = tuple(api.id for api in clique)
        for round_ in range(rounds):
            for left_out in ids:
                used = tuple(api for api in ids if api != left_out)
                mashups.append(Mashup(f"{c}-{round_}-{left_out}", text(8), used))
        cases += [Case(text(8), ids, missing) for missing in ids]
    draw.shuffle(mashups)
    return Planted(Catalog(apis), History(mashups), tuple(cases))


def _words(draw: random.Random, n: int) -> list[str]:
    """Return distinct words that can be spoken and that no one has ever said."""
    made: dict[str, None] = {}
    while len(made) < n:
        syllables = (draw.choice("bdfgklmnprstvz") + draw.choice("aeiou") for _ in range(4))
        made["".join(syllables)] = None
    return list(made)
