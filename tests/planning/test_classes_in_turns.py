"""Agents that work in turns make nothing more public than what they were shown."""

from __future__ import annotations

import asyncio

from cnp_router import ContractNet, Executor, Filler, offline_model
from cnp_router.context import SharedContext
from cnp_router.execution import ExecutionSettings, allow_writes
from cnp_router.planning import PlanAndExecute, Planner, ReAct
from cnp_router.sources.all_sources import Sources
from cnp_router.testing import ScriptedChatModel
from tests.execution.contextual import CATALOG, PAY, TELL, WORDS, Told
from tests.planning.desk import job, plan

CANARY = "CANARY-4711"


def act(tool="", done=False, **inputs):
    return {"thought": "", "tool": tool, "inputs": inputs, "done": done}


def kept(acts, classes, *, planned=None, apis=None):
    """Return the entries that a run of an agent leaves for others, by their API."""
    told = [Told(name, {"hr__pay": CANARY, "mail__tell": f"Dear {CANARY}",
                        "hr__words": f"in words: {CANARY}"})
            for name in ("hr", "union", "mail", "chat")]  # fmt: skip
    context = SharedContext(classes=classes)
    model = ScriptedChatModel(acts)
    executor = Executor(
        ContractNet(CATALOG, model if planned is None else offline_model(CATALOG)),
        Sources(told),
        settings=ExecutionSettings(wait=(0, 0), timeout=20, attempts=1),
        approve=allow_writes,
        filler=Filler(None),
        context=context,
    )
    if planned is None:
        run = asyncio.run(ReAct(executor).run("x"))
    else:
        planner = Planner(ScriptedChatModel([planned]))
        serve = PlanAndExecute(planner, executor, model=model)
        run = asyncio.run(serve.run("x", apis=apis))
    assert run.is_done, run.problem
    return {entry.source: entry.data_class for entry in asyncio.run(context.store.live())}


def test_what_a_call_is_given_from_an_earlier_one():
    acts = [act("hr__pay", who="Aiko"), act("mail__tell", text=CANARY, done=True)]
    classes = {"mail__tell": "public"}
    assert kept(acts, classes) == {"hr__pay": "private", "mail__tell": "private"}
    assert kept(acts[::-1][:1], classes) == {"mail__tell": "public"}
    public = {"mail__tell": "public", "hr__pay": "public"}
    assert kept(acts, public) == {"hr__pay": "public", "mail__tell": "public"}


class TestAfterAnotherJob:
    PLAN = plan(job("pay", api="hr__pay", inputs={"who": "Aiko"}), job("then", after=["pay"]))

    def test_what_is_confidential_stays_so_in_its_own_source(self):
        classes = {"hr__pay": "confidential", "hr__words": "public"}
        acts = [act("hr__words", value=CANARY, done=True)]
        assert kept(acts, classes, planned=self.PLAN, apis=[PAY, WORDS]) == {}

    def test_what_is_private_stays_private(self):
        classes = {"mail__tell": "public"}
        acts = [act("mail__tell", text=CANARY, done=True)]
        left = kept(acts, classes, planned=self.PLAN, apis=[PAY, TELL])
        assert left == {"hr__pay": "private", "mail__tell": "private"}
