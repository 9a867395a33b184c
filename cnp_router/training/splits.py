"""How a history is parted: what views are fitted on, and which of its requests they are asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.corpus import MANY
from cnp_router.training.near_duplicates import NearDuplicates
from cnp_router.training.ranker import MIN_FOR_TREES

__all__ = [
    "MOST_SPLITS",
    "Said",
    "Split",
    "asking_again",
    "by_train",
    "dated_splits",
    "hiding",
    "hiding_more",
    "random_splits",
    "untried_of",
]

# Share of the APIs whose history each fold hides. The folds that hide none calibrate the
# probabilities: they are as new requests will be.
HIDDEN_SHARES = (0.0, 0.0, 0.1, 0.2, 0.3)
# Of what will be needed, at least this share of the unused share of a catalog is expected to have
# no history.
UNUSED_NEEDED = 0.1
# With fewer mashups each fold leaves out less of them, and hides none: most APIs are cold as it is,
# or else less than a share of what is needed.
LITTLE_FOLDS = 10
LITTLE_COLD = 0.05
N_RANDOM = 5
# The ranker has some hundred features: more examples than this cost time and teach it nothing.
MAX_EXAMPLES = 5_000
# Tenths of the history, the oldest first: a fold is fitted on so many, and asked the next one, or
# some of all that is later.
ROLLING = (4, 5, 6, 7, 8, 9)
LONG = (3, 5, 7)
# Views of more mashups take long to fit: with more of them there are fewer parts to fit them on.
FEW = 20_000
FEW_ROLLING = FEW_LONG = (5, 8)
MOST_SPLITS = max(LITTLE_FOLDS, N_RANDOM) + len(ROLLING) + len(LONG) + 1
UNDATED = 0.4  # share of the random examples that are asked as if nobody knew when

_NONE = np.zeros(0, dtype=np.intp)
_Part = tuple[NDArray[np.intp], NDArray[np.intp]]  # what is asked, and what is known


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of a history: what views are fitted on, and the requests that they are asked.

    What is asked was `said` first in these rows. The history of the `hidden` APIs is hidden from
    them. The `undated` of the asked are asked without their date; `is_random` says whether the
    parts are alike, `is_natural` whether what is asked is as new requests will be, and `is_known`
    whether the same was in what the views are fitted on.
    """

    train: NDArray[np.intp]
    asked: NDArray[np.intp]
    said: NDArray[np.intp]
    hidden: NDArray[np.intp] = field(default_factory=_NONE.copy)
    undated: NDArray[np.intp] = field(default_factory=_NONE.copy)
    is_random: bool = True
    is_natural: bool = True
    is_known: bool = False


@dataclass(frozen=True, eq=False)
class Said:
    """Which mashups say what another one says, but for case and spaces.

    `text` holds the first row with the same text, or its own where there is none, `record` the
    first of these that used the same APIs, too. `near` tells which of the different texts, in the
    order of their first rows, are near duplicates. `used` are the ids of the APIs of each mashup.
    """

    text: NDArray[np.intp]
    record: NDArray[np.intp]
    near: NearDuplicates
    used: Sequence[Sequence[str]]

    @classmethod
    def of(cls, texts: Sequence[str], used: Sequence[Sequence[str]]) -> Said:
        """Look through the texts of a history, and what each mashup `used`."""
        rows: dict[str, int] = {}
        records: dict[tuple[int, frozenset[str]], int] = {}
        found = []
        for row, (own, apis) in enumerate(zip(texts, used, strict=True)):
            words = " ".join(own.casefold().split())
            text = rows.setdefault(words, row) if words else row
            found.append((text, records.setdefault((text, frozenset(apis)), row)))
        pairs = np.array(found, dtype=np.intp).reshape(-1, 2)
        near = NearDuplicates([texts[row] for row in np.unique(pairs[:, 0])])
        return cls(pairs[:, 0], pairs[:, 1], near, used)

    @property
    def n_records(self) -> int:
        """How many there are of which none says and used the same as another."""
        return len(np.unique(self.record))


def random_splits(said: Said, n_apis: int, *, dated: bool, random_state: int) -> list[Split]:
    """Return random folds, each of which leaves out its part; of many mashups, a sample at once.

    All that say the same are left out together, and asked once with the same APIs: an answer that
    is known tells nothing about requests that are new. Where all say the same, it tells all there
    is. The folds of a dated history hide nothing: it has others in which much is new.

    As large a share of the folds as of the texts are near duplicates leaves out whole groups of
    these (group k-fold), and knows nothing else that is like what it asks (purging; López de Prado,
    "Advances in Financial Machine Learning", 2018). Who is only asked what a past request nearly
    says would be as sure of all the rest.
    """
    rng = np.random.default_rng(random_state)
    if not said.text.any():  # all say what the first one says
        said = replace(said, text=said.record, near=NearDuplicates([""] * said.n_records))
    first = said.text
    distinct, text = np.unique(first, return_inverse=True)
    n_mashups, n_texts = len(first), len(distinct)
    if n_texts < MANY:
        shares = (0.0,) * (min(n_texts, LITTLE_FOLDS) if n_texts > 1 else 0)
    else:
        shares = (0.0,) * N_RANDOM if dated else HIDDEN_SHARES
    drawn = rng.permutation(n_texts)[text]
    fold = drawn % max(len(shares), 1)
    order = _once(rng.permutation(n_mashups), said.record)
    undated = rng.random(n_mashups) < UNDATED * dated
    if n_mashups > FEW and n_texts < 2 * MAX_EXAMPLES:  # leave some to learn from
        order = order[drawn[order] < n_texts // 2]
    parts_of = _parts_of_few if n_mashups <= FEW else _parts_of_many
    parts = parts_of(said, text, order, fold, len(shares), random_state)
    found = []
    for number, (share, (rows, train)) in enumerate(zip(shares, parts, strict=True)):
        hidden = _some(np.arange(n_apis), share, random_state + number)
        asked = np.sort(rows)
        without = asked[undated[asked]]
        if len(asked):
            found.append(Split(train, asked, first[asked], hidden, without, is_natural=share == 0))
    return found


def _parts_of_few(
    said: Said,
    text: NDArray[np.intp],
    order: NDArray[np.intp],
    fold: NDArray[np.intp],
    n_folds: int,
    random_state: int,
) -> Iterator[_Part]:
    """Yield which of the first in some `order` each fold asks, and all that it may know."""
    asked = order[:MAX_EXAMPLES]
    apart, fold_of_group = _apart(said.near, n_folds, random_state)
    for number in range(n_folds):
        plain, own = asked[fold[asked] == number], None
        if number in apart:
            own = _purged(said, text, asked[fold_of_group[text[asked]] == number], len(plain))
        yield (own[0], own[-1]) if own else (plain, np.flatnonzero(fold != number))


def _parts_of_many(
    said: Said,
    text: NDArray[np.intp],
    order: NDArray[np.intp],
    fold: NDArray[np.intp],
    n_folds: int,
    random_state: int,
) -> Iterator[_Part]:
    """Yield the same of a long history, of which all folds know the same.

    Near duplicates are looked for among the first, and a part of their groups is asked.
    """
    rows = order[:FEW]
    apart, fold_of_group = _apart(said.near.among(text[rows]), n_folds, random_state)
    n_apart = MAX_EXAMPLES * len(apart) // max(n_folds, 1)
    if apart:
        others = rows[fold_of_group > 0][: MAX_EXAMPLES - n_apart]
        own = _purged(said, text, rows[fold_of_group == 0][:n_apart], n_apart, others)
        if own:
            fair, others, known = own
            parts = iter(np.array_split(fair, len(apart)))
            rest = iter(np.array_split(others, n_folds - len(apart)))
            for number in range(n_folds):
                yield next(parts if number in apart else rest), known
            return
    asked = order[:MAX_EXAMPLES]
    known = np.flatnonzero(~np.isin(text, text[asked]))
    for number in range(n_folds):
        yield asked[fold[asked] == number], known


def _purged(
    said: Said,
    text: NDArray[np.intp],
    asked: NDArray[np.intp],
    n_due: int,
    others: NDArray[np.intp] = _NONE,
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]] | None:
    """Return what a fold asks, what of the `others`, and what it knows, if that is fair.

    It knows nothing like what it asks, and not the texts of the others. What needs an API that
    nothing it knows used is not asked: it would tell what new APIs are like, not what other words
    are. Where that is most of it, or of what the fold is due to ask, none is apart.
    """
    is_left_out = said.near.like(np.unique(text[asked]))
    is_left_out[text[others]] = True
    train = np.flatnonzero(~is_left_out[text])
    known = {api for row in train.tolist() for api in said.used[row]}
    fair, rest = (
        np.array([row for row in rows.tolist() if known.issuperset(said.used[row])], dtype=np.intp)
        for rows in (asked, others)
    )
    return None if 2 * len(fair) <= max(len(asked), n_due) else (fair, rest, train)


def _apart(
    near: NearDuplicates, n_folds: int, random_state: int
) -> tuple[frozenset[int], NDArray[np.intp]]:
    """Return which folds leave out whole groups, never all, and which one each text is in then."""
    leaders, group = np.unique(near.group, return_inverse=True)
    if len(leaders) < n_folds:
        return frozenset(), _NONE
    fold = np.random.default_rng(random_state).permutation(len(leaders)) % max(n_folds, 1)
    n_apart = min(round(n_folds * (1 - len(leaders) / max(len(group), 1))), n_folds - 1)
    places = (int((i + 0.5) * n_folds / n_apart) for i in range(n_apart))
    return frozenset(places), fold[group]


def asking_again(splits: Sequence[Split], said: Said, *, random_state: int) -> list[Split]:
    """Return the splits, and one more if some requests are said twice: it asks these, once each.

    It teaches what a past request tells that is exactly the same. Views of a long history are not
    fitted for it alone: those that know the same as the first split do not know what it asks.
    """
    if not splits:
        return []
    first = said.text
    known = splits[0].train if len(first) > FEW else np.arange(len(first))
    order = np.random.default_rng(random_state).permutation(known)
    times = np.bincount(first[known], minlength=len(first))
    asked = np.sort(_once(order[times[first[order]] > 1], first)[:MAX_EXAMPLES])
    if not len(asked):
        return list(splits)
    train = np.setdiff1d(known, asked)
    again = Split(train, asked, first[asked], is_random=False, is_natural=False, is_known=True)
    same = [replace(split, train=train) if split.train is known else split for split in splits]
    return [*same, again]


def _once(rows: NDArray[np.intp], first: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rows, in their order, without those that say again what one before them says."""
    _, places = np.unique(first[rows], return_index=True)
    return rows[np.sort(places)]


def hiding_more(
    splits: Sequence[Split], usage: sparse.csr_array, *, random_state: int
) -> list[Split]:
    """Return the splits; where next to nothing that is asked is new to them, random ones hide more.

    Who has only seen requests for some tools would learn that no others are ever needed: new ones,
    and those of a catalog of which few were tried. `UNUSED_NEEDED` says what is expected instead.
    And who has only seen what is much like the past would take whatever is nearest for as near: so
    some folds of a little history hide what those of a longer one do.
    What only served by APIs that are hidden is then no past request: it would look like one that
    nothing served. Long histories stay as they are.
    """
    n_mashups = usage.shape[0]
    found, used = list(splits), np.unique(usage.indices)
    if n_mashups > FEW:
        return found
    cold = _share_of_cold(splits, usage)
    is_little = sum(split.is_random for split in splits) == LITTLE_FOLDS
    if n_mashups >= MIN_FOR_TREES and is_little and cold < LITTLE_COLD:
        for number, share in enumerate(filter(None, HIDDEN_SHARES)):
            hidden = _some(used, share, random_state + number)
            found[number] = _hiding_too(replace(found[number], is_natural=False), hidden, usage)
    share = _expected(usage) - cold
    if share > 0:
        for number, split in enumerate(found):
            if split.is_random:
                hidden = split.hidden
                if split.is_natural:
                    hidden = _some(used, share, random_state + number)
                found[number] = _hiding_too(split, hidden, usage)
    return found


def _hiding_too(split: Split, hidden: NDArray[np.intp], usage: sparse.csr_array) -> Split:
    """Return a split without the history of some APIs, unless that is all it has."""
    left = hiding(usage[split.train], hidden)
    train = split.train[np.diff(left.indptr) > 0]
    return replace(split, train=train, hidden=hidden) if len(train) else split


def untried_of(splits: Sequence[Split], usage: sparse.csr_array) -> NDArray[np.intp]:
    """Return the positions of all that nothing ever used, where these splits have to hide more.

    Elsewhere none: all of the catalog was used, or what is asked is often new as it is.
    """
    if usage.shape[0] > FEW or _expected(usage) <= _share_of_cold(splits, usage):
        return _NONE
    return np.setdiff1d(np.arange(usage.shape[1]), usage.indices)


def hiding(usage: sparse.csr_array, apis: NDArray[np.intp]) -> sparse.csr_array:
    """Return what was used without the uses of some APIs."""
    visible = np.ones(usage.shape[1], dtype=np.float32)
    visible[apis] = 0
    hidden = sparse.csr_array(usage @ sparse.diags_array(visible))
    hidden.eliminate_zeros()
    return hidden


def _expected(usage: sparse.csr_array) -> float:
    """Return which share of what new requests need is expected to have no history."""
    n_used, n_apis = len(np.unique(usage.indices)), int(usage.shape[1])
    return UNUSED_NEEDED * (1 - n_used / n_apis)


def _share_of_cold(splits: Sequence[Split], usage: sparse.csr_array) -> float:
    """Return which share of what natural splits ask was used by nothing that is known."""
    n_cold = n_needed = 0
    for split in filter(lambda split: split.is_natural, splits):
        is_known = np.zeros(usage.shape[1], dtype=bool)
        is_known[usage[split.train].indices] = True
        needed = usage[split.asked].indices
        n_cold += int(np.count_nonzero(~is_known[needed]))
        n_needed += len(needed)
    return n_cold / max(n_needed, 1)


def _some(positions: NDArray[np.intp], share: float, seed: int) -> NDArray[np.intp]:
    """Return a random share of some positions."""
    return positions[np.random.default_rng(seed).random(len(positions)) < share]


def by_train(splits: Sequence[Split]) -> list[list[int]]:
    """Return the places of some splits, those that are fitted on the same rows together."""
    groups: dict[int, list[int]] = {}
    for place, split in enumerate(splits):
        groups.setdefault(id(split.train), []).append(place)
    return list(groups.values())


def dated_splits(days: NDArray[np.floating], said: Said, *, random_state: int) -> list[Split]:
    """Return folds in which all that is asked is later than all that is known, and not the same.

    Rolling origin (Tashman, 2000), and longer horizons. `days` are those of the mashups.
    """
    rng = np.random.default_rng(random_state)
    order, n = np.argsort(days, kind="stable"), len(days)
    rolling, long = (ROLLING, LONG) if n <= FEW else (FEW_ROLLING, FEW_LONG)
    ends = [(k, k + 1) for k in rolling] + [(k, 10) for k in long]
    size = min(n, MAX_EXAMPLES) // (2 * len(ends))
    trains = {known: np.sort(order[: known * n // 10]) for known, _ in ends}
    found = []
    for known, end in ends:
        later = order[known * n // 10 : end * n // 10]
        later = later[~np.isin(said.text[later], said.text[trains[known]])]
        asked = np.sort(_once(rng.permutation(later), said.record)[:size])
        if len(asked):
            found.append(Split(trains[known], asked, said.text[asked], is_random=False))
    return found
