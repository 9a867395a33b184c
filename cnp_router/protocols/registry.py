"""`PROTOCOLS`: the protocols by name. To add one, add its file and a line here."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from cnp_router.exceptions import InputError
from cnp_router.protocols.auto import Auto
from cnp_router.protocols.collaborative import Collaborative
from cnp_router.protocols.contractor_led import ContractorLed
from cnp_router.protocols.hierarchical import Hierarchical
from cnp_router.protocols.learned import Learned
from cnp_router.protocols.manager_led import ManagerLed
from cnp_router.protocols.protocol import Protocol
from cnp_router.protocols.single_agent import SingleAgent
from cnp_router.records import shown

__all__ = ["PROTOCOLS", "find_protocol"]


class _Registry(Mapping[str, Protocol]):
    """Protocols by name. One of a room above this one is named by its place, and made when asked.

    Its name is the last part of its module, with hyphens.
    """

    def __init__(self, *protocols: Protocol | str) -> None:
        self._all: dict[str, Protocol | str] = {
            _name(each) if isinstance(each, str) else each.name: each for each in protocols
        }

    def __getitem__(self, name: str) -> Protocol:
        found = self._all[name]
        if isinstance(found, str):
            place, _, kind = found.partition(":")
            made: Protocol = getattr(importlib.import_module(place), kind)()
            found = self._all[name] = made
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def _name(place: str) -> str:
    return place.partition(":")[0].rpartition(".")[2].replace("_", "-")


PROTOCOLS: Mapping[str, Protocol] = _Registry(
    Learned(),
    ManagerLed(),
    ContractorLed(),
    Collaborative(),
    Hierarchical(),
    SingleAgent(),
    Auto(),
    "cnp_router.coordination.coordinated:Coordinated",
)
"""The protocols by name, in the order in which they are listed."""


def find_protocol(protocol: str | Protocol) -> Protocol:
    """Return a protocol by its name; one of one's own is returned as it is.

    Raises
    ------
    InputError
        If there is no such protocol.

    Examples
    --------
    >>> find_protocol("single-agent")
    SingleAgent()
    """
    if isinstance(protocol, Protocol):
        return protocol
    if isinstance(protocol, type) and issubclass(protocol, Protocol):
        raise InputError(
            f"{protocol.__name__} is a class (give an instance: {protocol.__name__}())"
        )
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        raise InputError(
            f"unknown protocol {shown(protocol)} (use one of {', '.join(PROTOCOLS)}, or a Protocol "
            "of your own)"
        )
    return PROTOCOLS[protocol]
