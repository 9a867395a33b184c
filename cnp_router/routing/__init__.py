"""Who receives the announcement: routers, recipients and how they are chosen."""

import importlib
from typing import TYPE_CHECKING

from cnp_router.routing.recall import RecallControl
from cnp_router.routing.result import HeadScores, Reason, Recipient, Routing, Scores
from cnp_router.routing.router import Router
from cnp_router.routing.selection import (
    MaxCost,
    Ranked,
    SelectionRule,
    TargetRecall,
    TopK,
)
from cnp_router.routing.unsure import Fallback

if TYPE_CHECKING:
    from cnp_router.routing.baselines import (
        BroadcastRouter,
        HistoryKNNRouter,
        PopularityRouter,
        RandomRouter,
        SpecificationRouter,
    )
    from cnp_router.routing.shortlisting import Shortlist, shortlist

__all__ = [
    "BroadcastRouter",
    "Fallback",
    "HeadScores",
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


def __getattr__(name: str) -> object:
    """Import what the answer of a router that is there does not need."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = "shortlisting" if name in ("Shortlist", "shortlist") else "baselines"
    value: object = getattr(importlib.import_module(f"{__name__}.{place}"), name)
    globals()[name] = value
    return value
