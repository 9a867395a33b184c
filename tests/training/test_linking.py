"""Requests with links and paths: what they lead to is not what is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.training import fit_router, load_router

CATALOG = Catalog(
    [
        Api("mail", "mail", "Sends and reads e-mails."),
        Api("weather", "weather", "Tells the weather of today and tomorrow."),
        Api("fetch", "fetch", "Fetches a URL and converts the page to text."),
        Api("calendar", "calendar", "Invites people to meetings, and moves them."),
    ]
)
MASHUPS = [
    Mashup("1", "Send Ann an e-mail about the party", ("mail",)),
    Mashup("2", "Will it rain tomorrow? I want the weather", ("weather",)),
    Mashup("3", "Convert the page https://example.org/mail/letters to text", ("fetch",)),
    Mashup("4", "Move the meeting with Bob to Friday", ("calendar",)),
]
LINKED = "Fetch https://example.org/weather/today/e-mail?tomorrow=calendar"


@pytest.fixture(params=[0, len(MASHUPS)], ids=["no history", "a few"])
def router(request):
    return fit_router(CATALOG, History(MASHUPS[: request.param]))


def test_what_a_link_leads_to_is_not_asked_for(router):
    routing = router.route(LINKED)
    assert routing.recommendation == ("fetch",)
    assert routing.request == LINKED
    other = router.route("Fetch http://www.example.org")
    assert routing.recipients == other.recipients


@pytest.mark.parametrize("learn", ["fit", "observe"])
def test_past_requests_are_read_so_too(learn):
    def learned(link):
        own = Mashup("0", f"Convert the page {link} to text", ("fetch",))
        if learn == "fit":
            return fit_router(CATALOG, History([*MASHUPS, own]))
        router = fit_router(CATALOG, History(MASHUPS))
        router.observe(own)
        return router

    with_words, without = learned("https://example.org/mail/letters"), learned("www.example.org")
    for request in ("Send letters", "Convert the page of letters"):
        a, b = with_words.score(request), without.score(request)
        assert np.array_equal(a.probabilities, b.probabilities)


def test_all_is_read_where_nothing_else_asks(router):
    assert router.recommend("https://example.org/weather/of/tomorrow") == ("fetch",)
    assert router.recommend("See ~/weather/of/tomorrow.txt") == ("weather",)
    assert router.recommend("~/calendar/invite/meetings.html") == ("calendar",)


def test_many_are_read_like_one(router):
    requests = [LINKED, "https://example.org/weather/of/tomorrow", "Move the meeting"]
    assert router.route_many(requests) == [router.route(request) for request in requests]


def test_reasons_quote_it_as_it_stands():
    routing = fit_router(CATALOG, History(MASHUPS)).route("Convert a page to text")
    said = [reason.text for each in routing.recipients for reason in each.reasons]
    assert any("https://example.org/mail/letters" in text for text in said)


def test_a_loaded_router_reads_them_so(router, tmp_path):
    router.save(tmp_path / "model")
    assert load_router(tmp_path / "model").route(LINKED) == router.route(LINKED)
