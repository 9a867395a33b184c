"""The Contract Net: messages, transcript and ledger; three protocols and a single agent."""

from cnp_router.protocols.auto import Choice, choose_protocol
from cnp_router.protocols.ledger import Cost, Ledger, ModelCall
from cnp_router.protocols.messages import (
    Award,
    CallForProposals,
    Failure,
    Message,
    Proposal,
    Refusal,
    Rejection,
    Report,
    Request,
    message_from_dict,
)
from cnp_router.protocols.net import ContractNet
from cnp_router.protocols.outcome import Outcome, Stages
from cnp_router.protocols.protocol import Announcement, Protocol
from cnp_router.protocols.registry import PROTOCOLS
from cnp_router.protocols.settings import RoundSettings, TrafficBudget
from cnp_router.protocols.transcript import Transcript
from cnp_router.protocols.validation import Conclusion, validate

__all__ = [
    "PROTOCOLS",
    "Announcement",
    "Award",
    "CallForProposals",
    "Choice",
    "Conclusion",
    "ContractNet",
    "Cost",
    "Failure",
    "Ledger",
    "Message",
    "ModelCall",
    "Outcome",
    "Proposal",
    "Protocol",
    "Refusal",
    "Rejection",
    "Report",
    "Request",
    "RoundSettings",
    "Stages",
    "TrafficBudget",
    "Transcript",
    "choose_protocol",
    "message_from_dict",
    "validate",
]
