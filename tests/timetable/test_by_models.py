from __future__ import annotations

import asyncio

import pytest
from course_choosing import PLAN, next_call

from cnp_router.exceptions import InfeasibleError, InputError
from cnp_router.testing import FunctionChatModel
from cnp_router.timetable import Form, Liking
from cnp_router.timetable.by_models import propose_by_models

FORM = Form(
    department="Law and Politics",
    year=2,
    min_credits=4,
    max_credits=7,
    first_period=False,
    gaps=True,
    free_day=True,
    interests="film",
    forms=Liking(liked=["seminar"]),
)


def made(method, answer, form=FORM):
    model = FunctionChatModel(answer)
    return asyncio.run(propose_by_models(form, method=method, model=lambda _: model)), model


def choose(request):
    planning = type(request.task).__name__ == "PlanJobs"
    return PLAN if planning else next_call(request.messages[-1].content)


@pytest.mark.parametrize("method", ["plan", "react"])
def test_the_rules_hold_whatever_the_models_choose(method):
    (proposal, run), _ = made(method, choose)
    assert run.is_done
    assert proposal.broken == ()
    assert proposal.method == method
    assert 4 <= proposal.credits <= 7
    assert any(course.field == "Film" for course in proposal.timetable)
    revised = proposal.revise("no Friday, gaps are fine")
    assert revised.method == "solver"
    friday = {c.id for c in proposal.timetable if (c.slot or "").startswith("Fri")}
    assert set(revised.revision.dropped) == friday


def test_only_the_planner_knows_the_student():
    prompts = []

    def answer(request):
        text = "".join(message.content for message in request.messages)
        prompts.append((type(request.task).__name__, text))
        return choose(request)

    made("plan", answer)
    about = "A student of Law and Politics in year 2. Interested in film. Likes seminar."
    assert {kind for kind, prompt in prompts if about in prompt} == {"PlanJobs"}
    assert {kind for kind, _ in prompts} == {"PlanJobs", "NextAct"}


def test_a_model_that_stops_short_is_said():
    nothing = {"thought": "", "tool": "", "inputs": {}, "done": True}
    (proposal, run), _ = made("react", lambda _: nothing)
    assert not run.is_done
    assert {each.name for each in proposal.broken} == {"least credits"}
    assert "at least 4 credits" in run.problem


def test_where_nothing_fits_no_model_is_asked():
    none = Liking(excluded=["lecture", "seminar", "exercise", "laboratory", "online"])
    form = Form(**{name: getattr(FORM, name) for name in FORM.__slots__} | {"forms": none})
    with pytest.raises(InfeasibleError, match="no lecture; no seminar"):
        made("plan", pytest.fail, form)


def test_arguments():
    with pytest.raises(InputError, match="method must be 'plan' or 'react', got 'solver'"):
        made("solver", choose)
    with pytest.raises(InputError, match="does not say department"):
        made("plan", choose, Form())
