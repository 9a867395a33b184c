"""`Observer`: what learns from the records of a store; `RouterObserver` teaches a fitted router."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from cnp_router.catalog import Api
from cnp_router.history import Mashup, parse_mashup
from cnp_router.records import Record

if TYPE_CHECKING:
    from cnp_router.training import LearnedRouter
    from cnp_router.trajectories import Trajectory

__all__ = ["Observer", "RouterObserver"]

_log = logging.getLogger(__name__)


class Observer(Protocol):
    """What learns from the records of a store.

    Attributes
    ----------
    kind : str
        Names its state; distinct in a store, and the same each time it is opened.
    """

    kind: str

    def check(self, records: Sequence[Trajectory | Mashup]) -> None:
        """Raise InputError if one of the records cannot be learned from. Changes nothing.

        All that are observed together are checked before the first of them is learned.
        """

    def apply(self, records: Sequence[Trajectory | Mashup]) -> None:
        """Learn from records: those that are observed together, or all when a store is opened.

        The same records give the same state. Those observed while this observer was not there
        were not checked by it: what it cannot learn from, it leaves out.
        """

    def state(self) -> dict[str, Any]:
        """Return all it has learned: JSON values, and numpy arrays at any depth of the dicts."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state.

        Raises
        ------
        InputError
            If its parameters do not go with the state.
        KeyError, TypeError, ValueError
            If it is not a state.
        """


class RouterObserver:
    """Has a `LearnedRouter` observe each mashup of an `OnlineStore`; trajectories are passed over.

    Its state is the mashups themselves: a router that was loaded, or fitted anew, observes them
    all at once when the store is opened.

    Parameters
    ----------
    router : LearnedRouter
        As it was fitted or loaded.

    Attributes
    ----------
    kind : str
        ``"router"``, the name of its state.
    catalog : Catalog
        What the mashups may name: what was removed from the router's is in it, too.
    n_learned : int
        Mashups that were new to the router; those of its history are passed over.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from cnp_router import Api, Catalog, History, fit_router
    >>> from cnp_router.online import OnlineStore
    >>> catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    >>> history = History([Mashup(f"m{n}", "bars on a map", ("maps",)) for n in range(4)])
    >>> router, file = fit_router(catalog, history), pathlib.Path(tempfile.mkdtemp(), "a.sqlite")
    >>> with OnlineStore(file, [RouterObserver(router)]) as store:
    ...     store.observe(Mashup("m9", "text me the news", ("sms",))).counted
    True
    >>> len(router.history)
    5
    """

    kind = "router"

    def __init__(self, router: LearnedRouter) -> None:
        self.n_learned = 0
        removed: tuple[str, ...] = getattr(router, "removed", ())  # others observe, too
        self.catalog = router.catalog.extended(Api(api, api) for api in removed)
        self._router = router
        self._mashups: list[Mashup] = []

    def check(self, records: Sequence[Trajectory | Mashup]) -> None:
        """Raise UnknownApiError for a mashup that names an API the catalog does not have.

        And what the router's encoder raises, if it has one: what it cannot read is not kept.
        """
        mashups = [record for record in records if isinstance(record, Mashup)]
        for mashup in mashups:
            for api in mashup.apis:
                self.catalog.position(api)
        encoders = getattr(self._router, "encoders", None)
        if mashups and encoders is not None and encoders.dense is not None:
            # It remembers some hundred, so that `apply` does not pay for them again.
            encoders.dense.encode([mashup.description for mashup in mashups])

    def apply(self, records: Sequence[Trajectory | Mashup]) -> None:
        """Learn from the mashups among some records."""
        mashups = [record for record in records if isinstance(record, Mashup)]
        self._mashups += mashups
        known = [m for m in mashups if all(api in self.catalog for api in m.apis)]
        if len(known) < len(mashups):  # observed for an earlier catalog
            left = len(mashups) - len(known)
            _log.warning("mashups that name APIs the catalog does not have, left out: %d", left)
        if known:
            self.n_learned += self._router.observe(known)

    def state(self) -> dict[str, Any]:
        """Return the mashups observed."""
        return {"mashups": [mashup.to_dict() for mashup in self._mashups]}

    def restore(self, state: dict[str, Any]) -> None:
        """Learn from the mashups of a state; see `Observer`."""
        records = (Record(fields, "state.json", None) for fields in state["mashups"])
        self.apply([parse_mashup(record) for record in records])

    def __repr__(self) -> str:
        return f"RouterObserver({len(self._mashups):,} mashups, {self.n_learned:,} new)"
