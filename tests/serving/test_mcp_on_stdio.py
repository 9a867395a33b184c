from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess

import pytest
from mcp import Client as McpClient
from mcp_gateways import stdio_server
from tool_servers import no_process_left, wait_until

from cnp_router.serving import mcp_stdio

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and descriptors of POSIX")
ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
CALL = {"jsonrpc": "2.0", "method": "tools/call"}
OPENING = (
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)
ADD = {**CALL, "id": 7, "params": {"name": "tools__add", "arguments": {"a": 1, "b": 2}}}
WAIT = {**CALL, "id": 8, "params": {"name": "tools__wait", "arguments": {"seconds": 60}}}


def lines(*messages):
    """Return messages as they are sent; a text is sent as it is."""
    written = (each if isinstance(each, str) else json.dumps(each) for each in messages)
    return "".join(f"{each}\n" for each in written).encode()


def server():
    """Return the options of `subprocess` that start the server."""
    given = stdio_server()
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return {"args": [given.command, *given.args], "env": given.env, **pipes}


@ERAS
def test_many_calls_at_once_progress_and_cancelling_over_one_connection(mode):
    seen = []

    async def note(done, total, message):
        seen.append((done, total, message))

    async def ask():
        async with McpClient(stdio_server(), mode=mode) as client:
            calls = (client.call_tool("tools__add", {"a": n, "b": 1}) for n in range(100))
            answers = await asyncio.gather(*calls)
            huge = {"name": "tools__huge", "inputs": {"n": 3_000_000}}
            long = await client.call_tool("call_tool", huge)
            copy = {"name": "odd__copy"}
            await client.call_tool("call_tool", copy, progress_callback=note)
            call = asyncio.create_task(client.call_tool("tools__wait", {"seconds": 60}))
            await asyncio.sleep(0.2)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            return answers, long, await client.call_tool("tools__add", {"a": 1, "b": 2})

    with no_process_left():
        answers, long, after = asyncio.run(ask())
    assert [answer.content[0].text for answer in answers] == [str(n + 1) for n in range(100)]
    assert len(long.content[0].text) == 1_000_000
    assert seen == [(0, 3, "page 1"), (1, 3, "page 2"), (2, 3, "page 3")]
    assert after.content[0].text == "3"


def test_a_client_that_floods_gets_an_answer_to_each_request(monkeypatch):
    monkeypatch.setattr(mcp_stdio, "_MOST_OPEN", 3)
    monkeypatch.setattr(mcp_stdio, "_GRACE", 0.01)
    written = []
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

    async def sent():
        for each in (*({**WAIT, "id": number} for number in range(5)), notice, ADD):
            yield json.dumps(each).encode()

    async def write(data):
        written.append(json.loads(data))

    async def ask():
        wire = mcp_stdio._Wire(sent(), write)
        async with asyncio.TaskGroup() as group:
            group.create_task(wire.read())
            group.create_task(wire.answer())
            taken = [getattr(each.message, "id", None) async for each in wire.incoming]
            wire.outgoing.close()
        wire.close()
        return taken

    taken = asyncio.run(ask())
    assert taken == [0, 1, 2, None, 7]  # what is cancelled makes room
    assert [each["id"] for each in written] == [3, 4]
    assert all("ask again" in each["error"]["message"] for each in written)


def test_stdout_holds_the_protocol_and_nothing_else_whatever_comes():
    too_long = '{"jsonrpc": "2.0", "id": 1, "method": "' + "x" * 5_000_000 + '"}'
    given = lines("no JSON", "[]", "", too_long, *OPENING, "[" * 100_000, ADD)
    options = server()
    del options["stdin"]
    with no_process_left():
        done = subprocess.run(**options, input=given, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, b"adding 1 and 2\nended\n")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    codes = [answer["error"]["code"] for answer in answers if answer["id"] is None]
    assert codes == [-32700, -32600, -32600, -32700]
    assert [answer["id"] for answer in answers if answer["id"] is not None] == [0, 7]
    assert answers[-1]["result"]["content"][0]["text"] == "3"


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "stdin ends", "nobody reads"])
def test_a_call_under_way_ends_with_the_server(how):
    with subprocess.Popen(**server()) as process, no_process_left():
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        stdin.write(lines(*OPENING, WAIT))
        stdin.flush()
        assert json.loads(stdout.readline())["id"] == 0
        assert stderr.readline() == b"waiting\n"
        if how == "stdin ends":
            stdin.close()
        elif how == "nobody reads":
            stdout.close()
            stdin.write(lines(ADD))
            stdin.flush()
        else:
            process.send_signal(getattr(signal, how))
        assert process.wait(60) == 0
        said = stderr.read().decode()
        assert "cancelled\n" in said and said.endswith("ended\n")
        assert "Traceback" not in said
        if not stdin.closed:
            stdin.close()


def test_a_client_that_reads_nothing_does_not_keep_the_server_from_ending():
    huge = {"name": "call_tool", "arguments": {"name": "tools__huge", "inputs": {"n": 900_000}}}
    with subprocess.Popen(**server()) as process:
        process.stdin.write(lines(*OPENING, {**CALL, "id": 1, "params": huge}))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 0
        assert wait_until(lambda: holds_something(process.stdout))
        process.terminate()
        assert process.wait(60) == 0


def holds_something(pipe):
    """Return whether something in a pipe waits to be read."""
    import fcntl
    import termios

    count = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return int.from_bytes(count, "little") > 0
