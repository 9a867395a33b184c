"""`Page`: what a report says, and `rendered`: one HTML file of it that loads nothing."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from cnp_router.evaluation.table import Table
from cnp_router.exceptions import InputError, MissingExtraError
from cnp_router.llm.redaction import without_secrets
from cnp_router.reports.listing import limited
from cnp_router.version import __version__

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["Figure", "Page", "Section", "check_template", "rendered", "template_source"]

# A figure that is wider than this has a row of its own, and scrolls where the screen is narrower.
_WIDEST_IN_GRID = 520
_ID = re.compile(r"(?<=url\(#)[^)]+(?=\))", re.IGNORECASE)
_ELSEWHERE = re.compile(r"url\((?!#)", re.IGNORECASE)
# What an SVG may hold: nothing that runs, loads, or is HTML.
_ELEMENTS = {
    *("svg", "g", "defs", "use", "symbol", "marker", "pattern", "clipPath", "title", "desc"),
    *("path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture, what it says in words, and the figures in it.

    Parameters
    ----------
    title : str
    svg : str
        One ``<svg>`` with a ``viewBox``. Its colours are CSS variables of the page
        (``fill="var(--ink)"``), so that it is readable in light and in dark.
    says : str
        What one sees, in a sentence or two: for whoever cannot see it.
    table : Table or None, default=None
        The figures that are drawn.
    """

    title: str
    svg: str
    says: str
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: paragraphs, figures, tables, in this order.

    Parameters
    ----------
    title : str
    text : tuple of str, default=()
        A paragraph each.
    figures : tuple of Figure, default=()
    tables : tuple of Table, default=()
    """

    title: str
    text: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A report page. No text in it is markup.

    Parameters
    ----------
    title : str
    lead : tuple of str
        Paragraphs below the title: what this is about.
    facts : tuple of (str, str), default=()
        Label and value of the figures one looks at first: tiles at the top.
    sections : tuple of Section, default=()
    """

    title: str
    lead: tuple[str, ...]
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()


def rendered(page: Page) -> str:
    """Return a page as HTML.

    It has no script and loads nothing: its policy, in a ``<meta>``, allows its own style and
    nothing else. The ids of each figure are made its own. Secrets that can be told by name or shape
    are masked in all texts.

    Parameters
    ----------
    page : Page

    Returns
    -------
    str

    Raises
    ------
    InputError
        If an SVG is not well-formed XML, or holds what could run or load something.
    MissingExtraError
        If jinja2 is not installed.

    Examples
    --------
    >>> html = rendered(Page("Figures of <b>", ("Nothing was measured.",)))
    >>> html.splitlines()[0], "Figures of &lt;b&gt;</h1>" in html
    ('<!doctype html>', True)
    """
    template = _template()
    from markupsafe import Markup

    numbers = count(1)

    def embedded(figure: Figure, name: str) -> tuple[Any, bool]:
        svg, width = _embedded(figure, f"f{next(numbers)}-", name)
        return Markup(svg), width > _WIDEST_IN_GRID

    html: str = template.render(
        page=page,
        embedded=embedded,
        style_hash=_style_hash(),
        version=__version__,
    )
    return html


@cache
def template_source() -> str:
    """Return the text of the template."""
    return files("cnp_router.reports").joinpath("template.html").read_text(encoding="utf-8")


def check_template() -> None:
    """Raise MissingExtraError if there is no jinja2."""
    try:
        import jinja2  # noqa: F401
    except ImportError as exc:
        raise MissingExtraError("a report page", package="jinja2", extra="report") from exc


@cache
def _template() -> Template:
    check_template()
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: limited(value) if type(value) is str else value,
    )
    return environment.from_string(template_source())


@cache
def _style_hash() -> str:
    (style,) = re.findall("<style>(.*?)</style>", template_source(), re.DOTALL)
    return b64encode(hashlib.sha256(style.encode()).digest()).decode()


def _embedded(figure: Figure, prefix: str, name: str) -> tuple[str, float]:
    """Return the SVG of a figure for HTML, named, with ids that no other has; and its width."""
    root = _parsed(figure)
    referred_to = {id_ for each in root.iter() for id_ in _references(each)}
    for element in root.iter():
        element.tag = _local(element.tag)
        if element.tag not in _ELEMENTS:
            raise InputError(f"{figure.title}: an SVG cannot hold <{element.tag}> in a report")
        # The policy of the page allows no style attribute; the same as attributes of SVG.
        declared = dict(_declarations(element.attrib.pop("style", "")))
        attributes = {_local(key): value for key, value in element.attrib.items()} | declared
        if attributes.get("id") not in referred_to:
            attributes.pop("id", None)
        element.attrib.clear()
        for key, value in attributes.items():
            element.set(key, _checked(figure, key, value, prefix))
        element.text = without_secrets(element.text)
        element.tail = without_secrets(element.tail)
    root.set("role", "img")
    root.set("aria-labelledby", name)
    _, _, width, height = _view_box(figure, root)
    root.set("width", f"{width:g}")
    root.set("height", f"{height:g}")
    return ElementTree.tostring(root, encoding="unicode"), width


def _references(element: ElementTree.Element) -> Iterator[str]:
    """Return the ids that an element refers to."""
    for key, value in element.attrib.items():
        if _local(key) == "href":
            yield value.removeprefix("#")
        yield from _ID.findall(value)


def _checked(figure: Figure, key: str, value: str, prefix: str) -> str:
    if key == "id":
        return prefix + value
    if key == "href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    # In HTML, names of attributes are in no case.
    is_refused = key.lower() in ("href", "style") or key.lower().startswith("on")
    if is_refused or _ELSEWHERE.search(value):
        raise InputError(f"{figure.title}: an SVG cannot have {key}={value!r} in a report")
    return _ID.sub(lambda match: prefix + match[0], value)


def _declarations(style: str) -> Iterator[tuple[str, str]]:
    for declaration in style.split(";"):
        key, colon, value = declaration.partition(":")
        if key.strip() == "font":  # of older versions of matplotlib; the family is the page's
            yield "font-size", value.partition("px")[0].split()[-1]
        elif colon:
            yield key.strip(), value.strip()


def _view_box(figure: Figure, root: ElementTree.Element) -> tuple[float, float, float, float]:
    try:
        left, top, width, height = map(float, root.get("viewBox", "").split())
    except ValueError:
        raise InputError(f"{figure.title}: its SVG needs a viewBox of four numbers") from None
    return left, top, width, height


def _parsed(figure: Figure) -> ElementTree.Element:
    try:
        root = ElementTree.fromstring(figure.svg)
    except ElementTree.ParseError as exc:
        raise InputError(f"{figure.title}: its SVG is not well-formed XML: {exc}") from exc
    if _local(root.tag) != "svg":
        raise InputError(f"{figure.title}: expected an SVG, got <{_local(root.tag)}>")
    return root


def _local(name: str) -> str:
    return name.rpartition("}")[2]
