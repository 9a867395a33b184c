"""A gateway of a few functions over HTTP, for tests."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from cnp_router.routing import SpecificationRouter
from cnp_router.serving import Gateway, GatewaySettings
from cnp_router.serving.http_front import app_of
from cnp_router.serving.http_limits import Limits
from cnp_router.serving.http_server import http_server
from cnp_router.serving.workers import listen
from cnp_router.sources import FunctionSource, Sources

JSON = {"content-type": "application/json"}


class Tools:
    """The functions, and what became of their calls."""

    def __init__(self):
        self.begun = asyncio.Event()
        self.release = asyncio.Event()
        self.ended = []

    async def forecast(self, city: str) -> str:
        """The weather forecast of a city: rain or sun."""
        return f"Rain in {city}"

    async def dig(self, metres: int) -> str:
        """Digs a hole in the garden, for as long as it takes."""
        self.begun.set()
        try:
            await self.release.wait()
            self.ended.append("done")
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        return f"{metres} m"

    async def send(self, text: str) -> str:
        """Sends a text message to a telephone."""
        return f"sent {text}"

    def source(self):
        reads = {"forecast": "reads", "dig": "reads", "send": "writes"}
        return FunctionSource("home", [self.forecast, self.dig, self.send], effects=reads)


def run(work):
    """Run a coroutine, for two minutes at most; what MCP's streams watch for stays in the loop."""
    return asyncio.run(asyncio.wait_for(work, 120))


class Answer:
    """A response: status, headers by their names in lower case, body."""

    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {n.lower(): v for n, v in (line.split(": ", 1) for line in lines)}

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        if "jsonrpc" in self.json:  # what is refused over MCP
            assert sorted(self.json) == ["error", "id", "jsonrpc"]
            assert self.json["error"]["code"] == -32_000 and self.json["error"]["message"]
            return self.status, self.json["error"]["data"]["type"]
        (error,) = self.json.values()
        assert sorted(error) == ["message", "type"]
        return self.status, error["type"]


class Browser:
    """Asks one server, each time by a connection of its own."""

    def __init__(self, port, server=None):
        self.port = port
        self.server = server

    async def raw(self, data):
        """Send bytes, and return all that comes until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            async with asyncio.timeout(20):
                return await reader.read()
        finally:
            writer.close()

    async def ask(self, method, path, body=b"", **headers):
        """Send one request; underscores in the names of headers are dashes."""
        given = {"host": f"127.0.0.1:{self.port}", "connection": "close"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        if body:
            given.setdefault("content-length", str(len(body)))
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value is not None)
        return Answer(await self.raw(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body))

    async def get(self, path, **headers):
        return await self.ask("GET", path, **headers)

    async def post(self, path, document, **headers):
        headers = {"content_type": "application/json"} | headers
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return await self.ask("POST", path, body, **headers)


def quiet(app):
    """An application without a lifespan of its own."""

    async def around(scope, receive, send):
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for what in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{what}.complete"})

    return around


@asynccontextmanager
async def served(app, limits=None, *, grace=0.5):
    """Serve an application at a free port."""
    is_ready = asyncio.Event()
    server = http_server(app, limits or Limits(), grace=grace, ready=is_ready.set)
    with listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        serving = asyncio.create_task(server.serve([sock]))
        await is_ready.wait()
        try:
            yield Browser(port, server)
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def home(clients=None, limits=None, *, grace=0.5, settings=None, tools=None, **how):
    """Serve the functions; give who asks, and the gateway."""
    async with Sources([(tools or Tools()).source()]) as sources:
        catalog = await sources.catalog()
        router = SpecificationRouter(catalog)
        settings = settings or GatewaySettings()
        async with Gateway(router, catalog, sources, settings=settings) as gateway:
            app = app_of(gateway, clients, limits, **how)
            async with served(app, limits, grace=grace) as browser:
                yield browser, gateway
