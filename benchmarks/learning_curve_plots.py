"""The picture of the learning curve. It needs matplotlib (extra ``plot``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.figures import GRID, INK, PALETTE, svg_figure

__all__ = ["draw"]

_MARKERS = "os^DvPX*<>"
_PANELS = {
    "R@5 warm": "R@5, APIs that the history uses",
    "R@5 cold": "R@5, APIs that it does not",
    "F1": "F1 of the recommended set",
}


def draw(splits: Mapping[str, Any], path: Path) -> None:
    """Draw a row a split: recall by whether the needed API was used before, and F1.

    `splits` is what the track returns: by split, then size, the figures of each router.
    """
    names = list(
        dict.fromkeys(
            n for sizes in splits.values() for found in sizes.values() for n in found["routers"]
        )
    )
    with svg_figure(path, width=9.6, height=0.6 + 2.7 * len(splits)) as figure:
        rows = figure.subplots(len(splits), len(_PANELS), sharex=True, sharey=True, squeeze=False)
        for row, (split, sizes) in zip(rows, splits.items(), strict=True):
            for axes, figure_name in zip(row, _PANELS, strict=True):
                for place, name in enumerate(names):
                    _line(axes, sizes, name, figure_name, _look(place))
                _scale(axes, [found["mashups"] for found in sizes.values()])
            row[0].set_ylabel(split)
        for axes, title in zip(rows[0], _PANELS.values(), strict=True):
            axes.set_title(title, fontsize=10)
        for axes in rows[-1]:
            axes.set_xlabel("past mashups")
        _legend(figure, names)


def _line(
    axes: Any, sizes: Mapping[str, Any], name: str, figure: str, look: Mapping[str, Any]
) -> None:
    spots = [
        (found["mashups"], found["routers"][name][figure])
        for found in sizes.values()
        if found["routers"].get(name, {}).get(figure) is not None
    ]
    axes.plot([x for x, _ in spots], [y for _, y in spots], **look)


def _look(place: int) -> dict[str, Any]:
    """Return the look of a router's line: that of the first, the learned one, stands out."""
    first = place == 0
    return {
        "color": PALETTE[place % len(PALETTE)],
        "marker": _MARKERS[place % len(_MARKERS)],
        "linewidth": 2.4 if first else 1.1,
        "markersize": 5.5 if first else 4.0,
        "zorder": 4 if first else 3,
    }


def _scale(axes: Any, sizes: list[int]) -> None:
    axes.set_xscale("symlog", linthresh=50)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
    axes.minorticks_off()
    axes.tick_params(length=0, labelcolor=INK)
    axes.set_ylim(0, 1)
    axes.grid(color=GRID)
    axes.set_axisbelow(True)


def _legend(figure: Any, names: list[str]) -> None:
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], label=name, **_look(place)) for place, name in enumerate(names)]
    figure.legend(
        handles=marks, loc="outside lower center", ncols=(len(marks) + 1) // 2, frameon=False
    )
