"""Report pages: what was measured as one HTML file that needs nothing else (extra ``report``)."""

from cnp_router.reports.page import Figure, Page, Section, rendered
from cnp_router.reports.writing import PAGES, check_html, write_html

__all__ = ["PAGES", "Figure", "Page", "Section", "check_html", "rendered", "write_html"]
