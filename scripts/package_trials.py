"""What the installed package is tried with in a fresh environment: one small real thing an extra.

Usage: ``python -I package_trials.py NAME [--missing]`` in an empty folder, where NAME is ``base``
or an extra. It exits with 1 unless the thing works; with ``--missing``, unless it ends with an
error that names the pip command. Nothing but Python and the installed package is needed, and no
network.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["TRIALS", "main"]

REQUEST = "Send me a text message when it rains."
DESK = Path(__file__).resolve().parents[1] / "examples" / "tools" / "desk.py"
_MCP_SERVER = """\
from desk import find_person
from mcp.server import MCPServer

server = MCPServer("desk")
server.tool()(find_person)
server.run("stdio")
"""
_START_SECONDS = 60


def base() -> None:
    """Fit, recommend, and count what an import brings."""
    before = _modules()
    import cnp_router  # noqa: F401

    brought = _modules() - before
    if brought != {"cnp_router"}:
        raise AssertionError(f"import cnp_router brings {sorted(brought)}")
    from cnp_router import Api, Catalog, History, Mashup, fit_router

    catalog = Catalog(
        [
            Api("rain", "Rain", "Forecasts rain."),
            Api("sms", "SMS", "Sends text messages."),
            Api("maps", "Maps", "Shows places on a map."),
        ]
    )
    history = History([Mashup("m", "Text me before the rain comes.", ("rain", "sms"))])
    for router in (fit_router(catalog), fit_router(catalog, history)):
        if "sms" not in router.recommend(REQUEST):
            raise AssertionError(f"sms is not recommended: {router.route(REQUEST)!r}")
    there = _optional() & {_name(each.name) for each in importlib.metadata.distributions()}
    if there:
        raise AssertionError(f"without an extra, {sorted(there)} were installed")


def plot() -> None:
    """Draw a graph."""
    from cnp_router import TransitionGraph, draw_graph, load_sample

    sample = load_sample()
    draw_graph(TransitionGraph().fit(sample.history), "graph.png", around=["google-maps"])
    _check_file("graph.png", b"\x89PNG")


def report() -> None:
    """Write a report page."""
    from cnp_router import PopularityRouter, evaluate, load_sample
    from cnp_router.reports import write_html

    sample = load_sample()
    router = PopularityRouter(sample.catalog, sample.history[:200])
    write_html(evaluate(router, sample.history[200:]), "report.html")
    _check_file("report.html", b"<!doctype html>")


def mcp() -> None:
    """Call a tool of an MCP server, a process of its own."""
    from cnp_router import Call, McpServer

    shutil.copy(DESK, "desk.py")
    Path("server.py").write_text(_MCP_SERVER, encoding="utf-8")
    source = McpServer("desk", command=sys.executable, args=["server.py"])

    async def called() -> Any:
        async with source:
            apis = [api.id for api in await source.apis()]
            return apis, await source.call(Call(api="desk__find_person", inputs={"name": "Aiko"}))

    apis, result = asyncio.run(called())
    if apis != ["desk__find_person"] or "Asia/Tokyo" not in str(result.to_dict()):
        raise AssertionError(f"{apis}, {result.to_dict()}")


def openapi() -> None:
    """Call what an OpenAPI document in YAML describes."""
    from cnp_router import Call, OpenApiSource

    with _server("application/json", b'{"sky": "rain"}') as address:
        Path("sky.yaml").write_text(
            "openapi: 3.1.0\ninfo: {title: Sky, version: '1'}\n"
            f"servers: [{{url: '{address}'}}]\n"
            "paths: {/sky: {get: {operationId: sky, "
            "responses: {'200': {description: The sky}}}}}\n",
            encoding="utf-8",
        )

        async def called() -> Any:
            async with OpenApiSource("weather", "sky.yaml") as source:
                return await source.call(Call(api=(await source.apis())[0].id, inputs={}))

        result = asyncio.run(called())
    if not result.is_done or "rain" not in str(result.to_dict()):
        raise AssertionError(result.to_dict())


def a2a() -> None:
    """Ask a server that is no agent for its card: the error says so."""
    from cnp_router import A2aAgent, SourceError

    with _server("text/html", b"<p>no agent</p>") as address:

        async def asked() -> None:
            async with A2aAgent("clerk", address) as agent:
                await agent.apis()

        try:
            asyncio.run(asked())
        except SourceError as exc:
            if "card" not in str(exc):
                raise
        else:
            raise AssertionError("a page was taken for the card of an agent")


def redis() -> None:
    """Look for shared context on a server that is not there: the error names it."""
    from cnp_router import ContextStoreError, RedisContextStore

    store = RedisContextStore("redis://127.0.0.1:1/0")

    async def asked() -> None:
        async with store:
            await store.live()

    try:
        asyncio.run(asked())
    except ContextStoreError as exc:
        if "127.0.0.1:1" not in str(exc):
            raise
    else:
        raise AssertionError("a server answers that is not there")


def parquet() -> None:
    """Read past requests from a Parquet file; the error names it where it is none."""
    from cnp_router import DataFileError, History

    Path("past.parquet").write_bytes(b"PAR1")
    try:
        History.read("past.parquet")
    except DataFileError as exc:
        if "past.parquet" not in str(exc):
            raise
    else:
        raise AssertionError("a file of four bytes was read")
    import pyarrow
    from pyarrow.parquet import write_table

    asked = {"id": ["m"], "description": ["Text me."], "apis": [["sms"]]}
    write_table(pyarrow.table(asked), "past.parquet")
    if [mashup.apis for mashup in History.read("past.parquet")] != [("sms",)]:
        raise AssertionError("what was written was not read")


def dask() -> None:
    """Look for a cluster that is not there: the error names it."""
    from cnp_router import Api, Catalog, ClusterError, fit_router

    catalog = Catalog([Api("sms", "SMS", "Sends text messages.")])
    try:
        fit_router(catalog, scheduler="tcp://127.0.0.1:1")
    except ClusterError as exc:
        if "127.0.0.1:1" not in str(exc):
            raise
    else:
        raise AssertionError("a cluster answers that is not there")


def serve() -> None:
    """Start the gateway on a free port, ask how it is, and end it."""
    command = [str(Path(sys.executable).with_name("cnp-router")), "serve"]
    subprocess.run([*command, "--help"], check=True, capture_output=True, timeout=_START_SECONDS)
    from cnp_router import Api, Catalog

    Catalog([Api("sms", "SMS", "Sends text messages.")]).write("apis.jsonl")
    gateway = subprocess.Popen(
        [*command, "--catalog", "apis.jsonl", "--http", "--port", "0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert gateway.stderr is not None
    try:
        address = _address(gateway.stderr)
        with urllib.request.urlopen(f"{address}/healthz", timeout=_START_SECONDS) as answer:
            if answer.status != 200:
                raise AssertionError(f"/healthz answers with {answer.status}")
        with urllib.request.urlopen(f"{address}/metrics", timeout=_START_SECONDS) as answer:
            if b"cnp_router" not in answer.read():
                raise AssertionError("/metrics has no metric of cnp-router")
        gateway.send_signal(signal.SIGTERM)
        code = gateway.wait(_START_SECONDS)
        if code != 0:
            raise AssertionError(f"serve exits with {code}")
    finally:
        gateway.kill()
        gateway.wait()
        gateway.stderr.close()


TRIALS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (base, plot, report, mcp, openapi, a2a, redis, parquet, dask, serve)
}
"""What is tried, by the name of the extra."""


def _modules() -> set[str]:
    """Return the top-level modules that were imported and do not come with Python."""
    found = {name.partition(".")[0] for name in sys.modules}
    return {name for name in found - set(sys.stdlib_module_names) if not name.startswith("_")}


def _optional() -> set[str]:
    """Return the libraries that only extras need.

    The client of language models has an HTTP client, which extras name too.
    """
    lines = importlib.metadata.requires("cnp-router") or ()
    extra = {_name(line) for line in lines if "extra ==" in line}
    base = {_name(line) for line in lines if "extra ==" not in line}
    client = {_name(line) for line in importlib.metadata.requires("openai") or ()}
    return extra - base - client


def _name(line: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", line)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def _check_file(name: str, beginning: bytes) -> None:
    content = Path(name).read_bytes()
    if not content.startswith(beginning) or len(content) < 1000:
        raise AssertionError(f"{name} holds {len(content)} bytes, the first are {content[:20]!r}")


@contextmanager
def _server(kind: str, content: bytes) -> Iterator[str]:
    """Serve one text at every path of this machine; give the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _address(lines: Iterable[str]) -> str:
    """Return the address that a gateway prints, or raise the error that it prints."""
    said = []
    for line in lines:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return found[0]
        said.append(line)
    error = ImportError if "pip install" in "".join(said) else AssertionError
    raise error("".join(said))


def main(argv: list[str] | None = None) -> int:
    """Run one trial; return the exit code."""
    parser = argparse.ArgumentParser(description="Try what an extra is for.")
    parser.add_argument("name", choices=TRIALS)
    parser.add_argument("--missing", action="store_true", help="the extra is not installed")
    chosen = parser.parse_args(argv)
    try:
        TRIALS[chosen.name]()
    except ImportError as exc:
        if not chosen.missing:
            raise
        cure = f"pip install 'cnp-router[{chosen.name}]'"
        if cure in " ".join(str(exc).split()):
            return 0
        sys.stderr.write(f"the error does not say {cure}: {exc}\n")
        return 1
    if chosen.missing:
        sys.stderr.write(f"it works without the extra {chosen.name}\n")
    return 1 if chosen.missing else 0


if __name__ == "__main__":
    sys.exit(main())
