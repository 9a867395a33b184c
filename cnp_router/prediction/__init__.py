"""Which tool an agent calls next: foretold from its steps, its goal and what came before."""

from cnp_router.prediction.base import (
    Candidate,
    Context,
    NextTool,
    NextToolPredictor,
    State,
)
from cnp_router.prediction.calibrated import Fading
from cnp_router.prediction.choice import ChooseTool, ToolChoice, offline_choice
from cnp_router.prediction.context import ContextPredictor
from cnp_router.prediction.decision import RoutedTool, RouterSettings
from cnp_router.prediction.guards import Guards
from cnp_router.prediction.hints import Hint, ParameterHints
from cnp_router.prediction.priors import Priors
from cnp_router.prediction.replay import (
    THRESHOLDS,
    AlwaysAsk,
    AtThreshold,
    MethodReplay,
    Replay,
    default_predictors,
    replay,
)
from cnp_router.prediction.router import NextToolRouter
from cnp_router.prediction.run import AgentRun
from cnp_router.prediction.schedule import Coverage, Schedule
from cnp_router.prediction.transitions import BackoffPredictor, FirstOrderPredictor

__all__ = [
    "THRESHOLDS",
    "AgentRun",
    "AlwaysAsk",
    "AtThreshold",
    "BackoffPredictor",
    "Candidate",
    "ChooseTool",
    "Context",
    "ContextPredictor",
    "Coverage",
    "Fading",
    "FirstOrderPredictor",
    "Guards",
    "Hint",
    "MethodReplay",
    "NextTool",
    "NextToolPredictor",
    "NextToolRouter",
    "ParameterHints",
    "Priors",
    "Replay",
    "RoutedTool",
    "RouterSettings",
    "Schedule",
    "State",
    "ToolChoice",
    "default_predictors",
    "offline_choice",
    "replay",
]
