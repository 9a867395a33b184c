"""What is seen of a call by whoever watches: a span of the GenAI conventions, and counts."""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Awaitable
from typing import Any

from cnp_router import telemetry
from cnp_router.sources.source import Call, CallResult, Source

__all__ = ["called_as", "counted", "delegated"]

# Ours are digests; what a client makes up may be anything.
_DIGEST = re.compile("[0-9a-f]{32}")


def called_as(call: Call, source: Source) -> dict[str, Any]:
    """Return the attributes of the span of a call."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.api,
        "gen_ai.tool.type": source.tool_type,
        "gen_ai.tool.call.id": call.key if _DIGEST.fullmatch(call.key) else None,
        "cnp_router.source.name": source.name,
        "cnp_router.effects": None if call.definition is None else call.definition.effects,
    }


async def counted(
    calling: Awaitable[CallResult], source: Source, span: telemetry.Span
) -> CallResult:
    """Count a call by what came of it, and return that; also one that somebody gave up."""
    try:
        result = await calling
    except CancelledError:
        _count("cancelled", source, span)
        raise
    kind = None if result.failure is None else result.failure.kind
    if kind is not None:
        span.fail(kind)
    _count(kind, source, span)
    return result


def _count(kind: str | None, source: Source, span: telemetry.Span) -> None:
    of = {"source": source.name, "outcome": _outcome(kind)}
    telemetry.add("cnp_router.tool.calls", 1, {**of, "error.type": kind})
    telemetry.record("cnp_router.tool.duration", span.seconds, of)
    if source.is_agent:
        delegated(kind, span.seconds)


def _outcome(kind: str | None) -> str:
    """Return what came of a call with that kind of failure, if it failed."""
    if kind is None:
        return "done"
    return "cancelled" if kind == "cancelled" else "failed"


def delegated(kind: str | None, seconds: float) -> None:
    """Count a question to another agent, by its kind of failure, if it failed."""
    outcome = _outcome(kind)
    telemetry.add("cnp_router.delegations", 1, {"outcome": outcome, "error.type": kind})
    telemetry.record("cnp_router.delegation.duration", seconds, {"outcome": outcome})
