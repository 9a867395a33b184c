"""Frameworks of agents, one module each: their agents get the tools that a request needs.

And the other way round: their tools and agents become contractors. A module imports its framework,
so import the one of the framework that you have::

    from cnp_router.adapters.openai_agents import RoutedAgent

`ToolChoice` is what they share.
"""

from cnp_router.adapters.tool_choice import ToolChoice
from cnp_router.adapters.tool_definitions import tool_api, tool_id

__all__ = ["ToolChoice", "tool_api", "tool_id"]
