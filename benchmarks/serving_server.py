"""What `serving` measures: a gateway in a process of its own, and plain clients that ask it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.processes import descendants, megabytes
from cnp_router.catalog import Catalog
from cnp_router.exceptions import CnpRouterError
from cnp_router.sources import Sources
from cnp_router.sources.configuration import read_sources
from cnp_router.training import fit_router

__all__ = [
    "Connection",
    "Server",
    "ServingError",
    "checked",
    "descendants",
    "entries",
    "make_model",
    "megabytes",
    "official",
    "served",
]

_ROOT = Path(__file__).resolve().parents[1]
_LISTENING = re.compile(r"Listening at: (http://\S+)")
_UP = re.compile(rb"^cnp_router_worker_up\{[^}]*\} 1$", re.MULTILINE)
_TO_START = 60.0  # seconds
_TO_END = 60.0


class ServingError(CnpRouterError):
    """The gateway did not start, or did not answer as it should."""


def entries(folder: Path, node: Path | None) -> dict[str, Any]:
    """Return the official servers that can be started here, as in ``mcp.json``.

    Parameters
    ----------
    folder : Path
        Theirs: a repository and a few files are made in it.
    node : Path or None
        The folder with those that run in Node; they are left out without one, or without Node.
    """
    found: dict[str, Any] = {}
    for name, options in (
        ("time", ["--local-timezone=UTC"]),
        ("git", ["-r", str(folder)]),
        ("fetch", ["--ignore-robots-txt"]),
    ):
        if name == "git":
            if shutil.which("git") is None:
                continue
            subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True, timeout=20)
        found[name] = {"command": sys.executable, "args": ["-m", f"mcp_server_{name}", *options]}
    if node is None or shutil.which("node") is None:
        return found
    for name in ("everything", "filesystem", "memory", "sequential-thinking"):
        program = node.absolute() / ".bin" / f"mcp-server-{name}"
        if program.exists():
            found[name] = {"command": str(program)}
    if "filesystem" in found:
        found["filesystem"]["args"] = [str(folder.resolve())]
    if "memory" in found:
        found["memory"]["env"] = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return found


def make_model(sources: Path, model: Path) -> None:
    """Fit a router to the tools of sources, and save it."""

    async def catalog() -> Catalog:
        async with Sources(read_sources(sources).sources) as opened:
            return await opened.catalog()

    fit_router(asyncio.run(catalog())).save(model)


@dataclass(frozen=True)
class Server:
    """A gateway that serves HTTP.

    Parameters
    ----------
    url : str
    process : subprocess.Popen
    """

    url: str
    process: subprocess.Popen[str]

    @property
    def processes(self) -> dict[int, str]:
        """Its own process and its workers, by their command lines; not the sources."""
        found = {self.process.pid: "serve"}
        for pid, line in descendants(self.process.pid).items():
            if "multiprocessing.spawn" in line:
                found[pid] = "worker"
        return found

    def megabytes(self) -> float:
        """Return the resident memory of all its processes, without the sources."""
        return sum(megabytes(pid) for pid in self.processes)


@contextmanager
def served(*arguments: str, env: dict[str, str] | None = None) -> Iterator[Server]:
    """Serve HTTP at a free port of 127.0.0.1, and end it however it goes."""
    command = [sys.executable, "-m", "cnp_router", "serve", "--http", "--port", "0", *arguments]
    n_workers = int(arguments[arguments.index("--workers") + 1]) if "--workers" in arguments else 1
    with _started(command, env) as process:
        lines: queue.Queue[str] = queue.Queue()
        assert process.stderr is not None
        reader = threading.Thread(target=_read, args=(process.stderr, lines), daemon=True)
        reader.start()
        said: list[str] = []
        while True:
            try:
                line = lines.get(timeout=_TO_START)
            except queue.Empty:
                raise ServingError(f"the gateway does not start: {' '.join(said)}") from None
            said.append(line)
            if found := _LISTENING.search(line):
                _all_there(found[1], n_workers)
                yield Server(found[1], process)
                break
            if not line:
                raise ServingError(f"the gateway has ended: {' '.join(said)}")


def _all_there(url: str, n_workers: int) -> None:
    """Wait until all workers answer: the first one says when it does, the others follow."""
    until = time.monotonic() + _TO_START
    while time.monotonic() < until:
        with urllib.request.urlopen(f"{url}/metrics", timeout=_TO_START) as answer:
            if len(_UP.findall(answer.read())) >= n_workers:
                return
        time.sleep(0.1)
    raise ServingError(f"not all of the {n_workers} workers have begun")


@contextmanager
def _started(command: Sequence[str], env: dict[str, str] | None) -> Iterator[subprocess.Popen[str]]:
    variables = {**os.environ, "PYTHONPATH": str(_ROOT), **(env or {})}
    process = subprocess.Popen(
        command, env=variables, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        left = descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_TO_END)
        except subprocess.TimeoutExpired:
            for pid in (process.pid, *left):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def _read(lines: Any, into: queue.Queue[str]) -> None:
    with lines:
        for line in lines:
            into.put(line)
    into.put("")


class Connection:
    """One connection over HTTP/1.1 that stays open: as little work for the client as can be.

    A client with more comfort takes longer for a request than what is to be measured.
    """

    def __init__(self, url: str) -> None:
        split = urlsplit(url)
        self._host, self._port = split.hostname or "", split.port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(
        self, path: str, document: Any, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return status and JSON of an answer.

        Raises
        ------
        OSError
            If the connection breaks off; the next request opens another one.
        """
        body = json.dumps(document).encode()
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{more}\r\n"
        )
        try:
            if self._streams is not None and self._streams[0].at_eof():
                await self.close()  # the server does that with those that ask nothing for long
            if self._streams is None:
                self._streams = await asyncio.open_connection(self._host, self._port)
            reader, writer = self._streams
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            status = int(answer[9:12])
            fields = dict(_field(line) for line in answer.decode("latin-1").split("\r\n")[1:-2])
            if "content-length" in fields:
                content = await reader.readexactly(int(fields["content-length"]))
            else:
                content = await _chunks(reader)
            if fields.get("connection") == "close":
                await self.close()
            if fields.get("content-type", "").startswith("text/event-stream"):
                events = [line[6:] for line in content.splitlines() if line.startswith(b"data: ")]
                content = events[-1]
            return status, json.loads(content)
        except asyncio.IncompleteReadError as exc:
            await self.close()
            raise ConnectionResetError("the server closed the connection") from exc
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close it. Can be called twice."""
        if self._streams is not None:
            writer, self._streams = self._streams[1], None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        found += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return found


@asynccontextmanager
async def official(target: Any) -> AsyncIterator[Any]:
    """Connect with the official client of MCP, to an address or to an entry of ``mcp.json``."""
    from mcp import Client, StdioServerParameters

    server = target
    if not isinstance(target, str):  # what it says on standard error is not for the table
        quiet = ["-c", 'exec "$0" "$@" 2>/dev/null', target["command"], *target.get("args", ())]
        server = StdioServerParameters(**{**target, "command": "sh", "args": quiet})
    async with Client(server) as client:
        yield client


def checked(status: int, answer: Any) -> Any:
    """Return an answer; a ServingError for another status than 200."""
    if status != 200:
        raise ServingError(f"status {status}: {str(answer)[:300]}")
    return answer
