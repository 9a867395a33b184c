"""Planners: what they are told, what of their answers is used, what is said of the rest."""

from __future__ import annotations

import asyncio
import json

import pytest
from desk import APIS, Desk, job, plan

from cnp_router.agents import DoneJob, FailedJob
from cnp_router.exceptions import ChatAnswerError, InputError
from cnp_router.execution import Job, Plan
from cnp_router.planning import Planner
from cnp_router.protocols.metered import Books
from cnp_router.testing import ScriptedChatModel

REQUEST = "Pin two notes."
A, B = job("a"), job("b", api="desk__find", inputs={"query": "tea"}, after=["a"])


def planned(*answers, books=None, **how):
    model = ScriptedChatModel(answers)
    made = Planner(model, max_jobs=3).plan(REQUEST, apis=APIS, books=books, **how)
    return asyncio.run(made), model


def told(call):
    return json.loads(call.messages[1].content.partition("\n")[2].partition("\n\n")[0])


def test_a_plan_is_read_from_strict_json():
    made, model = planned(plan(A, B))
    assert made == Plan(
        REQUEST,
        (
            Job("a", "Do a."),
            Job("b", "Do b.", "desk__find", {"query": "tea"}, ("a",)),
        ),
        "Pin with care.",
    )
    assert model.calls[0].schema["additionalProperties"] is False
    assert model.calls[0].task.role == "planner"


def test_it_is_told_all_that_is_known():
    _, model = planned(plan(A), workspace=Desk(), profile="Likes tea.")
    shown = told(model.calls[0])
    assert shown["request"] == REQUEST
    assert shown["profile"] == "Likes tea."
    assert [tool["id"] for tool in shown["tools"]] == [api.id for api in APIS]
    assert shown["tools"][0]["parameters"] == dict(APIS[0].parameters)
    assert shown["hints"] == ["Pin short notes first."]
    assert shown["recommended"] == [{"note": "tea"}]
    assert shown["state"]["free slots"] == list("12345")
    assert shown["not met"] == ["2 more notes are needed"]


def test_what_is_given_stands_in_for_what_the_workspace_says():
    _, model = planned(plan(A), workspace=Desk(), hints=["None."], recommended=[])
    assert told(model.calls[0])["hints"] == ["None."]
    assert "recommended" not in told(model.calls[0])


WRONG = [
    (plan(job("a", api="desk__pni")), "there is no tool 'desk__pni' (did you mean 'desk__pin'?)"),
    (plan(job("a", after=["b"]), job("b", after=["a"])), "in a circle: 'a' -> 'b' -> 'a'"),
    (plan(job("a", after=["c"])), "job 'a' waits for 'c', which is no job"),
    (plan(A, A), "duplicate job id 'a'"),
    (plan(), "no job that is to be done"),
    (plan(*(job(name) for name in "abcd")), "has 4 jobs (give it at most 3)"),
    (plan(job(" a")), "must not begin or end with a space"),
    (
        plan(job("a", api="desk__find", inputs={"query": {"$from": "b", "path": ""}})),
        "refers to the result of 'b', which it does not wait for",
    ),
]


@pytest.mark.parametrize(("answer", "problem"), WRONG)
def test_what_is_wrong_is_told_once(answer, problem):
    made, model = planned(answer, plan(A))
    assert made.ids == {"a"}
    first, repair = model.calls
    assert len(repair.messages) == len(first.messages) + 2
    assert problem in repair.messages[-1].content
    assert repair.task is first.task


@pytest.mark.parametrize(("answer", "problem"), WRONG)
def test_then_it_is_an_error_that_says_what_it_has_cost(answer, problem):
    books = Books()
    with pytest.raises(ChatAnswerError) as caught:
        planned(answer, answer, books=books)
    assert problem in str(caught.value)
    assert caught.value.calls == len(books.calls) == 2
    assert caught.value.usage.tokens_in == sum(call.tokens_in for call in books.calls)
    assert {call.role for call in books.calls} == {"planner"}


def test_a_text_that_is_no_plan_is_an_error():
    with pytest.raises(ChatAnswerError):
        planned("I would rather not.")


def test_a_revision_keeps_what_is_done():
    model = ScriptedChatModel([plan(A, job("c", after=["a"]), guideline="")])
    before = Plan(REQUEST, (Job("a", "Do a."), Job("b", "Do b.")), "Pin with care.")
    made = asyncio.run(
        Planner(model).revise(
            before,
            apis=APIS,
            done=[DoneJob("a", "Do a.", "desk__pin", ("cork",))],
            failed=[FailedJob("b", "Do b.", "it was too late")],
            workspace=Desk(),
            profile="Likes tea.",
        )
    )
    assert made.guideline == "Pin with care."
    assert [each.id for each in made.jobs] == ["a", "c"]
    assert made.jobs[0] is before.jobs[0]
    shown = told(model.calls[0])
    assert shown["done"] == [{"id": "a", "task": "Do a.", "api": "desk__pin", "keywords": ["cork"]}]
    assert shown["failed"] == [{"id": "b", "task": "Do b.", "why": "it was too late"}]
    assert shown["guideline so far"] == "Pin with care."


def test_bad_arguments_are_named():
    planner = Planner(ScriptedChatModel([]))
    for how in ({"apis": ()}, {"apis": APIS, "profile": 3}, {"apis": APIS, "hints": "one"}):
        with pytest.raises(InputError):
            asyncio.run(planner.plan(REQUEST, **how))
    with pytest.raises(InputError, match="max_jobs"):
        Planner(ScriptedChatModel([]), max_jobs=0)
    with pytest.raises(InputError, match="model"):
        Planner("gpt")


def test_a_model_that_plans_nothing_more_of_what_failed():
    planner = Planner(ScriptedChatModel([plan()]))
    failed = [FailedJob("a", "Book a room.", "nobody did it")]
    before = Plan("Book a room.", (Job("a", "Book a room."),))
    assert asyncio.run(planner.revise(before, apis=APIS, failed=failed)) is None
