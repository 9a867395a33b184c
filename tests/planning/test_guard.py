"""The guard: rules hold with tools that are late or lie, and beside others' changes."""

from __future__ import annotations

import asyncio
import threading

import pytest
from desk import APIS, DONE, QUICK, Desk, call, executor_of, job, pin, plan

from cnp_router import Catalog, ContractNet, FunctionSource, Sources
from cnp_router.execution import Executor, allow_writes
from cnp_router.planning import Guard, PlanAndExecute, Planner, Workspace
from cnp_router.sources import Call, CallResult
from cnp_router.testing import FunctionChatModel, ScriptedChatModel


class Shelf(Workspace):
    """Two books, none of them twice; who puts one there is slow."""

    def __init__(self):
        self.books = []
        self.go_on = threading.Event()

    def put(self, title: str, note: str = "") -> str:
        """Put a book on the shelf."""
        self.go_on.wait(5)
        self.books.append(title)
        return "there it stands"

    def state(self):
        return {"books": self.books}  # the list itself, which changes

    def refusal(self, api, inputs):
        return "it is there" if inputs.get("title") in self.books else None

    def unmet(self):
        return () if len(self.books) == 2 else ("two books are needed",)


def served(workspace, source, plans, *, acts=(), **how):
    planner = ScriptedChatModel(plans)

    async def main():
        async with Sources([source]) as sources:
            net = ContractNet(Catalog(await source.apis()), ScriptedChatModel(acts))
            how.setdefault("approve", allow_writes)
            executor = Executor(net, sources, **{"settings": QUICK, **how})
            return await PlanAndExecute(Planner(planner), executor).run("Go.", workspace=workspace)

    return asyncio.run(main()), planner


@pytest.mark.parametrize("approve", [allow_writes, lambda approval: True])
def test_after_a_call_of_unknown_outcome_nothing_more_is_changed(approve):
    """The tool still runs when its time is over: what the state says is not so any more."""
    shelf = Shelf()
    source = FunctionSource("shelf", [shelf.put], effects={"put": "writes"})
    jobs = [
        job(name, api="shelf__put", inputs={"title": "tea", "note": name}) for name in ("a", "b")
    ]
    settings = QUICK.__class__(wait=(0, 0), timeout=20, call_timeout=0.05)
    try:
        done, planner = served(shelf, source, [plan(*jobs)], settings=settings, approve=approve)
    finally:
        shelf.go_on.set()
    assert len(planner.calls) == 1  # a person has to look
    assert "nobody knows whether shelf__put has done" in done.problem
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(0.2)
    assert shelf.books == ["tea"]


def test_an_agent_is_told_and_its_job_ends():
    """It is not asked turn after turn for what will not be done."""

    class Late(Desk):
        async def call(self, call):
            await super().call(call)
            return CallResult.failed("timeout", "no answer")

    desk = Late()
    plans = [plan(job("a"), job("b", api="desk__pin", inputs={"note": "b", "slot": "2"}))]
    model = FunctionChatModel(lambda request: pin("tea", "1"))

    async def main():
        execute = executor_of(desk, model)
        async with execute.sources:
            planned = PlanAndExecute(Planner(ScriptedChatModel(plans)), execute)
            return await planned.run("Go.", workspace=desk)

    done = asyncio.run(main())
    assert len(desk.pins) == 1
    assert len(done.turns) == 1
    assert len(done.plans) == 1
    assert done.problem.count("nobody knows whether") == 2


class Liar(Desk):
    """A desk whose tool for pinning says that it reads."""

    async def apis(self):
        return [APIS[0], APIS[2], *self.lying]

    lying = (type(APIS[1])("desk__pin", "pin", "Pins.", (), APIS[1].parameters, "reads"),)


def test_a_tool_that_says_it_reads_is_called_alone_too_and_once_it_lied_not_again():
    desk = Liar(n_notes=3)
    desk.pause = lambda: asyncio.sleep(0.01)
    pinned = {"a": "1", "b": "1", "c": "2"}
    jobs = [job(n, api="desk__pin", inputs={"note": n, "slot": s}) for n, s in pinned.items()]
    done, _ = served(desk, desk, [plan(*jobs), *[plan(job("d"))] * 2], acts=[DONE] * 20)
    # Of jobs that need nothing of each other, any may be the first.
    assert desk.pins in [[{"note": n, "slot": s}] for n, s in pinned.items()]
    assert "desk__pin says that it only reads, and has changed the state" in str(done.to_dict())


def test_what_the_workspace_knows_to_read_runs_beside_others():
    class Known(Desk):
        def reads(self, api):
            return api == "desk__find"

    desk, running = Known(), []

    async def pause():
        running.append(len(running) + 1)
        await asyncio.sleep(0.01)
        most.append(len(running))
        running.pop()

    async def together(api, inputs):
        guard = Guard(desk, desk)
        await asyncio.gather(*(guard.call(Call(api=api, inputs=inputs(n))) for n in range(3)))

    desk.pause = pause
    most = []
    asyncio.run(together("desk__find", lambda n: {"query": str(n)}))
    assert max(most) == 3
    most = []
    asyncio.run(together("desk__pin", lambda n: {"note": str(n), "slot": str(n)}))
    assert max(most) == 1


def test_what_others_change_does_not_count_for_a_job():
    """A call that was not made, or that changed nothing, has not done the job."""
    desk, begun = Desk(n_notes=9, answers=[CallResult("ok")]), asyncio.Event()

    async def pause():
        begun.set()
        await asyncio.sleep(0.1)  # while a pins, b waits for its turn to ask

    desk.pause = pause

    async def act(request):
        task, n = request.task, len(request.task.history.last)
        if task.job == "Do a.":
            return [pin("tea", "1"), DONE][min(n, 1)]
        await begun.wait()
        return [call("ask"), pin("tea", "1"), DONE][min(n, 2)]  # the second is known by then

    async def main():
        execute = executor_of(desk, FunctionChatModel(act))
        async with execute.sources:
            planner = Planner(ScriptedChatModel([plan(job("a"), job("b"))]))
            planned = PlanAndExecute(planner, execute, revisions=0, max_turns=4)
            return await planned.run("Go.", workspace=desk)

    done = asyncio.run(main())
    states = {report.id: report.state for report in done.execution.jobs}
    assert states == {"a": "done", "b": "failed"}
    assert done.counts == {"called": 2, "finished": 1, "repeated": 1, "early": 2}
