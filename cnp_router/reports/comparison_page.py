"""The page of a `Comparison`."""

from __future__ import annotations

from cnp_router.evaluation import Comparison
from cnp_router.evaluation.report import about, comparison_tables
from cnp_router.reports.page import Page, Section

__all__ = ["comparison_page"]


def comparison_page(comparison: Comparison) -> Page:
    """Return the page of a comparison."""
    sections = [
        Section(f"Contractors by {organisation}", tables=tuple(tables))
        for organisation, tables in comparison_tables(comparison).items()
    ]
    return Page("Protocols side by side", tuple(about(comparison)), sections=tuple(sections))
