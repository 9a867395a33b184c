"""How popular each API was about a day, and when it was last used, for any day."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text.kernels import Rows, add_all
from cnp_router.training.corpus import Corpus
from cnp_router.training.keyed import highest
from cnp_router.training.postings import best, best_of_lines, reached, segments, together
from cnp_router.training.views.tables import Brief, Table

__all__ = ["YEAR", "About", "Calendar"]

YEAR = 365.25  # days
_LAST_USED = 0.5 * YEAR  # days until the last use counts less by a factor of e
_HALF_LIVES = np.array([[0.25], [1.0], [3.0]]) * YEAR
_TINY = float(np.finfo(np.float32).tiny)
# A block has about so many uses a label, or more where all blocks would keep more than `_CELLS`
# numbers.
_USES, _CELLS = 0.25, 8_000_000
# Of more labels, what a day says of each is not kept but for the best so many. They are looked for
# among those that are near the best in the middle of so many days.
_MANY, _BEST, _SPAN = 4_096, 128, 64
_TOGETHER = 1 << 16  # uses that are looked at together


@dataclass(frozen=True)
class About:
    """What was used about a day, as the last scores of the view say; how much was asked then.

    `day` is the nearest one of the history, and `faded` what is left of the last use since then or
    until then. `total` is what all uses weigh, by half-life.
    """

    tables: tuple[Table, ...]
    quarter: float  # sum of the weights of past requests
    later: float  # share of the past requests
    day: float
    total: NDArray[np.float32]
    faded: float = 1.0


class Calendar:
    """How often each API was used on which day.

    What was used before a day only fades from there on, all of it alike, and so does what was used
    after it on the way back. So the history is cut into blocks, for each of which the sums of what
    was used before and after it are kept, and a day costs the uses of its own block.

    Of many labels it costs those of the labels that may be among the best on a day so near: a
    weight changes by no more than a known factor in a few days.
    """

    def __init__(self, corpus: Corpus) -> None:
        days, which = np.unique(corpus.filled_days, return_inverse=True)
        uses, starts = corpus.uses
        label = np.arange(len(starts)).repeat(corpus.counts[corpus.labels].astype(np.intp))
        # Two labels more stand for all uses, and for the requests themselves.
        n = len(starts)
        rows = np.concatenate([label, np.full(len(uses), n), np.full(len(which), n + 1)])
        columns = np.concatenate([which[uses], which[uses], which])
        ones = np.ones(len(rows), dtype=np.float32)
        used = sparse.csc_array((ones, (rows, columns)), shape=(n + 2, len(days)))
        self._days, self._labels, self._by_day = days, corpus.labels, used
        self._later = (len(which) - np.bincount(which + 1).cumsum()) / len(which)
        blocks, n_labels = _blocks(days, used), used.shape[0]
        before = _besides(blocks, n_labels, forward=True)
        after = list(_besides(blocks[::-1], n_labels, forward=False))[::-1]
        self._starts = np.array([block.start for block in blocks])
        self._ends = np.array([block.end for block in blocks])
        # By block, half-life and label, and by block and label; of what was used after it, too.
        self._before, self._last = map(np.stack, zip(*before, strict=True))
        self._after, self._coming = map(np.stack, zip(*after, strict=True))
        self._blocks = blocks

    def about(self, day: float) -> About:
        """Return what was used about a day."""
        oldest, newest = float(self._days[0]), float(self._days[-1])
        inside = min(max(day, oldest), newest)
        found = self._newest if inside == newest else self._inside(inside)
        later = float(self._later[self._days.searchsorted(day, side="right")])
        # Outside the history all weights fade alike: the shares of all APIs stay what they are.
        outside = abs(day - inside)
        *shares, last = found.tables
        faded = np.float32(np.exp(-outside / _LAST_USED))
        if outside:
            last = last.times(faded)
        quarter = found.quarter * 0.5 ** (outside / _HALF_LIVES.item(0))
        return About((*shares, last), quarter, later, inside, found.total, float(faded))

    @property
    def is_brief(self) -> bool:
        """Whether its tables have the best labels only: `at` says the scores of any."""
        return len(self._labels) > _MANY

    @property
    def n_kept(self) -> int:
        """How many numbers there are about a day."""
        return (len(_HALF_LIVES) + 1) * (2 * _BEST if self.is_brief else len(self._labels))

    @cached_property
    def _newest(self) -> About:
        return self._inside(float(self._days[-1]))

    def _inside(self, day: float) -> About:
        if self.is_brief:
            return self._briefly(day)
        scores, quarter, total = self._scores(day)
        tables = tuple(Table(own, self._labels) for own in scores)
        return About(tables, quarter, 0.0, day, total)

    def _briefly(self, day: float) -> About:
        labels, part = self._contenders(day)
        shares, quarter, total = part.shares(day)
        starts, places, values = best_of_lines(shares, _BEST)
        found = [
            (labels[places[begin:end]], values[begin:end].copy())
            for begin, end in itertools.pairwise(starts.tolist())
        ]
        found.append(self._last_used(day))
        tables = [
            Brief(
                functools.partial(self._line, day, line),
                self._labels,
                *best_ones,
                are_all=len(best_ones[0]) < _BEST,
            )
            for line, best_ones in enumerate(found)
        ]
        return About(tuple(tables), quarter, 0.0, day, total)

    def _contenders(self, day: float) -> tuple[NDArray[np.intp], _Part]:
        """Return the labels whose shares may be among the highest on a day, ascending, and theirs.

        Between the middle of a span and any day of it a weight changes by a known factor at most:
        who is behind the best by more than its square in the middle is not among them on any day.
        """
        at, span = self._block_at(day), int(day // _SPAN)
        kept = self._spans.get((at, span))
        if kept is None:
            middle = min(max((span + 0.5) * _SPAN, float(self._days[0])), float(self._days[-1]))
            shares = self._scores(middle)[0][:-1]
            least = reached(shares, _BEST)[:, None] * _weights(np.array([_SPAN + 1.0]))
            labels = np.flatnonzero((shares >= least).any(axis=0))
            all_of_them = np.append(labels, [len(self._labels), len(self._labels) + 1])
            kept = labels, self._part(at).of(all_of_them)
            if sum(part.size for _, part in list(self._spans.values())) > _CELLS:
                self._spans.clear()
            self._spans[at, span] = kept
        return kept

    @cached_property
    def _spans(self) -> dict[tuple[int, int], tuple[NDArray[np.intp], _Part]]:
        return {}

    def _last_used(self, day: float) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the labels with the highest scores of the last use, ascending, and these.

        They are looked for on the days around: on twice as many, as long as there are too few.
        """
        n_days, on = len(self._days), np.float32(day)
        size = 1 + _BEST * n_days // self._by_day.nnz
        place = int(self._days.searchsorted(on))
        while True:
            begin, end = max(place - size, 0), min(place + size, n_days)
            beyond = self._days[[i for i in (begin - 1, end) if 0 <= i < n_days]]
            uses = slice(*self._by_day.indptr[[begin, end]])
            labels = self._by_day.indices[uses].astype(np.intp)
            between = np.abs(self._days[begin:end] - on)
            scores = _recent(between).repeat(np.diff(self._by_day.indptr[begin : end + 1]))
            reach = _recent(np.abs(beyond - on)).max(initial=0)
            kept = (scores > reach) & (labels < len(self._labels))
            labels, scores = highest(labels[kept], scores[kept], len(self._labels))
            if len(labels) >= _BEST or not len(beyond):
                break
            size *= 2
        if len(labels) > _BEST:
            first = best(scores, _BEST)
            labels, scores = labels[first], scores[first]
        return labels, scores

    def _scores(self, day: float) -> tuple[NDArray[np.float32], float, NDArray[np.float32]]:
        """Return the scores of all labels on a day: the shares by half-life, and the last use.

        Beside them, what all past requests weigh by the first half-life, and all uses by each.
        """
        at = self._block_at(day)
        shares, quarter, total = self._part(at).shares(day)
        block, on = self._blocks[at], np.float32(day)
        between = np.minimum(on - self._last[at], self._coming[at] - on)
        np.minimum.at(between, block.labels, block.of_uses(np.abs(block.days - on)))
        return np.vstack([shares, _recent(between[:-2])]), quarter, total

    def _block_at(self, day: float) -> int:
        return int(self._starts.searchsorted(day, side="right")) - 1

    def _part(self, at: int) -> _Part:
        return _Part(self._blocks[at], self._before[at], self._after[at])

    def _line(self, day: float, line: int) -> NDArray[np.float32]:
        return np.asarray(self._scores(day)[0][line])

    def at(
        self, times: Sequence[About], rows: NDArray[np.intp], labels: NDArray[np.intp]
    ) -> NDArray[np.float32]:
        """Return the scores of some labels, each at the time of its row: a line for each score.

        They are those of the tables, to the last bit.
        """
        days = np.array([time.day for time in times], dtype=np.float32)
        at = (self._starts.searchsorted(days, side="right") - 1)[rows]
        days, total = days[rows], np.stack([time.total for time in times])[rows].T
        used = self._before[at, :, labels].T * _weights(days - self._starts[at]).astype(np.float32)
        used += self._after[at, :, labels].T * _weights(self._ends[at] - days).astype(np.float32)
        nearest = np.minimum(days - self._last[at, labels], self._coming[at, labels] - days)
        for which, used_on, often in self._uses_of(at, labels):
            between = np.abs(used_on - days[which])
            weights = _weights(between).astype(np.float32) * often
            for line, own in zip(used, weights, strict=True):
                np.add.at(line, which, own)
            np.minimum.at(nearest, which, between)
        used /= total
        faded = np.array([time.faded for time in times], dtype=np.float32)[rows]
        return np.vstack([used, _recent(nearest) * faded])

    def _uses_of(
        self, blocks: NDArray[np.intp], labels: NDArray[np.intp]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.float32]]]:
        """Yield the uses of labels in a block each: of which, on which day, and how many times.

        A part of the labels at a time: some of them are used a lot.
        """
        keys, days, times = self._by_label
        wanted = blocks * self._by_day.shape[0] + labels
        first = keys.searchsorted(wanted)
        ends = np.zeros(len(wanted) + 1, dtype=np.intp)
        (keys.searchsorted(wanted, side="right") - first).cumsum(out=ends[1:])
        for begin, end in together(ends, _TOGETHER):
            which = segments(ends[begin : end + 1])
            uses = np.arange(ends[begin], ends[end])
            uses += (first[begin:end] - ends[begin:end])[which]
            yield begin + which, days[uses], times[uses]

    @cached_property
    def _by_label(self) -> tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.float32]]:
        """Block and label, day and times of each use, label by label and day by day."""
        width = self._by_day.shape[0]
        parts = [
            (number * width + block.labels.astype(np.intp), block.of_uses(block.days), block.times)
            for number, block in enumerate(self._blocks)
        ]
        keys, days, times = map(np.concatenate, zip(*parts, strict=True))
        order = keys.argsort(kind="stable")
        return keys[order], days[order], times[order]


@dataclass(frozen=True, eq=False)
class _Block:
    """Some days one after the other: which labels were used on each, and how many times.

    Those of a day begin at its place in `starts`, of shape (n_days + 1,). `start` is its first day,
    and `end` the first one of the next block.
    """

    start: float
    end: float
    days: NDArray[np.float32]
    starts: NDArray[np.int32]
    labels: NDArray[np.int32]
    times: NDArray[np.float32]

    def of_uses(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return for each use what its day has of some values."""
        return values.repeat(np.diff(self.starts))

    def add_to(self, sums: NDArray[Any], day: float) -> None:
        """Add what the uses weigh on a day to sums by half-life and label, in place."""
        times = self.times.astype(sums.dtype, copy=False)
        uses = Rows(times, self.labels, self.starts, (len(self.days), sums.shape[1]))
        weights = _weights(np.abs(self.days - day)).astype(sums.dtype)
        for line, own in zip(sums, weights, strict=True):
            add_all(uses, own, line)


@dataclass(frozen=True, eq=False)
class _Part:
    """What was used on some days by labels, and what these used before and after weighs there.

    The weights are as of the first day of the block, and of the next one: by half-life and label.
    """

    block: _Block
    before: NDArray[np.float32]
    after: NDArray[np.float32]

    @property
    def size(self) -> int:
        """How many uses it has, beside those that it has sums of."""
        return len(self.block.labels)

    def shares(self, day: float) -> tuple[NDArray[np.float32], float, NDArray[np.float32]]:
        """Return the shares of its labels of all uses on a day of it, by half-life.

        Beside them, what all past requests weigh by the first half-life, and all uses by each: the
        last two labels stand for them.
        """
        ends = np.array([day - self.block.start, self.block.end - day])
        fades = _weights(ends).astype(np.float32)
        used = self.before * fades[:, :1]
        used += self.after * fades[:, 1:]
        self.block.add_to(used, day)
        quarter, total = float(used[0, -1]), np.maximum(used[:, -2], _TINY)
        shares = used[:, :-2]
        shares /= total[:, None]
        return shares, quarter, total

    def of(self, labels: NDArray[np.intp]) -> _Part:
        """Return that of some labels alone, which are numbered as they come."""
        number = np.full(self.before.shape[1], -1, dtype=np.int32)
        number[labels] = np.arange(len(labels))
        found = number[self.block.labels]
        kept = found >= 0
        starts = np.append(0, kept.cumsum())[self.block.starts].astype(np.int32)
        times = self.block.times[kept]
        block = replace(self.block, starts=starts, labels=found[kept], times=times)
        return _Part(block, self.before[:, labels], self.after[:, labels])


def _recent(between: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what is left of a last use so many days ago, or to come."""
    return np.asarray(np.exp(between / np.float32(-_LAST_USED)))


def _weights(between: NDArray[Any]) -> NDArray[np.float64]:
    """Return what a use so many days before or after weighs, by half-life."""
    return np.exp2(-between / _HALF_LIVES)


def _blocks(days: NDArray[np.float32], used: sparse.csc_array) -> list[_Block]:
    """Return the blocks of some days, on each of which labels were used so many times."""
    n_labels = used.shape[0]
    kept = 2 * (len(_HALF_LIVES) + 1) * n_labels
    n_blocks = int(max(min(used.nnz / (_USES * n_labels), _CELLS / kept), 1))
    cuts = np.linspace(0, used.nnz, n_blocks, endpoint=False)
    firsts = np.unique(used.indptr.searchsorted(cuts, side="right") - 1)
    blocks = []
    for first, stop in itertools.pairwise([*firsts.tolist(), len(days)]):
        pairs = slice(*used.indptr[[first, stop]])
        starts = (used.indptr[first : stop + 1] - used.indptr[first]).astype(np.int32)
        edges = float(days[first]), float(days[min(stop, len(days) - 1)])
        labels = used.indices[pairs].astype(np.int32, copy=False)
        blocks.append(_Block(*edges, days[first:stop], starts, labels, used.data[pairs]))
    return blocks


def _besides(
    blocks: Sequence[_Block], n_labels: int, *, forward: bool
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Yield what was used in the blocks that come before each, as of the edge between them.

    That is what these uses weigh, by half-life and label, and the day of the nearest of them.
    """
    sums = np.zeros((len(_HALF_LIVES), n_labels))
    nearest = np.full(n_labels, -np.inf if forward else np.inf, dtype=np.float32)
    nearer = np.maximum if forward else np.minimum
    for block in blocks:
        yield sums.astype(np.float32), nearest.copy()
        sums *= _weights(np.array([block.end - block.start]))
        block.add_to(sums, block.end if forward else block.start)
        nearer.at(nearest, block.labels, block.of_uses(block.days))
