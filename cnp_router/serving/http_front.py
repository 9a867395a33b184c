"""`app_of`: the gateway over HTTP, with JSON in and out, and its page for people."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cnp_router.exceptions import (
    DataFileError,
    InputError,
    SourceError,
    UnknownApiError,
    UnknownSearchError,
)
from cnp_router.files import value_of
from cnp_router.records import Record, check_json, check_number, check_request, check_text, shown
from cnp_router.serving.asking_page import page, page_headers
from cnp_router.serving.http_limits import Guard, Limits, RefusedError
from cnp_router.serving.mcp_endpoint import http_app
from cnp_router.serving.openapi_of_gateway import openapi_of
from cnp_router.serving.prometheus import CONTENT_TYPE, Metrics
from cnp_router.serving.search_answers import tool_to_dict
from cnp_router.version import __version__

if TYPE_CHECKING:
    from cnp_router.serving.clients import Client, Clients
    from cnp_router.serving.gateway import Gateway

__all__ = ["CallBody", "FeedbackBody", "RouteBody", "SearchBody", "app_of"]

T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)
_BODY = "the body"
_MCP = "/mcp"
_DIGITS = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class SearchBody:
    """The body of ``POST /v1/search``."""

    query: str
    k: int | None = None

    def __post_init__(self) -> None:
        check_request(self.query)
        if self.k is not None:
            check_number("k", self.k, 1, whole=True)


@dataclass(frozen=True, slots=True)
class RouteBody:
    """The body of ``POST /v1/route``."""

    request: str

    def __post_init__(self) -> None:
        check_request(self.request)


@dataclass(frozen=True, slots=True)
class CallBody:
    """The body of ``POST /v1/call``."""

    name: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    search_id: str | None = None

    def __post_init__(self) -> None:
        check_text("name", self.name)
        check_json("inputs", self.inputs)
        if self.search_id is not None:
            check_text("search_id", self.search_id)


@dataclass(frozen=True, slots=True)
class FeedbackBody:
    """The body of ``POST /v1/feedback``."""

    search_id: str
    rating: int

    def __post_init__(self) -> None:
        check_text("search_id", self.search_id)
        check_number("rating", self.rating, 1, 5, whole=True)


def app_of(
    gateway: Gateway,
    clients: Clients | None = None,
    limits: Limits | None = None,
    *,
    anyone: Client | None = None,
    metrics: Metrics | None = None,
) -> Starlette:
    """Return the gateway as an application of ASGI.

    Parameters
    ----------
    gateway : Gateway
        Entered by the caller, who leaves it when the application has ended.
    clients : Clients or None, default=None
        Who may ask, by their tokens; None for whoever reaches it from this machine.
    limits : Limits, default=Limits()
    anyone : Client, default=Client()
        Who asks where there are no `clients`.
    metrics : Metrics, default=Metrics()
        What ``/metrics`` gives; by default those of this process.

    Returns
    -------
    Starlette
        ``POST /v1/search``, ``/v1/route``, ``/v1/call`` and ``/v1/feedback``; ``GET /v1/tools``,
        ``/healthz``, ``/metrics``, ``/openapi.json`` and ``/``; MCP at ``/mcp``. Every error is a
        JSON object ``{"error": {"type", "message"}}``.
    """
    limits = limits or Limits()
    mcp = http_app(gateway, max_body=limits.max_body, timeout=limits.timeout)
    front = _Front(gateway, needs_token=clients is not None, metrics=metrics or Metrics())
    routes = [
        Route("/v1/search", front.search, methods=["POST"]),
        Route("/v1/route", front.route, methods=["POST"]),
        Route("/v1/call", front.call, methods=["POST"]),
        Route("/v1/feedback", front.feedback, methods=["POST"]),
        Route("/v1/tools", front.tools),
        Route("/healthz", front.health),
        Route("/metrics", front.metrics),
        Route("/openapi.json", front.openapi),
        Route("/", front.page),
        Route(_MCP, mcp, methods=["POST"]),
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(
                Guard,
                clients=clients,
                limits=limits,
                anyone=anyone,
                routes=tuple(route.path for route in routes),
            )
        ],
        exception_handlers={HTTPException: _refused},
        lifespan=lambda _: mcp.run(),
    )


class _Front:
    """What is done for each path."""

    def __init__(self, gateway: Gateway, *, needs_token: bool, metrics: Metrics) -> None:
        self.gateway = gateway
        self.measured = metrics
        self.document = openapi_of(needs_token=needs_token)

    async def search(self, request: Request) -> Response:
        body = await _body(request, SearchBody)
        done = self.gateway.search(body.query, body.k, client=request.state.client)
        return JSONResponse((await _answered(done)).to_dict())

    async def route(self, request: Request) -> Response:
        body = await _body(request, RouteBody)
        found = await _answered(self.gateway.route(body.request, client=request.state.client))
        return JSONResponse(found.decision_to_dict())

    async def call(self, request: Request) -> Response:
        body = await _body(request, CallBody)
        key = check_text("Idempotency-Key", request.headers.get("idempotency-key", ""))
        done = self.gateway.call(
            body.name, body.inputs, body.search_id, client=request.state.client, key=key
        )
        return JSONResponse((await _answered(done)).to_dict())

    async def feedback(self, request: Request) -> Response:
        body = await _body(request, FeedbackBody)
        client = request.state.client
        await _answered(self.gateway.rate(body.search_id, body.rating, client=client))
        return JSONResponse({"search_id": body.search_id, "rating": body.rating})

    async def tools(self, request: Request) -> Response:
        apis = self.gateway.apis(request.state.client)
        start = _whole(request, "offset", 0, 0)
        most = _whole(request, "limit", len(apis) or 1, 1)
        tools = [tool_to_dict(api) for api in apis[start : start + most]]
        return JSONResponse({"total": len(apis), "tools": tools})

    async def health(self, request: Request) -> Response:
        said = {"status": "ok", "version": __version__}
        if request.state.client is not None:  # what is behind it is for who may ask
            said |= self.gateway.status(request.state.client)
        return JSONResponse(said)

    async def metrics(self, request: Request) -> Response:
        client = request.state.client
        if client.among is not None or client.exclude:
            problem = "metrics name all sources (ask as a client without among and exclude)"
            raise RefusedError(403, "forbidden", problem)
        return Response(await self.measured.text(), headers={"Content-Type": CONTENT_TYPE})

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(self.document)

    async def page(self, request: Request) -> Response:
        return Response(page(), headers=page_headers())


async def _body(request: Request, kind: Callable[..., T]) -> T:
    """Return the JSON object of a request, checked."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        problem = f"the body is {shown(media_type)} (send JSON, Content-Type: application/json)"
        raise RefusedError(415, "unsupported_media_type", problem)
    try:
        document = value_of(await request.body(), _BODY)
        if not isinstance(document, dict):
            raise InputError(f"{_BODY} must be a JSON object, got {shown(document)}")
        record = Record(document, _BODY, None)
        record.check_keys(kind)
        return record.make(kind)
    except InputError as exc:
        raise RefusedError(400, "invalid", str(exc)) from None


async def _answered(doing: Awaitable[T]) -> T:
    """Return what the gateway says; its errors become those of HTTP."""
    try:
        return await doing
    except (UnknownApiError, UnknownSearchError) as exc:
        kind = "unknown_tool" if isinstance(exc, UnknownApiError) else "unknown_search"
        raise RefusedError(404, kind, str(exc)) from None
    except DataFileError:
        raise  # it names a file of this machine
    except InputError as exc:
        raise RefusedError(400, "invalid", str(exc)) from None
    except SourceError as exc:
        _LOGGER.warning("%s", exc)
        problem = f"source {exc.source!r} cannot be used now (ask again later)"
        raise RefusedError(503, "source_unavailable", problem, (("Retry-After", "5"),)) from None


def _whole(request: Request, name: str, default: int, low: int) -> int:
    """Return a whole number of the query."""
    text = request.query_params.get(name)
    try:
        number = default if text is None else int(text) if _DIGITS.fullmatch(text) else text
        return check_number(name, number, low, 10**9, whole=True)  # type: ignore[no-any-return]
    except InputError as exc:
        raise RefusedError(400, "invalid", str(exc)) from None


def _refused(request: Request, error: Exception) -> Response:
    """Say what Starlette says of a path or method that is not there."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    cure = "/openapi.json says what there is"
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        problem = f"{request.method[:20]} is not possible here (use {allowed or 'another method'})"
        said = ("method_not_allowed", problem)
    elif status == HTTPStatus.NOT_FOUND:
        said = ("not_found", f"there is no {shown(request.url.path)} ({cure})")
    else:
        said = (status.phrase.lower().replace(" ", "_"), f"{status.phrase} ({cure})")
    raise RefusedError(status, *said, tuple((error.headers or {}).items()))
