"""The executor's task: what it is shown, how its answer is read, what the offline model answers."""

from __future__ import annotations

import asyncio
import json

import pytest
from hostile import HOSTILE, as_sent
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.agents import FillInputs, InputHint, ask, offline_model
from cnp_router.agents.offline_inputs import certain_inputs
from cnp_router.agents.parameters import parameters_of
from cnp_router.agents.said import Said
from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import ChatAnswerError
from cnp_router.llm.schema import misfit
from cnp_router.llm.tokens import estimate_request_tokens, estimate_tokens
from cnp_router.testing import ScriptedChatModel

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def api(properties, required=(), **more):
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    return Api("x__do", "do", "Does it.", parameters=schema)


def certain(request, properties, required=None, *, job="", **fields):
    """Return what is certain, and what is missing."""
    required = properties if required is None else required
    task = FillInputs(request, job, api(properties, required), **fields)
    answer = certain_inputs(task)
    assert misfit(answer, task.schema) is None
    return answer["inputs"], answer["missing"]


class TestPrompt:
    def test_it_shows_what_there_is_and_no_more(self):
        task = FillInputs("Text me.", "", api({"to": TEXT}))
        assert list(json.loads(task.information())) == ["request", "specification"]
        hint = InputHint("to", "who", "result", "/id", 2, 3)
        outline = [{"path": "/id", "type": "string", "size": 3}]
        task = FillInputs(
            "Text me.", "Text.", api({"to": TEXT}), {"body": "hi"}, {"who": outline}, (hint,)
        )
        shown = json.loads(task.information())
        assert shown["job"] == "Text."
        assert shown["given"] == {"body": "hi"}
        assert shown["results"] == {"who": outline}
        assert shown["hints"] == [
            {"input": "to", "from": "result of who", "path": "/id", "count": 2, "of": 3}
        ]

    @pytest.mark.parametrize("text", HOSTILE)
    def test_no_text_ends_the_data(self, text):
        said = as_sent(text)
        bad = Api("x", "x", said, parameters={"type": "object", "properties": {said: TEXT}})
        task = FillInputs(
            text,
            text,
            bad,
            {text: text},
            {text: []},
            (InputHint(text, text, "result", text, 1, 1),),
        )
        shown = json.loads(task.information())
        assert shown["request"] == shown["job"] == shown["specification"]["description"] == said
        assert shown["given"] == {said: said}
        assert (
            task.chat_request().messages[0] == FillInputs("a", "", bad).chat_request().messages[0]
        )

    def test_what_is_the_same_each_time_is_short(self):
        request = FillInputs("a", "", Api("x", "x")).chat_request()
        same = estimate_request_tokens(request) - estimate_tokens(request.messages[1].content)
        assert same <= 330


class TestAnswer:
    def test_names_that_the_api_does_not_take_are_dropped(self):
        closed = api({"to": TEXT}, ["to"], additionalProperties=False)
        answer = {"inputs": {"to": "Bob", "cc": "Eve"}, "missing": ["to", "cc"]}
        read = FillInputs("r", "", closed).read(answer)
        assert (read.inputs, read.missing, read.hallucinated) == ({"to": "Bob"}, (), ("cc",))

    def test_where_the_api_takes_others_they_stay(self):
        for more in ({}, {"additionalProperties": {}}, {"additionalProperties": True}):
            read = FillInputs("r", "", api({}, **more)).read({"inputs": {"cc": 1}, "missing": []})
            assert (read.inputs, read.hallucinated) == ({"cc": 1}, ())
        some = api({}, additionalProperties=False, patternProperties={"^x-": {}})
        assert FillInputs("r", "", some).read({"inputs": {"x-a": 1}, "missing": []}).inputs

    def test_what_is_given_stays_as_it_is(self):
        task = FillInputs("r", "", api({"to": TEXT, "body": TEXT}), {"to": "Bob"})
        read = task.read({"inputs": {"to": "Eve", "body": "hi"}, "missing": ["to", "to", "none"]})
        assert (read.inputs, read.missing, read.hallucinated) == ({"body": "hi"}, (), ())

    @pytest.mark.parametrize(
        "data", [None, {}, {"inputs": []}, {"inputs": {}, "missing": {}}, {"inputs": {}, "x": []}]
    )
    def test_an_answer_of_another_form(self, data):
        with pytest.raises(ChatAnswerError, match="fit the schema"):
            FillInputs("r", "", api({})).read(data)

    def test_a_model_is_asked_by_its_schema(self):
        answer = {"inputs": {"to": {"$from": "who", "path": "/id"}}, "missing": []}
        asked = asyncio.run(
            ask(ScriptedChatModel([answer]), FillInputs("r", "", api({"to": TEXT})))
        )
        assert asked.answer.inputs == answer["inputs"]

    def test_the_offline_model_answers(self):
        task = FillInputs(
            "What time is it in Asia/Tokyo?", "", api({"timezone": TEXT}, ["timezone"])
        )
        model = offline_model(Catalog([task.api]))
        assert asyncio.run(ask(model, task)).answer.inputs == {"timezone": "Asia/Tokyo"}


class TestCertain:
    @pytest.mark.parametrize(
        ("request_", "properties", "inputs"),
        [
            ("Fetch https://a.example/b?c=1.", {"url": TEXT}, {"url": "https://a.example/b?c=1"}),
            (
                "Fetch https://a.example",
                {"where": {**TEXT, "format": "uri"}},
                {"where": "https://a.example"},
            ),
            ("Mail bob@b.example, please.", {"to_email": TEXT}, {"to_email": "bob@b.example"}),
            ("Log of /srv/my-repo.", {"repo_path": TEXT}, {"repo_path": "/srv/my-repo"}),
            ("Read notes/todo.md!", {"path": TEXT}, {"path": "notes/todo.md"}),
            (
                "Read a.txt and b.txt",
                {"paths": {"type": "array", "items": TEXT}},
                {"paths": ["a.txt", "b.txt"]},
            ),
            ("On 2026-11-22", {"day": TEXT}, {"day": "2026-11-22"}),
            (
                "At 2026-11-22T09:30Z",
                {"at": {**TEXT, "format": "date-time"}},
                {"at": "2026-11-22T09:30Z"},
            ),
            ("The newest 5 items", {"max_items": {"type": "integer"}}, {"max_items": 5}),
            ("Add 2.5 litres", {"litres": {"type": "number"}}, {"litres": 2.5}),
            (
                "Keep room no. 4 at 21 degrees",
                {"room": NUMBER, "degrees": NUMBER},
                {"room": 4, "degrees": 21},
            ),
            ("Heat room 4 for 4 hours", {"room": NUMBER, "hours": NUMBER}, {"room": 4, "hours": 4}),
            (" Room 4 ", {"room": NUMBER}, {"room": 4}),
            ("4 rooms, ", {"rooms": NUMBER}, {"rooms": 4}),
            ("From 3 to 5", {"from": NUMBER, "to": NUMBER}, {"from": 3, "to": 5}),
            (
                "In Fahrenheit",
                {"unit": {"enum": ["celsius", "fahrenheit"]}},
                {"unit": "fahrenheit"},
            ),
            ("Anything", {"kind": {"const": "x"}}, {"kind": "x"}),
            ("Anything", {"kind": {"enum": ["y"]}}, {"kind": "y"}),
            ("Anything", {"depth": {"type": "integer", "default": 3}}, {"depth": 3}),
            (
                "limit: 7, city = Nara",
                {"limit": {"type": "integer"}, "city": TEXT},
                {"limit": 7, "city": "Nara"},
            ),
            (
                "city: Nara limit: 7",
                {"limit": {"type": "integer"}, "city": TEXT},
                {"limit": 7, "city": "Nara"},
            ),
            ("Close the dome: two.", {"dome": TEXT}, {"dome": "two"}),
            ("dome: 'two', since it rains", {"dome": TEXT}, {"dome": "two"}),
            ("dome: Friends of the Sky, day: 4", {"dome": TEXT}, {"dome": "Friends of the Sky"}),
            (
                "dome: two and day: Friday",
                {"dome": TEXT, "day": TEXT},
                {"dome": "two", "day": "Friday"},
            ),
            ("note: buy milk and bread", {"note": TEXT}, {"note": "buy milk and bread"}),
            ('max results="9"', {"maxResults": {"type": "integer"}}, {"maxResults": 9}),
            ('Create "Bob"', {"name": TEXT}, {"name": "Bob"}),
            ("What is a monad?", {"query": TEXT}, {"query": "What is a monad?"}),
            ("now", {"zone": {**TEXT, "description": "IANA name"}, "n": {"default": 1}}, {"n": 1}),
        ],
    )
    def test_it_takes_what_is_said(self, request_, properties, inputs):
        assert certain(request_, properties)[0] == inputs

    @pytest.mark.parametrize(
        ("request_", "properties"),
        [
            ("The weather of Kyoto", {"city": TEXT}),
            ("Asia/Nowhere", {"timezone": TEXT}),
            ("On 2026-13-40", {"date": TEXT}),
            ("https://a.example and https://b.example", {"url": TEXT}),
            ("3 of 5", {"n": {"type": "integer"}}),
            ("Close the dome: two because it rains", {"dome": TEXT}),
            ("Close the dome: two now", {"dome": TEXT}),
            ("Open the dome: one and close the dome: two", {"dome": TEXT}),
            ("Open dome: one. Then close dome: two.", {"dome": TEXT}),
            ("Open dome: 'one', then close dome: 'two'.", {"dome": TEXT}),
            ("dome: two was opened by mistake, close it", {"dome": TEXT}),
            ("date: 2026-12-01 and date: 2026-12-02", {"date": TEXT}),
            ("2.5 rooms", {"rooms": {"type": "integer"}}),
            ("Pay the customer of order 4711 his money back", {"amount": NUMBER}),
            ("A quay for a ship of 200 metres", {"quay": NUMBER}),
            ("Rooms 3 and 4", {"room": NUMBER}),
            ("amount: 1.200,50", {"amount": NUMBER}),
            ("amount: 1,200.50", {"amount": NUMBER}),
            ("amount: 20,50", {"amount": NUMBER}),
            ("The amount is 4,2", {"amount": NUMBER}),
            ("3 to 5 days", {"days": NUMBER}),
            ("Room 3, room 4", {"room": NUMBER}),
            ("For 3 room days", {"room_days": NUMBER, "room": NUMBER}),
            ("celsius or fahrenheit", {"unit": {"enum": ["celsius", "fahrenheit"]}}),
            ("yes", {"sure": {"type": "boolean"}}),
            ("a day in it", {"x": {"enum": ["a", "in", "it", "AND"]}}),
            ('"a" and "b"', {"name": TEXT}),
            ("text me", {"message": TEXT, "query": TEXT}),
        ],
    )
    def test_what_is_not_certain_is_missing(self, request_, properties):
        assert certain(request_, properties) == ({}, list(properties))

    def test_a_number_that_counts_is_one_of_what_the_tool_is_of(self):
        def inputs(request):
            task = FillInputs(request, "", Api("x", "delete_entry", parameters=number))
            return task.read(certain_inputs(task)).inputs

        number = {"properties": {"number": NUMBER}, "required": ["number"]}
        assert inputs("Delete entry 5") == inputs("Delete the entry no. 5") == {"number": 5}
        assert inputs("Delete the entry of 2019") == {}

    def test_two_of_a_kind_go_by_the_word_before(self):
        zones = {"source_timezone": TEXT, "target_timezone": TEXT, "time": TEXT}
        filled = {"source_timezone": "Asia/Tokyo", "target_timezone": "UTC", "time": "16:30"}
        assert certain("Convert 16:30 from Asia/Tokyo to UTC", zones) == (filled, [])
        assert certain("What is, to UTC, 16:30 from Asia/Tokyo?", zones) == (filled, [])
        inputs, missing = certain("Convert 16:30, Asia/Tokyo, UTC", zones)
        assert (inputs, missing) == ({"time": "16:30"}, ["source_timezone", "target_timezone"])

    def test_optional_ones_only_where_they_are_meant(self):
        number = {"limit": {"type": "integer"}}
        assert certain("The 5 newest", number, []) == ({}, [])
        assert certain("limit=5", number, []) == ({"limit": 5}, [])
        assert certain("A limit of 5", number, []) == ({}, [])
        assert certain("At the limit 5", number, []) == ({"limit": 5}, [])
        assert certain("x", {"depth": {"default": 3}, "query": TEXT, "kind": {"const": 1}}, []) == (
            {},
            [],
        )
        assert certain("in Asia/Tokyo", {"timezone": TEXT}, []) == ({"timezone": "Asia/Tokyo"}, [])

    def test_the_job_comes_before_the_request(self):
        url = {"url": TEXT}
        both = "Fetch https://a.example, then https://b.example"
        assert certain(both, url, job="Fetch https://b.example")[0] == {"url": "https://b.example"}
        assert certain("r", {"message": TEXT}, job="Say hello.")[0] == {"message": "Say hello."}

    def test_a_key_of_the_same_name_in_one_result(self):
        user = [
            {"path": "", "type": "object", "size": 2},
            {"path": "/user_id", "type": "string", "size": 4},
            {"path": "/count", "type": "integer", "value": 4},
        ]
        known = {"userId": TEXT}
        reference = {"userId": {"$from": "who", "path": "/user_id"}}
        assert certain("x", known, results={"who": user}) == (reference, [])
        assert certain("x", {"count": TEXT}, results={"who": user}) == ({}, ["count"])
        twice = {"who": user, "whom": user}
        assert certain("x", known, results=twice) == ({}, ["userId"])

    def test_an_amount_may_be_the_number_that_is_said(self):
        invoice = [{"path": "/amount", "type": "number", "value": 120.5}]
        reference = {"amount": {"$from": "i", "path": "/amount"}}
        for request, inputs in (("Refund it", reference), ("Refund 20.50 of it", {})):
            found = certain(request, {"amount": NUMBER}, results={"i": invoice})
            assert found == (inputs, [] if inputs else ["amount"])

    def test_hints_that_held_in_half_of_the_calls(self):
        often = InputHint("place", "find", "result", "/#1", 2, 4)
        reference = {"place": {"$from": "find", "path": "/#1"}}
        assert certain("x", {"place": TEXT}, hints=(often,)) == (reference, [])
        for hint in (
            InputHint("place", "find", "result", "/#1", 1, 4),
            InputHint("place", "find", "result", None, 4, 4),
            InputHint("place", "find", "inputs", "id", 4, 4),
        ):
            assert certain("x", {"place": TEXT}, hints=(hint,)) == ({}, ["place"])

    def test_what_carries_words_gets_the_results(self):
        outline = [{"path": "", "type": "string", "size": 9}]
        two = {"mail": outline, "sky": outline}
        carried = {"$text": "{mail#}\n{sky#}"}
        assert certain("x", {"note_text": TEXT}, results=two) == ({"note_text": carried}, [])
        assert certain('Say "hi"', {"text": TEXT}, results=two) == ({"text": "hi"}, [])
        assert certain("x", {"query": TEXT}, results=two) == ({"query": "x"}, [])
        assert certain("x", {"text": TEXT}, results={"a}": outline}) == ({"text": "x"}, [])

    def test_given_ones_are_left_alone(self):
        assert certain("url=b", {"url": TEXT}, given={"url": "a"}) == ({}, [])

    @given(st.text() | st.sampled_from(HOSTILE), st.text() | st.sampled_from(HOSTILE))
    def test_any_text_gets_an_answer_twice_the_same(self, request_, name):
        request_, name = as_sent(request_), as_sent(name)
        properties = {name: TEXT, "n": {"type": "integer"}, "p": {**TEXT, "description": request_}}
        assert certain(request_, properties) == certain(request_, properties)

    @pytest.mark.parametrize(
        "schema",
        [
            {"properties": 3},
            {"properties": {"a": True, "b": False, "c": None}, "required": "a"},
            {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
            {
                "properties": {"a": {"$ref": "#/nowhere"}, "b": {"$ref": 3}},
                "required": ["a", "z", 3],
            },
            {"properties": {"a": {"enum": 3, "type": 4, "anyOf": 5, "items": 6, "format": 7}}},
            {"properties": {"a": {"type": [3, "string"], "description": 9, "format": ["x"]}}},
            {"type": ["object", "null"]},
            {"a": "string", "b": {"type": "integer"}},
            {},
            None,
        ],
    )
    def test_a_schema_that_is_none_does_no_harm(self, schema):
        odd = Api("x", "x", parameters=schema)
        parameters_of(odd)
        answer = certain_inputs(FillInputs("a=1", "", odd))
        assert misfit(answer, FillInputs("a", "", odd).schema) is None


def field(path, kind="string"):
    return {"path": path, "type": kind}


class TestMeaning:
    """What is required and not said is filled by a field that means the same, if it is the one."""

    @pytest.mark.parametrize(
        ("parameter", "schema", "path", "kind"),
        [
            ("latitude", {"type": "number"}, "/lat", "number"),
            ("place_id", TEXT, "/place/id", "string"),
            ("trackingNumber", TEXT, "/tracking_number", "string"),
            ("to_timezone", TEXT, "/tz", "string"),
            ("recipient", {"type": "string", "format": "email"}, "/mail", "string"),
            ("order_id", TEXT, "/id", "string"),
        ],
    )
    def test_one_field_that_means_it(self, parameter, schema, path, kind):
        results = {"a": [field(path, kind), field("/colour")]}
        inputs, missing = certain("Do it.", {parameter: schema}, results=results)
        assert inputs == {parameter: {"$from": "a", "path": path}}
        assert missing == []

    def test_of_two_none_is_certain(self):
        results = {"a": [field("/lat", "number")], "b": [field("/lat", "number")]}
        assert certain("Do it.", {"latitude": {"type": "number"}}, results=results) == (
            {},
            ["latitude"],
        )
        both = {"cc": {"type": "string", "format": "email"}, "bcc": {"format": "email"}}
        inputs, _ = certain("Do it.", both, results={"a": [field("/mail")]})
        assert inputs == {}

    def test_another_type_or_what_is_optional_is_not_filled(self):
        results = {"a": [field("/lat")]}
        assert certain("Do it.", {"latitude": {"type": "number"}}, results=results)[0] == {}
        results = {"a": [field("/lat", "number")]}
        assert certain("Do it.", {"latitude": {"type": "number"}}, (), results=results)[0] == {}

    def test_context_comes_after_what_is_said_and_the_most_similar_first(self):
        context = {"c1": [field("/city")], "c2": [field("/city"), field("/hotel_id")]}
        two = {"city": TEXT, "hotel_id": TEXT}
        inputs, _ = certain("Do it.", two, context=context)
        assert inputs == {
            "city": {"$from": "c1", "path": "/city"},
            "hotel_id": {"$from": "c2", "path": "/hotel_id"},
        }
        said, _ = certain('Find "Nara".', {"city": TEXT}, context=context)
        assert said == {"city": "Nara"}
        waited, _ = certain(
            "Do it.", {"city": TEXT}, context=context, results={"a": [field("/city")]}
        )
        assert waited == {"city": {"$from": "a", "path": "/city"}}

    def test_context_is_no_part_of_what_is_sent(self):
        context = {"c1": [field("/secret")]}
        inputs, _ = certain("Send it.", {"body": TEXT}, job="Tell her.", context=context)
        assert inputs == {"body": "Tell her."}

    def test_words_in_quotes_are_no_address(self):
        address = {"to": {"type": "string", "format": "email"}}
        assert certain('Send "Hello".', address) == ({}, ["to"])

    def test_a_number_may_end_a_sentence(self):
        inputs, _ = certain("Look at longitude: -12.7.", {"longitude": {"type": "number"}})
        assert inputs == {"longitude": -12.7}


def test_long_texts_take_no_time():
    for text in ("a" * 100_000, "a@" * 50_000, "/a" * 50_000, '"' * 99_999, "A/" * 50_000):
        said = Said(text)
        assert len(said.beside("a")) < 10_000
