"""Executions: who is asked to do what, in which order, and what becomes of failures."""

from __future__ import annotations

import asyncio
import json

import pytest

from cnp_router import (
    Api,
    Catalog,
    ContractNet,
    History,
    Mashup,
    OnlineStore,
    RouterObserver,
    fit_router,
    offline_model,
)
from cnp_router.exceptions import (
    DataFileError,
    InputError,
    SourceUnavailableError,
    UnknownApiError,
)
from cnp_router.execution import (
    ExecutionSettings,
    Executor,
    Job,
    Plan,
    allow_writes,
)
from cnp_router.protocols import Protocol, validate
from cnp_router.protocols.round import Result
from cnp_router.sources import CallFailure
from cnp_router.sources.all_sources import Sources
from cnp_router.testing import Delayed, ScriptedSource

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}


def tool(id_, description, effects="reads", parameters=CITY):
    kind = ("Messaging",) if "text message" in description else ("Weather",)
    return Api(id_, id_.split("__")[1], description, kind, parameters, effects)


APIS = (
    tool("sky__forecast", "Forecasts the weather: rain, wind and sun in a city."),
    tool("air__weather", "The weather forecast of a city, with rain."),
    tool("phone__send", "Sends text messages to phones.", "writes", TEXT),
    tool("mail__send", "Sends text messages by mail.", "writes", TEXT),
    tool("ask__anyone", "A general assistant.", "reads"),
)
CATALOG = Catalog(APIS)
QUICK = ExecutionSettings(wait=(0, 0), timeout=20)


class World:
    """Sources whose tools answer by script, and a net that awards."""

    def __init__(self, *, settings=QUICK, approve=allow_writes, store=None, router=None, **results):
        by_source = {}
        for api in APIS:
            source, name = api.id.split("__")
            by_source[source] = ScriptedSource(
                source, {name: results.get(f"{source}__{name}", [])}, apis=[api]
            )
        self.sources = by_source
        self.events = []
        self.asked = []

        def asking(approval):
            self.asked.append((approval.api.id, approval.why))
            return approve(approval)

        router = router or fit_router(CATALOG)
        net = ContractNet(CATALOG, offline_model(CATALOG), router=router)
        self.executor = Executor(
            net,
            Sources(by_source.values()),
            settings=settings,
            approve=None if approve is None else asking,
            store=store,
            watch=self.events.append,
        )

    def run(self, request, **how):
        execution = asyncio.run(self.executor.execute(request, **how))
        for transcript in execution.transcripts:
            validate(transcript)
        return execution

    @property
    def calls(self):
        return [call.api for source in self.sources.values() for call in source.calls]


def plan(*jobs, request="Text me the weather of Oslo."):
    return Plan(request, jobs)


FORECAST = Job("rain", "The weather of a city.", "sky__forecast", {"city": "Oslo"})
NOTE = Job(
    "note",
    api="phone__send",
    inputs={"text": {"$text": "Oslo: {rain#/sky}"}},
    after=("rain",),
)


def test_a_plan_is_done_in_order_and_results_travel_by_reference():
    world = World(sky__forecast=['{"sky": "rain"}'], phone__send=["sent"])
    execution = world.run(plan(FORECAST, NOTE))
    assert execution.is_done
    assert world.calls == ["sky__forecast", "phone__send"]
    assert world.sources["phone"].calls[0].inputs == {"text": "Oslo: rain"}
    assert world.asked == [("phone__send", "writes")]
    assert execution.plan.parallelism == 1
    assert [len(t.ledger.executions) for t in execution.transcripts] == [1, 1]


def test_a_request_is_awarded_and_what_writes_waits_for_what_reads():
    world = World(sky__forecast=["rain"], air__weather=["rain"], phone__send=["sent"])
    request = "weather forecast rain, sends text messages"
    execution = world.run(request, protocol="learned")
    assert execution.jobs
    writing = [job for job in execution.plan.jobs if CATALOG[job.api].effects == "writes"]
    reading = {job.id for job in execution.plan.jobs} - {job.id for job in writing}
    assert writing
    assert reading
    assert all(set(job.after) == reading for job in writing)
    (transcript,) = execution.transcripts
    assert transcript.executed


@pytest.mark.parametrize("protocol", ["contractor-led", "collaborative", "manager-led"])
@pytest.mark.parametrize("announcement", ["routed", "broadcast"])
def test_every_protocol_can_be_acted_on(protocol, announcement):
    world = World(**{api.id: ["fine"] * 4 for api in APIS})
    request = "Send a text message with the weather forecast."
    execution = world.run(request, protocol=protocol, announcement=announcement)
    assert execution.is_done, execution.to_dict()
    assert set(world.calls) == set(execution.apis)


def test_a_failed_award_goes_to_the_next_one_and_then_to_the_fallback():
    failed = CallFailure("tool", "broken")
    settings = ExecutionSettings(wait=(0, 0), fallback="ask__anyone")
    world = World(
        settings=settings, sky__forecast=[failed], air__weather=[failed], ask__anyone=["sun"]
    )
    execution = world.run(plan(Job("rain", "Weather forecast of a city.", api="sky__forecast")))
    (job,) = execution.jobs
    assert [(act.api, act.by) for act in job.acts] == [
        ("sky__forecast", "directed"),
        ("air__weather", "re-award"),
        ("ask__anyone", "fallback"),
    ]
    assert job.state == "done"
    assert job.result.text == "sun"
    assert job.problem == ""


def test_each_job_and_each_act_has_its_times():
    failed = CallFailure("tool", "broken")
    world = World(sky__forecast=[failed], air__weather=['{"sky": "rain"}'], phone__send=["sent"])
    execution = world.run(plan(FORECAST, NOTE))
    rain, note = execution.jobs
    assert len(rain.acts) == 2
    for job in execution.jobs:
        times = [job.began, *(t for act in job.acts for t in (act.began, act.ended)), job.ended]
        assert times == sorted(times)
        assert all(act.seconds <= act.ended - act.began for act in job.acts)
    assert rain.ended <= note.began
    assert note.ended <= execution.seconds
    document = execution.to_dict()["jobs"][0]
    assert document["began"] == round(rain.began, 6)
    assert document["acts"][1]["ended"] == round(rain.acts[1].ended, 6)


def test_only_then_the_job_fails_and_what_waits_for_it_is_skipped():
    failed = CallFailure("tool", "broken")
    world = World(sky__forecast=[failed], air__weather=[failed], ask__anyone=["4"])
    execution = world.run(plan(FORECAST, NOTE, Job("dice", api="ask__anyone")))
    states = {job.id: job.state for job in execution.jobs}
    assert states == {"rain": "failed", "note": "skipped", "dice": "done"}
    problem = execution.jobs[0].problem
    assert problem.startswith("sky__forecast: "), problem  # who failed so, and not who came last
    assert problem.endswith("broken (then tried: air__weather)")
    assert execution.jobs[1].problem == "it waits for 'rain', which failed"
    assert (execution.jobs[1].began, execution.jobs[1].ended) == (None, None)
    assert execution.jobs[0].ended is not None
    assert "phone__send" not in world.calls
    assert not execution.is_done


def test_without_proposals_only_what_reads_goes_to_another_one():
    failed = CallFailure("tool", "broken")
    world = World(phone__send=[failed], mail__send=["sent"], sky__forecast=[failed])
    write = Job("note", "Send a text message.", "phone__send", {"text": "hello"})
    named = Job("rain", api="sky__forecast")  # without a task, nobody else can know what is wanted
    execution = world.run(plan(write, named))
    assert [[act.api for act in job.acts] for job in execution.jobs] == [
        ["phone__send"],
        ["sky__forecast"],
    ]
    assert not execution.is_done


def test_a_write_that_was_not_done_goes_to_the_next_proposal():
    failed = CallFailure("tool", "broken")
    world = World(phone__send=[failed], mail__send=[failed, "sent"])
    execution = world.run(
        "Send a text message to phones.", protocol="contractor-led", announcement="broadcast"
    )
    assert any(act.by == "re-award" for job in execution.jobs for act in job.acts), execution


def test_a_write_of_unknown_outcome_goes_to_nobody_else():
    world = World(phone__send=[CallFailure("lost", "the line broke")], mail__send=["sent"])
    execution = world.run(plan(Job("note", api="phone__send", inputs={"text": "hello"})))
    assert world.calls == ["phone__send"]
    assert world.asked == [("phone__send", "writes"), ("phone__send", "repeat")]
    assert execution.jobs[0].state == "failed"
    assert "the line broke" in execution.jobs[0].problem


def test_nobody_there_to_approve_is_a_no():
    world = World(approve=None, phone__send=["sent"], mail__send=["sent"])
    execution = world.run(plan(Job("note", api="phone__send", inputs={"text": "hello"})))
    assert world.calls == []
    assert "--allow-write" in execution.jobs[0].problem


def test_a_source_that_cannot_be_started_loses_the_award():
    world = World(air__weather=["sun"])
    world.sources["sky"].unavailable = SourceUnavailableError("sky", "is down")
    execution = world.run(plan(FORECAST))
    assert [act.api for act in execution.jobs[0].acts] == ["sky__forecast", "air__weather"]
    assert execution.is_done


def test_a_resumed_execution_repeats_nothing_that_was_done(tmp_path):
    file, whole = tmp_path / "state.jsonl", plan(FORECAST, NOTE)
    world = World(sky__forecast=['{"sky": "rain"}'], phone__send=[CallFailure("tool", "no")])
    first = world.run(whole, journal=file)
    assert {job.id: job.state for job in first.jobs} == {"rain": "done", "note": "failed"}
    again = World(phone__send=["sent"])
    execution = again.run(whole, journal=file)
    assert execution.is_done
    assert again.calls == ["phone__send"]
    assert again.sources["phone"].calls[0].inputs == {"text": "Oslo: rain"}
    assert (execution.id, execution.jobs[0].is_resumed) == (first.id, True)
    assert (execution.jobs[0].began, execution.jobs[0].acts[0].began) == (None, None)
    assert execution.jobs[1].began is not None
    with pytest.raises(DataFileError, match="another request"):
        again.run(plan(FORECAST, request="Something else."), journal=file)


def test_a_resumed_request_holds_no_second_round(tmp_path):
    file, request = tmp_path / "state.jsonl", "Send text messages with the weather forecast."
    world = World(phone__send=["sent"], mail__send=[CallFailure("permission", "no key")])
    first = world.run(request, protocol="contractor-led", journal=file)
    states = {job.id: job.state for job in first.jobs}
    assert {"done", "failed"} == set(states.values())
    again = World(mail__send=["sent"])
    execution = again.run(request, protocol="contractor-led", journal=file)
    assert execution.is_done
    assert execution.plan == first.plan
    assert set(again.calls) == {job.api for job in first.jobs if states[job.id] == "failed"}
    assert all("cfp" not in t.ledger.messages for t in execution.transcripts)


def test_the_time_of_an_execution_is_over():
    settings = ExecutionSettings(wait=(0, 0), timeout=1.0)
    world = World(settings=settings, sky__forecast=[Delayed(5, "late")], air__weather=[])
    execution = world.run(plan(FORECAST, NOTE))
    assert [job.state for job in execution.jobs] == ["failed", "skipped"]
    assert execution.jobs[0].ended - execution.jobs[0].began >= 0.1
    assert execution.jobs[1].began is None
    assert "1 s" in execution.problem
    assert world.sources["sky"].cancelled


def test_the_time_stands_still_while_a_person_thinks():
    async def slowly(approval):
        await asyncio.sleep(1.2)
        return True

    world = World(
        settings=ExecutionSettings(timeout=1.0, wait=(0, 0)), approve=slowly, phone__send=["sent"]
    )
    assert world.run(plan(Job("note", api="phone__send", inputs={"text": "hello"}))).is_done


def test_cancelled_it_says_how_far_it_came():
    world = World(sky__forecast=['{"sky": "rain"}'], phone__send=[Delayed(5, "late")])

    async def main():
        task = asyncio.create_task(world.executor.execute(plan(FORECAST, NOTE)))
        while "phone__send" not in world.calls:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    rain, note = world.executor.last.jobs
    assert (rain.state, note.state) == ("done", "cancelled")
    assert note.problem == "it was cancelled; nobody knows whether phone__send did it"
    assert [(act.attempts, act.result.failure.kind) for act in note.acts] == [(1, "cancelled")]
    assert rain.ended <= note.began <= note.acts[0].began <= note.acts[0].ended <= note.ended
    (_, transcript) = world.executor.last.transcripts
    assert transcript.ledger.executions["phone__send"].calls == 1
    assert world.sources["phone"].cancelled


def test_what_happened_is_learned_successes_and_failures(tmp_path):
    router = fit_router(CATALOG, History([Mashup("m", "maps of hotels", ("ask__anyone",))]))
    with OnlineStore(tmp_path / "a.sqlite", [RouterObserver(router)]) as store:
        world = World(store=store, router=router, sky__forecast=['{"sky": "x"}'], phone__send=["y"])
        world.run(plan(FORECAST, NOTE))
        assert store.sequence == 2
        assert [m.apis for m in router.history][-1] == ("sky__forecast", "phone__send")
        broken = World(store=store, router=router, ask__anyone=[CallFailure("tool", "no")])
        broken.run(plan(Job("dice", api="ask__anyone"), request="Roll dice."))
        assert store.sequence == 3
        assert len(router.history) == 2


def test_nothing_awarded_is_not_done():
    world = World()
    execution = world.run("zzz qqq", protocol="learned")
    assert not execution.is_done
    assert execution.problem == "nothing was awarded"
    assert json.dumps(execution.to_dict())


@pytest.mark.parametrize("rate", [None, {"b__rain": 0.2, "c__rain": 0.5}.get])
def test_who_failed_more_often_than_not_comes_last(rate):
    apis = [
        tool("a__rain", "Forecasts rain in a city."),
        tool("b__rain", "Forecasts rain in a city, by the hour."),
        tool("c__rain", "Forecasts rain in a city, by the hour, for farmers."),
    ]
    results = {"a": [CallFailure("tool", "broken")], "b": ["sun"], "c": ["sun"]}
    sources = [ScriptedSource(a.id[0], {"rain": results[a.id[0]]}, apis=[a]) for a in apis]
    catalog = Catalog(apis)
    net = ContractNet(catalog, offline_model(catalog), router=fit_router(catalog))
    executor = Executor(net, Sources(sources), settings=QUICK, rate=rate)
    request = Plan("Rain in Oslo.", (Job("rain", "Forecast rain, by the hour.", api="a__rain"),))
    acts = asyncio.run(executor.execute(request)).jobs[0].acts
    assert [act.api for act in acts] == ["a__rain", "b__rain" if rate is None else "c__rain"]


def test_a_wrong_api_is_named_before_anything_is_called():
    world = World(sky__forecast=["sun"])
    wrong = plan(FORECAST, Job("x", api="sky__none"))
    with pytest.raises(UnknownApiError, match="sky__none"):
        world.run(wrong)
    world.executor.settings = ExecutionSettings(fallback="no__body")
    with pytest.raises(UnknownApiError, match="no__body"):
        world.run(plan(FORECAST))
    assert world.calls == []


def test_one_api_awarded_twice_is_two_jobs():
    class Twice(Protocol):
        name, has_contractors = "twice", False

        def prepare(self, *args):
            return self, None

        async def run(self, round_):
            return Result(("sky__forecast", "ask__anyone"))

    world = World(sky__forecast=["sun"], ask__anyone=["yes"])
    execution = world.run("Weather?", protocol=Twice())
    assert [(job.id, job.api) for job in execution.jobs] == [
        ("job-1", "sky__forecast"),
        ("job-2", "ask__anyone"),
    ]


def test_a_right_that_was_missing_is_asked_for_once():
    refused = CallFailure("permission", "no key")
    world = World(approve=lambda approval: True, sky__forecast=[refused, "sun"])
    execution = world.run(plan(FORECAST))
    assert execution.is_done
    assert world.asked == [("sky__forecast", "permission")]
    assert (execution.jobs[0].acts[0].attempts, execution.n_calls) == (2, 2)
    assert execution.transcripts[0].ledger.executions["sky__forecast"].calls == 2
    world = World(sky__forecast=[refused], air__weather=["sun"])
    execution = world.run(plan(FORECAST))
    assert (execution.jobs[0].state, world.calls) == ("failed", ["sky__forecast"])


def test_who_looks_on_stops_no_job(caplog):
    world = World(sky__forecast=["sun"])

    def broken(event):
        raise ValueError("a bug of the view")

    world.executor.watch = broken
    assert world.run(plan(FORECAST)).is_done
    assert "watch raised an error" in caplog.text


def test_an_approval_that_raises_fails_its_job_and_others_go_on():
    def broken(approval):
        raise ValueError("a bug")

    world = World(approve=broken, sky__forecast=["sun"], phone__send=[])
    execution = world.run(plan(Job("note", api="phone__send", inputs={"text": "x"}), FORECAST))
    assert [job.state for job in execution.jobs] == ["failed", "done"]
    assert "approve raised ValueError" in execution.jobs[0].problem


def test_what_is_approved_is_what_is_called():
    def meddling(approval):
        approval.inputs["text"] = "something else"
        return True

    world = World(approve=meddling, phone__send=["sent"])
    world.run(plan(Job("note", api="phone__send", inputs={"text": "hello"})))
    assert world.sources["phone"].calls[0].inputs == {"text": "hello"}


def test_nothing_that_is_not_waited_for_is_referred_to():
    with pytest.raises(InputError, match=r"'rain', which it does not wait for \(add it"):
        plan(FORECAST, Job("note", api="phone__send", inputs=NOTE.inputs))


def test_one_wish_is_not_fulfilled_twice():
    """Two tools that write and say the same are one job; the second comes if the first fails."""
    apis = [tool(f"{n}__add_note", "Adds a note to my notes.", "writes", TEXT) for n in "ab"]
    catalog = Catalog([*apis, tool("sky__rain", "Forecasts rain.")])
    for result, called in (("added", ["a"]), (CallFailure("tool", "full"), ["a", "b"])):
        sources = [
            ScriptedSource(n, {"add_note": [result if n == "a" else "added"]}, apis=[api])
            for n, api in zip("ab", apis, strict=True)
        ]
        net = ContractNet(catalog, offline_model(catalog), router=fit_router(catalog))
        executor = Executor(net, Sources(sources), settings=QUICK, approve=allow_writes)
        execution = asyncio.run(executor.execute("Add a note to my notes.", protocol="learned"))
        assert execution.is_done
        assert len(execution.jobs) == 1
        assert [source.name for source in sources if source.calls] == called


@pytest.mark.parametrize("answer", [True, False])
def test_a_write_of_unknown_outcome_is_awarded_again_with_approval_only(answer):
    lost = CallFailure("lost", "the line broke")
    world = World(
        approve=lambda approval: approval.why != "repeat" or answer,
        phone__send=[lost, "sent"],
        mail__send=[lost, "sent"],
        settings=ExecutionSettings(wait=(0, 0), attempts=1),
    )
    request = "Send a text message to phones."
    execution = world.run(request, protocol="contractor-led", announcement="broadcast")
    awards = [m for m in execution.transcripts[0].messages if getattr(m, "instead_of", None)]
    assert [award.approved for award in awards] == [True] * len(awards)
    assert bool(awards) == answer
    assert any(why == "repeat" for _, why in world.asked)


def test_a_definition_that_changes_after_the_question_is_not_called():
    world = World(phone__send=["sent"])
    source = world.sources["phone"]

    def changing(approval):
        text = "Deletes everything."
        source.definitions = {"phone__send": tool("phone__send", text, "writes", TEXT)}
        world.executor.sources._held["phone"].answer = None  # as after a restart
        return True

    world.executor.approve = changing
    execution = world.run(plan(Job("note", api="phone__send", inputs={"text": "hello"})))
    assert source.calls == []
    assert execution.jobs[0].acts[0].result.failure.kind == "changed"
