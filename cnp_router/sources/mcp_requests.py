"""Requests of methods that the Model Context Protocol does not have, to servers that declare them.

A server declares them among its capabilities (`Connection.extensions`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from cnp_router.exceptions import SourceAnswerError, SourceUnavailableError
from cnp_router.printing import printable
from cnp_router.sources.mcp_connection import Connection

__all__ = ["send_request"]

_SAID = 500  # characters of what a server says of an error
_OF_THE_PROTOCOL = ("_meta", "resultType")  # the SDK's, in any answer


async def send_request(
    connection: Connection,
    method: str,
    params: Mapping[str, Any],
    *,
    timeout: float,
    max_bytes: int,
) -> dict[str, Any]:
    """Send a request once and return its answer, a JSON object of at most `max_bytes`.

    Raises
    ------
    SourceUnavailableError
        If there is no answer in time, or the connection breaks.
    SourceAnswerError
        If the answer is an error, or too long.
    """
    from mcp import MCPError
    from mcp_types import Request
    from pydantic import RootModel

    source = connection.source
    request = Request[dict[str, Any], str](method=method, params=dict(params))
    try:
        async with asyncio.timeout(timeout):
            said = await connection.client.session.send_request(request, RootModel[dict[str, Any]])
    except TimeoutError:
        connection.is_suspect = True
        problem = f"no answer to {method} within {timeout:g} s"
        raise SourceUnavailableError(source, problem) from None
    except (MCPError, ValueError, RuntimeError) as exc:
        if connection.link.ended.is_set():
            await connection.wait_over()
            raise connection.error() from None
        text = printable(connection.clean(str(exc)), _SAID)
        raise SourceAnswerError(source, f"an error for {method}: {text}") from None
    answer = {name: value for name, value in said.root.items() if name not in _OF_THE_PROTOCOL}
    size = len(json.dumps(answer))
    if size > max_bytes:
        problem = f"an answer to {method} of {size:,} bytes, and at most {max_bytes:,} are taken"
        raise SourceAnswerError(source, problem)
    return answer
