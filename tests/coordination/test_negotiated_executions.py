"""Executions with a negotiator: who is called, who comes next, and what is learned from it."""

from __future__ import annotations

import asyncio

import pytest

from cnp_router import (
    Api,
    Catalog,
    ContractNet,
    ExecutionSettings,
    Executor,
    Job,
    OnlineStore,
    Plan,
    fit_router,
    offline_model,
)
from cnp_router.coordination import Negotiator
from cnp_router.exceptions import InputError
from cnp_router.execution import allow_writes
from cnp_router.online import Reputation
from cnp_router.protocols import validate
from cnp_router.protocols.messages import Award
from cnp_router.sources import CallFailure, Sources
from cnp_router.testing import Delayed, ScriptedSource

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
APIS = (
    Api("sky__forecast", "forecast", "Forecasts rain and wind for a city.", (), CITY, "reads"),
    Api("air__forecast", "forecast", "Forecasts rain and wind for a city.", (), CITY, "reads"),
    Api("fog__past", "past", "Rain and wind of a city, in the past.", (), CITY, "reads"),
    Api("sun__today", "today", "The forecast for a place: rain, wind.", (), PLACE, "reads"),
    Api("phone__send", "send", "Sends a text message to a phone.", (), TEXT, "writes"),
    Api("relay__send", "send", "Sends a text message to a phone.", (), TEXT, "writes"),
    Api("mail__write", "write", "Sends a text by mail to a phone.", (), TEXT, "writes"),
)
CATALOG = Catalog(APIS)
QUICK = ExecutionSettings(wait=(0, 0), timeout=20, attempts=1)
DOWN = CallFailure("unavailable", "down")


class World:
    """Scripted sources; each act can be seen to begin and to end."""

    def __init__(self, *, negotiator=None, store=None, settings=QUICK, router=True, **results):
        by_source = {}
        for api in APIS:
            source, name = api.id.split("__")
            script = results.get(api.id, ["done"] * 40)
            by_source[source] = ScriptedSource(source, {name: script}, apis=[api])
        self.sources = by_source
        router = fit_router(CATALOG) if router else None
        self.negotiator = Negotiator() if negotiator is None else negotiator
        self.executor = Executor(
            ContractNet(CATALOG, offline_model(CATALOG), router=router),
            Sources(by_source.values()),
            settings=settings,
            approve=allow_writes,
            store=store,
            negotiator=self.negotiator,
        )

    def run(self, *jobs, request="Rain in Oslo?", **how):
        what = Plan(request, jobs) if jobs else request
        execution = asyncio.run(self.executor.execute(what, **how))
        for transcript in execution.transcripts:
            validate(transcript)
        return execution

    @property
    def calls(self):
        return [call.api for source in self.sources.values() for call in source.calls]


def _is_first_award(message):
    return isinstance(message, Award) and message.instead_of is None


def forecast(n=0):
    return Job(f"rain{n}", "Rain and wind of a city.", "sky__forecast", {"city": f"Oslo {n}"})


def prefer(negotiator, api, n=5):
    for _ in range(n):
        negotiator.reputation.count(api, True)


class TestWhoIsCalled:
    def test_a_job_with_a_named_api_goes_to_the_best_equivalent(self):
        world = World()
        prefer(world.negotiator, "air__forecast")
        execution = world.run(forecast())
        assert execution.is_done
        assert world.calls == ["air__forecast"]

    def test_without_a_reason_the_named_one_is_called(self):
        world = World()
        assert world.run(forecast()).is_done
        assert world.calls == ["sky__forecast"]

    def test_who_cannot_take_the_inputs_takes_no_part(self):
        world = World()
        prefer(world.negotiator, "sun__today", 50)
        world.run(forecast())
        assert world.calls == ["sky__forecast"]
        assert {each.api for each in world.negotiator.held[0].offers} == {
            "sky__forecast", "air__forecast",
        }  # fmt: skip

    def test_what_writes_goes_to_the_same_function_only(self):
        world = World()
        for api in ("relay__send", "mail__write"):
            prefer(world.negotiator, api, 50)
        job = Job("note", "Send a text.", "phone__send", {"text": "rain"})
        assert world.run(job).is_done
        assert world.calls == ["relay__send"]
        assert {each.api for each in world.negotiator.held[0].offers} == {
            "phone__send", "relay__send",
        }  # fmt: skip

    def test_jobs_that_run_at_once_are_spread(self):
        slow = [Delayed(0.05, "rain")] * 10
        world = World(sky__forecast=slow, air__forecast=slow)
        execution = world.run(*(forecast(n) for n in range(10)))
        assert execution.is_done
        counts = {api: world.calls.count(api) for api in ("sky__forecast", "air__forecast")}
        assert min(counts.values()) >= 3, counts
        assert repr(world.negotiator.load) == "Load(nothing runs)"

    def test_the_protocol_is_that_of_its_negotiator(self):
        world = World()
        world.run(Job("rain", "Forecasts rain and wind for a city.", inputs={"city": "Oslo"}),
                  protocol="coordinated")  # fmt: skip
        assert world.negotiator.held

    def test_a_whole_request(self):
        world = World()
        execution = world.run(
            request="forecast of rain and wind for the city Oslo", protocol="coordinated"
        )
        assert execution.jobs
        assert execution.transcripts[0].protocol == "coordinated"

    def test_without_a_router(self):
        world = World(router=False)
        prefer(world.negotiator, "air__forecast", 50)
        assert world.run(forecast()).is_done
        assert world.calls == ["air__forecast"]

    def test_it_must_be_one(self):
        net = ContractNet(CATALOG, offline_model(CATALOG))
        with pytest.raises(InputError, match="negotiator"):
            Executor(net, Sources([ScriptedSource("a", {})]), negotiator=Reputation())


class TestWhoComesNext:
    def test_the_others_come_in_the_order_of_their_scores(self):
        world = World(sky__forecast=[DOWN], air__forecast=["rain"])
        execution = world.run(forecast())
        assert execution.is_done
        assert [(act.api, act.by) for act in execution.acts] == [
            ("sky__forecast", "directed"), ("air__forecast", "re-award"),
        ]  # fmt: skip

    def test_what_was_announced_is_awarded_again_by_score(self):
        job = Job("rain", "Forecasts rain and wind for a city.", inputs={"city": "Oslo"})
        down = {api.id: [DOWN] for api in APIS}
        world = World(**down)
        first = world.run(job, protocol="contractor-led", announcement="broadcast")
        tried = [act.api for act in first.acts]
        n_awarded = len([m for m in first.transcripts[0].messages if _is_first_award(m)])
        assert len(tried) >= n_awarded + 2
        by_past = Negotiator(weights=(0, 0, 1), threshold=0.0)
        again = World(negotiator=by_past, **down)
        prefer(again.negotiator, tried[-1], 50)
        second = again.run(job, protocol="contractor-led", announcement="broadcast")
        assert [act.api for act in second.acts][: n_awarded + 1] == [*tried[:n_awarded], tried[-1]]

    def test_a_contractor_that_fails_is_avoided_in_the_same_execution(self):
        world = World(sky__forecast=[DOWN] * 9)
        jobs = [forecast(n) for n in range(6)]
        chain = [
            Job(j.id, j.task, j.api, j.inputs, after=(f"rain{n - 1}",) if n else ())
            for n, j in enumerate(jobs)
        ]
        execution = world.run(*chain)
        assert execution.is_done
        assert world.calls.count("sky__forecast") <= 2


class TestWhatIsLearned:
    def test_outcomes_are_live_and_for_good_where_no_store_teaches(self):
        world = World(sky__forecast=[DOWN], air__forecast=["rain"])
        world.run(forecast())
        reputation = world.negotiator.reputation
        assert reputation.rate("sky__forecast") < 0.5 < reputation.rate("air__forecast")
        assert reputation.n_steps == 2

    def test_a_store_that_teaches_the_reputation_counts_each_act_once(self, tmp_path):
        reputation = Reputation(decay=1.0)
        with OnlineStore(tmp_path / "online.sqlite", [reputation]) as store:
            negotiator = Negotiator(reputation=reputation)
            world = World(
                negotiator=negotiator, store=store, sky__forecast=[DOWN], air__forecast=["rain"]
            )
            world.run(forecast())
            assert reputation.n_steps == 2
            assert reputation.counts("sky__forecast") == (0, 1)
            assert negotiator.past("sky__forecast") == reputation.rate("sky__forecast")
        again = Reputation(decay=1.0)
        OnlineStore(tmp_path / "online.sqlite", [again], read_only=True)
        assert again.counts("sky__forecast") == (0, 1)

    def test_what_was_given_up_counts_neither_way(self):
        world = World(sky__forecast=[Delayed(5, "rain")], air__forecast=[Delayed(5, "rain")])

        async def main():
            task = asyncio.create_task(world.executor.execute(Plan("Rain?", (forecast(),))))
            while not world.calls:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert world.negotiator.reputation.n_steps == 0
        assert repr(world.negotiator.load) == "Load(nothing runs)"

    def test_the_category_of_a_job_travels_with_its_steps(self, sample, sample_router, tmp_path):
        catalog = sample.catalog
        source = ScriptedSource("local", {"ask": ["done"]}, apis=[Api("local__ask", "ask")])
        whole = Catalog([*catalog, Api("local__ask", "ask")])
        reputation = Reputation()
        with OnlineStore(tmp_path / "online.sqlite", [reputation]) as store:
            net = ContractNet(whole, offline_model(whole), router=sample_router)
            executor = Executor(net, Sources([source]), store=store, approve=allow_writes)
            plan = Plan("Send a text message to a phone.", (Job("a", "", "local__ask", {}),))
            execution = asyncio.run(executor.execute(plan))
        assert execution.is_done, execution.jobs
        category = execution.jobs[0].category
        assert category in catalog.categories
        assert reputation.counts("local__ask", category)[0] == 1
