"""Tools that somebody else named and described: one odd one among them ends no run."""

from __future__ import annotations

import asyncio
import logging
import math

import pytest
from fastmcp import Client, FastMCP
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from cnp_router import InputError, Step
from cnp_router.adapters import ToolChoice, tool_api, tool_id
from cnp_router.adapters.conversation import shown_in
from cnp_router.adapters.fastmcp import RoutedSearch
from cnp_router.adapters.langchain import RoutedTools
from cnp_router.adapters.pydantic_ai import RoutedToolset

WEATHER = tool_api("weather", "Says whether it will rain in a city.")
USER = tool_api("user", "Says who is logged in.")
WHO = "Who is logged in?"


def chosen(choice: ToolChoice, request: str, tools):
    return asyncio.run(choice.choose(request, tools))


def user(about: str) -> str:
    """Says who is logged in."""
    return f"ann asked about {about}"


def weather(city: str) -> str:
    """Says whether it will rain in a city."""
    return f"Rain in {city}"


class TestIds:
    @pytest.mark.parametrize(
        "name", ["user", "manager", "a\nb", "a\x00", "\ud800", " a", "a\u2800"]
    )
    def test_a_name_that_can_be_no_id(self, name):
        own = tool_id(name)
        assert own.startswith("tool-")
        assert tool_id(own) == own
        assert tool_api(name, "Says who is logged in.").id == own

    def test_each_has_its_own(self):
        names = ("user", "tool-user", "manager", "a\x00", "a\x01", " a", "a ", "a")
        assert len(set(map(tool_id, names))) == len(names)

    @pytest.mark.parametrize("name", ["", "  ", None, 7])
    def test_no_name(self, name):
        with pytest.raises(InputError, match="non-blank"):
            tool_api(name)


class TestChoice:
    def test_it_is_found_always_shown_and_learned(self):
        tools = (WEATHER, USER)
        assert chosen(ToolChoice(), WHO, tools) == (USER.id,)
        assert chosen(ToolChoice(always=["user"]), " ", tools) == (USER.id,)
        choice = ToolChoice()
        choice.observe("My usual", [Step("user", success=True)], True)
        assert chosen(choice, "My usual", tools) == (USER.id,)

    def test_another_name_in_the_router(self):
        choice = ToolChoice(names={"user": "crm__user"})
        assert choice.observe("My usual", [Step("user")], True).tools == ("crm__user",)
        assert chosen(choice, "My usual", (WEATHER, USER)) == (USER.id,)

    def test_it_was_called_before(self):
        for choice in (ToolChoice(k=1), ToolChoice(k=1, always=["user"])):
            shown = shown_in(choice, "And tomorrow?", (WEATHER, USER), ["", "user"])
            assert asyncio.run(shown) == (USER.id,)


class TestDefinitions:
    @pytest.mark.parametrize(
        ("said", "schema", "kept"),
        [
            ("Rain.", {"p": {"default": math.nan}}, {"p": {"default": None}}),
            ("Rain.", {"p": {"enum": [math.inf, 1]}}, {"p": {"enum": [None, 1]}}),
            ("Rain.", {"p": {"default": 1j}}, {"p": {"default": "1j"}}),
            ("Rain.", {"p": "\ud800"}, {"p": "?"}),
            ("Rain.\ud800", None, None),
        ],
    )
    def test_what_cannot_be_written_is_replaced(self, said, schema, kept, caplog):
        with caplog.at_level(logging.WARNING, "cnp_router"):
            api = tool_api("weather", said, schema)
        assert (api.parameters, api.description[:5]) == (kept, "Rain.")
        assert "'weather' is taken without" in caplog.text
        assert chosen(ToolChoice(), "Rain", (api, USER)) == ("weather",)

    def test_a_schema_that_holds_itself(self):
        schema = {}
        schema["p"] = schema
        assert tool_api("weather", "Rain.", schema).parameters is None

    def test_it_is_said_once(self, caplog):
        choice = ToolChoice()
        schema = {"default": math.nan}
        with caplog.at_level(logging.WARNING, "cnp_router"):
            assert choice.api("a", "A", schema) is choice.api("a", "A", schema)
        assert len(caplog.records) == 1
        assert choice.api("a", "B", schema).description == "B"

    @pytest.mark.parametrize(("said", "schema"), [(7, None), ("", ["x"])])
    def test_another_type(self, said, schema):
        with pytest.raises(InputError):
            tool_api("weather", said, schema)


class TestFrameworks:
    def test_pydantic_ai(self):
        def model(messages, info):
            return ModelResponse(parts=[TextPart(str([tool.name for tool in info.function_tools]))])

        tools = RoutedToolset(FunctionToolset([user, weather]))
        agent = Agent(FunctionModel(model), toolsets=[tools])
        assert asyncio.run(agent.run(WHO)).output == "['user']"
        assert asyncio.run(agent.run("Will it rain?")).output == "['weather']"

    def test_langchain(self):
        tools = [StructuredTool.from_function(each) for each in (user, weather)]
        routed = RoutedTools(tools=tools)
        shown = asyncio.run(routed.chosen([HumanMessage(WHO)], always=["weather"]))
        assert [tool.name for tool in shown] == ["weather", "user"]

    def test_fastmcp(self):
        server = FastMCP("crm")
        for each in (user, weather):
            server.tool(each)
        server.add_transform(RoutedSearch())

        async def run():
            async with Client(server) as client:
                found = await client.call_tool("search_tools", {"query": WHO})
                inputs = {"name": "user", "arguments": {"about": "rain"}}
                return found, await client.call_tool("call_tool", inputs)

        found, called = asyncio.run(run())
        assert '"user"' in str(found.content[0].text)
        assert called.content[0].text == "ann asked about rain"
