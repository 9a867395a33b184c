"""The seam to language models: whoever answers a request, and models that wrap another one."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

from cnp_router.exceptions import InputError
from cnp_router.llm.chat import ChatRequest, ChatResponse, Usage
from cnp_router.llm.sync import run_sync
from cnp_router.printing import printable

__all__ = ["ChatModel", "WrappedChatModel", "check_response", "complete_sync"]


class ChatModel(ABC):
    r"""Whoever answers a `ChatRequest`. It is also an asynchronous context manager.

    A model of one's own has a `name` and one method, `complete`.

    Attributes
    ----------
    name : str
        What reports call the model.
    server : str or None
        Base URL of the server that answers; None if there is none.

    Examples
    --------
    A model that runs in this process, as a function from a prompt to a text:

    >>> import asyncio
    >>> from cnp_router.exceptions import ChatUnavailableError
    >>> from cnp_router.llm import ChatMessage, estimated_response, with_schema_in_prompt
    >>> class LocalModel(ChatModel):
    ...     def __init__(self, generate, name="local"):
    ...         self.generate = generate
    ...         self.name = name
    ...
    ...     async def complete(self, request):
    ...         asked = with_schema_in_prompt(request)
    ...         prompt = "".join(f"{m.role}: {m.content}\n\n" for m in asked.messages)
    ...         try:
    ...             text = await asyncio.to_thread(self.generate, prompt)
    ...         except OSError as exc:
    ...             raise ChatUnavailableError(f"no answer: {exc}", model=self.name) from exc
    ...         return estimated_response(request, text, self.name)
    >>> model = LocalModel(lambda prompt: 'I would use {"apis": ["maps"]}.')
    >>> schema = {"type": "object", "properties": {"apis": {"type": "array"}}}
    >>> request = ChatRequest([ChatMessage("user", "Which APIs?")], schema)
    >>> complete_sync(model, request).data
    {'apis': ['maps']}
    """

    name: str
    server: str | None = None

    @abstractmethod
    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Answer a request, with `data` that fits its schema if it has one.

        Raises
        ------
        LanguageModelError
            If there is no usable answer; the subclass says whose fault it is.
        """

    @property
    def innermost(self) -> ChatModel:
        """The model that answers in the end: itself, unless it wraps another one."""
        return self

    async def aclose(self) -> None:
        """Close the connections. The model can be asked again: it then opens new ones."""
        return  # most models have none

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
    >>> from cnp_router.llm import ChatMessage
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
    >>> model.innermost
    ScriptedChatModel('scripted')
    """

    def __init__(self, model: ChatModel) -> None:
        if not isinstance(model, ChatModel):
            raise InputError(f"a ChatModel is needed, got {model!r} (derive from ChatModel)")
        self.model = model
        self.name = model.name
        self.server = model.server

    @property
    def innermost(self) -> ChatModel:
        """The model that answers in the end."""
        return self.model.innermost

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Ask the wrapped model, and check the type of what it returns (`check_response`)."""
        return check_response(self.model, await self.model.complete(request))

    async def aclose(self) -> None:
        """Close the connections of the wrapped model."""
        await self.model.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


def check_response(model: ChatModel, response: object) -> ChatResponse:
    """Return what a model returned, if it is a response of the right types.

    Parameters
    ----------
    model : ChatModel
        For the message.
    response : object
        What its `complete` returned.

    Returns
    -------
    ChatResponse
        The very object. Whether `data` fits a schema is not looked at.

    Raises
    ------
    InputError
        Otherwise: the model's class is at fault, so asking again changes nothing.

    Examples
    --------
    >>> from cnp_router.testing import ScriptedChatModel
    >>> check_response(ScriptedChatModel([]), "maps")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.InputError: ScriptedChatModel.complete must return a ChatResponse, got \
'maps'
    """
    who = f"{type(model).__name__}.complete"
    if not isinstance(response, ChatResponse):
        raise InputError(f"{who} must return a ChatResponse, got {printable(repr(response), 80)}")
    usage, seconds = response.usage, response.seconds
    right = {
        "text": isinstance(response.text, str),
        "data": isinstance(response.data, dict | None),
        "usage": isinstance(usage, Usage)
        and _is_count(usage.tokens_in)
        and _is_count(usage.tokens_out),
        "model": isinstance(response.model, str),
        "seconds": isinstance(seconds, int | float) and 0 <= seconds <= sys.float_info.max,
        "calls": _is_count(response.calls),
    }
    for name, is_right in right.items():
        if not is_right:
            raise InputError(
                f"{who} returned a ChatResponse of the wrong type in {name}: "
                f"{printable(repr(getattr(response, name)), 80)}"
            )
    return response


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
        If an event loop is running (await `ChatModel.complete` there), or the model returns
        something else than a ChatResponse.
    LanguageModelError
        If there is no usable answer.

    Examples
    --------
    >>> from cnp_router.llm import ChatMessage
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


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
