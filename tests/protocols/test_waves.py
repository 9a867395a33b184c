"""Recipients are called in waves, and for their best function first: who, when, how often."""

from __future__ import annotations

import asyncio
import dataclasses

import numpy as np
import pytest
from negotiation import CATALOG, HISTORY, acting, award_all, bid, hold, of_type, propose, refuse

from cnp_router.agents import (
    Decompose,
    InterpretRequest,
    MapCategories,
    MatchFunction,
    ProposedApi,
    SelectApis,
    ServeFunction,
)
from cnp_router.catalog import Api, Catalog, Contractor
from cnp_router.exceptions import BudgetExceededError, InputError, TranscriptError
from cnp_router.protocols import (
    Award,
    CallForProposals,
    ContractNet,
    Failure,
    Proposal,
    Refusal,
    Rejection,
    Report,
    Request,
    RoundSettings,
    TrafficBudget,
    Transcript,
    Waves,
    validate,
)
from cnp_router.routing import PopularityRouter, Router, Scores, SpecificationRouter, TopK

BIDS = (MatchFunction, InterpretRequest, ServeFunction)
ALL_BID = {**dict.fromkeys(BIDS, propose), SelectApis: award_all}
NONE_BIDS = dict.fromkeys(BIDS, refuse)
TWO = {Decompose: lambda _: {"functions": ["tell the rain", "show a map"]}}
A_WHILE = 0.5  # seconds: enough for those who reply at once
FEW = Waves(at_least=2, probability=0.5)


class TableRouter(Router):
    """Gives the probabilities of a table, by text, and remembers what it was asked."""

    def __init__(self, table=None, *, confidence=0.9, catalog=CATALOG):
        super().__init__(catalog.ids)
        self.table = table or {}
        self.confidence = confidence
        self.asked = []

    def _scores(self, request, known, date):
        self.asked.append((request, date))
        descending = dict(zip(self.apis, (0.9, 0.6, 0.1, 0.05, 0.02, 0.001), strict=True))
        given = self.table.get(request, descending)
        return Scores(self.apis, np.array([given.get(name, 0.0) for name in self.apis]))

    def _confidence(self, scores, chosen, allowed):
        return self.confidence


def net_of(model, router=None, *, organisation="api", **settings):
    settings = {"select": TopK(6), **settings}
    return ContractNet(
        CATALOG,
        model,
        router=router or TableRouter(),
        organisation=organisation,
        settings=RoundSettings(**settings),
    )


def waves_of(outcome):
    """Return who is called for what, by wave."""
    waves = {}
    for m in outcome.transcript.messages:
        if isinstance(m, CallForProposals):
            waves.setdefault((m.iteration, m.wave), []).append((m.receiver, m.function))
    return waves


def called(outcome):
    return [[name for name, _ in calls] for calls in waves_of(outcome).values()]


class TestSizes:
    @pytest.mark.parametrize(
        ("probabilities", "n"),
        [([], 0), ([0.9], 1), ([0.9] * 9, 9), ([0.02] * 7 + [0.019], 7), ([0.01] * 9, 5)],
    )
    def test_the_first_wave(self, probabilities, n):
        assert Waves().first(probabilities) == n

    @pytest.mark.parametrize(
        ("proposed", "left", "n"),
        [(0.85, 0.15, 0), (0.84, 0.16, 4), (0.0, 0.2, 4), (0.0, 0.0, 0), (1.0, 0.0, 0)],
    )
    def test_more_are_called_below_the_target(self, proposed, left, n):
        probabilities = [0.5, 0.4, *[0.01] * 20]
        assert Waves().following(probabilities, 2, proposed=proposed, left=left) == n

    def test_none_below_the_floor_and_none_that_are_not_there(self):
        following = Waves(growth=10.0).following
        assert following([0.5, 0.01, 0.008, 0.0079], 1, proposed=0.0, left=0.1) == 2
        assert following([0.5, 0.007], 1, proposed=0.0, left=0.1) == 0
        assert following([0.5], 1, proposed=0.0, left=0.1) == 0
        assert Waves(growth=1.01).following([0.5] * 9, 1, proposed=0.0, left=0.1) == 1

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *[(name, value) for name in ("probability", "target", "floor") for value in (-0.1, 2)],
            *[(name, value) for name in ("at_least", "most") for value in (0, 1.5, True)],
            *[("growth", value) for value in (1, 0.5, float("nan"), float("inf"))],
        ],
    )
    def test_values_out_of_range(self, name, value):
        with pytest.raises(InputError, match=f"{name} of the waves"):
            Waves(**{name: value})

    def test_settings_take_waves_only(self):
        with pytest.raises(InputError, match="waves"):
            RoundSettings(waves=True)


class TestWaves:
    def test_enough_is_proposed_and_nobody_else_is_called(self):
        outcome = hold(net_of(acting({}, ALL_BID), waves=FEW))
        assert called(outcome) == [["maps", "places"]]
        assert (outcome.ledger.waves, outcome.recommendation) == (1, ("maps", "places"))

    @pytest.mark.parametrize("protocol", ["contractor-led", "collaborative"])
    def test_who_refuses_makes_room_for_the_next(self, protocol):
        acts = {"maps": refuse, "places": refuse}
        outcome = hold(net_of(acting(acts, ALL_BID), waves=FEW), protocol=protocol)
        waves = called(outcome)
        # Three times two, without the one below the floor. (A second function is a wave, too.)
        assert waves[0] == ["maps", "places"]
        assert waves[-1] == ["sms", "mail", "weather"]
        assert set(outcome.recommendation) == {"sms", "mail", "weather"}
        assert validate(outcome.transcript).recommendation == outcome.recommendation

    def test_there_are_no_more_than_so_many(self):
        waves = dataclasses.replace(FEW, at_least=1, probability=1.0, growth=1.5, floor=0.0)
        for most in (1, 2, 3, 9):
            model = acting({}, NONE_BIDS)
            outcome = hold(net_of(model, waves=dataclasses.replace(waves, most=most)))
            assert [len(wave) for wave in called(outcome)] == [1, 1, 1, 1, 2][:most]

    def test_all_decisions_come_after_the_last_wave(self):
        outcome = hold(net_of(acting({"maps": refuse}, ALL_BID), waves=FEW))
        kinds = [type(message) for message in outcome.transcript.messages]
        assert outcome.ledger.waves == 2
        decisions = [i for i, kind in enumerate(kinds) if kind in (Award, Rejection)]
        calls = [i for i, kind in enumerate(kinds) if kind is CallForProposals]
        assert max(calls) < min(decisions)

    def test_a_wave_waits_for_the_replies_to_the_last_one(self):
        async def dawdle(task):
            await asyncio.sleep(0.02)
            return refuse(task)

        outcome = hold(net_of(acting({"maps": dawdle, "places": refuse}, ALL_BID), waves=FEW))
        messages = outcome.transcript.messages
        second = next(i for i, m in enumerate(messages) if getattr(m, "wave", 1) == 2)
        replied = {m.sender for m in messages[:second] if isinstance(m, Refusal)}
        assert replied == {"maps", "places"}

    def test_a_deadline_closes_a_wave_and_its_replies_are_late(self):
        next_wave = asyncio.Event()

        async def dawdle(task):
            await next_wave.wait()
            return propose(task)

        async def follow(task):
            next_wave.set()
            await asyncio.sleep(0)
            return propose(task)

        acts = {"maps": dawdle, "places": refuse, "sms": follow}
        outcome = hold(net_of(acting(acts, ALL_BID), waves=FEW, deadline=A_WHILE))
        assert [len(wave) for wave in called(outcome)] == [2, 3]
        [late] = [m for m in outcome.transcript.messages if getattr(m, "late", False)]
        assert late.sender == "maps"
        assert set(outcome.recommendation) == {"sms", "mail", "weather"}
        validate(outcome.transcript)

    def test_a_failure_is_no_proposal(self):
        def crash(task):
            raise RuntimeError("a bug")

        outcome = hold(net_of(acting({"maps": crash, "places": crash}, ALL_BID), waves=FEW))
        assert [len(wave) for wave in called(outcome)] == [2, 3]
        assert sum(isinstance(m, Failure) for m in outcome.transcript.messages) == 2

    def test_where_the_fallback_chooses_all_are_called_at_once(self):
        unsure = TableRouter(confidence=0.1)
        tasks = {**ALL_BID, MapCategories: lambda _: {"mappings": []}}
        for fallback, n in (("llm", 6), ("broadcast", 6), ("none", 2)):
            net = net_of(acting({}, tasks), unsure, waves=FEW, fallback=fallback)
            assert [len(wave) for wave in called(hold(net))] == [n]

    def test_a_broadcast_has_no_waves(self):
        outcome = hold(net_of(acting({}, ALL_BID), waves=FEW), announcement="broadcast")
        assert [len(wave) for wave in called(outcome)] == [6]

    def test_a_contractor_counts_by_its_apis(self):
        contractors = [
            Contractor("a", (CATALOG["maps"], CATALOG["sms"])),
            Contractor("b", (CATALOG["places"], CATALOG["photos"])),
            Contractor("c", (CATALOG["mail"], CATALOG["weather"])),
        ]
        waves = Waves(at_least=1, probability=0.7)
        # It proposes .9 of .9 + .1; .6 + .001 + .05 + .02 are not called yet.
        model = acting({"maps": lambda task: bid(task, "maps")}, ALL_BID)
        outcome = hold(net_of(model, organisation=contractors, waves=waves))
        assert called(outcome) == [["a"], ["b", "c"]]
        enough = dataclasses.replace(waves, target=0.5)
        model = acting({"maps": lambda task: bid(task, "maps")}, ALL_BID)
        outcome = hold(net_of(model, organisation=contractors, waves=enough))
        assert called(outcome) == [["a"]]

    def test_a_wave_beyond_the_budget_is_left_out(self, caplog):
        acts = {"places": refuse}
        whole = hold(net_of(acting(acts, ALL_BID), waves=FEW))
        assert [len(wave) for wave in called(whole)] == [2, 3]
        spent = whole.ledger.n_messages
        net = net_of(acting(acts, ALL_BID), waves=FEW, budget=TrafficBudget(messages=spent - 1))
        outcome = hold(net)
        assert called(outcome) == [["maps", "places"]]
        assert outcome.recommendation == ("maps",)
        assert "no further wave" in caplog.text
        net = net_of(acting(acts, ALL_BID), waves=FEW, budget=TrafficBudget(messages=spent))
        assert [len(wave) for wave in called(hold(net))] == [2, 3]
        with pytest.raises(BudgetExceededError):
            hold(net_of(acting(), waves=FEW, budget=TrafficBudget(messages=5)))

    @pytest.mark.parametrize("protocol", ["manager-led", "collaborative"])
    def test_the_first_wave_alone_has_to_fit_in_the_budget(self, protocol):
        tasks = {**ALL_BID, Decompose: lambda _: {"functions": ["show a map"]}}
        budget = TrafficBudget(messages=12)
        outcome = hold(net_of(acting({}, tasks), waves=FEW, budget=budget), protocol=protocol)
        assert called(outcome) == [["maps", "places"]]
        with pytest.raises(BudgetExceededError):
            hold(net_of(acting({}, tasks), budget=budget), protocol=protocol)

    def test_the_iterated_announcement_comes_after_the_awards(self):
        from negotiation import PlantedRouter

        router = PlantedRouter()
        model = acting({}, ALL_BID)
        net = net_of(model, router, waves=Waves(at_least=1, probability=0.5), iterate=2)
        outcome = hold(net, request="photos")
        assert list(waves_of(outcome)) == [(1, 1), (2, 1)]
        assert outcome.ledger.waves == 2
        validate(outcome.transcript)


class TestBestFunctionFirst:
    TABLE = {  # noqa: RUF012
        "tell the rain": {"weather": 0.9, "maps": 0.1, "sms": 0.3},
        "show a map": {"weather": 0.2, "maps": 0.8, "sms": 0.004},
    }

    def hold(self, model, table=None, **settings):
        settings = {"select": TopK(3), **settings}
        router = TableRouter({"a request": {"weather": 0.9, "maps": 0.8, "sms": 0.7}})
        router.table |= self.TABLE if table is None else table
        return hold(net_of(model, router, **settings), "a request", protocol="collaborative")

    def test_each_is_called_for_the_function_that_needs_it_most(self):
        outcome = self.hold(acting({}, {**ALL_BID, **TWO}))
        assert waves_of(outcome) == {
            (1, 1): [("weather", "tell the rain"), ("maps", "show a map"), ("sms", "tell the rain")]
        }
        assert set(outcome.recommendation) == {"weather", "maps", "sms"}

    def test_who_refuses_is_called_for_one_more_unless_that_hardly_needs_it(self):
        outcome = self.hold(acting({}, {**NONE_BIDS, **TWO}))
        assert waves_of(outcome)[1, 2] == [("weather", "show a map"), ("maps", "tell the rain")]
        assert outcome.ledger.waves == 2
        validate(outcome.transcript)

    def test_there_is_no_third_one(self):
        three = {Decompose: lambda _: {"functions": ["tell the rain", "show a map", "other"]}}
        table = {**self.TABLE, "other": dict.fromkeys(CATALOG.ids, 0.15)}
        outcome = self.hold(acting({}, {**NONE_BIDS, **three}), table)
        calls = [each for wave in waves_of(outcome).values() for each in wave]
        assert calls.count(("sms", "other")) == 1
        assert len(calls) == 6

    def test_who_fails_or_is_late_is_not_called_again(self):
        def crash(task):
            raise RuntimeError("a bug")

        async def hang(task):
            await asyncio.sleep(60)

        acts = {"weather": crash, "maps": hang, "sms": refuse}
        table = {**self.TABLE, "show a map": dict.fromkeys(CATALOG.ids, 0.2)}
        outcome = self.hold(acting(acts, {**ALL_BID, **TWO}), table, deadline=A_WHILE)
        assert waves_of(outcome)[1, 2] == [("sms", "show a map")]

    def test_a_broadcast_calls_each_for_each(self):
        model = acting({}, {**ALL_BID, **TWO})
        outcome = hold(net_of(model), protocol="collaborative", announcement="broadcast")
        assert len(waves_of(outcome)[1, 1]) == 12

    def test_one_function_needs_no_order(self):
        router = TableRouter()
        model = acting({}, {**ALL_BID, Decompose: lambda _: {"functions": ["show a map"]}})
        outcome = hold(net_of(model, router), protocol="collaborative")
        assert len(waves_of(outcome)[1, 1]) == 6
        assert len(router.asked) == 1

    def test_a_contractor_of_several_apis_is_called_for_the_best_of_each(self):
        contractors = [
            Contractor("a", (CATALOG["weather"], CATALOG["maps"])),
            Contractor("b", (CATALOG["sms"], CATALOG["mail"])),
        ]
        model = acting({}, {**NONE_BIDS, **TWO})
        outcome = self.hold(model, organisation=contractors)
        # The mail is no recipient, and nobody is called twice for one function.
        assert waves_of(outcome) == {
            (1, 1): [("a", "tell the rain"), ("a", "show a map"), ("b", "tell the rain")]
        }

    @pytest.mark.parametrize(
        "router", [PopularityRouter(CATALOG, HISTORY), SpecificationRouter(CATALOG)], ids=repr
    )
    @pytest.mark.parametrize("waves", [None, Waves()])
    def test_any_router_will_do(self, router, waves):
        model = acting({}, {**NONE_BIDS, **TWO})
        net = net_of(model, router, waves=waves, fallback="none")
        outcome = hold(net, protocol="collaborative")
        validate(outcome.transcript)
        tasks = of_type(model, ServeFunction)
        assert len({(task.apis, task.function) for task in tasks}) == len(tasks)

    def test_a_router_that_does_not_know_all_apis(self):
        catalog = Catalog([*CATALOG, Api("tides", "Tides", "Tides.", ("Weather",))])
        router = TableRouter(confidence=0.1)
        tasks = {**ALL_BID, **TWO, MapCategories: lambda _: {"mappings": []}}
        settings = RoundSettings(fallback="broadcast")
        net = ContractNet(catalog, acting({}, tasks), router=router, settings=settings)
        assert len(hold(net, protocol="collaborative").recipients) == 6


def call(number, receiver="a", function=None, **fields):
    ends = {"id": number, "sender": "manager", "receiver": receiver}
    return CallForProposals(**ends, request=None if function else "r", function=function, **fields)


def said(kind, number, to, sender="a", **fields):
    return kind(id=number, sender=sender, receiver="manager", in_reply_to=to, **fields)


def decided(number, to, receiver="a"):
    return Rejection(id=number, sender="manager", receiver=receiver, in_reply_to=to)


OFFER = (ProposedApi("maps", "So."),)
SOON = {"reply_by": 1.0}
BROKEN = {
    "called twice for one": (
        (call(2), said(Refusal, 3, 2), call(4, wave=2)),
        "called for the same a second time",
    ),
    "called twice for one function": (
        (call(2, function="f"), call(3, function="f")),
        "called for the same a second time",
    ),
    "called again after the awards": (
        (call(2), said(Proposal, 3, 2, apis=OFFER), decided(4, 3), call(5, iteration=2)),
        "called for the same a second time",
    ),
    "a wave before the reply": ((call(2), call(3, "b", wave=2)), "before the reply to 2"),
    "an announcement before the reply": (
        (call(2), call(3, "b", iteration=2)),
        "before the reply to 2",
    ),
    "a reply in time to a closed wave": (
        (call(2, **SOON), call(3, "b", wave=2, **SOON), said(Refusal, 4, 2)),
        "its wave is closed",
    ),
    "a proposal in time to a closed wave": (
        (call(2, **SOON), call(3, "b", wave=2, **SOON), said(Proposal, 4, 2, apis=OFFER)),
        "its wave is closed",
    ),
    "a wave after a decision": (
        (call(2), said(Proposal, 3, 2, apis=OFFER), decided(4, 3), call(5, "b", wave=2)),
        "comes after a decision",
    ),
    "no first wave": ((call(2, wave=2),), "a wave is left out"),
    "no second wave": ((call(2), said(Refusal, 3, 2), call(4, "b", wave=3)), "is left out"),
    "back to the first wave": (
        (call(2), said(Refusal, 3, 2), call(4, "b", wave=2), call(5, "c")),
        "is left out",
    ),
    "no first announcement": ((call(2, iteration=2),), "is left out"),
    "a wave before all": ((call(2, iteration=0),), "is left out"),
}


def transcript_of(messages):
    opened = Request(id=1, sender="user", receiver="manager", text="r")
    end = {"id": len(messages) + 2, "sender": "manager", "receiver": "user", "in_reply_to": 1}
    everything = (opened, *messages, Report(**end, apis=()))
    return Transcript("r", "contractor-led", "routed", "tiny", everything)


class TestLaws:
    @pytest.mark.parametrize(("messages", "law"), BROKEN.values(), ids=BROKEN)
    def test_a_broken_law_is_noticed(self, messages, law):
        with pytest.raises(TranscriptError, match=law):
            validate(transcript_of(messages))

    def test_what_the_laws_allow(self):
        late = {"apis": OFFER, "late": True}
        validate(
            transcript_of(
                (
                    call(2, **SOON),
                    call(3, "b", "f", **SOON),
                    said(Refusal, 4, 3, "b"),
                    call(5, "b", "g", wave=2, **SOON),
                    said(Proposal, 6, 2, **late),
                    said(Proposal, 7, 5, "b", apis=OFFER),
                    decided(8, 7, "b"),
                    call(9, "c", iteration=2, **SOON),
                    said(Failure, 10, 9, "c", reason="deadline"),
                )
            )
        )
