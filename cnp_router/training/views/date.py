"""The view of the date: what was used about the time of the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cnp_router.training.corpus import Corpus, entries, has_dates
from cnp_router.training.encoders import UNKNOWN
from cnp_router.training.views.base import Batch, Dense, Sparse, View
from cnp_router.training.views.past_requests import nearest, similarities

__all__ = ["DateView"]

_YEAR = 365.25  # days
_LAST_USED = 0.5  # years until the last use counts less by a factor of e
_FEWEST = 0.01


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
    def applies(cls, corpus: Corpus) -> bool:
        """Return whether enough past requests have a date to learn what it is worth."""
        return has_dates(corpus.days)

    def columns(self, batch: Batch) -> tuple[Sparse | Dense, ...]:
        """Return votes and similarity of past requests, and popularity, all weighted by time."""
        labels, (uses, starts) = self.corpus.labels, self.corpus.uses
        rows = []
        for row, similarity in enumerate(similarities(batch)):
            years, quarter, year = self._nearness(batch)[row]
            three_years = np.cbrt(year)
            strength = similarity * similarity
            rows.append(
                (
                    self._votes(strength * year),
                    self._votes(strength * quarter),
                    *(
                        _shares(np.add.reduceat(weight[uses], starts))
                        for weight in (quarter, year, three_years)
                    ),
                    np.exp(-np.minimum.reduceat(years[uses], starts) / _LAST_USED),
                    np.maximum.reduceat((similarity * np.sqrt(year))[uses], starts),
                )
            )
        year_, quarter_, *others = zip(*rows, strict=True)
        dense = []
        for values in others:
            every = np.zeros((len(batch), self.corpus.n_apis), dtype=np.float32)
            every[:, labels] = np.stack(values)
            dense.append(Dense(every))
        *popular, last, nearest = dense
        return Sparse(year_), Sparse(quarter_), nearest, *popular, last

    def _nearness(self, batch: Batch) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Return the years between, and the weights of half-lives of a quarter and a year."""

        def near(row: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
            years = np.abs(self.corpus.filled_days - self._day(batch, row)) / _YEAR
            year = np.exp2(-years)
            return years, (year * year) ** 2, year

        found: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = batch.once(
            (self, "nearness"), lambda: [near(row) for row in range(len(batch))]
        )
        return found

    def _day(self, batch: Batch, row: int) -> float:
        day = float(batch.requests.day[row])
        return self.corpus.newest if day == UNKNOWN else day

    def _votes(self, strength: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
        near = nearest(strength)
        used = entries(self.corpus.usage, near.rows)
        share = np.zeros(self.corpus.n_apis, dtype=np.float32)
        np.add.at(share, used.index, np.repeat(near.similarity, used.sizes))
        apis = np.flatnonzero(share)
        return apis, share[apis] / max(near.similarity.sum(), np.float32(1e-12))

    def request_features(self, batch: Batch) -> NDArray[Any]:
        """Return how far after the history each request is, and how much of it is near."""
        days = self.corpus.filled_days
        found = np.zeros((len(batch), len(self.context)), dtype=np.float32)
        for row in range(len(batch)):
            _, quarter, _ = self._nearness(batch)[row]
            found[row] = (
                np.log1p(max(self.corpus.months_after(float(batch.requests.day[row])), 0)),
                np.log(_FEWEST + quarter.sum()),
                np.mean(days > self._day(batch, row)),
            )
        return found


def _shares(values: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(values / max(values.sum(), 1e-9))
