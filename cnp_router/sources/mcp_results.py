"""What an MCP server answers, as a `CallResult`: bounded, and its errors by kind."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Literal

from cnp_router.sources.mcp_http import HTTP_ERROR
from cnp_router.sources.source import Attachment, CallFailure, CallResult, FailureKind

if TYPE_CHECKING:
    from mcp import MCPError
    from mcp_types import CallToolResult

__all__ = ["failure_of", "result_of"]

_MESSAGE_LENGTH = 2_000
_STATUS: dict[int, FailureKind] = {
    401: "permission",
    403: "permission",
    407: "permission",
    429: "busy",
    503: "busy",
}


def result_of(answer: CallToolResult, max_bytes: int) -> CallResult:
    """Return the result that a tool gave, of at most `max_bytes` of text, of data and of JSON.

    Text comes first: of it the beginning is kept. An attachment or structured result that does not
    fit is left out as a whole.
    """
    texts: list[str] = []
    found: list[Attachment] = []
    n_bytes = 0
    for block in answer.content:
        text, attachment = _parts(block)
        if text:
            texts.append(text)
        if attachment is not None:
            found.append(attachment)
            n_bytes += len(attachment.data)
    whole = "\n".join(texts).encode(errors="replace")
    text = whole[:max_bytes].decode(errors="ignore")
    n_bytes += len(whole)
    is_cut = len(whole) > max_bytes

    attachments = []
    left = max_bytes
    for each in found:
        fits = len(each.data) <= left
        left -= len(each.data) if fits else 0
        attachments.append(each if fits else Attachment(each.media_type, uri=each.uri))
        is_cut = is_cut or not fits

    structured = answer.structured_content
    if structured is not None:
        size = len(json.dumps(structured, ensure_ascii=False).encode(errors="replace"))
        n_bytes += size
        if size > max_bytes:
            structured, is_cut = None, True
    failure = None
    if answer.is_error:
        failure = CallFailure("tool", text[:_MESSAGE_LENGTH] or "it failed, and does not say why")
    return CallResult(text, structured, tuple(attachments), failure, n_bytes=n_bytes, is_cut=is_cut)


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
    message = error.message[:_MESSAGE_LENGTH] or f"error {error.code}, and no word about it"
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
        return CallFailure(_STATUS[status], message, "no")
    was_done: Literal["no", "unknown"] = (
        "no" if isinstance(status, int) and status < 500 else "unknown"
    )
    return CallFailure("unusable", message, was_done)
