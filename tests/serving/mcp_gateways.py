"""Gateways with tools that are slow, large, broken or harmless, for tests of the MCP front."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client as McpClient
from mcp import StdioServerParameters
from starlette.applications import Starlette
from starlette.routing import Route
from tool_servers import served

from cnp_router.catalog import Api, Catalog
from cnp_router.routing import Router, SpecificationRouter
from cnp_router.serving.clients import Client
from cnp_router.serving.gateway import Gateway, GatewaySettings
from cnp_router.serving.mcp_front import http_app, server_of
from cnp_router.sources import FunctionSource, Sources
from cnp_router.sources.source import Attachment, Call, CallProgress, CallResult, Source

ANYONE = Client()
ROOT = Path(__file__).parents[2]
PLACES = (Path(__file__).parent, Path(__file__).parents[1])
STDIO_SERVER = Path(__file__).parent / "gateway_on_stdio.py"
ALWAYS = ("tools__add", "tools__wait")
EVENTS: list[str] = []
"""What the tools have seen, in this process."""


def add(a: int, b: int) -> int:
    """Add two whole numbers and return their sum."""
    print(f"adding {a} and {b}")  # noqa: T201
    return a + b


def forecast(city: str) -> dict[str, str]:
    """Forecast the weather of a city: rain, wind or sun."""
    return {"city": city, "weather": "rain"}


async def wait(seconds: float) -> str:
    """Wait for some seconds."""
    EVENTS.append("started")
    print("waiting", file=sys.stderr, flush=True)  # noqa: T201
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        EVENTS.append("cancelled")
        print("cancelled", file=sys.stderr, flush=True)  # noqa: T201
        raise
    return "waited"


def huge(n: int) -> str:
    """Return a long text of n letters."""
    return "x" * n


@dataclass
class Report:
    """What `report` gives."""

    text: str


def report(n: int) -> Report:
    """Write a report of n letters."""
    return Report("x" * n)


def broken() -> str:
    """Fail whatever is asked."""
    raise RuntimeError("out of paper")


def delete(name: str) -> str:
    """Delete a file for ever."""
    EVENTS.append(f"deleted {name}")
    return "deleted"


def listed() -> list[int]:
    """Return a list of numbers."""
    return [1, 2]


class Odd(Source):
    """Reports progress, gives attachments, and dies."""

    name = "odd"

    async def apis(self) -> tuple[Api, ...]:
        return tuple(Api(f"odd__{each}", each, effects="reads") for each in ("copy", "draw", "die"))

    async def call(self, call: Call) -> CallResult:
        if call.api == "odd__die":
            return CallResult.failed("lost", "the connection was lost: it ended with code 9")
        if call.api == "odd__draw":
            return CallResult(
                "drawn",
                {"pages": 1},
                (
                    Attachment("image/png", b"PNG"),
                    Attachment("audio/wav", b"RIFF"),
                    Attachment("text/plain", b"a note", "file:///note.txt"),
                    Attachment("application/pdf", b"\xff\xfe", "file:///plan.pdf"),
                    Attachment("application/octet-stream", b"\xff"),
                    Attachment("text/html", b"", "https://example.org/page"),
                    Attachment("image/png"),
                ),
            )
        if call.on_progress is not None:
            EVENTS.append("asked for progress")
            for done in range(3):
                call.on_progress(CallProgress(done, 3, f"page {done + 1}"))
        return CallResult("copied")


def make_sources() -> Sources:
    """Return sources that have not been asked for anything."""
    functions = [add, forecast, wait, huge, report, broken, delete, listed]
    reads: Any = {each.__name__: "reads" for each in functions}
    reads["delete"] = "writes"
    return Sources([FunctionSource("tools", functions, effects=reads), Odd()])


async def make_gateway(
    sources: Sources, *, router: Callable[[Catalog], Router] = SpecificationRouter, **settings: Any
) -> Gateway:
    """Return a gateway that has not been entered."""
    catalog = await sources.catalog()
    given = {"always": ALWAYS, "attempts": 1, "refresh_seconds": 0.0, **settings}
    return Gateway(router(catalog), catalog, sources, settings=GatewaySettings(**given))


class Site:
    """An application that makes its gateway in the loop that serves it."""

    def __init__(self, gateway: Callable[[], Any], app: Callable[[Gateway], Any]) -> None:
        self._gateway, self._make = gateway, app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            async with self._gateway() as gateway:
                self._app = self._make(gateway)
                await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@contextlib.contextmanager
def mcp_site(
    client: Client | None = ANYONE, *, app: Callable[[Gateway], Any] | None = None, **settings: Any
) -> Iterator[str]:
    """Serve a gateway over HTTP in a thread; yield the address of the MCP endpoint."""

    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Gateway]:
        async with make_sources() as sources, await make_gateway(sources, **settings) as gateway:
            yield gateway

    with served(Site(made, app or (lambda gateway: alone(gateway, client)))) as address:
        yield f"{address}/mcp"


def alone(gateway: Gateway, client: Client | None) -> Starlette:
    """Return an application that has the MCP endpoint and nothing before it."""
    endpoint = http_app(gateway, client=client)
    return Starlette(routes=[Route("/mcp", endpoint)], lifespan=lambda _: endpoint.run())


@contextlib.asynccontextmanager
async def mcp_client(
    client: Client = ANYONE, *, mode: str = "auto", **settings: Any
) -> AsyncIterator[McpClient]:
    """Connect the official client to a gateway of this process."""
    async with make_sources() as sources, await make_gateway(sources, **settings) as gateway:
        server = server_of(gateway, client=lambda _: client)
        async with McpClient(server, mode=mode) as connected:
            yield connected


def stdio_server() -> StdioServerParameters:
    """Return how the server on stdio is started."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *PLACES)))}
    options = ["-W", "error", str(STDIO_SERVER)]
    return StdioServerParameters(command=sys.executable, args=options, env=environment)
