"""What a search of a gateway shows for a request."""

from __future__ import annotations

import asyncio
import threading

from cnp_router import Api, Catalog, History, Mashup, fit_router, load_sample
from cnp_router.routing import recipient
from cnp_router.serving import Gateway
from cnp_router.serving.finding import find
from cnp_router.serving.open_tools import Visible
from cnp_router.training import learned_router

APIS = [
    Api("refund", "refund_payment", "Gives the money of a payment back."),
    Api("email", "send_email", "Sends an e-mail to a person."),
    Api("timer", "set_timer", "Rings after some minutes."),
]
SEEN = Visible((api.id, api) for api in APIS)


def test_both_things_that_a_request_asks_for_are_found():
    """A router that reads no parts itself is sure of the first, and of that alone."""
    router = fit_router(Catalog(APIS))
    request = "Refund payment p-3. Send an e-mail to bea@x.org."
    assert {tool.api.id for tool in find(router, request, 5, SEEN, None, "ann")[1]} == {
        "refund",
        "email",
    }
    router.compound = False
    assert router.route(request).contractors == ("refund",)
    routing, tools = find(router, request, 5, SEEN, None, "ann")
    assert {tool.api.id for tool in tools} == set(routing.contractors) == {"refund", "email"}
    (email,) = (tool for tool in tools if tool.api.id == "email")
    assert email.reasons[0].text == "asked for in “Send an e-mail to bea@x.org.”"
    only = Visible({"refund": SEEN["refund"]})
    assert [tool.api.id for tool in find(router, request, 5, only, None, "ann")[1]] == ["refund"]


def test_what_the_router_does_not_know_is_not_found():
    router = fit_router(Catalog(APIS[:2]))
    request = "Refund payment p-3. Send an e-mail to bea@x.org."
    assert SEEN.known_to(router.apis) is SEEN.known_to(router.apis) is router.apis
    assert find(router, request, 5, SEEN, None, "ann")[0].n_apis == 2
    only = Visible((api.id, api) for api in APIS[1:])
    routing, tools = find(router, "Send an e-mail.", 5, only, None, "ann")
    assert (routing.n_apis, [tool.api.id for tool in tools]) == (1, ["email"])
    none = Visible({"timer": APIS[2]})
    assert find(router, request, 5, none, None, "ann")[1] == ()
    # Another router may know more.
    assert only.known_to(fit_router(Catalog(APIS)).apis) == ("email", "timer")


def test_reasons_quote_nobody_else_whenever_they_are_read():
    past = [
        Mashup(f"m{n}", "Refund the payment of order 7.", ("refund",), user=user)
        for n, user in enumerate(("ann", "bea", None))
    ]
    router = fit_router(Catalog(APIS), History(past))
    routing, (first, *_) = find(router, "Refund a payment.", 1, SEEN, None, "ann")
    for reasons in (first.reasons, routing.recipients[0].reasons):
        (quoted,) = (reason for reason in reasons if reason.kind == "history")
        assert set(quoted.references) == {"m0", "m2"}
    everyone = router.route("Refund a payment.").recipients[0].reasons
    assert any("m1" in reason.references for reason in everyone)


def test_all_reasons_of_a_decision_are_made_beside_the_event_loop(monkeypatch):
    sample, where = load_sample(), []
    explained = learned_router.explained

    def watched(positions, *given):
        where.append(threading.current_thread().name)
        return explained(positions, *given)

    monkeypatch.setattr(recipient, "_TOGETHER", 2)
    monkeypatch.setattr(learned_router, "explained", watched)
    router = fit_router(sample.catalog, sample.history)

    async def main():
        async with Gateway(router, sample.catalog) as gateway:
            search = await gateway.route("Text me the weather at the places on a map.")
            return search.decision_to_dict()

    decided = asyncio.run(main())
    assert len(where) >= len(decided["routing"]["recipients"]) / 2 > 2
    assert not [name for name in where if name == threading.main_thread().name]
