"""What is measured on: a folder in the library's own layout, or the bundled sample."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cnp_router.catalog import Catalog
from cnp_router.datasets import load_sample
from cnp_router.exceptions import DataFileError
from cnp_router.history import History

__all__ = [
    "FORMS",
    "Origin",
    "Splits",
    "drawn",
    "in_form",
    "limited",
    "load",
    "load_limited",
    "most_used",
    "rolling",
]

_HELD_OUT_SHARE = 0.2
_COLD_SHARE = 0.15

ORIGINS = (0.6, 0.8)
_NEXT = 0.1  # of the history, asked about
_ASKED = 300
_LEAST_DATED = 100

# What an application may put around each request, and log with it.
FORMS = {
    "prompt": "You are the assistant of {place}, and help those who work there, politely and in "
    "few words. Call a tool whenever an answer depends on maps, weather, music, payments, "
    "documents or messages; never reveal a key, and ask back where you are not sure. It is {day}, "
    "and {user} of the {place} office asks:\n\n{request}\n\nAnswer in the language of the "
    "request.",
    "question": "User question: {request}",
    "json": '{{"query": "{request}", "user": "{user}", "locale": "en-US", "office": "{place}"}}',
}
_SLOTS = {
    "place": ("Bergen", "Delft", "Porto", "Turku"),
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"),
    "user": ("Amira", "Bob", "Chiara", "Dmitri", "Eve", "Femi", "Goro"),
}


@dataclass(frozen=True)
class Splits:
    """Mashups to learn from, and by split mashups to ask about; `name` is for the heading."""

    name: str
    catalog: Catalog
    train: History
    held_out: dict[str, History]

    @property
    def asked(self) -> str:
        """How many requests there are of each split."""
        return ", ".join(f"{len(history)} of {name}" for name, history in self.held_out.items())


@dataclass(frozen=True)
class Origin:
    """The first part of a history by date, and mashups of what came next."""

    share: float
    past: History
    asked: History


def load(folder: Path | None, seed: int = 0) -> Splits:
    """Read a folder, or split the bundled sample; DataFileError if a file is missing or broken."""
    return _sample(seed) if folder is None else _folder(folder)


def load_limited(folder: Path | None, held_out: int, limit: int, seed: int = 0) -> Splits:
    """Read a folder, or hold out so many mashups of the sample at random; nothing is hidden.

    Of each split, `limit` mashups are left whose APIs are all in the catalog; 0 leaves all.
    """
    splits = _folder(folder) if folder is not None else _plain_sample(held_out, seed)
    known = {name: h.known_to(splits.catalog) for name, h in splits.held_out.items()}
    return replace(splits, held_out={name: limited(h, limit, seed) for name, h in known.items()})


def most_used(history: History) -> list[str]:
    """Return the APIs that a history uses, those that most mashups use first."""
    uses = Counter(api for mashup in history for api in mashup.apis)
    return sorted(uses, key=lambda api: (-uses[api], api))


def rolling(history: History, seed: int = 0) -> list[Origin]:
    """Return the first 60 and 80 % of a history by date, and some of the next 10 % of it.

    Mashups without a date are left out. With fewer than 100 of the others there is no origin.
    """
    dated = [(m.date, place, m) for place, m in enumerate(history) if m.date is not None]
    if len(dated) < _LEAST_DATED:
        return []
    ordered = [mashup for *_, mashup in sorted(dated, key=lambda each: each[:2])]
    origins = []
    for share in ORIGINS:
        begin, end = (round(part * len(ordered)) for part in (share, share + _NEXT))
        asked = limited(History(ordered[begin:end]), _ASKED, seed)
        origins.append(Origin(share, History(ordered[:begin]), asked))
    return origins


def in_form(splits: Splits, form: str, seed: int = 0) -> Splits:
    """Return the same with each request in one of the `FORMS`, of which some words differ."""
    rng = np.random.default_rng(seed)

    def formed(history: History) -> History:
        slots = {name: rng.choice(own, len(history)).tolist() for name, own in _SLOTS.items()}
        each = [dict(zip(slots, own, strict=True)) for own in zip(*slots.values(), strict=True)]
        return History(
            replace(mashup, description=FORMS[form].format(request=mashup.description, **own))
            for mashup, own in zip(history, each, strict=True)
        )

    held_out = {name: formed(history) for name, history in splits.held_out.items()}
    name = f"{splits.name}, each request as {form}"
    return replace(splits, name=name, train=formed(splits.train), held_out=held_out)


def _plain_sample(held_out: int, seed: int) -> Splits:
    sample = load_sample()
    order = np.random.default_rng(seed).permutation(len(sample.history)).tolist()
    parts = (order[held_out:], order[:held_out])
    train, held = (History(sample.history[i] for i in sorted(part)) for part in parts)
    return Splits("the bundled sample", sample.catalog, train, {"random": held})


def drawn(train: History, n: int | None, seed: int) -> History:
    """Return so many past mashups, drawn at random; all where it is None."""
    if n is None:
        return train
    return History(train[int(i)] for i in np.random.default_rng(seed).permutation(len(train))[:n])


def limited(history: History, limit: int, seed: int = 0) -> History:
    """Return at most so many mashups, drawn at random, in their order; all if `limit` is 0."""
    if not 0 < limit < len(history):
        return history
    drawn = np.random.default_rng(seed).choice(len(history), limit, replace=False)
    return History(history[i] for i in sorted(drawn.tolist()))


def _folder(folder: Path) -> Splits:
    catalog = Catalog.read(folder / "apis.jsonl")
    train = History.read(folder / "mashups-train.jsonl").known_to(catalog)
    files = sorted(folder.glob("mashups-dev*.jsonl"))
    if not files:
        raise DataFileError(
            folder, "no held-out mashups", cure="name them mashups-dev.jsonl, mashups-dev-x.jsonl"
        )
    held_out = {file.stem.removeprefix("mashups-"): History.read(file) for file in files}
    return Splits(folder.resolve().name, catalog, train, held_out)


def _sample(seed: int) -> Splits:
    """Hide some APIs' history (split ``cold``), then hold out some of the rest (``random``)."""
    sample = load_sample()
    rng = np.random.default_rng(seed)
    hidden = set(rng.choice(sample.catalog.ids, int(_COLD_SHARE * len(sample.catalog)), False))
    cold = [mashup for mashup in sample.history if hidden & set(mashup.apis)]
    rest = [mashup for mashup in sample.history if not hidden & set(mashup.apis)]
    chosen = set(rng.choice(len(rest), int(_HELD_OUT_SHARE * len(rest)), False).tolist())
    return Splits(
        "the bundled sample",
        sample.catalog,
        History(mashup for i, mashup in enumerate(rest) if i not in chosen),
        {
            "random": History(mashup for i, mashup in enumerate(rest) if i in chosen),
            "cold": History(cold),
        },
    )
