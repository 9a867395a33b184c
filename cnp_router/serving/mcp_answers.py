"""What the gateway answers, as results of MCP tools: what a model reads is kept short."""

from __future__ import annotations

import base64
import json
from typing import Any

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from cnp_router.catalog import Api
from cnp_router.serving.search_answers import Called, Search, tool_to_dict
from cnp_router.sources.source import Attachment, CallFailure

__all__ = [
    "as_listed",
    "called_answer",
    "error_answer",
    "returned",
    "route_answer",
    "schema_of",
    "search_answer",
]

_EFFECTS = {"reads": "", "writes": " (writes)", "unknown": " (may write)"}
_FAILURE, _NEXT, _SEARCH_ID = "cnp-router/failure", "cnp-router/next", "cnp-router/search_id"
_NOTES = "cnp-router/notes"


def search_answer(search: Search) -> types.CallToolResult:
    """Return the tools of a search: each with its schema, to be called by."""
    lines = [_head(search)]
    for found in search.tools:
        api = found.api
        lines += [
            f"{api.id}{_EFFECTS[api.effects]}: {' '.join(api.description.split())}",
            f"inputs {_compact(schema_of(api))}",
        ]
    return _answer("\n".join(lines), search.to_dict())


def route_answer(search: Search) -> types.CallToolResult:
    """Return a decision: who would be asked, how sure that is and why."""
    lines = [f"search_id {search.search_id}, confidence {search.confidence:.2f}", search.verdict]
    for found in search.tools:
        sure = "" if found.probability is None else f" {found.probability:.2f}"
        why = "; ".join(reason.text for reason in found.reasons)
        lines.append(f"{found.api.id}{sure}{f': {why}' if why else ''}")
    document = search.decision_to_dict()
    return _answer("\n".join(lines), document)


def called_answer(called: Called, version: str) -> types.CallToolResult:
    """Return what a tool returned, in the protocol of that version."""
    result = called.result
    content: list[Any] = []
    if result.failure is not None:
        content.append(_text(_said(result.failure)))
    if result.text and (result.failure is None or result.text not in result.failure.message):
        content.append(_text(result.text))
    content += [block for each in result.attachments for block in _blocks(each)]
    if result.is_cut:
        content.append(_text(f"(cut: it had {result.n_bytes:,} bytes)"))
    structured = result.structured
    if structured is not None and not isinstance(structured, dict):
        # Before 2026-07-28 it had to be an object.
        structured = structured if version in MODERN_PROTOCOL_VERSIONS else {"result": structured}
    return types.CallToolResult(
        content=content,
        structured_content=structured,
        is_error=result.failure is not None,
        _meta=_meta(called),
    )


def as_listed(answer: types.CallToolResult, returns: dict[str, Any] | None) -> types.CallToolResult:
    """Return an answer as the list of tools promises it, or as an error that says what is missing.

    Clients refuse an answer without the structured content that was promised.
    """
    if returns is None or answer.is_error or answer.structured_content is not None:
        return answer
    missing = _text("unusable: it gave nothing structured, or too much of it")
    return answer.model_copy(update={"is_error": True, "content": [missing, *answer.content]})


def returned(api: Api) -> dict[str, Any] | None:
    """Return the JSON Schema of the objects that an API gives, if it says so."""
    schema = api.returns
    return dict(schema) if schema is not None and schema.get("type") == "object" else None


def error_answer(message: str) -> types.CallToolResult:
    """Return an error that a model can read and act on."""
    return types.CallToolResult(content=[_text(message)], is_error=True)


def schema_of(api: Api) -> dict[str, Any]:
    """Return the JSON Schema of what an API takes."""
    schema: dict[str, Any] = tool_to_dict(api)["inputSchema"]
    return schema


def _head(search: Search) -> str:
    sure = search.acted and search.fits
    said = f"confidence {search.confidence:.2f}" if sure else search.verdict
    return f"search_id {search.search_id}, {said}"


def _said(failure: CallFailure) -> str:
    unsure = " (nobody knows whether it was done)" if failure.was_done == "unknown" else ""
    kind = "" if failure.message.startswith(failure.kind) else f"{failure.kind}: "
    return f"{kind}{failure.message}{unsure}"


def _meta(called: Called) -> dict[str, Any] | None:
    """Return what belongs to a result and is not part of it."""
    failure = called.result.failure
    meta: dict[str, Any] = {}
    if failure is not None:
        meta[_FAILURE] = {
            "kind": failure.kind,
            "message": failure.message,
            "was_done": failure.was_done,
        }
    if called.search_id is not None:
        meta[_SEARCH_ID] = called.search_id
    if called.result.notes:
        meta[_NOTES] = list(called.result.notes)
    if called.next:
        meta[_NEXT] = called.to_dict()["next"]
    return meta or None


def _blocks(each: Attachment) -> list[Any]:
    """Return an attachment as the protocol has it."""
    kind, _, _ = each.media_type.partition("/")
    data = base64.b64encode(each.data).decode()
    if not each.data:
        if not each.uri:
            return [_text(f"({each.media_type} left out: it is too large)")]
        name = each.uri.rstrip("/").rpartition("/")[2] or each.uri
        media = each.media_type or None
        return [types.ResourceLink(name=name, uri=each.uri, mime_type=media)]
    if kind == "image" and not each.uri:
        return [types.ImageContent(data=data, mime_type=each.media_type)]
    if kind == "audio" and not each.uri:
        return [types.AudioContent(data=data, mime_type=each.media_type)]
    uri, media = each.uri or "attachment:", each.media_type or None
    text = _decoded(each)
    resource: Any = types.BlobResourceContents(uri=uri, mime_type=media, blob=data)
    if text is not None:
        resource = types.TextResourceContents(uri=uri, mime_type=media, text=text)
    return [types.EmbeddedResource(resource=resource)]


def _decoded(each: Attachment) -> str | None:
    """Return the text that an attachment is, if it says that it is one."""
    media = each.media_type.partition(";")[0]
    if not media.startswith("text/") and media != "application/json":
        return None
    try:
        return each.data.decode()
    except UnicodeDecodeError:
        return None


def _answer(text: str, structured: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[_text(text)], structured_content=structured)


def _text(text: str) -> types.TextContent:
    return types.TextContent(text=text)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
