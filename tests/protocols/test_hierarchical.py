"""Contractors that manage nets of their own: what is said on both levels, and what must hold."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections import Counter

import pytest
from chat_server import run
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from negotiation import (
    CATALOG,
    REQUEST,
    FakeActor,
    PlantedRouter,
    acting,
    award_all,
    hold,
    of_type,
    propose,
    refuse,
)
from test_laws_of_rounds import check_replay, whimsical_manager, worlds

from cnp_router.agents import InterpretRequest, SelectApis, offline_model
from cnp_router.catalog import Contractor
from cnp_router.exceptions import BudgetExceededError, InputError, RoundFailedError, TranscriptError
from cnp_router.execution import Executor
from cnp_router.llm import ChatModel
from cnp_router.protocols import (
    Award,
    CallForProposals,
    ContractNet,
    Failure,
    Proposal,
    Refusal,
    Rejection,
    RoundSettings,
    TrafficBudget,
    validate,
)
from cnp_router.protocols.hierarchical import Hierarchical
from cnp_router.routing import TopK
from cnp_router.sources import FunctionSource, Sources

EVERYTHING = {
    InterpretRequest: propose,
    SelectApis: award_all,
}
MANAGERS = [f"manager of {name}" for name in ("Mapping", "Messaging", "Weather", "Photos")]


def held(model=None, *, announcement="broadcast", protocol="hierarchical", actor=None, **options):
    settings_ = options.pop("settings", RoundSettings())
    net = ContractNet(
        CATALOG,
        acting({}, EVERYTHING) if model is None else model,
        router=PlantedRouter(),
        settings=settings_,
        **options,
    )
    return hold(net, protocol=protocol, announcement=announcement, actor=actor)


def said(outcome, kind, **fields):
    return [
        m
        for m in outcome.transcript.messages
        if isinstance(m, kind) and all(getattr(m, name) == v for name, v in fields.items())
    ]


def manager_of(outcome):
    """Return who called each member."""
    return {m.receiver: m.sender for m in said(outcome, CallForProposals) if m.sender != "manager"}


class TestBothLevels:
    def test_each_member_is_called_by_the_manager_of_its_category(self):
        outcome = held()
        assert manager_of(outcome) == {
            **dict.fromkeys(("maps", "places"), "manager of Mapping"),
            **dict.fromkeys(("sms", "mail"), "manager of Messaging"),
            "weather": "manager of Weather",
            "photos": "manager of Photos",
        }
        calls = said(outcome, CallForProposals)
        upper = {call.id: call for call in calls if call.sender == "manager"}
        assert len(upper) == 4
        assert all(call.in_reply_to is None for call in upper.values())
        for call in calls:
            if call.id not in upper:
                assert upper[call.in_reply_to].receiver == call.sender
        assert set(outcome.recipients) == set(CATALOG.ids)
        assert outcome.n_contractors == len(CATALOG)

    def test_proposals_go_up_and_awards_down(self):
        outcome = held()
        up = said(outcome, Proposal, receiver="manager")
        assert {p.sender for p in up} == set(manager_of(outcome).values())
        assert {each.api for p in up for each in p.apis} == set(CATALOG.ids)
        awards = said(outcome, Award)
        own = [api for a in awards if a.sender == "manager" for api in a.apis]
        passed_on = {a.receiver: a.apis for a in awards if a.sender != "manager"}
        assert set(own) == set(outcome.recommendation) == set(CATALOG.ids)
        assert passed_on == {name: (name,) for name in CATALOG.ids}

    def test_what_a_category_manager_does_not_pass_on_is_rejected_by_it(self):
        def choose(task):
            return {"apis": [p.api for p in task.proposals if p.api not in ("places", "mail")]}

        outcome = held(acting({}, {**EVERYTHING, SelectApis: choose}))
        assert outcome.stages.proposed == {"maps", "sms", "weather", "photos"}
        rejected = {m.receiver: m.sender for m in said(outcome, Rejection)}
        assert rejected == {"places": "manager of Mapping", "mail": "manager of Messaging"}

    def test_what_the_manager_rejects_its_category_manager_rejects_too(self):
        def choose(task):
            ids = [p.api for p in task.proposals]
            return {"apis": ids if len(ids) < 4 else ["maps"]}

        outcome = held(acting({}, {**EVERYTHING, SelectApis: choose}))
        assert outcome.recommendation == ("maps",)
        ways = {(m.sender, m.receiver) for m in said(outcome, Rejection)}
        assert ("manager", "manager of Weather") in ways
        assert ("manager of Weather", "weather") in ways
        assert ("manager of Mapping", "places") in ways
        assert len(said(outcome, Award)) == 2

    def test_the_ledger_counts_both_levels(self):
        outcome = held()
        ledger = outcome.ledger
        roles = ledger.by_role
        assert roles["contractor"].model_calls == len(CATALOG)
        assert roles["category-manager"].model_calls == 4 + 2  # looks, and choices among two
        assert roles["manager"].model_calls == 1
        sent = Counter(m.sender for m in outcome.transcript.messages)
        by_managers = sum(n for name, n in sent.items() if name.startswith("manager of"))
        bids = len(said(outcome, Proposal, receiver="manager"))
        assert roles["category-manager"].messages == by_managers - bids
        assert sum(cost.messages for cost in roles.values()) == ledger.n_messages
        check_ledger_sums(outcome)

    def test_a_single_proposal_is_passed_on_without_a_model(self):
        model = acting({}, EVERYTHING)
        outcome = held(model, announcement="routed")
        assert all(len(task.proposals) > 1 for task in of_type(model, SelectApis))
        assert outcome.recommendation


class TestWhoIsReached:
    def test_a_broadcast_asks_each_category_manager_first(self):
        def look(task):
            is_ours = task.apis[0].id in ("manager of Weather", "weather")
            return propose(task) if is_ours else refuse(task)

        model = acting(dict.fromkeys(MANAGERS, look), EVERYTHING)
        outcome = held(model)
        assert outcome.recipients == ("weather",)
        refusals = {m.sender for m in said(outcome, Refusal)}
        assert refusals == {"manager of Mapping", "manager of Messaging", "manager of Photos"}
        asked = [task.apis for task in of_type(model, InterpretRequest)]
        assert [apis[0].id for apis in asked] == [*MANAGERS, "weather"]
        assert asked[0][0].name == "Mapping"
        assert "Places: Finds restaurants" in asked[0][0].description

    def test_a_routed_call_reaches_those_the_router_chose(self):
        settings_ = RoundSettings(select=TopK(2))
        model = acting({}, EVERYTHING)
        outcome = held(model, announcement="routed", settings=settings_)
        flat = held(
            acting({}, EVERYTHING),
            announcement="routed",
            protocol="contractor-led",
            settings=settings_,
        )
        assert set(outcome.recipients) == set(flat.recipients)
        assert len(outcome.recipients) == 2
        assert len(of_type(model, InterpretRequest)) == 2

    def test_or_all_members_of_their_categories(self):
        settings_ = RoundSettings(select=TopK(2))
        flat = held(announcement="routed", protocol="contractor-led", settings=settings_)
        outcome = held(announcement="routed", protocol=Hierarchical("category"), settings=settings_)
        categories = {CATALOG[name].categories[0] for name in flat.recipients}
        assert set(outcome.recipients) == {
            api.id for api in CATALOG if api.categories[0] in categories
        }
        with pytest.raises(InputError, match="unknown members 'all'"):
            Hierarchical("all")

    def test_a_contractor_may_be_called_as_a_category_manager_would_be(self):
        contractors = [Contractor("manager of Mapping", tuple(CATALOG))]
        outcome = held(organisation=contractors)
        assert manager_of(outcome) == {"manager of Mapping": "manager of Mapping'"}

    def test_contractors_of_several_apis_are_members(self):
        outcome = held(organisation="size", max_size=3)
        assert outcome.recommendation
        assert set(outcome.recipients) == {c.id for c in ContractNet(
            CATALOG, acting(), organisation="size", max_size=3).contractors}  # fmt: skip

    def test_a_second_announcement_goes_to_contractors_themselves(self):
        def choose(task):
            return {"apis": [p.api for p in task.proposals if p.api in ("weather", "sms")]}

        settings_ = RoundSettings(select=TopK(2), iterate=3)
        model = acting({}, {**EVERYTHING, SelectApis: choose})
        outcome = held(model, announcement="routed", settings=settings_)
        second = said(outcome, CallForProposals, iteration=2)
        assert second
        assert {call.sender for call in second} == {"manager"}


class TestWhatGoesWrong:
    def test_no_proposal_is_a_refusal(self):
        outcome = held(acting(dict.fromkeys(CATALOG.ids, refuse), EVERYTHING))
        up = said(outcome, Refusal, receiver="manager")
        assert {m.grounds for m in up} == {"None of my members proposes anything."}
        assert outcome.recommendation == ()

    def test_a_category_whose_members_all_fail_fails(self):
        def crash(task):
            raise RuntimeError("a bug")

        outcome = held(acting({"weather": crash}, EVERYTHING))
        [failure] = said(outcome, Failure, receiver="manager")
        assert failure.sender == "manager of Weather"
        assert failure.error == "every member failed: RuntimeError: a bug"
        assert "weather" not in outcome.recommendation
        everyone = held(acting(dict.fromkeys(CATALOG.ids, crash), EVERYTHING))
        assert everyone.failure.startswith("every call for proposals failed")

    def test_a_category_manager_that_fails_rejects_what_was_proposed_to_it(self):
        def choose(task):
            if {p.api for p in task.proposals} == {"maps", "places"}:
                raise RuntimeError("a bug")
            return award_all(task)

        outcome = held(acting({}, {**EVERYTHING, SelectApis: choose}))
        [failure] = said(outcome, Failure)
        assert failure.sender == "manager of Mapping"
        assert set(outcome.recommendation) == {"sms", "mail", "weather", "photos"}
        ways = {(m.sender, m.receiver) for m in said(outcome, Rejection)}
        assert ways == {("manager of Mapping", "maps"), ("manager of Mapping", "places")}

    def test_after_the_deadline_members_are_late_and_their_manager_goes_on(self):
        async def dawdle(task):
            await asyncio.sleep(0.1)
            return propose(task)

        settings_ = RoundSettings(deadline=0.02)
        outcome = held(acting({"maps": dawdle}, EVERYTHING), settings=settings_)
        assert "maps" not in outcome.recommendation
        assert "places" in outcome.recommendation
        [call] = said(outcome, CallForProposals, receiver="maps")
        assert call.reply_by == 0.02
        ends = [m for m in outcome.transcript.messages if getattr(m, "in_reply_to", 0) == call.id]
        assert len(ends) == 1
        assert isinstance(ends[0], Failure) or ends[0].late

    def test_where_nobody_can_be_reached_the_round_fails(self):
        from cnp_router.exceptions import ChatConnectionError

        class Gone(ChatModel):
            name = "gone"

            async def complete(self, request):
                raise ChatConnectionError("no server", model="gone")

        with pytest.raises(RoundFailedError, match="could be reached"):
            held(Gone(), announcement="routed", settings=RoundSettings(fallback="none"))

    def test_a_budget_is_kept(self):
        for tokens in (300, 1_000, 2_000, 3_000, 4_000, 100_000):
            settings_ = RoundSettings(budget=TrafficBudget(tokens=tokens))
            try:
                outcome = held(settings=settings_)
            except BudgetExceededError as exc:
                spent = exc.transcript.ledger.tokens
            else:
                spent = outcome.ledger.tokens
            assert spent <= tokens
        with pytest.raises(BudgetExceededError) as caught:
            held(settings=RoundSettings(budget=TrafficBudget(messages=20)))
        assert caught.value.transcript.ledger.messages == {"request": 1}


class TestActing:
    def test_a_category_manager_answers_for_its_members(self):
        actor = FakeActor({"sms": "unavailable"})
        outcome = held(actor=actor)
        assert {job.contractor for job in actor.asked} <= {
            f"manager of {name}" for name in CATALOG.categories
        }
        assert "sms" not in outcome.recommendation
        assert "maps" in outcome.recommendation
        passed_on = [a for a in said(outcome, Award) if a.sender != "manager"]
        assert {a.receiver for a in passed_on} == set(CATALOG.ids)

    def test_an_executor_does_what_it_is_awarded(self):
        def forecast(city: str = "Nara") -> str:
            """Forecasts rain, wind and sun."""
            return f"Rain in {city}."

        def send(text: str) -> str:
            """Sends text messages to phones."""
            return "sent"

        async def main():
            effects = dict.fromkeys(("forecast", "send"), "reads")
            source = FunctionSource("tools", [forecast, send], effects=effects)
            async with Sources([source]) as tools:
                catalog = await tools.catalog()
                net = ContractNet(catalog, offline_model(catalog), router=PlantedRouter(
                    catalog=catalog))  # fmt: skip
                executor = Executor(net, tools)
                return await executor.execute(
                    "Forecasts of rain", protocol="hierarchical", announcement="broadcast"
                )

        execution = run(main())
        assert execution.is_done
        assert [result.text for result in execution.results.values()] == ["Rain in Nara."]
        [transcript] = execution.transcripts
        assert validate(transcript).recommendation == ("tools__forecast",)

    @settings(max_examples=40, deadline=None)
    @given(world=worlds(), seed=st.integers(0, 2**32), announcement=st.sampled_from(
        ["broadcast", "routed"]), again=st.booleans())  # fmt: skip
    def test_the_laws_hold(self, world, seed, announcement, again):
        catalog, contractors, acts = world
        draw = random.Random(seed)
        kinds = ["done", "cancel", "open", "unavailable", "tool"]
        actor = FakeActor({name: draw.choice(kinds) for name in catalog.ids}, again=again)
        net = ContractNet(
            catalog,
            acting(acts, whimsical_manager(catalog, seed), catalog=catalog),
            router=PlantedRouter(catalog=catalog),
            organisation=contractors,
            settings=RoundSettings(select=TopK(4), bid_timeout=0.02),
        )
        outcome = run(
            net.run("a1 and a2", protocol="hierarchical", announcement=announcement, actor=actor)
        )
        check_replay(outcome)


def check_ledger_sums(outcome):
    ledger = outcome.ledger
    for parts in (ledger.by_role, ledger.by_stage):
        assert sum(cost.messages for cost in parts.values()) == ledger.n_messages
        assert sum(cost.model_calls for cost in parts.values()) == ledger.model_calls
        assert sum(c.tokens_in + c.tokens_out for c in parts.values()) == ledger.tokens


@settings(max_examples=60, deadline=None)
@given(
    world=worlds(),
    announcement=st.sampled_from(["broadcast", "routed"]),
    seed=st.integers(0, 2**32),
    members=st.sampled_from(["recipients", "category"]),
    deadline=st.sampled_from([None, 0.01]),
    concurrency=st.sampled_from([1, 2, 64]),
    iterate=st.sampled_from([0, 2]),
    evidence=st.sampled_from(["none", "manager", "everyone"]),
)
def test_conservation(world, announcement, seed, members, deadline, concurrency, iterate, evidence):
    catalog, contractors, acts = world
    settings_ = RoundSettings(
        deadline=deadline,
        bid_timeout=0.02,
        max_concurrency=concurrency,
        iterate=iterate,
        evidence="none" if announcement == "broadcast" else evidence,
    )
    net = ContractNet(
        catalog,
        acting(acts, whimsical_manager(catalog, seed), catalog=catalog),
        router=PlantedRouter(catalog=catalog),
        organisation=contractors,
        settings=settings_,
    )
    outcome = run(
        net.run(
            "Send text about a1 and a2", protocol=Hierarchical(members), announcement=announcement
        )
    )
    messages = outcome.transcript.messages
    by_id = {m.id: m for m in messages}
    calls = said(outcome, CallForProposals)
    replies = said(outcome, (Proposal, Refusal, Failure))
    assert Counter(m.in_reply_to for m in replies) == Counter(m.id for m in calls)
    for reply in replies:
        call = by_id[reply.in_reply_to]
        assert (reply.sender, reply.receiver) == (call.receiver, call.sender)
    decisions = said(outcome, (Award, Rejection))
    in_time = [p for p in said(outcome, Proposal) if not p.late]
    assert Counter(m.in_reply_to for m in decisions) == Counter(p.id for p in in_time)
    awarded = [api for m in said(outcome, Award, sender="manager") for api in m.apis]
    assert sorted(awarded) == sorted(outcome.recommendation)
    below = {m.id for m in calls if m.in_reply_to is not None}
    passed_on = [
        api
        for m in said(outcome, Award)
        if by_id[m.in_reply_to].in_reply_to in below
        for api in m.apis
    ]
    managing = {by_id[m].sender for m in below}
    by_managers = [
        api
        for m in said(outcome, Award, sender="manager")
        if m.receiver in managing
        for api in m.apis
    ]
    assert sorted(passed_on) == sorted(by_managers)
    check_ledger_sums(outcome)
    check_replay(outcome)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_changed_message_is_noticed(data):
    outcome = TRANSCRIPTS.setdefault("one", held(acting()))
    messages = list(outcome.transcript.messages)
    place = data.draw(st.integers(0, len(messages) - 1))
    message = messages[place]
    changes = {"id": message.id + 1, "sender": "stranger", "receiver": "stranger"}
    if isinstance(message, CallForProposals):
        changes |= {"in_reply_to": data.draw(st.sampled_from([None, 1, 2, 99])), "request": "x"}
        changes["wave"] = 2
    if isinstance(message, Award):
        changes["apis"] = data.draw(st.sampled_from([(*message.apis, "evil"), message.apis * 2]))
    if isinstance(message, (Proposal, Refusal, Award, Rejection)):
        changes["in_reply_to"] = message.in_reply_to + data.draw(st.sampled_from([-1, 1, 50]))
    name = data.draw(st.sampled_from(sorted(changes)))
    messages[place] = dataclasses.replace(message, **{name: changes[name]})
    assume(messages[place] != message)
    changed = dataclasses.replace(outcome.transcript, messages=tuple(messages), digest="")
    with pytest.raises(TranscriptError, match=r"message|the round has no report"):
        validate(changed)


TRANSCRIPTS = {}


def altered(outcome, old, **changes):
    messages = tuple(
        dataclasses.replace(m, **changes) if m == old else m for m in outcome.transcript.messages
    )
    return dataclasses.replace(outcome.transcript, messages=messages, digest="")


class TestLaws:
    def test_nothing_is_proposed_upward_that_no_member_proposed(self):
        outcome = held(acting({"places": refuse}, EVERYTHING))
        [up] = said(outcome, Proposal, sender="manager of Mapping")
        forged = dataclasses.replace(up.apis[0], api="places")
        with pytest.raises(TranscriptError, match="what no member proposed in time"):
            validate(altered(outcome, up, apis=(forged,)))

    def test_a_category_manager_awards_what_it_was_awarded(self):
        def choose(task):
            ids = [p.api for p in task.proposals]
            return {"apis": ids if len(ids) < 4 else ["maps"]}

        outcome = held(acting({}, {**EVERYTHING, SelectApis: choose}))
        [award] = [a for a in said(outcome, Award) if a.sender != "manager"]
        messages = [m for m in outcome.transcript.messages if m != award]
        way = {"sender": award.sender, "receiver": "maps", "in_reply_to": award.in_reply_to}
        messages.insert(award.id - 1, Rejection(id=award.id, **way))
        kept = dataclasses.replace(outcome.transcript, messages=tuple(messages), digest="")
        with pytest.raises(TranscriptError, match="was awarded 'maps' and gave it to nobody"):
            validate(kept)
        [no] = said(outcome, Rejection, receiver="places")
        messages = list(outcome.transcript.messages)
        messages[no.id - 1] = Award(
            id=no.id, sender=no.sender, receiver="places", in_reply_to=no.in_reply_to,
            apis=("places",))  # fmt: skip
        gave = dataclasses.replace(outcome.transcript, messages=tuple(messages), digest="")
        with pytest.raises(TranscriptError, match="it awards what it was not awarded itself"):
            validate(gave)

    def test_a_call_is_passed_on_by_who_was_called_and_as_it_was(self):
        outcome = held()
        call = next(m for m in said(outcome, CallForProposals) if m.in_reply_to is not None)
        for changes, law in (
            ({"sender": "manager of Photos"}, "another one was called"),
            ({"in_reply_to": None}, "the manager announces"),
            ({"in_reply_to": 1}, "no call 1 waits to be passed on"),
            ({"request": None}, "it passes on another request"),
            ({"wave": 2}, "of another wave"),
        ):
            if call.sender == "manager of Photos":
                continue
            with pytest.raises(TranscriptError, match=law):
                validate(altered(outcome, call, **changes))


def test_the_request_is_the_same_on_both_levels():
    assert {m.request for m in said(held(), CallForProposals)} == {REQUEST}
