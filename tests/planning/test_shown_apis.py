"""Which tools a planner and its executors are shown, and when an agent goes no further."""

from __future__ import annotations

import asyncio
import json

import pytest

from cnp_router import ContractNet, Executor, FunctionSource, Sources, fit_router
from cnp_router.execution import Job, Plan
from cnp_router.planning import PlanAndExecute, Planner
from cnp_router.planning.shown_apis import FEW, shown_apis
from cnp_router.testing import ScriptedChatModel

THINGS = ("weather", "recipe", "train", "music", "stock")
MANY = [f"{verb}_{thing}" for thing in THINGS for verb in ("find", "list", "sort", "count", "rate")]


def tool(name):
    verb, _, thing = name.partition("_")

    def function(text: str) -> str:
        return f"{thing}: {text}"

    function.__name__, function.__doc__ = name, f"{verb.capitalize()} the {thing} of a place."
    return function


def run(names, serve):
    """Have something served with tools of some names; returns what it gave, and the model."""

    async def main():
        source = FunctionSource("desk", [tool(each) for each in names], effects=dict.fromkeys(
            names, "reads"
        ))  # fmt: skip
        async with Sources([source]) as sources:
            catalog = await sources.catalog()
            net = ContractNet(catalog, ScriptedChatModel([]), router=fit_router(catalog))
            return await serve(Executor(net, sources))

    return asyncio.run(main())


async def given(value):
    return value


def shown_for(names, text, **how):
    return run(names, lambda executor: given([a.id for a in shown_apis(executor, text, **how)]))


def test_few_tools_are_all_shown():
    assert len(shown_for(MANY[:FEW], "Find the weather of Oslo.")) == FEW


def test_of_many_those_for_the_text_and_for_each_of_its_parts():
    assert len(MANY) > FEW
    found = shown_for(MANY, "Find the weather of Oslo, and rate the music of Bergen")
    assert {"desk__find_weather", "desk__rate_music"} <= set(found)
    assert len(found) < len(MANY)


def test_those_that_are_given_and_no_others():
    one = run(MANY, lambda executor: given(shown_apis(executor, "Rain?", executor.net.catalog)))
    assert len(one) == len(MANY)


def act(tool, done=False, **inputs):
    return {"thought": "", "tool": tool, "inputs": inputs, "done": done}


def planned(plans, acts, request="Rate the music of Bergen.", **how):
    model, planner = ScriptedChatModel(acts), ScriptedChatModel(plans)

    async def serve(executor):
        method = PlanAndExecute(Planner(planner), executor, model=model, **how)
        return await method.run(request)

    return run(MANY, serve), model, planner


def test_an_executor_is_shown_the_tools_for_its_job():
    plan = Plan("Pancakes.", (Job("stock", "Count the stock of flour in the larder."),))
    done, model, _ = planned([], [act("desk__count_stock", done=True, text="flour")], plan)
    assert done.is_done
    [prompt] = [each.messages[-1].content for each in model.calls]
    names = {each["id"] for each in json.loads(prompt.partition("\n")[2])["tools"]}
    assert "desk__count_stock" in names and len(names) < len(MANY)


def test_a_plan_may_name_a_tool_that_is_there_and_was_not_shown():
    job = {"id": "a", "task": "", "api": "desk__sort_train", "inputs": {"text": "x"}, "after": []}
    done, _, planner = planned([{"guideline": "", "jobs": [job]}], [])
    shown = json.loads(planner.calls[0].messages[-1].content.partition("\n")[2])["tools"]
    assert "desk__sort_train" not in {each["id"] for each in shown}
    assert done.is_done and len(planner.calls) == 1


JOB = {"id": "a", "task": "Rate the music.", "api": None, "inputs": None, "after": []}
PLAN = {"guideline": "", "jobs": [JOB]}


@pytest.mark.parametrize(
    ("again", "kind"),
    [
        (act("desk__no_tool"), "unknown"),
        (act("", done=True), "early"),
        (act("desk__rate_music", text="x"), "repeated"),
    ],
)
def test_the_same_answer_in_vain_ends_a_job(again, kind):
    answers = [again] * (4 if kind == "repeated" else 3)
    done, model, _ = planned([PLAN], answers, revisions=0)
    assert not done.is_done and len(model.calls) == len(answers)
    assert f"the same answer 3 times in a row, in vain ({kind})" in done.problem


def test_without_rules_a_job_is_done_when_its_executor_says_so_and_not_before():
    answers = [act("desk__rate_music", text=str(n)) for n in range(3)]
    done, *_ = planned([PLAN], answers, revisions=0, max_turns=3)
    assert not done.is_done
    assert "not done after 3 turns: it was never said to be done" in done.problem
