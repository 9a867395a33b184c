"""Manager and contractor: their reasoning tasks, prompts, and how contractors are organised."""

from cnp_router.agents.agent import Asked, ask
from cnp_router.agents.answers import (
    AnswerModel,
    ApiSelection,
    Bid,
    CategoryMapping,
    Composition,
    Decomposition,
    ProposedApi,
)
from cnp_router.agents.delegate import ComposeAnswer, Delegate, Delegation, WantedAsk
from cnp_router.agents.evidence import ApiEvidence, evidence_of
from cnp_router.agents.fallback import CategoryFallback
from cnp_router.agents.fill_inputs import FillInputs, InputHint, WrittenInputs
from cnp_router.agents.limits import AnswerLimits
from cnp_router.agents.next_act import NextAct, NextStep, ShownHistory, TriedCall, WantedCall
from cnp_router.agents.offline_answers import offline_model
from cnp_router.agents.organisation import Organisation, organise
from cnp_router.agents.plan_jobs import DoneJob, FailedJob, PlanJobs, PlannedJob, PlannedJobs
from cnp_router.agents.tasks import (
    ComposeAlone,
    Decompose,
    InterpretRequest,
    MapCategories,
    MatchFunction,
    SelectApis,
    ServeFunction,
    Task,
)

__all__ = [
    "AnswerLimits",
    "AnswerModel",
    "ApiEvidence",
    "ApiSelection",
    "Asked",
    "Bid",
    "CategoryFallback",
    "CategoryMapping",
    "ComposeAlone",
    "ComposeAnswer",
    "Composition",
    "Decompose",
    "Decomposition",
    "Delegate",
    "Delegation",
    "DoneJob",
    "FailedJob",
    "FillInputs",
    "InputHint",
    "InterpretRequest",
    "MapCategories",
    "MatchFunction",
    "NextAct",
    "NextStep",
    "Organisation",
    "PlanJobs",
    "PlannedJob",
    "PlannedJobs",
    "ProposedApi",
    "SelectApis",
    "ServeFunction",
    "ShownHistory",
    "Task",
    "TriedCall",
    "WantedAsk",
    "WantedCall",
    "WrittenInputs",
    "ask",
    "evidence_of",
    "offline_model",
    "organise",
]
