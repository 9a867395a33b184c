"""An agent of openai-agents with many tools, whose model sees the few that the request needs.

Its model is the scripted one of openai-agents, which says what it is told to: what is shown to it
is what any model would be shown.
"""

import asyncio
from typing import Any

from agents import FunctionTool, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext

from cnp_router import Call, fit_router, load_sample
from cnp_router.adapters import ToolChoice
from cnp_router.adapters.openai_agents import FunctionTools, RoutedAgent, sub_agent

REQUEST = "Text me when it will rain in my town tomorrow."

set_tracing_disabled(True)  # nothing leaves this machine
sample = load_sample()
SCHEMA = {"type": "object", "properties": {"about": {"type": "string"}}, "required": ["about"]}


async def called(context: ToolContext[Any], arguments: str) -> str:
    """Stand in for any tool."""
    return f"{context.tool_name} was called with {arguments}"


tools = [FunctionTool(a.id, f"{a.name}: {a.description}", SCHEMA, called) for a in sample.catalog]
script = [
    [function_call("openweather", {"about": "rain tomorrow"}, call_id="1")],
    [function_call("twilio", {"about": "rain at nine"}, call_id="2")],
    [assistant_message("You will get a text: rain at nine.")],
]
model = ScriptedModel(script)
choice = ToolChoice(fit_router(sample.catalog, sample.history), k=5)
agent = RoutedAgent("assistant", tools=[*tools], model=model, choice=choice)


async def main() -> None:
    """Ask the agent, teach the router, and use tools and agent as contractors."""
    result = await Runner.run(agent, REQUEST)
    shown = [tool.name for tool in model.calls[0].tools]
    print(f"the model saw {len(shown)} of {len(tools)} tools: {', '.join(shown)}")
    print("what came back:", model.calls[1].input[-1]["output"])
    print("answer:", result.final_output)

    learned = await agent.observe(result, success=True)
    print("learned that it was served by:", ", ".join(learned.tools))

    source = FunctionTools("tools", tools)  # the other way round: contractors
    done = await source.call(Call(api="tools__twilio", inputs={"about": "hello"}))
    print("called as a contractor:", done.text)
    model.enqueue([assistant_message("No rain.")])
    reply = await sub_agent(agent, "Knows the weather.").ask("Will it rain in Oslo?")
    print(f"asked as a contractor: {reply.result.text} ({reply.turns} turn)")


asyncio.run(main())
