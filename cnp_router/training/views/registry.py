"""The views, in the order in which their reasons are given: the most telling first."""

from __future__ import annotations

from cnp_router.training.views.base import View
from cnp_router.training.views.category import CategoryView
from cnp_router.training.views.co_usage import CoUsageView
from cnp_router.training.views.expected import ExpectedView
from cnp_router.training.views.history import HistoryView
from cnp_router.training.views.names import NamesView
from cnp_router.training.views.similar import SimilarView
from cnp_router.training.views.specification import SpecificationView

__all__ = ["VIEWS"]

VIEWS: tuple[type[View], ...] = (
    NamesView,
    CoUsageView,
    HistoryView,
    SpecificationView,
    CategoryView,
    ExpectedView,
    SimilarView,
)
