"""`SubAgents`: agents as a source of tools."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace

from cnp_router.catalog import Api
from cnp_router.exceptions import UnknownApiError
from cnp_router.records import instances, positions
from cnp_router.sources import Call, CallResult, Source
from cnp_router.sources.source import SEPARATOR, check_source_name
from cnp_router.subagents.sub_agent import SubAgent

__all__ = ["SubAgents"]


class SubAgents(Source):
    """Agents as tools, any number: each is called by a text and its own arguments.

    Parameters
    ----------
    name : str
        As that of a `Source`.
    agents : iterable of SubAgent
        With distinct names.

    Raises
    ------
    InputError
        If two agents have the same name.

    Examples
    --------
    >>> import asyncio
    >>> async def look(question):
    ...     return f"You asked: {question.text}"
    >>> agents = SubAgents("agents", [SubAgent("weather", "Says what the weather is.", look)])
    >>> (api,) = asyncio.run(agents.apis())
    >>> api.id, api.parameters["required"]
    ('agents__weather', ['text'])
    >>> asyncio.run(agents.call(Call(api="agents__weather", inputs={"text": "Rain?"}))).text
    'You asked: Rain?'
    """

    tool_type = "function"
    max_concurrency = 64  # an agent waits most of the time, perhaps for another one

    def __init__(self, name: str, agents: Iterable[SubAgent]) -> None:
        self.name = check_source_name(name)
        self.agents = instances("agents", agents, SubAgent)
        positions("agent", (agent.name for agent in self.agents))
        self._agents = {f"{self.name}{SEPARATOR}{agent.name}": agent for agent in self.agents}

    async def apis(self) -> tuple[Api, ...]:
        """Return the agents."""
        return tuple(replace(agent.api, id=name) for name, agent in self._agents.items())

    async def call(self, call: Call) -> CallResult:
        """Ask an agent, in the time of the call and its own."""
        agent = self._agents.get(call.api)
        if agent is None:
            raise UnknownApiError(call.api, close=difflib.get_close_matches(call.api, self._agents))
        timed = replace(call, timeout=min(call.timeout, agent.timeout))
        return (await agent.perform(timed)).result
