"""What a model is shown in a conversation: what its request needs, and what was called before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cnp_router.adapters.tool_choice import ToolChoice
from cnp_router.adapters.tool_definitions import tool_id
from cnp_router.catalog import Api

__all__ = ["MOST_OBSERVED", "shown_in"]

MOST_OBSERVED = 4_000
"""Characters of a result that are kept of a call."""


async def shown_in(
    choice: ToolChoice,
    request: str,
    tools: Sequence[Api],
    called: Iterable[str],
    *,
    always: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return the names of the tools to show: at most ``choice.k``.

    A model repeats the calls that it reads, and the frameworks do not run a call of a tool that it
    was not shown. Besides those that are always shown, half of the places are for tools called
    before, the rest is for what the request needs; whoever needs fewer leaves them to the other.

    Parameters
    ----------
    choice : ToolChoice
    request, tools, always
        As of `ToolChoice.choose`.
    called : iterable of str
        Names of what was called before, newest first. Those that are not there any more are left
        out.

    Raises
    ------
    InputError
        As `ToolChoice.choose`.

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.adapters import tool_api
    >>> tools = [tool_api("weather", "Says whether it will rain in a city."),
    ...          tool_api("send_sms", "Sends a text message to a phone.")]
    >>> asyncio.run(shown_in(ToolChoice(), "And tomorrow?", tools, ["weather"]))
    ('weather',)
    """
    always = tuple(always)
    names = await choice.choose(request, tools, always=always)
    there = {tool.id for tool in tools}
    fixed = {tool_id(name) for name in (*choice.always, *always)} & {*names}
    named = (tool_id(name) for name in called if name.strip())  # a model may write anything
    before = [name for name in dict.fromkeys(named) if name in there and name not in fixed]
    recent = before[: (choice.k - len(fixed)) // 2]
    by_rank = dict.fromkeys((*fixed, *recent, *names, *before))
    shown = set(list(by_rank)[: choice.k])
    return tuple(name for name in dict.fromkeys((*names, *before)) if name in shown)
