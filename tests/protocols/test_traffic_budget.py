"""What a round would cost is known before it is paid, and what is too much is not begun."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from negotiation import CATALOG, REQUEST, PlantedRouter, acting, award_all, hold, of_type, propose

from cnp_router.agents import (
    Decompose,
    InterpretRequest,
    MatchFunction,
    ProposedApi,
    SelectApis,
    ServeFunction,
)
from cnp_router.exceptions import BudgetExceededError, InputError
from cnp_router.llm import estimate_request_tokens
from cnp_router.protocols import ContractNet, RoundSettings, TrafficBudget
from cnp_router.protocols.round import GROUNDS, GROUNDS_TOKENS

PROTOCOLS = ["manager-led", "contractor-led", "collaborative", "single-agent"]


def budgeted(model, **budget):
    return ContractNet(
        CATALOG,
        model,
        router=PlantedRouter(),
        settings=RoundSettings(budget=TrafficBudget(**budget)),
    )


def refused(model, *, protocol="contractor-led", announcement="broadcast", **budget):
    with pytest.raises(BudgetExceededError) as caught:
        hold(budgeted(model, **budget), protocol=protocol, announcement=announcement)
    return caught.value


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("announcement", ["broadcast", "routed"])
def test_what_does_not_fit_in_is_not_begun(protocol, announcement):
    model = acting()
    error = refused(model, protocol=protocol, announcement=announcement, tokens=100)
    assert model.calls == []
    assert error.costs["tokens"] > 100 == error.allowed["tokens"]
    assert f"would cost about {error.costs['tokens']:,} tokens, and the budget is 100" in str(error)


def test_an_announcement_says_its_messages():
    model = acting()
    error = refused(model, messages=10)
    assert model.calls == []
    # The request, a call, a reply and a decision for each of six, the report.
    assert str(error) == (
        "an announcement of 6 calls for proposals would cost about 20 messages, and the budget is "
        "10 (raise the budget, or announce to fewer)"
    )


def test_a_collaborative_round_is_refused_before_its_first_step():
    model = acting()
    error = refused(model, protocol="collaborative", messages=19)
    assert model.calls == []
    assert error.what == "a collaborative round, if there is a single function,"
    assert error.costs["messages"] == 20


def test_more_functions_than_the_budget_takes():
    model = acting({}, {Decompose: lambda task: {"functions": ["a map", "a message"]}})
    error = refused(model, protocol="collaborative", messages=30)
    assert [call.task.steps for call in model.calls] == [(1,)]
    assert error.costs["messages"] == 2 + 3 * 12
    assert error.transcript.ledger.by_stage["decomposition"].model_calls == 1  # paid till then


def test_a_round_that_is_begun_can_be_ended():
    bids = {InterpretRequest: propose}
    for messages in (19, 20):
        model = acting({}, {**bids, SelectApis: award_all})
        if messages == 19:
            refused(model, messages=messages)
            assert model.calls == []
        else:
            hold(budgeted(model, messages=messages), announcement="broadcast")
            assert len(model.calls) == 7


def test_the_estimate_of_the_prompts_is_what_the_offline_model_counts():
    n = len(CATALOG)
    error = refused(acting(), tokens=1)
    every = SelectApis(REQUEST, (), tuple(ProposedApi(name) for name in CATALOG.ids))
    selection = estimate_request_tokens(every.chat_request()) + SelectApis.answer_tokens
    asked = error.costs["tokens"] - n * (InterpretRequest.answer_tokens + GROUNDS_TOKENS)
    outcome = hold(ContractNet(CATALOG, acting()), announcement="broadcast")
    assert asked - selection == outcome.ledger.by_stage["bidding"].tokens_in


def at_length(task):
    proposed = propose(task)
    proposed["grounds"][0] = "because " * 400
    return proposed


def test_what_all_say_at_length_is_cut_where_the_budget_does_not_take_it():
    model = acting({}, {InterpretRequest: at_length, SelectApis: award_all})
    free = hold(ContractNet(CATALOG, model), announcement="broadcast")
    assert [call.cut for call in free.transcript.calls[6:]] == [()]
    tokens = free.ledger.tokens - 100
    outcome = hold(budgeted(model, tokens=tokens), announcement="broadcast")
    assert outcome.recommendation == free.recommendation
    assert outcome.ledger.tokens <= tokens
    proposals = of_type(model, SelectApis)[-1].proposals
    assert {proposed.grounds for proposed in proposals} == {("because " * 400)[:GROUNDS]}
    cut = ("grounds in the prompt: cut to 100 characters each, for the budget",)
    assert outcome.transcript.calls[6].cut == cut


def test_what_is_spent_already_counts():
    model = acting({}, {InterpretRequest: at_length})
    error = refused(model, tokens=6_000)
    assert error.what == "the API selection of the manager"
    ledger = error.transcript.ledger
    assert error.costs["tokens"] > ledger.tokens > 0
    assert len(model.calls) == 6


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_round_within_the_budget_is_the_same_as_without(protocol):
    with_budget = hold(
        budgeted(acting(), tokens=10**6, messages=10**3),
        protocol=protocol,
        announcement="broadcast",
    )
    without = hold(ContractNet(CATALOG, acting()), protocol=protocol, announcement="broadcast")
    assert with_budget.transcript == without.transcript


@settings(max_examples=40)
@given(protocol=st.sampled_from(PROTOCOLS), messages=st.integers(1, 45))
def test_no_round_ever_sends_more_messages_than_allowed(protocol, messages):
    bids = dict.fromkeys((InterpretRequest, MatchFunction, ServeFunction), propose)
    net = budgeted(acting({}, {**bids, SelectApis: award_all}), messages=messages)
    try:
        outcome = hold(net, protocol=protocol, announcement="broadcast")
    except BudgetExceededError as exc:
        assert exc.costs["messages"] > messages
    else:
        assert outcome.ledger.n_messages <= messages


def test_the_single_agent_is_called_by_its_name():
    assert refused(acting(), protocol="single-agent", tokens=1).what == (
        "the composition of the single agent"
    )


@pytest.mark.parametrize(
    "limits",
    [
        {"tokens": 0},
        {"messages": -3},
        {"tokens": float("nan")},
        {"messages": "5"},
        {"tokens": True},
    ],
)
def test_a_budget_below_one_is_none(limits):
    with pytest.raises(
        InputError, match=r"a budget of .* must be a whole number of at least 1, got"
    ):
        TrafficBudget(**limits)
