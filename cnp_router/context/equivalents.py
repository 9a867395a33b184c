"""`Equivalents`: which APIs give the same data."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

from cnp_router.catalog import Api
from cnp_router.context.canonical import parameter_names
from cnp_router.context.context_vectors import cosine
from cnp_router.context.data_classes import contractor_of
from cnp_router.records import check_number
from cnp_router.text import TfidfEncoder, specification_text

__all__ = ["Equivalents"]

_MOST_TEXTS = 2_000  # that the frequency of words is learned from


class Equivalents:
    """Finds the APIs that give the same data as one: both read, and take the same parameters.

    Besides that, somebody says so; or, with `alike`, they belong to different sources, and their
    specifications are nearly the same: not so by default, as such sources may be two accounts. Two
    tools of one source are two for a reason.

    Parameters
    ----------
    given : callable, optional
        From an `Api` to ids.
    alike : float in [0, 1], optional
        Least cosine of the specifications, TF-IDF of their words.

    Examples
    --------
    >>> city = {"properties": {"city": {"type": "string"}}}
    >>> def api(id_, said, takes=city):
    ...     return Api(id_, "today", said, (), takes, "reads")
    >>> sky = api("sky__today", "The weather forecast of a city.")
    >>> found = Equivalents(alike=0.8)
    >>> _ = found.know((sky, api("air__today", "The weather forecast for a city."),
    ...                 api("sky__past", "The weather forecast of a city."),
    ...                 api("map__today", "The weather forecast of a city.", {"place": "string"})))
    >>> [each.id for each in found.of(sky)]
    ['air__today']
    """

    def __init__(
        self, given: Callable[[Api], Collection[str]] | None = None, *, alike: float | None = None
    ) -> None:
        self.given = given
        self.alike = None if alike is None else check_number("alike", alike, 0, 1)
        self._known: dict[str, Api] = {}
        self._found: dict[str, list[str]] = {}
        self._encoder: TfidfEncoder | None = None

    def know(self, apis: Sequence[Api], *, more: bool = False) -> bool:
        """Take the APIs there are, or more of them; return whether anything is new."""
        if more and all(api.id in self._known for api in apis):
            return False
        there = {api.id: api for api in apis}
        known = {**there, **self._known} if more else there
        if known == self._known:
            return False
        self._known = known
        self._found.clear()
        self._encoder = None
        return True

    def of(self, api: Api) -> list[Api]:
        """Return the APIs that give the same data, the API itself not among them."""
        if api.effects != "reads":
            return []
        given = [] if self.given is None else self.given(api)
        names = dict.fromkeys([*given, *self._alike(api)])
        known = (self._known[name] for name in names if name in self._known and name != api.id)
        takes = parameter_names(api)
        return [e for e in known if e.effects == "reads" and parameter_names(e) == takes]

    def _alike(self, api: Api) -> list[str]:
        if self.alike is None:
            return []
        found = self._found.get(api.id)
        if found is None:
            found = self._found[api.id] = self._compared(api, self.alike)
        return found

    def _compared(self, api: Api, least: float) -> list[str]:
        own, takes = contractor_of(api.id), parameter_names(api)
        others = [
            each
            for each in self._known.values()
            if each.effects == "reads"
            and contractor_of(each.id) != own
            and parameter_names(each) == takes
        ]
        if not others:
            return []
        if self._encoder is None:
            some = list(self._known.values())
            if len(some) > _MOST_TEXTS:
                some = random.Random(0).sample(some, _MOST_TEXTS)
            texts = [_said(each) for each in some]
            self._encoder = TfidfEncoder("word", min_df=1).fit(texts)
        vector = self._encoder.weights(_said(api))
        scored = [(cosine(vector, self._encoder.weights(_said(each))), each.id) for each in others]
        return [name for score, name in sorted(scored, reverse=True) if score >= least]


def _said(api: Api) -> str:
    """Return what an API says of itself, without its source: that differs anyway."""
    source = contractor_of(api.id)
    text = specification_text(api)
    return text if source == api.id else text.replace(f" . {source} . ", " . ", 1)
