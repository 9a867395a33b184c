"""The Contract Net: messages, transcript and ledger; three protocols and a single agent."""

from cnp_router.protocols.choice import Choice, choose_protocol
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
from cnp_router.protocols.net import PROTOCOLS, Announce, ContractNet, ProtocolName
from cnp_router.protocols.outcome import Outcome, Stages
from cnp_router.protocols.replay import Replay, replay
from cnp_router.protocols.settings import RoundSettings, TrafficBudget
from cnp_router.protocols.transcript import Transcript

__all__ = [
    "PROTOCOLS",
    "Announce",
    "Award",
    "CallForProposals",
    "Choice",
    "ContractNet",
    "Cost",
    "Failure",
    "Ledger",
    "Message",
    "ModelCall",
    "Outcome",
    "Proposal",
    "ProtocolName",
    "Refusal",
    "Rejection",
    "Replay",
    "Report",
    "Request",
    "RoundSettings",
    "Stages",
    "TrafficBudget",
    "Transcript",
    "choose_protocol",
    "message_from_dict",
    "replay",
]
