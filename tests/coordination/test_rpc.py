"""The messages of coordination: what may be asked and answered."""

from __future__ import annotations

import json

import pytest

from cnp_router.coordination.rpc import (
    METHODS,
    CapabilitiesFound,
    CapabilityNegotiate,
    ContextKept,
    ContextPropagate,
    Negotiated,
    RpcRequest,
    RpcResponse,
    declared_methods,
    read_message,
)
from cnp_router.exceptions import InputError

PROPAGATED = {
    "jsonrpc": "2.0",
    "method": "context/propagate",
    "params": {
        "source_server": "server_a",
        "context_id": "ctx_abc123",
        "data": {"query_result": "...", "metadata": {"timestamp": "2025-01-20T10:00:00Z"}},
        "embedding": [0.12, -0.34, 0.56],
        "ttl": 300,
        "dependencies": ["ctx_xyz789"],
    },
}


def test_a_message_as_the_article_has_it_is_read_and_written():
    request = RpcRequest.model_validate_json(json.dumps(PROPAGATED))
    content = request.content
    assert isinstance(content, ContextPropagate)
    assert (content.source_server, content.ttl) == ("server_a", 300)
    assert content.model_dump(mode="json") == PROPAGATED["params"]
    assert request.id is None
    assert json.loads(request.model_dump_json()) == PROPAGATED


@pytest.mark.parametrize(
    "changed", [{"jsonrpc": None}, {"jsonrpc": "1.0"}, {"id": None}, {"id": 1.5}, {"more": 1}]
)
def test_requests_that_are_none(changed):
    for wrong in (PROPAGATED | changed, {n: v for n, v in PROPAGATED.items() if n != "jsonrpc"}):
        with pytest.raises(ValueError, match=r"jsonrpc|id|more"):
            RpcRequest.model_validate(wrong)


@pytest.mark.parametrize(
    "changed",
    [
        {"source_server": ""},
        {"context_id": None},
        {"data": "text"},
        {"embedding": ["0.1"]},
        {"embedding": [float("nan")]},
        {"ttl": "300"},
        {"ttl": -1},
        {"dependencies": "ctx"},
        {"dependencies": [""]},
    ],
)
def test_context_that_is_none(changed):
    with pytest.raises(InputError, match="not a ContextPropagate"):
        read_message(ContextPropagate, {**PROPAGATED["params"], **changed})


@pytest.mark.parametrize("left_out", ["source_server", "context_id", "data"])
def test_what_context_must_have(left_out):
    params = {name: v for name, v in PROPAGATED["params"].items() if name != left_out}
    with pytest.raises(InputError, match=f"{left_out}: Field required"):
        read_message(ContextPropagate, params)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Negotiated, {}),
        (Negotiated, {"status": True}),
        (Negotiated, {"status": "accepted", "reason": 7}),
        (ContextKept, {"kept": "yes"}),
        (CapabilitiesFound, {"capabilities": ["search"]}),
        (CapabilitiesFound, {"capabilities": [{"name": "x" * 301}]}),
        (CapabilityNegotiate, {"task": "a map"}),
    ],
)
def test_answers_that_are_none(kind, data):
    with pytest.raises(InputError, match=f"not a {kind.__name__}"):
        read_message(kind, data)


def test_a_text_that_is_too_long_is_cut():
    answer = read_message(Negotiated, {"status": "declined", "reason": "x" * 2_001})
    assert (answer.status, len(answer.reason)) == ("declined", 2_000)


def test_an_error_does_not_show_what_came():
    with pytest.raises(InputError) as caught:
        read_message(Negotiated, {"status": "secret-7f3a", "reason": "secret-9"})
    assert "secret" not in str(caught.value)


def test_what_is_not_known_is_passed_over():
    assert read_message(Negotiated, {"status": "accepted", "price": 3}).status == "accepted"


def test_a_method_that_there_is_not():
    with pytest.raises(InputError, match=r"unknown method 'capability/sing' \(use one of context"):
        RpcRequest(jsonrpc="2.0", method="capability/sing", id=1).content  # noqa: B018


def test_a_response_has_a_result_or_an_error():
    said = '{"jsonrpc": "2.0", "id": 1, "result": {"kept": true}}'
    assert RpcResponse.model_validate_json(said).result == {"kept": True}
    error = '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}}'
    assert RpcResponse.model_validate_json(error).error.code == -32601
    for text in (said, error):
        assert json.loads(RpcResponse.model_validate_json(text).model_dump_json()) == json.loads(
            text
        )
    for wrong in (
        '{"jsonrpc": "2.0", "id": 1}',
        '{"jsonrpc": "1.0", "id": 1, "result": 1}',
        '{"jsonrpc": "2.0", "id": 1, "result": 1, "error": {"code": 1, "message": ""}}',
        '{"jsonrpc": "2.0", "id": 1, "result": 1, "more": 1}',
        '{"id": 1, "result": 1}',
        '{"jsonrpc": "2.0", "id": 1, "result": 1, "error": null}',
        '{"jsonrpc": "2.0", "id": 1, "error": null}',
        '{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "", "more": 1}}',
    ):
        with pytest.raises(ValueError):
            RpcResponse.model_validate_json(wrong)


@pytest.mark.parametrize(
    ("extensions", "declared"),
    [
        ({}, ()),
        ({"any/thing": {"methods": list(METHODS)}}, METHODS),
        ({"context/propagate": {}}, ("context/propagate",)),
        ({"context/propagate": None, "x": 7}, ("context/propagate",)),
        ({"x": {"methods": "capability/negotiate"}}, ()),
        ({"x": {"methods": [7, None, ["capability/negotiate"], "tools/call"]}}, ()),
    ],
)
def test_what_a_server_declares(extensions, declared):
    assert declared_methods(extensions) == frozenset(declared)
