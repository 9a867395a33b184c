"""What the engine of the rounds costs itself: time a message, and memory over many requests."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.child import in_child
from benchmarks.report import environment, heading, number, table
from benchmarks.stub_server import ANSWER
from cnp_router.agents import InterpretRequest, offline_model
from cnp_router.catalog import Api, Catalog
from cnp_router.evaluation import compare
from cnp_router.history import History, Mashup
from cnp_router.llm import ChatModel, ChatRequest, ChatResponse, OpenAIChatModel, Usage
from cnp_router.protocols import ContractNet, RoundSettings

__all__ = [
    "StubModel",
    "measure_memory",
    "measure_server",
    "measure_stub",
    "resident_megabytes",
    "run",
]

CONTRACTORS = 1_345
ANSWER_SECONDS = 0.02
CONCURRENCY = 16
TARGET_MS = 0.3  # of the engine, a message
ROUNDS = 5
REPEATS = 3
REQUESTS = (5, 10, 20, 40)

_REQUEST = "Show concerts near me on a map, and send me a text message when tickets are sold."


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print time and memory."""
    facts = environment(options.seed)
    size = options.contractors
    heading(f"The engine: contractor-led broadcasts to {size:,} contractors", facts)
    stub = in_child(measure_stub, options.data, size)
    passed = stub["ms_a_message"] <= TARGET_MS
    print("A model in the same process that answers at once:\n")
    cells = [number(stub["seconds"]), number(stub["ms_a_message"]), "pass" if passed else "FAIL"]
    head = ["round, median s", "engine, ms a message", f"at most {TARGET_MS}"]
    table([["messages", *head], [str(stub["messages"]), *cells]])
    server = in_child(measure_server, options.data, size)
    print(
        f"{1000 * ANSWER_SECONDS:.0f} ms an answer, {CONCURRENCY} at a time. The SDK asks a server "
        "on this machine, in a process of its own:\n"
    )
    ideal = server["ideal"]
    rows = [["ideal: answers x seconds / places", number(ideal, 2), number(1.0, 2), "", ""]]
    for title, key in (
        ("the round, a model in the same process", "waiting"),
        ("the openai SDK alone, same prompts", "sdk"),
        ("our adapter on the SDK", "adapter"),
        ("the round, our adapter", "round"),
    ):
        wall, cpu = server[key]["wall"], server[key]["cpu"]
        times = [number(wall, 2), number(wall / ideal, 2), number(cpu, 2)]
        rows.append([title, *times, number(1000 * cpu / server["answers"], 2)])
    table([["", "wall s", "times the ideal", "own CPU s", "CPU ms an answer"], *rows])
    memory = in_child(measure_memory, options.data, size, options.requests)
    print("Memory in a comparison, transcripts dropped after each request (MB):\n")
    rows = [[str(p["requests"]), number(p["rss"], 1), number(p["traced"], 2)] for p in memory["at"]]
    table([["requests", "resident", "allocated by Python"], *rows])
    return {"environment": facts, "stub": stub, "server": server, "memory": memory}


class StubModel(ChatModel):
    """A model that refuses everything, at next to no cost, after a while.

    Parameters
    ----------
    seconds : float, seconds, default=0.0
    """

    name = "stub"

    def __init__(self, seconds: float = 0.0) -> None:
        usage = Usage(500, 25, "estimated")
        self.seconds = seconds
        self._refusal = ChatResponse("", dict(ANSWER), usage, self.name, seconds)

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Refuse, after a turn of the loop as with a server."""
        await asyncio.sleep(self.seconds)
        return self._refusal


def measure_stub(folder: Path | None, size: int) -> dict[str, Any]:
    """Hold broadcasts with a model that costs nothing. Runs in a process of its own."""
    net = ContractNet(catalog_of(folder, size), StubModel())
    seconds, messages = [], 0
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        outcome = net.run_sync(_REQUEST, announcement="broadcast")
        seconds.append(time.perf_counter() - start)
        messages = outcome.ledger.n_messages
    median = statistics.median(seconds[1:])
    return {"messages": messages, "seconds": median, "ms_a_message": 1000 * median / messages}


def measure_server(folder: Path | None, size: int) -> dict[str, Any]:
    """Hold broadcasts with a server, and ask the same without a round."""
    catalog = catalog_of(folder, size)
    tasks = [InterpretRequest((api,), _REQUEST) for api in catalog]
    with _server() as url:
        times = asyncio.run(_with_server(url, catalog, [task.chat_request() for task in tasks]))
    medians = {}
    for name, taken in times.items():
        wall, cpu = map(statistics.median, zip(*taken, strict=True))
        medians[name] = {"wall": wall, "cpu": cpu}
    ideal = len(catalog) * ANSWER_SECONDS / CONCURRENCY
    return {"answers": len(catalog), "ideal": ideal, **medians}


def measure_memory(folder: Path | None, size: int, requests: Sequence[int]) -> dict[str, Any]:
    """Compare on many requests, and see what is in memory after some of them."""
    import gc
    import tracemalloc

    catalog = catalog_of(folder, size)
    mashups = [
        Mashup(f"m{i}", f"{_REQUEST} Number {i}.", (catalog[i % len(catalog)].id,))
        for i in range(max(requests))
    ]
    points: list[dict[str, Any]] = []

    def look(_: str, done: int, total: int) -> None:
        if done in requests:
            gc.collect()
            traced = tracemalloc.get_traced_memory()[0] / 1e6
            points.append({"requests": done, "rss": resident_megabytes(), "traced": traced})

    tracemalloc.start()
    compare(
        catalog,
        offline_model(catalog),
        History(mashups),
        protocols=["contractor-led"],
        announcements=["broadcast"],
        progress=look,
    )
    return {"at": points}


def catalog_of(folder: Path | None, size: int) -> Catalog:
    """Return so many APIs: those of the data, with copies where there are too few."""
    apis = list(data.load(folder).catalog)
    copies = (
        Api(f"{api.id}-{turn}", api.name, api.description, api.categories)
        for turn in range(1, size // len(apis) + 2)
        for api in apis
    )
    return Catalog([*apis, *copies][:size])


async def _with_server(
    url: str, catalog: Catalog, requests: Sequence[ChatRequest]
) -> dict[str, list[tuple[float, float]]]:
    import openai

    times: dict[str, list[tuple[float, float]]] = {
        "waiting": [],
        "sdk": [],
        "adapter": [],
        "round": [],
    }
    model = OpenAIChatModel("stub", base_url=url, api_key="none", max_concurrency=CONCURRENCY)
    settings = RoundSettings(max_concurrency=CONCURRENCY)
    waiting = ContractNet(catalog, StubModel(ANSWER_SECONDS), settings=settings)
    net = ContractNet(catalog, model, settings=settings)
    client = openai.AsyncOpenAI(api_key="none", base_url=url)
    create: Any = client.chat.completions.create

    async def by_sdk(request: ChatRequest) -> None:
        schema = {"name": "answer", "schema": request.schema, "strict": True}
        await create(
            model="stub",
            messages=[asdict(message) for message in request.messages],
            response_format={"type": "json_schema", "json_schema": schema},
        )

    async with model, client:
        await _each(by_sdk, requests[:CONCURRENCY])
        await _each(model.complete, requests[:CONCURRENCY])
        for _ in range(REPEATS):  # in turn, so that a slow moment meets all alike
            times["waiting"].append(await _taken(waiting.run(_REQUEST, announcement="broadcast")))
            times["sdk"].append(await _taken(_each(by_sdk, requests)))
            times["adapter"].append(await _taken(_each(model.complete, requests)))
            times["round"].append(await _taken(net.run(_REQUEST, announcement="broadcast")))
    return times


async def _taken(work: Awaitable[Any]) -> tuple[float, float]:
    """Return the seconds it took: of wall time, and of this process's CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    await work
    return time.perf_counter() - wall, time.process_time() - cpu


async def _each(
    ask: Callable[[ChatRequest], Awaitable[Any]], requests: Sequence[ChatRequest]
) -> None:
    """Ask them all, as many at a time as the round does."""
    queue = iter(requests)

    async def work() -> None:
        for request in queue:
            await ask(request)

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))


@contextmanager
def _server() -> Iterator[str]:
    """Start the server in a process of its own; it ends with its input."""
    file = Path(__file__).with_name("stub_server.py")
    process = subprocess.Popen(
        [sys.executable, str(file), str(ANSWER_SECONDS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{json.loads(process.stdout.readline())}/v1"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def resident_megabytes() -> float | None:
    """Return the memory this process has now, where the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * 4096 / 1e6
