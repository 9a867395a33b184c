"""`Guard`: asks the workspace before each call, whoever wants it."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

from cnp_router.catalog import Api
from cnp_router.execution.calling import Tools
from cnp_router.planning.workspace import Workspace
from cnp_router.sources import Call, CallResult

__all__ = ["Guard"]


class Guard:
    """Tools of which none is called where a rule of the workspace forbids it.

    What does not only read is called one at a time, so that two calls that each would be allowed
    alone are not made together.

    Parameters
    ----------
    tools : Tools
        A `Sources`, or what finds and calls tools as it does.
    workspace : Workspace or None
        None: nothing is forbidden.

    Attributes
    ----------
    reasons : set of str
        Why calls were not made, in the words of the workspace.

    Examples
    --------
    >>> class Closed(Workspace):
    ...     def state(self): return {}
    ...     def unmet(self): return ()
    ...     def refusal(self, api, inputs): return "the shop is closed"
    >>> from cnp_router.testing import ScriptedSource
    >>> guard = Guard(ScriptedSource("shop", {"buy": []}), Closed())
    >>> asyncio.run(guard.call(Call(api="shop__buy")))
    CallResult(declined: 'the shop is closed')
    """

    def __init__(self, tools: Tools, workspace: Workspace | None) -> None:
        self.tools = tools
        self.workspace = workspace
        self.reasons: set[str] = set()
        self._alone = asyncio.Lock()

    async def api(self, api_id: str) -> Api:
        """Return the API as it is defined now."""
        return await self.tools.api(api_id)

    async def call(self, call: Call) -> CallResult:
        """Call it, unless a rule forbids that: then it is a failure of kind "declined"."""
        if self.workspace is None:
            return await self.tools.call(call)
        reads = call.definition is not None and call.definition.effects == "reads"
        async with nullcontext() if reads else self._alone:
            reason = self.workspace.refusal(call.api, call.inputs)
            if reason is not None:
                self.reasons.add(reason)
                return CallResult.failed("declined", reason)
            return await self.tools.call(call)

    def __getattr__(self, name: str) -> Any:  # what else tools can do, such as `source_of`
        return getattr(self.tools, name)
