"""Several models as one: each request goes to the model of its role."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from chat_server import ChatServer, completion
from negotiation import CATALOG, PlantedRouter

from cnp_router.agents import offline_model
from cnp_router.exceptions import ChatDisallowedError, ChatModelUnknownError, InputError
from cnp_router.llm import (
    CachedChatModel,
    ChatMessage,
    ChatModel,
    ChatRequest,
    ModelsByRole,
    OpenAIChatModel,
    Usage,
    complete_sync,
    estimated_response,
    model_requests_allowed,
)
from cnp_router.protocols import ContractNet, Transcript
from cnp_router.testing import ScriptedChatModel


@dataclass(frozen=True)
class Task:
    role: str


class Named(ChatModel):
    """Answers with its name, and counts how often it is opened and closed."""

    def __init__(self, name, fault=None):
        self.name, self.fault = name, fault
        self.opened = self.closed = 0

    async def complete(self, request):
        return estimated_response(request, self.name, self.name)

    async def __aenter__(self):
        self.opened += 1
        return self

    async def aclose(self):
        self.closed += 1
        if self.fault:
            raise self.fault


def asked(role=None, text="Hi"):
    return ChatRequest([ChatMessage("user", text)], task=None if role is None else Task(role))


def test_each_role_has_its_model_and_the_rest_the_default():
    model = ModelsByRole(Named("big"), executor=Named("small"), single_agent=Named("alone"))
    answers = {
        role: complete_sync(model, asked(role)).model
        for role in (None, "manager", "contractor", "single-agent", "planner", "executor")
    }
    assert answers == {
        None: "big", "manager": "big", "contractor": "big", "single-agent": "alone",
        "planner": "big", "executor": "small",
    }  # fmt: skip
    assert model.name == "big (executor: small, single-agent: alone)"
    assert model.name_for(asked("executor")) == "small"
    assert ModelsByRole(Named("big")).name == "big"


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"king": Named("a")}, "there is no role 'king' .use one of: manager, contractor"),
        ({"manager": "big"}, "a ChatModel is needed, got 'big'"),
    ],
)
def test_what_is_no_model_or_no_role(models, message):
    with pytest.raises(InputError, match=message):
        ModelsByRole(Named("big"), **models)


def test_all_are_opened_and_closed_once_even_if_one_fails_to():
    class BrokenError(Exception):
        """Of a test."""

    big, small = Named("big"), Named("small", BrokenError())
    last = Named("last", BrokenError())
    model = ModelsByRole(big, manager=small, contractor=small, executor=last)

    async def main():
        async with model:
            assert [each.opened for each in (big, small, last)] == [1, 1, 1]

    with pytest.raises(BrokenError):
        asyncio.run(main())
    assert [each.closed for each in (big, small, last)] == [1, 1, 1]


def test_it_can_be_open_several_times_at_once():
    big, small = Named("big"), Named("small")
    model = ModelsByRole(big, manager=small)

    async def main():
        async with model, model:
            pass

    asyncio.run(main())
    assert (big.opened, big.closed, small.opened, small.closed) == (2, 2, 2, 2)


def test_a_cache_around_it_keeps_the_roles_apart(tmp_path):
    model = CachedChatModel(ModelsByRole(Named("big"), executor=Named("small")), tmp_path)
    answers = [complete_sync(model, asked(role)) for role in ("manager", "executor") * 2]
    assert [(a.text, a.cached) for a in answers] == [
        ("big", False), ("small", False), ("big", True), ("small", True),
    ]  # fmt: skip


def test_a_cache_is_not_asked_anew_because_another_role_has_another_model(tmp_path):
    first = CachedChatModel(ModelsByRole(Named("big"), executor=Named("small")), tmp_path)
    complete_sync(first, asked("manager"))
    second = CachedChatModel(ModelsByRole(Named("big"), executor=Named("tiny")), tmp_path)
    assert complete_sync(second, asked("manager")).cached


def test_the_switch_stops_each_of_them():
    model = ModelsByRole(
        ScriptedChatModel(["Hi"]), executor=OpenAIChatModel("far", base_url="http://192.0.2.1/v1")
    )
    with model_requests_allowed("loopback"):
        assert complete_sync(model, asked("manager")).text == "Hi"
        with pytest.raises(ChatDisallowedError, match=r"model 'far' at http://192\.0\.2\.1/v1"):
            complete_sync(model, asked("executor"))


def test_two_servers_and_a_fault_that_names_the_right_one():
    async def main():
        big, small = ChatServer([completion("yes", usage=(9, 1))]), ChatServer([])
        async with big, small:
            model = ModelsByRole(big.model("large"), executor=small.model("small"))
            async with model:
                response = await model.complete(asked("planner"))
                with pytest.raises(Exception, match="model 'small' at") as caught:
                    await model.complete(asked("executor"))
        return response, caught.value, big, small

    response, error, big, small = asyncio.run(main())
    assert (response.model, response.served_as) == ("large", "served-model")
    assert response.usage == Usage(9, 1, "server")
    assert not isinstance(error, ChatModelUnknownError)
    assert [len(big.requests), len(small.requests)] == [1, 1]


def test_the_books_of_a_round_name_who_answered(tmp_path):
    manager, contractor = offline_model(CATALOG), offline_model(CATALOG)
    manager.name, contractor.name = "large", "small"
    model = ModelsByRole(manager, contractor=contractor)
    net = ContractNet(CATALOG, model, router=PlantedRouter())
    outcome = net.run_sync("A text message with the rain of today.", protocol="contractor-led")
    ledger = outcome.ledger
    assert {(c.role, c.model) for c in outcome.transcript.calls} == {
        ("manager", "large"), ("contractor", "small"),
    }  # fmt: skip
    assert outcome.transcript.model == "large (contractor: small)"
    for role, name in (("manager", "large"), ("contractor", "small")):
        by_role, by_model = ledger.by_role[role], ledger.by_model[name]
        assert (by_model.tokens_in, by_model.tokens_out) == (by_role.tokens_in, by_role.tokens_out)
        assert by_model.model_calls == by_role.model_calls > 0
    assert sum(each.tokens_in for each in ledger.by_model.values()) == ledger.usage.tokens_in
    assert set(ledger.to_dict()["by_model"]) == {"large", "small"}
    outcome.transcript.write(tmp_path / "round.jsonl")
    assert Transcript.read(tmp_path / "round.jsonl").calls == outcome.transcript.calls


def test_what_the_server_had_cached_is_booked():
    usage = {"prompt_tokens": 90, "completion_tokens": 5}
    details = {"prompt_tokens_details": {"cached_tokens": 64}}

    async def main(said):
        async with ChatServer([completion("yes", usage=said)]) as server, server.model() as model:
            return (await model.complete(asked())).usage

    assert asyncio.run(main({**usage, **details})).tokens_cached == 64
    for odd in (None, [], {"cached_tokens": 91}, {"cached_tokens": True}, {"cached_tokens": -1}):
        assert asyncio.run(main({**usage, "prompt_tokens_details": odd})).tokens_cached == 0
    both = Usage(9, 1, "server", 4) + Usage(9, 1, "server", 3)
    assert both == Usage(18, 2, "server", 7)
