"""Deadlines, contractors that fail, and managers that do: the round ends, and says how."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest
from negotiation import CATALOG, PlantedRouter, acting, award_all, bid, hold, propose, refuse

from cnp_router.agents import ComposeAlone, Decompose, InterpretRequest, MapCategories, SelectApis
from cnp_router.exceptions import (
    ChatAccessError,
    ChatAnswerError,
    ChatConnectionError,
    ChatTimeoutError,
    RoundFailedError,
)
from cnp_router.llm import ChatModel, Usage
from cnp_router.protocols import (
    ContractNet,
    Failure,
    Proposal,
    Refusal,
    RoundSettings,
    validate,
)

DEADLINE = 0.2  # seconds: long for those who answer at once, on a slow machine too
PAID = {"usage": Usage(70, 7, "server"), "calls": 1}


async def hang(task):
    await asyncio.Event().wait()


def crash(task):
    raise KeyError("a bug")


async def be_cancelled_by_its_own_library(task):
    raise asyncio.CancelledError


def answer_off_the_schema(task):
    return "apis: all of them"


def give_up(task):
    return ChatTimeoutError("no answer in time")


def raise_the_builtin_timeout(task):
    raise TimeoutError("socket")


def replies(outcome):
    kinds = (Proposal, Refusal, Failure)
    return {m.sender: m for m in outcome.transcript.messages if isinstance(m, kinds)}


def net_of(model, **settings):
    return ContractNet(CATALOG, model, router=PlantedRouter(), settings=RoundSettings(**settings))


class TestDeadline:
    def test_a_late_proposal_is_recorded_and_ignored(self):
        asked = asyncio.Event()

        async def late(task):
            await asked.wait()
            return propose(task)

        async def late_refusal(task):
            await asked.wait()
            return refuse(task)

        async def select(task):
            asked.set()
            for _ in range(10):
                await asyncio.sleep(0)
            return {"apis": ["sms", *(p.api for p in task.proposals)]}

        model = acting(
            {"sms": late, "mail": late_refusal, "photos": hang},
            {InterpretRequest: propose, SelectApis: select},
        )
        outcome = hold(net_of(model, deadline=DEADLINE), announcement="broadcast")
        said = replies(outcome)
        assert isinstance(said["sms"], Proposal) and said["sms"].late
        assert isinstance(said["mail"], Refusal) and said["mail"].late
        assert said["photos"].reason == "deadline"
        assert "end of the round" in said["photos"].error
        assert set(outcome.recommendation) == {"maps", "places", "weather"}
        assert outcome.stages.proposed == {"maps", "places", "weather"}
        assert (outcome.ledger.late, outcome.ledger.failures) == (2, {"deadline": 1})
        assert (
            outcome.ledger.hallucinated == 1
        )  # the manager wanted what it was not offered in time
        assert validate(outcome.transcript).recommendation == outcome.recommendation

    def test_those_whose_turn_never_came_fail_at_the_deadline(self):
        model = acting({"places": hang}, {InterpretRequest: propose, SelectApis: award_all})
        net = net_of(model, deadline=DEADLINE, max_concurrency=1)
        outcome = hold(net, announcement="broadcast")
        said = replies(outcome)
        assert isinstance(said.pop("maps"), Proposal)
        assert {m.reason for m in said.values()} == {"deadline"}
        assert "end of the round" in said.pop("places").error
        assert {m.error for m in said.values()} == {"the deadline passed before its turn came"}
        assert outcome.recommendation == ("maps",)
        assert len([c for c in model.calls if isinstance(c.task, InterpretRequest)]) == 2

    def test_the_call_says_the_deadline(self):
        outcome = hold(net_of(acting(), deadline=30.0), announcement="broadcast")
        calls = [m for m in outcome.transcript.messages if m.performative == "cfp"]
        assert {call.reply_by for call in calls} == {30.0}

    def test_no_one_in_time(self, caplog):
        model = acting(dict.fromkeys(CATALOG.ids, hang))
        outcome = hold(net_of(model, deadline=0.01), announcement="broadcast")
        assert outcome.recommendation == ()
        assert outcome.ledger.failures == {"deadline": 6}
        assert (
            "API selection" not in outcome.ledger.by_stage
        )  # the manager has nothing to choose from
        bids = outcome.ledger.by_stage["bidding"]  # their prompts were sent all the same
        assert (bids.model_calls, bids.tokens_out) == (6, 0)
        assert bids.tokens_in > 0
        assert "every call for proposals failed (6 by deadline)" in caplog.text


class TestContractors:
    @pytest.mark.parametrize(
        ("act", "reason"),
        [
            (hang, "timeout"),
            (give_up, "timeout"),
            (crash, "error"),
            (raise_the_builtin_timeout, "error"),
            (be_cancelled_by_its_own_library, "error"),
            (lambda task: ChatAccessError("no key"), "error"),
            (answer_off_the_schema, "unusable"),
        ],
    )
    def test_one_fails_and_the_round_goes_on(self, act, reason):
        model = acting({"sms": act}, {InterpretRequest: propose, SelectApis: award_all})
        outcome = hold(net_of(model, bid_timeout=DEADLINE), announcement="broadcast")
        said = replies(outcome)
        assert said["sms"].reason == reason
        assert said["sms"].error
        assert set(outcome.recommendation) == set(CATALOG.ids) - {"sms"}
        assert outcome.ledger.failures == {reason: 1}
        assert outcome.failure is None

    def test_a_time_limit_is_named_where_there_is_one(self):
        model = acting({"sms": hang})
        said = replies(hold(net_of(model, bid_timeout=0.01), announcement="broadcast"))
        assert said["sms"].error == "no reply within 0.01 s"
        model = acting({"sms": raise_the_builtin_timeout})
        said = replies(hold(net_of(model), announcement="broadcast"))
        assert said["sms"].error == "TimeoutError: socket"

    def test_an_answer_that_a_model_did_not_check_is_unusable_and_paid(self):
        class Careless(ChatModel):
            name = "careless"

            async def complete(self, request):
                response = await good.complete(request)
                if isinstance(request.task, InterpretRequest):
                    object.__setattr__(response, "data", next(wrong))
                return response

        good = acting()
        wrong = iter([None, {}, {"apis": "maps"}, {"apis": [{"id": 3}]}, {"apis": []}, {"x": 1}])
        outcome = hold(net_of(Careless()), announcement="broadcast")
        assert outcome.ledger.failures == {"unusable": 6}
        assert outcome.ledger.by_stage["bidding"].model_calls == 6

    def test_when_all_fail_by_themselves_the_round_ends_and_says_so(self, caplog):
        wrong = dict.fromkeys(CATALOG.ids, answer_off_the_schema)
        with caplog.at_level(logging.WARNING, "cnp_router.protocols"):
            outcome = hold(net_of(acting(wrong)), announcement="broadcast")
        assert outcome.recommendation == ()
        assert outcome.failure.startswith("every call for proposals failed (6 by unusable), the")
        assert replies(outcome)["sms"].error in outcome.failure
        assert outcome.failure in caplog.text

    @pytest.mark.parametrize("error", [ChatAccessError, ChatConnectionError])
    def test_when_none_can_be_reached_the_round_fails(self, error):
        model = acting(
            {name: lambda task: error("refused", **PAID) for name in CATALOG.ids},
            {Decompose: lambda task: {"functions": ["f"]}},
        )
        with pytest.raises(
            RoundFailedError, match=r"not one of 6 contractors .* refused"
        ) as caught:
            hold(net_of(model), protocol="collaborative", announcement="broadcast")
        ledger = caught.value.transcript.ledger
        assert ledger.failures == {"error": 6}
        assert ledger.by_stage["bidding"].tokens_in == 6 * 70
        assert ledger.by_stage["decomposition"].model_calls == 1
        assert isinstance(caught.value.__cause__, error)

    def test_when_some_answer_nonsense_they_were_reached(self):
        acts = dict.fromkeys(CATALOG.ids, answer_off_the_schema)
        acts["sms"] = lambda task: ChatConnectionError("reset")
        assert hold(net_of(acting(acts)), announcement="broadcast").ledger.failures["error"] == 1

    def test_a_second_announcement_that_fails_loses_no_award(self):
        def maps_only(task):
            return propose(task) if task.apis[0].id == "maps" else ChatConnectionError("reset")

        model = acting({}, {InterpretRequest: maps_only, SelectApis: award_all})
        outcome = hold(net_of(model, iterate=3), request="a map")
        assert outcome.recommendation == ("maps",)
        assert outcome.ledger.failures == {"error": 3}


STEPS = [
    ("manager-led", Decompose, "manager got no answer for the decomposition (step 1)"),
    ("manager-led", MapCategories, "manager got no answer for the category mapping (step 2)"),
    ("manager-led", SelectApis, "manager got no answer for the API selection (step 4)"),
    ("contractor-led", SelectApis, "manager got no answer for the API selection (step 4)"),
    ("collaborative", Decompose, "manager got no answer for the decomposition (step 1)"),
    ("collaborative", SelectApis, "manager got no answer for the API selection (step 4)"),
    ("single-agent", ComposeAlone, "single agent got no answer for the composition (step 1, 2,"),
]


class TestManager:
    @pytest.mark.parametrize(("protocol", "kind", "problem"), STEPS)
    def test_it_fails_with_the_transcript(self, protocol, kind, problem):
        model = acting({}, {kind: lambda task: ChatAnswerError("no JSON", **PAID)})
        with pytest.raises(RoundFailedError, match=re.escape(problem) + ".*: no JSON") as caught:
            hold(net_of(model), protocol=protocol, announcement="broadcast")
        transcript = caught.value.transcript
        assert transcript.messages[0].performative == "request"
        assert (transcript.calls[-1].tokens_in, transcript.calls[-1].tokens_out) == (70, 7)
        assert transcript.ledger.usage.tokens_in >= 70
        proposed = any(m.performative == "propose" for m in transcript.messages)
        assert proposed == (kind is SelectApis)
        assert isinstance(caught.value.__cause__, ChatAnswerError)

    def test_it_fails_in_the_fallback(self):
        model = acting({}, {MapCategories: lambda task: ChatAnswerError("no JSON")})
        net = ContractNet(CATALOG, model, router=PlantedRouter(confidence=0.1))
        with pytest.raises(RoundFailedError, match="no answer for the fallback"):
            hold(net)

    def test_contractors_still_at_work_are_sent_home(self):
        model = acting({"sms": hang}, {SelectApis: lambda task: ChatAnswerError("no JSON")})
        with pytest.raises(RoundFailedError):
            hold(net_of(model, deadline=DEADLINE), announcement="broadcast")

    def test_what_is_no_fault_of_the_model_is_not_hidden(self):
        def bug(task):
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            hold(net_of(acting({}, {SelectApis: bug})), announcement="broadcast")


class TestHallucination:
    def test_hallucinated_apis_are_dropped_and_counted(self):
        model = acting(
            {"sms": lambda task: bid(task, "sms", "maps", "no-such-api", categories=("Nowhere",))},
            {InterpretRequest: refuse, SelectApis: lambda t: {"apis": ["sms", "maps", "sms", "x"]}},
        )
        outcome = hold(net_of(model), announcement="broadcast")
        assert outcome.recommendation == ("sms",)
        assert outcome.ledger.hallucinated == 5
        hallucinated = {
            call.agent: call.hallucinated for call in outcome.transcript.calls if call.hallucinated
        }
        assert hallucinated == {"sms": ("maps", "no-such-api", "Nowhere"), "manager": ("maps", "x")}
        assert outcome.categories == ()

    def test_a_contractor_that_only_invents_refuses(self):
        model = acting({}, {InterpretRequest: lambda task: bid(task, "no-such-api")})
        outcome = hold(net_of(model), announcement="broadcast")
        assert outcome.ledger.messages["refuse"] == 6
        assert outcome.ledger.hallucinated == 6

    def test_a_single_agent_invents(self):
        answer = {"functions": ["f"], "categories": ["Mapping", "Nowhere"]}
        answer |= {"candidates": ["maps", "x"], "apis": ["maps", "x", "y", "maps"]}
        model = acting({}, {ComposeAlone: lambda task: answer})
        outcome = hold(net_of(model), protocol="single-agent", announcement="broadcast")
        assert (outcome.recommendation, outcome.stages.proposed) == (("maps",), {"maps"})
        assert outcome.categories == ("Mapping",)
        assert outcome.ledger.hallucinated == 3
