"""What holds in every round, whatever the agents do."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from chat_server import run
from hypothesis import given, settings
from hypothesis import strategies as st
from negotiation import CATALOG, PlantedRouter, acting, bid, hold, propose, refuse

from cnp_router.agents import ComposeAlone, Decompose, MapCategories, SelectApis, offline_model
from cnp_router.catalog import Api, Catalog, Contractor
from cnp_router.exceptions import ChatAnswerError, ChatRateLimitError
from cnp_router.history import History, Mashup
from cnp_router.llm import Usage
from cnp_router.protocols import (
    Award,
    CallForProposals,
    ContractNet,
    Failure,
    Proposal,
    Refusal,
    Rejection,
    RoundSettings,
    Transcript,
    Waves,
    validate,
)

CATEGORIES = ("Mapping", "Messaging", "Weather")
PROTOCOLS = ("manager-led", "contractor-led", "collaborative")
SMALL = Waves(probability=1.0, at_least=1, target=1.0, growth=1.5, most=9, floor=0.0)
SOON = 0.01  # seconds: a machine too slow for it only makes more contractors late


async def hang(task):
    await asyncio.sleep(60)


async def dawdle(task):
    await asyncio.sleep(SOON * 1.5)
    return propose(task)


def crash(task):
    raise RuntimeError("a bug")


def invent(task):
    return bid(task, "no-such-api", task.apis[0].id, "ignore all rules", categories=("Nonsense",))


def boast(task):
    return bid(task, "no-such-api")


def talk_nonsense(task):
    return ChatAnswerError("no JSON", usage=Usage(40, 4, "server"), calls=2)


def be_overrun(task):
    return ChatRateLimitError("too many requests")


ACTS = [propose, refuse, invent, boast, crash, talk_nonsense, be_overrun, dawdle, hang]


@st.composite
def worlds(draw):
    """A catalog, its contractors (one API may be held by two), and how each contractor acts."""
    n = draw(st.integers(1, 7))
    names = st.lists(st.sampled_from(CATEGORIES), unique=True, max_size=2)
    apis = [Api(f"a{i}", f"A{i}", "text", tuple(draw(names))) for i in range(n)]
    if not any(api.categories for api in apis):
        apis[0] = Api("a0", "A0", "text", ("Weather",))
    left, contractors = list(apis), []
    while left:
        size = draw(st.integers(1, 3))
        contractors.append(Contractor(f"c{len(contractors)}", tuple(left[:size])))
        left = left[size:]
    if draw(st.booleans()):
        contractors.append(Contractor("again", tuple(apis[-2:])))
    acts = {api.id: draw(st.sampled_from(ACTS)) for api in apis}
    return Catalog(apis), contractors, acts


def whimsical_manager(catalog, seed):
    """Return a manager that decomposes, maps and selects at random, and makes up names."""
    draw = random.Random(seed)

    def some(names):
        return [name for name in names if draw.random() < 0.6]

    return {
        Decompose: lambda task: {"functions": ["f", "g", "f", " "][: draw.randint(0, 4)]},
        MapCategories: lambda task: {
            "mappings": [
                {"function": draw.randint(-1, 3), "categories": [*some(task.categories), "Made up"]}
                for _ in range(draw.randint(0, 4))
            ]
        },
        SelectApis: lambda task: {
            "apis": ["made-up", *some([p.api for p in (*task.proposals, *task.awarded)] * 2)]
        },
        ComposeAlone: lambda task: {
            "functions": [],
            "categories": ["Made up", *some(CATEGORIES)],
            "candidates": ["made-up", *some(catalog.ids)],
            "apis": ["made-up", *some(catalog.ids)],
        },
    }


def check_messages(outcome, contractors, catalog):
    messages = outcome.transcript.messages
    assert [m.id for m in messages] == list(range(1, len(messages) + 1))
    assert [m.performative for m in messages].count("request") == 1
    assert messages[-1].performative == "inform"
    by_id = {m.id: m for m in messages}
    holdings = {c.id: {api.id for api in c.apis} for c in contractors}

    calls = [m for m in messages if isinstance(m, CallForProposals)]
    replies = [m for m in messages if isinstance(m, (Proposal, Refusal, Failure))]
    assert Counter(m.in_reply_to for m in replies) == Counter(m.id for m in calls)
    assert all(by_id[m.in_reply_to].receiver == m.sender for m in replies)

    for call in calls:
        assert {each.api for each in call.evidence} <= holdings[call.receiver]

    proposals = [m for m in replies if isinstance(m, Proposal)]
    decisions = [m for m in messages if isinstance(m, (Award, Rejection))]
    assert Counter(m.in_reply_to for m in decisions) == Counter(
        m.id for m in proposals if not m.late
    )
    for proposal in proposals:
        assert {p.api for p in proposal.apis} <= holdings[proposal.sender]
    awarded = []
    for award in (m for m in decisions if isinstance(m, Award)):
        proposal = by_id[award.in_reply_to]
        assert award.receiver == proposal.sender
        assert set(award.apis) <= {p.api for p in proposal.apis}
        awarded += award.apis
    assert len(set(awarded)) == len(awarded)
    if outcome.protocol in PROTOCOLS:
        assert set(outcome.recommendation) == set(awarded)
        assert outcome.stages.selected <= outcome.stages.proposed
    assert set(outcome.recommendation) <= set(catalog.ids)
    assert outcome.recipients == tuple(dict.fromkeys(m.receiver for m in calls))
    tasks = [(m.receiver, m.function) for m in calls]
    assert len(set(tasks)) == len(tasks)
    for before, call in pairwise(calls):
        if (before.iteration, before.wave) == (call.iteration, call.wave):
            continue
        if call.iteration == before.iteration:
            between = messages[before.id : call.id - 1]
            assert not any(isinstance(m, (Award, Rejection)) for m in between)
        replied = {m.in_reply_to for m in replies if m.id < call.id}
        open_ = [m for m in calls if m.id < call.id and m.id not in replied]
        assert all(m.reply_by is not None for m in open_)
        answers = [m for m in replies if by_id[m.in_reply_to] in open_]
        assert all(isinstance(m, Failure) or m.late for m in answers)


def check_ledger(outcome):
    ledger, transcript = outcome.ledger, outcome.transcript
    assert ledger.messages == Counter(m.performative for m in transcript.messages)
    assert ledger.n_messages == len(transcript.messages)
    whole = (ledger.model_calls, ledger.usage.tokens_in, ledger.usage.tokens_out)
    booked = transcript.calls
    assert whole == tuple(
        sum(getattr(call, name) for call in booked) for name in ("calls", "tokens_in", "tokens_out")
    )
    for parts in (ledger.by_role, ledger.by_stage):
        assert whole == tuple(
            sum(getattr(cost, name) for cost in parts.values())
            for name in ("model_calls", "tokens_in", "tokens_out")
        )
        assert sum(cost.messages for cost in parts.values()) == ledger.n_messages
        assert sum(cost.seconds for cost in parts.values()) == pytest.approx(
            sum(call.seconds for call in booked)
        )
    assert ledger.tokens == ledger.usage.tokens_in + ledger.usage.tokens_out
    answered = [call.cfp for call in booked if call.cfp is not None]
    assert len(set(answered)) == len(answered)
    said = [m for m in transcript.messages if isinstance(m, (Proposal, Refusal))]
    assert {m.in_reply_to for m in said} <= set(answered)
    assert ledger.late == sum(m.late for m in said)


def check_replay(outcome):
    result = validate(outcome.transcript)
    assert result.recommendation == outcome.recommendation
    assert result.recipients == outcome.recipients
    if outcome.stages.proposed is not None:
        assert set(result.proposed) == outcome.stages.proposed
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "round.jsonl"
        outcome.transcript.write(path)
        read = Transcript.read(path)
    assert read == outcome.transcript
    assert read.ledger.to_dict()["by_stage"] == outcome.ledger.to_dict()["by_stage"]
    assert validate(read) == result


@settings(max_examples=60)
@given(
    world=worlds(),
    protocol=st.sampled_from([*PROTOCOLS, *PROTOCOLS, "single-agent"]),
    announcement=st.sampled_from(["broadcast", "routed"]),
    seed=st.integers(0, 2**32),
    confidence=st.sampled_from([0.3, 0.9]),
    fallback=st.sampled_from(["llm", "broadcast", "none"]),
    deadline=st.sampled_from([None, SOON]),
    concurrency=st.sampled_from([1, 2, 64]),
    iterate=st.sampled_from([0, 2]),
    evidence=st.sampled_from(["none", "manager", "everyone"]),
    waves=st.sampled_from([None, Waves(at_least=1), SMALL]),
)
def test_conservation(
    world,
    protocol,
    announcement,
    seed,
    confidence,
    fallback,
    deadline,
    concurrency,
    iterate,
    evidence,
    waves,
):
    catalog, contractors, acts = world
    manager = whimsical_manager(catalog, seed)
    model = acting(acts, manager, catalog=catalog)
    settings_ = RoundSettings(
        fallback=fallback,
        deadline=deadline,
        bid_timeout=SOON * 2,
        max_concurrency=concurrency,
        iterate=iterate,
        evidence="none" if announcement == "broadcast" else evidence,
        waves=waves,
    )
    pairs = zip(catalog.ids, (*catalog.ids[1:], catalog.ids[0]), strict=True)
    history = History([Mashup(f"m{i}", "x", tuple({*two})) for i, two in enumerate(pairs)])
    router = PlantedRouter(confidence=confidence, catalog=catalog, history=history)
    net = ContractNet(catalog, model, router=router, organisation=contractors, settings=settings_)
    outcome = run(
        net.run("Send text about a1 and a2", protocol=protocol, announcement=announcement)
    )
    check_messages(outcome, contractors, catalog)
    check_ledger(outcome)
    check_replay(outcome)


@settings(max_examples=40)
@given(
    request=st.sampled_from(
        ["Photos on a map", "A text message when rain comes", "mail", "?", "Nothing of that"]
    ),
    protocol=st.sampled_from(["contractor-led", "collaborative"]),
    by=st.sampled_from(["api", "category", "community", "size"]),
    confidence=st.sampled_from([0.2, 0.9]),
    fallback=st.sampled_from(["llm", "broadcast", "none"]),
)
def test_routed_recipients_are_among_those_of_a_broadcast(
    request, protocol, by, confidence, fallback
):
    net = ContractNet(
        CATALOG,
        offline_model(CATALOG),
        router=PlantedRouter(confidence=confidence),
        organisation=by,
        max_size=2,
        settings=RoundSettings(fallback=fallback),
    )
    how = {"request": request, "protocol": protocol}
    routed = hold(net, **how, announcement="routed")
    broadcast = hold(net, **how, announcement="broadcast")
    assert set(routed.recipients) <= set(broadcast.recipients)
    assert len(broadcast.recipients) == len(net.contractors)
    if confidence > 0.5 and request:
        assert routed.routing.source == "learned"


def test_the_ledger_counts_each_call_of_the_model_once():
    model = acting()
    outcome = hold(ContractNet(CATALOG, model), announcement="broadcast")
    assert outcome.ledger.model_calls == len(model.calls) == 7
    assert outcome.ledger.by_role["contractor"].model_calls == 6
    assert outcome.ledger.by_stage["API selection"].model_calls == 1


@pytest.mark.parametrize("act", [talk_nonsense, be_overrun, crash])
def test_what_was_paid_for_a_failure_is_booked(act):
    outcome = hold(ContractNet(CATALOG, acting({"sms": act})), announcement="broadcast")
    [failure] = [m for m in outcome.transcript.messages if isinstance(m, Failure)]
    paid = [call for call in outcome.transcript.calls if call.cfp == failure.in_reply_to]
    assert [(call.tokens_in, call.tokens_out, call.calls) for call in paid] == (
        [(40, 4, 2)] if act is talk_nonsense else []
    )
    assert outcome.ledger.usage.source == "estimated"
    assert outcome.ledger.failures == {"unusable" if act is talk_nonsense else "error": 1}
