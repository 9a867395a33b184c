"""Who receives the announcement: routers, recipients and how they are chosen."""

from cnp_router.routing.baselines import (
    BroadcastRouter,
    HistoryKNNRouter,
    PopularityRouter,
    RandomRouter,
    SpecificationRouter,
)
from cnp_router.routing.recall import RecallControl
from cnp_router.routing.result import Reason, Recipient, Routing, Scores
from cnp_router.routing.router import Router
from cnp_router.routing.selection import (
    MaxCost,
    Ranked,
    SelectionRule,
    TargetRecall,
    TopK,
)
from cnp_router.routing.shortlisting import Shortlist, shortlist
from cnp_router.routing.unsure import Fallback

__all__ = [
    "BroadcastRouter",
    "Fallback",
    "HistoryKNNRouter",
    "MaxCost",
    "PopularityRouter",
    "RandomRouter",
    "Ranked",
    "Reason",
    "RecallControl",
    "Recipient",
    "Router",
    "Routing",
    "Scores",
    "SelectionRule",
    "Shortlist",
    "SpecificationRouter",
    "TargetRecall",
    "TopK",
    "shortlist",
]
