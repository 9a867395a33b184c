"""`PROTOCOLS`: the protocols by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cnp_router.protocols.protocol import Protocol

__all__ = ["PROTOCOLS"]


class _Learned(Protocol):
    name = "learned"
    summary = "The router recommends; no model is asked."
    needs_router = True
    announcements = ("routed",)
    has_contractors = False


class _ManagerLed(Protocol):
    name = "manager-led"
    summary = "The manager decomposes and maps the request; contractors match functions."


class _ContractorLed(Protocol):
    name = "contractor-led"
    summary = "Contractors interpret the whole request; the manager selects."


class _Collaborative(Protocol):
    name = "collaborative"
    summary = "The manager decomposes the request; contractors serve its functions."


class _SingleAgent(Protocol):
    name = "single-agent"
    summary = "One agent takes all steps in one context."
    has_contractors = False


class _Auto(Protocol):
    name = "auto"
    summary = "Chosen by the request: how confident the router is, how vague the text."
    needs_router = True
    announcements = ("routed",)


PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        each.name: each
        for each in (
            _Learned(),
            _ManagerLed(),
            _ContractorLed(),
            _Collaborative(),
            _SingleAgent(),
            _Auto(),
        )
    }
)
"""The protocols by name, in the order in which they are listed."""
