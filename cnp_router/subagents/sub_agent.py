"""`SubAgent`: an agent that is asked as a tool is called, and keeps to its limits."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cnp_router import telemetry
from cnp_router.catalog import Api, Effects
from cnp_router.exceptions import (
    ChatAccessError,
    ChatRateLimitError,
    ChatTimeoutError,
    ChatUnavailableError,
    InputError,
    LanguageModelError,
)
from cnp_router.llm import Usage
from cnp_router.printing import printable
from cnp_router.records import check_id, check_json, check_number, check_text, one_line, shown
from cnp_router.sources import Call, CallFailure, CallResult, FailureKind
from cnp_router.sources.call_telemetry import delegated
from cnp_router.sources.input_check import input_check
from cnp_router.sources.result_size import MAX_BYTES, MOST_SAID, bounded
from cnp_router.sources.source import SEPARATOR
from cnp_router.sources.tool_name import check_tool_name
from cnp_router.subagents.question import Answer, OnStream, Question, tokens_of, too_many, total

if TYPE_CHECKING:
    from cnp_router.execution import ExecutionSettings
    from cnp_router.execution.approval import Approve
    from cnp_router.llm import ChatModel
    from cnp_router.protocols import ContractNet
    from cnp_router.sources import Sources

__all__ = ["MOST_DEPTH", "Reply", "SubAgent", "inputs_of"]

MOST_DEPTH = 3
"""So many agents may ask one another, the first one included."""

ALONE = 30.0  # seconds

AnswerFunction = Callable[[Question], Awaitable[Answer | str]]
Output = Callable[[Answer], Any]

# Who has asked whom, and what those below have cost; each task has its own.
_PATH: ContextVar[tuple[str, ...]] = ContextVar("cnp_router_agents", default=())
_BELOW: ContextVar[list[Usage] | None] = ContextVar("cnp_router_agents_below", default=None)

_KINDS: tuple[tuple[type[BaseException], FailureKind], ...] = (
    (PermissionError, "permission"),
    (ChatAccessError, "permission"),
    (ChatRateLimitError, "busy"),
    (ChatTimeoutError, "timeout"),
    (ChatUnavailableError, "unavailable"),
    (TimeoutError, "timeout"),
    (ConnectionError, "lost"),
)


@dataclass(frozen=True, slots=True, repr=False)
class Reply:
    """What came of asking an agent once.

    Parameters
    ----------
    agent : str
    result : CallResult
    usage : Usage
        Its own and that of all agents that it asked.
    turns : int
    """

    agent: str
    result: CallResult
    usage: Usage
    turns: int

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return tokens_of(self.usage)

    __repr__ = one_line


class SubAgent:
    """An agent as a tool: it is asked a text, with typed optional arguments.

    Agents may ask agents, at most three in a row: a fourth is not asked, and its failure names
    the others. What an agent raises is the failure of its reply: an error of rights is
    ``"permission"``; a model or a connection that is gone for now is one that may pass.

    Parameters
    ----------
    name : str
        What its tool is called.
    description : str
        What it can be asked, in plain language: by that it is found.
    answer : callable
        The agent: a coroutine function that is given a `Question` and returns an `Answer` or a
        text.
    parameters : mapping of str to JSON Schema, optional
        What else may be said to it, by name. All of them may be left out.
    max_turns : int >= 1, default=10
        How many turns it may take; an agent begins each by `Question.turn`, or says in its answer
        how many there were.
    output : callable, optional
        Given the `Answer`, returns what is given back: a text, or a JSON value. By default its
        structured part with the text, or the text.
    timeout : float > 0, seconds, default=30.0
        For one question, where it is asked alone.
    on_stream : callable, optional
        Is given each `CallProgress` of the agent.
    effects : {"reads", "writes", "unknown"}, default="unknown"
        What may come of asking it. Of one that only reads, a failure that may pass is tried again
        without asking.
    summary : str, default=""
        The description in short, for prompts.
    categories : iterable of str, default=()

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> async def look(question):
    ...     question.turn("looking at the sky")
    ...     return Answer(f"Rain in {question.arguments.get('city', 'Kyoto')}.",
    ...                   usage=Usage(90, 9, "server"))
    >>> weather = SubAgent("weather", "Says what the weather is.", look,
    ...                    parameters={"city": {"type": "string"}}, effects="reads")
    >>> reply = asyncio.run(weather.ask("Rain?", {"city": "Nara"}))
    >>> reply.result.text, reply.tokens, reply.turns
    ('Rain in Nara.', 99, 1)
    >>> asyncio.run(weather.ask("Rain?", {"city": 9})).result
    CallResult(inputs: "inputs.city: 9 is not of type 'string'")
    """

    def __init__(
        self,
        name: str,
        description: str,
        answer: AnswerFunction,
        *,
        parameters: Mapping[str, Mapping[str, Any]] | None = None,
        max_turns: int = 10,
        output: Output | None = None,
        timeout: float = ALONE,
        on_stream: OnStream | None = None,
        effects: Effects = "unknown",
        summary: str = "",
        categories: Iterable[str] = (),
    ) -> None:
        self.name = check_id("agent", name)
        try:
            check_tool_name(self.name)
        except InputError as exc:
            raise InputError(f"agent {shown(name)}: {exc}") from None
        if SEPARATOR in self.name:
            raise InputError(f"the name of an agent cannot have {SEPARATOR!r} in it, got {name!r}")
        for what, each in (("answer", answer), ("output", output), ("on_stream", on_stream)):
            if each is not None and not callable(each):
                raise InputError(f"{what} of agent {name!r} must be callable, got {shown(each)}")
        self._answer = answer
        self.max_turns = check_number("max_turns", max_turns, 1, whole=True)
        self.output = output
        self.timeout = check_number("timeout in seconds", timeout, 0, 10**6, ends=False)
        self.on_stream = on_stream
        schema = _schema(self.name, parameters or {})
        self.api = Api(
            self.name,
            self.name,
            description,
            tuple(categories),
            parameters=schema,
            effects=effects,
            summary=summary,
        )
        self._check = input_check(schema)

    @classmethod
    def of_net(
        cls,
        name: str,
        description: str,
        net: ContractNet,
        sources: Sources,
        *,
        settings: ExecutionSettings | None = None,
        approve: Approve | None = None,
        **how: Any,
    ) -> SubAgent:
        """Return an agent that is a contract net of its own: its router finds its few tools.

        Parameters
        ----------
        name, description : str
        net : ContractNet
            Awards, and its model fills inputs.
        sources : Sources
            Have its tools.
        settings : ExecutionSettings, optional
        approve : callable, optional
            Answers each `Approval`: what does not only read is called only with it.
        **how
            As of `SubAgent`, without ``max_turns``: it takes one turn, in which it asks its
            contractors.

        Raises
        ------
        InputError
            As of `SubAgent`.
        """
        from cnp_router.subagents.agents_of import NetAgent

        if "max_turns" in how:
            raise InputError(
                f"agent {name!r} is a contract net, which takes no turns: give no max_turns "
                "(settings=ExecutionSettings(timeout=...) limits it)"
            )
        return cls(name, description, NetAgent(net, sources, settings, approve), **how)

    @classmethod
    def of_model(
        cls,
        name: str,
        description: str,
        model: ChatModel,
        sources: Sources,
        *,
        tools: Iterable[str] | None = None,
        settings: ExecutionSettings | None = None,
        approve: Approve | None = None,
        **how: Any,
    ) -> SubAgent:
        """Return an agent whose model is shown all its tools, and calls one after the other.

        Where it needs none of them, its answer is what the model says.

        Parameters
        ----------
        name, description : str
        model : ChatModel
        sources : Sources
            Have its tools.
        tools : iterable of str, optional
            Ids of the tools that it is shown; by default all.
        settings, approve, **how
            As of `of_net`.

        Raises
        ------
        InputError
            As of `SubAgent`.
        """
        from cnp_router.subagents.agents_of import ModelAgent

        agent = ModelAgent(model, sources, tools, settings, approve)
        return cls(name, description, agent, **how)

    async def ask(
        self,
        text: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnStream | None = None,
    ) -> Reply:
        """Ask the agent.

        Parameters
        ----------
        text : str
        arguments : mapping of str to JSON value, optional
        timeout : float > 0, seconds, optional
            Default: that of the agent.
        on_progress : callable, optional
            Is given each `CallProgress`, as `on_stream`.

        Returns
        -------
        Reply
            Also where it fails.

        Raises
        ------
        InputError
            If ``text`` is among the arguments, or a value cannot be used.
        """
        limit = self.timeout if timeout is None else timeout
        inputs = inputs_of(text, arguments or {})
        call = Call(api=self.name, inputs=inputs, timeout=limit, on_progress=on_progress)
        return await self.perform(call)

    async def perform(self, call: Call) -> Reply:
        """Ask the agent as a call says, in its time."""
        about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": self.name}
        with telemetry.span(f"invoke_agent {self.name}", about) as span:
            try:
                reply = await self._performed(call)
            except asyncio.CancelledError:
                delegated("cancelled", span.seconds)
                raise
            failure = reply.result.failure
            kind = None if failure is None else failure.kind
            if kind is not None:
                span.fail(kind)
            span.set(
                gen_ai__usage__input_tokens=reply.usage.tokens_in,
                gen_ai__usage__output_tokens=reply.usage.tokens_out,
                cnp_router__turns=reply.turns,
            )
            delegated(kind, span.seconds)
        return reply

    async def _performed(self, call: Call) -> Reply:
        path = _PATH.get()
        if len(path) >= MOST_DEPTH:
            asked = " > ".join((*path, self.name))
            said = f"at most {MOST_DEPTH} agents may ask one another in a row: {asked}"
            return Reply(self.name, CallResult.failed("declined", said), total([]), 0)
        try:
            self._check(call.inputs)
        except InputError as exc:
            return Reply(self.name, CallResult.failed("inputs", str(exc)), total([]), 0)
        watching = [each for each in (call.on_progress, self.on_stream) if each is not None]
        arguments = {name: value for name, value in call.inputs.items() if name != "text"}
        question = Question(
            call.inputs["text"], arguments, max_turns=self.max_turns, on_stream=watching
        )
        token = _PATH.set((*path, self.name))
        begin = time.perf_counter()
        answer = Answer()
        try:
            with paid_below() as paid:
                try:
                    answer, result = await self._asked(question, call.timeout)
                finally:
                    own = [answer.usage] if answer.usage is not None else question.booked
                    paid.extend(own)
        finally:
            _PATH.reset(token)
        usage = total(paid)
        turns = question.turns if answer.turns is None else answer.turns
        note = f"{tokens_of(usage):,} tokens ({usage.source}), {turns} turns"
        result = replace(result, seconds=time.perf_counter() - begin, notes=(*result.notes, note))
        return Reply(self.name, bounded(result, MAX_BYTES), usage, turns)

    async def _asked(self, question: Question, timeout: float) -> tuple[Answer, CallResult]:
        """Return the answer and what is given back; whatever goes wrong is its failure."""
        task: Any = asyncio.current_task()
        wishes = task.cancelling()
        answer = Answer()
        try:
            async with asyncio.timeout(timeout) as limit:
                said: object = self._answer(question)
                if inspect.isawaitable(said):
                    said = await said
            if not isinstance(said, Answer | str):
                problem = f"agent {self.name!r} must return an Answer or a text, got {shown(said)}"
                return answer, self._failed("unusable", problem)
            answer = Answer(said) if isinstance(said, str) else said
            return answer, self._given_back(answer)
        except asyncio.CancelledError:
            if task.cancelling() > wishes:  # otherwise the agent cancelled itself
                raise
            return answer, self._failed("tool", "CancelledError")
        except Exception as exc:
            if isinstance(exc, TimeoutError) and limit.expired():
                return answer, self._failed("timeout", f"no answer in {timeout:g} s")
            kinds = (kind for error, kind in _KINDS if isinstance(exc, error))
            kind: FailureKind = next(kinds, "tool")
            usage = getattr(exc, "usage", None)
            if isinstance(exc, LanguageModelError) and usage is not None and not question.is_booked:
                question.book(usage)
            return answer, self._failed(kind, _said(exc))

    def _given_back(self, answer: Answer) -> CallResult:
        """Return what an answer gives back."""
        if answer.failure is not None:
            return CallResult(answer.text, answer.structured, failure=answer.failure)
        if answer.turns is not None and answer.turns > self.max_turns:
            raise too_many(self.max_turns)
        if self.output is None:
            text = answer.text
            if not text and answer.structured is not None:
                text = json.dumps(answer.structured, ensure_ascii=False)
            return CallResult(text, answer.structured)
        given = self.output(answer)
        if isinstance(given, str):
            return CallResult(given)
        check_json("what output returns", {"output": given})
        return CallResult(json.dumps(given, ensure_ascii=False), given)

    def _failed(self, kind: FailureKind, message: str) -> CallResult:
        """Return a failure. What may write may have been done; what only reads changed nothing."""
        was_done: Any = "no" if self.api.effects == "reads" else "unknown"
        return CallResult(failure=CallFailure(kind, message, was_done))

    def __repr__(self) -> str:
        return f"SubAgent({self.name!r}, {shown(self.api.description)})"


@contextmanager
def paid_below() -> Iterator[list[Usage]]:
    """Yield a list that has at the end what was paid by all that are asked meanwhile.

    It counts with who asks here too, whatever comes of it.
    """
    above, below = _BELOW.get(), list[Usage]()
    token = _BELOW.set(below)
    try:
        yield below
    finally:
        _BELOW.reset(token)
        if above is not None:
            above.extend(below)


def inputs_of(text: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a question."""
    if "text" in arguments:
        raise InputError("the text of a question is no argument (give it as the text)")
    return {"text": check_text("text", text), **arguments}


def _schema(name: str, parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of a text and optional arguments."""
    if not isinstance(parameters, Mapping):
        said = f"must be schemas by name, got {shown(parameters)}"
        raise InputError(f"parameters of agent {name!r} {said}")
    if "text" in parameters:
        raise InputError(f"agent {name!r} has a parameter 'text' already (give it another name)")
    text = {"type": "string", "description": "What it is asked, in plain language."}
    return {
        "type": "object",
        "properties": {"text": text, **{each: dict(s) for each, s in parameters.items()}},
        "required": ["text"],
        "additionalProperties": False,
    }


def _said(exc: BaseException) -> str:
    """Return what an exception says, after its kind."""
    try:
        text = str(exc)
    except Exception:  # somebody else's error may do anything
        text = ""
    name = type(exc).__name__
    return printable(f"{name}: {text}" if text else name, MOST_SAID)
