"""The clients of `serving`: many at once in a process of their own, each search, call, think."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.serving_server import Connection

__all__ = ["TOOLS", "Load", "ask", "ask_by_mcp", "load"]

_RATED = 0.1  # of the searches
_PATIENCE = 0.05  # seconds until a client that was sent away comes again
_ADDRESS = "/mcp"
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

Tool = tuple[str, Callable[[int], dict[str, Any]]]

TOOLS: dict[str, Tool] = {
    "everything__echo": (
        "Echo my message back to me.",
        lambda n: {"message": f"message {n}"},
    ),
    "everything__get-sum": ("Add two numbers.", lambda n: {"a": n, "b": 1}),
    "time__convert_time": (
        "What time is it in Tokyo when it is noon in London?",
        lambda n: {
            "source_timezone": "Europe/London",
            "time": f"{n // 60 % 24:02}:{n % 60:02}",
            "target_timezone": "Asia/Tokyo",
        },
    ),
}
"""What clients ask for and call: a request, and the inputs of its n-th call."""


@dataclass
class Load:
    """What clients do, and what came of it.

    Parameters
    ----------
    url : str
    clients : int
    seconds : float
        Then each ends what it has begun.
    seed : int, default=0
    by_mcp : bool, default=False
        Over streamable HTTP at ``/mcp``, not by ``/v1``.
    patient : bool, default=False
        Who is sent away for want of a place comes again; that is counted, and is no error.
    tools : tuple of str
        Of `TOOLS`.
    think : float, seconds
        From one call to the next search, the mean.
    searches, calls : list of float, seconds
        What `load` fills in, as the others below.
    """

    url: str
    clients: int
    seconds: float
    seed: int = 0
    by_mcp: bool = False
    patient: bool = False
    tools: tuple[str, ...] = ("time__convert_time",)
    think: float = 0.1
    searches: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    done: dict[str, str] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    n_busy: int = 0


def load(asked: Load) -> dict[str, Any]:
    """Run all clients in this process, and return what came of it.

    Returns
    -------
    dict
        ``searches``, ``calls``: seconds of each. ``done``: the tool called, by search_id, where the
        answer has come; ``begun``: the search_ids of all calls that were sent. ``errors``: how
        often, by what was said. ``busy``: how often a client was sent away. ``seconds``: all.
    """
    began = time.perf_counter()
    asyncio.run(_all(asked))
    return {
        "searches": asked.searches,
        "calls": asked.calls,
        "done": asked.done,
        "begun": asked.begun,
        "errors": dict(asked.errors),
        "busy": asked.n_busy,
        "seconds": time.perf_counter() - began,
    }


async def _all(asked: Load) -> None:
    until = time.perf_counter() + asked.seconds
    await asyncio.gather(*(_client(asked, number, until) for number in range(asked.clients)))


async def _client(asked: Load, number: int, until: float) -> None:
    chance = random.Random(asked.seed * 10_000 + number)
    # Not all in the same moment.
    await asyncio.sleep(chance.uniform(0, min(1.0, asked.seconds / 5)))
    ask_one = ask_by_mcp if asked.by_mcp else ask
    n = number
    async with Connection(asked.url) as connection:
        while time.perf_counter() < until:
            tool = chance.choice(asked.tools)
            query, inputs = TOOLS[tool]
            try:
                began = time.perf_counter()
                search_id = await _patiently(
                    asked, ask_one, connection, "search", {"query": f"{query} ({n})"}
                )
                found = time.perf_counter()
                asked.begun.append(search_id)
                given = {"name": tool, "inputs": inputs(n), "search_id": search_id}
                await _patiently(asked, ask_one, connection, "call", given)
                asked.done[search_id] = tool
                asked.searches.append(found - began)
                asked.calls.append(time.perf_counter() - found)
                if chance.random() < _RATED:
                    rated = {"search_id": search_id, "rating": 5}
                    await _patiently(asked, ask, connection, "feedback", rated)
            except (OSError, _WrongError) as exc:
                asked.errors[f"{type(exc).__name__}: {exc}"[:200]] += 1
            n += asked.clients
            await asyncio.sleep(chance.uniform(0, 2 * asked.think))


class _WrongError(Exception):
    """An answer is not as it should be."""


class _BusyError(Exception):
    """The server asks to come again."""


async def _patiently(
    asked: Load, ask_one: Any, connection: Connection, what: str, given: dict[str, Any]
) -> str:
    while True:
        try:
            found: str = await ask_one(connection, what, given)
            return found
        except _BusyError as exc:
            asked.n_busy += 1
            if not asked.patient:
                raise _WrongError(str(exc)) from exc
            await asyncio.sleep(_PATIENCE)


async def ask(connection: Connection, what: str, given: dict[str, Any]) -> str:
    """Ask by ``/v1/...``; return the id of the search that was made, ``""`` for others."""
    status, answer = await connection.post(f"/v1/{what}", given)
    if status == 503 and answer["error"]["type"] == "busy":
        raise _BusyError(answer["error"]["message"])
    if status != 200 or (what == "call" and not answer["result"]["done"]):
        raise _WrongError(f"{what}: {status} {str(answer)[:300]}")
    return str(answer.get("search_id", ""))


async def ask_by_mcp(connection: Connection, what: str, given: dict[str, Any]) -> str:
    """Ask by the tools of the MCP server, as `ask` does."""
    name = {"search": "search_tools", "call": "call_tool"}[what]
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }
    params = {"name": name, "arguments": given, "_meta": _META}
    document = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    status, answer = await connection.post(_ADDRESS, document, headers)
    if status == 503 and answer.get("error", {}).get("type") == "busy":
        raise _BusyError(answer["error"]["message"])
    if status != 200 or "result" not in answer or answer["result"].get("isError"):
        raise _WrongError(f"{what} by MCP: {status} {str(answer)[:300]}")
    return str((answer["result"].get("structuredContent") or {}).get("search_id", ""))
