"""`SourceTools`: what sources have, as tools of an agent that decides by itself what it calls."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import re
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from cnp_router.catalog import Api
from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.execution.approval import Approval, Approve, asked
from cnp_router.records import check_instance, check_number, positions
from cnp_router.sources import Call, CallResult, Sources

__all__ = ["SourceTools", "said_of", "schema_of_inputs"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what the servers of models take
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64


class SourceTools:
    """What sources have, as tools of an agent: what does not only read is called with approval.

    MCP servers, OpenAPI documents, A2A agents and functions of a file of sources so become tools
    of any framework.

    Parameters
    ----------
    sources : Sources
        Stays the caller's, who closes it. It serves one event loop.
    approve : callable, optional
        Answers each `Approval`, one at a time; its ``job`` is the name of the tool. Without it
        only what reads is called, and a call of anything else is a failure of kind ``"declined"``.
    timeout : float > 0, seconds, default=30.0
        For one call.

    Examples
    --------
    >>> from cnp_router.testing import ScriptedSource
    >>> async def main():
    ...     weather = ScriptedSource("weather", {"today": ["sunny"], "order": []})
    ...     effects = {"weather__order": "writes"}
    ...     async with Sources([weather], overrides=effects) as sources:
    ...         tools = SourceTools(sources)
    ...         named = await tools.named()
    ...         return [await tools.call(api, {}) for api in named.values()]
    >>> done, refused = asyncio.run(main())
    >>> done.text, refused.failure.kind
    ('sunny', 'declined')
    """

    def __init__(
        self, sources: Sources, *, approve: Approve | None = None, timeout: float = 30.0
    ) -> None:
        self.sources = check_instance("sources", sources, Sources)
        self.timeout = check_number("timeout in seconds", timeout, 0, 10**6, ends=False)
        self._approve = approve
        self._asking = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def named(self) -> dict[str, Api]:
        """Return all tools, by a name that the servers of models take.

        That is the id, or where the id is longer than 64 characters or has others than letters,
        digits, ``_`` and ``-`` in it, the id without them and 8 characters of its SHA-256.

        Raises
        ------
        CnpRouterError
            If all sources fail. One that fails beside others is named in the log.
        """
        self._loop = asyncio.get_running_loop()
        apis = list(await self.sources.catalog())
        names = [_name(api.id) for api in apis]
        positions("tool", names)
        return dict(zip(names, apis, strict=True))

    async def call(self, api: Api, inputs: Mapping[str, Any], *, key: str = "") -> CallResult:
        """Call a tool as it was when it was listed. What goes wrong is a `CallResult.failure`.

        Frameworks run agents in event loops of their own: the call goes to the one of `named`.

        Parameters
        ----------
        api : Api
            One of `named`.
        inputs : mapping of str to JSON value
        key : str, default=""
            Idempotency key, such as the id of the model's tool call.

        Raises
        ------
        InputError
            If `approve` returns neither True nor False, or that event loop is over.
        """
        if asyncio.get_running_loop() is self._loop:
            return await self._call(api, inputs, key)
        return await asyncio.wrap_future(self._elsewhere(api, inputs, key))

    def call_sync(self, api: Api, inputs: Mapping[str, Any], *, key: str = "") -> CallResult:
        """As `call`, from a thread while the event loop of `named` runs in another.

        Raises
        ------
        InputError
            As `call`; or if this thread is that of the event loop, which would wait for itself.
        """
        try:
            is_own = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_own = False
        if is_own:
            raise InputError(
                f"{api.id!r} was called synchronously in the event loop that it needs "
                "(run the agent asynchronously, or in a thread)"
            )
        return self._elsewhere(api, inputs, key).result()

    def _elsewhere(self, api: Api, inputs: Mapping[str, Any], key: str) -> Future[CallResult]:
        if self._loop is None or not self._loop.is_running():
            raise InputError(
                f"the event loop that the sources of {api.id!r} are used in does not run "
                "(make the tools and run the agent in one asyncio.run)"
            )
        return asyncio.run_coroutine_threadsafe(self._call(api, inputs, key), self._loop)

    async def _call(self, api: Api, inputs: Mapping[str, Any], key: str) -> CallResult:
        try:
            call = Call(api=api.id, inputs=inputs, timeout=self.timeout, key=key, definition=api)
        except InputError as exc:
            return CallResult.failed("inputs", str(exc))
        if api.effects != "reads":
            approval = Approval(_name(api.id), api, copy.deepcopy(dict(inputs)), api.effects)
            async with self._asking:
                may = await asked(self._approve, approval)
            if not may:
                said = f"not approved: {approval.reason}"
                if self._approve is None:
                    said = f"nobody was there to approve it: {approval.reason} (give approve=)"
                return CallResult.failed("declined", said)
        try:
            return await self.sources.call(call)
        except UnknownApiError as exc:
            return CallResult.failed("changed", str(exc))

    def __repr__(self) -> str:
        return f"SourceTools({self.sources!r})"


def said_of(result: CallResult) -> str:
    """Return what a model is shown of a result: data, or why there is none.

    Examples
    --------
    >>> said_of(CallResult("", {"rain": True}))
    '{"rain": true}'
    >>> said_of(CallResult.failed("timeout", "no answer in 30 s"))
    'timeout: no answer in 30 s (nobody knows whether it was done)'
    """
    parts = [result.text]
    if not result.text and result.structured is not None:
        parts = [json.dumps(result.structured, ensure_ascii=False)]
    parts += [repr(each) for each in result.attachments]
    if result.is_cut:
        parts.append(f"(cut: it had {result.n_bytes:,} bytes)")
    failure = result.failure
    if failure is not None:
        unsure = " (nobody knows whether it was done)" if failure.was_done == "unknown" else ""
        kind = "" if failure.message.startswith(f"{failure.kind}:") else f"{failure.kind}: "
        said = f"{kind}{failure.message}{unsure}"
        parts = [said, *(part for part in parts if part not in failure.message)]
    return "\n".join(part for part in parts if part)


def schema_of_inputs(api: Api) -> dict[str, Any]:
    """Return the JSON Schema that a model is shown: that of an object, in any case.

    Examples
    --------
    >>> schema_of_inputs(Api("now", "now"))
    {'type': 'object', 'properties': {}}
    """
    return {"type": "object", "properties": {}, **(api.parameters or {})}


def _name(api_id: str) -> str:
    if _NAME.fullmatch(api_id):
        return api_id
    mark = hashlib.sha256(api_id.encode()).hexdigest()[:8]
    return f"{_OTHER.sub('_', api_id)[: _LONGEST - 9]}_{mark}"
