"""How popular each API was about a day, and when it was last used, for any day."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.text.kernels import Rows, add_all
from cnp_router.training.corpus import Corpus
from cnp_router.training.postings import best_of_lines, segments, together
from cnp_router.training.views.tables import Brief, Table

__all__ = ["YEAR", "About", "Calendar"]

YEAR = 365.25  # days
_LAST_USED = 0.5 * YEAR  # days until the last use counts less by a factor of e
_HALF_LIVES = np.array([[0.25], [1.0], [3.0]]) * YEAR
_TINY = float(np.finfo(np.float32).tiny)
# A block has about so many uses a label, or more where all blocks would keep more than `_CELLS`
# numbers.
_USES, _CELLS = 0.25, 8_000_000
# Of more labels, what a day says of each is not kept but for the best so many.
_MANY, _BEST = 4_096, 128
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
    """

    def __init__(self, corpus: Corpus) -> None:
        days, which = np.unique(corpus.filled_days, return_inverse=True)
        uses, starts = corpus.uses
        label = np.arange(len(starts)).repeat(corpus.counts[corpus.labels].astype(np.intp))
        # One label more stands for the requests themselves.
        rows = np.concatenate([label, np.full(len(which), len(starts))])
        columns = np.concatenate([which[uses], which])
        ones = np.ones(len(rows), dtype=np.float32)
        used = sparse.csc_array((ones, (rows, columns)), shape=(len(starts) + 1, len(days)))
        self._days, self._labels = days, corpus.labels
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
        scores, quarter, total = self._scores(day)
        if not self.is_brief:
            tables = tuple(Table(own, self._labels) for own in scores)
            return About(tables, quarter, 0.0, day, total)
        starts, places, values = best_of_lines(scores, _BEST)
        briefly = []
        for line, (begin, end) in enumerate(itertools.pairwise(starts.tolist())):
            again = functools.partial(self._line, day, line)
            best = places[begin:end].copy(), values[begin:end].copy()
            briefly.append(Brief(again, self._labels, *best, are_all=end - begin < _BEST))
        return About(tuple(briefly), quarter, 0.0, day, total)

    def _scores(self, day: float) -> tuple[NDArray[np.float32], float, NDArray[np.float32]]:
        """Return the scores of all labels on a day: the shares by half-life, and the last use.

        Beside them, what all past requests weigh by the first half-life, and all uses by each.
        """
        at = int(self._starts.searchsorted(day, side="right")) - 1
        block, before, after = self._blocks[at], self._before[at], self._after[at]
        fades = _weights(np.array([day - block.start, block.end - day])).astype(np.float32)
        used = before * fades[:, :1]
        used += after * fades[:, 1:]
        block.add_to(used, day)
        quarter = float(used[0, -1])
        shares = used[:, :-1]
        total = np.maximum(shares.sum(axis=1), _TINY)
        shares /= total[:, None]
        on = np.float32(day)
        between = np.minimum(on - self._last[at], self._coming[at] - on)
        np.minimum.at(between, block.labels, block.of_uses(np.abs(block.days - on)))
        return np.vstack([shares, _recent(between[:-1])]), quarter, total

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
        wanted = blocks * (len(self._labels) + 1) + labels
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
        width = len(self._labels) + 1
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
        labels = used.indices[pairs].astype(np.int32)
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
