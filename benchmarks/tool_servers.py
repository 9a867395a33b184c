"""What real MCP servers take: to start, to be listed, for the first call and for later ones."""

from __future__ import annotations

import argparse
import asyncio
import functools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.report import environment, heading, number, table
from cnp_router.exceptions import SourceError
from cnp_router.sources import Call, McpServer

__all__ = ["Case", "measure", "run"]

CALLS = 50
NODE_SERVERS = "CNP_ROUTER_NODE_SERVERS"
_PARALLEL = 8


@dataclass(frozen=True)
class Case:
    """A server, and a call that it answers.

    Parameters
    ----------
    name : str
    entry : dict
        As in ``mcp.json``.
    tool : str
    inputs : dict, default={}
    """

    name: str
    entry: dict[str, Any]
    tool: str
    inputs: dict[str, Any] = field(default_factory=dict)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print all servers that are installed."""
    facts = environment(options.seed) | {"mcp": metadata.version("mcp")}
    heading("MCP servers", facts)
    node = options.node or os.environ.get(NODE_SERVERS)
    print(
        "Start: until the tools are listed; the first one imports the SDK too. Later calls: the "
        f"median of {options.calls}, one after another, and {_PARALLEL} at a time.\n"
    )
    results: dict[str, Any] = {}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in _cases(Path(folder), None if node is None else Path(node)):
            try:
                found = asyncio.run(measure(case, options.calls))
            except SourceError as exc:
                print(f"Left out: {exc}\n", file=sys.stderr)
                continue
            results[case.name] = found
            ms = [number(1000 * found[key], 1) for key in _TIMES]
            seconds = [number(found[key], 2) for key in ("start", "close")]
            rows.append([case.name, found["protocol"], str(found["tools"]), *seconds, *ms])
    head = ["protocol", "tools", "start, s", "close, s", *(f"{key}, ms" for key in _TIMES)]
    table([["", *head], *rows])
    return {"environment": facts, "servers": results}


_TIMES = ("list", "first call", "second call", "later calls", "in parallel")


async def measure(case: Case, calls: int) -> dict[str, Any]:
    """Start a server, list its tools, call one, and end it."""
    server = McpServer.from_entry(case.name, case.entry, folder=Path(), trusted=False)
    call = Call(api=f"{case.name}__{case.tool}", inputs=case.inputs)
    async with server:
        first, second = await server.call(call), await server.call(call)
        for each in (first, second):
            if each.failure is not None:
                raise SourceError(case.name, each.failure.message)
        began = time.perf_counter()
        connection = await server._connected()
        await connection.list_again()
        listed = time.perf_counter() - began
        later = [(await server.call(call)).seconds for _ in range(calls)]
        began = time.perf_counter()
        for _ in range(0, calls, _PARALLEL):
            await asyncio.gather(*(server.call(call) for _ in range(_PARALLEL)))
        parallel = (time.perf_counter() - began) / (-(-calls // _PARALLEL) * _PARALLEL)
        found = {"protocol": connection.client.protocol_version, "tools": len(connection.apis)}
        began = time.perf_counter()
    return {
        **found,
        "start": first.start_seconds,
        "list": listed,
        "first call": first.seconds,
        "second call": second.seconds,
        "later calls": statistics.median(later),
        "in parallel": parallel,
        "close": time.perf_counter() - began,
    }


def _cases(folder: Path, node: Path | None) -> Iterator[Case]:
    python = {"command": sys.executable}
    (folder / "plan.txt").write_text("Paint the fence.\n")
    zone = {"timezone": "Asia/Tokyo"}
    # Twice: the first one in a process has the SDK to import.
    for name in ("time", "time (again)"):
        entry = {**python, "args": ["-m", "mcp_server_time"]}
        yield Case(name, entry, "get_current_time", zone)
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True, timeout=20)
        repository = {"repo_path": str(folder)}
        yield Case("git", {**python, "args": ["-m", "mcp_server_git"]}, "git_status", repository)
    with _served(folder) as url:
        options = ["--ignore-robots-txt", "--allow-private-ips"]
        entry = {**python, "args": ["-m", "mcp_server_fetch", *options]}
        yield Case("fetch", entry, "fetch", {"url": f"{url}/plan.txt"})
    if node is None:
        print(f"Without servers in Node: set {NODE_SERVERS} or --node.\n", file=sys.stderr)
        return
    program = str(node.absolute() / ".bin" / "mcp-server-")
    yield Case("everything", {"command": f"{program}everything"}, "echo", {"message": "hello"})
    place = str(folder.resolve())
    entry = {"command": f"{program}filesystem", "args": [place]}
    yield Case("filesystem", entry, "read_text_file", {"path": f"{place}/plan.txt"})
    memory = {"MEMORY_FILE_PATH": str(folder / "memory.json")}
    yield Case("memory", {"command": f"{program}memory", "env": memory}, "read_graph")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder on this machine."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
