"""Agents as tools: asked one at a time or together, and an orchestrator that knows whom to ask."""

from cnp_router.subagents.agent_source import SubAgents
from cnp_router.subagents.question import Answer, Question
from cnp_router.subagents.sub_agent import MOST_DEPTH, Reply, SubAgent
from cnp_router.subagents.in_parallel import AgentResult, Ask, Merged, merge, run_parallel

__all__ = [
    "MOST_DEPTH",
    "AgentResult",
    "Answer",
    "Ask",
    "Merged",
    "Question",
    "Reply",
    "SubAgent",
    "SubAgents",
    "merge",
    "run_parallel",
]
