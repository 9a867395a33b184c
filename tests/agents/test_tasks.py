"""Each task's schema and how its answers are read: whatever a model says, it comes out clean."""

from __future__ import annotations

import asyncio
import json

import pytest

from cnp_router.agents import (
    ComposeAlone,
    Decompose,
    InterpretRequest,
    MapCategories,
    MatchFunction,
    ProposedApi,
    SelectApis,
    ServeFunction,
    ask,
)
from cnp_router.catalog import Api
from cnp_router.exceptions import ChatAnswerError
from cnp_router.llm import ChatModel, ChatResponse, Usage
from cnp_router.llm.schema import is_strict, misfit
from cnp_router.llm.tokens import estimate_request_tokens, estimate_tokens
from cnp_router.testing import ScriptedChatModel

MAPS = Api("maps", "Maps", "Shows places.", ("Mapping",))
SMS = Api("sms", "SMS", "Sends texts.", ("Messaging",))
PROPOSED = {"apis": ["maps"], "grounds": ["It shows places."]}

EXAMPLES = [
    (Decompose("a map"), {"functions": ["show a map"]}),
    (
        MapCategories("a map", ("show a map",), ("Mapping",)),
        {"mappings": [{"function": 0, "categories": ["Mapping"]}]},
    ),
    (MatchFunction((MAPS,), "show a map", "Mapping"), PROPOSED),
    (
        InterpretRequest((MAPS,), "a map"),
        {"functions": ["f"], "categories": ["Mapping"], **PROPOSED},
    ),
    (
        ServeFunction((MAPS,), "show a map"),
        {"categories": ["Mapping"], "apis": [], "grounds": ["It is not a map."]},
    ),
    (SelectApis("a map", (), (ProposedApi("maps", "g"),)), {"apis": ["maps"]}),
    (
        ComposeAlone("a map", (MAPS,)),
        {"functions": ["f"], "categories": ["Mapping"], "candidates": ["maps"], "apis": ["maps"]},
    ),
]
IDS = [type(task).__name__ for task, _ in EXAMPLES]


@pytest.mark.parametrize(("task", "answer"), EXAMPLES, ids=IDS)
class TestSchema:
    def test_it_takes_the_example_and_is_strict(self, task, answer):
        assert misfit(answer, task.schema) is None
        assert is_strict(task.schema)
        assert json.loads(json.dumps(task.schema)) == task.schema

    def test_it_takes_nothing_less_and_nothing_more(self, task, answer):
        for name in answer:
            assert misfit({k: v for k, v in answer.items() if k != name}, task.schema)
            assert misfit({**answer, name: 3}, task.schema)
        assert misfit({**answer, "more": 1}, task.schema)

    def test_the_model_is_asked_by_it(self, task, answer):
        model = ScriptedChatModel([answer])
        asked = asyncio.run(ask(model, task))
        assert asked.answer == task.read(answer)
        assert model.calls[0].schema == task.schema
        assert model.calls[0].task is task
        assert asked.response.usage.tokens_in > 0


class TestRead:
    def test_functions_are_distinct_and_not_blank(self):
        read = Decompose("a map").read
        assert read({"functions": [" f ", "f", "", "\n", "g"]}).functions == ("f", "g")
        assert read({"functions": [" ", ""]}).functions == ("a map",)
        assert read({"functions": []}).functions == ("a map",)

    def test_categories_of_functions_that_are_not_there(self):
        task = MapCategories("r", ("f", "g"), ("Mapping", "Music"))
        mappings = [
            (1, ["Music", "Mapping", "Music", "music", ""]),
            (-1, ["Mapping"]),
            (2, ["Mapping"]),
            (10**30, ["Mapping"]),
            (1.0, ["Mapping", "Made up"]),
        ]
        data = {"mappings": [{"function": f, "categories": names} for f, names in mappings]}
        assert misfit(data, task.schema) is None
        answer = task.read(data)
        assert answer.categories == ((), ("Music", "Mapping"))
        assert answer.all_categories == ("Music", "Mapping")
        assert answer.hallucinated == ("music", "", "Made up")
        assert task.read({"mappings": []}).categories == ((), ())

    @pytest.mark.parametrize("kind", [MatchFunction, InterpretRequest, ServeFunction])
    def test_a_bid_names_own_apis_only_once_each(self, kind):
        task = kind((MAPS, SMS), *(("f", None) if kind is MatchFunction else ("f",)))
        said = [
            ("sms", "first"),
            ("evil", "!"),
            ("sms", "again"),
            ("SMS", ""),
            ("", ""),
            ("maps", ""),
        ]
        data = {"apis": [i for i, _ in said], "grounds": [g for _, g in said]}
        data |= {"functions": ["f", "f"], "categories": ["Mapping", "Mapping"]}
        answer = task.read({name: data[name] for name in task.schema["properties"]})
        assert answer.apis == (ProposedApi("sms", "first"), ProposedApi("maps", ""))
        assert answer.hallucinated == ("evil", "SMS", "")
        assert answer.categories == (() if kind is MatchFunction else ("Mapping",))

    def test_grounds_go_by_place_and_may_be_missing(self):
        read = MatchFunction((MAPS, SMS), "f", None).read
        answer = read({"apis": ["sms", "maps"], "grounds": ["It texts."]})
        assert answer.apis == (ProposedApi("sms", "It texts."), ProposedApi("maps", ""))
        assert answer.grounds == ""
        answer = read({"apis": ["maps"], "grounds": ["It maps.", "It texts."]})
        assert answer.apis == (ProposedApi("maps", "It maps."),)
        assert read({"apis": [], "grounds": []}).grounds == ""

    def test_a_bid_without_apis_is_a_refusal(self):
        answer = MatchFunction((MAPS,), "f", "Mapping").read({"apis": [], "grounds": ["No."]})
        assert (answer.apis, answer.grounds, answer.hallucinated) == ((), "No.", ())

    def test_a_selection_is_of_what_was_proposed_and_is_not_awarded(self):
        task = SelectApis("r", (), (ProposedApi("maps"), ProposedApi("sms")), (ProposedApi("sms"),))
        answer = task.read({"apis": ["maps", "sms", "maps", "evil", " maps"]})
        assert answer.apis == ("maps",)
        assert answer.hallucinated == ("evil", " maps")

    def test_a_composition_is_of_what_was_specified(self):
        task = ComposeAlone("r", (MAPS, SMS))
        answer = task.read(
            {
                "functions": [],
                "categories": ["Mapping", "Nowhere", "Mapping"],
                "candidates": ["maps", "x", "maps"],
                "apis": ["sms", "x", "y"],
            }
        )
        assert (answer.categories, answer.candidates, answer.apis) == (
            ("Mapping",),
            ("maps",),
            (),  # it chose what was not among its candidates
        )
        assert answer.hallucinated == ("Nowhere", "x", "sms", "y")


class Answering(ChatModel):
    """Gives data that it has not checked."""

    name = "careless"

    def __init__(self, data):
        self.data = data

    async def complete(self, request):
        return ChatResponse("", self.data, Usage(5, 2, "server"), "careless", 0.1, calls=2)


@pytest.mark.parametrize("data", [None, {}, {"functions": "all"}, {"functions": [], "more": 1}])
def test_an_answer_off_the_schema_is_an_error_that_says_what_was_paid(data):
    with pytest.raises(ChatAnswerError, match=r"model 'careless': .*fit the schema") as caught:
        asyncio.run(ask(Answering(data), Decompose("a map")))
    assert (caught.value.usage, caught.value.calls) == (Usage(5, 2, "server"), 2)


def test_the_steps_are_those_of_the_protocols():
    steps = {type(task).__name__: (task.role, task.steps) for task, _ in EXAMPLES}
    assert steps == {
        "Decompose": ("manager", (1,)),
        "MapCategories": ("manager", (2,)),
        "MatchFunction": ("contractor", (3,)),
        "InterpretRequest": ("contractor", (1, 2, 3)),
        "ServeFunction": ("contractor", (2, 3, 4)),
        "SelectApis": ("manager", (4,)),
        "ComposeAlone": ("single-agent", (1, 2, 3, 4)),
    }


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("Decompose", 150),
        ("MapCategories", 200),
        ("MatchFunction", 165),
        ("InterpretRequest", 212),
        ("ServeFunction", 195),
        ("SelectApis", 170),
        ("ComposeAlone", 210),
    ],
)
def test_what_is_the_same_in_each_prompt_is_short(name, most):
    """A broadcast sends it to each contractor."""
    [request] = [task.chat_request() for task, _ in EXAMPLES if type(task).__name__ == name]
    information = request.messages[1].content
    assert estimate_request_tokens(request) - estimate_tokens(information) <= most
