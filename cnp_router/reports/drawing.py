"""`drawn`: a plot by matplotlib as an SVG whose text is text and whose colours are the page's."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from cnp_router.exceptions import MissingExtraError
from cnp_router.printing import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = [
    "COLOURS",
    "DASHES",
    "HATCHES",
    "MARKS",
    "SERIES",
    "behind",
    "check_drawing",
    "drawn",
    "logarithmic",
    "shares",
    "thousands",
]

_NAMES = (
    *("ink", "soft", "line", "card", "well", "rest", "bar", "accent", "good", "unsure", "bad"),
    *("s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"),
)
COLOURS = {name: f"#0000{place:02x}" for place, name in enumerate(_NAMES, start=1)}
"""What to draw with, by CSS variable of the page: ``COLOURS["ink"]`` becomes ``var(--ink)``."""

SERIES = tuple(COLOURS[f"s{number}"] for number in range(1, 9))
"""The colours of several lines or bars side by side."""

DASHES: tuple[Any, ...] = (
    *("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 3)), (0, (3, 3))),
)
MARKS = ("o", "s", "^", "D", "v", "P")
HATCHES = ("", "///", "...", "xxx", "---", "|||", "\\\\\\", "++")
"""Lines, their points, and bars differ in these too: not everyone sees colours, or prints them."""

_VARIABLES = {value: f"var(--{name})" for name, value in COLOURS.items()}
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_TAG = re.compile(r"<[^>]*>")
_HEAD = re.compile(r"\A.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL)
_FONT = 11.5
_STYLE: dict[Any, Any] = {
    "text.parse_math": False,  # names may hold a $
    "svg.fonttype": "none",
    "svg.hashsalt": "cnp-router",
    "font.family": "DejaVu Sans",
    "font.size": _FONT,
    "axes.titlesize": _FONT,
    "axes.labelsize": _FONT,
    "xtick.labelsize": _FONT - 0.5,
    "ytick.labelsize": _FONT - 0.5,
    "legend.fontsize": _FONT - 0.5,
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.0,
    "text.color": COLOURS["ink"],
    "axes.labelcolor": COLOURS["soft"],
    "xtick.color": COLOURS["soft"],
    "ytick.color": COLOURS["soft"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "axes.edgecolor": COLOURS["rest"],
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": COLOURS["line"],
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "patch.edgecolor": COLOURS["card"],
}


def check_drawing() -> None:
    """Raise MissingExtraError if there is no matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as exc:
        raise MissingExtraError("a report page", package="matplotlib", extra="report") from exc


def drawn(
    draw: Callable[[Axes], None], *, width: float = 360, height: float = 250, **axes: Any
) -> str:
    """Return a plot as one ``<svg>``.

    The same plot is the same text. Its ids are made the figure's own by `rendered`.

    Parameters
    ----------
    draw : callable
        Draws on axes, with colours of `COLOURS` only.
    width, height : float, pixels
    **axes
        For `matplotlib.figure.Figure.add_subplot`, such as ``xscale="log"``.

    Returns
    -------
    str

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> svg = drawn(lambda axes: axes.plot([0, 1], [0, 1], color=COLOURS["accent"]))
    >>> "var(--accent)" in svg, "#" in svg.replace("url(#", "").replace('href="#', "")
    (True, False)
    """
    check_drawing()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
        figure.patch.set_visible(False)
        draw(figure.add_subplot(**axes))
        out = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        with warnings.catch_warnings():
            # The font only measures: the browser has its own, for any script.
            warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
            figure.savefig(out, format="svg", metadata=nothing)
    svg = _HEAD.sub("", "\n".join(map(printable, out.getvalue().split("\n"))))
    return _TAG.sub(lambda tag: _coloured(tag[0]), svg).strip()


def _coloured(tag: str) -> str:
    return _COLOUR.sub(lambda colour: _VARIABLES[colour[0]], tag)


def logarithmic(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make one of the axes logarithmic, with whole numbers beside it."""
    axes.set(**{f"{which}scale": "log"})
    thousands(getattr(axes, f"{which}axis"))


def thousands(axis: Axis) -> None:
    """Let an axis have whole numbers beside it, and no ticks between them."""
    from matplotlib.ticker import NullLocator, StrMethodFormatter

    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.set_minor_locator(NullLocator())


def shares(axis: Axis) -> None:
    """Let an axis go from 0 to 1, in steps of a fifth."""
    from matplotlib.ticker import FixedLocator, StrMethodFormatter

    # Not `set_view_interval`, which axes of a common scale do not hear of.
    which = "x" if axis is axis.axes.xaxis else "y"
    axis.axes.set(**{f"{which}lim": (-0.02, 1.03)})
    axis.set_major_locator(FixedLocator([0, 0.2, 0.4, 0.6, 0.8, 1]))
    axis.set_major_formatter(StrMethodFormatter("{x:.1f}"))


def behind(axes: Axes, label: str) -> Axes:
    """Return axes for bars behind a plot, with a scale of their own on the right."""
    bars: Axes = axes.twinx()
    bars.grid(visible=False)
    bars.set_ylabel(label)
    axes.set_zorder(bars.get_zorder() + 1)
    return bars
