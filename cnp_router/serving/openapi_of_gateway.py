"""`openapi_of`: the OpenAPI document of the gateway over HTTP."""

from __future__ import annotations

from typing import Any, get_args

from cnp_router.sources.source import FailureKind
from cnp_router.version import __version__

__all__ = ["openapi_of"]

_Schema = dict[str, Any]

_TEXT: _Schema = {"type": "string"}
_SHARE: _Schema = {"type": "number", "minimum": 0, "maximum": 1}
_SECONDS: _Schema = {"type": "number", "minimum": 0}
_BASE64: _Schema = {"contentEncoding": "base64"}
_SEARCH_ID: _Schema = {"type": "string", "description": "That of a search or of a routing."}


def _list(of: _Schema) -> _Schema:
    return {"type": "array", "items": of}


def _or_null(schema: _Schema) -> _Schema:
    """Return a schema that takes null as well; `schema` has one type."""
    return schema | {"type": [schema["type"], "null"]}


def _object(required: str, **properties: _Schema) -> _Schema:
    return {"type": "object", "properties": properties, "required": required.split()}


def _closed(required: str, **properties: _Schema) -> _Schema:
    """Return the schema of a body that is sent: an unknown field is an error."""
    return _object(required, **properties) | {"additionalProperties": False}


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_NOT_ACTED = "Null where `acted` is false."
_TOOL = _object(
    "name description inputSchema",
    name=_TEXT,
    description=_TEXT,
    inputSchema={"type": "object", "description": "JSON Schema of the inputs."},
    effects={"type": "string", "enum": ["reads", "writes", "unknown"]},
)
_FOUND = _object(
    "search_id query tools fits confidence verdict acted",
    search_id=_SEARCH_ID,
    query=_TEXT,
    tools=_list(_ref("FoundTool")),
    fits={"type": ["boolean", "null"], "description": f"Whether any tool fits. {_NOT_ACTED}"},
    confidence=_or_null(_SHARE)
    | {"description": f"That the tools needed are among those found. {_NOT_ACTED}"},
    verdict={"type": "string", "description": "The decision, in words."},
    acted={
        "type": "boolean",
        "description": "Whether the tools are those that the router chose; otherwise all.",
    },
)
_SCHEMAS: dict[str, _Schema] = {
    "SearchBody": _closed(
        "query",
        query={"type": "string", "description": "What is needed, in plain language."},
        k={"type": ["integer", "null"], "minimum": 1, "description": "The most tools to return."},
    ),
    "RouteBody": _closed(
        "request", request={"type": "string", "description": "What is needed, in plain language."}
    ),
    "CallBody": _closed(
        "name",
        name={"type": "string", "description": "The name of a tool."},
        inputs={"type": "object", "description": "As its inputSchema says.", "default": {}},
        search_id={
            "type": ["string", "null"],
            "description": "The search that found the tool: what comes of it teaches the router.",
        },
    ),
    "FeedbackBody": _closed(
        "search_id rating",
        search_id=_SEARCH_ID,
        rating={"type": "integer", "minimum": 1, "maximum": 5, "description": "5 is best."},
    ),
    "Tool": _TOOL,
    "FoundTool": {
        "allOf": [_ref("Tool")],
        "type": "object",
        "properties": {
            "probability": _or_null(_SHARE) | {"description": _NOT_ACTED},
            "reasons": _list(_TEXT) | {"description": "The strongest first."},
        },
        "required": ["probability", "reasons"],
    },
    "Tools": _object(
        "total tools",
        total={"type": "integer", "minimum": 0},
        tools=_list(_ref("Tool")),
    ),
    "Search": _FOUND,
    "Routing": {
        "allOf": [_ref("Search")],
        "type": "object",
        "properties": {"routing": {"type": "object", "description": "The whole decision."}},
        "required": ["routing"],
    },
    "Called": _object(
        "name search_id result next",
        name=_TEXT,
        search_id=_or_null(_TEXT),
        result=_ref("Result"),
        next=_list(_object("name probability", name=_TEXT, probability=_SHARE))
        | {"description": "The tools that are likely to be called next, the likeliest first."},
    ),
    "Result": _object(
        "done text structured attachments failure seconds start_seconds bytes cut notes",
        done={"type": "boolean", "description": "Whether the tool did it."},
        text=_TEXT | {"description": "The result as a person or a model reads it."},
        structured={"description": "Any JSON value; null where the tool gives none."},
        attachments=_list(
            _object("media_type data uri", media_type=_TEXT, uri=_TEXT, data=_TEXT | _BASE64)
        ),
        failure={
            "anyOf": [
                _object(
                    "kind message was_done",
                    kind={"type": "string", "enum": list(get_args(FailureKind))},
                    message=_TEXT,
                    was_done={"type": "string", "enum": ["no", "unknown"]},
                ),
                {"type": "null"},
            ],
            "description": "Why there is no result: what went wrong in the tool is here, too.",
        },
        seconds=_SECONDS,
        start_seconds=_or_null(_SECONDS) | {"description": "How long the source took to start."},
        bytes={"type": "integer", "minimum": 0, "description": "Its size before it was cut."},
        cut={"type": "boolean", "description": "Whether a part of it was left out."},
        notes=_list(_TEXT),
    ),
    "Health": _object(
        "status version",
        status={"type": "string", "enum": ["ok", "closed"]},
        version=_TEXT,
        tools={"type": "integer", "minimum": 0, "description": "How many the client may see."},
        sources={"type": "object", "additionalProperties": _TEXT},
        learns={"type": "boolean"},
        problems=_list(_TEXT),
        in_flight={"type": "integer", "minimum": 0},
    )
    | {"description": "Without a token, where one is needed, status and version only."},
    "Error": _object("error", error=_object("type message", type=_TEXT, message=_TEXT)),
}

_ERRORS = {
    400: "The body or a parameter cannot be used.",
    401: "A token is needed, or it is wrong.",
    403: "Asked from a place, or by a client, that may not ask.",
    404: "There is no such tool, or no such search.",
    405: "Another method is needed.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    500: "Something went wrong in the server.",
    503: "Too much to do, or a source is away: ask again after the seconds of Retry-After.",
    504: "It took too long, and was given up.",
}


def openapi_of(*, needs_token: bool = False) -> dict[str, Any]:
    """Return the document of the HTTP API, OpenAPI 3.1.

    Parameters
    ----------
    needs_token : bool, default=False
        Whether clients need a bearer token.

    Returns
    -------
    dict
        JSON values. Its server is wherever it was read from.

    Examples
    --------
    >>> sorted(openapi_of()["paths"])[:2]
    ['/healthz', '/metrics']
    """
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The same for each attempt at one and the same act.",
        "schema": _TEXT,
    }
    pages = [
        {
            "name": name,
            "in": "query",
            "description": f"{what} of the tools.",
            "schema": {"type": "integer", "minimum": least},
        }
        for name, what, least in (("offset", "The first", 0), ("limit", "The most", 1))
    ]
    paths: dict[str, dict[str, Any]] = {
        "/v1/search": _post(
            "search",
            "Find the tools that a request needs",
            "SearchBody",
            "Search",
        ),
        "/v1/route": _post(
            "route",
            "Decide who would be asked, how surely, and why",
            "RouteBody",
            "Routing",
        ),
        "/v1/call": _post("call", "Call a tool", "CallBody", "Called", parameters=[key]),
        "/v1/feedback": _post(
            "rate", "Say how good the tools of a search were", "FeedbackBody", "FeedbackBody"
        ),
        "/v1/tools": _get("tools", "List the tools", _json(_ref("Tools")), parameters=pages),
        "/healthz": _get("health", "Say whether the server is there", _json(_ref("Health"))),
        "/metrics": _get("metrics", "Give the metrics for Prometheus", {"text/plain": {}}),
    }
    paths["/healthz"]["get"]["security"] = []
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "cnp-router",
            "version": __version__,
            "description": "Finds the tools that a request needs among those of many sources, "
            "and calls them.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }
    if needs_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _json(schema: _Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _get(name: str, summary: str, content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "get": {"operationId": name, "summary": summary, **more}
        | {"responses": _responses(content, (400, 401, 403))}
    }


def _post(name: str, summary: str, body: str, answer: str, **more: Any) -> dict[str, Any]:
    return {
        "post": {"operationId": name, "summary": summary, **more}
        | {
            "requestBody": {"required": True, "content": _json(_ref(body))},
            "responses": _responses(_json(_ref(answer)), tuple(_ERRORS)),
        }
    }


def _responses(content: dict[str, Any], errors: tuple[int, ...]) -> dict[str, Any]:
    failed = _json(_ref("Error"))
    return {"200": {"description": "Done.", "content": content}} | {
        str(status): {"description": _ERRORS[status], "content": failed} for status in errors
    }
