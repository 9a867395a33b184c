"""Who of those that can do a job is to do it: negotiation, load, and messages to servers."""

from cnp_router.coordination.capabilities import Capabilities
from cnp_router.coordination.coordinated import Coordinated
from cnp_router.coordination.load import Load
from cnp_router.coordination.negotiator import Negotiator
from cnp_router.coordination.offers import Negotiation, Offer
from cnp_router.coordination.rpc import (
    CapabilitiesFound,
    Capability,
    CapabilityDiscover,
    CapabilityNegotiate,
    ContextKept,
    ContextPropagate,
    Negotiated,
    RpcError,
    RpcRequest,
    RpcResponse,
)

__all__ = [
    "Capabilities",
    "CapabilitiesFound",
    "Capability",
    "CapabilityDiscover",
    "CapabilityNegotiate",
    "ContextKept",
    "ContextPropagate",
    "Coordinated",
    "Load",
    "Negotiated",
    "Negotiation",
    "Negotiator",
    "Offer",
    "RpcError",
    "RpcRequest",
    "RpcResponse",
]
