"""What holds in every round whose awards are acted on, and that each breach is noticed."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from chat_server import run
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from negotiation import (
    CATALOG,
    FakeActor,
    PlantedRouter,
    acting,
    award_all,
    bid,
    hold,
    propose,
)
from test_laws_of_rounds import PROTOCOLS, check_ledger, check_replay, whimsical_manager, worlds

from cnp_router.agents import (
    ComposeAlone,
    Decompose,
    InterpretRequest,
    MatchFunction,
    SelectApis,
    ServeFunction,
)
from cnp_router.catalog import Contractor
from cnp_router.exceptions import TranscriptError
from cnp_router.protocols import (
    Award,
    CallForProposals,
    Cancel,
    ContractNet,
    Failure,
    InformResult,
    Proposal,
    Rejection,
    RoundSettings,
    validate,
)
from cnp_router.protocols.validation import conclude
from cnp_router.routing import TopK

KINDS = ("lost", "tool", "unavailable", "declined")


def ends_of(messages):
    """Return what came of awards, by the id of the award."""
    return {
        m.in_reply_to: m
        for m in messages
        if isinstance(m, InformResult | Cancel) or (isinstance(m, Failure) and m.api is not None)
    }


def function_of(messages, award):
    replied = messages[award.in_reply_to - 1]
    return messages[replied.in_reply_to - 1].function if isinstance(replied, Proposal) else None


def check_acting(outcome, actor, contractors):
    messages = outcome.transcript.messages
    awards = [m for m in messages if isinstance(m, Award)]
    ends = ends_of(messages)
    assert set(ends) == {award.id for award in awards}
    n_ends = sum(isinstance(m, InformResult | Cancel | Failure) for m in messages)
    n_unanswered = sum(isinstance(m, Failure) and m.api is None for m in messages)
    assert n_ends - n_unanswered == len(awards)
    holdings = {c.id: {api.id for api in c.apis} for c in contractors}
    given = [(award.apis, function_of(messages, award)) for award in awards]
    assert max(Counter(given).values(), default=1) == 1
    replaced = [award.instead_of for award in awards if award.instead_of is not None]
    assert len(set(replaced)) == len(replaced)
    for award in awards:
        [api] = award.apis
        assert api in holdings[award.receiver]
        end = ends[award.id]
        assert end.id > award.id
        ways = (end.sender, end.receiver), (award.receiver, "manager")
        assert ways[0] == (ways[1][::-1] if isinstance(end, Cancel) else ways[1])
        assert getattr(end, "api", api) == api
        if award.instead_of is not None:
            assert isinstance(ends[award.instead_of], Failure)
            before = messages[award.instead_of - 1]
            assert function_of(messages, before) == function_of(messages, award)
    first_end = min((end.id for end in ends.values()), default=len(messages))
    decided = [m for m in messages if isinstance(m, Rejection | CallForProposals | Proposal)]
    assert all(m.id < first_end for m in decided)
    results = {m.id: m.api for m in messages if isinstance(m, InformResult)}
    report = messages[-1]
    assert set(report.results) == set(results)
    assert set(report.apis) == set(results.values()) == set(outcome.recommendation)
    assert [job.award for job in actor.asked] == [award.id for award in _acted(awards, ends)]


def _acted(awards, ends):
    """Return the awards in the order in which the fake actor takes them."""
    instead = {award.instead_of: award for award in awards if award.instead_of is not None}
    for award in awards:
        job = award if award.instead_of is None else None
        while job is not None:
            yield job
            job = instead.get(job.id)


@settings(max_examples=60, deadline=None)
@given(
    world=worlds(),
    protocol=st.sampled_from([*PROTOCOLS, *PROTOCOLS, "single-agent", "learned"]),
    announcement=st.sampled_from(["broadcast", "routed"]),
    seed=st.integers(0, 2**32),
    iterate=st.sampled_from([0, 2]),
    evidence=st.sampled_from(["none", "manager"]),
    data=st.data(),
)
def test_conservation(world, protocol, announcement, seed, iterate, evidence, data):
    catalog, contractors, acts = world
    ends = {
        name: data.draw(st.sampled_from(["done", "done", "cancel", "open", *KINDS]))
        for name in catalog.ids
    }
    settings_ = RoundSettings(
        select=TopK(4),
        bid_timeout=0.02,
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
    actor = FakeActor(ends, again=data.draw(st.booleans()))
    request = "Send text about a1 and a2"
    outcome = run(net.run(request, protocol=protocol, announcement=announcement, actor=actor))
    check_acting(outcome, actor, contractors)
    check_ledger(outcome)
    check_replay(outcome)
    costs = outcome.ledger.executions.values()
    n_awards = outcome.ledger.messages.get("accept-proposal", 0)
    assert sum(cost.awards for cost in costs) == n_awards
    assert sum(c.results + c.failures + c.cancelled for c in costs) == n_awards
    assert sum(cost.calls - cost.retries for cost in costs) == sum(
        cost.results + cost.failures for cost in costs
    )


def _functions(task):
    return {"functions": ["message", "map"]}


def _serve(task):
    mine = {"sms": "message", "mail": "message", "maps": "map", "places": "map"}
    return propose(task) if mine.get(task.apis[0].id) == task.function else bid(task)


def rounds():
    """Return valid transcripts of several kinds, each with a re-award, a result and a cancel."""
    ends = {"sms": "lost", "maps": "cancel"}
    alone = {"functions": [], "categories": [], "candidates": list(CATALOG.ids)}
    chosen = {"apis": ["sms", "maps", "weather"]}
    model = acting(
        {},
        {
            InterpretRequest: propose,
            MatchFunction: _serve,
            ServeFunction: _serve,
            Decompose: _functions,
            SelectApis: lambda task: {"apis": ["sms", "maps"]} if task.functions else chosen,
            ComposeAlone: lambda task: {**alone, **chosen},
        },
    )
    settings_ = RoundSettings(select=TopK(6))
    net = ContractNet(CATALOG, model, router=PlantedRouter(), settings=settings_)
    for protocol, announcement in (
        ("contractor-led", "broadcast"),
        ("contractor-led", "routed"),
        ("collaborative", "broadcast"),
        ("single-agent", "broadcast"),
        ("learned", "routed"),
    ):
        how = {"protocol": protocol, "announcement": announcement}
        yield hold(net, **how, actor=FakeActor(ends)).transcript


ROUNDS = tuple(rounds())
IDS = [f"{t.protocol}-{t.announcement}" for t in ROUNDS]


def with_messages(transcript, messages, **head):
    """Return the transcript with other messages, and the digest that belongs to them."""
    return dataclasses.replace(transcript, messages=tuple(messages), digest="", **head)


def renumbered(transcript, messages):
    """Return the transcript of some of its messages in another order, ids and references right."""
    number = {m.id: i for i, m in enumerate(messages, 1)}
    said = []
    for i, message in enumerate(messages, 1):
        change = {"id": i}
        for name in ("in_reply_to", "instead_of"):
            if getattr(message, name, None) is not None:
                change[name] = number.get(getattr(message, name), 0)
        if getattr(message, "results", ()):
            change["results"] = tuple(number.get(r, 0) for r in message.results)
        said.append(dataclasses.replace(message, **change))
    return with_messages(transcript, said)


def places_of(transcript, *kinds):
    return [
        i
        for i, m in enumerate(transcript.messages)
        if isinstance(m, kinds) and not (isinstance(m, Failure) and m.api is None)
    ]


ACTS = (Award, InformResult, Failure, Cancel)
ENDS = (InformResult, Failure, Cancel)


def draw_round(data, *kinds):
    transcript = data.draw(st.sampled_from(ROUNDS))
    place = data.draw(st.sampled_from(places_of(transcript, *kinds)))
    return transcript, list(transcript.messages), place


@pytest.mark.parametrize("transcript", ROUNDS, ids=IDS)
def test_they_are_valid_and_have_all_of_it(transcript):
    assert validate(transcript).results
    kinds = {type(m) for m in transcript.messages}
    assert kinds >= {Award, InformResult, Failure, Cancel}
    assert any(isinstance(m, Award) and m.instead_of for m in transcript.messages)
    assert renumbered(transcript, transcript.messages) == transcript


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_message_left_out_is_noticed(data):
    transcript, messages, place = draw_round(data, *ACTS)
    del messages[place]
    with pytest.raises(TranscriptError):
        validate(renumbered(transcript, messages))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_message_said_twice_is_noticed(data):
    transcript, messages, place = draw_round(data, *ACTS)
    message = messages[place]
    again = dataclasses.replace(message, id=len(messages))
    report = dataclasses.replace(messages[-1], id=len(messages) + 1)
    for results in (report.results, (*report.results, again.id)):
        said = [*messages[:-1], again, dataclasses.replace(report, results=results)]
        with pytest.raises(TranscriptError, match="message "):
            validate(with_messages(transcript, said))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_an_end_before_its_award_or_after_the_report_is_noticed(data):
    transcript, messages, place = draw_round(data, *ENDS)
    end = messages.pop(place)
    before = next(i for i, m in enumerate(messages) if m.id == end.in_reply_to)
    early = [*messages[:before], end, *messages[before:]]
    for said in (early, [*messages, end]):
        with pytest.raises(TranscriptError):
            validate(renumbered(transcript, said))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_another_kind_of_end_is_noticed(data):
    transcript, messages, place = draw_round(data, *ENDS)
    end = messages[place]
    award = messages[end.in_reply_to - 1]
    ends = {"id": end.id, "in_reply_to": award.id}
    back = {"sender": award.receiver, "receiver": "manager", "api": award.apis[0]}
    cost = {"attempts": 1, "seconds": 0.0, "n_bytes": 0}
    kinds = {
        InformResult: InformResult(**ends, **back, **cost, text="", digest="0" * 64),
        Failure: Failure(**ends, **back, **cost, reason="lost", was_done="no"),
        Cancel: Cancel(**ends, sender="manager", receiver=award.receiver),
    }
    del kinds[type(end)]
    messages[place] = other = data.draw(st.sampled_from(list(kinds.values())))
    has_result = isinstance(end, InformResult) or isinstance(other, InformResult)
    again = any(getattr(m, "instead_of", None) == award.id for m in messages)
    altered = with_messages(transcript, messages)
    if has_result or again:
        with pytest.raises(TranscriptError, match="message "):
            validate(altered)
    # Between a failure that nobody takes over and a cancellation, only the digest tells.
    with pytest.raises(TranscriptError):
        validate(dataclasses.replace(altered, digest=transcript.digest))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_changed_field_is_noticed(data):
    transcript, messages, place = draw_round(data, *ACTS)
    message = messages[place]
    far = message.in_reply_to + data.draw(st.sampled_from([-1, 1, 100]))
    changes = {"sender": "stranger", "receiver": "stranger", "in_reply_to": far}
    if isinstance(message, Award):
        if message.instead_of is None:
            changes["approved"] = True
        others = st.sampled_from([(), ("evil",), (*message.apis, "weather"), message.apis * 2])
        changes["apis"] = data.draw(others)
        if message.instead_of is not None:
            changes["instead_of"] = data.draw(
                st.sampled_from([m.id for m in messages if m.id != message.instead_of])
            )
    elif not isinstance(message, Cancel):
        changes |= {"api": "evil", "attempts": -1, "seconds": -0.1, "n_bytes": -1}
    if isinstance(message, InformResult):
        changes |= {"text": "x" * 2_001, "digest": "0"}
    if isinstance(message, Failure):
        changes |= {"api": None, "reason": "deadline", "was_done": None}
    name = data.draw(st.sampled_from(sorted(changes)))
    if name == "apis" and changes[name] == ("evil",) and transcript.protocol == "learned":
        ends = ends_of(messages)
        assume(not isinstance(ends[message.id], Cancel))  # nothing else says what it was
    messages[place] = dataclasses.replace(message, **{name: changes[name]})
    with pytest.raises(TranscriptError, match="message "):
        validate(with_messages(transcript, messages))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_swapped_ends_are_noticed(data):
    transcript, messages, place = draw_round(data, *ENDS)
    other = data.draw(st.sampled_from(places_of(transcript, *ENDS)))
    one, two = messages[place], messages[other]
    assume(place != other)
    messages[place] = dataclasses.replace(one, in_reply_to=two.in_reply_to)
    messages[other] = dataclasses.replace(two, in_reply_to=one.in_reply_to)
    with pytest.raises(TranscriptError, match="message "):
        validate(with_messages(transcript, messages))


@pytest.mark.parametrize("transcript", ROUNDS, ids=IDS)
class TestReports:
    def report(self, transcript, **fields):
        *messages, report = transcript.messages
        return with_messages(transcript, [*messages, dataclasses.replace(report, **fields)])

    def test_the_results_are_those_of_the_transcript(self, transcript):
        report = transcript.messages[-1]
        failure = next(m.id for m in transcript.messages if isinstance(m, Failure))
        for results in ((), report.results[:-1], report.results * 2, (failure,), (99,)):
            with pytest.raises(TranscriptError, match="result"):
                validate(self.report(transcript, results=results))

    def test_the_apis_are_those_of_the_results(self, transcript):
        apis = transcript.messages[-1].apis
        for other in ((), (*apis, "maps"), ("sms", *apis[1:]), (*apis, "evil")):
            with pytest.raises(TranscriptError, match=r"without a result|not among the candidates"):
                validate(self.report(transcript, apis=other))

    def test_the_head_says_whether_it_was_executed(self, transcript):
        with pytest.raises(TranscriptError, match="message "):
            validate(with_messages(transcript, transcript.messages, executed=False))


def awarded_again(transcript, **fields):
    """Return the transcript with another re-award, and all that follows it in accord with that."""
    messages = list(transcript.messages)
    [award] = [m for m in messages if isinstance(m, Award) and m.instead_of]
    end = ends_of(messages)[award.id]
    award = dataclasses.replace(award, **fields)
    messages[award.id - 1] = award
    messages[end.id - 1] = dataclasses.replace(end, sender=award.receiver, api=award.apis[0])
    report = messages[-1]
    apis = dict.fromkeys(messages[each - 1].api for each in report.results)
    messages[-1] = dataclasses.replace(report, apis=tuple(apis))
    return with_messages(transcript, messages)


class TestRounds:
    """Breaches that take more than one message."""

    @pytest.mark.parametrize("transcript", ROUNDS, ids=IDS)
    def test_a_re_award_is_in_accord_with_a_proposal(self, transcript):
        validate(awarded_again(transcript))
        directed = transcript.messages[1].performative == "accept-proposal"
        for name in ("user", "manager"):
            with pytest.raises(TranscriptError, match=r"no contractor|another one proposed"):
                conclude(awarded_again(transcript, receiver=name))
        for api in ("sms", "weather", "maps"):
            with pytest.raises(TranscriptError, match=r"what is awarded|not proposed"):
                conclude(awarded_again(transcript, apis=(api,)))
        if not directed:
            with pytest.raises(TranscriptError, match="another one proposed"):
                conclude(awarded_again(transcript, receiver="photos"))
            with pytest.raises(TranscriptError, match="it awards what was not proposed"):
                conclude(awarded_again(transcript, apis=("evil",)))

    @pytest.mark.parametrize("transcript", ROUNDS, ids=IDS)
    def test_what_may_have_been_done_is_awarded_again_with_approval_only(self, transcript):
        messages = list(transcript.messages)
        [award] = [m for m in messages if isinstance(m, Award) and m.instead_of]
        failure = ends_of(messages)[award.instead_of]
        messages[failure.id - 1] = dataclasses.replace(failure, was_done="unknown")
        with pytest.raises(TranscriptError, match="done twice, and nobody has approved that"):
            conclude(with_messages(transcript, messages))
        messages[award.id - 1] = dataclasses.replace(award, approved=True)
        assert conclude(with_messages(transcript, messages)).results

    def test_nothing_is_known_of_what_was_not_awarded(self, transcript):
        messages = list(transcript.messages)
        reply = next(m for m in messages if isinstance(m, Proposal) and m.sender == "photos")
        decision = next(m for m in messages if getattr(m, "in_reply_to", 0) == reply.id)
        messages[reply.id - 1] = failure = Failure(
            id=reply.id, sender="photos", receiver="manager", in_reply_to=reply.in_reply_to,
            reason="error",
        )  # fmt: skip
        messages.remove(decision)
        assert conclude(renumbered(transcript, messages)).results
        messages[reply.id - 1] = dataclasses.replace(failure, was_done="no")
        with pytest.raises(TranscriptError, match="nothing was awarded that could be called"):
            conclude(renumbered(transcript, messages))

    def test_an_approval_in_a_round_that_is_not_executed(self):
        transcript = hold(ContractNet(CATALOG, acting()), announcement="broadcast").transcript
        messages = list(transcript.messages)
        place = next(i for i, m in enumerate(messages) if isinstance(m, Award))
        messages[place] = dataclasses.replace(messages[place], approved=True)
        with pytest.raises(TranscriptError, match="what is awarded at first needs no approval"):
            conclude(with_messages(transcript, messages))

    def test_an_api_is_not_awarded_twice_for_one_job(self):
        everything = [Contractor("all", tuple(CATALOG)), Contractor("again", tuple(CATALOG))]
        model = acting({}, {InterpretRequest: propose, SelectApis: lambda t: {"apis": ["sms"]}})
        net = ContractNet(CATALOG, model, organisation=everything)
        transcript = hold(
            net, announcement="broadcast", actor=FakeActor({"sms": "lost"})
        ).transcript
        conclude(transcript)
        other = next(m for m in transcript.messages if m.sender == "again")
        for fields in ({"in_reply_to": other.id, "receiver": "again"}, {}):
            with pytest.raises(TranscriptError, match="it awards what is awarded"):
                conclude(awarded_again(transcript, apis=("sms",), **fields))

    def test_a_directed_contract_after_others_were_acted_on(self):
        *messages, report = ROUNDS[-1].messages
        late = Award(
            id=report.id, sender="manager", receiver="photos", in_reply_to=1, apis=("photos",)
        )
        with pytest.raises(TranscriptError, match="it decides after awards were acted on"):
            conclude(with_messages(ROUNDS[-1], [*messages, late, report]))

    def test_results_of_a_round_that_is_not_executed(self):
        transcript = hold(ContractNet(CATALOG, acting()), announcement="broadcast").transcript
        *messages, report = transcript.messages
        for results in ((report.id - 1,), (1,)):
            said = [*messages, dataclasses.replace(report, results=results)]
            with pytest.raises(TranscriptError, match="nothing is acted on in this round"):
                conclude(with_messages(transcript, said))

    def test_a_re_award_in_a_round_that_is_not_executed(self):
        transcript = hold(ContractNet(CATALOG, acting()), announcement="broadcast").transcript
        messages = list(transcript.messages)
        place = next(i for i, m in enumerate(messages) if isinstance(m, Award))
        messages[place] = dataclasses.replace(messages[place], instead_of=place)
        with pytest.raises(TranscriptError, match=r"has no decision|does not wait"):
            conclude(with_messages(transcript, messages))

    @pytest.fixture
    def transcript(self):
        return ROUNDS[0]  # contractor-led, broadcast

    def test_a_call_after_awards_were_acted_on(self, transcript):
        *messages, report = transcript.messages
        call = CallForProposals(
            id=report.id, sender="manager", receiver="new", request=transcript.request
        )
        with pytest.raises(TranscriptError, match="it announces after awards were acted on"):
            conclude(with_messages(transcript, [*messages, call, report]))

    def test_an_act_before_all_is_decided(self, transcript):
        messages = list(transcript.messages)
        first = next(i for i, m in enumerate(messages) if isinstance(m, Rejection))
        rejection = messages.pop(first)
        last = places_of(with_messages(transcript, messages), *ENDS)[-1]
        said = [*messages[:last], rejection, *messages[last:]]
        with pytest.raises(TranscriptError, match=r"proposal \d+ has no decision"):
            conclude(renumbered(transcript, said))

    def test_a_directed_contract_where_something_was_announced(self, transcript):
        messages = list(transcript.messages)
        [place] = [i for i in places_of(transcript, Award) if messages[i].instead_of]
        for fields in ({"in_reply_to": 1}, {"in_reply_to": 1, "instead_of": None}):
            messages[place] = dataclasses.replace(transcript.messages[place], **fields)
            with pytest.raises(TranscriptError, match=r"no proposal 1 in time|to a proposal"):
                conclude(with_messages(transcript, messages))

    def test_a_call_after_a_directed_contract(self):
        transcript = ROUNDS[-1]
        first, award, *others = transcript.messages
        call = CallForProposals(id=3, sender="manager", receiver="sms", request=transcript.request)
        assert isinstance(award, Award)
        with pytest.raises(TranscriptError, match="it announces after awards"):
            conclude(with_messages(transcript, [first, award, call, *others]))

    def test_a_directed_contract_without_an_actor(self):
        first, award, *_ = ROUNDS[-1].messages
        with pytest.raises(TranscriptError, match="no proposal 1 waits for a decision"):
            conclude(with_messages(ROUNDS[-1], [first, award], executed=False))

    @pytest.mark.parametrize("name", ["user", "manager"])
    def test_a_directed_contract_goes_to_a_contractor(self, name):
        first, award, *_ = ROUNDS[-1].messages
        award = dataclasses.replace(award, receiver=name)
        with pytest.raises(TranscriptError, match="goes to no contractor"):
            conclude(with_messages(ROUNDS[-1], [first, award]))

    def test_a_re_award_for_another_function(self):
        transcript = ROUNDS[2]  # collaborative
        messages = list(transcript.messages)
        [place] = [i for i in places_of(transcript, Award) if messages[i].instead_of]
        other = next(m for m in messages if isinstance(m, Proposal) and m.sender == "places")
        messages[place] = dataclasses.replace(
            messages[place], in_reply_to=other.id, receiver="places", apis=("places",)
        )
        with pytest.raises(TranscriptError, match="it was proposed for something else"):
            conclude(with_messages(transcript, messages))

    def test_a_re_award_of_a_late_proposal(self, transcript):
        messages = list(transcript.messages)
        [place] = [i for i in places_of(transcript, Award) if messages[i].instead_of]
        proposal = messages[messages[place].in_reply_to - 1]
        messages[proposal.id - 1] = dataclasses.replace(proposal, late=True)
        said = [
            m for m in messages if not (isinstance(m, Rejection) and m.in_reply_to == proposal.id)
        ]
        with pytest.raises(TranscriptError, match=r"no proposal \d+ in time"):
            conclude(renumbered(transcript, said))

    def test_a_rejected_proposal_is_awarded_only_instead_of_another(self, transcript):
        messages = list(transcript.messages)
        [place] = [i for i in places_of(transcript, Award) if messages[i].instead_of]
        messages[place] = dataclasses.replace(messages[place], instead_of=None)
        with pytest.raises(TranscriptError, match="after awards were acted on"):
            conclude(with_messages(transcript, messages))

    def test_an_awarded_proposal_is_not_rejected_too(self):
        model = acting({}, {InterpretRequest: propose, SelectApis: award_all})
        net = ContractNet(CATALOG, model)
        transcript = hold(net, announcement="broadcast", actor=FakeActor()).transcript
        messages = list(transcript.messages)
        places = places_of(transcript, Award)
        award = messages[places[0]]
        rejection = Rejection(
            id=award.id, sender="manager", receiver=award.receiver, in_reply_to=award.in_reply_to
        )
        place = places[0] + 1
        said = [*messages[:place], rejection, *messages[place:]]
        numbered = [dataclasses.replace(m, id=i) for i, m in enumerate(said, 1)]
        with pytest.raises(TranscriptError, match=r"no proposal \d+ waits for a decision"):
            conclude(with_messages(transcript, numbered))
