"""No agent can sink a round: what it may say is limited, and what was cut is recorded."""

from __future__ import annotations

import dataclasses
import json

import pytest
from negotiation import CATALOG, PlantedRouter, acting, award_all, bid, hold, of_type, propose

from cnp_router.agents import (
    AnswerLimits,
    ComposeAlone,
    Decompose,
    InterpretRequest,
    MapCategories,
    SelectApis,
    ServeFunction,
    offline_model,
)
from cnp_router.catalog import Contractor
from cnp_router.exceptions import BudgetExceededError, InputError
from cnp_router.llm import ChatModel
from cnp_router.protocols import (
    ContractNet,
    Failure,
    RoundSettings,
    TrafficBudget,
    Transcript,
    validate,
)

MEGABYTE = 1_000_000
ALL = {InterpretRequest: propose, ServeFunction: propose, SelectApis: award_all}


def shouting(task):
    answer = bid(task, task.apis[0].id)
    answer["grounds"][0] = "x" * MEGABYTE
    return answer


def net_of(model, **settings):
    return ContractNet(CATALOG, model, router=PlantedRouter(), settings=RoundSettings(**settings))


def prompt(task):
    return sum(len(message.content) for message in task.chat_request().messages)


def test_grounds_of_a_megabyte_do_not_reach_the_manager():
    model = acting({"sms": shouting}, ALL)
    # The answer itself is paid; on the way to the manager it would be paid once more.
    net = net_of(model, budget=TrafficBudget(tokens=260_000))
    outcome = hold(net, announcement="broadcast")
    assert set(outcome.recommendation) == set(CATALOG.ids)
    [selection] = of_type(model, SelectApis)
    assert prompt(selection) < 5_000
    [proposed] = [p for p in selection.proposals if p.api == "sms"]
    assert len(proposed.grounds) == 500
    cut = {call.agent: call.cut for call in outcome.transcript.calls if call.cut}
    assert cut == {"sms": ("grounds: 1,000,000 characters cut to 500",)}
    assert outcome.ledger.cut == 1
    assert outcome.ledger.to_dict()["cut"] == 1
    assert validate(outcome.transcript).recommendation == outcome.recommendation


def test_a_refusal_of_a_megabyte_is_cut():
    model = acting({"sms": lambda task: {**bid(task), "grounds": ["x" * MEGABYTE]}}, ALL)
    outcome = hold(net_of(model), announcement="broadcast")
    [refusal] = [m for m in outcome.transcript.messages if m.performative == "refuse"]
    assert len(refusal.grounds) == 500


@pytest.mark.parametrize("protocol", ["collaborative", "manager-led"])
def test_a_thousand_functions_are_not_a_thousand_announcements(protocol):
    model = acting({}, {**ALL, Decompose: lambda _: {"functions": [f"f{i}" for i in range(1_000)]}})
    outcome = hold(net_of(model), protocol=protocol, announcement="broadcast")
    assert outcome.ledger.messages.get("cfp", 0) <= 10 * len(CATALOG)
    [step] = [call for call in outcome.transcript.calls if call.stage == "decomposition"]
    assert step.cut == ("functions: 1,000 cut to 10",)


def test_a_function_of_a_megabyte_is_cut():
    model = acting({}, {**ALL, Decompose: lambda task: {"functions": ["x" * MEGABYTE]}})
    outcome = hold(net_of(model), protocol="collaborative", announcement="broadcast")
    calls = [m for m in outcome.transcript.messages if m.performative == "cfp"]
    assert {len(call.function) for call in calls} == {1_000}


def test_many_hallucinated_names_are_cut_and_the_long_ones_too():
    names = ["n" * 10_000, *(f"no-such-api-{i}" for i in range(5_000))]
    model = acting({"sms": lambda task: bid(task, "sms", *names)}, ALL)
    outcome = hold(net_of(model), announcement="broadcast")
    [call] = [call for call in outcome.transcript.calls if call.hallucinated]
    assert len(call.hallucinated) == 199
    assert max(map(len, call.hallucinated)) <= 103
    assert call.cut[0] == "apis: 5,002 cut to 200"
    assert "sms" in outcome.recommendation


def test_categories_and_candidates_are_cut():
    many = [f"c{i}" for i in range(600)]
    mapped = {"mappings": [{"function": 0, "categories": many}] * 20}
    composed = {"functions": many, "categories": many, "candidates": many, "apis": many}
    tasks = {MapCategories: lambda _: mapped, ComposeAlone: lambda _: composed}
    for protocol in ("manager-led", "single-agent"):
        model = acting({}, {**ALL, **tasks})
        outcome = hold(net_of(model), protocol=protocol, announcement="broadcast")
        call = next(call for call in outcome.transcript.calls if call.cut)
        assert len(call.hallucinated) <= 800
        assert "categories: 600 cut to 100" in call.cut


def test_an_error_of_a_megabyte_is_cut():
    def crash(task):
        raise RuntimeError("x" * MEGABYTE)

    outcome = hold(net_of(acting({"sms": crash}, ALL)), announcement="broadcast")
    [failure] = [m for m in outcome.transcript.messages if isinstance(m, Failure)]
    assert failure.error.endswith("... (1,000,014 characters)")
    assert len(failure.error) < 550


def unspeakable(task):
    class UnspeakableError(Exception):
        def __str__(self):
            raise RuntimeError("no")

    raise UnspeakableError


@pytest.mark.parametrize("protocol", ["contractor-led", "manager-led", "single-agent"])
def test_half_of_a_surrogate_pair_from_a_model_does_not_sink_a_round(protocol, tmp_path):
    class Half(ChatModel):
        name = "half"

        async def complete(self, request):
            inner = await offline_model(CATALOG).complete(request)
            text = json.dumps(inner.data).replace('"}', '\\ud800"}')
            return dataclasses.replace(inner, data=json.loads(text))

    outcome = ContractNet(CATALOG, Half()).run_sync(
        "a map", protocol=protocol, announcement="broadcast"
    )
    outcome.transcript.write(tmp_path / "round.jsonl")
    validate(Transcript.read(tmp_path / "round.jsonl"))


def test_an_error_that_cannot_be_shown_does_not_sink_a_round():
    outcome = hold(net_of(acting(tasks={InterpretRequest: unspeakable})))
    errors = {m.error for m in outcome.transcript.messages if isinstance(m, Failure)}
    assert errors == {"UnspeakableError: its error cannot be shown"}


def test_what_was_cut_is_logged_nowhere_as_it_came(caplog):
    hold(net_of(acting({"sms": shouting}, ALL)), announcement="broadcast")
    assert len(caplog.text) < 10_000


def test_contractors_that_the_budget_does_not_take_any_more_are_not_asked():
    model = acting({}, {**ALL, InterpretRequest: shouting})
    net = net_of(model, budget=TrafficBudget(tokens=20_000), max_concurrency=1)
    with pytest.raises(BudgetExceededError) as caught:
        hold(net, announcement="broadcast")
    # The first answer alone cost a quarter of a million tokens.
    assert len(model.calls) == 1
    assert caught.value.transcript.ledger.failures == {"budget": 5}


def test_the_limits_are_settings():
    model = acting({"sms": shouting}, ALL)
    hold(net_of(model, limits=AnswerLimits(grounds=7)), announcement="broadcast")
    assert "xxxxxxx" in {p.grounds for p in of_type(model, SelectApis)[0].proposals}


@pytest.mark.parametrize("value", [0, -1, 2.5, None, True, float("nan"), "9", []])
@pytest.mark.parametrize(
    "name", ["grounds", "function", "functions", "apis", "candidates", "error"]
)
def test_a_limit_is_a_whole_number(name, value):
    with pytest.raises(InputError, match=f"the limit of {name} must be a whole number"):
        AnswerLimits(**{name: value})


def test_answers_that_are_not_long_are_left_as_they_are():
    contractors = [Contractor("all", tuple(CATALOG))]
    net = ContractNet(CATALOG, acting({}, ALL), organisation=contractors)
    outcome = hold(net, announcement="broadcast")
    assert outcome.ledger.cut == 0
    assert set(outcome.recommendation) == set(CATALOG.ids)
