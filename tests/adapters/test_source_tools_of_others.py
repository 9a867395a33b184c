"""Tools of sources for agents of openai-agents and pydantic-ai."""

from __future__ import annotations

import asyncio

import pytest
from agents import Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from cnp_router import FunctionSource, Sources
from cnp_router.adapters import openai_agents, pydantic_ai
from cnp_router.execution.approval import allow_writes

RAIN = "Will it rain in Nara?"
SMS = "Send a text message to a phone"


def weather(city: str) -> str:
    """Says whether it will rain in a city."""
    return f"Rain in {city}."


def send_sms(ctx: str, self: str = "") -> str:
    """Sends a text message to a phone."""
    return f"sent to {ctx}{self}"


def town():
    effects = {"weather": "reads", "send_sms": "writes"}
    return Sources([FunctionSource("town", [weather, send_sms], effects=effects)])


async def by_openai_agents(request, tool, inputs, approve=None):
    """Return what the model saw, and what it was told of its call."""
    set_tracing_disabled(True)
    call = function_call(tool, inputs, call_id="c1")
    model = ScriptedModel([[call], [assistant_message("Done.")]])
    async with town() as sources:
        tools = await openai_agents.source_tools(sources, approve=approve)
        agent = openai_agents.RoutedAgent("helper", tools=tools, model=model)
        result = await Runner.run(agent, request)
    return [tool.name for tool in model.last_call.tools], result.to_input_list()[-2]["output"]


async def by_pydantic_ai(request, tool, inputs, approve=None):
    """Return what the model saw, and what it was told of its call."""
    shown = []

    def model(messages, info):
        shown[:] = [tool.name for tool in info.function_tools]
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart(tool, inputs)])
        return ModelResponse(parts=[TextPart("Done.")])

    async with town() as sources:
        tools = pydantic_ai.SourceToolset(sources, approve=approve)
        capabilities = [pydantic_ai.RoutedTools()]
        agent = Agent(FunctionModel(model), toolsets=[tools], capabilities=capabilities)
        result = await agent.run(request)
    return shown, result.all_messages()[-2].parts[0].model_response_str()


@pytest.mark.parametrize("framework", [by_openai_agents, by_pydantic_ai])
class TestTools:
    def test_what_reads_runs(self, framework):
        shown, said = asyncio.run(framework(RAIN, "town__weather", {"city": "Nara"}))
        assert shown == ["town__weather"]
        assert said == "Rain in Nara."

    def test_what_writes_needs_approval(self, framework):
        inputs = {"ctx": "+81", "self": " 90"}
        shown, said = asyncio.run(framework(SMS, "town__send_sms", inputs))
        assert shown == ["town__send_sms"]
        assert "declined: nobody was there to approve it" in said
        _, said = asyncio.run(framework(SMS, "town__send_sms", inputs, allow_writes))
        assert said == "sent to +81 90"

    def test_inputs_that_do_not_fit_are_told(self, framework):
        _, said = asyncio.run(framework(RAIN, "town__weather", {"town": "Nara"}))
        assert "inputs: 'town' is not a parameter (it takes 'city')" in said
