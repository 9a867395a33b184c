"""`completed`: a model's answer to a request, checked, and watched by whoever wants to see it."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from cnp_router import telemetry
from cnp_router.exceptions import LanguageModelError
from cnp_router.llm.by_role import ModelsByRole
from cnp_router.llm.chat import (
    ChatModel,
    ChatRequest,
    ChatResponse,
    Usage,
    WrappedChatModel,
    check_response,
)
from cnp_router.printing import printable

__all__ = ["completed"]

# Well-known values of gen_ai.provider.name, by the end of the host.
_PROVIDERS = {
    "openai.azure.com": "azure.ai.openai",
    "openai.com": "openai",
    "anthropic.com": "anthropic",
    "mistral.ai": "mistral_ai",
    "deepseek.com": "deepseek",
    "groq.com": "groq",
    "x.ai": "x_ai",
    "perplexity.ai": "perplexity",
    "cohere.com": "cohere",
    "googleapis.com": "gcp.gen_ai",
}
_OTHER_SERVER = "openai"  # as the conventions want it of a server of the same wire format
_IN_PROCESS = "cnp_router"
_LONGEST = 100  # characters of what a server calls its model


async def completed(model: ChatModel, request: ChatRequest) -> ChatResponse:
    """Return a model's answer to a request: a span of the GenAI conventions, and what it took.

    Raises
    ------
    LanguageModelError
        If there is no usable answer.
    InputError
        If the model returns something else than a ChatResponse.

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.llm import ChatMessage
    >>> from cnp_router.testing import ScriptedChatModel
    >>> request = ChatRequest([ChatMessage("user", "Hi")])
    >>> asyncio.run(completed(ScriptedChatModel(["Hello."]), request)).text
    'Hello.'
    """
    if not telemetry.is_on():
        return check_response(model, await model.complete(request))
    name = model.name_for(request)
    server = next((each.server for each in _layers(model, request) if each.server), "")
    host, port = _address(server)
    about: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _provider(host) if server else _IN_PROCESS,
        "gen_ai.request.model": name,
    }
    more = {
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.output.type": "text" if request.schema is None else "json",
        "server.address": host,
        "server.port": port,
        "cnp_router.role": getattr(request.task, "role", None),
    }
    began, error = perf_counter(), None
    with telemetry.span(f"chat {name}", {**about, **more}) as watched:
        try:
            response = check_response(model, await model.complete(request))
        except LanguageModelError as exc:
            error = type(exc).__name__
            if exc.usage is not None:
                _paid(model, request, name, exc.usage, about)
            raise
        except BaseException as exc:
            error = type(exc).__name__
            raise
        finally:
            if error is not None or not response.cached:
                seconds, how = perf_counter() - began, {**about, "error.type": error}
                telemetry.record("gen_ai.client.operation.duration", seconds, how)
        usage, reason = response.usage, response.finish_reason
        watched.set(
            gen_ai__response__model=printable(response.served_as or response.model, _LONGEST),
            gen_ai__response__finish_reasons=[printable(reason, _LONGEST)] if reason else None,
            gen_ai__usage__input_tokens=usage.tokens_in,
            gen_ai__usage__output_tokens=usage.tokens_out,
            gen_ai__usage__cache_read__input_tokens=usage.tokens_cached or None,
            cnp_router__cached=response.cached or None,
        )
    if not response.cached:
        _paid(model, request, name, usage, about)
    return response


def _paid(
    model: ChatModel, request: ChatRequest, name: str, usage: Usage, about: dict[str, Any]
) -> None:
    """Count tokens, and what they cost."""
    for kind, tokens in (("input", usage.tokens_in), ("output", usage.tokens_out)):
        of_kind = {**about, "gen_ai.token.type": kind}
        telemetry.record("gen_ai.client.token.usage", tokens, of_kind)
    prices = next((each.prices for each in _layers(model, request) if each.prices), None)
    cost = None if prices is None else prices.price(name, usage)
    if prices is not None and cost is not None:
        whose = {"currency": prices.currency, "gen_ai.request.model": name}
        telemetry.add("cnp_router.cost", cost, whose)


def _layers(model: ChatModel, request: ChatRequest) -> Iterator[ChatModel]:
    """Yield a model and what it wraps, down to who answers the request."""
    while True:
        if isinstance(model, ModelsByRole):  # its server is that of its default
            model = model.model_of(getattr(request.task, "role", None))
            continue
        yield model
        if not isinstance(model, WrappedChatModel):
            return
        model = model.model


def _address(server: str) -> tuple[str | None, int | None]:
    """Return host and port of a server; neither where it is no URL, which is no fault of a call."""
    try:
        parts = urlsplit(server)
        return parts.hostname, parts.port
    except ValueError:
        return None, None


def _provider(host: str | None) -> str:
    named = f".{host or ''}"
    known = (name for end, name in _PROVIDERS.items() if named.endswith(f".{end}"))
    return next(known, _OTHER_SERVER)
