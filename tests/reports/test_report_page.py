from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from cnp_router.evaluation import Table
from cnp_router.exceptions import InputError
from cnp_router.printing import printable
from cnp_router.reports import Figure, Page, Section, rendered
from cnp_router.reports.page import template_source
from tests.reports.report_pages import HOSTILE, hostile_page, svg

# What is not closed in HTML.
VOID = {"meta", "link", "br", "img"}


class Tree(HTMLParser):
    """The elements of a page, with their attributes; each must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page_with(*figures: Figure) -> Page:
    return Page("Title", ("Lead.",), sections=(Section("Part", figures=figures),))


def test_text_of_others_is_never_markup():
    html = rendered(hostile_page())
    tree = Tree(html)
    assert not {"script", "img", "iframe", "object"} & {tag for tag, _ in tree.elements}
    assert not [a for _, a in tree.elements if any(key.startswith("on") for key in a)]
    assert len(tree.all("style")) == 1
    said = printable(HOSTILE)
    # Title of the page twice, lead, two in a fact, navigation, section with its text, and the
    # title, text and table of the figure, then the table again.
    assert sum(said in text for text in tree.texts) == 8 + 2 + 2 * 5
    labels = [a["aria-label"] for a in tree.all("div") if "aria-label" in a]
    assert labels == [f"Table: {said}", "Wide", f"Table: {said}"]
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_nothing_is_loaded_and_nothing_runs():
    html = rendered(hostile_page())
    assert not re.search(r"""(src|href|url)\s*[=(]\s*["']?(https?:)?//""", html)
    assert "@import" not in html
    (policy,) = [a["content"] for a in Tree(html).all("meta") if "http-equiv" in a]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_each_figure_has_a_name_its_text_and_its_table():
    table = Table("", ("k", "recall"), (("5", ".700"),))
    tree = Tree(rendered(page_with(Figure("Recall", svg(), "It rises.", table))))
    (drawing,) = tree.all("svg")
    assert drawing["role"] == "img"
    names = {a["id"] for a in tree.all("h3") if "id" in a}
    assert drawing["aria-labelledby"] in names
    assert "It rises." in tree.texts
    assert ".700" in tree.texts
    assert len(tree.all("details")) == 1


def test_ids_of_figures_do_not_collide_and_their_references_follow():
    tree = Tree(rendered(page_with(*(Figure(f"Figure {i}", svg(), "A line.") for i in range(3)))))
    ids = [a["id"] for _, a in tree.elements if "id" in a]
    assert len(ids) == len(set(ids))
    ends = [a["marker-end"] for a in tree.all("path") if "marker-end" in a]
    assert ends == ["url(#f1-end)", "url(#f2-end)", "url(#f3-end)"]
    assert {"f1-end", "f2-end", "f3-end"} <= set(ids)
    # The policy lets no style attribute through.
    assert not [a for _, a in tree.elements if "style" in a]
    assert [a["stroke"] for a in tree.all("path") if "marker-end" in a] == ["var(--s1)"] * 3


def test_each_drawing_is_read_once(monkeypatch):
    read = []
    real = ElementTree.fromstring
    monkeypatch.setattr(ElementTree, "fromstring", lambda text: read.append(text) or real(text))
    rendered(page_with(Figure("One", svg(), ""), Figure("Wide", svg(2_000), "")))
    assert len(read) == 2


def test_an_id_that_nothing_refers_to_is_left_out():
    inside = '<g id="a"/><g id="ab"/><use href="#ab"/><path fill="URL(#c)"/><path id="c"/>'
    html = rendered(page_with(Figure("F", f'<svg viewBox="0 0 1 1">{inside}</svg>', "")))
    drawing = [a for name, a in Tree(html).elements if name in ("g", "use", "path")]
    assert drawing == [{}, {"id": "f1-ab"}, {"href": "#f1-ab"}, {"fill": "URL(#f1-c)"},
                       {"id": "f1-c"}]  # fmt: skip


def test_whatever_can_scroll_is_reached_by_the_keyboard():
    tree = Tree(rendered(hostile_page()))
    scrolling = [a for a in tree.all("div") if a.get("class") == "scroll"]
    assert len(scrolling) == 3  # two tables and a figure that is wide
    assert all((a["tabindex"], a["role"]) == ("0", "region") for a in scrolling)
    assert all(a["aria-label"] for a in scrolling)


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("<script>x</script>", "cannot hold <script>"),
        ("<foreignObject/>", "cannot hold <foreignObject>"),
        ("<image/>", "cannot hold <image>"),
        ("<style>a{}</style>", "cannot hold <style>"),
        ('<path onclick="x"/>', "cannot have onclick='x'"),
        ('<use href="https://example.org/a.svg#a"/>', "cannot have href="),
        ('<path fill="url(https://example.org/a)"/>', "cannot have fill="),
        ('<path fill="URL(https://example.org/a)"/>', "cannot have fill="),
        ('<path fill="url(#a) Url( https://example.org/a)"/>', "cannot have fill="),
        ('<use HREF="https://example.org/a.svg#a"/>', "cannot have HREF="),
        ('<path STYLE="fill: red"/>', "cannot have STYLE="),
        ('<path onClick="x"/>', "cannot have onClick='x'"),
        ('<path style="fill: url(//example.org/a)"/>', "cannot have fill="),
        ("<path>", "not well-formed XML"),
    ],
)
def test_an_svg_that_could_run_or_load_something_is_refused(inside, said):
    figure = Figure("F", f'<svg viewBox="0 0 1 1">{inside}</svg>', "")
    with pytest.raises(InputError, match=re.escape(said)):
        rendered(page_with(figure))


@pytest.mark.parametrize("given", ["<g/>", "<svg/>", '<svg viewBox="0 0 a 1"/>', "no"])
def test_what_is_no_svg_with_a_view_box_is_refused(given):
    with pytest.raises(InputError, match=r"^F: "):
        rendered(page_with(Figure("F", given, "")))


def test_a_page_without_parts_has_no_navigation():
    tree = Tree(rendered(Page("Title", ())))
    assert not tree.all("nav")
    assert not tree.all("dl")
    assert [a["href"] for a in tree.all("a")] == ["#main"]


def schemes() -> dict[str, dict[str, str]]:
    """The colours of the page's schemes."""
    blocks = re.findall(r":root \{(.*?)\}", template_source(), re.DOTALL)
    light, dark, paper = (dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in blocks)
    return {"light": light, "dark": light | dark, "print": light | paper}


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_and_lines_can_be_seen(scheme):
    colours = schemes()[scheme]
    text = ["ink", "soft", "accent", "good", "unsure", "bad", "rest", "bar"]
    text += [f"s{n}" for n in range(1, 9)]
    grounds = ["paper", "card", "well"]
    assert {
        (name, ground): contrast(colours[name], colours[ground])
        for name in text
        for ground in grounds
        if contrast(colours[name], colours[ground]) < 4.5
    } == {}
    assert contrast(colours["accent"], colours["on-accent"]) >= 4.5
