"""The benchmark of the gateway: a little of everything, with one server of tools behind it."""

from __future__ import annotations

import asyncio
import json
from multiprocessing import resource_tracker

import pytest
from tool_servers import no_process_left

from benchmarks.serving import QUICK, measure
from benchmarks.serving_clients import Load, load
from benchmarks.serving_load import accounted, tools_of
from benchmarks.serving_server import Connection, ServingError, checked, entries, served
from cnp_router.online import OnlineStore
from cnp_router.serving import SearchLog
from cnp_router.serving.logged import LoggedCall, LoggedSearch
from cnp_router.trajectories import Step, Trajectory


def test_everything_is_measured_and_nothing_is_left(tmp_path):
    resource_tracker.ensure_running()  # that of this process, which stays
    with no_process_left():
        found = measure(tmp_path / "no-node", QUICK, 0, ("shown", "latency", "load", "faults"))
    assert found["shown"]["servers"] == 1
    assert found["shown"]["times, whole definitions"] > 1
    doors = {row["by"] for row in found["latency"]}
    assert doors == {"MCP over stdio", "MCP over HTTP", "/v1/call"}
    (row,) = found["load"]
    assert row["errors"] == {}
    assert row["requests"] > 0
    kept = row["found"]
    assert (kept["once"], kept["twice"], kept["missing"]) == (row["requests"] // 2, 0, 0)
    flood, killed, source = found["faults"].values()
    assert flood["sent away"] > 0
    assert (flood["other errors"], flood["that failed"]) == (0, 0)
    assert flood["calls of the others"] > 0
    for fault in (flood, killed):
        assert (fault["twice"], fault["missing"]) == (0, 0)
    assert killed["errors"] <= killed["clients"]
    assert (killed["errors afterwards"], killed["workers afterwards"]) == (0, 2)
    assert source["processes killed"] > 0
    assert source["answered"] == source["calls"]
    assert source["next call done"]


def test_calls_are_counted_in_log_and_store(tmp_path):
    with SearchLog(tmp_path / "searches.sqlite", clock=lambda: 0.0) as log:
        for name in ("a", "b", "c"):
            log.add(LoggedSearch(name, "ann", 0.0, "Rain?", ("w",), ("w",), 0.9, True, True))
        for name in ("a", "b", "b"):
            begun = log.begin(name, "ann", "w", {}, since=0.0)
            log.end(begun, LoggedCall("w", {}, "no", True, True))
    with OnlineStore(tmp_path / "online.sqlite", []) as store:
        store.observe(Trajectory("search-d", "Rain?", (Step("w"),)))
        store.observe(Trajectory("search-e", "Rain?", (Step("w"),)))
        store.observe(Trajectory("search-e-2", "Rain?", (Step("w"),)))
    done = dict.fromkeys("abcde", "w")
    found = accounted(tmp_path, {"done": done, "begun": [*done, "f"]})
    assert (found["once"], found["twice"], found["missing"]) == (2, 2, 1)
    found = accounted(tmp_path, {"done": {}, "begun": ["a"]})
    assert found["unanswered"] == 1


def test_what_goes_wrong_is_counted(tmp_path):
    # Nobody listens there.
    found = load(Load("http://127.0.0.1:9", 2, 0.1, think=0.05))
    assert found["calls"] == []
    assert sum(found["errors"].values()) >= 2


def test_a_gateway_that_does_not_start_is_an_error(tmp_path):
    with (
        no_process_left(),
        pytest.raises(ServingError, match="has ended"),
        served("--sources", str(tmp_path / "none.json")),
    ):
        pass


def test_an_answer_that_is_an_error_is_none(tmp_path):
    with pytest.raises(ServingError, match="404"):
        checked(404, {"error": {}})


def test_servers_that_are_not_there_are_left_out(tmp_path):
    found = entries(tmp_path, tmp_path / "no-node")
    assert {"time", "fetch"} <= set(found) <= {"time", "git", "fetch"}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": found}))
    assert tools_of(file) == ("time__convert_time",)


def test_a_connection_reads_chunks_and_events():
    async def answer(reader, writer):
        for rest in (
            b"\r\n1\r\n1\r\n0\r\n\r\n",
            b"Content-Type: text/event-stream\r\n\r\n"
            b'10\r\nevent: message\r\n\r\n10\r\ndata: {"a": 1}\n\n\r\n0\r\n\r\n',
        ):
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(2)
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + rest)
        writer.close()
        await writer.wait_closed()

    async def main():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Connection(f"http://127.0.0.1:{port}") as connection:
            return [await connection.post("/", {}) for _ in range(2)]

    assert asyncio.run(main()) == [(200, 1), (200, {"a": 1})]
