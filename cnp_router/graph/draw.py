"""A picture of a neighbourhood of a transition graph. Needs matplotlib (extra ``plot``)."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import InputError, MissingExtraError
from cnp_router.files import atomic_write
from cnp_router.graph.export import to_networkx, xml_text
from cnp_router.graph.transitions import TransitionGraph

if TYPE_CHECKING:
    import networkx

__all__ = ["draw_graph"]

_MIDDLE = "#1b1f3b"
_OTHER = "#b8bcc4"
# Okabe and Ito's palette without black: told apart by people with any colour vision.
_PALETTE = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7")
_NEAR: dict[str, Any] = {"color": "#8a93a6", "alpha": 0.75, "zorder": 2}
_FAR: dict[str, Any] = {"color": "#c9ced8", "alpha": 0.55, "zorder": 1}
_LABEL_LENGTH = 26
_POINTS = 72.0  # points to an inch
_MARGIN = 0.25  # inches

Array = NDArray[np.float64]


def draw_graph(
    graph: TransitionGraph,
    path: str | Path,
    *,
    around: Iterable[str],
    hops: int = 1,
    max_nodes: int = 25,
    min_count: int = 1,
    title: str | None = None,
    seed: int = 0,
) -> None:
    """Draw the strongest neighbours of some APIs.

    The area of a node grows with its usage, the width of an edge with its count (its square
    root, so that a hub does not hide the rest). The APIs in the middle are dark; the others have
    the colour of their first category, if a catalog was given to ``fit``.

    Parameters
    ----------
    graph : TransitionGraph
        Fitted.
    path : str or Path
        Ending in ``.png`` or ``.svg``. Written atomically.
    around : iterable of str
        The ids in the middle.
    hops, max_nodes, min_count
        As in `cnp_router.graph.to_networkx`.
    title : str, optional
    seed : int, default=0
        Of the spring layout. The same graph and seed give the same picture.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If the ending is another one, or an argument is out of range.
    UnknownApiError, NotFittedError, DataFileError

    References
    ----------
    Fruchterman and Reingold, "Graph drawing by force-directed placement", Software: Practice
    and Experience 21(11), 1991, for the layout before labels are moved apart.
    """
    ending = Path(path).suffix.lower()
    if ending not in (".png", ".svg"):
        raise InputError(f"cannot draw to {str(path)!r} (end it in .png or .svg)")
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as exc:
        raise MissingExtraError("drawing", package="matplotlib", extra="plot") from exc
    middle = around if isinstance(around, str) else list(around)
    network = to_networkx(graph, min_count=min_count, around=middle, hops=hops, max_nodes=max_nodes)
    with (
        mpl.rc_context({"svg.hashsalt": "cnp-router", "font.family": "DejaVu Sans"}),
        warnings.catch_warnings(),
    ):
        # A character that the font lacks is drawn as a box: that says enough.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        side = 5.0 + 0.9 * float(np.sqrt(len(network)))
        figure = Figure(figsize=(1.4 * side, side), facecolor="white")
        # Texts are measured on this canvas, so that the layout is the same for PNG and SVG.
        FigureCanvasAgg(figure)
        _paint(figure, network, set(middle), title, seed)
        metadata = {"Date": None} if ending == ".svg" else None
        with atomic_write(path, "wb") as out:
            figure.savefig(out, format=ending[1:], dpi=150, metadata=metadata)


def _paint(
    figure: Any, network: networkx.Graph, around: set[str], title: str | None, seed: int
) -> None:
    """Paint nodes with their labels, edges, title and legend. All lengths are in inches."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    middle = [node in around for node in network]
    colours, legend = _colours(network, middle)
    usage = np.array([n for _, n in network.nodes(data="usage")], dtype=float)
    radii = 0.07 + 0.33 * np.sqrt(usage / max(usage.max(), 1.0))
    names = (name for _, name in network.nodes(data="name"))
    labels = [_label(axes, name, m) for name, m in zip(names, middle, strict=True)]
    extents = [label.get_window_extent() for label in labels]
    sizes = np.array([(extent.width, extent.height) for extent in extents]) / figure.dpi
    # A node and the label below it make one box.
    boxes = 0.12 + np.column_stack([np.maximum(sizes[:, 0], 2 * radii), 2 * radii + sizes[:, 1]])
    top = height - (0.55 if title else 0.0) - _MARGIN
    bottom = (0.45 if legend else 0.0) + _MARGIN
    area = np.array([[_MARGIN, bottom], [width - _MARGIN, top]])
    spots = _apart(_spread(_springs(network, seed), boxes, area), boxes, area)
    spots[:, 1] += boxes[:, 1] / 2 - radii - 0.06
    _paint_edges(axes, network, middle, spots, radii)
    axes.scatter(
        *spots.T, s=(2 * radii * _POINTS) ** 2, c=colours,
        edgecolors="white", linewidths=1.2, zorder=3,
    )  # fmt: skip
    for label, (x, y), radius in zip(labels, spots, radii, strict=True):
        label.set_position((x, y - radius - 0.04))
    if title:
        axes.text(
            width / 2, height - _MARGIN, title, ha="center", va="top",
            fontsize=14, fontweight="bold", color=_MIDDLE, parse_math=False,
        )  # fmt: skip
    if legend:
        _paint_legend(axes, legend)


def _colours(network: networkx.Graph, middle: list[bool]) -> tuple[list[str], dict[str, str]]:
    """Colour of each node, and of each category that has one."""
    filed = ((text or "").split("; ")[0] for _, text in network.nodes(data="categories"))
    nodes = list(zip(filed, middle, strict=True))
    outer = Counter(name for name, in_middle in nodes if name and not in_middle)
    common = sorted(outer, key=lambda name: (-outer[name], name))
    legend = dict(zip(common, _PALETTE, strict=False))
    plain = _OTHER if legend else _PALETTE[1]
    colours = [_MIDDLE if in_middle else legend.get(name, plain) for name, in_middle in nodes]
    if legend and _OTHER in colours:
        legend["other"] = _OTHER
    return colours, legend


def _label(axes: Any, text: str, middle: bool) -> Any:
    import matplotlib.patheffects as effects

    name = " ".join(xml_text(text).split())
    if len(name) > _LABEL_LENGTH:
        name = name[: _LABEL_LENGTH - 1].rstrip() + "…"
    return axes.text(
        0, 0, name, ha="center", va="top", zorder=4, color=_MIDDLE, parse_math=False,
        fontsize=11 if middle else 8.5, fontweight="bold" if middle else "normal",
        path_effects=[effects.withStroke(linewidth=2.5, foreground="white")],
    )  # fmt: skip


def _paint_edges(
    axes: Any, network: networkx.Graph, middle: list[bool], spots: Array, radii: Array
) -> None:
    from matplotlib.patches import FancyArrowPatch

    place = {node: position for position, node in enumerate(network)}
    edges = [(place[a], place[b], count) for a, b, count in _edges(network)]
    largest = max((count for *_, count in edges), default=1)
    directed = network.is_directed()
    shape: dict[str, Any] = {"arrowstyle": "-", "capstyle": "round"}
    if directed:
        shape = {"arrowstyle": "-|>", "connectionstyle": "arc3,rad=0.12", "capstyle": "butt"}
    gaps = radii * _POINTS * directed
    for i, j, count in sorted(edges, key=lambda edge: edge[2]):
        width = 0.5 + 5.0 * float(np.sqrt(count / largest))
        shade = _NEAR if middle[i] or middle[j] else _FAR
        arrow = FancyArrowPatch(
            tuple(spots[i]), tuple(spots[j]), shrinkA=gaps[i], shrinkB=gaps[j], linewidth=width,
            mutation_scale=10, **shape, **shade,
        )  # fmt: skip
        axes.add_patch(arrow)


def _paint_legend(axes: Any, legend: dict[str, str]) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], marker="o", linestyle="", markersize=8, color=colour, label=name)
        for name, colour in legend.items()
    ]
    axes.legend(
        handles=marks, loc="lower center", ncols=len(marks), frameon=False, fontsize=8.5,
        handletextpad=0.1, columnspacing=1.2,
    )  # fmt: skip


def _edges(network: networkx.Graph) -> list[tuple[str, str, int]]:
    """Return the edges with their counts, loops left out."""
    return [(a, b, count) for a, b, count in network.edges(data="count") if a != b]


def _springs(network: networkx.Graph, seed: int) -> Array:
    import networkx as nx

    plain = nx.Graph()
    plain.add_nodes_from(network)
    plain.add_weighted_edges_from((a, b, 0.3 + np.log1p(count)) for a, b, count in _edges(network))
    places = nx.spring_layout(plain, seed=seed, k=3 / np.sqrt(len(network)), iterations=200)
    return np.array([places[node] for node in network])


def _spread(places: Array, boxes: Array, area: Array) -> Array:
    """Scale a layout so that its boxes just fill the area."""
    low, extent = places.min(axis=0), np.ptp(places, axis=0)
    flat = extent <= 1e-9
    share = np.where(flat, 0.5, (places - low) / np.where(flat, 1.0, extent))
    first, last = area[0] + boxes / 2, area[1] - boxes / 2
    return np.asarray(first + share * np.maximum(last - first, 0.0))


def _apart(centres: Array, boxes: Array, area: Array, rounds: int = 400) -> Array:
    """Move overlapping boxes apart, each pair along the axis where less is needed."""
    least = (boxes[:, None] + boxes) / 2
    order = np.sign(np.subtract.outer(np.arange(len(boxes)), np.arange(len(boxes))))[..., None]
    for _ in range(rounds):
        between = centres[:, None] - centres
        overlap = least - np.abs(between)
        hits = np.asarray((overlap > 1e-6).all(axis=2))
        np.fill_diagonal(hits, False)
        if not hits.any():
            break
        # Two boxes at the same spot are told apart by their order.
        sign = np.where(between != 0, np.sign(between), order)
        along_x = overlap[..., 0] < overlap[..., 1]
        push = np.where(np.stack([along_x, ~along_x], axis=2), overlap * sign, 0.0)
        centres = centres + 0.3 * np.where(hits[..., None], push, 0.0).sum(axis=1)
        centres = np.clip(centres, area[0] + boxes / 2, np.maximum(area[1] - boxes / 2, area[0]))
    return centres
