"""Filling: what the plan gives, what a model writes, one repair, and what is left open."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from cnp_router.agents import offline_model
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import ChatAnswerError, ChatRateLimitError, ExecutionError, InputError
from cnp_router.execution.filling import Filler
from cnp_router.execution.task_graph import Job
from cnp_router.llm import ChatResponse, Usage
from cnp_router.prediction import ParameterHints
from cnp_router.sources import Attachment, CallResult
from cnp_router.testing import ScriptedChatModel
from cnp_router.trajectories import Step

TEXT = {"type": "string"}
SMS = Api(
    "sms__send",
    "send",
    "Sends texts.",
    parameters={
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "a phone number"},
            "body": {"type": "string", "minLength": 2},
            "times": {"type": "integer", "maximum": 3},
        },
        "required": ["to", "body"],
        "additionalProperties": False,
    },
)
WEATHER = CallResult(structured={"sky": "Rain, says Eve.", "rain": 3, "Obey!": {"id": "x-1"}})
SECRET = CallResult("s3cret")


def fill(model, job=None, api=SMS, request="Text Bob.", results=None, **fields):
    job = job or Job("text", "Text it.", after=("weather",))
    results = {"weather": WEATHER, "secret": SECRET} if results is None else results
    hints = fields.pop("hints", None)
    return asyncio.run(Filler(model, hints=hints).fill(job, api, request, results, **fields))


def said(inputs, *missing):
    return {"inputs": inputs, "missing": list(missing)}


def prompt(model, call=0):
    return "\n".join(message.content for message in model.calls[call].messages)


class TestModel:
    def test_references_become_data(self):
        answer = said(
            {
                "to": {"$from": "weather", "path": "/#3/id"},
                "body": {"$text": "{weather#/sky} {weather#/rain} mm"},
            }
        )
        filled = fill(model := ScriptedChatModel([answer]))
        assert filled.inputs == {"to": "x-1", "body": "Rain, says Eve. 3 mm"}
        assert (filled.call.calls, filled.dropped) == (1, ())
        assert filled.call.tokens_in > 100
        assert (filled.call.role, filled.call.model) == ("executor", model.name)
        model.assert_done()

    def test_it_sees_outlines_of_what_the_job_waits_for(self):
        model = ScriptedChatModel([said({"to": "Bob", "body": "hi"})])
        fill(model)
        information = json.loads(model.calls[0].messages[1].content.partition("\n")[2])
        assert list(information["results"]) == ["weather"]
        assert information["results"]["weather"][2] == {
            "path": "/rain",
            "type": "integer",
            "value": 3,
        }
        for word in ("Eve", "Obey", "x-1", "secret", "s3cret"):
            assert word not in prompt(model)

    def test_attachments_notes_and_failures_are_not_seen(self):
        picture = Attachment("image/obey", b"OBEY", "file:///OBEY")
        result = CallResult("", attachments=(picture,), notes=("OBEY",))
        failed = CallResult.failed("tool", "OBEY", text="OBEY")
        model = ScriptedChatModel([said({"to": "Bob", "body": "hi"})])
        job = Job("text", "Text it.", after=("picture", "failed"))
        fill(model, job, results={"picture": result, "failed": failed})
        assert "OBEY" not in prompt(model).upper()

    @pytest.mark.parametrize(
        ("inputs", "problem"),
        [
            ({"to": "Bob", "body": 5}, "inputs.body: 5 is not of type 'string'"),
            ({"to": "Bob", "body": "x"}, "inputs.body: 'x' is too short"),
            ({"to": "Bob"}, "'body' is a required property"),
            ({"to": {"$from": "weather"}, "body": "hi", "times": 9}, "inputs.times: 9 is greater"),
            ({"to": "Bob", "body": {"$from": "secret"}}, "refers to job 'secret', which it does"),
            ({"to": "Bob", "body": {"$from": "weather", "path": "/none"}}, "no such place"),
            ({"to": "Bob", "body": {"$text": 1}}, "is not a reference"),
        ],
    )
    def test_it_is_told_once_what_does_not_fit(self, inputs, problem):
        right = said({"to": "Bob", "body": "hi"})
        model = ScriptedChatModel([said(inputs), right])
        filled = fill(model)
        assert filled.inputs == {"to": "Bob", "body": "hi"}
        assert filled.call.calls == 2
        assert problem in prompt(model, 1)
        assert model.calls[1].task is model.calls[0].task
        model = ScriptedChatModel([said(inputs), said(inputs)])
        with pytest.raises(
            ExecutionError, match="job 'text', 'sms__send': what the model wrote"
        ) as e:
            fill(model)
        assert problem in str(e.value)
        assert (e.value.call.calls, e.value.call.tokens_out > 0) == (2, True)
        for call in range(2):
            assert "Eve" not in prompt(model, call)

    def test_what_it_found_no_value_of_is_not_asked_for_again(self):
        with pytest.raises(
            ExecutionError, match=r"no value for 'to' \(a phone number\): name it"
        ) as e:
            fill(ScriptedChatModel([said({"body": "hi"}, "to", "times")]))
        assert e.value.call.calls == 1

    def test_an_optional_one_may_be_missing(self):
        answer = said({"to": "Bob", "body": "hi"}, "times", "made up")
        assert fill(ScriptedChatModel([answer])).inputs == {"to": "Bob", "body": "hi"}

    def test_made_up_parameters_are_dropped_and_reported(self):
        answer = said({"to": "Bob", "body": "hi", "priority": "high"})
        filled = fill(ScriptedChatModel([answer]))
        assert (filled.inputs, filled.dropped) == ({"to": "Bob", "body": "hi"}, ("priority",))

    def test_no_usable_answer(self):
        for wrong in ("no JSON", ChatRateLimitError("too many", model="m")):
            with pytest.raises(ExecutionError, match=r"job 'text', .* could not be filled: "):
                fill(ScriptedChatModel([wrong]))

    def test_an_answer_of_another_form_is_an_error_that_says_what_was_paid(self):
        class Odd(ScriptedChatModel):
            async def complete(self, request):
                return ChatResponse("{}", None, Usage(7, 1, "server"), "odd", 0.5)

        with pytest.raises(ExecutionError, match="could not be filled: the answer does not") as e:
            fill(Odd([]))
        assert (e.value.call.usage, e.value.call.calls) == (Usage(7, 1, "server"), 1)
        with pytest.raises(ExecutionError) as e:
            fill(ScriptedChatModel([ChatAnswerError("odd", usage=Usage(5, 1, "server"), calls=2)]))
        assert (e.value.call.usage, e.value.call.calls) == (Usage(5, 1, "server"), 2)

    def test_what_json_cannot_hold_is_repaired_too(self):
        class Odd(ScriptedChatModel):
            async def complete(self, request):
                self.calls.append(request)
                body = float("nan") if len(self.calls) == 1 else "hi"
                data = said({"to": "Bob", "body": body})
                return ChatResponse("{}", data, Usage(1, 1, "server"), "odd", 0.5)

        filled = fill(Odd([]))
        assert (filled.inputs["body"], filled.call.usage, filled.call.seconds) == (
            "hi",
            Usage(2, 2, "server"),
            1.0,
        )

    def test_the_prompt_stays_small_however_much_there_is(self):
        many = {f"job{n}": CallResult(structured=[{"id": 1}] * 99) for n in range(100)}
        model = ScriptedChatModel([said({"to": "Bob", "body": "hi"})])
        fill(model, Job("text", "Text it.", after=tuple(many)), results=many)
        assert len(prompt(model)) < 40_000


class TestResolved:
    """What fits is judged once more when the data is there; that is no fault of the model."""

    @pytest.mark.parametrize(
        ("name", "reference"),
        [
            ("body", {"$from": "weather", "path": "/rain"}),
            ("times", {"$text": "{weather#/rain}"}),
            ("times", {"$from": "weather", "path": "/sky"}),
            ("to", {"$from": "weather", "path": "/#3"}),
        ],
    )
    def test_data_of_another_type_is_an_error_that_does_not_quote_it(self, name, reference):
        answer = said({"to": "Bob", "body": "hi", name: reference})
        problem = f"what inputs.{name} refers to is not what 'sms__send' takes there"
        with pytest.raises(ExecutionError, match=problem) as caught:
            fill(ScriptedChatModel([answer]))
        assert "Eve" not in str(caught.value)

    def test_a_schema_of_the_whole(self):
        either = Api("x", "x", parameters={
            "type": "object", "properties": {"a": TEXT, "b": TEXT},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        })  # fmt: skip
        reference = {"$from": "weather", "path": "/sky"}
        assert fill(ScriptedChatModel([said({"a": reference})]), api=either).inputs["a"]
        with pytest.raises(ExecutionError, match="with what they refer to, the inputs do not fit"):
            fill(ScriptedChatModel([said({"a": reference, "b": "x"})]), api=either)

    def test_references_deep_inside(self):
        api = Api("x", "x", parameters={
            "type": "object", "required": ["mail"], "properties": {"mail": {
                "type": "object", "required": ["to"], "additionalProperties": False,
                "properties": {"to": {"type": "array", "items": TEXT}},
            }},
        })  # fmt: skip
        answer = said({"mail": {"to": ["Bob", {"$from": "weather", "path": "/sky"}]}})
        filled = fill(ScriptedChatModel([answer]), api=api)
        assert filled.inputs == {"mail": {"to": ["Bob", "Rain, says Eve."]}}

    def test_escapes_are_checked_as_what_they_stand_for(self):
        api = Api("x", "x", parameters={
            "type": "object", "properties": {"where": {
                "type": "object", "properties": {"$from": TEXT}, "required": ["$from"],
                "additionalProperties": False,
            }},
        })  # fmt: skip
        answer = said({"where": {"$$from": "here"}})
        assert fill(ScriptedChatModel([answer]), api=api).inputs == {"where": {"$from": "here"}}


class TestPlan:
    def test_what_the_plan_gives_is_taken_and_nobody_is_asked(self):
        given = {"to": "Bob", "body": {"$text": "It rains: {weather#/sky}"}}
        job = Job("text", "Text it.", inputs=given, after=("weather",))
        filled = fill(ScriptedChatModel([]), job)
        assert filled.inputs == {"to": "Bob", "body": "It rains: Rain, says Eve."}
        assert filled.call is None

    def test_what_is_open_is_asked_for_and_what_is_given_stays(self):
        job = Job("text", "Text it.", inputs={"to": "Bob"}, after=("weather",))
        model = ScriptedChatModel([said({"to": "Eve", "body": "hi"})])
        assert fill(model, job).inputs == {"to": "Bob", "body": "hi"}
        assert '"given": {"to": "Bob"}' in prompt(model)

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({"to": 3}, "inputs.to: 3 is not of type 'string'"),
            ({"to": "Bob", "body": {"$from": "secret"}}, "refers to job 'secret'"),
            ({"to": "Bob", "body": "hi", "more": 1}, "'more' is not a parameter"),
        ],
    )
    def test_what_cannot_be_used(self, given, problem):
        job = Job("text", "Text it.", inputs=given, after=("weather",))
        with pytest.raises(ExecutionError, match="the inputs that the plan gives cannot") as caught:
            fill(ScriptedChatModel([]), job)
        assert problem in str(caught.value)

    def test_an_api_without_parameters_needs_nobody(self):
        for schema in (None, {}, {"type": "object"}, {"type": "object", "properties": {}}):
            assert fill(ScriptedChatModel([]), api=Api("x", "x", parameters=schema)).inputs == {}

    def test_only_jobs_that_are_waited_for_exist(self):
        job = Job("text", "Text it.", inputs={"to": "Bob", "body": {"$from": "weather"}})
        with pytest.raises(ExecutionError, match=r"it waits for: none; name the job in 'after'"):
            fill(None, job)

    def test_a_schema_that_is_none(self):
        for schema in ({"type": "object", "properties": 3}, {"type": "objekt"}):
            with pytest.raises(ExecutionError, match="job 'text', 'x': "):
                fill(None, api=Api("x", "x", parameters=schema))


@pytest.mark.parametrize("model", [None, offline_model(Catalog([SMS]))], ids=["none", "offline"])
class TestOffline:
    def test_it_takes_what_is_certain(self, model):
        api = Api("now", "now", parameters={
            "type": "object", "properties": {"timezone": TEXT}, "required": ["timezone"],
        })  # fmt: skip
        filled = fill(model, Job("a", api="now"), api, "What time is it in Asia/Tokyo?", {})
        assert filled.inputs == {"timezone": "Asia/Tokyo"}
        assert (filled.call is not None) == (model is not None)

    def test_it_refers_to_a_key_of_the_same_name(self, model):
        results = {"who": CallResult('{"phone": "1", "to": "+81", "body": {"to": 3}}')}
        job = Job("text", "Say: body=hello", after=("who",))
        assert fill(model, job, results=results).inputs == {"to": "+81", "body": "hello"}

    def test_what_stays_open_is_named_with_the_cure(self, model):
        problem = (
            r"^job 'text', 'sms__send': no value for 'to', 'body': write to: \"\.\.\.\" in the "
            r'request, give "inputs" in a plan, or use --llm$'
        )
        with pytest.raises(ExecutionError, match=problem):
            fill(model)

    def test_the_cure_it_names_works(self, model):
        api = Api("mail", "mail", parameters={
            "type": "object", "properties": {"to": TEXT, "body": TEXT}, "required": ["to", "body"]
        })  # fmt: skip
        with pytest.raises(ExecutionError, match=r"--llm \(an address or a date alone"):
            fill(model, Job("a", "Mail 'hi' to ann@x.org"), api, results={})
        job = Job("a", "Mail 'hi', to: ann@x.org, body: hi")
        assert fill(model, job, api, results={}).inputs == {"to": "ann@x.org", "body": "hi"}

    def test_a_description_is_said_of_one_alone(self, model):
        with pytest.raises(ExecutionError, match=r"no value for 'to' \(a phone number\): write"):
            fill(model, Job("a", "Text it, body: hi"), results={})

    def test_what_it_says_of_parameters_steers_no_terminal(self, model):
        evil = {**TEXT, "description": "a\x1b[2Jb\u202e" + "x" * 1_000}
        api = Api("x", "x", parameters={
            "type": "object", "properties": {"to": evil}, "required": ["to"]
        })  # fmt: skip
        with pytest.raises(ExecutionError) as caught:
            fill(model, api=api)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["text", "message"])
def test_without_a_model_results_are_carried_on(name):
    api = Api("x", "x", parameters={"properties": {name: TEXT}, "required": [name]})
    job = Job("send", "Send it.", after=("weather",))
    assert "Rain, says Eve." in fill(None, job, api).inputs[name]


class TestHints:
    def learned(self):
        hints = ParameterHints()
        for name in ("Nara", "Kobe"):
            found = {"Obey!": f"{name}-1", "near": [{"id": f"{name}-2"}]}
            first = Step("find", {"name": name}, json.dumps(found))
            hints.observe_step(
                [first], Step("sms__send", {"to": f"{name}-1", "body": f"{name}-2", "x": name})
            )
        return hints

    def test_they_say_where_and_never_what(self):
        model = ScriptedChatModel([said({"to": "Bob", "body": "hi"})])
        results = {"place": CallResult('{"near": [{"id": "EVE"}], "Obey!": "EVE"}')}
        job = Job("text", "Text it.", after=("place",))
        apis = {"place": "find", "other": "none"}
        fill(model, job, results=results, apis=apis, hints=self.learned())
        information = json.loads(model.calls[0].messages[1].content.partition("\n")[2])
        assert information["hints"] == [
            {"input": "body", "from": "result of place", "path": "/#1/0/id", "count": 2, "of": 2},
            {"input": "to", "from": "result of place", "path": "/#2", "count": 2, "of": 2},
        ]
        for word in ("EVE", "Obey", "Nara", "Kobe"):
            assert word not in prompt(model)

    def test_the_offline_model_takes_them(self):
        results = {"place": CallResult('{"near": [{"id": "there"}], "Obey!": "+81"}')}
        job = Job("text", after=("place",), api="sms__send")
        filled = fill(None, job, results=results, apis={"place": "find"}, hints=self.learned())
        assert filled.inputs == {"to": "+81", "body": "there"}

    def test_what_is_not_in_the_result_is_left_out(self):
        results = {"place": CallResult('{"near": []}')}
        job = Job("text", after=("place",), api="sms__send")
        with pytest.raises(ExecutionError, match="no value for 'to'"):
            fill(None, job, results=results, apis={"place": "find"}, hints=self.learned())


def test_a_model_that_is_none():
    with pytest.raises(InputError, match="a ChatModel or None is needed"):
        Filler("gpt")


def test_one_quoted_text_is_not_put_into_two_inputs():
    write = Api(
        "files__write",
        "write",
        "Write a file.",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    )
    job = Job("job-1", "Write the file '/tmp/notes/precious.txt'")
    with pytest.raises(ExecutionError, match="no value for 'content'"):
        asyncio.run(Filler(None).fill(job, write, job.task, {}))


class TestForbidden:
    """Without a model, nothing that may write is called for what says what is not to be done."""

    MUST_NOT = "Do not text Bob, to: Bob, body: hi"

    @pytest.mark.parametrize("make", [lambda: None, lambda: offline_model(Catalog([SMS]))])
    @pytest.mark.parametrize("effects", ["writes", "unknown"])
    @pytest.mark.parametrize(("task", "request_"), [("Text", MUST_NOT), (MUST_NOT, "Text")])
    def test_nothing_is_written(self, make, effects, task, request_):
        api = dataclasses.replace(SMS, effects=effects)
        with pytest.raises(ExecutionError, match="says what is not to be done"):
            fill(make(), Job("text", task), api, request_, {})

    def test_a_tool_without_inputs_neither(self):
        gate = Api("gate__close", "close", parameters={"type": "object", "properties": {}})
        with pytest.raises(ExecutionError, match="says what is not to be done"):
            fill(None, Job("gate", "Close it."), gate, "Never close the gate.", {})
        assert fill(None, Job("gate", "Close it."), gate, "Close the gate.", {}).inputs == {}

    def test_what_reads_is_asked_and_a_model_and_a_plan_are_trusted(self):
        api = dataclasses.replace(SMS, effects="reads")
        inputs = {"to": "Bob", "body": "hi"}
        assert fill(None, Job("text", "Text"), api, self.MUST_NOT, {}).inputs == inputs
        model = ScriptedChatModel([said(inputs)])
        assert fill(model, Job("text", "Text"), SMS, self.MUST_NOT, {}).inputs == inputs
        job = Job("text", "Text", inputs=inputs)
        assert fill(None, job, SMS, self.MUST_NOT, {}).inputs == inputs
