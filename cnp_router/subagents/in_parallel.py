"""`run_parallel`: several agents at the same time; `merge`: what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cnp_router.catalog import Api
from cnp_router.execution import Approval, ExecutionSettings
from cnp_router.execution.approval import Approve, allow_writes, asked
from cnp_router.execution.calling import Caller
from cnp_router.llm import Usage
from cnp_router.records import check_instance, check_number, instances, one_line
from cnp_router.sources import Call, CallResult
from cnp_router.subagents.question import tokens_of, total, unique
from cnp_router.subagents.sub_agent import SubAgent, inputs_of, paid_below

__all__ = ["AgentResult", "Ask", "Merged", "merge", "run_parallel"]

TOGETHER = 300.0  # seconds


@dataclass(frozen=True, slots=True, repr=False)
class Ask:
    """A question to an agent.

    Parameters
    ----------
    agent : SubAgent
    text : str
    arguments : mapping of str to JSON value, default={}
    """

    agent: SubAgent
    text: str
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_instance("agent", self.agent, SubAgent)
        inputs_of(self.text, self.arguments)

    def __repr__(self) -> str:  # what is asked may be private
        return f"Ask({self.agent.name!r})"


@dataclass(frozen=True, slots=True, repr=False)
class AgentResult:
    """What came of a question, with all attempts at it.

    Parameters
    ----------
    name : str
        Of the agent; where it was asked several times, ``"name (2)"`` and so on, as far as no
        other one is called so.
    result : CallResult
    usage : Usage
        Of all attempts, with that of the agents that it asked.
    attempts : int
        How often it was asked.
    needs_right : bool
        Whether it needs somebody who has the right to it: it is not tried again without.
    """

    name: str
    result: CallResult
    usage: Usage
    attempts: int
    needs_right: bool = False

    @property
    def is_done(self) -> bool:
        """Whether there is an answer."""
        return self.result.is_done

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return tokens_of(self.usage)

    __repr__ = one_line


@dataclass(frozen=True, slots=True, repr=False)
class Merged:
    """What came of several agents.

    Parameters
    ----------
    analyses : dict of str to JSON value
        What each agent gave back.
    total_tokens : int
        In and out, of those that failed too.
    success_count, failure_count : int
    errors : dict of str to str
        Why the others gave nothing back.
    """

    analyses: dict[str, Any]
    total_tokens: int
    success_count: int
    failure_count: int
    errors: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "analyses": dict(self.analyses),
            "total_tokens": self.total_tokens,
            "success_count": self.success_count,
            "failure_count": self.failure_count,
            "errors": dict(self.errors),
        }

    def __repr__(self) -> str:
        return (
            f"Merged({self.success_count} answers, {self.failure_count} failures, "
            f"{self.total_tokens:,} tokens)"
        )


async def run_parallel(
    asks: Iterable[Ask],
    *,
    timeout: float = TOGETHER,
    settings: ExecutionSettings | None = None,
    approve: Approve | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> tuple[AgentResult, ...]:
    """Ask several agents at the same time; one that fails leaves the others at work.

    A failure that may pass is tried again after a wait that doubles; one of rights is never, unless
    `approve` says that the right is there now.

    Parameters
    ----------
    asks : iterable of Ask
    timeout : float > 0, seconds, default=300.0
        For each, all its attempts together.
    settings : ExecutionSettings, optional
        How often is tried, and how long is waited between.
    approve : callable, optional
        Answers each `Approval`. By default what is asked here is approved once; what may have been
        done already is not done again, and no right is given.
    sleep : callable, default=asyncio.sleep
        Waits between attempts.

    Returns
    -------
    tuple of AgentResult
        In the order of `asks`.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> async def look(question):
    ...     return "Rain."
    >>> async def fail(question):
    ...     raise RuntimeError("no such station")
    >>> weather = SubAgent("weather", "Says what the weather is.", look)
    >>> trains = SubAgent("trains", "Finds trains.", fail)
    >>> results = asyncio.run(run_parallel([Ask(weather, "Rain?"), Ask(trains, "To Nara")]))
    >>> merge(results).to_dict()
    {'analyses': {'weather': 'Rain.'}, 'total_tokens': 0, 'success_count': 1, 'failure_count': 1, \
'errors': {'trains': 'RuntimeError: no such station'}}
    """
    questions = instances("asks", asks, Ask)
    limit = check_number("timeout in seconds", timeout, 0, 10**6, ends=False)
    base = settings or ExecutionSettings()
    own = ExecutionSettings(call_timeout=limit, attempts=base.attempts, wait=base.wait)
    lock = asyncio.Lock()

    async def one_at_a_time(approval: Approval) -> bool:
        async with lock:
            return await asked(approve or allow_writes, approval)

    names = unique(each.agent.name for each in questions)
    tasks = [
        asyncio.create_task(_asked(name, each, own, one_at_a_time, sleep))
        for name, each in zip(names, questions, strict=True)
    ]
    try:
        return tuple(await asyncio.gather(*tasks))
    finally:  # where one raised, which no agent can bring about, nobody is left at work
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def merge(results: Iterable[AgentResult]) -> Merged:
    """Return what came of several agents, with their tokens summed and their errors listed.

    Of results that have the same name, the later ones are counted: ``"name (2)"``.
    """
    each = instances("results", results, AgentResult)
    named = list(zip(unique(one.name for one in each), each, strict=True))
    done = {name: one.result.data for name, one in named if one.is_done}
    errors = {name: one.result.failure.message for name, one in named if one.result.failure}
    tokens = sum(one.tokens for one in each)
    return Merged(done, tokens, len(done), len(errors), errors)


class _Agent:
    """One agent as `Tools`, and how often it was asked."""

    def __init__(self, agent: SubAgent) -> None:
        self.agent = agent
        self.attempts = 0

    async def api(self, api_id: str) -> Api:
        """Return the agent as an API."""
        return self.agent.api

    async def call(self, call: Call) -> CallResult:
        """Ask it."""
        self.attempts += 1
        return (await self.agent.perform(call)).result


async def _asked(
    name: str,
    ask: Ask,
    settings: ExecutionSettings,
    approve: Approve,
    sleep: Callable[[float], Awaitable[object]],
) -> AgentResult:
    """Ask one agent, as often as it needs and may be."""
    agent, api = _Agent(ask.agent), ask.agent.api
    caller = Caller(agent, settings, approve=approve, sleep=sleep)
    inputs = inputs_of(ask.text, ask.arguments)
    needs_right = False
    with paid_below() as paid:  # what was paid before the time was up counts too
        try:
            async with asyncio.timeout(settings.call_timeout) as limit:
                performed = await caller.perform(name, api, inputs)
                if performed.then == "escalate":
                    needs_right = not await caller.ask(Approval(name, api, inputs, "permission"))
                    if not needs_right:
                        performed = await caller.perform(name, api, inputs)
                        needs_right = performed.then == "escalate"
            result = performed.result
        except TimeoutError:
            if not limit.expired():
                raise
            said = f"no answer in {settings.call_timeout:g} s, with all attempts"
            result = CallResult.failed("timeout", said)
    return AgentResult(name, result, total(paid), agent.attempts, needs_right)
