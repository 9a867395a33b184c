"""Award, act, report, award again: what a round does with an actor."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib

import pytest
from chat_server import run
from negotiation import (
    CATALOG,
    REQUEST,
    FakeActor,
    PlantedRouter,
    acting,
    award_all,
    bid,
    hold,
    propose,
)

from cnp_router.agents import (
    ApiEvidence,
    ComposeAlone,
    Decompose,
    InterpretRequest,
    SelectApis,
    ServeFunction,
)
from cnp_router.catalog import Api, Catalog, Contractor
from cnp_router.exceptions import (
    BudgetExceededError,
    ExecutionError,
    InputError,
    RoundFailedError,
    TranscriptError,
)
from cnp_router.protocols import (
    PROTOCOLS,
    Award,
    AwardedApi,
    Cancel,
    ContractNet,
    Failure,
    InformResult,
    RoundSettings,
    TrafficBudget,
    Transcript,
    validate,
)
from cnp_router.protocols.substitutes import Candidate, Likeness, Substitutes
from cnp_router.routing import TopK

PERFORMED = {"attempts": 1, "seconds": 0.1, "n_bytes": 3}
DIGEST = hashlib.sha256(b"sun").hexdigest()


def executed(actor, model=None, *, catalog=CATALOG, router=None, settings=None, **how):
    """Run a round with an actor; by default all is proposed, and sms and maps are awarded."""
    model = model or acting({}, {InterpretRequest: propose, SelectApis: select("sms", "maps")})
    router = router or PlantedRouter(catalog=catalog)
    net = ContractNet(catalog, model, router=router, settings=settings)
    outcome = hold(net, **{"announcement": "broadcast", **how}, actor=actor)
    assert validate(outcome.transcript).recommendation == outcome.recommendation
    return outcome


def select(*apis):
    return lambda task: {"apis": list(apis)}


def said(outcome, kind):
    return [m for m in outcome.transcript.messages if isinstance(m, kind)]


def finish(acting, first):
    acting.done(first, text="sun", digest=DIGEST, **PERFORMED)


def fail(acting, first):
    acting.failed(first, kind="lost", error="", **PERFORMED)


class TestDone:
    def test_what_is_done_is_reported(self):
        actor = FakeActor()
        outcome = executed(actor)
        assert outcome.executed
        assert outcome.transcript.executed
        assert outcome.recommendation == ("maps", "sms")  # in the order of the awards
        assert [r.api for r in outcome.results] == ["maps", "sms"]
        assert [r.text for r in outcome.results] == ["maps is done", "sms is done"]
        report = outcome.transcript.messages[-1]
        assert report.results == tuple(r.id for r in outcome.results)
        assert outcome.stages.selected == {"sms", "maps"}
        assert outcome.failure is None

    def test_each_award_is_of_one_api(self):
        apis = tuple(CATALOG)
        model = acting({}, {InterpretRequest: propose, SelectApis: award_all})
        net = ContractNet(CATALOG, model, organisation=[Contractor("all", apis)])
        actor = FakeActor({"sms": "lost"}, again=False)
        outcome = hold(net, announcement="broadcast", actor=actor)
        awards = said(outcome, Award)
        assert [award.apis for award in awards] == [(api.id,) for api in apis]
        assert {award.in_reply_to for award in awards} == {3}
        assert set(outcome.recommendation) == set(CATALOG.ids) - {"sms"}
        validate(outcome.transcript)

    def test_without_an_actor_nothing_is_acted_on(self):
        outcome = executed(None)
        assert not outcome.executed
        assert outcome.results == ()
        assert outcome.ledger.executions == {}
        assert outcome.recommendation == ("sms", "maps")

    def test_the_task_is_the_request_or_the_function(self):
        actor = FakeActor()
        executed(actor)
        assert {job.task for job in actor.asked} == {REQUEST}
        functions = ["text messages", "places on a map"]
        model = acting(
            {
                "sms": lambda t: bid(t, *(["sms"] if "text" in t.function else [])),
                "maps": lambda t: bid(t, *(["maps"] if "map" in t.function else [])),
            },
            {
                Decompose: lambda t: {"functions": functions},
                ServeFunction: bid,
                SelectApis: award_all,
            },
        )
        actor = FakeActor()
        executed(actor, model, protocol="collaborative")
        assert {job.api: job.task for job in actor.asked} == {
            "sms": "text messages",
            "maps": "places on a map",
        }

    def test_one_api_does_each_function_that_nobody_else_was_awarded_for(self):
        functions = ["rain in Rome", "rain in Oslo"]
        model = acting(
            {
                "weather": propose,
                "sms": lambda t: bid(t, *(["sms"] if "Oslo" in t.function else [])),
            },
            {
                Decompose: lambda t: {"functions": functions},
                ServeFunction: bid,
                SelectApis: select("weather"),
            },
        )
        actor = FakeActor()
        outcome = executed(actor, model, protocol="collaborative")
        assert [(job.api, job.task) for job in actor.asked] == [
            ("weather", "rain in Rome"),
            ("weather", "rain in Oslo"),
        ]
        assert outcome.recommendation == ("weather",)
        assert len(outcome.results) == 2
        plain = hold(
            ContractNet(CATALOG, model), protocol="collaborative", announcement="broadcast"
        )
        assert len(said(plain, Award)) == 1

    def test_two_awards_of_one_api_are_two_jobs(self):
        functions = ["rain in Rome", "rain in Oslo"]
        model = acting(
            {"weather": propose, "sms": propose},
            {
                Decompose: lambda t: {"functions": functions},
                ServeFunction: bid,
                SelectApis: select("weather"),
            },
        )

        class Acts:
            async def act(self, acting):
                rome, oslo = acting.awards
                assert [(each.api, each.task) for each in acting.awards] == [
                    ("weather", "rain in Rome"),
                    ("weather", "rain in Oslo"),
                ]
                assert rome.award != oslo.award
                fail(acting, oslo)
                finish(acting, rome)
                with pytest.raises(InputError, match="does not wait for another contractor"):
                    acting.next_for(rome)
                again = acting.next_for(oslo)
                assert (again.api, again.task) == ("sms", "rain in Oslo")
                finish(acting, again)
                assert [each.in_reply_to for each in acting.results] == [rome.award, again.award]

        outcome = executed(Acts(), model, protocol="collaborative")
        assert outcome.recommendation == ("weather", "sms")
        executions = outcome.ledger.executions
        assert (executions["weather"].awards, executions["weather"].failures) == (2, 1)
        assert (executions["sms"].awards, executions["sms"].results) == (1, 1)

        class Fails(Acts):
            async def act(self, acting):
                for each in acting.awards:
                    fail(acting, each)
                again = [acting.next_for(each) for each in acting.awards]
                assert [(each.api, each.task) for each in again] == [
                    ("sms", "rain in Rome"),
                    ("sms", "rain in Oslo"),
                ]
                finish(acting, again[1])
                acting.cancel(again[0], "too late")

        outcome = executed(Fails(), model, protocol="collaborative")
        assert [r.in_reply_to for r in outcome.results] == [m.id for m in said(outcome, Award)[-1:]]

    def test_nothing_awarded_is_nothing_done(self):
        actor = FakeActor()
        model = acting({}, {InterpretRequest: propose, SelectApis: select()})
        outcome = executed(actor, model)
        assert (outcome.recommendation, outcome.results, actor.asked) == ((), (), [])

    def test_a_transcript_is_read_back(self, tmp_path):
        outcome = executed(FakeActor({"sms": "lost"}))
        outcome.transcript.write(tmp_path / "round.jsonl")
        read = Transcript.read(tmp_path / "round.jsonl")
        assert read == outcome.transcript
        assert validate(read).results == outcome.results
        assert read.ledger.executions == outcome.ledger.executions

    def test_run_sync_takes_an_actor(self):
        net = ContractNet(CATALOG, acting(), router=PlantedRouter())
        assert net.run_sync(REQUEST, actor=FakeActor()).executed

    def test_an_actor_that_is_none(self):
        with pytest.raises(InputError, match="actor must be of type Actor, got 'me'"):
            hold(ContractNet(CATALOG, acting(), router=PlantedRouter()), actor="me")


class TestAgain:
    def test_the_most_alike_comes_next(self):
        actor = FakeActor({"sms": "unavailable"})
        outcome = executed(actor)
        assert [job.api for job in actor.asked] == ["maps", "sms", "mail"]
        first, again = (job.award for job in actor.asked[1:])
        award = outcome.transcript.messages[again - 1]
        assert (award.instead_of, award.receiver, award.apis) == (first, "mail", ("mail",))
        assert outcome.recommendation == ("maps", "mail")
        assert outcome.stages.selected == {"sms", "maps"}

    def test_until_nobody_is_left(self):
        actor = FakeActor({"sms": "busy", "mail": "tool"})
        outcome = executed(actor)
        assert [job.api for job in actor.asked] == ["maps", "sms", "mail"]
        assert outcome.recommendation == ("maps",)
        assert [f.reason for f in said(outcome, Failure)] == ["busy", "tool"]

    def test_what_is_awarded_elsewhere_is_not_awarded_again(self):
        model = acting({}, {InterpretRequest: propose, SelectApis: select("sms", "mail")})
        actor = FakeActor({"sms": "lost"})
        outcome = executed(actor, model)
        assert [job.api for job in actor.asked] == ["sms", "mail"]
        assert outcome.recommendation == ("mail",)

    def test_what_is_not_alike_does_not_come(self):
        apis = [
            Api("sms", "SMS", "Sends a text message to a phone, where it is read."),
            Api("sun", "Sun", "Tells the weather of tomorrow, where a place is named."),
            Api("tide", "Tide", "Tells when the sea comes, in a message of many words for boats."),
        ]
        catalog = Catalog(apis)
        model = acting({}, {InterpretRequest: propose, SelectApis: select("sms")}, catalog=catalog)
        outcome = executed(FakeActor({"sms": "lost"}), model, catalog=catalog)
        assert outcome.recommendation == ()
        assert outcome.failure == "every award failed (1 by lost), the first with: sms is down"

    def test_a_late_proposal_and_a_refusal_get_nothing(self):
        async def late(task):
            await asyncio.sleep(0.2)
            return propose(task)

        async def idle(task):
            await asyncio.sleep(0.3)
            return {"apis": ["sms"]}

        model = acting({"mail": late}, {InterpretRequest: propose, SelectApis: idle})
        settings = RoundSettings(deadline=0.05)
        actor = FakeActor({"sms": "lost"})
        outcome = executed(actor, model, settings=settings)
        assert outcome.ledger.late == 1
        assert [job.api for job in actor.asked] == ["sms"]

    def test_a_function_goes_to_who_proposed_for_it(self):
        functions = ["forecast", "message"]
        mine = {"sms": "message", "mail": "message", "weather": "forecast", "maps": "forecast"}
        model = acting(
            {},
            {
                Decompose: lambda t: {"functions": functions},
                ServeFunction: lambda t: (
                    propose(t) if mine.get(t.apis[0].id) == t.function else bid(t)
                ),
                SelectApis: select("sms", "weather"),
            },
        )
        actor = FakeActor({"sms": "lost", "mail": "lost", "weather": "lost"})
        outcome = executed(actor, model, protocol="collaborative")
        assert {(job.api, job.task) for job in actor.asked} == {
            *((name, mine[name]) for name in mine)
        }
        assert outcome.recommendation == ("maps",)

    def test_evidence_and_then_the_order_of_calls_decide_between_equals(self):
        names = ("one", "two", "three", "four")
        apis = Likeness(Api(name, "SMS", "Sends texts.") for name in names)
        evidence = {"three": ApiEvidence("three", 0.7), "two": ApiEvidence("two", 0.1)}
        proposed = [Candidate(name, name, i) for i, name in enumerate(names)]
        found = Substitutes(proposed, apis).of("one", None)
        assert [each.api for each in found] == ["two", "three", "four"]
        found = Substitutes(proposed, apis, evidence).of("one", None)
        assert [each.api for each in found] == ["three", "two", "four"]
        found = Substitutes(proposed, apis, evidence, in_order=True).of("one", None)
        assert [each.api for each in found] == ["two", "three", "four"]

    def test_who_replies_first_comes_not_first(self):
        same = {"description": "Sends texts.", "categories": ("Messaging",)}
        catalog = Catalog([Api(name, "SMS", **same) for name in ("one", "two", "three")])

        async def slowly(task):
            await asyncio.sleep(0.05)
            return propose(task)

        model = acting({"two": slowly}, {InterpretRequest: propose, SelectApis: select("one")})
        actor = FakeActor({"one": "lost"})
        executed(actor, model, catalog=catalog)
        assert [job.api for job in actor.asked] == ["one", "two"]

    def test_no_model_is_asked(self):
        outcomes = [executed(FakeActor(ends)) for ends in ({}, {"sms": "lost", "mail": "lost"})]
        first, second = (outcome.ledger.model_calls for outcome in outcomes)
        assert first == second


class TestDirected:
    @pytest.mark.parametrize("protocol", ["learned", "single-agent"])
    def test_a_protocol_without_contractors_awards_directly(self, protocol):
        actor = FakeActor()
        outcome = executed(actor, acting(), protocol=protocol, announcement="routed")
        awards = said(outcome, Award)
        assert awards
        assert {award.in_reply_to for award in awards} == {1}
        assert tuple(award.apis[0] for award in awards) == outcome.recommendation
        assert [job.contractor for job in actor.asked] == [award.receiver for award in awards]
        assert outcome.recipients == ()
        assert {job.task for job in actor.asked} == {REQUEST}

    def test_the_next_recipient_that_is_alike_comes_next(self):
        settings = RoundSettings(select=TopK(6))
        plain = executed(None, protocol="learned", announcement="routed", settings=settings)
        assert "sms" in plain.recommendation
        assert {"mail", "sms"} <= set(plain.routing.contractors)
        actor = FakeActor({"sms": "lost"})
        outcome = executed(actor, protocol="learned", announcement="routed", settings=settings)
        assert "mail" in outcome.recommendation
        assert "photos" not in outcome.recommendation

    def test_a_single_agent_is_not_given_what_it_left_out(self):
        alone = {"functions": [], "categories": [], "candidates": ["sms"], "apis": ["sms"]}
        for candidates, more in ((["sms"], []), (["sms", "mail"], ["mail"])):
            model = acting({}, {ComposeAlone: lambda t: {**alone, "candidates": candidates}})  # noqa: B023
            actor = FakeActor({"sms": "lost"})
            outcome = executed(actor, model, protocol="single-agent")
            assert [job.api for job in actor.asked] == ["sms", *more]
            assert outcome.recommendation == tuple(more)

    def test_nobody_holds_it(self):
        net = ContractNet(
            CATALOG,
            acting(),
            router=PlantedRouter(),
            organisation=[Contractor("m", (CATALOG["mail"],))],
        )
        with pytest.raises(
            RoundFailedError, match="no contractor holds 'maps', which was rec"
        ) as e:
            hold(net, protocol="learned", actor=FakeActor())
        assert e.value.transcript.messages


class TestEnds:
    def act(self, do, **settings):
        """Run a round whose actor does something with its first award; return its outcome."""

        class Acts:
            async def act(self, acting):
                self.acting = acting
                found = do(acting, acting.awards[0])
                if asyncio.iscoroutine(found):
                    await found

        self.actor = Acts()
        return executed(self.actor, settings=RoundSettings(**settings))

    def test_what_is_left_open_is_cancelled(self):
        outcome = self.act(
            lambda acting, first: acting.done(first, text="a", digest=DIGEST, **PERFORMED)
        )
        [cancel] = said(outcome, Cancel)
        assert cancel.receiver == "sms"
        assert cancel.why == "it was still open when the execution ended"
        assert outcome.recommendation == ("maps",)

    def test_a_job_is_cancelled(self):
        outcome = self.act(lambda acting, first: acting.cancel(first, "what it waited for failed"))
        assert said(outcome, Cancel)[0].why == "what it waited for failed"
        assert outcome.recommendation == ()

    @pytest.mark.parametrize("error", [RuntimeError("a bug"), InputError("wrong")])
    def test_an_error_of_the_actor_ends_the_round(self, error):
        def fall(acting, first):
            acting.done(first, text="sun", digest=DIGEST, **PERFORMED)
            raise error

        with pytest.raises(ExecutionError, match=r"broken off by .*(a bug|wrong)") as caught:
            self.act(fall)
        assert caught.value.__cause__ is error
        transcript = caught.value.transcript
        assert validate(transcript).recommendation == ("maps",)
        assert transcript.messages[-2].why == "the execution was broken off"
        assert self.actor.acting.transcript.messages == transcript.messages

    @pytest.mark.parametrize(
        "error",
        [ExecutionError("no plan"), RoundFailedError("no"), BudgetExceededError("a", {}, {})],
    )
    def test_an_error_of_ours_stays_what_it_is(self, error):
        def fall(acting, first):
            raise error

        with pytest.raises(type(error)) as caught:
            self.act(fall)
        assert caught.value is error
        assert validate(error.transcript).recommendation == ()

    def test_cancelled_in_the_middle(self):
        reached = asyncio.Event()

        class Hangs:
            async def act(self, acting):
                self.acting = acting
                acting.done(acting.awards[0], text="sun", digest=DIGEST, **PERFORMED)
                reached.set()
                await asyncio.Event().wait()

        actor = Hangs()

        async def main():
            model = acting({}, {InterpretRequest: propose, SelectApis: select("sms", "maps")})
            net = ContractNet(CATALOG, model)
            task = asyncio.create_task(net.run(REQUEST, announcement="broadcast", actor=actor))
            await asyncio.wait_for(reached.wait(), 5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert asyncio.all_tasks() == {asyncio.current_task()}

        run(main())
        transcript = actor.acting.transcript
        assert validate(transcript).recommendation == ("maps",)
        assert [m.performative for m in transcript.messages[-2:]] == ["cancel", "inform"]

    def test_what_was_broken_off_is_told_with_what_it_has_cost(self):
        class GivesUp:
            async def act(self, acting):
                self.acting = acting
                self.limit.reschedule(asyncio.get_running_loop().time())
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    acting.failed(
                        acting.awards[0], kind="cancelled", error="given up while it ran",
                        attempts=2, seconds=0.5, n_bytes=10, was_done="unknown",
                    )  # fmt: skip
                    raise

        actor = GivesUp()

        async def main():
            model = acting({}, {InterpretRequest: propose, SelectApis: select("sms", "maps")})
            net = ContractNet(CATALOG, model)
            async with asyncio.timeout(None) as actor.limit:
                await net.run(REQUEST, announcement="broadcast", actor=actor)

        with pytest.raises(TimeoutError):
            run(main())
        transcript = actor.acting.transcript
        validate(transcript)
        ends = [m.performative for m in transcript.messages[-3:]]
        assert ends == ["failure", "cancel", "inform"]
        [failure] = [m for m in transcript.messages if isinstance(m, Failure)]
        assert (failure.api, failure.reason, failure.was_done) == ("maps", "cancelled", "unknown")
        costs = {n: c.to_dict() for n, c in transcript.ledger.executions.items()}
        assert costs["maps"] == {
            "awards": 1, "results": 0, "failures": 1, "cancelled": 0, "calls": 2, "retries": 1,
            "seconds": 0.5, "bytes": 10,
        }  # fmt: skip
        assert (costs["sms"]["calls"], costs["sms"]["cancelled"]) == (0, 1)

    @pytest.mark.parametrize("which", [0, 1])
    def test_an_award_fails_at_any_time_before_the_end(self, which):
        def do(acting, first):
            acting.failed(first, kind="lost", error="", **PERFORMED)
            again = acting.next_for(first)
            late = (again, acting.awards[1])[which]
            acting.failed(late, kind="cancelled", error="", attempts=1, seconds=0.0, n_bytes=0)

        outcome = self.act(do)
        assert [f.reason for f in said(outcome, Failure)] == ["lost", "cancelled"]
        assert sum(cost.calls for cost in outcome.ledger.executions.values()) == 2

    def test_the_time_of_the_round_is_not_that_of_the_actor(self):
        async def sleep(acting, first):
            await asyncio.sleep(1.2)
            acting.done(first, text="sun", digest=DIGEST, **PERFORMED)

        def do(acting, first):
            return sleep(acting, first)

        outcome = self.act(do, timeout=1.0)
        assert outcome.recommendation == ("maps",)

    def test_nobody_is_at_work_any_more_when_it_is_acted(self):
        async def hang(task):
            await asyncio.sleep(60)

        left = []

        class Looks:
            async def act(self, acting):
                left.extend(asyncio.all_tasks() - {asyncio.current_task()})

        model = acting({"mail": hang}, {InterpretRequest: propose, SelectApis: select("sms")})
        net = ContractNet(CATALOG, model, settings=RoundSettings(deadline=0.05))

        async def main():
            return await net.run(REQUEST, announcement="broadcast", actor=Looks())

        outcome = asyncio.run(main())
        assert left == []
        failure = next(m for m in said(outcome, Failure) if m.sender == "mail")
        assert (failure.reason, failure.error) == ("deadline", "no reply by the end of the round")
        validate(outcome.transcript)

    def test_each_award_has_one_end(self):
        def twice(acting, first):
            acting.done(first, text="sun", digest=DIGEST, **PERFORMED)
            for again in (
                lambda: acting.done(first, text="sun", digest=DIGEST, **PERFORMED),
                lambda: acting.failed(first, kind="tool", error="", **PERFORMED),
                lambda: acting.cancel(first, ""),
            ):
                with pytest.raises(InputError, match="is not an award that is open"):
                    again()
            with pytest.raises(InputError, match="award 14 of 'maps' does not wait"):
                acting.next_for(first)

        outcome = self.act(twice)
        assert len(outcome.results) == 1

    def test_a_stranger_is_no_award(self):
        def stranger(acting, first):
            for other in (
                dataclasses.replace(first, award=1),
                dataclasses.replace(first, contractor="evil"),
                AwardedApi(first.award, "evil", first.contractor, first.task),
            ):
                with pytest.raises(InputError, match="is not an award that is open"):
                    acting.done(other, text="sun", digest=DIGEST, **PERFORMED)

        self.act(stranger)

    def test_a_failed_award_is_given_away_once(self):
        def twice(acting, first):
            acting.failed(first, kind="lost", error="gone", **PERFORMED)
            assert acting.next_for(first).api == "places"
            with pytest.raises(InputError, match="say first that it failed, and ask once"):
                acting.next_for(first)

        self.act(twice)

    def test_what_may_have_been_done_is_given_away_with_approval_only(self):
        def ask(acting, first):
            acting.failed(first, kind="timeout", error="", **PERFORMED, was_done="unknown")
            with pytest.raises(InputError, match=r"'maps' has done award \d+ .ask whether"):
                acting.next_for(first)
            again = acting.next_for(first, approved=True)
            acting.failed(again, kind="lost", error="", **PERFORMED)

        outcome = self.act(ask)
        assert [f.was_done for f in said(outcome, Failure)] == ["unknown", "no"]
        assert [award.approved for award in said(outcome, Award)] == [False, False, True]

    @pytest.mark.parametrize("was_done", [None, "yes", True, ["no"]])
    def test_whether_it_was_done_is_known_or_not(self, was_done):
        def do(acting, first):
            with pytest.raises(InputError, match="was_done must be 'no' or 'unknown', got "):
                acting.failed(first, kind="lost", error="", **PERFORMED, was_done=was_done)

        self.act(do)

    def test_after_the_end_nothing_is_said(self):
        outcome = self.act(
            lambda acting, first: acting.failed(first, kind="lost", error="", **PERFORMED)
        )
        late = self.actor.acting
        with pytest.raises(InputError, match="is not an award that is open"):
            late.done(late.awards[1], text="sun", digest=DIGEST, **PERFORMED)
        with pytest.raises(InputError, match="does not wait"):
            late.next_for(late.awards[0])
        assert late.transcript.messages == outcome.transcript.messages

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"digest": "sun"}, "the digest of a result must be SHA-256 in hex, got 'sun'"),
            ({"attempts": -1}, "attempts must be a whole number of at least 0"),
            ({"seconds": -1}, "seconds must be a number from 0"),
            ({"seconds": float("inf")}, "seconds must be a number from 0"),
            ({"n_bytes": 1.5}, "n_bytes must be a whole number"),
        ],
    )
    def test_what_is_no_result(self, change, message):
        def do(acting, first):
            with pytest.raises(InputError, match=message):
                acting.done(first, **{"text": "", "digest": DIGEST, **PERFORMED, **change})

        self.act(do)

    def test_a_kind_that_is_none(self):
        def do(acting, first):
            for kind in ("deadline", "evil", ["lost"]):
                with pytest.raises(InputError, match="unknown kind of failure"):
                    acting.failed(first, kind=kind, error="", **PERFORMED)

        self.act(do)

    def test_long_texts_are_cut_and_say_so(self):
        def do(acting, first):
            acting.done(first, text="\ud800" + "x" * 10_000, digest=DIGEST, **PERFORMED)
            second = acting.awards[1]
            acting.failed(second, kind="tool", error="y" * 10_000, **PERFORMED)
            acting.cancel(acting.next_for(second), "z" * 10_000)

        outcome = self.act(do)
        [result] = outcome.results
        assert len(result.text) == 2_000
        assert result.text.startswith("?xxx")
        assert result.text.endswith("xxx... (10,001 characters)")
        [failure], [cancel] = said(outcome, Failure), said(outcome, Cancel)
        assert (len(failure.error), len(cancel.why)) == (500, 500)


class TestLedger:
    def test_by_contractor(self):
        outcome = executed(FakeActor({"sms": "lost", "mail": "cancel"}))
        costs = outcome.ledger.executions
        assert {name: cost.to_dict() for name, cost in costs.items()} == {
            "maps": {
                "awards": 1, "results": 1, "failures": 0, "cancelled": 0, "calls": 2, "retries": 1,
                "seconds": 0.5, "bytes": 10,
            },
            "sms": {
                "awards": 1, "results": 0, "failures": 1, "cancelled": 0, "calls": 2, "retries": 1,
                "seconds": 0.5, "bytes": 10,
            },
            "mail": {
                "awards": 1, "results": 0, "failures": 0, "cancelled": 1, "calls": 0, "retries": 0,
                "seconds": 0.0, "bytes": 0,
            },
        }  # fmt: skip
        assert outcome.ledger.to_dict()["executions"]["sms"]["failures"] == 1
        assert outcome.ledger.failures == {}
        stage = outcome.ledger.by_stage["execution"]
        assert stage.messages == 4  # a result, a failure, an award again, a cancellation
        assert sum(cost.messages for cost in outcome.ledger.by_stage.values()) == (
            outcome.ledger.n_messages
        )
        assert outcome.to_dict()["ledger"]["executions"]["maps"]["calls"] == 2

    def test_several_awards_of_one_contractor_are_summed(self):
        model = acting({}, {InterpretRequest: propose, SelectApis: select("sms", "maps")})
        net = ContractNet(CATALOG, model, organisation=[Contractor("all", tuple(CATALOG))])
        outcome = hold(net, announcement="broadcast", actor=FakeActor())
        [(name, cost)] = outcome.ledger.executions.items()
        assert (name, cost.awards, cost.calls, cost.seconds) == ("all", 2, 4, 1.0)

    def test_the_outcome_as_json(self):
        said = executed(FakeActor({"sms": "lost"})).to_dict()
        assert said["executed"] is True
        assert [(r["api"], r["text"]) for r in said["results"]] == [
            ("maps", "maps is done"),
            ("mail", "mail is done"),
        ]

    def test_a_budget_of_messages_is_of_the_negotiation(self):
        settings = RoundSettings(budget=TrafficBudget(messages=40))
        outcome = executed(FakeActor(), settings=settings)
        assert len(outcome.results) == 2


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
@pytest.mark.parametrize("ends", [{}, dict.fromkeys(CATALOG.ids, "lost"), {"sms": "lost"}])
def test_any_protocol_can_be_executed(protocol, ends):
    actor = FakeActor(ends)
    outcome = executed(actor, acting(), protocol=protocol, announcement="routed")
    done = [job.api for job in actor.asked if job.api not in ends]
    assert set(outcome.recommendation) == set(done)
    assert sum(award.sender == "manager" for award in said(outcome, Award)) == len(actor.asked)
    assert len(said(outcome, InformResult)) == len(done)


def test_a_result_cannot_be_claimed_in_a_round_without_acting():
    transcript = dataclasses.replace(executed(FakeActor()).transcript, executed=False, digest="")
    with pytest.raises(TranscriptError, match="nothing is acted on"):
        validate(transcript)
