"""LangChain: the model is shown the tools that its request needs, out of several hundred.

The model is LangChain's own fake, which says what is written here; a real one is, for example,
`langchain.chat_models.init_chat_model("openai:gpt-5")`. The tools are functions; MCP servers,
OpenAPI documents and agents of a file of sources become tools in just this way.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

from cnp_router import FunctionSource, Sources
from cnp_router.adapters import ToolChoice
from cnp_router.adapters.langchain import RoutedTools, source_tools

WARES = ["tea", "rice", "soap", "salt", "wool", "silk", "paper", "glass", "copper", "cedar"]
TRADES = ["stock", "orders", "suppliers", "complaints", "invoices", "returns", "prices", "samples"]


class Fake(GenericFakeChatModel):
    """Says what it is given, and prints which tools it is shown."""

    def bind_tools(self, tools: Any, **how: Any) -> Self:
        """Take the tools of one call."""
        print("The model sees:", ", ".join(tool.name for tool in tools) or "nothing")
        return self


def weather(city: str) -> str:
    """Say how the weather of a city will be: whether it will rain."""
    return f"Rain in {city} from noon."


def send_sms(to: str, text: str) -> str:
    """Send a text message to a phone."""
    return "sent"


def listing(ware: str, trade: str) -> Callable[[], str]:
    """Return one of the many other tools of the shop."""

    def listed() -> str:
        return f"no {trade} of {ware}"

    listed.__doc__ = f"Lists the {trade} of {ware}."
    return listed


async def main() -> None:
    """Run an agent that wants to send a message, which nobody has approved."""
    shop = {f"{trade}_of_{ware}": listing(ware, trade) for trade in TRADES for ware in WARES}
    town = FunctionSource(
        "town", [weather, send_sms], effects={"weather": "reads", "send_sms": "writes"}
    )
    calls = [
        {"id": "1", "name": "town__weather", "args": {"city": "Kyoto"}},
        {"id": "2", "name": "town__send_sms", "args": {"to": "+81 90", "text": "Rain!"}},
    ]
    answer = "It will rain from noon. I may not send messages."
    model = Fake(messages=iter([AIMessage("", tool_calls=calls), AIMessage(answer)]))
    async with Sources([town, FunctionSource("shop", shop)]) as sources:
        tools = await source_tools(sources)  # approve=... asks you before anything is written
        agent = create_agent(model, middleware=[RoutedTools(ToolChoice(k=4), tools=tools)])
        print(f"The agent has {len(tools)} tools.")
        request = "How will the weather of Kyoto be? Send it as a text message to +81 90."
        done = await agent.ainvoke({"messages": [HumanMessage(request)]})
    for message in done["messages"][2:]:
        print(f"{message.type}: {message.text}")


asyncio.run(main())
