"""Manager or coordinator lost: what the router recommends is called, and marked."""

from __future__ import annotations

import asyncio
import json

import pytest
from test_negotiated_executions import APIS, CATALOG, QUICK, World, forecast, prefer

from cnp_router import ContractNet, Executor, Job, Plan, fit_router
from cnp_router.agents import offline_model
from cnp_router.agents.tasks import SelectApis
from cnp_router.cli.execution_report import echo_execution
from cnp_router.context import MemoryContextStore, SharedContext
from cnp_router.coordination import Negotiator
from cnp_router.exceptions import (
    ChatAccessError,
    ChatAnswerError,
    ChatConnectionError,
    ChatTimeoutError,
    ContextStoreError,
    ContextTooLongError,
    CoordinationError,
    ManagerLostError,
    ModelStoreError,
    RoundFailedError,
)
from cnp_router.execution import ExecutionSettings, allow_writes
from cnp_router.online import Reputation
from cnp_router.protocols import RoundSettings
from cnp_router.sources import CallFailure, Sources
from cnp_router.testing import FunctionChatModel, ScriptedSource

REQUEST = "forecast of rain and wind for the city Oslo"
LOST = (
    ChatConnectionError("no connection"),
    ChatTimeoutError("no answer in time"),
    ChatAnswerError("not JSON"),
    ContextTooLongError("too long"),
)


def dying(error, kind=SelectApis, *, after=0):
    """Return a model that answers offline until it is asked for a task of a kind."""
    answers = offline_model(CATALOG).answers
    asked = []

    def answer(request):
        if isinstance(request.task, kind):
            asked.append(request.task)
            if len(asked) > after:
                raise error
        return answers[type(request.task)](request.task)

    return FunctionChatModel(answer)


def executor(model, *, settings=QUICK, router=True, negotiator=None, **results):
    by_source = {}
    for api in APIS:
        source, name = api.id.split("__")
        script = results.get(api.id, ["rain"] * 9)
        by_source[source] = ScriptedSource(source, {name: script}, apis=[api])
    net = ContractNet(
        CATALOG,
        model,
        router=fit_router(CATALOG) if router else None,
        settings=RoundSettings(threshold=0.0),
    )
    return Executor(
        net,
        Sources(by_source.values()),
        settings=settings,
        approve=allow_writes,
        negotiator=negotiator,
    )


def job(task=REQUEST, **fields):
    return Job("rain", task, inputs={"city": "Oslo"}, **fields)


class TestManager:
    @pytest.mark.parametrize("error", LOST, ids=lambda e: type(e).__name__)
    def test_a_request_is_called_directly_and_marked(self, error):
        by = executor(dying(error))
        execution = asyncio.run(by.execute(REQUEST, protocol="contractor-led"))
        assert execution.jobs
        assert {act.by for act in execution.acts} <= {"direct", "re-award"}
        assert execution.acts[0].by == "direct"
        lost, direct = execution.transcripts
        assert (lost.protocol, direct.protocol) == ("contractor-led", "direct")
        assert lost.ledger.tokens > 0  # what it has cost until then is not lost
        assert direct.calls == ()
        for report in execution.jobs:
            assert report.lost.startswith("the manager was lost: ")
            assert report.to_dict()["lost"] == report.lost

    @pytest.mark.parametrize("protocol", ["contractor-led", "manager-led", "collaborative"])
    def test_in_a_plan_only_the_job_without_a_manager_is_marked(self, protocol):
        model = dying(ChatConnectionError("gone"), kind=object)
        plan = Plan("Rain?", (forecast(), job()))
        execution = asyncio.run(executor(model).execute(plan, protocol=protocol))
        assert execution.is_done
        named, lost = execution.jobs
        assert (named.acts[0].by, named.lost) == ("directed", "")
        assert lost.acts[0].by == "direct"
        assert "the manager was lost" in lost.lost

    def test_a_model_that_dies_between_two_jobs(self):
        model = dying(ChatConnectionError("gone"), after=1)
        plan = Plan("Rain?", (job(), Job("again", REQUEST, inputs={"city": "Bergen"})))
        settings = ExecutionSettings(wait=(0, 0), max_concurrency=1)
        execution = asyncio.run(executor(model, settings=settings).execute(plan))
        assert sorted(each.acts[0].by for each in execution.jobs) == ["award", "direct"]
        assert sorted(bool(each.lost) for each in execution.jobs) == [False, True]

    def test_one_that_hangs(self):
        async def hanging(request):
            await asyncio.sleep(60)

        by = executor(FunctionChatModel(hanging))
        by.net = by.net.with_settings(timeout=0.2)
        execution = asyncio.run(by.execute(REQUEST))
        assert execution.acts[0].by == "direct"
        assert "took longer than 0.2 s" in execution.jobs[0].lost

    def test_a_set_up_that_is_wrong_is_an_error(self):
        by = executor(dying(ChatAccessError("wrong key")))
        with pytest.raises(RoundFailedError, match="wrong key") as caught:
            asyncio.run(by.execute(REQUEST))
        assert not isinstance(caught.value, ManagerLostError)
        assert by.last.acts == []

    def test_it_can_be_switched_off(self):
        settings = ExecutionSettings(direct=False)
        by = executor(dying(ChatConnectionError("gone")), settings=settings)
        with pytest.raises(ManagerLostError, match="gone"):
            asyncio.run(by.execute(REQUEST))
        plan = Plan("Rain?", (job(),))
        execution = asyncio.run(by.execute(plan))
        assert not execution.is_done
        assert "gone" in execution.jobs[0].problem

    def test_without_a_router_there_is_nobody_to_call(self):
        by = executor(dying(ChatConnectionError("gone")), router=False)
        with pytest.raises(ManagerLostError, match="gone"):
            asyncio.run(by.execute(REQUEST, announcement="broadcast"))

    def test_a_round_alone_fails_as_before(self):
        net = executor(dying(ChatConnectionError("gone"))).net
        with pytest.raises(ManagerLostError) as caught:
            asyncio.run(net.run(REQUEST))
        assert caught.value.transcript.protocol == "contractor-led"

    def test_what_writes_still_needs_approval(self):
        asked = []

        def approve(approval):
            asked.append(approval.api.id)
            return False

        by = executor(dying(ChatConnectionError("gone")))
        by.approve = approve
        execution = asyncio.run(by.execute("Sends a text message to a phone."))
        assert asked
        assert not execution.is_done
        assert all(act.attempts == 0 for act in execution.acts if act.api in asked)

    def test_the_routing_says_direct(self):
        from cnp_router.execution.directed import Direct

        net = executor(offline_model(CATALOG)).net
        outcome = asyncio.run(net.run(REQUEST, protocol=Direct()))
        assert outcome.routing.source == "direct"
        assert outcome.to_dict()["routing"]["source"] == "direct"
        assert outcome.protocol == "direct"
        assert outcome.routing.verdict


def test_the_journal_says_it_and_a_resumption_too(tmp_path):
    file = tmp_path / "state.jsonl"
    text = Job("text", api="phone__send", inputs={"text": "rain"}, after=("rain",))
    plan = Plan("Rain?", (job(), text))
    model = dying(ChatConnectionError("gone"))
    by = executor(model, phone__send=[CallFailure("permission", "no right")])
    first = asyncio.run(by.execute(plan, journal=file))
    assert first.jobs[0].acts[0].by == "direct"
    assert any('"record": "lost"' in line for line in file.read_text().splitlines())
    second = asyncio.run(executor(model).execute(plan, journal=file))
    assert second.jobs[0].is_resumed
    assert second.jobs[0].lost == first.jobs[0].lost
    assert second.jobs[0].acts[0].by == "direct"


def test_the_command_line_says_it(capsys):
    by = executor(dying(ChatConnectionError("gone")))
    execution = asyncio.run(by.execute(Plan("Rain?", (forecast(), job()))))
    echo_execution(execution)
    said = capsys.readouterr().out
    assert "Called directly" in said
    assert "rain: the manager was lost" in said


class Gone(Reputation):
    """One whose store cannot be reached, from the n-th time on."""

    def __init__(self, n=0):
        super().__init__()
        self.n = n

    def rate(self, api, category=None):
        self.n -= 1
        if self.n < 0:
            raise ModelStoreError("its store is gone")
        return super().rate(api, category)


class TestCoordinator:
    def test_a_request(self):
        world = World(negotiator=Negotiator(reputation=Gone()))
        execution = world.run(request=REQUEST, protocol="coordinated")
        assert execution.acts[0].by == "direct"
        assert execution.transcripts[-1].protocol == "direct"
        assert execution.jobs[0].lost == (
            "the coordinator was lost: nobody can be compared: its store is gone"
        )

    def test_a_job_with_a_named_api_goes_to_that_one(self):
        world = World(negotiator=Negotiator(reputation=Gone()))
        prefer(world.negotiator, "air__forecast", 50)
        execution = world.run(forecast())
        assert execution.is_done
        assert world.calls == ["sky__forecast"]
        assert execution.acts[0].by == "direct"
        assert "its store is gone" in execution.jobs[0].lost
        assert json.dumps(execution.to_dict())

    def test_lost_while_the_next_one_is_looked_for(self):
        from test_negotiated_executions import DOWN

        world = World(
            negotiator=Negotiator(reputation=Gone(n=2)),
            sky__forecast=[DOWN],
            air__forecast=["rain"],
        )
        execution = world.run(forecast())
        assert execution.is_done
        assert [act.by for act in execution.acts] == ["directed", "re-award"]
        assert "the coordinator was lost" in execution.jobs[0].lost

    def test_a_negotiator_of_ones_own_that_is_lost(self):
        class Lost(Negotiator):
            async def negotiate(self, *args, **how):
                raise CoordinationError("nobody is there")

        world = World(negotiator=Lost())
        execution = world.run(forecast(), job())
        assert execution.is_done
        assert execution.jobs[0].acts[0].by == "direct"
        assert "nobody is there" in execution.jobs[0].lost


class Broken(MemoryContextStore):
    """A store that goes away after some questions."""

    def __init__(self, n=0):
        super().__init__()
        self.n = n

    async def get(self, name):
        self.n -= 1
        if self.n < 0:
            raise ContextStoreError("redis://there", "no connection")
        return await super().get(name)


@pytest.mark.parametrize("n", [0, 1])
def test_a_context_store_that_is_gone(n):
    by_name = World(sky__forecast=["rain"] * 3)
    context = SharedContext(Broken(n))
    world = by_name.executor
    world.context = context
    plan = Plan("Rain?", (forecast(1), forecast(2)))
    execution = asyncio.run(world.execute(plan))
    assert execution.is_done
    assert {act.by for act in execution.acts} == {"directed"}  # nobody who negotiates was lost
    assert [job.lost for job in execution.jobs] == ["", ""]
    assert "no connection" in execution.context_problem
