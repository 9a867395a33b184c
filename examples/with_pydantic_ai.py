"""An agent of pydantic-ai with many tools, whose model sees the few that the request needs.

Its model is the function model of pydantic-ai, here a script: what is shown to it is what any
model would be shown.
"""

import asyncio

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from cnp_router import Api, Call, fit_router, load_sample
from cnp_router.adapters import ToolChoice
from cnp_router.adapters.pydantic_ai import RoutedToolset, ToolsetSource, observe, tool_search

REQUEST = "Text me when it will rain in my town tomorrow."

sample = load_sample()
SCHEMA = {"type": "object", "properties": {"about": {"type": "string"}}, "required": ["about"]}


def tool_of(api: Api) -> Tool[None]:
    """Return a tool that stands in for an API."""

    def called(about: str) -> str:
        return f"{api.name} was called about {about}"

    return Tool.from_schema(called, api.id, f"{api.name}: {api.description}", SCHEMA)


def scripted(*parts: ModelResponsePart) -> tuple[FunctionModel, list[list[str]]]:
    """Return a model that says these, one a turn, and a list of what it saw."""
    script = iter(parts)
    shown: list[list[str]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        shown.append([tool.name for tool in info.function_tools])
        return ModelResponse(parts=[next(script)])

    return FunctionModel(answer), shown


tools = FunctionToolset([tool_of(api) for api in sample.catalog])
choice = ToolChoice(fit_router(sample.catalog, sample.history), k=5)


async def main() -> None:
    """Ask the agent, teach the router, search, and use a tool as a contractor."""
    model, shown = scripted(
        ToolCallPart("openweather", {"about": "rain tomorrow"}),
        ToolCallPart("twilio", {"about": "rain at nine"}),
        TextPart("You will get a text: rain at nine."),
    )
    agent = Agent(model, toolsets=[RoutedToolset(tools, choice)])
    result = await agent.run(REQUEST)
    print(f"the model saw {len(shown[0])} of {len(tools.tools)} tools: {', '.join(shown[0])}")
    print("answer:", result.output)
    learned = await observe(choice, result, success=True)
    print("learned that it was served by:", ", ".join(learned.tools))

    # Or the model searches: the router is the strategy of its tool search.
    search = ToolCallPart("search_tools", {"queries": ["show places on a map"]})
    model, shown = scripted(search, TextPart("Found."))
    hidden = tools.defer_loading()
    await Agent(model, toolsets=[hidden], capabilities=[tool_search(choice)]).run("Find a bar.")
    print("seen before a search:", *shown[0], "- and after it:", *shown[1])

    source = ToolsetSource("tools", tools)  # the other way round: contractors
    done = await source.call(Call(api="tools__twilio", inputs={"about": "hello"}))
    print("called as a contractor:", done.text)


asyncio.run(main())
