"""Pictures for the docs: SVG files that are the same each time. They need matplotlib."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cnp_router.evaluation.plots import check_plots
from cnp_router.files import atomic_write

__all__ = ["GRID", "INK", "PALETTE", "svg_figure"]

GRID = "#e3e6ec"
INK = "#444444"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
"""Okabe and Ito's: distinct to people with any colour vision."""


@contextmanager
def svg_figure(path: Path, *, width: float, height: float) -> Iterator[Any]:
    """Yield an empty figure, and write it as an SVG: the same each time, with text as text."""
    check_plots()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    fixed: dict[Any, Any] = {
        "svg.hashsalt": "cnp-router",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9.0,
    }
    with mpl.rc_context(fixed):
        figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
        yield figure
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as out:
        out.write(_compact(drawn.getvalue()))


def _compact(svg: str) -> str:
    """Return a drawing without indentation, spaces and groups that change nothing.

    The numbers in its tags are cut to a tenth of a point.
    """
    tags = re.sub(r"<[^>]*>", lambda tag: _short(tag[0]), svg)
    lines = re.sub(r"\n *", "\n", re.sub(r"\s*<g/>", "", tags))
    # A group that has no properties and no other group in it.
    return re.sub(r"<g>\n((?:(?!</?g\b).)*?)</g>\n", r"\1", lines, flags=re.DOTALL)


def _short(tag: str) -> str:
    tag = re.sub(r"(\d\.\d)\d+", r"\1", tag).replace(" \n", "\n")
    tag = re.sub(r'^<g id="[^"]*"', "<g", tag)  # nothing refers to it
    return re.sub(r'style="[^"]*"', lambda style: re.sub("([:;]) ", r"\1", style[0]), tag)
