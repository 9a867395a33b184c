"""What an entry of `mcp.json` may say of an MCP server, and what its tools become."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import httpx2
import pytest
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from cnp_router.exceptions import InputError, MissingExtraError, SourceAnswerError
from cnp_router.sources import Attachment, Call, McpServer
from cnp_router.sources.mcp_results import result_of
from cnp_router.sources.mcp_tools import api_of

SECRET = "xK9-very-secret"


def read(**fields: object) -> McpServer:
    return McpServer.from_entry("it", fields, folder=Path("/base"), trusted=False)


class TestEntry:
    def test_a_command(self):
        server = read(command="run", args=["a", ""], env={"TOKEN": SECRET}, cwd="sub", type="stdio")
        assert (server._command, server._args) == ("run", ("a", ""))
        assert server._cwd == Path("/base/sub")

    def test_without_a_folder_of_its_own_it_is_started_in_that_of_the_file(self):
        assert read(command="run")._cwd == Path("/base")
        assert read(url="http://127.0.0.1:1/mcp")._cwd is None

    def test_a_command_with_a_folder_is_relative_to_the_file(self):
        assert read(command="bin/run")._command == os.path.join("/base", "bin/run")  # noqa: PTH118
        assert read(command="/bin/run")._command == "/bin/run"

    @pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp", None])
    def test_a_url(self, kind):
        server = read(url="http://127.0.0.1:1/mcp", headers={"X-Key": SECRET}, type=kind)
        assert server._url == "http://127.0.0.1:1/mcp"

    def test_what_other_programs_keep_there_is_passed_over(self):
        assert read(command="run", mode="legacy", start_timeout=90)._start_timeout == 90
        others = {"alwaysAllow": [], "autoApprove": ["a"], "timeout": 60, "description": "It."}
        assert read(command="run", **others)._command == "run"

    def test_what_is_not_known_is_passed_over_and_named(self, caplog):
        others = {"envFile": SECRET, "trust": True, "includeTools": [], "transportType": "stdio"}
        assert read(command="run", **others, timeout=60)._command == "run"
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert record.getMessage() == (
            "source 'it': passed over 'envFile', 'trust', 'includeTools', 'transportType' (known "
            "are args, command, cwd, disabled, effects, env, headers, max_bytes, max_concurrency, "
            "mode, start_timeout, trusted, type, url)"
        )

    @pytest.mark.parametrize(
        ("fields", "problem"),
        [
            ({}, "of source 'it', got none of them"),
            ({"command": "run", "url": "http://a"}, "got command and url"),
            ({"comand": "run"}, "unknown field 'comand' (did you mean 'command'?)"),
            ({"Command": "run"}, "unknown field 'Command' (did you mean 'command'?)"),
            ({"command": "run", "truste": True}, "unknown field 'truste' (did you mean 'trusted'"),
            ({"command": "run", "effect": {}}, "unknown field 'effect' (did you mean 'effects'?)"),
            ({"url": "http://a", "header": {}}, "unknown field 'header' (did you mean 'headers'?"),
            ({"command": ""}, "command must be a string"),
            ({"command": 7}, "command must be a string without zero bytes, got a int"),
            ({"command": "run", "args": "one"}, "args must be a list of strings"),
            ({"command": "run", "args": [8080]}, "args must be a list of strings"),
            ({"command": "run", "env": ["A=1"]}, "env must be an object of strings, got a list"),
            ({"command": "run", "env": {"A": 1}}, "env 'A' must be a string"),
            ({"command": "run", "env": {"A=B": "1"}}, "env has a name that cannot be used"),
            ({"command": "run", "headers": {"A": "b"}}, "headers and auth belong to a 'url'"),
            ({"url": "http://a", "args": ["b"]}, "args, env and cwd belong to a 'command'"),
            ({"url": "ftp://a"}, "url must begin with http:// or https://"),
            ({"url": "http://"}, "and name a host"),
            ({"url": "http://a:port"}, "url must begin"),
            ({"url": "http://a", "headers": {"A": "b\r\nC: d"}}, "headers 'A' must be one line"),
            ({"url": "http://a", "headers": {"A": "ü"}}, "headers 'A' must be one line of ASCII"),
            ({"url": "http://a", "type": "sse"}, "field 'type' must be 'stdio' or 'http'"),
            ({"url": "http://a", "type": ["http"]}, "field 'type' must be 'stdio' or 'http'"),
            ({"url": "http://a", "type": "stdio"}, "and field 'command' is missing"),
        ],
    )
    def test_one_that_is_wrong(self, fields, problem):
        with pytest.raises(InputError) as caught:
            read(**fields)
        assert problem in str(caught.value)

    @pytest.mark.parametrize(
        "fields",
        [
            {"command": "run", "env": {"A": f"{SECRET}\0"}},
            {"command": f"{SECRET}\0"},
            {"command": "run", "args": [f"{SECRET}\0"]},
            {"url": "http://a", "headers": {"A": f"{SECRET}\n"}},
            {"url": f"nothing://{SECRET}"},
        ],
    )
    def test_values_are_not_shown(self, fields):
        with pytest.raises(InputError) as caught:
            read(**fields)
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize(
        "fields",
        [
            {"command": "run", "args": [f"--api-key={SECRET}"]},
            {"command": "run", "args": ["-v", "--api-key", SECRET]},
            {"command": "run", "args": ["--header", f"Authorization: Bearer {SECRET}"]},
            {"command": "run", "args": [f"--header=Authorization: Bearer {SECRET}"]},
            {"command": "docker", "args": ["run", "-e", f"TOKEN={SECRET}"]},
            {"command": "run", "args": [f"https://a/mcp?b=1&c={SECRET}"]},
            {"command": "run", "args": [f"postgres://ada:{SECRET}@a/db"]},
            {"url": f"https://a/mcp?b=1&c={SECRET}#d"},
            {"url": "https://a/mcp?c=%78K9-very-secret"},
        ],
    )
    def test_what_may_be_a_secret_is_in_no_error(self, fields):
        cleaned = read(**fields)._clean(f"no, run: {SECRET} is wrong, Authorization: too")
        assert cleaned == "no, run: *** is wrong, Authorization: too"

    def test_what_is_written_in_an_address_is_in_no_error(self):
        assert read(url="https://a/?c=%78K9-secret")._clean("c=%78K9-secret") == "c=***"

    def test_short_words_and_programs_stay(self):
        args = ["-c", "import sys; mode=5; sys.exit('failed?')", "--mode=debug", "--root", "folder"]
        said = "import failed: sys.exit in mode debug of folder"
        assert read(command="run", args=args)._clean(said) == said

    def test_settings(self):
        for wrong in ({"mode": "new"}, {"start_timeout": 0}, {"max_bytes": 0}, {"grace": -1}):
            with pytest.raises(InputError):
                McpServer("it", command="run", **wrong)
        with pytest.raises(InputError) as caught:
            McpServer("it", command="run", secrets=SECRET)
        assert str(caught.value) == "secrets must be a list of strings"
        with pytest.raises(InputError, match="auth belong"):
            McpServer("it", command="run", auth=httpx2.BasicAuth("me", SECRET))
        with pytest.raises(InputError):
            McpServer("a__b", command="run")

    def test_without_the_library(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "mcp", None)
        server = McpServer("it", command="run")
        with pytest.raises(MissingExtraError, match=r"pip install 'cnp-router\[mcp\]'"):
            asyncio.run(server.apis())
        with pytest.raises(MissingExtraError):
            asyncio.run(server.call(Call(api="it__a")))


class TestTool:
    def test_all_that_it_says(self):
        schema = {"type": "object", "properties": {"zone": {"type": "string"}}}
        hints = ToolAnnotations(read_only_hint=True)
        tool = Tool(
            name="now", title="The time", description="Now.", input_schema=schema, annotations=hints
        )
        api = api_of("it", tool, trusted=True)
        assert (api.id, api.name, api.description) == ("it__now", "The time", "Now.")
        assert (api.parameters, api.effects) == (schema, "reads")
        assert api_of("it", tool, trusted=False).effects == "unknown"

    @pytest.mark.parametrize(
        ("hint", "effects"), [(True, "reads"), (False, "writes"), (None, "unknown")]
    )
    def test_hints(self, hint, effects):
        hints = ToolAnnotations(read_only_hint=hint, title="Its time")
        tool = Tool(name="now", input_schema={"type": "object"}, annotations=hints)
        api = api_of("it", tool, trusted=True)
        assert (api.effects, api.name) == (effects, "Its time")

    def test_no_hints(self):
        api = api_of("it", Tool(name="now", input_schema={"type": "object"}), trusted=True)
        assert (api.effects, api.name, api.description) == ("unknown", "now", "")

    def test_long_words_are_cut(self):
        tool = Tool(
            name="now", title="t" * 900, description="d" * 90_000, input_schema={"type": "object"}
        )
        api = api_of("it", tool, trusted=True)
        assert (len(api.name), len(api.description)) == (200, 8_000)

    @pytest.mark.parametrize(
        "name", ["", " now", "no\u200bw", "no\tw", "now\n", "the time", "nöw", "n" * 129, "a;b"]
    )
    def test_a_name_that_cannot_be_an_id(self, name):
        with pytest.raises(SourceAnswerError, match="cannot be used: its name must be") as caught:
            api_of("it", Tool(name=name, input_schema={"type": "object"}), trusted=True)
        assert str(caught.value).isascii() and str(caught.value).isprintable()
        assert len(str(caught.value)) < 250

    @pytest.mark.parametrize("name", ["a", "n" * 128, "repos/get:all_of-v1.2", "__a__"])
    def test_a_name_that_can(self, name):
        api = api_of("it", Tool(name=name, input_schema={"type": "object"}), trusted=True)
        assert api.id == f"it__{name}"


def test_parts_of_a_result():
    answer = CallToolResult(
        content=[
            TextContent(text="Two files:"),
            ResourceLink(name="plan", uri="file:///plan.txt", mime_type="text/plain"),
            EmbeddedResource(
                resource=TextResourceContents(
                    uri="file:///a.md", mime_type="text/markdown", text="# A"
                )
            ),
            EmbeddedResource(resource=BlobResourceContents(uri="file:///b.bin", blob="AAEC")),
            AudioContent(data="AAEC", mime_type="audio/wav"),
        ]
    )
    result = result_of(answer, 1_000)
    assert result.text == "Two files:\nplan: file:///plan.txt\n# A"
    assert result.attachments == (
        Attachment("text/plain", uri="file:///plan.txt"),
        Attachment("text/markdown", uri="file:///a.md"),
        Attachment("", b"\x00\x01\x02", "file:///b.bin"),
        Attachment("audio/wav", b"\x00\x01\x02"),
    )
    assert result.is_done and not result.is_cut


def test_a_failure_without_words():
    failure = result_of(CallToolResult(content=[], is_error=True), 1_000).failure
    assert failure is not None
    assert (failure.kind, failure.message) == ("tool", "it failed, and does not say why")
    assert failure.was_done == "unknown"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [{"deep": float("-inf")}]])
@pytest.mark.parametrize("is_error", [True, False])
def test_numbers_that_json_does_not_know(value, is_error):
    answer = CallToolResult(content=[], structured_content={"a": value}, is_error=is_error)
    with pytest.raises(ValueError, match="JSON"):
        result_of(answer, 1_000)
