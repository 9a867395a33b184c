from __future__ import annotations

import asyncio
import json

import pytest

from cnp_router.exceptions import DataFileError, InputError
from cnp_router.sources.configuration import SourceRef
from cnp_router.sources.saved_list import SavedList
from cnp_router.sources.source import Call

NOW = {
    "name": "now",
    "title": "Time now",
    "description": "The time.",
    "inputSchema": {"type": "object", "properties": {"zone": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
SET = {"name": "set", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False}}


@pytest.fixture
def read(tmp_path):
    def read(document, **options):
        file = tmp_path / "time.json"
        file.write_text(json.dumps(document))
        return asyncio.run(SavedList.read(SourceRef(str(file)), **options).apis())

    return read


@pytest.mark.parametrize(
    "document",
    [
        {"tools": [NOW, SET]},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [NOW, SET], "nextCursor": None}},
        [NOW, SET],
        [{"tools": [NOW], "nextCursor": "2"}, {"tools": [SET]}],
        [{"jsonrpc": "2.0", "id": 1, "result": {"tools": [NOW]}}, {"result": {"tools": [SET]}}],
        [[NOW], [SET]],
    ],
)
def test_all_forms(read, document, caplog):
    now, other = read(document)
    assert (now.id, now.name, now.description) == ("time__now", "Time now", "The time.")
    assert now.parameters == NOW["inputSchema"]
    assert (other.id, other.name, now.effects) == ("time__set", "set", "unknown")
    assert not caplog.records


@pytest.mark.parametrize(
    "document",
    [
        {"tools": [NOW], "nextCursor": "2"},
        {"id": 1, "result": {"tools": [NOW], "nextCursor": "2"}},
        [{"tools": [SET], "nextCursor": "2"}, {"tools": [NOW], "nextCursor": "3"}],
    ],
)
def test_pages_that_are_not_in_it_are_warned_of(read, document, caplog):
    assert "time__now" in [api.id for api in read(document)]
    (record,) = caplog.records
    assert record.getMessage().endswith("further pages of the list are not in it (nextCursor)")


def test_what_it_says_of_effects_counts_if_it_is_trusted(read):
    assert [api.effects for api in read([NOW, SET], trusted=["time"])] == ["reads", "writes"]
    assert [api.effects for api in read([NOW, SET], trusted=["tide"])] == ["unknown"] * 2


def test_it_is_that_of_the_server_itself(read):
    """So that an imported tool is not taken for a changed one when the server is asked."""
    from mcp_types import Tool

    from cnp_router.sources.mcp_tools import api_of

    for saved, tool in zip(read([NOW, SET]), [NOW, SET], strict=True):
        assert saved == api_of("time", Tool.model_validate(tool), False)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"error": {"code": -32601}}, "the answer is an error: {'code': -32601}"),
        ({"resources": []}, "not an answer to tools/list"),
        ("tools", "not an answer to tools/list: 'tools'"),
        ([3], "not an answer to tools/list: 3"),
        ([{**NOW, "name": 3}], "entry 1: field 'name' must be a string, got 3"),
        ([NOW, {"name": "a"}], "entry 2: missing field 'inputSchema'"),
        ([{**NOW, "inputSchema": []}], "entry 1: field 'inputSchema' must be an object, got []"),
        ([{**NOW, "annotations": {"readOnlyHint": "no"}}], "readOnlyHint must be true or false"),
        ([{**NOW, "name": " "}], "' '"),
        ([[[NOW]]], "a tool must be an object, got [{"),
    ],
)
def test_what_is_no_such_list(read, document, said):
    with pytest.raises(DataFileError) as caught:
        read(document)
    assert "time.json" in str(caught.value)
    assert said in str(caught.value)


def test_a_pattern_of_javascript_alone_is_no_reason_to_refuse(read):
    schema = {"type": "object", "properties": {"word": {"pattern": r"^\p{L}+$"}}}
    assert len(read([{**NOW, "inputSchema": schema}])) == 1


def test_no_tools_are_no_error(read):
    assert read({"tools": []}) == ()


def test_another_name(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([NOW]))
    saved = SavedList.read(SourceRef(str(tmp_path / "a.json"), "clock"))
    assert saved.name == "clock"
    with pytest.raises(InputError, match="call it by its server"):
        asyncio.run(saved.call(Call(api="clock__now")))
