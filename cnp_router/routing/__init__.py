"""Who receives the announcement: routers, recipients and how they are chosen."""

from cnp_router.routing.base import Fallback, Router
from cnp_router.routing.baselines import (
    BroadcastRouter,
    HistoryKNNRouter,
    PopularityRouter,
    RandomRouter,
    SpecificationRouter,
)
from cnp_router.routing.result import Reason, Recipient, Routing, Scores
from cnp_router.routing.selection import Budget, RecallControl, Selection, TargetRecall, TopK

__all__ = [
    "BroadcastRouter",
    "Budget",
    "Fallback",
    "HistoryKNNRouter",
    "PopularityRouter",
    "RandomRouter",
    "Reason",
    "RecallControl",
    "Recipient",
    "Router",
    "Routing",
    "Scores",
    "Selection",
    "SpecificationRouter",
    "TargetRecall",
    "TopK",
]
