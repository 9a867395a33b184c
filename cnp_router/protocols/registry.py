"""`PROTOCOLS`: the protocols by name. To add one, add its file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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

_ALL = (
    Learned(),
    ManagerLed(),
    ContractorLed(),
    Collaborative(),
    Hierarchical(),
    SingleAgent(),
    Auto(),
)

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType({each.name: each for each in _ALL})
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
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        raise InputError(
            f"unknown protocol {shown(protocol)} (use one of {', '.join(PROTOCOLS)}, or a Protocol "
            "of your own)"
        )
    return PROTOCOLS[protocol]
