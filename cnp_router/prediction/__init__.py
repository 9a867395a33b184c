"""Which tool an agent calls next: predicted from its steps, its goal and what came before."""

from cnp_router.prediction.agent_run import AgentRun
from cnp_router.prediction.calibrated import (
    AlwaysAsk,
    CalibratedPredictor,
    Decay,
    Judgement,
    Priors,
)
from cnp_router.prediction.choose_tool import ChooseTool, ToolChoice, offline_choice
from cnp_router.prediction.context import ContextPredictor
from cnp_router.prediction.hints import Hint, ParameterHints
from cnp_router.prediction.next_tool import NextToolRouter
from cnp_router.prediction.policy import NextToolPolicy, RoutedTool
from cnp_router.prediction.predictor import (
    Candidate,
    Context,
    NextTool,
    NextToolPredictor,
    State,
)
from cnp_router.prediction.transition_graph import BackoffPredictor, FirstOrderPredictor

PREDICTORS: dict[str, type[NextToolPredictor]] = {
    kind.name: kind for kind in (ContextPredictor, BackoffPredictor, FirstOrderPredictor, AlwaysAsk)
}
"""Every predictor by its name: what a log is replayed with, unless others are given."""

__all__ = [
    "PREDICTORS",
    "AgentRun",
    "AlwaysAsk",
    "BackoffPredictor",
    "CalibratedPredictor",
    "Candidate",
    "ChooseTool",
    "Context",
    "ContextPredictor",
    "Decay",
    "FirstOrderPredictor",
    "Hint",
    "Judgement",
    "NextTool",
    "NextToolPolicy",
    "NextToolPredictor",
    "NextToolRouter",
    "ParameterHints",
    "Priors",
    "RoutedTool",
    "State",
    "ToolChoice",
    "offline_choice",
]
