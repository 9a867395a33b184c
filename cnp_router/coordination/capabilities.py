"""`Capabilities`: which APIs can do what another one can."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from cnp_router.context.data_classes import contractor_of
from cnp_router.protocols.substitutes import Likeness
from cnp_router.records import check_number

__all__ = ["ALIKE", "RELATIVE", "SAME", "Capabilities"]

ALIKE = 0.25
"""Cosine of specifications (TF-IDF) from which on one may do the work of another.

All 31 pairs of the bundled sample that reach it share a category; of any pairs, 6 % do. The 0.8 of
the literature is for sentence embeddings: no pair of the sample has a cosine of .4 by words."""

SAME = 0.9
"""Cosine from which on two are the same function: one may act where the other was named.

Below it, words alone cannot tell the lowest temperature from the highest."""

RELATIVE = 0.5
"""And as alike as this share of the most alike one."""


class Capabilities:
    """Equivalents of APIs, by the words of their specifications and nothing else.

    An equivalent belongs to another source, since two tools of one source are two for a reason; it
    is at least `alike`, and at least `relative` times as alike as the most alike one. What was
    found once is kept.

    Parameters
    ----------
    likeness : Likeness
        Of a catalog, without the names of servers. With another similarity, `alike` must be one
        that goes with it.
    apis : iterable of str
        Ids in the catalog.
    alike : float in [0, 1], default=0.25
    relative : float in [0, 1], default=0.5
    gives : callable, optional
        From the id of an API to the names of the fields of its results; nothing where that is not
        known. What gives other fields is no equivalent, whatever its words: of all fields of two
        APIs, at least half must be in common.

    Examples
    --------
    >>> from cnp_router.catalog import Api
    >>> tools = [Api("a__rain", "rain", "Forecasts rain for a city."), Api("c__sms", "SMS"),
    ...          Api("b__weather", "weather", "The weather of a city: a forecast of rain.")]
    >>> capabilities = Capabilities(Likeness(tools, with_server=False), [each.id for each in tools])
    >>> capabilities.equivalents("a__rain"), capabilities.equivalents("c__sms")
    (('b__weather',), ())
    """

    def __init__(
        self,
        likeness: Likeness,
        apis: Iterable[str],
        *,
        alike: float = ALIKE,
        relative: float = RELATIVE,
        gives: Callable[[str], Collection[str]] | None = None,
    ) -> None:
        self.likeness = likeness
        self.apis = tuple(apis)
        self.alike = check_number("alike", alike, 0, 1)
        self.relative = check_number("relative", relative, 0, 1)
        self.gives = gives
        self._found: dict[str, dict[str, float]] = {}

    def equivalents(self, api: str) -> tuple[str, ...]:
        """Return who could do the work of an API, the most alike first."""
        return tuple(self.likeness_of(api))

    def likeness_of(self, api: str) -> Mapping[str, float]:
        """Return how alike each of the equivalents is, in [0, 1], the most alike first."""
        found = self._found.get(api)
        if found is None:
            own = contractor_of(api)
            others = [each for each in self.apis if contractor_of(each) != own]
            like = self.likeness.of(api, others)
            least = max(self.alike, self.relative * max(like.values(), default=0.0))
            kept = [(name, c) for name, c in like.items() if c >= least]
            found = dict(sorted(kept, key=lambda pair: -pair[1]))
            self._found[api] = found
        return {name: c for name, c in found.items() if self._gives_the_same(api, name)}

    def _gives_the_same(self, api: str, other: str) -> bool:
        """Return whether nothing is known of what two APIs give that tells them apart."""
        if self.gives is None:
            return True
        one, two = set(self.gives(api)), set(self.gives(other))
        return not one or not two or 2 * len(one & two) >= len(one | two)

    def __repr__(self) -> str:
        return f"Capabilities({len(self.apis):,} APIs, alike from {self.alike:g} on)"
