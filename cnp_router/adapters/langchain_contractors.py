"""Tools and agents of LangChain as contractors: a source, and a sub-agent."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as tool_of

from cnp_router.adapters.foreign_tools import ForeignTools, Invoke, told
from cnp_router.catalog import Api, Effects
from cnp_router.exceptions import InputError
from cnp_router.llm import Usage
from cnp_router.llm.openai_wire import APIError, mapped
from cnp_router.llm.tokens import estimate_tokens
from cnp_router.records import check_instance
from cnp_router.sources import Attachment, CallFailure, CallResult
from cnp_router.sources.result_size import MAX_BYTES, MOST_SAID
from cnp_router.subagents import Answer, Question, SubAgent

__all__ = ["LangChainTools", "schema_of", "sub_agent"]


class LangChainTools(ForeignTools):
    """Tools of LangChain as a source: what works for an agent of LangChain works as a contractor.

    A tool without a coroutine runs in a thread, which nothing can stop: see `FunctionSource`. What
    a tool raises is a failure of kind ``"tool"``, and so is a message of status ``"error"``; inputs
    that do not fit its schema are one of kind ``"inputs"``. Blocks of images, audio and files in
    the content become attachments; an artifact becomes the structured result where JSON can hold
    it, and an attachment where it is bytes. `Call.key` is the id of the call, which a tool may have
    injected.

    Parameters
    ----------
    name : str
        As that of a `Source`.
    tools : iterable of BaseTool or callable
        A callable becomes a tool as with `langchain.tools.tool`. A tool that wants the state or the
        store of a graph has none here, and its calls fail.
    effects : mapping of str to {"reads", "writes", "unknown"}, default={}
        By tool; unknown where nothing is said.
    max_concurrency : int >= 1, default=8
    max_bytes : int >= 1, default=1,000,000
        Of a result; what is larger is cut.

    Raises
    ------
    InputError
        If two tools have the same name, or a schema cannot be used.

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.sources import Call
    >>> def weather(city: str) -> str:
    ...     '''Says whether it will rain in a city.'''
    ...     return f"Rain in {city}."
    >>> source = LangChainTools("now", [weather], effects={"weather": "reads"})
    >>> (api,) = asyncio.run(source.apis())
    >>> api.id, api.description, api.parameters["required"]
    ('now__weather', 'Says whether it will rain in a city.', ['city'])
    >>> asyncio.run(source.call(Call(api="now__weather", inputs={"city": "Kyoto"}))).text
    'Rain in Kyoto.'
    """

    takes_key = True

    def __init__(
        self,
        name: str,
        tools: Iterable[BaseTool | Callable[..., Any]],
        *,
        effects: Mapping[str, Effects] | None = None,
        max_concurrency: int = 8,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        held = [each if isinstance(each, BaseTool) else tool_of(each) for each in tools]
        super().__init__(
            name,
            [(_api(tool), _invoke(tool)) for tool in held],
            effects=effects,
            max_concurrency=max_concurrency,
            max_bytes=max_bytes,
        )


def schema_of(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON Schema of what a model gives a tool; InputError where it has none."""
    try:
        schema: Any = tool.tool_call_schema
        if not isinstance(schema, dict):
            said = getattr(schema, "model_json_schema", None) or schema.schema
            schema = said()
        json.dumps(schema, allow_nan=False)
    except Exception as exc:  # of the classes of others anything may come
        said = f"{type(exc).__name__}: {exc}"[:300]
        raise InputError(f"tool {tool.name!r} has no JSON Schema: {said}") from exc
    return {key: each for key, each in schema.items() if key not in ("title", "description")}


def _api(tool: BaseTool) -> Api:
    return Api(tool.name, tool.name, tool.description, parameters=schema_of(tool))


def _invoke(tool: BaseTool) -> Invoke:
    """Return a function of a tool's inputs and the id of the call."""

    def request_of(inputs: dict[str, Any], key: str) -> dict[str, Any]:
        return {"type": "tool_call", "id": key or tool.name, "name": tool.name, "args": inputs}

    def call(inputs: dict[str, Any], key: str) -> CallResult:
        return _result(tool.invoke(request_of(inputs, key)))

    async def acall(inputs: dict[str, Any], key: str) -> CallResult:
        return _result(await tool.ainvoke(request_of(inputs, key)))

    # Only what really is asynchronous can be cancelled; all else belongs into a thread.
    own = type(tool)._arun is not BaseTool._arun
    return acall if own and getattr(tool, "coroutine", tool) is not None else call


def _result(answer: Any) -> CallResult:
    """Return the result that a message of a tool is."""
    if not isinstance(answer, ToolMessage):  # such as a command to a graph
        said = f"it returned a {type(answer).__name__}, which needs a graph"
        return CallResult.failed("unusable", said)
    attachments = [_attachment(block) for block in answer.content_blocks if _is_data(block)]
    structured, artifact = None, answer.artifact
    if isinstance(artifact, Attachment):
        attachments.append(artifact)
    elif isinstance(artifact, bytes | bytearray):
        attachments.append(Attachment("application/octet-stream", bytes(artifact)))
    elif artifact is not None:
        structured = jsonable(artifact)
    text, failure = str(answer.text), None
    if answer.status == "error":
        failure = CallFailure("tool", text[:MOST_SAID] or "it failed, and does not say why")
    notes: tuple[str, ...] = ()
    if artifact is not None and structured is None and not isinstance(artifact, _DATA):
        notes = (f"an artifact was left out: a {type(artifact).__name__}, which JSON cannot hold",)
    return CallResult(text, structured, tuple(attachments), failure, notes=notes)


_DATA = (Attachment, bytes, bytearray)


def _is_data(block: Any) -> bool:
    return block.get("type") in ("image", "audio", "video", "file")


def _attachment(block: Any) -> Attachment:
    """Return the attachment that a block of content is; ValueError where its data are none."""
    kind = block.get("mime_type") or _KIND[block["type"]]
    data = base64.b64decode(block.get("base64") or "", validate=True)
    return Attachment(kind, data, block.get("url") or block.get("file_id") or "")


_KIND = {
    "image": "image/*",
    "audio": "audio/*",
    "video": "video/*",
    "file": "application/octet-stream",
}


def jsonable(value: Any) -> Any:
    """Return a value as JSON can hold it; None where it cannot."""
    from pydantic_core import to_jsonable_python

    try:
        written = to_jsonable_python(value)
        json.dumps(written, allow_nan=False)
    except Exception:  # a model of somebody else's may raise anything when it is written
        return None
    return written


def sub_agent(
    agent: Runnable[Any, Any],
    description: str,
    *,
    name: str | None = None,
    inputs: Callable[[Question], Any] | None = None,
    **how: Any,
) -> SubAgent:
    """Return an agent or a graph as a contractor: it is asked a text, and keeps to its limits.

    Each call of a model that it makes is a turn, and its tokens are counted: those that the server
    says, or else an estimate. Nodes and tools that are not asynchronous run in threads, which
    nothing can stop after a timeout.

    Parameters
    ----------
    agent : Runnable
        Such as `create_agent` or a compiled graph gives; `ainvoke` is called.
    description : str
        What it can be asked.
    name : str, optional
        Default: that of the agent.
    inputs : callable, optional
        Given the `Question`, returns what the agent is invoked with. Default: a mapping with one
        of ``messages``, which has the text and the arguments of the question.
    **how
        As of `SubAgent`: ``parameters``, ``max_turns``, ``timeout``, ``effects`` and others.

    Returns
    -------
    SubAgent
        It answers with the text of the last message, and a ``structured_response`` where there is
        one. An agent that interrupts itself to ask a person is a failure of kind ``"declined"``.

    Raises
    ------
    InputError
        As of `SubAgent`.

    Examples
    --------
    >>> import asyncio
    >>> from langchain.agents import create_agent
    >>> from langchain_core.language_models import GenericFakeChatModel
    >>> model = GenericFakeChatModel(messages=iter([AIMessage("Rain in Kyoto.")]))
    >>> agent = create_agent(model, name="weather")
    >>> reply = asyncio.run(sub_agent(agent, "Says what the weather is.").ask("Rain?"))
    >>> reply.result.text, reply.turns, reply.usage.source
    ('Rain in Kyoto.', 1, 'estimated')
    """
    check_instance("agent", agent, Runnable)

    async def answer(question: Question) -> Answer:
        given: Any = {"messages": [HumanMessage(told(question))]}
        question.is_booked = True
        watched = RunnableConfig(callbacks=[_Watch(question)])
        try:
            result = await agent.ainvoke(given if inputs is None else inputs(question), watched)
        except APIError as exc:
            raise mapped(exc, model=agent.get_name(), server="its server", timeout=0) from exc
        return _answer(result)

    return SubAgent(agent.get_name() if name is None else name, description, answer, **how)


def _answer(result: Any) -> Answer:
    """Return the answer that what an agent returned is."""
    if isinstance(result, Mapping) and result.get("__interrupt__"):
        said = "it waits for a person, and nobody is asked here (give it no interrupts)"
        return Answer(failure=CallFailure("declined", said, "unknown"))
    structured, last = None, result
    if isinstance(result, Mapping) and isinstance(result.get("messages"), list):
        structured = jsonable(result.get("structured_response"))
        last = result["messages"][-1] if result["messages"] else None
    if isinstance(last, BaseMessage):
        return Answer(str(last.text), structured)
    if isinstance(last, str):
        return Answer(last)
    written = jsonable(last)
    if written is not None:
        return Answer("", written)
    said = f"it returned a {type(result).__name__} without a message"
    return Answer(failure=CallFailure("unusable", said))


class _Watch(BaseCallbackHandler):
    """Counts the turns and the tokens of a question."""

    raise_error = True  # a turn too many ends it
    run_inline = True

    def __init__(self, question: Question) -> None:
        self.question = question
        self._asked: dict[UUID, str] = {}

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        **more: Any,
    ) -> None:
        """Begin a turn."""
        self.question.turn("thinks")
        self._asked[run_id] = "\n".join(str(each.text) for part in messages for each in part)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        """Book what the turn has cost."""
        asked = self._asked.pop(run_id, "")
        for generation in (each for part in response.generations for each in part):
            message = getattr(generation, "message", None)
            said = message.usage_metadata if isinstance(message, AIMessage) else None
            if said:
                usage = Usage(said["input_tokens"], said["output_tokens"], "server")
            else:
                tokens = estimate_tokens(asked), estimate_tokens(generation.text)
                usage = Usage(*tokens, "estimated")
            self.question.book(usage)
