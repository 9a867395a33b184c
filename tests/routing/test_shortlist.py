"""The few tools that a model is shown."""

from __future__ import annotations

import pytest

from cnp_router import Api, Catalog, InputError, SpecificationRouter, fit_router, shortlist

CATALOG = Catalog(
    [
        Api("maps", "Maps", "Shows places on a map."),
        Api("atlas", "Atlas", "Old maps of places."),
        Api("sms", "SMS", "Sends text messages."),
    ]
)


@pytest.fixture(scope="module")
def router():
    return fit_router(CATALOG)


def test_at_most_k_are_shown_the_most_probable_first(router):
    found = shortlist(router, "Send a text message about places on a map.", k=2)
    assert len(found.apis) == 2
    assert found.apis == found.routing.contractors[:2]


def test_what_is_always_shown_comes_first_and_counts(router):
    found = shortlist(router, "Show places on a map.", k=2, always=["clock"])
    assert found.apis == ("clock", "maps")


def test_where_nothing_fits_only_what_is_always_shown(router):
    assert shortlist(router, "zzz qqq", always=["sms"]).apis == ("sms",)
    assert shortlist(router, "zzz qqq").apis == ()


def test_what_may_not_be_asked_is_not_shown(router):
    assert "maps" not in shortlist(router, "places on a map", exclude=["maps"]).apis
    assert shortlist(router, "an atlas: old maps of places", among=["atlas"]).apis == ("atlas",)


def test_more_than_k_always_shown_is_an_error():
    with pytest.raises(InputError, match="2 APIs are always shown, and k is 1"):
        shortlist(SpecificationRouter(CATALOG), "a map", k=1, always=["maps", "sms"])
