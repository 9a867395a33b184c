"""Real servers of tools, and what belongs to testing with them: for every test that needs one."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks import processes

SCRIPTS = Path(__file__).parent / "sources" / "servers"
NODE_SERVERS = "CNP_ROUTER_NODE_SERVERS"
"""Environment variable: a `node_modules` folder with the servers that run in Node.

Without it they are looked for where ``make`` installs them, in the virtual environment."""


def time_entry() -> dict[str, Any]:
    """Return the entry, as of `mcp.json`, of `mcp-server-time`."""
    return {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone=UTC"]}


def git_entry(repository: Path) -> dict[str, Any]:
    """Return the entry of `mcp-server-git` for a repository that `make_repository` made."""
    return {"command": sys.executable, "args": ["-m", "mcp_server_git", "-r", str(repository)]}


def fetch_entry() -> dict[str, Any]:
    """Return the entry of `mcp-server-fetch`. Give it pages of `local_pages` only."""
    options = ("--ignore-robots-txt", "--allow-private-ips")
    return {"command": sys.executable, "args": ["-m", "mcp_server_fetch", *options]}


def everything_entry() -> dict[str, Any]:
    """Return the entry of `server-everything` (Node)."""
    return _node_entry("everything")


def filesystem_entry(folder: Path) -> dict[str, Any]:
    """Return the entry of `server-filesystem` (Node) for a folder."""
    return _node_entry("filesystem", str(folder.resolve()))


def memory_entry(file: Path) -> dict[str, Any]:
    """Return the entry of `server-memory` (Node), which keeps what it is told in a file."""
    return _node_entry("memory") | {"env": {"MEMORY_FILE_PATH": str(file)}}


def sequential_thinking_entry() -> dict[str, Any]:
    """Return the entry of `server-sequential-thinking` (Node)."""
    return _node_entry("sequential-thinking")


def _node_entry(name: str, *args: str) -> dict[str, Any]:
    """Return the entry of a server in Node; the test is skipped where it is not installed."""
    folder = os.environ.get(NODE_SERVERS) or Path(sys.prefix, "node", "node_modules")
    program = Path(folder) / ".bin" / f"mcp-server-{name}"
    if shutil.which("node") is None:
        pytest.skip("needs node")
    if not program.exists():
        pytest.skip(f"{program} is not installed")
    return {"command": str(program), "args": list(args)}


def script_entry(name: str, *args: str) -> dict[str, Any]:
    """Return the entry of a server of `tests/sources/servers`: most of them misbehave."""
    return {"command": sys.executable, "args": [str(SCRIPTS / f"{name}.py"), *args]}


def make_repository(folder: Path) -> Path:
    """Make a git repository with one commit; the test is skipped where git is not there."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.txt").write_text("Paint the fence.\n")
    person = ["-c", "user.name=A Person", "-c", "user.email=person@example.org"]
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "plan.txt"],
        [*person, "commit", "-q", "-m", "A plan"],
    ):
        subprocess.run(["git", *command], cwd=folder, check=True, timeout=20)
    return folder


@contextlib.contextmanager
def local_pages(pages: Mapping[str, str]) -> Iterator[str]:
    """Serve HTML pages by their paths, such as ``{"/news": "<p>Rain.</p>"}``; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write((body or "").encode())

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # a client that goes away is no matter
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def served(app: Any, place: socket.socket | None = None) -> Iterator[str]:
    """Serve an ASGI application in a thread, by default at any free port; yield its address.

    That of an MCP server is ``mcp.server.Server(...).streamable_http_app()``, at ``/mcp``.
    """
    import uvicorn

    config = uvicorn.Config(
        app, log_level="critical", lifespan="on", timeout_graceful_shutdown=1, ws="none"
    )
    server = uvicorn.Server(config)
    if place is None:
        # With its protocol named, asyncio does not hold small parts of an answer back.
        place = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        place.bind(("127.0.0.1", 0))
        place.listen()
    thread = threading.Thread(target=server.run, args=([place],))
    thread.start()
    try:
        assert wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{place.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        place.close()


def descendants(pid: int | None = None) -> dict[int, str]:
    """Return the living descendants of a process, by default of this one: id and command line."""
    return processes.descendants(os.getpid() if pid is None else pid)


def is_alive(pid: int) -> bool:
    """Return whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(true: Any, seconds: float = 60.0) -> bool:
    """Return whether something becomes true within some seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@contextlib.contextmanager
def no_process_left() -> Iterator[None]:
    """Assert that no process is left of those that were started in between (Linux)."""
    before = set(descendants())
    yield
    left = {pid: line for pid, line in descendants().items() if pid not in before}
    assert not left, f"left running: {left}"
