"""Report pages in a real browser: nothing is asked for, nothing is cut off, the keyboard is enough.

A page is added to `MADE` to be looked at by all of these tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from hostile_results import execution_of, round_of
from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

from cnp_router import prequential
from cnp_router.evaluation import evaluate, learning_curve
from cnp_router.reports import rendered
from cnp_router.reports.comparison_page import comparison_page
from cnp_router.reports.evaluation_page import evaluation_page
from cnp_router.reports.writing import PAGES
from cnp_router.training import fit_router
from cnp_router.trajectories import Step, Trajectory
from tests.reports.report_pages import HOSTILE, comparison, hostile_page, is_scrolled
from tests.serving.page_server import Watch

# The text of an SVG may stand out of it by so many pixels.
SLACK = 3.0
OUTSIDE = """() => [...document.querySelectorAll("svg text")].filter((text) => {
  const inner = text.getBoundingClientRect(), outer = text.closest("svg").getBoundingClientRect();
  return inner.width && (inner.left < outer.left - SLACK || inner.right > outer.right + SLACK
    || inner.top < outer.top - SLACK || inner.bottom > outer.bottom + SLACK);
}).map((text) => text.textContent)""".replace("SLACK", str(SLACK))


def evaluated(sample: Any) -> str:
    router = fit_router(sample.catalog, sample.history[:40])
    held_out = sample.history[600:]
    curve = learning_curve(router, held_out, sizes=[0])
    return rendered(evaluation_page(evaluate(router, held_out), curve=curve))


def compared(sample: Any) -> str:
    protocols = ("manager-led", "contractor-led", "collaborative", "hierarchical", "single-agent")
    return rendered(comparison_page(comparison(protocols)))


def in_trouble(sample: Any) -> str:
    return rendered(
        comparison_page(
            comparison((HOSTILE, "single-agent"), ("api", "category"), error=HOSTILE),
            problem=HOSTILE,
        )
    )


def page_of(result: Any) -> str:
    return rendered(PAGES[type(result)](result))


def replayed(sample: Any) -> str:
    steps = tuple(Step(tool, input_tokens=10) for tool in ("weather", "sms", "weather", "sms"))
    return page_of(prequential(None, [Trajectory(f"t{n}", HOSTILE, steps) for n in range(12)]))


MADE: dict[str, Callable[[Any], str]] = {
    "evaluation": evaluated,
    "comparison": compared,
    "in trouble": in_trouble,
    "hostile": lambda sample: rendered(hostile_page()),
    "execution": lambda sample: page_of(execution_of(HOSTILE, n=9)),
    "plan": lambda sample: page_of(execution_of(HOSTILE, n=9).plan),
    "round": lambda sample: page_of(round_of(149)),
    "log": replayed,
}


@pytest.fixture(scope="module", params=MADE)
def file(request: Any, sample: Any, tmp_path_factory: Any) -> Path:
    place: Path = tmp_path_factory.mktemp("report") / "report.html"
    place.write_text(MADE[request.param](sample), encoding="utf-8")
    return place


@pytest.fixture
def opened(chromium: Browser, file: Path) -> Iterator[Callable[..., Tab]]:
    """Open the page; at the end nothing has been complained of, and nothing asked for."""
    contexts, watches, tabs = [], [], []

    def open_(width: int = 1400, **how: Any) -> Tab:
        context = chromium.new_context(viewport={"width": width, "height": 900}, **how)
        tab = context.new_page()
        contexts.append(context)
        tabs.append(tab)
        watches.append(Watch(tab))
        tab.goto(file.as_uri())
        return tab

    yield open_
    assert [tab.evaluate("window.hit") for tab in tabs] == [None] * len(tabs)
    for context in contexts:
        context.close()
    for watch in watches:
        assert watch.complaints == []
        assert [url for url in watch.urls if url != file.as_uri()] == []


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_cut_off_and_the_page_does_not_scroll_sideways(opened, width):
    tab = opened(width)
    for details in tab.locator("summary").all():
        details.click()
    wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert tab.evaluate(wide) <= 0
    assert tab.evaluate(OUTSIDE) == []


def test_it_is_dark_where_dark_is_wanted(opened):
    ground = "() => getComputedStyle(document.body).backgroundColor"
    line = "() => [...document.querySelectorAll('svg path')].map(p => getComputedStyle(p).stroke)"
    light, dark = (opened(color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(ground) == "rgb(246, 245, 242)"
    assert dark.evaluate(ground) == "rgb(21, 23, 27)"
    strokes = [set(tab.evaluate(line)) - {"none"} for tab in (light, dark)]
    assert strokes[0]
    assert not strokes[0] & strokes[1]


def test_each_picture_has_a_name(opened):
    tab = opened()
    pictures = tab.locator("svg")
    assert pictures.count() > 0
    assert tab.get_by_role("img").count() == pictures.count()
    assert all(
        tab.get_by_role("img", name=title.inner_text(), exact=True).count()
        for title in tab.locator("figure > h3").all()
    )


def test_the_keyboard_reaches_whatever_can_scroll(opened):
    tab = opened(400)
    tab.evaluate("() => document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    there = tab.locator(".scroll").count()
    reached = 0
    tab.keyboard.press("Tab")
    assert tab.evaluate("() => document.activeElement.className") == "skip"
    for _ in range(tab.locator("a, summary, .scroll").count() + 1):
        tab.keyboard.press("Tab")
        reached += tab.evaluate("() => document.activeElement.className === 'scroll'")
    assert there > 0
    assert reached == there


def test_a_wide_table_is_scrolled_by_the_keyboard(opened):
    tab = opened(400)
    for details in tab.locator("summary").all():
        details.click()
    wide = [
        each
        for each in tab.locator(".scroll").all()
        if each.evaluate("(e) => e.scrollWidth > e.clientWidth")
    ]
    assert wide
    wide[0].focus()
    tab.keyboard.press("ArrowRight")
    assert is_scrolled(wide[0])


def test_every_arrow_of_a_round_says_what_it_is(chromium):
    tab = chromium.new_page()
    tab.set_content(page_of(round_of(149)))
    groups = tab.locator("figure.wide svg > g")
    assert groups.count() > 20
    assert tab.locator("figure.wide svg > g > title").count() == groups.count()
    tab.close()


def test_parts_are_reached_by_links(opened):
    tab = opened()
    links = tab.locator("nav a").all()
    assert len(links) in (0, tab.locator("main > section").count())
    for link in links:
        link.click()
        assert tab.locator(tab.evaluate("() => location.hash")).count() == 1


def test_on_paper_all_is_shown(opened):
    tab = opened(800, color_scheme="dark")
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.evaluate("() => getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    assert not tab.locator("nav").first.is_visible()
    heights = tab.evaluate(
        "() => [...document.querySelectorAll('details table')].map((t) => t.offsetHeight)"
    )
    assert heights
    assert all(height > 0 for height in heights)
