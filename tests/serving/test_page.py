"""The page in a real browser: what is typed is asked, what comes is shown, nothing else happens."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("playwright")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from playwright.sync_api import Browser, Page, expect
from starlette.responses import PlainTextResponse

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History
from cnp_router.routing import Reason, Recipient
from cnp_router.serving.asking_page import page, page_headers
from cnp_router.serving.clients import Clients
from cnp_router.serving.gateway import Gateway
from cnp_router.serving.http_front import app_of
from cnp_router.serving.http_limits import Limits
from cnp_router.training import fit_router
from tests.serving.page_server import (
    CHROMIUM,
    PageServer,
    Watch,
    browser,
    error,
    found,
    page_server,
    routed,
    served,
)

pytestmark = pytest.mark.skipif(
    CHROMIUM.binary() is None,
    reason="there is no browser (make unpacks one from Debian's packages)",
)

HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>\'"`${window.hit=1}'
READ_FILE = {
    "name": "read_file",
    "description": "Reads a file.\nSays how long it is.",
    "effects": "reads",
    "inputSchema": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where it is."},
            "lines": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "order": {"enum": ["name", "size"]},
        },
        "required": ["path"],
    },
}


expect.set_options(timeout=20_000)  # milliseconds: a busy machine is not a reason to fail


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def server() -> Iterator[PageServer]:
    with page_server() as started:
        yield started


@pytest.fixture
def watched(chromium: Browser, server: PageServer) -> Iterator[tuple[Page, Watch]]:
    context = chromium.new_context(viewport={"width": 1000, "height": 800})
    tab = context.new_page()
    watch = Watch(tab)
    yield tab, watch
    context.close()
    if watch.is_attacked:
        assert any("connect-src" in said for said in watch.complaints)
        return
    assert watch.complaints == []
    assert [url for url in watch.urls if not url.startswith((server.url, "data:"))] == []


@pytest.fixture
def tab(watched: tuple[Page, Watch], server: PageServer) -> Page:
    opened = watched[0]
    opened.goto(server.url)
    return opened


def ask(tab: Page, request: str) -> None:
    tab.get_by_label("Request").fill(request)
    tab.keyboard.press("Enter")


def test_what_is_typed_is_asked_and_what_came_is_shown(tab: Page, server: PageServer) -> None:
    ask(tab, "Text me when it rains")
    expect(tab.locator("#headline")).to_have_text("2 of 52 tools would be asked")
    expect(tab.locator("#verdict-text")).to_have_text(routed("r", "sms", "weather").verdict)
    expect(tab.get_by_role("status")).to_contain_text("2 of 52 tools would be asked. Sure:")
    expect(tab.locator("#recommendation")).to_have_text("It would use sms.")
    assert server.asked == ["Text me when it rains"]
    rows = tab.locator("#tools > li")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("recommended")
    expect(rows.nth(1)).not_to_contain_text("recommended")
    assert rows.locator(".chance").all_inner_texts() == ["90 %", "45 %"]
    assert [x.get_attribute("style") for x in rows.locator(".bar i").all()] == [
        "width: 90%;",
        "width: 45%;",
    ]
    expect(rows.nth(1)).to_contain_text("the request names weather")
    facts = tab.locator("#facts").inner_text().split("\n")
    assert facts[:6] == [
        *("Asked", "2", "All there are", "52"),
        *("Saved", "50 (96 %)"),
    ]
    expect(tab.locator("#verdict .meter").first).to_contain_text("83 %, threshold 60 %")


def test_what_is_just_below_the_threshold_does_not_look_the_same(
    tab: Page, server: PageServer
) -> None:
    server.answer = lambda request: found(routed(request, "sms", confidence=0.598))
    ask(tab, "rain")
    expect(tab.locator("#verdict .meter").first).to_contain_text("59.8 %, threshold 60.0 %")


def test_nothing_fits(tab: Page, server: PageServer) -> None:
    server.answer = lambda request: found(routed(request, "sms", answerable=0.02, confidence=0.1))
    ask(tab, "a poem")
    expect(tab.locator("#headline")).to_have_text("No tool fits this request")
    expect(tab.locator("#list-title")).to_have_text("Closest tools, though none fits")
    tops = [tab.locator(each).bounding_box() for each in ("#list", "#raw")]
    assert tops[0] is not None and tops[1] is not None
    assert tops[0]["y"] == tops[1]["y"]  # no gap where the numbers would be
    expect(tab.locator("#verdict-text")).to_contain_text("Nothing in the catalog fits")
    expect(tab.locator("#tools")).not_to_contain_text("recommended")
    expect(tab.locator("#recommendation")).to_be_hidden()


@pytest.mark.parametrize(
    ("others", "headline", "said"),
    [
        ({"confidence": 0.4}, "1 of 52 tools would be asked", "Not sure"),
        ({"source": "llm"}, "1 of 52 tools would be asked", "a language model"),
        ({"n_mashups": 3}, "1 of 52 tools would be asked", "only 3 past requests of yours"),
        ({"n_allowed": 7}, "1 of 7 tools would be asked", "Tools in the catalog"),
        ({"n_apis": 1}, "1 of 1 tool would be asked", "Sure"),
    ],
)
def test_how_it_was_decided(
    tab: Page, server: PageServer, others: dict[str, Any], headline: str, said: str
) -> None:
    server.answer = lambda request: found(routed(request, "sms", **others))
    ask(tab, "x")
    expect(tab.locator("#headline")).to_have_text(headline)
    expect(tab.locator("#answer")).to_contain_text(said)


def test_two_hundred_recipients(tab: Page, server: PageServer) -> None:
    names = tuple(Recipient(f"tool{i}", max(0.9 - i / 100, 0.001)) for i in range(230))
    server.answer = lambda request: found(
        routed(request, recipients=names, n_apis=230, source="broadcast", confidence=0.2)
    )
    ask(tab, "x")
    expect(tab.locator("#headline")).to_have_text("All 230 tools would be asked")
    expect(tab.locator("#tools > li")).to_have_count(25)
    tab.get_by_role("button", name="Show 200 of the other 205").press("Enter")
    expect(tab.locator("#tools > li")).to_have_count(225)
    expect(tab.locator("#tools summary").nth(25)).to_be_focused()
    tab.get_by_role("button", name="Show the other 5").click()
    expect(tab.locator("#tools > li")).to_have_count(230)
    expect(tab.locator("#more")).to_be_hidden()
    expect(tab.locator(".chance").last).to_have_text("< 1 %")


def test_a_tool_says_what_it_does_when_opened_by_keyboard(tab: Page, server: PageServer) -> None:
    server.answer = lambda request: found(routed(request, "read_file", "sms"), tools=[READ_FILE])
    ask(tab, "read it")
    expect(tab.locator("#answer")).to_be_visible()
    before = list(server.paths)
    tab.locator("#tools summary").first.focus()
    tab.keyboard.press("Enter")
    inside = tab.locator("#tools .inside").first
    expect(inside).to_contain_text("Says how long it is.")
    expect(inside).to_contain_text("Only reads.")
    terms = inside.locator("dt").all_inner_texts()
    assert terms == ["path string, required", "lines integer | null", 'order "name" | "size"']
    expect(inside).to_contain_text("Where it is.")
    assert server.paths == before  # it was in the answer
    tab.keyboard.press("Enter")
    expect(inside).to_be_hidden()


def test_what_the_answer_does_not_describe_comes_from_the_catalog(
    tab: Page, server: PageServer
) -> None:
    server.answer = lambda request: found(routed(request, "sms", "unheard"))
    server.catalog = [{"name": "sms", "description": "Sends texts.", "inputSchema": {"to": "str"}}]
    tab.reload()
    ask(tab, "x")
    tab.locator("#tools summary").nth(0).click()
    expect(tab.locator("#tools .inside")).to_contain_text("Sends texts.")
    expect(tab.locator("#tools .inside dt")).to_have_text("to str")
    tab.locator("#tools summary").nth(1).click()
    expect(tab.locator("#tools .inside").nth(1)).to_contain_text("gives no description")


def test_text_is_never_code(tab: Page, server: PageServer) -> None:
    reasons = (Reason("name", HOSTILE, (HOSTILE,)),)
    hostile = routed(HOSTILE, recipients=(Recipient(HOSTILE, 0.9, reasons),))
    schema = {
        "properties": {HOSTILE: {"type": HOSTILE, "description": HOSTILE, "enum": [HOSTILE]}},
        "required": [HOSTILE],
    }
    tool = {"name": HOSTILE, "description": HOSTILE, "effects": HOSTILE, "inputSchema": schema}
    server.answer = lambda request: found(hostile, tools=[tool])
    server.catalog = [{"name": HOSTILE, "description": "<b onclick='hit=1'>Sends texts</b>"}]
    tab.reload()
    tab.get_by_role("button", name="<b onclick='hit=1'>Sends texts</b>").click()
    expect(tab.locator("#tools .name")).to_have_text(HOSTILE)
    tab.locator("#tools summary").click()
    expect(tab.locator("#tools .inside .description")).to_have_text(HOSTILE)
    expect(tab.locator("#tools .inside dd")).to_have_text(HOSTILE)
    tab.get_by_text("As JSON", exact=True).click()
    assert json.loads(tab.locator("#json").inner_text())["tools"][0]["name"] == HOSTILE
    server.answer = lambda request: error(400, HOSTILE)
    ask(tab, HOSTILE)
    expect(tab.locator("#problem-text")).to_contain_text(HOSTILE)
    assert tab.evaluate("window.hit") is None
    assert tab.locator("img, script:not(body > script), #below b:not(.bar b)").count() == 0


def test_the_policy_holds_back_what_the_page_does_not_contain(
    watched: tuple[Page, Watch], server: PageServer
) -> None:
    tab, watch = watched
    tab.goto(server.url)
    assert "unsafe" not in page_headers()["Content-Security-Policy"]
    refused = tab.evaluate(
        """async () => {
          const refused = [];
          try { document.body.innerHTML = "<p>"; } catch { refused.push("html"); }
          try { await fetch("http://127.0.0.1:9/"); } catch { refused.push("fetch"); }
          const style = document.createElement("style");
          style.textContent = "body { display: none }";
          document.head.append(style);
          if (getComputedStyle(document.body).display === "block") refused.push("style");
          return refused;
        }"""
    )
    assert refused == ["html", "fetch", "style"]
    watch.is_attacked = True


def test_a_token_is_asked_for_and_kept_in_memory_only(tab: Page, server: PageServer) -> None:
    server.token = "s3cret-token"
    ask(tab, "Text me")
    token = tab.get_by_label("Access token")
    expect(token).to_be_focused()
    assert token.get_attribute("type") == "password"
    token.fill("wrong")
    tab.keyboard.press("Enter")
    expect(tab.locator("#token-why")).to_contain_text("was refused")
    expect(token).to_have_value("")
    token.fill("s3cret-token")
    tab.keyboard.press("Enter")
    expect(tab.locator("#headline")).to_have_text("2 of 52 tools would be asked")
    assert server.asked == ["Text me"]
    assert server.headers[-1]["authorization"] == "Bearer s3cret-token"
    expect(tab.locator("#curl")).to_contain_text("$CNP_ROUTER_TOKEN")
    kept = tab.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href,"
        " history.state, document.documentElement.outerHTML,"
        " ...[...document.querySelectorAll('input, textarea')].map((field) => field.value)])"
    )
    assert "s3cret" not in kept
    tab.reload()
    expect(tab.get_by_label("Access token")).to_be_visible()


def test_a_token_is_asked_for_at_once_where_one_is_needed(
    watched: tuple[Page, Watch], server: PageServer
) -> None:
    server.token = "t"
    server.catalog = [READ_FILE]
    tab = watched[0]
    tab.goto(server.url)
    expect(tab.get_by_label("Access token")).to_be_focused()
    tab.keyboard.type("t")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("button", name="Reads a file.")).to_be_visible()


@pytest.mark.parametrize(
    ("answer", "title", "text"),
    [
        (error(400, "the request is blank"), "The request cannot be used", "the request is blank."),
        (error(403, "no"), "Not allowed", "no."),
        (error(413, "at most 65536 bytes"), "The request is too long", "at most 65536 bytes."),
        (
            error(503, "no more are taken", Retry_After="2"),
            "The server is busy",
            "no more are taken. Try again in 2 seconds.",
        ),
        (error(504, "30 s were not enough"), "The server took too long", "30 s were not enough."),
        (error(500, "a fault"), "The server answered with status 500", "a fault."),
        (PlainTextResponse("<html>", 502), "The server answered with status 502", ""),
        (PlainTextResponse("hello"), "The answer cannot be read", "The answer is not JSON."),
        ({"tools": []}, "The answer cannot be read", "has no routing"),
    ],
)
def test_problems_are_said_and_can_be_tried_again(
    tab: Page, server: PageServer, answer: Any, title: str, text: str
) -> None:
    server.answer = lambda request: answer
    ask(tab, "x")
    alert = tab.get_by_role("alert")
    expect(alert.get_by_role("heading")).to_have_text(title)
    expect(alert).to_contain_text(text)
    expect(tab.locator("#answer")).to_be_hidden()
    server.answer = lambda request: found(routed(request, "sms"))
    tab.get_by_role("button", name="Try again").click()
    expect(tab.locator("#answer")).to_be_visible()
    expect(alert).to_be_hidden()
    assert server.asked == ["x", "x"]


def test_a_server_that_is_gone(tab: Page, server: PageServer) -> None:
    tab.route("**/v1/route", lambda route: route.abort("connectionrefused"))
    ask(tab, "x")
    expect(tab.get_by_role("alert")).to_contain_text("The server does not answer")


def test_the_last_request_wins(tab: Page, server: PageServer) -> None:
    server.answer = lambda request: found(routed(request, f"for-{request}"))
    server.held = {"slow"}
    ask(tab, "slow")
    expect(tab.get_by_role("button", name="Asking …")).to_be_visible()
    expect(tab.get_by_role("status")).to_have_text("Asking …")
    ask(tab, "fast")
    expect(tab.locator("#tools .name")).to_have_text("for-fast")
    server.held.clear()
    server.let_go.set()
    ask(tab, "third")
    expect(tab.locator("#tools .name")).to_have_text("for-third")
    assert server.asked == ["slow", "fast", "third"]
    expect(tab.get_by_role("button", name="Ask", exact=True)).to_be_visible()


def test_an_answer_that_comes_late_is_dropped(tab: Page, server: PageServer) -> None:
    # As if a browser could not abort: the turn alone has to decide.
    tab.evaluate("() => { AbortController.prototype.abort = () => {}; }")
    server.answer = lambda request: found(routed(request, f"for-{request}"))
    server.held = {"slow"}
    ask(tab, "slow")
    ask(tab, "fast")
    expect(tab.locator("#tools .name")).to_have_text("for-fast")
    with tab.expect_response(lambda response: "slow" in (response.request.post_data or "")):
        server.let_go.set()
    expect(tab.locator("#tools .name")).to_have_text("for-fast")


def test_keys(tab: Page, server: PageServer) -> None:
    field = tab.get_by_label("Request")
    expect(field).to_be_focused()
    tab.keyboard.press("Enter")
    tab.keyboard.type("one")
    tab.keyboard.press("Shift+Enter")
    tab.keyboard.type("two")
    field.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    field.dispatch_event("keydown", {"key": "Enter", "keyCode": 229})
    expect(field).to_have_value("one\ntwo")
    assert server.asked == []
    tab.keyboard.press("Enter")
    expect(tab.locator("#answer")).to_be_visible()
    assert server.asked == ["one\ntwo"]
    expect(field).to_be_focused()
    for place in ("#send", "#tools summary", "#tools li:nth-child(2) summary", "#raw summary"):
        tab.keyboard.press("Tab")
        expect(tab.locator(place).first).to_be_focused()


def test_a_link_opens_with_its_request(watched: tuple[Page, Watch], server: PageServer) -> None:
    tab = watched[0]
    server.answer = lambda request: found(routed(request, request.split()[0]))
    tab.goto(f"{server.url}#q=%E9%9B%A8+%26+snow")
    expect(tab.locator("#tools .name")).to_have_text("雨")
    expect(tab.get_by_label("Request")).to_have_value("雨 & snow")
    ask(tab, "second one")
    expect(tab.locator("#tools .name")).to_have_text("second")
    assert tab.url.endswith("#q=second+one")
    tab.go_back()
    expect(tab.locator("#tools .name")).to_have_text("雨")
    assert server.asked == ["雨 & snow", "second one", "雨 & snow"]


def test_examples_are_what_the_catalog_says(tab: Page, server: PageServer) -> None:
    expect(tab.locator("#start")).to_be_hidden()  # nothing in the catalog
    server.catalog = [
        {"name": "sms", "description": "Sends text messages. At a price."},
        {"name": "short", "description": "Maps."},
        {"name": "abbreviated", "description": "Rates of the Federal Reserve Bank of St. Louis."},
        {"name": "none"},
    ]
    tab.reload()
    expect(tab.locator("#examples button")).to_have_text(["Sends text messages."])
    tab.locator("#examples button").click()
    expect(tab.locator("#answer")).to_be_visible()
    expect(tab.locator("#start")).to_be_hidden()
    assert server.asked == ["Sends text messages."]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_command_asks_the_same(tab: Page, server: PageServer) -> None:
    request = 'It\'s "raining" $HOME `id` \\ 雨 \n!'
    server.answer = lambda text: found(routed(text, "sms"))
    tab.get_by_label("Request").fill(request)
    tab.get_by_role("button", name="Ask").click()
    tab.get_by_text("As a command").click()
    done = subprocess.run(
        ["sh", "-c", tab.locator("#curl").inner_text()], capture_output=True, timeout=20, check=True
    )
    assert server.asked == [request.strip()] * 2
    assert json.loads(done.stdout)["routing"]["recommendation"] == ["sms"]


def test_copying(chromium: Browser, tab: Page, server: PageServer) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(tab, "x")
    tab.get_by_text("As JSON", exact=True).click()
    tab.get_by_role("button", name="Copy JSON").click()
    expect(tab.get_by_role("button", name="Copied")).to_be_visible()
    copied = json.loads(tab.evaluate("navigator.clipboard.readText()"))
    assert copied["routing"] == routed("x", "sms", "weather").to_dict()
    tab.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(Error('no')); }")
    tab.get_by_text("As a command").click()
    tab.get_by_role("button", name="Copy command").click()
    expect(tab.get_by_role("button", name="Selected: press Ctrl+C")).to_be_visible()
    assert tab.evaluate("String(getSelection())").startswith("curl -sS")


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_nothing_is_wider_than_the_window(tab: Page, server: PageServer, width: int) -> None:
    names = ("w" * 300, "天気予報" * 40, "خدمة_الرسائل_" * 20, "a__b" * 60)
    tools = [{**READ_FILE, "name": name, "description": name} for name in names]
    server.answer = lambda request: found(routed(request, *names), tools=tools)
    tab.set_viewport_size({"width": width, "height": 740})
    ask(tab, "w" * 500)
    expect(tab.locator("#answer")).to_be_visible()
    for summary in tab.locator("#tools summary").all():
        summary.click()
    for summary in tab.locator("#raw summary").all():
        summary.click()
    expect(tab.locator("#tools .inside").last).to_be_visible()
    sizes = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    wide, window = tab.evaluate(sizes)
    assert wide <= window
    expect(tab.locator("#tools .name bdi").nth(2)).to_have_css("direction", "rtl")
    expect(tab.locator("#tools .name bdi").nth(0)).to_have_css("direction", "ltr")


def test_the_form_stays_in_its_place(tab: Page, server: PageServer) -> None:
    places = []
    for request, answer in [
        ("x", found(routed("x", "sms"))),
        ("y", found(routed("y", *(f"t{i}" for i in range(40)), confidence=0.1))),
        ("z", error(503, "busy")),
    ]:
        places.append(tab.locator("#form").bounding_box())
        server.answer = lambda _, answer=answer: answer
        ask(tab, request)
        expect(tab.locator("#answer, #problem").locator("visible=true").first).to_be_visible()
    assert places[0] == places[1] == places[2] == tab.locator("#form").bounding_box()


@asynccontextmanager
async def gateway_app(token: str | None) -> AsyncIterator[Any]:
    """Open the real application over a catalog of five tools, which nobody can call."""
    tools = Catalog(
        [
            Api(
                "sms", "SMS", "Sends text messages to phones.", parameters=READ_FILE["inputSchema"]
            ),
            Api("weather", "Weather", "Forecasts rain, wind and sun."),
            Api("maps", "Maps", "Shows places on a map."),
            Api("music", "Music", "Plays songs and finds their lyrics."),
            Api("bank", "Bank", "Transfers money between accounts.", effects="writes"),
        ]
    )
    async with Gateway(fit_router(tools, History([])), tools) as gateway:
        clients = None if token is None else Clients.one(token, False)
        yield app_of(gateway, clients, Limits(max_body=20_000))


@pytest.mark.parametrize("token", [None, "a-long-enough-token-of-32-characters"])
def test_the_real_server(chromium: Browser, token: str | None) -> None:
    context = chromium.new_context()
    tab = context.new_page()
    watch = Watch(tab)
    with served(gateway_app(token)) as url:
        tab.goto(url)
        if token:
            tab.get_by_label("Access token").fill(token)
            tab.keyboard.press("Enter")
        expect(tab.get_by_role("button", name="Forecasts rain, wind and sun.")).to_be_visible()
        ask(tab, "Forecast the rain")
        expect(tab.locator("#tools .name").first).to_have_text("weather")
        expect(tab.locator("#verdict-text")).to_contain_text("no past requests of yours")
        tab.locator("#tools summary").first.click()
        expect(tab.locator("#tools .inside").first).to_contain_text("Forecasts rain, wind and sun.")
        ask(tab, "x" * 15_000)
        expect(tab.get_by_role("alert")).to_contain_text("The request cannot be used")
        ask(tab, "x" * 25_000)
        expect(tab.get_by_role("alert")).to_contain_text("The request is too long")
        context.close()
    assert watch.complaints == []
    assert all(each.startswith((url, "data:")) for each in watch.urls)


def test_fields_have_labels_and_ids_are_unique() -> None:
    html = page()
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for name in re.findall(r'<(?:input|textarea) id="([^"]+)"', html):
        assert f'<label for="{name}">' in html
    for name in re.findall(r'aria-(?:labelledby|describedby)="([^"]+)"', html):
        assert name in ids


def test_nothing_in_the_file_comes_from_elsewhere() -> None:
    addresses = set(re.findall(r"https?://[^'\"\s]+", page()))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert "innerHTML" not in page()
    assert " style=" not in page()
    assert not re.search(r"\son\w+=", page())


@pytest.mark.parametrize("scheme", [0, 1])
def test_text_can_be_read_on_its_background(scheme: int) -> None:
    blocks = re.findall(r":root \{(.*?)\}", page(), re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): #(\w{6});", blocks[scheme]))
    pairs = [("on-accent", "accent"), ("accent", "well"), ("ink", "well"), ("soft", "well")]
    pairs += [(text, ground) for text in ("ink", "soft", "accent") for ground in ("paper", "card")]
    pairs += [(tone, f"{tone}-well") for tone in ("good", "unsure", "bad")]
    for text, ground in pairs:
        assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


def _contrast(one: str, other: str) -> float:
    """Return the ratio of the Web Content Accessibility Guidelines 2.2."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
