"""The way to an A2A agent, by the official SDK: its card, messages to it, what goes wrong."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Any
from uuid import uuid4

import httpx
from a2a.client import (
    A2ACardResolver,
    AgentCardResolutionError,
    ClientConfig,
    create_client,
)
from a2a.client.errors import A2AClientError
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
)
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import A2AError, InternalError, InvalidAgentResponseError

from cnp_router import telemetry
from cnp_router.exceptions import SourceAnswerError, SourceError, SourceUnavailableError
from cnp_router.printing import printable
from cnp_router.sources.a2a_answer import Answer
from cnp_router.sources.result_size import MOST_SAID
from cnp_router.sources.source import CallFailure

__all__ = ["Connection"]

_BINDINGS = [TransportProtocol.JSONRPC.value, TransportProtocol.HTTP_JSON.value]
_CONNECT_SECONDS = 10.0
_CANCEL_SECONDS = 2.0
_MOST_OF_AN_ERROR = 300  # characters
_FIRST_PAUSE = 0.02  # seconds between looks at a task, doubled each time
_REFUSED = (401, 403, 407)
_BUSY = (408, 425, 429, 503)
_UNSURE = (408, 503)  # unless they say when to come again
_GATEWAY = (502, 504)


class _AnswerError(Exception):
    """What came is larger than allowed, or packed."""


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, stream: Any, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._max_bytes
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise _AnswerError(f"it is larger than {self._max_bytes:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@functools.cache
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context()  # some 50 ms: once for all agents


class _BoundedClient(httpx.AsyncClient):
    """A client that reads bounded answers, and gives the headers to one origin only."""

    def __init__(self, url: str, headers: Mapping[str, str], max_bytes: int) -> None:
        # An answer is waited for by who calls, with a limit of its own.
        timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
        super().__init__(timeout=timeout, verify=_certificates())
        self._origin = _origin(url)
        self._secret = dict(headers)
        self._max_bytes = max_bytes

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"
        request.headers.update(telemetry.trace_headers())
        if _origin(str(request.url)) == self._origin:
            request.headers.update(self._secret)
        try:
            response = await super().send(request, **{**options, "stream": True})
        finally:
            for name in self._secret:  # errors keep the request
                request.headers.pop(name, None)
        try:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise _AnswerError("it is compressed, which was not asked for")
            response.stream = _BoundedStream(response.stream, self._max_bytes)
            if not options.get("stream"):
                await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response


class Connection:
    """One agent, for one event loop; before it is asked, its card has to be read."""

    def __init__(
        self, name: str, url: str, headers: Mapping[str, str], timeout: float, max_bytes: int
    ) -> None:
        self._name = name
        self._url = url
        self._timeout = timeout
        self._has_headers = bool(headers)
        self._http = _BoundedClient(url, headers, max_bytes)
        self._client: Any = None
        self._streams = False

    async def read_card(self) -> AgentCard:
        """Read the card, and go by it from now on; a SourceError if none can be used."""
        try:
            async with asyncio.timeout(self._timeout):
                resolver = A2ACardResolver(self._http, self._url)
                is_card = httpx.URL(self._url).path.endswith(".json")
                card = await resolver.get_agent_card("/" if is_card else None)
            _check_interfaces(self._name, card, self._url, self._has_headers)
            config = ClientConfig(httpx_client=self._http, supported_protocol_bindings=_BINDINGS)
            self._client = await create_client(card, config)
        except SourceError:
            raise
        except Exception as exc:  # a card that is none raises anything in the SDK
            raise _of_start(self._name, _place(self._url), self._timeout, exc) from None
        self._streams = card.capabilities.streaming
        return card

    async def aclose(self) -> None:
        """Disconnect."""
        await self._http.aclose()

    async def ask(self, text: str, key: str, answer: Answer, pause: float) -> CallFailure | None:
        """Send a message, and take what comes until the answer is over.

        Returns what went wrong on the way. Without streaming, and where a stream breaks, the task
        is looked at again and again, at most `pause` seconds apart.
        """
        request = SendMessageRequest(
            message=Message(
                message_id=key or uuid4().hex, role=Role.ROLE_USER, parts=[Part(text=text)]
            ),
            configuration=SendMessageConfiguration(return_immediately=not self._streams),
        )
        lost = None
        events: Any = self._client.send_message(request)
        async with aclosing(events):
            while not answer.is_over:
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    break
                except Exception as exc:  # answers that are none raise anything in the SDK
                    lost = _of_call(exc)
                    if lost.kind != "lost" or not answer.task_id:
                        return lost
                    break
                answer.take(event)
        seconds = _FIRST_PAUSE
        while not answer.is_over:
            if not answer.task_id:
                return CallFailure("unusable", "the agent answered nothing")
            await asyncio.sleep(min(seconds, pause))
            seconds *= 2
            try:
                task = await self._client.get_task(GetTaskRequest(id=answer.task_id))
            except Exception as exc:
                said = (lost or _of_call(exc)).message
                return CallFailure("lost", f"{said} (its task cannot be looked at)")
            answer.take_task(task)
        return None

    async def cancel(self, answer: Answer) -> str:
        """Ask the agent to give up its task; what keeps it from that, if anything."""
        if not answer.task_id:
            return "the agent had not begun a task that could be cancelled"
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._client.cancel_task(CancelTaskRequest(id=answer.task_id))
        except TimeoutError:
            return f"the agent did not say in {_CANCEL_SECONDS:g} s that it cancels its task"
        except Exception as exc:
            return f"the agent did not cancel its task: {_of_call(exc).message}"
        return ""


def _check_interfaces(name: str, card: AgentCard, url: str, has_headers: bool) -> None:
    usable = [each for each in card.supported_interfaces if each.protocol_binding in _BINDINGS]
    if not usable:
        there = [each.protocol_binding for each in card.supported_interfaces]
        said = printable(", ".join(there), 100) or "none"
        problem = f"its card names no interface of {' or '.join(_BINDINGS)} (it has {said})"
        raise SourceAnswerError(name, problem, cure="check the URL")
    here = _origin(url)
    for each in usable:
        named = _origin(each.url)
        # Many agents serve their card beside themselves, at another port of their host.
        is_near = named[1] == here[1] and named[0] in ("https", here[0])
        if named == here or (is_near and not has_headers):
            continue
        why = f"is not at {_place(url)}"
        if is_near:
            why = f"the headers for {_place(url)} are not for"
        problem = f"its card sends messages to {printable(_place(each.url), 200)}, which {why}"
        cure = "give that address as the URL, if you trust it"
        raise SourceAnswerError(name, problem, cure=cure)


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return "", "", None
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.host, port


def _place(url: str) -> str:
    """Return an address without what may be secret in it."""
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return "an address that makes no sense"
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.host}{port}{parts.path}"


def _chain(exc: BaseException | None) -> Iterator[BaseException]:
    while exc is not None:
        yield exc
        exc = exc.__cause__ or exc.__context__


def _of_start(name: str, place: str, timeout: float, exc: Exception) -> SourceError:
    """Return why there is no card."""
    check = "check the URL: it is that of the agent, or of its card"
    if isinstance(exc, TimeoutError):
        problem = f"no agent card from {place} in {timeout:g} s"
        return SourceUnavailableError(name, problem, cure="is it running? (start_timeout)")
    status = exc.status_code if isinstance(exc, AgentCardResolutionError) else None
    if status in _REFUSED:
        problem = f"{place} refuses its agent card (HTTP {status})"
        return SourceUnavailableError(name, problem, cure="check the headers")
    if status is not None and status >= 500:
        problem = f"{place} has no agent card now (HTTP {status})"
        return SourceUnavailableError(name, problem, cure="try again later")
    if status is not None:
        return SourceAnswerError(name, f"no agent card at {place} (HTTP {status})", cure=check)
    transport = next((each for each in _chain(exc) if isinstance(each, httpx.RequestError)), None)
    if transport is not None:
        problem = f"no connection to {place}: {_said(transport)}"
        return SourceUnavailableError(name, problem, cure="is it running? check the URL")
    first = next((each for each in _chain(exc) if isinstance(each, _AnswerError)), None)
    said = _said(first or exc.__cause__ or exc)
    return SourceAnswerError(name, f"the agent card of {place} cannot be used: {said}", cure=check)


def _of_call(exc: Exception) -> CallFailure:
    """Return what went wrong with a request."""
    causes = list(_chain(exc))
    if any(isinstance(each, _AnswerError) for each in causes):
        said = next(str(each) for each in causes if isinstance(each, _AnswerError))
        return CallFailure("unusable", f"the answer cannot be used: {said} (max_bytes)")
    http = next((each for each in causes if isinstance(each, httpx.HTTPError)), None)
    if isinstance(http, httpx.ConnectError | httpx.ConnectTimeout):
        return CallFailure("unavailable", f"no connection: {_said(http)}")
    if isinstance(http, httpx.HTTPStatusError) and type(exc) in (A2AClientError, type(http)):
        return _of_status(http.response)
    if isinstance(http, httpx.RequestError):
        return CallFailure("lost", f"the connection broke: {_said(http)}")
    said = str(exc)[:MOST_SAID]
    told = said.startswith(("JSON-RPC Error", "SSE stream error"))
    if isinstance(exc, A2AError) and (told or not isinstance(exc, A2AClientError)):
        knows = told or isinstance(exc, InternalError | InvalidAgentResponseError)
        return CallFailure("tool", said, "unknown" if knows else "no")
    return CallFailure("unusable", f"the answer cannot be used: {_said(exc)}")


def _of_status(response: httpx.Response) -> CallFailure:
    code = response.status_code
    body = printable(response.text, _MOST_OF_AN_ERROR) if response.is_closed else ""
    said = f"HTTP {code}{': ' if body else ''}{body}"
    if code in _REFUSED:
        return CallFailure("permission", said)
    if code in _BUSY:
        unsure = code in _UNSURE and "retry-after" not in response.headers
        return CallFailure("busy", said, "unknown" if unsure else "no")
    if code in _GATEWAY:
        return CallFailure("lost", said)
    return CallFailure("tool", said, "no" if code < 500 else "unknown")


def _said(exc: BaseException) -> str:
    text = printable(str(exc), _MOST_OF_AN_ERROR)
    return f"{type(exc).__name__}{': ' if text else ''}{text}".lstrip("_")
