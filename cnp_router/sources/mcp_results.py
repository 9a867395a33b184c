"""What an MCP server answers, as a `CallResult`: bounded, and its errors by kind."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Literal

from cnp_router.sources.mcp_http import HTTP_ERROR
from cnp_router.sources.result_size import MOST_SAID, bounded
from cnp_router.sources.source import Attachment, CallFailure, CallResult, FailureKind

if TYPE_CHECKING:
    from mcp import MCPError
    from mcp_types import CallToolResult

__all__ = ["failure_of", "result_of"]

_STATUS: dict[int, FailureKind] = {
    401: "permission",
    403: "permission",
    407: "permission",
    408: "busy",
    425: "busy",
    429: "busy",
    503: "busy",
}


def result_of(answer: CallToolResult, max_bytes: int) -> CallResult:
    """Return the result that a tool gave, bounded; ValueError where a part of it is none."""
    json.dumps(answer.structured_content, allow_nan=False)  # no file could hold a NaN
    parts = [_parts(block) for block in answer.content]
    text = "\n".join(text for text, _ in parts if text)
    failure = None
    if answer.is_error:
        said = text[:MOST_SAID] or "it failed, and does not say why"
        failure = CallFailure("tool", said, None if text else "unknown")
    attachments = tuple(each for _, each in parts if each is not None)
    return bounded(CallResult(text, answer.structured_content, attachments, failure), max_bytes)


def _parts(block: Any) -> tuple[str, Attachment | None]:
    """Return the text and the attachment that a part of an answer is."""
    if block.type == "text":
        return block.text, None
    if block.type in ("image", "audio"):
        return "", Attachment(block.mime_type, _decoded(block.data))
    if block.type == "resource_link":
        return f"{block.name}: {block.uri}", Attachment(block.mime_type or "", uri=block.uri)
    resource = block.resource
    if hasattr(resource, "text"):
        return resource.text, Attachment(resource.mime_type or "text/plain", uri=resource.uri)
    return "", Attachment(resource.mime_type or "", _decoded(resource.blob), resource.uri)


def _decoded(text: str) -> bytes:
    """Return data of base 64; ValueError where it is none."""
    return base64.b64decode(text, validate=True)


def failure_of(error: MCPError) -> CallFailure:
    """Return the failure that an error of the protocol is."""
    from mcp_types import (
        CONNECTION_CLOSED,
        INTERNAL_ERROR,
        INVALID_PARAMS,
        INVALID_REQUEST,
        METHOD_NOT_FOUND,
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        PARSE_ERROR,
        REQUEST_TIMEOUT,
        UNSUPPORTED_PROTOCOL_VERSION,
        URL_ELICITATION_REQUIRED,
    )

    known: dict[int, tuple[FailureKind, Literal["no", "unknown"]]] = {
        INVALID_PARAMS: ("inputs", "no"),
        URL_ELICITATION_REQUIRED: ("permission", "no"),
        MISSING_REQUIRED_CLIENT_CAPABILITY: ("permission", "no"),
        METHOD_NOT_FOUND: ("unusable", "no"),
        INVALID_REQUEST: ("unusable", "no"),
        UNSUPPORTED_PROTOCOL_VERSION: ("unusable", "no"),
        PARSE_ERROR: ("unusable", "unknown"),  # also what the SDK says of an answer
        REQUEST_TIMEOUT: ("timeout", "unknown"),
        CONNECTION_CLOSED: ("lost", "unknown"),
        INTERNAL_ERROR: ("tool", "unknown"),
    }
    message = error.message[:MOST_SAID] or f"error {error.code}, and no word about it"
    http = error.data.get(HTTP_ERROR) if isinstance(error.data, dict) else None
    if isinstance(http, dict):
        return _failure_of_http(http, message)
    kind, was_done = known.get(error.code, ("tool", "unknown"))
    return CallFailure(kind, message, was_done)


def _failure_of_http(http: dict[str, Any], message: str) -> CallFailure:
    status = http.get("status")
    if http.get("unsent") or status == 404:
        return CallFailure("unavailable", message, "no")
    if http.get("lost"):
        return CallFailure("lost", message)
    if http.get("too_large"):
        return CallFailure("unusable", message)
    if isinstance(status, int) and status in _STATUS:
        unsure = status in (408, 503) and not http.get("later")
        return CallFailure(_STATUS[status], message, "unknown" if unsure else "no")
    was_done: Literal["no", "unknown"] = (
        "no" if isinstance(status, int) and status < 500 else "unknown"
    )
    return CallFailure("unusable", message, was_done)
