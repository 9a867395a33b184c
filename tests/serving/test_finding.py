"""What a search of a gateway shows for a request."""

from __future__ import annotations

from cnp_router import Api, Catalog, fit_router
from cnp_router.serving.finding import find

APIS = [
    Api("refund", "refund_payment", "Gives the money of a payment back."),
    Api("email", "send_email", "Sends an e-mail to a person."),
    Api("timer", "set_timer", "Rings after some minutes."),
]
SEEN = {api.id: api for api in APIS}


def test_both_things_that_a_request_asks_for_are_found():
    """The router as such is sure of the first, and of that alone."""
    router = fit_router(Catalog(APIS))
    request = "Refund payment p-3. Send an e-mail to bea@x.org."
    assert router.route(request).contractors == ("refund",)
    routing, tools = find(router, request, 5, SEEN, None, "ann")
    assert {tool.api.id for tool in tools} == set(routing.contractors) == {"refund", "email"}
    (email,) = (tool for tool in tools if tool.api.id == "email")
    assert email.reasons[0].text == "asked for in “Send an e-mail to bea@x.org.”"
    only = {"refund": SEEN["refund"]}
    assert [tool.api.id for tool in find(router, request, 5, only, None, "ann")[1]] == ["refund"]
