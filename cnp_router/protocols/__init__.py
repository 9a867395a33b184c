"""The Contract Net: messages, transcript and ledger; three protocols and a single agent."""

from cnp_router.protocols.acting import Acting, Actor, AwardedApi
from cnp_router.protocols.audience import Audience
from cnp_router.protocols.auto import choose_protocol
from cnp_router.protocols.ledger import Cost, ExecutionCost, Ledger, ModelCall
from cnp_router.protocols.messages import (
    Award,
    CallForProposals,
    Cancel,
    Failure,
    InformResult,
    Message,
    Proposal,
    Refusal,
    Rejection,
    Report,
    Request,
    message_from_dict,
)
from cnp_router.protocols.metered import Books, MeteredModel
from cnp_router.protocols.negotiation import NegotiatedProtocol
from cnp_router.protocols.net import ContractNet
from cnp_router.protocols.outcome import Choice, Outcome, Stages
from cnp_router.protocols.parties import Parties
from cnp_router.protocols.plan import AnnouncementPlan
from cnp_router.protocols.protocol import Announcement, Protocol
from cnp_router.protocols.registry import PROTOCOLS, find_protocol
from cnp_router.protocols.round import Invitation, Result, Round
from cnp_router.protocols.settings import RoundSettings, TrafficBudget
from cnp_router.protocols.transcript import Transcript
from cnp_router.protocols.validation import Conclusion, validate
from cnp_router.protocols.waves import Waves

__all__ = [
    "PROTOCOLS",
    "Acting",
    "Actor",
    "Announcement",
    "AnnouncementPlan",
    "Audience",
    "Award",
    "AwardedApi",
    "Books",
    "CallForProposals",
    "Cancel",
    "Choice",
    "Conclusion",
    "ContractNet",
    "Cost",
    "ExecutionCost",
    "Failure",
    "InformResult",
    "Invitation",
    "Ledger",
    "Message",
    "MeteredModel",
    "ModelCall",
    "NegotiatedProtocol",
    "Outcome",
    "Parties",
    "Proposal",
    "Protocol",
    "Refusal",
    "Rejection",
    "Report",
    "Request",
    "Result",
    "Round",
    "RoundSettings",
    "Stages",
    "TrafficBudget",
    "Transcript",
    "Waves",
    "choose_protocol",
    "find_protocol",
    "message_from_dict",
    "validate",
]
