"""`Shapes`: an SVG built element by element, so that no text in it can be markup."""

from __future__ import annotations

import unicodedata
from xml.etree import ElementTree

from cnp_router.reports.listing import limited

__all__ = ["Shapes", "fitted", "time_text"]

_USUAL = 12  # pixels
_WIDTH = 0.61  # of a character, as a share of its height, in a wide font


class Shapes:
    """What a diagram is made of. Colours are names of the page's CSS variables.

    Examples
    --------
    >>> shapes = Shapes(100, 40)
    >>> shapes.text(8, 20, "<b>")
    >>> shapes.svg()
    '<svg viewBox="0 0 100 40"><text x="8" y="20" ...>&lt;b&gt;</text></svg>'
    """

    def __init__(self, width: float, height: float) -> None:
        self.root = ElementTree.Element("svg", viewBox=f"0 0 {width:g} {height:g}")
        self._into = self.root

    def svg(self) -> str:
        """Return the SVG."""
        return ElementTree.tostring(self.root, encoding="unicode")

    def begin(self, title: str) -> None:
        """Put what follows into a group that says this under the pointer."""
        self._into = ElementTree.SubElement(self.root, "g")
        ElementTree.SubElement(self._into, "title").text = limited(title, 400)

    def end(self) -> None:
        """End the group."""
        self._into = self.root

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        colour: str = "ink",
        size: float = _USUAL,
        bold: bool = False,
        anchor: str = "start",
        halo: str = "",
    ) -> None:
        """Write a line; a `halo` of a colour keeps it readable where lines cross it."""
        how = {"font-size": f"{size:g}", "fill": f"var(--{colour})"}
        if bold:
            how["font-weight"] = "600"
        if anchor != "start":
            how["text-anchor"] = anchor
        if halo:
            how |= {"stroke": f"var(--{halo})", "stroke-width": "4", "paint-order": "stroke"}
            how["stroke-linejoin"] = "round"
        element = self._add("text", x=x, y=y, **how)
        element.text = limited(text)

    def line(
        self,
        points: list[tuple[float, float]],
        *,
        colour: str = "soft",
        width: float = 1.4,
        dash: str = "",
    ) -> None:
        """Draw a line through some points."""
        path = " ".join(f"{'ML'[n > 0]}{x:.4g},{y:.5g}" for n, (x, y) in enumerate(points))
        self.path(path, colour=colour, width=width, dash=dash)

    def path(self, path: str, *, colour: str, width: float = 1.4, dash: str = "") -> None:
        """Draw a path."""
        how = {"fill": "none", "stroke": f"var(--{colour})", "stroke-width": f"{width:g}"}
        if dash:
            how["stroke-dasharray"] = dash
        self._add("path", d=path, **how)

    def head(self, x: float, y: float, *, right: bool, colour: str) -> None:
        """Draw the head of an arrow that ends here."""
        back = -8 if right else 8
        self._add(
            "path",
            d=f"M{x:.5g},{y:.5g} l{back},-4 v8 z",
            fill=f"var(--{colour})",
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = "",
        edge: str = "",
        edge_width: float = 1.4,
        dash: str = "",
        radius: float = 4,
        pattern: str = "",
    ) -> None:
        """Draw a box; `pattern` is the id of one of `stripes`."""
        paint = f"url(#{pattern})" if pattern else f"var(--{fill})" if fill else "none"
        how = {"fill": paint, "rx": f"{radius:g}"}
        if edge:
            how |= {"stroke": f"var(--{edge})", "stroke-width": f"{edge_width:g}"}
        if dash:
            how["stroke-dasharray"] = dash
        self._add("rect", x=x, y=y, width=max(width, 0), height=height, **how)

    def stripes(self, name: str, colour: str, ground: str, path: str) -> None:
        """Define a pattern of lines, 8 by 8 pixels, on a ground."""
        defs = ElementTree.SubElement(self.root, "defs")
        pattern = ElementTree.SubElement(
            defs, "pattern", id=name, width="8", height="8", patternUnits="userSpaceOnUse"
        )
        ElementTree.SubElement(pattern, "rect", width="8", height="8", fill=f"var(--{ground})")
        ElementTree.SubElement(
            pattern, "path", {"d": path, "stroke": f"var(--{colour})", "stroke-width": "1.6"}
        )

    def _add(self, tag: str, **attributes: float | str) -> ElementTree.Element:
        said = {k: v if isinstance(v, str) else f"{v:.5g}" for k, v in attributes.items()}
        return ElementTree.SubElement(self._into, tag, said)


def fitted(text: str, width: float, *, size: float = _USUAL) -> str:
    """Return as much of a text as fits into so many pixels, its end cut if it does not.

    Examples
    --------
    >>> fitted("google-calendar", 90), fitted("地図地図地図地図", 90)
    ('google-c...', '地図地...')
    """
    room = width / (_WIDTH * size)
    whole = limited(text)
    shown = whole[: 20 + 2 * int(room)]
    if shown == whole and _columns(shown) <= room:
        return shown
    while shown and _columns(shown) + 3 > room:
        shown = shown[:-1]
    return f"{shown.rstrip()}..."


def time_text(seconds: float) -> str:
    """Return a time for a person.

    Examples
    --------
    >>> time_text(0.0042), time_text(0.25), time_text(75)
    ('4 ms', '0.25 s', '75.0 s')
    """
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.1f} s"


def _columns(text: str) -> int:
    """Return how many characters of Latin a text is as wide as."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)
