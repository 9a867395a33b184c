"""The few tools that a model is shown."""

from __future__ import annotations

import pytest

from cnp_router import (
    Api,
    Catalog,
    History,
    InputError,
    Mashup,
    SpecificationRouter,
    fit_router,
    shortlist,
)

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


TOOLS = Catalog(
    [
        Api("refund_payment", "refund_payment", "Refunds a payment to a customer's card."),
        Api("send_email", "send_email", "Sends an e-mail to a person."),
        Api("charge_card", "charge_card", "Charges a customer's card."),
        Api("set_timer", "set_timer", "Sets a timer for some minutes."),
        Api("play_music", "play_music", "Plays a song or an album."),
        Api("weather", "weather", "Weather forecast of a city."),
    ]
)
TWO = "Refund payment p-3. Send an e-mail to bea@x.org."


@pytest.fixture(scope="module")
def fitted():
    return fit_router(TOOLS)


class TestARequestForSeveralThings:
    @pytest.mark.parametrize("k", [2, 3, 30])
    def test_both_are_shown(self, fitted, k):
        """The whole recommends the first alone, whatever k is."""
        assert fitted.recommend(TWO) == ("refund_payment",)
        assert set(shortlist(fitted, TWO, k=k).apis) == {"refund_payment", "send_email"}

    def test_with_history_too(self):
        asked = {"refund_payment": "Give {} the money back", "send_email": "Write to {}"}
        history = [
            Mashup(f"{api}-{who}", text.format(who), (api,))
            for api, text in asked.items()
            for who in ("Ann", "Bob", "Cem", "Dan", "Eve")
        ]
        router = fit_router(TOOLS, History(history))
        found = shortlist(router, "Give Bea the money back, and set a timer for noon", k=4)
        assert {"refund_payment", "set_timer"} <= set(found.apis)

    def test_three_things(self, fitted):
        request = "Play a song. Set a timer for an hour, then refund payment p-4."
        found = shortlist(fitted, request)
        assert {"play_music", "set_timer", "refund_payment"} <= set(found.apis)

    def test_it_says_which_part_asks(self, fitted):
        recipients = shortlist(fitted, TWO).routing.recipients
        (added,) = (each for each in recipients if each.contractor == "send_email")
        named = {each.contractor: each for each in fitted.route(TWO).recipients}
        assert named["send_email"].probability < added.probability <= recipients[0].probability
        assert recipients[0].contractor == "refund_payment"
        assert added.reasons[0].kind == "clause"
        assert added.reasons[0].text == "asked for in “Send an e-mail to bea@x.org.”"
        assert added.reasons[0].references == ("Send an e-mail to bea@x.org.",)

    def test_the_best_of_each_part_fills_what_is_free_and_no_more(self, fitted):
        assert shortlist(fitted, TWO, k=1).apis == ("refund_payment",)
        found = shortlist(fitted, TWO, k=2, always=["weather"])
        assert found.apis == ("weather", "refund_payment")
        assert shortlist(fitted, TWO, k=3, always=["send_email"]).apis == (
            "send_email",
            "refund_payment",
        )

    def test_it_is_no_surer_than_of_a_part_that_brought_something(self, fitted):
        request = "Refund payment p-3. Song of the city."
        whole, part = map(fitted.route, (request, "Song of the city."))
        assert whole.recommendation == ("refund_payment",) and part.fits
        found = shortlist(fitted, request)
        assert len(found.apis) > 1
        assert found.routing.confidence == min(whole.confidence, part.confidence)
        assert part.confidence < whole.confidence

    def test_a_part_that_nothing_fits_brings_nothing(self, fitted):
        assert shortlist(fitted, "Refund payment p-3. Zzz qqq vvv.").apis == ("refund_payment",)

    def test_nothing_that_may_not_be_asked(self, fitted):
        assert "send_email" not in shortlist(fitted, TWO, exclude=["send_email"]).apis
        assert shortlist(fitted, TWO, among=["refund_payment"]).apis == ("refund_payment",)
        assert "send_email" not in shortlist(fitted, TWO, known=["send_email"]).apis

    def test_it_is_one_decision(self):
        router = fit_router(TOOLS)
        shortlist(router, TWO)
        assert router.source_counts.total() == 1

    def test_no_part_is_asked_where_no_place_is_free(self, fitted, monkeypatch):
        asked = []
        score = type(fitted).score

        def counted(self, request, *rest, **more):
            asked.append(request)
            return score(self, request, *rest, **more)

        monkeypatch.setattr(type(fitted), "score", counted)
        shortlist(fitted, TWO, k=1)
        shortlist(fitted, "zzz qqq. vvv www.", k=5)
        shortlist(fitted, "Refund payment p-3.", k=5)
        assert len(asked) == 3
        shortlist(fitted, "Play a song. Set a timer, then stop it. " * 5, k=6)
        assert len(asked) <= 8
