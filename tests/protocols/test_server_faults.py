"""Rounds through the OpenAI adapter, against a real server on this machine that has faults."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from chat_server import (
    CUT,
    HANG,
    KEY,
    RESET,
    ChatServer,
    Reply,
    completion,
    refusal,
    run,
    stay_on_this_machine,
)
from negotiation import CATALOG, REQUEST, PlantedRouter

from cnp_router.exceptions import RoundFailedError
from cnp_router.protocols import ContractNet, Failure, Proposal, Refusal, RoundSettings, validate


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch):
    stay_on_this_machine(monkeypatch)


def information(body):
    """Return the fourth part of the prompt that a server got."""
    text = next(m["content"] for m in body["messages"] if m["role"] == "user")
    return json.JSONDecoder().raw_decode(text.split("\n", 1)[1])[0]


def right(body):
    """Answer as a good model would: contractors propose, the manager awards everything."""
    data = information(body)
    if "proposals" in data:
        return {"apis": [proposal["id"] for proposal in data["proposals"]]}
    ids = [api["id"] for api in data["specifications"]]
    grounds = ["It fits." for _ in ids]
    return {"functions": [], "categories": [], "apis": ids, "grounds": grounds}


class Faulty:
    """Gives each contractor its own replies, in order, and right ones after the last."""

    def __init__(self, **replies):
        self.replies = {name: list(each) for name, each in replies.items()}

    def __call__(self, body):
        specifications = information(body).get("specifications")
        left = self.replies.get(specifications[0]["id"] if specifications else "manager", [])
        reply = left.pop(0) if left else completion(right(body))
        return reply(body) if callable(reply) else reply


def negotiated(faults, *, options=None, announcement="broadcast", **settings):
    """Hold a contractor-led round; return the outcome and the server."""

    async def main():
        async with ChatServer(faults) as server, server.model("tiny", **(options or {})) as model:
            net = ContractNet(
                CATALOG, model, router=PlantedRouter(), settings=RoundSettings(**settings)
            )
            return await net.run(REQUEST, announcement=announcement), server

    return run(main())


def replies(outcome):
    kinds = (Proposal, Refusal, Failure)
    return {m.sender: m for m in outcome.transcript.messages if isinstance(m, kinds)}


OFF_SCHEMA = completion({"apis": "all of them"})
NO_JSON = completion('{"functions": [], "categories": [], "apis": [{"id": "ma')
EMPTY = Reply({"choices": []})


def test_a_round_without_faults():
    outcome, server = negotiated(Faulty())
    assert outcome.recommendation == CATALOG.ids
    assert outcome.ledger.usage.source == "server"
    assert (outcome.ledger.usage.tokens_in, outcome.ledger.usage.tokens_out) == (7 * 11, 7 * 7)
    assert outcome.ledger.model_calls == len(server.requests) == 7
    assert outcome.transcript.model == "tiny"
    assert all(body["response_format"]["type"] == "json_schema" for body in server.requests)


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ([refusal(500, "broken")], "error"),
        ([refusal(429, "too many", Retry_After="0.01")], "error"),
        ([refusal(401, "no such key")], "error"),
        ([RESET], "error"),
        ([CUT], "error"),
        ([HANG], "timeout"),
        ([EMPTY], "unusable"),
        ([Reply(b'{"choices": [{"mess')], "unusable"),
        ([OFF_SCHEMA, OFF_SCHEMA], "unusable"),
        ([NO_JSON, NO_JSON], "unusable"),
        ([completion(None), completion("")], "unusable"),
        ([completion("x", finish="length")], "unusable"),
        ([completion({"apis": []}, refusal="I cannot do that.")], "unusable"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_one_contractor_fails_and_the_round_goes_on(faults, reason):
    timeout = 2.0 if reason == "timeout" else 30.0  # the others answer well before
    outcome, _ = negotiated(Faulty(sms=faults), options={"timeout": timeout})
    said = replies(outcome)
    failure = said.pop("sms")
    assert isinstance(failure, Failure)
    assert failure.reason == reason
    assert "'tiny' at http://127.0.0.1" in failure.error
    assert KEY not in failure.error
    assert all(isinstance(m, Proposal) for m in said.values())
    assert set(outcome.recommendation) == set(CATALOG.ids) - {"sms"}
    assert validate(outcome.transcript).recommendation == outcome.recommendation


def test_every_contractor_has_another_fault():
    faults = Faulty(
        maps=[refusal(429, "too many", Retry_After="0.01")],
        places=[RESET],
        sms=[OFF_SCHEMA],
        mail=[HANG],
        weather=[completion("no JSON", usage=None)] * 2,
        photos=[EMPTY],
    )
    outcome, server = negotiated(faults, options={"max_retries": 1, "timeout": 10.0}, bid_timeout=4)
    said = {name: getattr(m, "reason", m.performative) for name, m in replies(outcome).items()}
    assert said == {
        "maps": "propose",  # sent again when the server said
        "places": "propose",  # sent again
        "sms": "propose",  # repaired
        "mail": "timeout",
        "weather": "unusable",
        "photos": "unusable",
    }
    assert set(outcome.recommendation) == {"maps", "places", "sms"}
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    calls = {call.agent: call for call in outcome.transcript.calls}
    assert (calls["sms"].calls, calls["sms"].tokens_in) == (2, 22)
    assert calls["weather"].tokens_are == "estimated"
    assert outcome.ledger.usage.source == "estimated"  # for one part of it is
    assert calls["mail"].tokens_out == 0  # its prompt was sent, and its answer not waited for


def test_missing_usage_makes_the_sum_an_estimate():
    outcome, _ = negotiated(Faulty(sms=[lambda body: completion(right(body), usage=None)]))
    assert outcome.recommendation == CATALOG.ids
    sources = {call.agent: call.tokens_are for call in outcome.transcript.calls}
    assert sources.pop("sms") == "estimated"
    assert set(sources.values()) == {"server"}
    assert outcome.ledger.usage.source == "estimated"


def test_a_server_that_takes_no_schemas(caplog):
    def without_schema(body):
        if "response_format" in body:
            return refusal(400, "response_format is not supported")
        return completion(f"Of course:\n```json\n{json.dumps(right(body))}\n```")

    with caplog.at_level(logging.WARNING, "cnp_router.llm"):
        outcome, server = negotiated(without_schema, options={"max_concurrency": 1})
    assert outcome.recommendation == CATALOG.ids
    assert "takes no schemas" in caplog.text
    assert len(server.requests) == 10  # three forms are refused, once


def test_who_waits_for_the_server_at_the_deadline_is_left_behind():
    outcome, _ = negotiated(Faulty(sms=[HANG]), deadline=0.5)
    assert replies(outcome)["sms"].reason == "deadline"
    assert "sms" not in outcome.recommendation


def test_a_server_that_is_down_fails_the_round():
    async def main():
        async with ChatServer([]) as server:
            model = server.model("tiny")
        async with model:
            await ContractNet(CATALOG, model).run(REQUEST, announcement="broadcast")

    with pytest.raises(RoundFailedError, match="not one of 6 contractors could be reached"):
        run(main())


def test_a_key_that_is_refused_fails_the_round():
    with pytest.raises(RoundFailedError, match="not one of 6") as caught:
        negotiated(lambda body: refusal(401, f"Incorrect API key provided: {KEY}"))
    assert KEY not in str(caught.value)
    assert all(KEY not in repr(m) for m in caught.value.transcript.messages)


def test_a_manager_that_cannot_be_reached_fails_the_round_with_what_was_paid():
    with pytest.raises(
        RoundFailedError, match="the manager got no answer for the API selection"
    ) as caught:
        negotiated(Faulty(manager=[refusal(500, "broken")]))
    transcript = caught.value.transcript
    assert transcript.ledger.messages["propose"] == 6
    assert transcript.ledger.usage.tokens_in == 6 * 11


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_requests_at_a_time_than_allowed(limit):
    def slowly():
        """Have the first ones stay until there are as many as there may be."""
        first = iter([0.5] * limit)
        return lambda body: completion(right(body), seconds=next(first, 0.01))

    _, server = negotiated(slowly(), options={"max_concurrency": limit})
    assert server.most_under_way == limit
    _, server = negotiated(slowly(), max_concurrency=limit)
    assert server.most_under_way == limit


def test_a_cancelled_round_closes_its_requests():
    async def main():
        async with ChatServer(lambda body: HANG) as server, server.model() as model:
            net = ContractNet(CATALOG, model)
            task = asyncio.create_task(net.run(REQUEST, announcement="broadcast"))
            await server.arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())
