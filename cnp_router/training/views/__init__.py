"""The views: each looks at a request from one side, proposes APIs and says something of each.

A view sees the history, the specifications or both. None of its scores is a probability; the
ranker weighs them against each other.
"""

from cnp_router.training.views.base import Batch, Behind, Candidates, Evidence, View
from cnp_router.training.views.category import CategoryView
from cnp_router.training.views.co_usage import CoUsageView
from cnp_router.training.views.past_requests import HistoryView, Neighbours
from cnp_router.training.views.together import VIEWS, Views, applying

__all__ = [
    "VIEWS",
    "Batch",
    "Behind",
    "Candidates",
    "CategoryView",
    "CoUsageView",
    "Evidence",
    "HistoryView",
    "Neighbours",
    "View",
    "Views",
    "applying",
]
