"""A small server of the page whose answers are scripted, and a browser to look at it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from typing import Any

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cnp_router.routing import Reason, Recipient, Routing
from cnp_router.serving.asking_page import page, page_headers
from tests.unpacked import Unpacked

CHROMIUM = Unpacked("chromium", "usr/lib/chromium/chromium", "chromium")
SECONDS = 10.0


def found(routing: Routing, *, tools: list[dict[str, Any]] | None = None) -> Any:
    """Return what a server answers, with that decision."""
    return {
        "search_id": "s1",
        "query": routing.request,
        "routing": routing.to_dict(),
        "tools": tools or [],
        "fits": routing.fits,
        "confidence": routing.confidence,
        "verdict": routing.verdict,
        "acted": True,
    }


def routed(request: str, *names: str, **others: Any) -> Routing:
    """Return a decision for the tools of these names, of 52; the first is recommended."""
    recipients = others.pop("recipients", None) or tuple(
        Recipient(name, 0.9 / (i + 1), (Reason("name", f"the request names {name}"),))
        for i, name in enumerate(names)
    )
    settings: dict[str, Any] = {
        "recommendation": (recipients[0].contractor,),
        "confidence": 0.83,
        "source": "learned",
        "n_apis": 52,
        "threshold": 0.6,
        "fallback": "none",
        **others,
    }
    return Routing(request=request, recipients=recipients, **settings)


class PageServer:
    """What it was asked, and what it answers: set `answer`, `catalog` and `token`."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[str], Any] = lambda request: found(routed(request, "sms", "weather"))
        self.catalog: list[dict[str, Any]] = []
        self.token = ""
        self.held: set[str] = set()
        self.let_go = asyncio.Event()

    async def _page(self, request: Request) -> Response:
        return Response(page(), headers=page_headers())

    async def _tools(self, request: Request) -> Response:
        most = int(request.query_params.get("limit", len(self.catalog)))
        return self._refusal(request) or JSONResponse({"tools": self.catalog[:most]})

    async def _route(self, request: Request) -> Response:
        if refused := self._refusal(request):
            return refused
        text = (await request.json())["request"]
        self.asked.append(text)
        if text in self.held:
            await self.let_go.wait()
        answer = self.answer(text)
        return answer if isinstance(answer, Response) else JSONResponse(answer)

    def _refusal(self, request: Request) -> Response | None:
        self.paths.append(request.url.path)
        self.headers.append(dict(request.headers))
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return error(401, "a bearer token is needed")
        return None

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/v1/tools", self._tools),
                Route("/v1/route", self._route, methods=["POST"]),
            ]
        )


def error(status: int, message: str, **headers: str) -> Response:
    body = {"error": {"type": "Error", "message": message}}
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse(body, status, headers=names)


@contextmanager
def page_server() -> Iterator[PageServer]:
    """Serve the page on a free port of 127.0.0.1."""
    scripted = PageServer()
    with served(nullcontext(scripted.app())) as url:
        scripted.url = url
        yield scripted


@contextmanager
def served(app: AbstractAsyncContextManager[Any]) -> Iterator[str]:
    """Serve an application, opened and closed in a thread of its own; it ends with the block."""
    servers: list[uvicorn.Server] = []

    async def serve() -> None:
        async with app as opened:
            settings = uvicorn.Config(
                opened, host="127.0.0.1", port=0, log_level="critical", ws="none"
            )
            settings.timeout_graceful_shutdown = 1
            servers.append(uvicorn.Server(settings))
            await servers[0].serve()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        while not (servers and servers[0].started):
            if not thread.is_alive():
                raise RuntimeError("the server did not start")
            thread.join(0.01)
        port = servers[0].servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/"
    finally:
        if servers:
            servers[0].should_exit = True
        thread.join(SECONDS)


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser without a window."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM.binary(), env=dict(CHROMIUM.environment())
        )
        try:
            yield started
        finally:
            with suppress(Exception):  # it may have ended itself
                started.close()


class Watch:
    """What went on in a page: where it went, and what it complained of."""

    def __init__(self, looked_at: Page) -> None:
        self.urls: list[str] = []
        self.complaints: list[str] = []
        self.is_attacked = False
        looked_at.add_init_script(
            "document.addEventListener('securitypolicyviolation', (event) =>"
            " console.error(`refused by policy: ${event.violatedDirective}`));"
        )
        looked_at.on("request", lambda request: self.urls.append(request.url))
        looked_at.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        looked_at.on("console", self._console)

    def _console(self, message: Any) -> None:
        # The browser itself reports each status of 400 and more.
        if not message.text.startswith("Failed to load resource"):
            self.complaints.append(message.text)
