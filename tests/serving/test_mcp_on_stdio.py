from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time

import pytest
from mcp import Client as McpClient
from mcp_gateways import stdio_server
from tool_servers import no_process_left, wait_until

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


def piped(*messages):
    """Give messages to the server and then the end; return its answers and its stderr."""
    options = server()
    del options["stdin"]
    with no_process_left():
        done = subprocess.run(**options, input=lines(*messages), timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


@ERAS
def test_many_calls_at_once_over_one_connection(mode):
    async def ask():
        async with McpClient(stdio_server(), mode=mode) as client:
            calls = (client.call_tool("tools__add", {"a": n, "b": 1}) for n in range(100))
            huge = {"name": "tools__huge", "inputs": {"n": 3_000_000}}
            return await asyncio.gather(*calls), await client.call_tool("call_tool", huge)

    with no_process_left():
        answers, huge = asyncio.run(ask())
    assert [answer.content[0].text for answer in answers] == [str(n + 1) for n in range(100)]
    assert len(huge.content[0].text) == 1_000_000


@ERAS
def test_progress_and_cancelling(mode):
    seen = []

    async def note(done, total, message):
        seen.append((done, total, message))

    async def ask():
        async with McpClient(stdio_server(), mode=mode) as client:
            arguments = {"name": "odd__copy"}
            await client.call_tool("call_tool", arguments, progress_callback=note)
            call = asyncio.create_task(client.call_tool("tools__wait", {"seconds": 60}))
            await asyncio.sleep(0.2)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            return await client.call_tool("tools__add", {"a": 1, "b": 2})

    assert asyncio.run(ask()).content[0].text == "3"
    assert seen == [(0, 3, "page 1"), (1, 3, "page 2"), (2, 3, "page 3")]


def test_stdout_holds_the_protocol_and_nothing_else():
    answers, said = piped(*OPENING, ADD)
    assert [answer["id"] for answer in answers] == [0, 7]
    assert answers[1]["result"]["content"][0]["text"] == "3"
    assert said == "adding 1 and 2\nended\n"


def test_what_is_no_message_gets_an_error_and_what_comes_after_it_an_answer():
    too_long = '{"jsonrpc": "2.0", "id": 1, "method": "' + "x" * 5_000_000 + '"}'
    answers, _ = piped("no JSON", "[]", "", too_long, *OPENING, "[" * 100_000, ADD)
    codes = [answer["error"]["code"] for answer in answers if answer["id"] is None]
    assert codes == [-32700, -32600, -32600, -32700]
    assert answers[-1]["id"] == 7


def test_nothing_to_read_is_the_end():
    assert piped() == ([], "ended\n")


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "stdin ends", "nobody reads"])
def test_a_call_under_way_ends_with_the_server(how):
    with subprocess.Popen(**server()) as process, no_process_left():
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        stdin.write(lines(*OPENING, WAIT))
        stdin.flush()
        assert json.loads(stdout.readline())["id"] == 0
        assert stderr.readline() == b"waiting\n"
        began = time.monotonic()
        if how == "stdin ends":
            stdin.close()
        elif how == "nobody reads":
            stdout.close()
            stdin.write(lines(ADD))
            stdin.flush()
        else:
            process.send_signal(getattr(signal, how))
        assert process.wait(20) == 0
        assert time.monotonic() - began < 15
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
        assert wait_until(lambda: waits_for_the_pipe(process.stdout))
        process.terminate()
        assert process.wait(20) == 0


def waits_for_the_pipe(pipe):
    """Return whether a pipe holds something: what is in it is more than it takes."""
    import fcntl
    import termios

    count = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return int.from_bytes(count, "little") > 0
