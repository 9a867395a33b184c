"""`Caller`: calls an API for a job: approval, journal, attempts, and what is to follow."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from cnp_router.catalog import Api
from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.execution.approval import Approval, Approve, asked, declined
from cnp_router.execution.execution_settings import ExecutionSettings
from cnp_router.execution.journal import Journal, call_key
from cnp_router.records import check_json, one_line
from cnp_router.sources.source import Call, CallFailure, CallProgress, CallResult

__all__ = ["Caller", "Performed", "Tools", "act_key"]

Then = Literal["done", "reaward", "escalate", "stop"]

_EARLIER = "the same call had succeeded before, and was not made again"
_SHORTEST = 0.1  # seconds: what an attempt has, where the waits took all time
_RETRY_AFTER = re.compile(r"retry-after:\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)", re.IGNORECASE)


class Tools(Protocol):
    """Whatever finds and calls tools, such as `Sources`."""

    async def api(self, api_id: str) -> Api:
        """Return the API as it is defined now."""

    async def call(self, call: Call) -> CallResult:
        """Call it."""


@dataclass(frozen=True, slots=True, repr=False)
class Performed:
    """What came of an API's work for a job.

    Parameters
    ----------
    result : CallResult
        Of the last attempt.
    attempts : int
        How often it was called.
    seconds : float
        From sending to the answer, of all attempts: with the start of a source and the wait for a
        free place there, without the waits between attempts.
    n_bytes : int
        Of all answers.
    then : {"done", "reaward", "escalate", "stop"}
        What is to follow: nothing; award the job to another; ask who has the right to it; give the
        job up, since nobody approved, or since nobody knows whether it was done.
    is_earlier : bool, default=False
        Whether the same call had succeeded before, for another job, and was not made again.
    """

    result: CallResult
    attempts: int
    seconds: float
    n_bytes: int
    then: Then
    is_earlier: bool = False

    __repr__ = one_line


def act_key(execution: str, job: str, api: Api, inputs: Mapping[str, Any]) -> str:
    """Return an idempotency key: the same for each attempt at one act, also after a resumption.

    Examples
    --------
    >>> sms = Api("sms__send", "send")
    >>> key = act_key("e1", "text", sms, {"to": "+81", "parts": 1})
    >>> key == act_key("e1", "text", sms, {"parts": 1.0, "to": "+81"}), len(key)
    (True, 32)
    """
    act = json.dumps([execution, job, call_key(api, inputs)])
    return hashlib.sha256(act.encode()).hexdigest()[:32]


class Caller:
    """Calls APIs for the jobs of one execution, and decides what follows a failure.

    A call that has succeeded is not made again with the same inputs, however they are written and
    for whichever job: its result is given once more, unless the settings allow to repeat calls.

    What only reads is called without asking. Anything else needs approval, and is in the journal
    before it is called. A failure that may pass is tried again; what may have been done already
    only with approval. Whatever else fails is to be awarded to another, unless a call that may
    have changed something has an unknown outcome: then the job is given up.

    Parameters
    ----------
    tools : Tools
        A `Sources`, or what finds and calls tools as it does.
    settings : ExecutionSettings, optional
    approve : callable, optional
        Answers each `Approval`, one at a time. None: nobody is there to ask.
    journal : Journal, optional
        Default: one in memory.
    sleep : callable, default=asyncio.sleep
        Waits between attempts.
    clock : callable, default=time.perf_counter
    random_state : int, default=0
        Of the time between two attempts.

    Examples
    --------
    >>> class Flaky:
    ...     answers = [CallResult.failed("busy", "come again"), CallResult("sunny")]
    ...
    ...     async def api(self, api_id):
    ...         return Api(api_id, "today", effects="reads")
    ...
    ...     async def call(self, call):
    ...         return self.answers.pop(0)
    >>> async def main():
    ...     settings = ExecutionSettings(wait=(0, 0.001))
    ...     caller = Caller(Flaky(), settings)
    ...     api = await caller.tools.api("weather__today")
    ...     return await caller.perform("forecast", api, {"city": "Kyoto"})
    >>> performed = asyncio.run(main())
    >>> performed.then, performed.attempts, performed.result.text
    ('done', 2, 'sunny')
    """

    def __init__(
        self,
        tools: Tools,
        settings: ExecutionSettings | None = None,
        *,
        approve: Approve | None = None,
        journal: Journal | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.perf_counter,
        random_state: int = 0,
    ) -> None:
        self.tools = tools
        self.settings = settings or ExecutionSettings()
        self.journal = Journal() if journal is None else journal
        self._approve = approve
        self._asking = asyncio.Lock()
        self._same: dict[str, asyncio.Lock] = {}  # by call: a second one waits for the first
        self._sleep = sleep
        self._clock = clock
        self._random = random.Random(random_state)

    async def perform(
        self,
        job: str,
        api: Api,
        inputs: Mapping[str, Any],
        *,
        key: str | None = None,
        within: float = math.inf,
        on_progress: Callable[[CallProgress], object] | None = None,
    ) -> Performed:
        """Call an API for a job, as often as it needs and may be.

        A job that the journal has a result of is not done again: that is the result.

        Parameters
        ----------
        job : str
            Id of the job.
        api : Api
            As it is defined now.
        inputs : mapping of str to JSON value
        key : str, optional
            Idempotency key. Default: `act_key` of execution, job, API and inputs.
        within : float, seconds, default=inf
            For all attempts and the waits between them.
        on_progress : callable, optional
            As for a `Call`.

        Raises
        ------
        InputError
            If the inputs cannot be written as JSON, or `approve` returns neither True nor False.
        DataFileError
            If the journal cannot be written.
        """
        check_json("inputs", inputs)
        if job in self.journal.results:
            return Performed(self.journal.results[job], 0, 0.0, 0, "done")
        if self.settings.repeat_calls:
            return await self._perform(job, api, inputs, key, within, on_progress)
        async with self._same.setdefault(call_key(api, inputs), asyncio.Lock()):
            earlier = self.journal.earlier(api, inputs)
            if earlier is None:
                return await self._perform(job, api, inputs, key, within, on_progress)
        result = replace(earlier, notes=(*earlier.notes, _EARLIER), n_bytes=0, start_seconds=None)
        self.journal.take(job, api, inputs, result)
        return Performed(result, 0, 0.0, 0, "done", is_earlier=True)

    async def _perform(
        self,
        job: str,
        api: Api,
        inputs: Mapping[str, Any],
        key: str | None,
        within: float,
        on_progress: Callable[[CallProgress], object] | None,
    ) -> Performed:
        journal, seconds, n_bytes, attempts = self.journal, 0.0, 0, 0
        call = Call(
            api=api.id,
            inputs=inputs,
            timeout=self.settings.call_timeout,
            key=act_key(journal.execution, job, api, inputs) if key is None else key,
            definition=api,
            on_progress=on_progress,
        )
        refused = await self._refused(job, api, inputs)
        if refused is not None:
            return Performed(CallResult.failed("declined", refused), 0, 0.0, 0, "stop")
        end = self._clock() + within
        while True:
            begin = self._clock()
            timed = replace(call, timeout=min(call.timeout, max(end - begin, _SHORTEST)))
            result = await self._attempt(job, api, timed)
            seconds += self._clock() - begin
            n_bytes += result.n_bytes
            attempts += 1
            failure = result.failure
            if failure is None or not failure.is_transient or attempts >= self.settings.attempts:
                break
            if failure.was_done == "unknown" and api.effects != "reads":
                refused = await self._refused(job, api, inputs)
                if refused is not None:
                    result = replace(result, notes=(*result.notes, refused))
                    break
            pause = self._pause(attempts, result)
            if self._clock() + pause >= end:
                break
            await self._sleep(pause)
        return Performed(result, attempts, seconds, n_bytes, self._then(job, result))

    async def ask(self, approval: Approval) -> bool:
        """Ask the user, one question at a time; False where nobody is there to answer."""
        async with self._asking:
            return await asked(self._approve, approval)

    async def _refused(self, job: str, api: Api, inputs: Mapping[str, Any]) -> str | None:
        """Return why it must not be called; None if it may be."""
        why = "repeat" if self.journal.unsettled(job) else api.effects
        if why == "reads":
            return None
        approval = Approval(job, api, copy.deepcopy(dict(inputs)), why)
        return None if await self.ask(approval) else declined(self._approve, approval)

    async def _attempt(self, job: str, api: Api, call: Call) -> CallResult:
        journal, only_reads = self.journal, api.effects == "reads"
        number = journal.start(job, api, call.inputs, key=call.key)
        was_done: Literal["no", "unknown"] = "no"
        try:
            if not only_reads:
                await journal.synced()
                was_done = "unknown"
            result = await self._called(call)
        except asyncio.CancelledError:
            gave_up = CallFailure("cancelled", "given up while it ran", was_done)
            journal.finish(number, CallResult(failure=gave_up))
            raise
        journal.finish(number, result)
        return result

    async def _called(self, call: Call) -> CallResult:
        try:
            return await self.tools.call(call)
        except UnknownApiError as exc:
            return CallResult.failed("changed", str(exc))
        except InputError as exc:
            return CallResult.failed("inputs", str(exc))

    def _pause(self, attempts: int, result: CallResult) -> float:
        """Return for how many seconds to wait after so many attempts."""
        shortest, longest = self.settings.wait
        usual = min(longest, (shortest or 1.0) * 2.0**attempts)
        told = (float(found[1]) for note in result.notes for found in _RETRY_AFTER.finditer(note))
        pause = max(self._random.uniform(usual / 2, usual), *told, shortest)
        return min(pause, longest)

    def _then(self, job: str, result: CallResult) -> Then:
        if result.failure is None:
            return "done"
        if result.failure.kind == "permission":
            return "escalate"
        if result.failure.kind == "declined" or self.journal.unsettled(job):
            return "stop"
        return "reaward"
