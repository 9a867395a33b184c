"""Tasks of planners and of agents that work in turns: prompts, answers, the offline model."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from hostile import HOSTILE, as_sent
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.agents import (
    DoneJob,
    FailedJob,
    NextAct,
    NextStep,
    PlanJobs,
    ShownHistory,
    TriedCall,
    ask,
    offline_model,
)
from cnp_router.agents.offline_answers import TextSimilarity
from cnp_router.agents.offline_plans import OfflinePlans
from cnp_router.agents.prompts import short_specification
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import ChatAnswerError
from cnp_router.llm.schema import misfit
from cnp_router.llm.tokens import estimate_request_tokens, estimate_tokens
from cnp_router.text import specification_text

TEXT = {"type": "string"}
FIND = Api(
    "maps__find",
    "find",
    "Finds places on a map, with a long description.",
    parameters={"type": "object", "properties": {"place": TEXT}, "required": ["place"]},
    summary="Finds places on a map.",
    keywords=("map", "places"),
)
SEND = Api("sms__send", "send", "Sends a text message to a phone.")
APIS = (FIND, SEND)


def shown(task):
    return json.loads(task.information())


class TestPrompts:
    def test_a_tool_is_shown_by_its_summary(self):
        assert json.loads(short_specification(FIND)) == {
            "id": "maps__find",
            "summary": "Finds places on a map.",
            "parameters": dict(FIND.parameters),
        }
        assert json.loads(short_specification(SEND))["summary"] == SEND.description
        for task in (PlanJobs("a", APIS), NextAct("a", APIS), NextStep("a", APIS)):
            assert "with a long description" not in task.information()

    def test_what_is_done_is_shown_by_its_keywords(self):
        task = PlanJobs("a", APIS, done=(DoneJob("1", "Find it.", FIND.id, FIND.keywords),))
        assert shown(task)["done"][0]["keywords"] == ["map", "places"]

    @pytest.mark.parametrize("text", HOSTILE)
    def test_no_text_ends_the_data(self, text):
        said = as_sent(text)
        bad = Api("x", "x", said, parameters={"type": "object", "properties": {said: TEXT}})
        call = TriedCall(text, {text: text}, {"result": text}, text)
        plan = PlanJobs(
            text, (bad,), text, (text,), ({text: text},), {text: text}, text,
            (DoneJob(text, text),), (FailedJob(text, text, text),), (text,),
        )  # fmt: skip
        act = NextAct(
            text,
            (bad,),
            {text: text},
            (text,),
            ShownHistory((call,), (call,), 1),
            text,
            {text: text},
        )
        step = NextStep(text, (bad,), {text: text}, (text,), ShownHistory((call,)), text, (text,))
        for task in (plan, act, step):
            fields = shown(task)
            assert fields["tools"][0]["summary"] == said or not said
            assert fields["state"] == {said: said}
            assert len(task.chat_request().messages) == 2
        assert shown(act)["acts"][0]["seen"] == {"result": said}
        assert shown(step)["profile"] == said or not said

    def test_the_executor_has_no_field_for_request_or_profile(self):
        fields = NextAct.__dataclass_fields__
        assert not {"request", "profile", "hints", "recommended"} & set(fields)

    def test_what_is_the_same_each_time_is_short(self):
        for task, most in ((PlanJobs("a", ()), 460), (NextAct("a", ()), 280)):
            request = task.chat_request()
            same = estimate_request_tokens(request) - estimate_tokens(request.messages[1].content)
            assert same <= most

    def test_roles(self):
        roles = [task.role for task in (PlanJobs, NextAct, NextStep)]
        assert roles == ["planner", "executor", "single-agent"]


class TestAnswers:
    def test_all_keys_are_required_and_no_other_is_taken(self):
        job = {"id": "a", "task": "", "api": None, "inputs": None, "after": []}
        plan = {"guideline": "", "jobs": [job]}
        task = PlanJobs("a", APIS)
        assert task.read(plan).jobs[0].api is None
        for wrong in (
            {"jobs": []},
            {**plan, "more": 1},
            {"guideline": "", "jobs": [{**job, "when": 1}]},
            {"guideline": "", "jobs": [{**job, "after": "b"}]},
        ):
            with pytest.raises(ChatAnswerError):
                task.read(wrong)
        act = {"thought": "", "tool": " maps__find ", "inputs": {}, "done": False}
        assert NextAct("a", APIS).read(act).tool == "maps__find"
        for wrong in ({**act, "inputs": []}, {**act, "done": []}, {"tool": "x"}):
            with pytest.raises(ChatAnswerError):
                NextAct("a", APIS).read(wrong)


class TestHistory:
    @given(st.lists(st.text(max_size=300), max_size=8), st.integers(1, 400))
    def test_the_last_ones_that_fit_and_those_before_in_brief(self, texts, most):
        turns = [TriedCall("t", {"n": n}, text, kind="called") for n, text in enumerate(texts)]
        shown = ShownHistory.of(turns, most)
        assert shown.n_left + len(shown.before) + len(shown.last) == len(turns)
        assert [*shown.before, *shown.last] == turns[shown.n_left :]
        whole = [tokens(turn.to_dict()) for turn in turns]
        if sum(whole) <= most:
            assert shown.last == tuple(turns)
            return
        assert shown.last
        of_last = [tokens(turn.to_dict()) for turn in shown.last]
        if sum(whole[-3:]) <= most:
            assert len(shown.last) >= 3  # word for word
        of_before = sum(tokens(turn.brief()) for turn in shown.before)
        assert sum(of_last) + of_before <= most or len(shown.last) == 1
        room = min(most, sum(whole[: len(turns) - len(shown.last)])) // 5
        room = max(min(room, most - sum(of_last)), 0)
        assert of_before <= room
        if shown.n_left:
            assert of_before + tokens(turns[shown.n_left - 1].brief()) > room

    def test_in_brief_there_is_no_text_of_a_result(self):
        turns = [TriedCall("t", {"n": n}, f"Obey {n}! " * 20, kind="called") for n in range(9)]
        task = NextAct("a", APIS, history=ShownHistory.of(turns, 300))
        fields = shown(task)
        assert fields["earlier acts"][-1] == {
            "tool": "t",
            "inputs": {"n": 9 - len(fields["acts"]) - 1},
            "came to": "called",
        }
        assert "Obey" not in json.dumps(fields["earlier acts"])


def tokens(value):
    return estimate_tokens(json.dumps(value, ensure_ascii=False))


def offline_plans(apis):
    return OfflinePlans(TextSimilarity([specification_text(api) for api in apis]))


class TestOffline:
    """A stand-in: what it plans and does fits, is the same each time, and costs nothing."""

    def answer(self, task):
        return asyncio.run(ask(offline_model(Catalog(APIS)), task)).answer

    def test_each_part_of_a_request_is_a_job_of_the_nearest_tool(self):
        plan = self.answer(PlanJobs("Find places on a map, then send a text message.", APIS))
        assert [job.api for job in plan.jobs] == ["maps__find", "sms__send"]
        assert [job.after for job in plan.jobs] == [(), ("job-1",)]

    def test_with_a_state_executors_choose(self):
        plan = self.answer(PlanJobs("Find places on a map.", APIS, state={"free": 1}))
        assert [job.api for job in plan.jobs] == [None]

    @pytest.mark.parametrize("other", ["reads", "writes", "unknown"])
    @pytest.mark.parametrize("effects", ["reads", "writes", "unknown"])
    def test_a_revision_goes_to_what_reads_in_place_of_what_reads(self, effects, other):
        apis = replace(FIND, effects=effects), replace(FIND, id="atlas__find", effects=other)
        failed = (FailedJob("job-1", "Find places on a map.", "it failed", "maps__find"),)
        plans = offline_plans(apis)
        jobs = plans.plan(PlanJobs("Find places on a map.", apis, failed=failed))["jobs"]
        if effects != "reads":
            assert jobs == []
        else:
            assert [job["api"] for job in jobs] == ["atlas__find" if other == "reads" else None]

    @pytest.mark.parametrize("effects", ["reads", "writes", "unknown"])
    def test_a_job_is_done_by_what_is_nearest_to_its_parts(self, effects):
        near = "History of a patient", "Delete a patient for good"
        number = {"properties": {"patient": {"type": "integer"}}, "required": ["patient"]}
        apis = tuple(
            Api(f"v__{n}", f"v{n}", said, parameters=number, effects=own)
            for n, (said, own) in enumerate(zip(near, ("reads", effects), strict=True))
        )
        plans = offline_plans(apis)
        called = []
        for job in ("history of patient 17", "delete patient 17", "do not delete patient 17"):
            tried = ()
            while tool := plans.act(NextAct(job, apis, history=ShownHistory(tried)))["tool"]:
                called.append((job.split()[0], tool))
                tried = (*tried, TriedCall(tool, {}, "ok"))
        expected = [("history", "v__0"), ("delete", "v__1")]
        assert called == expected + [("do", "v__1")] * (effects == "reads")

    def test_what_forbids_stays_whole(self):
        request = "Find places on a map, then send a text message. Do not send it before noon."
        assert [job.task for job in self.answer(PlanJobs(request, APIS)).jobs] == [request]

    def test_it_calls_what_is_certain_once_and_is_done(self):
        job = 'Find places on a map: "Kyoto"'
        for task in (NextAct, NextStep):
            first = self.answer(task(job, APIS))
            assert (first.tool, first.inputs) == ("maps__find", {"place": "Kyoto"})
            tried = ShownHistory((TriedCall("maps__find", {}, "found"),))
            again = self.answer(task(job, APIS, history=tried))
            assert (again.tool, again.is_done) == ("", True)

    @given(st.text(max_size=200) | st.sampled_from([*HOSTILE, "", " ", ".,;"]))
    def test_any_text_gets_an_answer_that_fits_twice_the_same(self, text):
        answers, again = (offline_model(Catalog(APIS)).answers for _ in range(2))
        for task in (PlanJobs(text, APIS), NextAct(text, APIS), NextStep(text, APIS)):
            data = answers[type(task)](task)
            assert misfit(data, task.schema) is None
            assert again[type(task)](task) == data
            task.read(data)
