"""An A2A agent on 127.0.0.1, built with the SDK's own server, that does what the text asks for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from a2a.helpers import (
    new_data_part,
    new_raw_part,
    new_task_from_user_message,
    new_text_message,
    new_text_part,
    new_url_part,
)
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse

__all__ = ["Agent", "card", "serve", "serving"]

SKILLS = (
    AgentSkill(
        id="forecast",
        name="Forecast",
        description="Forecasts the weather.",
        tags=["Weather", "Science", "Weather"],
        examples=["Will it rain in Oslo?", "Is it windy?"],
    ),
    AgentSkill(id="sea", name="Sea", description="Tells the tides.", tags=[]),
)


def card(url: str, *, streaming: bool, skills: Any = SKILLS, binding: str = "JSONRPC") -> AgentCard:
    interface = AgentInterface(protocol_binding=binding, url=url, protocol_version="1.0")
    return AgentCard(
        name="Weather & Sea: an agent!",
        description="Knows the weather.",
        version="1",
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=list(skills),
    )


class Agent(AgentExecutor):
    """Does what the first word of the message says; keeps what it was asked and what it gave up."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.cancelled: list[str] = []
        self.gate = asyncio.Event()
        self.begun = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.asked.append(context.message)
        word, _, rest = context.get_user_input().partition(" ")
        if word == "message":
            await event_queue.enqueue_event(new_text_message(rest))
            return
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work(updater.new_agent_message([new_text_part("looking")]))
        self.begun.set()
        await getattr(self, f"do_{word}")(updater, rest)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.append(context.task_id)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.cancel()

    def say(self, updater: TaskUpdater, text: str) -> Any:
        return updater.new_agent_message([new_text_part(text)])

    async def do_say(self, updater: TaskUpdater, text: str) -> None:
        await updater.add_artifact([new_text_part(text)], name="answer")
        await updater.complete()

    async def do_end(self, updater: TaskUpdater, text: str) -> None:
        await updater.complete(self.say(updater, text))

    async def do_nothing(self, updater: TaskUpdater, text: str) -> None:
        await updater.complete()

    async def do_chunks(self, updater: TaskUpdater, text: str) -> None:
        for place, piece in enumerate(text.split("|")):
            await updater.add_artifact([new_text_part(piece)], artifact_id="a", append=place > 0)
        await updater.complete()

    async def do_parts(self, updater: TaskUpdater, text: str) -> None:
        data = {"rain": True, "mm": 3, "share": 0.5, "hours": [1, 2], "none": None}
        await updater.add_artifact([new_text_part("one"), new_data_part(data)])
        await updater.add_artifact(
            [
                new_text_part("two"),
                new_raw_part(b"\x89PNG", media_type="image/png"),
                new_url_part("https://example.org/map.png", media_type="image/png"),
            ]
        )
        await updater.complete()

    async def do_fail(self, updater: TaskUpdater, text: str) -> None:
        await updater.failed(self.say(updater, text))

    async def do_reject(self, updater: TaskUpdater, text: str) -> None:
        await updater.reject(self.say(updater, text))

    async def do_ask(self, updater: TaskUpdater, text: str) -> None:
        await updater.requires_input(self.say(updater, text))

    async def do_auth(self, updater: TaskUpdater, text: str) -> None:
        await updater.requires_auth(self.say(updater, text))

    async def do_stop(self, updater: TaskUpdater, text: str) -> None:
        await updater.cancel(self.say(updater, text))

    async def do_raise(self, updater: TaskUpdater, text: str) -> None:
        raise RuntimeError(text)

    async def do_wait(self, updater: TaskUpdater, text: str) -> None:
        async with asyncio.timeout(10):
            await self.gate.wait()
        await updater.complete(self.say(updater, "waited"))

    async def do_flood(self, updater: TaskUpdater, text: str) -> None:
        for place in range(int(text)):
            parts = [new_text_part("x" * 1000)]
            await updater.add_artifact(parts, artifact_id="a", append=place > 0)
        await updater.complete()


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI application or Starlette in this loop, and yield its address."""
    # By the protocol's number asyncio knows TCP, and lets small answers go without delay.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(100)
    config = uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


@asynccontextmanager
async def serve(
    *,
    streaming: bool = True,
    binding: str = "JSONRPC",
    skills: Any = SKILLS,
    needs: tuple[str, str] | None = None,
    change: Callable[[Any], Any] = lambda card: card,
) -> AsyncIterator[tuple[str, Agent]]:
    """Serve an agent; with `needs`, a header that each of its requests must have."""
    agent = Agent()
    app = Starlette()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if needs is not None and scope["type"] == "http":
            given = dict(scope["headers"]).get(needs[0].encode(), b"").decode()
            if given != needs[1]:
                response = PlainTextResponse(f"not let in: {given}", status_code=401)
                return await response(scope, receive, send)
        return await app(scope, receive, send)

    async with serving(guarded) as url:
        made = change(card(f"{url}/rpc", streaming=streaming, skills=skills, binding=binding))
        handler = DefaultRequestHandler(agent, InMemoryTaskStore(), made)
        app.router.routes += create_agent_card_routes(made)
        if binding == "JSONRPC":
            app.router.routes += create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True)
        else:
            app.router.routes += create_rest_routes(handler, path_prefix="/rpc")
        try:
            yield url, agent
        finally:
            await handler.aclose()
