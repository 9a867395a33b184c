"""Who decides where a router is not confident: `Fallback`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from cnp_router.exceptions import InputError
from cnp_router.records import shown
from cnp_router.routing.result import Scores, Source

__all__ = ["Fallback", "fallback_called"]


@runtime_checkable
class Fallback(Protocol):
    """Who decides below the threshold: the seam for a language model.

    Attributes
    ----------
    source : {"llm", "broadcast"}
        What the routing gives as its source.
    """

    source: Source

    def recipients(self, request: str, scores: Scores, chosen: Sequence[str]) -> Sequence[str]:
        """Return the APIs to ask for besides those in `chosen`.

        Parameters
        ----------
        request : str
        scores : Scores
        chosen : sequence of str
            What the router chose. They stay recipients whatever is returned, and the router puts
            all of them in order.

        Returns
        -------
        sequence of str
            API ids. Those that may not be asked are dropped.
        """
        ...


class _Broadcast:
    """The fallback that announces to everyone."""

    source: Source = "broadcast"

    def recipients(self, request: str, scores: Scores, chosen: Sequence[str]) -> Sequence[str]:
        """Return every API."""
        return scores.apis


_FALLBACKS: dict[str, Fallback | None] = {"none": None, "broadcast": _Broadcast()}


def fallback_called(fallback: str | Fallback) -> Fallback | None:
    """Return who decides below the threshold; None if no one does."""
    if isinstance(fallback, str):
        if fallback in _FALLBACKS:
            return _FALLBACKS[fallback]
    elif isinstance(fallback, Fallback):
        return fallback
    raise InputError(f"unknown fallback {shown(fallback)} (use 'none', 'broadcast' or a Fallback)")
