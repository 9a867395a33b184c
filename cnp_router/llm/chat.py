"""The seam to language models: a request, a response, and whoever turns one into the other."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypeVar, get_args

from cnp_router.exceptions import InputError
from cnp_router.llm.schema import check_schema
from cnp_router.printing import printable
from cnp_router.records import one_line

__all__ = [
    "ChatMessage",
    "ChatModel",
    "ChatRequest",
    "ChatResponse",
    "Usage",
    "WrappedChatModel",
    "check_response",
    "complete_sync",
    "run_sync",
]

Role = Literal["system", "user", "assistant"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt.

    Parameters
    ----------
    role : {"system", "user", "assistant"}
    content : str

    Raises
    ------
    InputError
        If there is no such role, or the content cannot be sent as UTF-8.

    Examples
    --------
    >>> ChatMessage("user", "Which APIs?")
    ChatMessage(role='user', content='Which APIs?')
    """

    role: Role
    content: str

    __repr__ = one_line

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise InputError(f"role must be 'system', 'user' or 'assistant', got {self.role!r}")
        if not isinstance(self.content, str):
            raise InputError(f"the content of a message must be a string, got {self.content!r}")
        try:
            self.content.encode()
        except UnicodeEncodeError as exc:
            raise InputError(
                f"half of a surrogate pair, {exc.object[exc.start]!a}, in a message (replace it)"
            ) from exc


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked.

    Parameters
    ----------
    messages : sequence of ChatMessage
        At least one.
    schema : mapping or None, default=None
        JSON schema (Draft 2020-12) of an object that the answer must be. None asks for free text.
    task : object, default=None
        The typed task that the messages were rendered from. It is not sent: only an offline
        model and fakes read it.
    max_tokens : int or None, default=None
        The most tokens an answer may have; None leaves it to the server.
    temperature : float or None, default=None
        None leaves it to the server: some models take no temperature.
    seed : int or None, default=None
        For servers that can sample repeatably.

    Raises
    ------
    InputError
        If there is no message, or the schema cannot be used.

    Examples
    --------
    >>> request = ChatRequest([ChatMessage("user", "Which APIs?")], max_tokens=100)
    >>> request.messages[0].content, request.schema
    ('Which APIs?', None)
    """

    messages: Sequence[ChatMessage]
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    task: object = field(default=None, hash=False)
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None

    __repr__ = one_line

    def __post_init__(self) -> None:
        if not isinstance(self.messages, Iterable):
            raise InputError(f"messages must be ChatMessage objects, got {self.messages!r:.60}")
        object.__setattr__(self, "messages", tuple(self.messages))
        if not self.messages:
            raise InputError("a request needs at least one message (got none)")
        for message in self.messages:
            if not isinstance(message, ChatMessage):
                raise InputError(f"messages must be ChatMessage objects, got {message!r}")
        if self.schema is not None:
            check_schema(self.schema)
        limit = self.max_tokens
        if limit is not None and not (isinstance(limit, int) and limit >= 1):
            raise InputError(f"max_tokens must be a whole number from 1, got {limit!r}")


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that a request cost.

    Parameters
    ----------
    tokens_in : int
        Of the prompts.
    tokens_out : int
        Of the answers.
    source : {"server", "estimated"}
        Who says so. A sum is ``"server"`` only if all of it is.
    tokens_cached : int, default=0
        How many of `tokens_in` the server had read before and kept, as it says. Many charge less
        for these.

    Raises
    ------
    InputError
        If more were kept than read.

    Examples
    --------
    >>> Usage(100, 20, "server") + Usage(50, 5, "estimated")
    Usage(tokens_in=150, tokens_out=25, source='estimated')
    """

    tokens_in: int
    tokens_out: int
    source: Literal["server", "estimated"]
    tokens_cached: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        read, kept = self.tokens_in, self.tokens_cached
        if are_counts(read, kept) and kept > read:
            raise InputError(
                f"tokens_cached must be at most tokens_in, got {kept:,} and {read:,} "
                "(tokens_in counts those of the cache too)"
            )

    def __add__(self, other: Usage) -> Usage:
        source = self.source if self.source == other.source else "estimated"
        tokens_out = self.tokens_out + other.tokens_out
        cached = self.tokens_cached + other.tokens_cached
        return Usage(self.tokens_in + other.tokens_in, tokens_out, source, cached)


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """What a model answered.

    Parameters
    ----------
    text : str
        The answer as it came (the last one, where it was asked twice).
    data : dict or None
        The JSON object in it, which fits the schema of the request; None without a schema.
    usage : Usage
        Of all calls that it took.
    model : str
        Name of the model that answered, as it is asked for.
    seconds : float, seconds
        From sending to the answer, retries included, waiting for a free place excluded.
    cached : bool, default=False
        Whether it was answered before, so that nothing was paid now. Usage and seconds are those
        of the first time.
    calls : int, default=1
        Answers it took: 2 where the first one had to be repaired.
    structured_by : {"server", "prompt"} or None, default=None
        Who was given the schema: the server, or only the model in the prompt, because the server
        takes none. None without a schema.
    finish_reason : str or None, default=None
        Why the model stopped, in the server's words.
    served_as : str or None, default=None
        What the server calls the model that answered, such as the name of a dated version.

    Examples
    --------
    >>> ChatResponse("Hello.", None, Usage(9, 2, "estimated"), "tiny", 0.1).cached
    False
    """

    text: str
    data: dict[str, Any] | None
    usage: Usage
    model: str
    seconds: float
    cached: bool = False
    calls: int = 1
    structured_by: Literal["server", "prompt"] | None = None
    finish_reason: str | None = None
    served_as: str | None = None

    __repr__ = one_line


class PriceList(Protocol):
    """What tokens cost: `Prices`."""

    @property
    def currency(self) -> str:
        """Such as ``"USD"``."""

    def price(self, model: str, usage: Usage) -> float | None:
        """Return what some tokens of a model cost; None if it is not listed."""


class ChatModel(ABC):
    r"""Whoever answers a `ChatRequest`. It is also an asynchronous context manager.

    A model of one's own has a `name` and one method, `complete`.

    Attributes
    ----------
    name : str
        What reports call the model.
    server : str or None
        Base URL of the server that answers; None if there is none.
    prices : Prices or None
        What its tokens cost, for the metric of cost; None where nobody said it.

    Examples
    --------
    A model that runs in this process:

    >>> from cnp_router.llm import estimated_response, with_schema_in_prompt
    >>> class LocalModel(ChatModel):
    ...     name = "local"
    ...
    ...     async def complete(self, request):
    ...         prompt = with_schema_in_prompt(request).messages[-1].content
    ...         text = await asyncio.to_thread(lambda: f'{prompt} {{"apis": ["maps"]}}')
    ...         return estimated_response(request, text, self.name)
    >>> schema = {"type": "object", "properties": {"apis": {"type": "array"}}, "required": ["apis"]}
    >>> request = ChatRequest([ChatMessage("user", "Which APIs?")], schema)
    >>> complete_sync(LocalModel(), request).data
    {'apis': ['maps']}
    """

    name: str
    server: str | None = None
    prices: PriceList | None = None

    @abstractmethod
    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Answer a request, with `data` that fits its schema if it has one.

        Raises
        ------
        LanguageModelError
            If there is no usable answer; the subclass says whose fault it is.
        """

    def name_for(self, request: ChatRequest) -> str:
        """Return the name of the model that a request goes to: another one only where several are.

        Caches and ledgers use it.
        """
        return self.name

    async def aclose(self) -> None:
        """Close the connections. The model can be asked again: it then opens new ones."""
        return  # most models have none

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class WrappedChatModel(ChatModel):
    """A model that passes requests on to another one; base of caches, meters and the like.

    Parameters
    ----------
    model : ChatModel
        Who answers. Its name and server are those of the wrapper.

    Raises
    ------
    InputError
        If that is not a ChatModel.

    Examples
    --------
    >>> from cnp_router.testing import ScriptedChatModel
    >>> class Counted(WrappedChatModel):
    ...     requests = 0
    ...
    ...     async def complete(self, request):
    ...         self.requests += 1
    ...         return await super().complete(request)
    >>> model = Counted(ScriptedChatModel(["Hello."]))
    >>> complete_sync(model, ChatRequest([ChatMessage("user", "Hi")])).text, model.requests
    ('Hello.', 1)
    """

    def __init__(self, model: ChatModel) -> None:
        if not isinstance(model, ChatModel):
            raise InputError(f"a ChatModel is needed, got {model!r} (derive from ChatModel)")
        self.model = model
        self.name: str = model.name
        self.server: str | None = model.server

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Ask the wrapped model, and check the type of what it returns."""
        return check_response(self.model, await self.model.complete(request))

    def name_for(self, request: ChatRequest) -> str:
        """Return the name of the model that a request goes to."""
        return self.model.name_for(request)

    async def aclose(self) -> None:
        """Close the connections of the wrapped model."""
        await self.model.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


def check_response(model: ChatModel, response: object) -> ChatResponse:
    """Return what a model's `complete` returned, if it is a response of the right types.

    Otherwise it is an InputError: the model's class is at fault, so asking again changes nothing.
    Whether `data` fits a schema is not looked at.
    """
    who = f"{type(model).__name__}.complete"
    if not isinstance(response, ChatResponse):
        raise InputError(f"{who} must return a ChatResponse, got {printable(repr(response), 80)}")
    usage, seconds = response.usage, response.seconds
    right = {
        "text": isinstance(response.text, str),
        "data": isinstance(response.data, dict | None),
        "usage": isinstance(usage, Usage)
        and are_counts(usage.tokens_in, usage.tokens_out, usage.tokens_cached),
        "model": isinstance(response.model, str),
        "seconds": isinstance(seconds, int | float) and 0 <= seconds <= sys.float_info.max,
        "calls": are_counts(response.calls),
    }
    for name in (name for name, is_right in right.items() if not is_right):
        found = printable(repr(getattr(response, name)), 80)
        raise InputError(f"{who} returned a ChatResponse of the wrong type in {name}: {found}")
    return response


def are_counts(*values: object) -> bool:
    """Return whether these are whole numbers from 0."""
    return all(type(value) is int and value >= 0 for value in values)


def complete_sync(model: ChatModel, request: ChatRequest) -> ChatResponse:
    """Ask a model once, where there is no event loop, and close its connections.

    Parameters
    ----------
    model : ChatModel
    request : ChatRequest

    Returns
    -------
    ChatResponse

    Raises
    ------
    InputError
        If an event loop is running, or the model returns something else than a ChatResponse.
    LanguageModelError
        If there is no usable answer.

    Examples
    --------
    >>> from cnp_router.testing import ScriptedChatModel
    >>> complete_sync(ScriptedChatModel(["Hello."]), ChatRequest([ChatMessage("user", "Hi")])).text
    'Hello.'
    """

    async def ask() -> ChatResponse:
        try:
            return check_response(model, await model.complete(request))
        finally:
            await model.aclose()

    return run_sync(ask, instead="await model.complete(request)")


def run_sync(work: Callable[[], Coroutine[Any, Any, T]], *, instead: str) -> T:
    """Run asynchronous work to its end.

    Where an event loop is running it is an InputError that says what to write `instead`.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise InputError(f"an event loop is running (write: {instead})")
    # Outside of the handler, so that errors of the work do not carry that one along.
    return asyncio.run(work())
