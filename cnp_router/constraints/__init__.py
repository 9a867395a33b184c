"""Which items to choose: rules that hold, and preferences that are weighed."""

from cnp_router.constraints.broken import Broken, broken
from cnp_router.constraints.conflicts import Conflict, conflict_of
from cnp_router.constraints.rules import Preference, Problem, Rule
from cnp_router.constraints.solving import Solution, solve

__all__ = [
    "Broken",
    "Conflict",
    "Preference",
    "Problem",
    "Rule",
    "Solution",
    "broken",
    "conflict_of",
    "solve",
]
