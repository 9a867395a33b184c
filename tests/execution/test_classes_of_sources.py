"""Classes that are declared with the sources hold in each execution, shared context or not."""

from __future__ import annotations

import asyncio

import pytest

from cnp_router import ContractNet, Executor, Filler, Job, Plan, offline_model
from cnp_router.context import SharedContext
from cnp_router.exceptions import InputError
from cnp_router.execution import allow_writes
from cnp_router.planning import ReAct
from cnp_router.sources.all_sources import Sources
from cnp_router.testing import FunctionChatModel, ScriptedChatModel
from tests.execution.contextual import APIS, CATALOG, PAID, QUICK, Told, outlines

CLASSES = {"hr__pay": "confidential"}
SECRET = "CANARY-4711"


def execution_of(*jobs, classes=CLASSES, context=None, model=None, run=None):
    """Execute jobs over sources with classes, and return what came of it and what others got."""
    names = dict.fromkeys(api.id.partition("__")[0] for api in APIS)
    told = {name: Told(name, {"hr__pay": SECRET}) for name in names}
    told["hr"].answers["hr__words"] = lambda call: f"in words: {call.inputs}"
    executor = Executor(
        ContractNet(CATALOG, offline_model(CATALOG) if run is None else model),
        Sources(told.values(), classes=classes),
        settings=QUICK,
        approve=allow_writes,
        filler=Filler(model),
        context=context,
    )
    work = executor.execute(Plan("Do it.", jobs)) if run is None else run(executor)
    execution = asyncio.run(work)
    others = [call for name in names if name != "hr" for call in told[name].calls]
    return execution, [f"{call.api} {call.inputs}" for call in others]


def send(after="pay", inputs=None, task=""):
    given = {"text": {"$from": after, "path": ""}} if inputs is None and not task else inputs
    return Job("send", task, "mail__send", given, (after,))


CONTEXTS = {
    "none": lambda: None,
    "one that knows nothing of it": SharedContext,
    "one that says otherwise": lambda: SharedContext(classes={"hr__pay": "public"}),
}


@pytest.mark.parametrize("context", CONTEXTS)
class TestEachWay:
    def test_a_reference(self, context):
        execution, others = execution_of(PAID, send(), context=CONTEXTS[context]())
        assert others == []
        assert [job.state for job in execution.jobs] == ["done", "failed"]
        assert "never leaves 'hr'" in execution.jobs[1].problem

    def test_what_its_own_source_makes_of_it(self, context):
        words = Job("words", "", "hr__words", {"value": {"$from": "pay", "path": ""}}, ("pay",))
        execution, others = execution_of(PAID, words, send("words"), context=CONTEXTS[context]())
        assert others == []
        assert [job.state for job in execution.jobs] == ["done", "done", "failed"]
        assert all(act.is_confidential for act in execution.acts if act.result.is_done)

    def test_an_outline_for_a_model(self, context):
        def model(request):
            return {"inputs": {"text": f"seen: {outlines(request)}"}, "missing": []}

        _, others = execution_of(
            PAID, send(task="Tell it."), model=FunctionChatModel(model), context=CONTEXTS[context]()
        )
        assert not any(SECRET in each for each in others)

    def test_an_agent_that_chooses_calls_itself(self, context):
        pay = {"thought": "", "tool": "hr__pay", "inputs": {"who": "Aiko"}, "done": False}
        model = ScriptedChatModel([pay, {"thought": "", "tool": "", "inputs": {}, "done": True}])
        run, _ = execution_of(
            model=model, context=CONTEXTS[context](), run=lambda executor: ReAct(executor).run("x")
        )
        assert run.is_done
        assert not any(SECRET in m.content for call in model.calls for m in call.messages)

    def test_a_transcript(self, context):
        execution, _ = execution_of(PAID, context=CONTEXTS[context]())
        records = [record for each in execution.transcripts for record in each.records()]
        assert SECRET not in str(records)


def test_its_own_source_has_it_and_so_have_you():
    tax = Job("words", "", "hr__words", {"value": {"$from": "pay", "path": ""}}, ("pay",))
    execution, _ = execution_of(PAID, tax)
    assert execution.is_done
    assert execution.results["pay"].text == SECRET


def test_what_has_no_class_reaches_what_depends_on_it():
    execution, others = execution_of(PAID, send(), classes={"hr__words": "confidential"})
    assert execution.is_done
    assert others == [f"mail__send {{'text': '{SECRET}'}}"]


def test_a_class_that_there_is_not_is_an_error():
    with pytest.raises(InputError, match="hr__pay"):
        execution_of(PAID, classes={"hr__pay": "secret"})


def test_it_is_kept_in_this_process_whatever_the_context_says():
    context = SharedContext(classes={"hr__pay": "public"})
    execution_of(PAID, context=context)
    assert asyncio.run(context.store.live()) == ()
