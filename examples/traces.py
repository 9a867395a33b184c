"""See what an execution does: its spans as a tree, and some of its metrics."""

import asyncio

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cnp_router import (
    ContractNet,
    Executor,
    FunctionSource,
    Job,
    Plan,
    Sources,
    allow_writes,
    fit_router,
    offline_model,
)

SHOWN = ("cnp_router.outcome", "cnp_router.fits", "gen_ai.tool.type", "error.type")
COUNTED = ("cnp_router.tool.calls", "cnp_router.acts", "cnp_router.jobs")

# This is all it takes: an SDK, with an exporter of your choice in the place of these two.
spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
tracers, meters = TracerProvider(), MeterProvider([reader])
tracers.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(tracers)
metrics.set_meter_provider(meters)


def forecast(city: str) -> str:
    """Forecast the weather: rain, wind and sun in a city."""
    raise ConnectionError("the station does not answer")


def weather(city: str) -> str:
    """Say the weather forecast of a city: rain, wind and sun."""
    return "rain until noon"


def send(to: str, text: str) -> str:
    """Send a text message to a phone."""
    return f"to {to}: {text}"


PLAN = Plan(
    "Text me tomorrow's weather in Oslo.",
    (
        Job("look", "The weather of a city.", "sky__forecast", {"city": "Oslo"}),
        Job(
            "tell",
            api="phone__send",
            inputs={"to": "+47 555", "text": {"$text": "Oslo: {look}."}},
            after=("look",),
        ),
    ),
)


async def main() -> None:
    """Execute a plan in which one contractor fails, and another one does its job."""
    sky = FunctionSource("sky", [forecast], effects={"forecast": "reads"})
    air = FunctionSource("air", [weather], effects={"weather": "reads"})
    phone = FunctionSource("phone", [send], effects={"send": "writes"})
    async with Sources([sky, air, phone]) as sources:
        catalog = await sources.catalog()
        net = ContractNet(catalog, offline_model(catalog), router=fit_router(catalog))
        await Executor(net, sources, approve=allow_writes).execute(PLAN)


def draw(parent: int | None = None, indent: str = "") -> None:
    """Print the spans below one, in the order in which they began."""
    for span in sorted(spans.get_finished_spans(), key=lambda each: each.start_time or 0):
        if (span.parent.span_id if span.parent else None) == parent:
            print(f"{indent}{span.name}{facts(span)}")
            draw(span.context.span_id, indent + "  ")


def facts(span: ReadableSpan) -> str:
    """Return some attributes of a span."""
    given = span.attributes or {}
    found = {name: given[name] for name in SHOWN if name in given}
    return "".join(f"  {name}={value}" for name, value in found.items())


asyncio.run(main())
draw()
print()
data = reader.get_metrics_data()
for metric in data.resource_metrics[0].scope_metrics[0].metrics if data else ():
    if metric.name in COUNTED:
        for point in metric.data.data_points:
            assert isinstance(point, NumberDataPoint)
            of = ", ".join(f"{name}={value!s}" for name, value in (point.attributes or {}).items())
            print(f"{metric.name}  {of}: {point.value:g}")
tracers.shutdown()
meters.shutdown()
