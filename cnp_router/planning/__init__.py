"""Plans that hold: a planner, executors that keep the rules, what is being made."""

from cnp_router.planning.workspace import Workspace

__all__ = ["Workspace"]
