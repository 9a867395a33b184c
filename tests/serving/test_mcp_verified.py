"""The gateway as others see it: the Inspector, the conformance suite, and agents of a framework."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from pathlib import Path

import pytest
from conformance_tools import ShortNames, Suite
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp_gateways import Site, mcp_client, mcp_site, stdio_server
from node_programs import run_in_node
from tool_servers import (
    everything_entry,
    fetch_entry,
    filesystem_entry,
    git_entry,
    make_repository,
    memory_entry,
    sequential_thinking_entry,
    served,
    time_entry,
)

from cnp_router.routing import SpecificationRouter
from cnp_router.serving.gateway import GatewaySettings
from cnp_router.serving.http_front import app_of
from cnp_router.sources import Sources

EXPECTED_FAILURES = Path(__file__).parent / "conformance_failures.yml"
ADD = {"name": "tools__add", "inputs": {"a": 1, "b": 2}}


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("over", ["stdio", "http"])
def test_the_inspector_lists_reads_and_calls(over, era, tmp_path):
    given = stdio_server()
    target = ["-e", f"PYTHONPATH={given.env['PYTHONPATH']}", given.command, *given.args]

    def inspect(target, method, *args):
        options = ["--cli", "--format", "json", "--protocol-era", era, "--method", method]
        done = run_in_node("mcp-inspector", *options, *args, *target, home=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["result"]

    with contextlib.ExitStack() as stack:
        if over == "http":
            target = ["--server-url", stack.enter_context(mcp_site()), "--transport", "http"]
        listed = inspect(target, "tools/list", "--strict")
        called = inspect(
            target, "tools/call", "--tool-name", "call_tool", "--tool-args-json", json.dumps(ADD)
        )
        if over == "http":  # a start less for each
            query = ["--tool-name", "search_tools", "--tool-arg", "query=weather forecast"]
            found = inspect(target, "tools/call", *query)
            resources = inspect(target, "resources/list")
            templates = inspect(target, "resources/templates/list")
            read = inspect(target, "resources/read", "--uri", "catalog://tools/tools__add")
            assert found["structuredContent"]["tools"][0]["name"] == "tools__forecast"
            assert resources["resources"][0]["uri"] == "catalog://pages/1"
            assert templates["resourceTemplates"][0]["uriTemplate"] == "catalog://tools/{name}"
            assert json.loads(read["contents"][0]["text"])["name"] == "tools__add"
    names = [tool["name"] for tool in listed["tools"]]
    assert names == ["search_tools", "route", "call_tool", "tools__add", "tools__wait"]
    assert called["content"] == [{"type": "text", "text": "3"}]


def test_the_conformance_suite_finds_no_fault_that_is_not_expected(tmp_path):
    @contextlib.asynccontextmanager
    async def made():
        async with Sources([Suite()]) as sources:
            catalog = await sources.catalog()
            settings = GatewaySettings(always=catalog.ids)
            router = SpecificationRouter(catalog)
            async with ShortNames(router, catalog, sources, settings=settings) as gateway:
                yield gateway

    with served(Site(made, app_of)) as address:
        done = run_in_node(
            "conformance",
            *("server", "--url", f"{address}/mcp", "--suite", "all"),
            *("--expected-failures", str(EXPECTED_FAILURES), "-o", str(tmp_path)),
            home=tmp_path,
        )
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.findall(r"✓ ([\w-]+): (\d+) passed, 0 failed", done.stdout)
    assert sum(int(count) for _, count in passed) >= 17


def test_an_agent_of_openai_agents_searches_and_then_calls():
    pytest.importorskip("agents")
    from agents import Agent, RunConfig, Runner
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
    from agents.testing import ScriptedModel, assistant_message, function_call

    async def run(server):
        model = ScriptedModel(
            [
                [function_call("search_tools", {"query": "weather forecast"}, call_id="1")],
                [
                    function_call(
                        "call_tool",
                        {"name": "tools__forecast", "inputs": {"city": "Oslo"}},
                        call_id="2",
                    )
                ],
                [assistant_message("Rain.")],
            ]
        )
        async with server:
            agent = Agent(name="planner", model=model, mcp_servers=[server])
            config = RunConfig(tracing_disabled=True)
            result = await Runner.run(agent, "Will it rain in Oslo?", run_config=config)
        model.assert_complete()
        return result, model

    async def both(address):
        given = stdio_server()
        params = {"command": given.command, "args": given.args, "env": given.env}
        seconds = {"client_session_timeout_seconds": 30}
        return (
            await run(MCPServerStdio(params=params, **seconds)),
            await run(MCPServerStreamableHttp(params={"url": address}, **seconds)),
        )

    with mcp_site() as address:
        runs = asyncio.run(both(address))
    for result, model in runs:
        assert result.final_output == "Rain."
        names = [tool.name for tool in model.first_call.tools]
        assert names == ["search_tools", "route", "call_tool", "tools__add", "tools__wait"]
        outputs = [str(getattr(item, "output", "")) for item in result.new_items]
        found, called = (text for text in outputs if text)
        assert "tools__forecast" in found and "search_id" in found
        assert '"weather": "rain"' in called or "rain" in called


def written(tools):
    """Return how many characters tools have in the list that a client is sent."""
    documents = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    return len(json.dumps(documents, ensure_ascii=False, separators=(",", ":")))


def test_the_schema_shown_is_a_fiftieth_of_those_of_the_official_servers(tmp_path):
    (tmp_path / "files").mkdir()
    entries = [
        time_entry(),
        git_entry(make_repository(tmp_path / "repository")),
        fetch_entry(),
        everything_entry(),
        filesystem_entry(tmp_path / "files"),
        memory_entry(tmp_path / "memory.json"),
        sequential_thinking_entry(),
    ]

    async def tools_of(entry):
        environment = {**os.environ, **entry.get("env", {})}
        server = StdioServerParameters(
            command=entry["command"], args=entry["args"], env=environment
        )
        async with McpClient(server) as client:
            return (await client.list_tools()).tools

    async def all_tools():
        return [tool for entry in entries for tool in await tools_of(entry)]

    async def shown():
        async with mcp_client(always=()) as client:
            return (await client.list_tools()).tools

    everything = asyncio.run(all_tools())
    fixed = asyncio.run(shown())
    assert (len(everything), len(fixed)) == (52, 3)
    assert written(fixed) * 50 <= written(everything)
    print(f"{written(fixed)} of {written(everything)} characters")  # noqa: T201
