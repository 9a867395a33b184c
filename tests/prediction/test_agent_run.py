from __future__ import annotations

import asyncio

import pytest
from worlds import run

from cnp_router.exceptions import InputError
from cnp_router.online import OnlineStore
from cnp_router.prediction import (
    AgentRun,
    NextToolPolicy,
    NextToolRouter,
)
from cnp_router.testing import FunctionChatModel
from cnp_router.trajectories import Step

TOOLS = ("weather", "maps", "sms", "mail")


def taught(model=None, **guards):
    router = NextToolRouter(model=model, policy=NextToolPolicy.fixed(0.6, **guards))
    for number in range(20):
        router.observe(run(number, "Rain?", *TOOLS))
    return router


def walked(router, **options):
    agent = AgentRun(router, "r1", "Rain?", **options)
    for _ in TOOLS:
        agent.add(Step(agent.next().tool))
    return agent


def test_guards_are_told_who_chose():
    model = FunctionChatModel(lambda request: {"tool": request.task.candidates[0].tool})
    agent = walked(taught(model, max_in_a_row=1))
    assert agent.sources == ("context", "llm", "context", "llm")
    assert tuple(step.tool for step in agent.steps) == TOOLS


def test_another_step_than_the_one_said_is_the_callers():
    agent = AgentRun(taught(), "r1", "Rain?")
    agent.next()
    agent.add(Step("mail"))
    agent.add(Step("weather"))
    assert agent.sources == ("caller", "caller")


def test_it_is_learned_from_once_at_its_end():
    router = taught()
    agent = walked(router)
    assert router.n_trajectories == 20
    trajectory = agent.end(success=True)
    assert (trajectory.id, trajectory.goal, trajectory.tools) == ("r1", "Rain?", TOOLS)
    assert router.n_trajectories == 21
    for after in (agent.end, lambda: agent.add(Step("sms"))):
        with pytest.raises(InputError, match="'r1' has ended"):
            after()


def test_it_is_kept_by_a_store(tmp_path):
    router = NextToolRouter()
    with OnlineStore(tmp_path / "online.sqlite", [router]) as store:
        agent = AgentRun(router, "r1", "Rain?", observe=store.observe)
        agent.add(Step("weather"))
        agent.end()
    assert router.n_trajectories == 1
    again = NextToolRouter()
    OnlineStore(tmp_path / "online.sqlite", [again], read_only=True)
    assert again.n_trajectories == 1


def test_in_an_event_loop_and_with_hints():
    agent = AgentRun(taught(), "r1", "Rain?")
    assert asyncio.run(agent.anext()).tool == "weather"
    agent.add(Step("weather", {"city": "Oslo"}))
    assert agent.hints("maps") == ()


def test_a_blank_id():
    with pytest.raises(InputError, match="non-blank"):
        AgentRun(NextToolRouter(), " ", "Rain?")


def test_inputs_that_cannot_be_written_do_not_end_a_run():
    def nested():
        value = []
        for _ in range(100_000):
            value = [value]
        return value

    model = FunctionChatModel(lambda request: {"tool": "weather"})
    run = AgentRun(NextToolRouter(model=model, tools=["weather", "sms"]), "t1", "Rain?")
    circular = []
    circular.append(circular)
    for value in (nested(), nested(), circular, {("a", 1): 2}):
        assert run.next().tool == "weather"
        run.add(Step("weather", {"x": value}))
    assert run.next().tool == "weather"
    run.end()
