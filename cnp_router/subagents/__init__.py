"""Agents as tools: asked one at a time or together, and an orchestrator that knows whom to ask."""

from cnp_router.subagents.agent_source import SubAgents
from cnp_router.subagents.in_parallel import AgentResult, Ask, Merged, merge, run_parallel
from cnp_router.subagents.orchestrator import Orchestrator, Served
from cnp_router.subagents.question import Answer, Question
from cnp_router.subagents.sub_agent import MOST_DEPTH, Reply, SubAgent

__all__ = [
    "MOST_DEPTH",
    "AgentResult",
    "Answer",
    "Ask",
    "Merged",
    "Orchestrator",
    "Question",
    "Reply",
    "Served",
    "SubAgent",
    "SubAgents",
    "merge",
    "run_parallel",
]
