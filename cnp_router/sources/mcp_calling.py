"""One call over a connection to an MCP server: sent once, and what comes of it in words."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cnp_router.exceptions import SourceAnswerError
from cnp_router.sources.mcp_connection import Connection
from cnp_router.sources.mcp_http import HTTP_ERROR
from cnp_router.sources.mcp_results import failure_of, result_of
from cnp_router.sources.source import Call, CallFailure, CallProgress, CallResult

if TYPE_CHECKING:
    from mcp import MCPError

__all__ = ["send"]

_PROGRESS_LENGTH = 500


async def send(
    connection: Connection, call: Call, tool: str, notes: list[str], max_bytes: int
) -> CallResult:
    """Send a call and return what came of it."""
    from mcp import MCPError

    meta: Any = {"idempotencyKey": call.key} if call.key else None

    async def passed_on(progress: float, total: float | None, message: str | None) -> None:
        assert call.on_progress is not None
        try:
            call.on_progress(CallProgress(progress, total, (message or "")[:_PROGRESS_LENGTH]))
        except Exception as exc:  # somebody else's: it must not end the call
            note = f"on_progress raised {type(exc).__name__}"
            if note not in notes:
                notes.append(note)

    try:
        async with asyncio.timeout(call.timeout):
            answer = await connection.client.call_tool(
                tool,
                dict(call.inputs),
                progress_callback=passed_on if call.on_progress is not None else None,
                meta=meta,
            )
        return result_of(answer, max_bytes)
    except TimeoutError:
        connection.is_suspect = True
        return CallResult.failed("timeout", f"no answer within {call.timeout:g} s")
    except (MCPError, ValueError, RuntimeError) as exc:
        if connection.link.ended.is_set():
            return CallResult(failure=await _loss(connection))
        if isinstance(exc, MCPError):
            return CallResult(failure=_refusal(connection, exc, notes))
        # The other two are how the SDK says that an answer is none.
        text = connection.clean(f"an answer that cannot be used: {str(exc)[:500]}")
        return CallResult.failed("unusable", text)


async def _loss(connection: Connection) -> CallFailure:
    """Return why a connection ended in a call, once everything of it is gone."""
    await connection.wait_over()
    error = connection.error()
    if isinstance(error, SourceAnswerError):
        return CallFailure("unusable", error.problem)
    return CallFailure("lost", f"the connection was lost: {error.problem}")


def _refusal(connection: Connection, exc: MCPError, notes: list[str]) -> CallFailure:
    """Return the failure that an error of the protocol is."""
    http = exc.data.get(HTTP_ERROR) if isinstance(exc.data, dict) else None
    if isinstance(http, dict) and (http.get("unsent") or http.get("status") == 404):
        connection.end(exc.message)  # its session is gone
    failure = failure_of(exc)
    declined = [note for note in notes if note.startswith("declined")]
    if declined and failure.kind == "unusable":
        return CallFailure("tool", "; ".join(declined), "unknown")
    return replace(failure, message=connection.clean(failure.message))
