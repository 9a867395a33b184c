"""The views, in the order of their features."""

from __future__ import annotations

from cnp_router.training.views.base import View
from cnp_router.training.views.category import CategoryView
from cnp_router.training.views.co_usage import CoUsageView
from cnp_router.training.views.expected import ExpectedView
from cnp_router.training.views.names import NamesView
from cnp_router.training.views.past_requests import HistoryView
from cnp_router.training.views.similar import SimilarView
from cnp_router.training.views.specification import SpecificationView

__all__ = ["VIEWS"]

VIEWS: tuple[type[View], ...] = (
    HistoryView,
    SpecificationView,
    NamesView,
    ExpectedView,
    CategoryView,
    CoUsageView,
    SimilarView,
)
