"""Plans that hold: a planner, executors that keep the rules, what is being made."""

from cnp_router.planning.data_flow import DataFlow, Need, data_flow, with_dependencies
from cnp_router.planning.decompose import decompose
from cnp_router.planning.guard import Guard
from cnp_router.planning.plan_and_execute import PlanAndExecute
from cnp_router.planning.planner import Planner
from cnp_router.planning.proven import Offer, ProvenPlans
from cnp_router.planning.react import ReAct
from cnp_router.planning.run import AgentTurn, Run
from cnp_router.planning.workspace import Workspace

__all__ = [
    "AgentTurn",
    "DataFlow",
    "Guard",
    "Need",
    "Offer",
    "PlanAndExecute",
    "Planner",
    "ProvenPlans",
    "ReAct",
    "Run",
    "Workspace",
    "data_flow",
    "decompose",
    "with_dependencies",
]
