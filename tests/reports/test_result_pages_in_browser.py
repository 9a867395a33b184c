"""Pages of rounds, executions and logs in a real browser: read, scrolled, by keyboard, offline."""

from __future__ import annotations

import pytest

pytest.importorskip("playwright")
pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from hostile_results import HOSTILE, execution_of, round_of

from cnp_router import prequential
from cnp_router.reports import write_html
from cnp_router.trajectories import Step, Trajectory
from tests.serving.page_server import CHROMIUM, Watch, browser

pytestmark = pytest.mark.skipif(
    CHROMIUM.binary() is None,
    reason="there is no browser (make unpacks one from Debian's packages)",
)


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


def results():
    steps = tuple(Step(tool, input_tokens=10) for tool in ("weather", "sms", "weather", "sms"))
    told = execution_of(HOSTILE, n=9)
    return {
        "execution": told,
        "plan": told.plan,
        "round": round_of(149),
        "log": prequential(None, [Trajectory(f"t{n}", HOSTILE, steps) for n in range(12)]),
    }


@pytest.fixture(scope="module", params=["execution", "plan", "round", "log"])
def address(request, tmp_path_factory):
    file = tmp_path_factory.mktemp("pages") / f"{request.param}.html"
    write_html(results()[request.param], file)
    return file.as_uri()


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_complains_of_nothing_asks_for_nothing_and_fits(chromium, address, width, scheme):
    looked_at = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    watch = Watch(looked_at)
    looked_at.goto(address)
    assert watch.complaints == []
    assert [url for url in watch.urls if not url.startswith("data:")] == [address]
    assert looked_at.evaluate("window.hit") is None
    assert looked_at.evaluate("document.documentElement.scrollWidth <= innerWidth")
    looked_at.close()


def test_what_is_wide_scrolls_in_a_region_that_the_keyboard_reaches(chromium, address):
    looked_at = chromium.new_page(viewport={"width": 400, "height": 800})
    looked_at.goto(address)
    wide = looked_at.locator("figure.wide .scroll").all()
    for region in wide:
        assert region.get_attribute("tabindex") == "0"
        assert region.get_attribute("role") == "region"
        assert region.get_attribute("aria-label")
    if wide:
        wide[0].focus()
        looked_at.keyboard.press("ArrowRight")
        looked_at.keyboard.press("ArrowRight")
        looked_at.wait_for_function(
            "document.querySelector('figure.wide .scroll').scrollLeft > 0", timeout=20_000
        )
    looked_at.locator("summary").first.focus()
    looked_at.keyboard.press("Enter")
    assert looked_at.locator("details[open] table").first.is_visible()
    looked_at.close()


def test_every_arrow_and_bar_says_what_it_is(chromium, tmp_path):
    file = tmp_path / "round.html"
    write_html(round_of(149), file)
    looked_at = chromium.new_page()
    looked_at.goto(file.as_uri())
    groups = looked_at.locator("figure.wide svg > g")
    assert groups.count() > 20
    assert looked_at.locator("figure.wide svg > g > title").count() == groups.count()
    names = looked_at.locator("figure svg").all()
    assert all(svg.get_attribute("aria-labelledby") for svg in names)
    looked_at.close()
