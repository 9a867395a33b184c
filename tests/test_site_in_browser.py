"""The built site in a real browser: nothing is fetched from elsewhere, and pages are found.

`make check` builds the site and names it; without it, these tests are skipped.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("playwright")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from playwright.sync_api import Browser, Page, expect

from tests.serving.page_server import CHROMIUM, Watch, browser

SITE = Path(os.environ.get("CNP_ROUTER_SITE", "no-site")).resolve()
ROOT = Path(__file__).resolve().parents[1]

pytestmark = [
    pytest.mark.skipif(not SITE.is_dir(), reason="the site is not built (make check builds it)"),
    pytest.mark.skipif(CHROMIUM.binary() is None, reason="there is no browser"),
]

PAGES = [
    "index",
    "cli",
    "peers",
    "learned-router",
    "glossary",
    "troubleshooting",
    "CONTRIBUTING",
    "examples",
    "examples/fit_and_save.py",
    "tutorials/index",
    "reference/index",
    "reference/training",
    "reference/exceptions",
    "reference/adapters.langchain",
]

# What people look for, and where one of the first three results leads.
WANTED = {
    "many tools in my prompt": {"serving.html", "frameworks.html"},
    "MCP": {"tutorials/mcp-servers.html"},
    "ProgrammableWeb": {"protocols-measured.html"},
    "LangChain": {"frameworks.html"},
    "install": {"troubleshooting.html"},
    "troubleshooting": {"troubleshooting.html"},
    "what does confidence mean": {"glossary.html"},
    "no history": {"glossary.html"},
    "fit_router": {"reference/training.html"},
}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    context.set_default_timeout(30_000)
    yield context.new_page()
    context.close()


def failures_of(page: Page) -> list[str]:
    """What could not be loaded, from now on: the browser says it in no error of the page."""
    failures: list[str] = []
    page.on("requestfailed", lambda request: failures.append(f"{request.url}: {request.failure}"))
    page.on(
        "response",
        lambda got: failures.append(f"{got.url}: {got.status}") if got.status >= 400 else None,
    )
    return failures


def test_pages_are_shown_without_complaint(page, address):
    watch, failures = Watch(page), failures_of(page)
    for name in PAGES:
        page.set_viewport_size({"width": 1400, "height": 900})
        shown = page.goto(f"{address}{name}.html", wait_until="networkidle")
        assert shown is not None
        assert shown.status == 200, name
        expect(page.locator("h1").first).to_be_visible()
        for width in (1400, 400):
            page.set_viewport_size({"width": width, "height": 900})
            # The page never scrolls sideways; a wide table or program does so within it.
            wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, (name, width)
        lost = "[...document.images].filter((i) => i.complete && !i.naturalWidth).map((i) => i.src)"
        assert page.evaluate(lost) == [], name
    assert watch.complaints == []
    assert failures == []
    assert [url for url in watch.urls if not url.startswith(address)] == []


def test_a_wide_table_can_be_scrolled_on_a_phone(page, address):
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto(f"{address}peers.html")
    scrolled = page.evaluate(
        """() => {
            const table = document.querySelector(".md-typeset__scrollwrap");
            table.scrollLeft = 50;
            return [table.scrollWidth > table.clientWidth, table.scrollLeft];
        }"""
    )
    assert scrolled == [True, 50]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_palette_of_the_system(chromium, address, scheme):
    context = chromium.new_context(color_scheme=scheme)
    try:
        page = context.new_page()
        page.goto(f"{address}index.html")
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
        assert (light > 200) if scheme == "light" else (light < 60)
    finally:
        context.close()


def test_prompts_and_results_are_not_copied(page, address):
    page.goto(f"{address}extending.html")
    page.locator("button[title^='Copy']").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("from cnp_router import")
    assert ">>>" not in copied


def test_a_private_base_is_not_named(page, address):
    page.goto(f"{address}reference/routing.html")
    expect(page.locator("h2 .doc-class-name", has_text="BroadcastRouter")).to_be_visible()
    assert "_Baseline" not in page.locator("main").inner_text()


def test_plain_words_find_the_page_without_a_server(page):
    watch, failures = Watch(page), failures_of(page)
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(f"{SITE.as_uri()}/index.html")
    field = page.locator(".md-search__input")
    field.click()
    results = page.locator(".md-search-result__item > a")
    for query, wanted in WANTED.items():
        # A search begins when a key is released.
        for text in ("", query):
            field.fill(text)
            field.press("End")
            if not text:
                expect(results).to_have_count(0)
        expect(results.first).to_be_visible()
        links = [str(each.get_attribute("href")) for each in results.all()]
        names = [re.sub(r"[?#].*", "", link).removeprefix(f"{SITE.as_uri()}/") for link in links]
        assert wanted & set(list(dict.fromkeys(names))[:3]), (query, names)
    assert watch.complaints == []
    assert failures == []
    assert [url for url in watch.urls if not url.startswith("file:")] == []
