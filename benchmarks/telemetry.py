"""What it costs to be watched: without OpenTelemetry, with its API alone, and with an SDK."""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from benchmarks.child import in_child
from benchmarks.report import environment, heading, number, table
from cnp_router import telemetry
from cnp_router.agents import offline_model
from cnp_router.datasets import load_sample
from cnp_router.execution import Executor, Job, Plan
from cnp_router.protocols import ContractNet
from cnp_router.sources import FunctionSource, Sources
from cnp_router.training import fit_router

__all__ = ["MODES", "measure", "run"]

MODES = ("no calls", "without", "API", "SDK")
REPEATS = 40
_REQUESTS = 10
_JOBS = 20


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print what each way costs."""
    facts = environment(options.seed)
    heading("What it costs to be watched", facts)
    found = in_child(measure, options.repeats)
    print(
        "CPU time of the thread, in ms for one (median), and as a share of the same work with the "
        "calls of telemetry taken out (median of pairs). The SDK has a batch processor and an "
        "exporter that does nothing; what it does in its own thread is not in it. Jobs are calls "
        "of a function that returns at once, and contractors answer offline.\n"
    )
    rows = []
    for name, times in found.items():
        base = times[MODES[0]]
        shares = [
            statistics.median(own / none for own, none in zip(times[mode], base, strict=True))
            for mode in MODES[1:]
        ]
        rows.append([name, number(1000 * statistics.median(base)), *map(number, shares)])
    table([["", "ms", *MODES[1:]], *rows])
    return {"environment": facts, "seconds": found}


def measure(repeats: int) -> dict[str, dict[str, list[float]]]:
    """Return the times of each kind of work in each mode, by turns. Runs in its own process."""
    sample = load_sample()
    router = fit_router(sample.catalog, sample.history)
    requests = [mashup.description for mashup in sample.history[:_REQUESTS]]
    net = ContractNet(sample.catalog, offline_model(sample.catalog), router=router)
    jobs = tuple(Job(f"j{n}", api="sky__rain", inputs={"city": f"c{n}"}) for n in range(_JOBS))
    plan = Plan("Where does it rain?", jobs)
    works: dict[str, tuple[Callable[[], object], int]] = {
        "route": (lambda: [router.route(each) for each in requests], _REQUESTS),
        "round": (lambda: net.run_sync(requests[0]), 1),
        "job": (lambda: asyncio.run(_executed(plan)), _JOBS),
    }
    found: dict[str, dict[str, list[float]]] = {}
    providers = _providers()
    for name, (work, n) in works.items():
        times: dict[str, list[float]] = {mode: [] for mode in MODES}
        for turn in range(repeats + 1):
            for mode in MODES if turn % 2 else MODES[::-1]:
                with _as(mode, providers):
                    gc.collect()
                    began = time.thread_time()
                    work()
                    if turn:  # the first warms up
                        times[mode].append((time.thread_time() - began) / n)
        found[name] = times
    for provider in providers:
        provider.shutdown()
    return found


async def rain(city: str) -> str:
    """Say whether it rains in a city."""
    return f"no rain in {city}"


async def _executed(plan: Plan) -> None:
    async with Sources([FunctionSource("sky", [rain], effects={"rain": "reads"})]) as tools:
        catalog = await tools.catalog()
        execution = await Executor(ContractNet(catalog, offline_model(catalog)), tools).execute(
            plan
        )
        assert execution.is_done


def _providers() -> tuple[Any, Any]:
    """Return providers of an SDK that exports to nowhere."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(Nowhere()))
    return tracers, MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)


@contextmanager
def _as(mode: str, providers: tuple[Any, Any]) -> Iterator[None]:
    """Have telemetry find nothing, the API, or an SDK; or take its calls out."""
    from opentelemetry import metrics, trace

    nothing = telemetry.Span()
    patches: dict[str, list[Any]] = {
        "no calls": [
            mock.patch.object(telemetry, name, lambda *_: nothing)
            for name in ("span", "timed", "add", "record", "gauge")
        ]
        + [mock.patch.object(telemetry, "is_on", lambda: False)],
        "without": [mock.patch.object(telemetry, "_api", lambda _: None)],
        "API": [],
        "SDK": [
            mock.patch.object(trace, "get_tracer_provider", lambda: providers[0]),
            mock.patch.object(metrics, "get_meter_provider", lambda: providers[1]),
        ],
    }
    for patch in patches[mode]:
        patch.start()
    try:
        yield
    finally:
        for patch in patches[mode]:
            patch.stop()
