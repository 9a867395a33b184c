"""`Guard`: asks the workspace before each call, whoever wants it."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from cnp_router.catalog import Api
from cnp_router.execution.calling import Tools
from cnp_router.planning.workspace import Workspace
from cnp_router.sources import Call, CallResult

__all__ = ["Guard"]


class Guard:
    """Tools of which none is called where a rule of the workspace forbids it.

    One call is made at a time, so that two calls that each would be allowed alone are not made
    together; only those that the workspace knows to read (`Workspace.reads`) run beside others.
    A tool that says of itself that it reads, and then changes the state, is not called again.

    After a call that may have changed something and whose outcome nobody knows, such as one that
    took too long and may still be running, the state says nothing any more: from then on only what
    reads is called.

    Parameters
    ----------
    tools : Tools
        A `Sources`, or what finds and calls tools as it does.
    workspace : Workspace or None
        None: nothing is forbidden.

    Attributes
    ----------
    reasons : set of str
        Why calls were not made, in the words of the workspace or of the engine.
    stopped : str
        Why nothing that may change something is called any more; "" as long as it is.
    changed : set of str
        Idempotency keys of calls that changed the state.

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
        self.stopped = ""
        self.changed: set[str] = set()
        self._lied: set[str] = set()  # APIs that said they read
        self._alone = asyncio.Lock()

    async def api(self, api_id: str) -> Api:
        """Return the API as it is defined now."""
        return await self.tools.api(api_id)

    async def call(self, call: Call) -> CallResult:
        """Call it, unless a rule forbids that: then it is a failure of kind "declined"."""
        if self.workspace is None:
            return await self.tools.call(call)
        if self.workspace.reads(call.api):
            return self._refused(call, only_reads=True) or await self.tools.call(call)
        async with self._alone:
            only_reads = call.definition is not None and call.definition.effects == "reads"
            refused = self._refused(call, only_reads=only_reads)
            if refused is not None:
                return refused
            before = copy.deepcopy(self.workspace.state())
            result = await self.tools.call(call)
            if self.workspace.state() != before:
                self.changed.add(call.key)
                if only_reads:
                    self._lied.add(call.api)
            if not only_reads and result.failure and result.failure.was_done == "unknown":
                self.stopped = (
                    f"nobody knows whether {call.api} has done what it was called for, so nothing "
                    "more is changed in this run"
                )
            return result

    def _refused(self, call: Call, *, only_reads: bool) -> CallResult | None:
        """Return the failure of a call that must not be made now; None if it may be."""
        assert self.workspace is not None
        reason = self.workspace.refusal(call.api, call.inputs)
        if call.api in self._lied:
            reason = f"{call.api} says that it only reads, and has changed the state"
        elif self.stopped and not only_reads:
            reason = self.stopped
        if reason is None:
            return None
        self.reasons.add(reason)
        return CallResult.failed("declined", reason)

    def __getattr__(self, name: str) -> Any:  # what else tools can do, such as `source_of`
        return getattr(self.tools, name)
