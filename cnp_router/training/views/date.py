"""The view of the date: what was used about the time of the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cnp_router.training.corpus import Specifications, has_dates
from cnp_router.training.encoders import UNKNOWN
from cnp_router.training.postings import segments
from cnp_router.training.views.base import Batch, View
from cnp_router.training.views.columns import Column, Pairs, Shared, Sparse
from cnp_router.training.views.past_requests import among_nearest, votes
from cnp_router.training.views.popularity import YEAR, About, Calendar

__all__ = ["DateView"]

_FEWEST = 0.01
_CELLS = 4_000_000  # numbers that are kept of days that were asked for


@dataclass(frozen=True, eq=False)
class DateView(View):
    """Past requests weighted by how near in time to the request they were asked, on either side.

    A weight halves with every so many years between. A request of unknown date counts as asked on
    the newest date of the history, a past one on the median.
    """

    name: ClassVar[str] = "date"
    tells_fit: ClassVar[bool] = False
    scores: ClassVar[tuple[str, ...]] = (
        "neighbours of the year",  # share of the most similar past requests, half-life 1 year
        "neighbours of the quarter",
        "nearest of the time",  # similarity of the most similar one that used it, 2 years
        "popular in the quarter",  # share of the uses of all APIs
        "popular in the year",
        "popular in three years",
        "last used",  # exp(-years to the nearest use / .5)
    )
    context: ClassVar[tuple[str, ...]] = (
        "months after the history",  # log(1 + months)
        "requests of the quarter",  # log of the sum of the weights
        "share of the history later",
    )

    @classmethod
    def applies(cls, specifications: Specifications, days: NDArray[Any]) -> bool:
        """Return whether enough past requests have a date to learn what it is worth."""
        return has_dates(days)

    def columns(self, batch: Batch) -> tuple[Column, ...]:
        """Return votes and similarity of past requests, and popularity, all weighted by time."""
        corpus, voting = self.corpus, votes(batch, self.corpus)
        similar = voting.past
        days = self._days(batch)
        rows = segments(similar.starts)
        between = days[rows] - corpus.filled_days[similar.positions]
        year = np.exp2(-np.abs(between) / YEAR)
        strength = similar.values * similar.values
        times = self._times(batch)
        exact = _Popular(self._calendar, times, corpus.label_of)
        popular = [
            Shared(tables, corpus.label_of, exact=exact.score(line))
            for line, tables in enumerate(zip(*(time.tables for time in times), strict=True))
        ]
        by_year = [
            among_nearest(Sparse(similar.starts, similar.positions, own))
            for own in (strength * year, strength * (year * year) ** 2)
        ]
        return (
            *map(voting.shares, by_year),
            voting.highest(similar.values * np.sqrt(year)),
            *popular,
        )

    def _days(self, batch: Batch) -> NDArray[np.float32]:
        """Return the day of each request, the newest one where nobody knows."""
        days = batch.requests.day
        return np.where(days == UNKNOWN, np.float32(self.corpus.newest), days)

    def _times(self, batch: Batch) -> list[About]:
        """Return what was used about the day of each request."""
        times: list[About] = batch.once(Calendar, lambda: self._at(self._days(batch)))
        return times

    def _at(self, days: NDArray[np.float32]) -> list[About]:
        """Return what was used about some days; those of the last days asked for are kept."""
        kept: dict[float, About] = self._kept
        asked = days.tolist()
        # Threads may ask at the same time: what one has found it need not look for again.
        found = {day: time for day in set(asked) if (time := kept.get(day)) is not None}
        new = list(set(asked) - found.keys())
        if new:
            most = max(_CELLS // (self._calendar.n_kept + 1), 8)
            found.update((day, self._calendar.about(day)) for day in new)
            if len(kept) + len(new) > most:
                kept.clear()
            kept.update({day: found[day] for day in new[:most]})
        return [found[day] for day in asked]

    @cached_property
    def _kept(self) -> dict[float, About]:
        return {}

    @cached_property
    def _calendar(self) -> Calendar:
        return Calendar(self.corpus)

    def request_features(self, batch: Batch) -> NDArray[Any]:
        """Return how far after the history each request is, and how much of it is near."""
        found = np.zeros((len(batch), len(self.context)), dtype=np.float32)
        for row, time in enumerate(self._times(batch)):
            after = max(self.corpus.months_after(float(batch.requests.day[row])), 0)
            found[row] = np.log1p(after), np.log(_FEWEST + time.quarter), time.later
        return found


class _Popular:
    """The last scores of the view where the tables have the best only: all are found together."""

    def __init__(
        self, calendar: Calendar, times: Sequence[About], label_of: NDArray[np.intp]
    ) -> None:
        self._calendar, self._times, self._label_of = calendar, times, label_of
        self._last: tuple[Pairs, NDArray[np.float32]] | None = None

    def score(self, line: int) -> Callable[[Pairs], NDArray[np.float32]] | None:
        """Return what says one of the scores of some pairs; None where the tables do."""
        return (lambda pairs: self._at(pairs)[line]) if self._calendar.is_brief else None

    def _at(self, pairs: Pairs) -> NDArray[np.float32]:
        last = self._last
        if last is None or last[0] is not pairs:
            labels = self._label_of[pairs.positions]
            found = self._calendar.at(self._times, pairs.rows, np.maximum(labels, 0))
            found[:, labels < 0] = 0
            last = self._last = pairs, found
        return last[1]
