"""Plans that hold: a planner, executors that keep the rules, what is being made."""

from cnp_router.planning.data_flow import DataFlow, Need, data_flow, with_dependencies
from cnp_router.planning.decompose import decompose
from cnp_router.planning.workspace import Workspace

__all__ = ["DataFlow", "Need", "Workspace", "data_flow", "decompose", "with_dependencies"]
