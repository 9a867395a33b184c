"""Telemetry: nothing without OpenTelemetry, and with it what the tables say."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import StatusCode

from cnp_router import telemetry
from cnp_router.exceptions import InputError

ROOT = Path(__file__).resolve().parents[1]


def python(code):
    """Run code in a process of its own, and return what it printed."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


class TestWithoutAnSdk:
    def test_nothing_of_opentelemetry_is_imported_by_importing_and_routing(self):
        code = (
            "import sys, cnp_router\n"
            "from cnp_router import Api, Catalog, fit_router\n"
            "router = fit_router(Catalog([Api('maps', 'Maps', 'Shows places on a map.')]))\n"
            "print(router.route('a map of places').contractors)\n"
            "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
        )
        assert python(code).splitlines() == ["('maps',)", "[]"]

    def test_the_api_alone_records_nothing(self):
        code = (
            "import opentelemetry.trace, opentelemetry.metrics\n"
            "from cnp_router import telemetry\n"
            "telemetry.add('cnp_router.messages', 1)\n"
            "with telemetry.span('route') as span:\n"
            "    print(type(span).__name__, telemetry.is_on(), telemetry.trace_headers())\n"
        )
        assert python(code) == "Span False {}\n"

    def test_providers_that_are_set_later_are_used(self):
        code = (
            "from opentelemetry import metrics, trace\n"
            "from opentelemetry.sdk.metrics import MeterProvider\n"
            "from opentelemetry.sdk.metrics.export import InMemoryMetricReader\n"
            "from opentelemetry.sdk.trace import TracerProvider\n"
            "from cnp_router import telemetry\n"
            "with telemetry.span('route') as before:\n"
            "    telemetry.add('cnp_router.messages', 1)\n"
            "reader = InMemoryMetricReader()\n"
            "metrics.set_meter_provider(MeterProvider([reader]))\n"
            "trace.set_tracer_provider(TracerProvider())\n"
            "with telemetry.span('route') as after:\n"
            "    telemetry.add('cnp_router.messages', 2)\n"
            "    print(len(telemetry.trace_headers()['traceparent']))\n"
            "print(type(before).__name__, type(after).__name__)\n"
            "found = reader.get_metrics_data().resource_metrics[0].scope_metrics[0]\n"
            "print(found.scope.name, found.metrics[0].data.data_points[0].value)\n"
        )
        assert python(code).splitlines() == ["55", "Span _Watched", "cnp_router 2"]


class TestTables:
    def test_unknown_names_and_attributes_are_errors(self):
        for wrong in (
            lambda: telemetry.add("cnp_router.mesages"),
            lambda: telemetry.add("cnp_router.messages", 1, {"text": "Hi"}),
            lambda: telemetry.record("cnp_router.messages", 1),
            lambda: telemetry.gauge("cnp_router.routing.confidence", 1),
            lambda: telemetry.span("roote"),
            lambda: telemetry.span("route", {"request": "Hi"}),
            lambda: telemetry.span("route").set(request="Hi"),
        ):
            with pytest.raises(KeyError):
                wrong()

    def test_that_holds_with_an_sdk_too(self, watched):
        with pytest.raises(KeyError), telemetry.span("route") as span:
            span.set(gen_ai__tool__name="a")  # of another span
        with pytest.raises(KeyError):
            telemetry.add("cnp_router.messages", 1, {"text": "Hi"})

    def test_a_program_goes_on(self, watched, monkeypatch):
        monkeypatch.setattr(telemetry, "strict", False)
        telemetry.add("cnp_router.mesages")
        with telemetry.span("roote"):
            pass
        assert watched.tree == ["roote"]

    def test_each_has_a_unit_and_a_description(self):
        for metric in telemetry.METRICS.values():
            assert metric.unit
            assert metric.description.endswith(".")
            assert bool(metric.boundaries) == (metric.kind == "histogram")
            assert list(metric.boundaries) == sorted(set(metric.boundaries))
        for span in telemetry.SPANS.values():
            assert span.description.endswith(".")

    def test_thresholds_of_alerts_are_boundaries_of_buckets(self):
        def bounds(name):
            return telemetry.METRICS[name].boundaries

        assert 0.05 in bounds("cnp_router.context.propagation.duration")
        assert 0.1 in bounds("cnp_router.embedding.duration")
        assert 60 in bounds("cnp_router.task_graph.duration")

    def test_names_of_the_conventions_are_theirs(self):
        known = {v for k, v in vars(gen_ai_attributes).items() if k.startswith("GEN_AI")}
        tables = (*telemetry.SPANS.values(), *telemetry.METRICS.values())
        used = {name for each in tables for name in each.attributes if name.startswith("gen_ai.")}
        assert used <= known
        assert "gen_ai.tool.call.id" in used

    def test_nothing_of_contents_has_a_name(self):
        tables = (*telemetry.SPANS.values(), *telemetry.METRICS.values())
        names = {name for each in tables for name in each.attributes}
        for word in ("messages", "arguments", "call.result", "user", "text", "query", "prompt"):
            # The number of messages is no content.
            assert not [n for n in names - {"cnp_router.messages"} if n.endswith(word)], word

    def test_metrics_have_no_names_of_tools(self):
        names = {name for each in telemetry.METRICS.values() for name in each.attributes}
        assert not any("tool" in name for name in names)

    @pytest.mark.parametrize("name", telemetry.METRICS)
    def test_every_metric_is_recorded_with_its_unit(self, watched, name):
        metric = telemetry.METRICS[name]
        how = {"counter": telemetry.add, "histogram": telemetry.record, "gauge": telemetry.gauge}
        how[metric.kind](name, 1, {**dict.fromkeys(metric.attributes, "x")})
        assert list(watched.values(name).values()) == [1]


def test_instruments_are_made_once_for_each_provider_also_by_several_threads(monkeypatch):
    made = []

    class Meters(MeterProvider):
        def get_meter(self, *given, **named):
            made.append(self)
            return super().get_meter(*given, **named)

    for _ in range(2):
        meters = Meters([InMemoryMetricReader()], shutdown_on_exit=False)
        monkeypatch.setattr(metrics, "get_meter_provider", lambda meters=meters: meters)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: telemetry.add("cnp_router.messages"), range(40)))
        meters.shutdown()
        assert made.count(meters) == 1
    assert len(made) == 2


class TestSpans:
    def test_spans_of_gathered_tasks_have_the_right_parents(self, watched):
        def routed():
            with telemetry.span("route"):
                pass

        async def job(name):
            with telemetry.span("job"):
                await asyncio.sleep(0)
                with telemetry.span(f"chat {name}"):
                    await asyncio.sleep(0)
                await asyncio.to_thread(
                    lambda: telemetry.span("route").__enter__().__exit__(*[None] * 3)
                )

        async def main():
            with telemetry.span("execution"):
                await asyncio.gather(*(job(name) for name in "ab"))
            with telemetry.span("execution"):
                pass

        asyncio.run(main())
        one, other = (["  job", f"    chat {name}", "    route"] for name in "ab")
        assert watched.tree == ["execution", *one, *other, "execution"]

    def test_a_span_in_an_async_context_manager_survives_awaits(self, watched, caplog):
        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def held():
            with telemetry.span("plan") as span:
                await asyncio.sleep(0)
                yield span
                await asyncio.sleep(0)

        async def main():
            async with held(), held():
                await asyncio.sleep(0)
                with telemetry.span("route"):
                    pass
            with telemetry.span("fit"):
                pass

        asyncio.run(main())
        assert watched.tree == ["plan", "  plan", "    route", "fit"]
        assert caplog.text == ""

    def test_of_an_error_only_its_class_is_seen(self, watched):
        with pytest.raises(InputError), telemetry.span("route"):
            raise InputError("the secret is 12345")
        (span,) = watched.spans
        assert dict(span.attributes) == {"error.type": "InputError"}
        assert span.status.status_code is StatusCode.ERROR
        assert not span.status.description
        assert span.events == ()
        assert "12345" not in span.to_json()
        assert watched.values("cnp_router.errors") == {"error.type=InputError, operation=route": 1}
        assert watched.values("cnp_router.operation.duration") == {"operation=route": 1}

    def test_what_is_cancelled_is_no_error(self, watched):
        async def main():
            with telemetry.span("execution"):
                await asyncio.sleep(10)

        async def cancelled():
            task = asyncio.create_task(main())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(cancelled())
        (span,) = watched.spans
        assert span.attributes["error.type"] == "cancelled"
        assert span.status.status_code is StatusCode.UNSET
        assert watched.values("cnp_router.errors") == {}

    def test_a_failure_without_an_exception(self, watched):
        with telemetry.span("job") as span:
            span.fail("timeout")
        assert watched.span("job").attributes["error.type"] == "timeout"
        assert watched.values("cnp_router.errors") == {"error.type=timeout, operation=job": 1}

    def test_none_is_left_out(self, watched):
        with telemetry.span("route", {"cnp_router.apis": None}) as span:
            span.set(cnp_router__source=None, cnp_router__fits=True)
        telemetry.add("cnp_router.tool.calls", 1, {"source": "a", "error.type": None})
        assert dict(watched.span("route").attributes) == {"cnp_router.fits": True}
        assert watched.values("cnp_router.tool.calls") == {"source=a": 1}

    def test_how_full_a_store_was_long_ago_is_not_shown(self, watched, monkeypatch):
        now = [1_000.0]
        monkeypatch.setattr(telemetry, "monotonic", lambda: now[0])
        usage, coverage = "cnp_router.context.store.usage", "cnp_router.routing.coverage"
        telemetry.gauge(coverage, 0.7)
        telemetry.gauge(usage, 0.9, {"store": "memory"})
        now[0] += 300
        telemetry.gauge(usage, 0.5, {"store": "sqlite"})
        for _ in range(2):  # however often it is read
            assert watched.values(usage) == {"store=memory": 0.9, "store=sqlite": 0.5}
        now[0] += 300
        assert watched.values(usage) == {"store=sqlite": 0.5}
        now[0] += 300
        assert watched.values(usage) == {}
        assert watched.values(coverage) == {"": 0.7}
        telemetry.gauge(usage, 0.1, {"store": "memory"})
        assert watched.values(usage) == {"store=memory": 0.1}

    def test_durations_are_recorded_where_an_error_ended_it(self, watched):
        with (
            pytest.raises(ValueError, match="no"),
            telemetry.timed("cnp_router.embedding.duration", {"purpose": "fit"}),
        ):
            raise ValueError("no")
        assert watched.values("cnp_router.embedding.duration") == {"purpose=fit": 1}


def test_prometheus_spells_names_as_the_docs_say(tmp_path):
    code = (
        "from opentelemetry import metrics\n"
        "from opentelemetry.exporter.prometheus import PrometheusMetricReader\n"
        "from opentelemetry.sdk.metrics import MeterProvider\n"
        "from prometheus_client import generate_latest\n"
        "reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False)\n"
        "metrics.set_meter_provider(MeterProvider([reader]))\n"
        "from cnp_router import telemetry as t\n"
        "how = {'counter': t.add, 'histogram': t.record, 'gauge': t.gauge}\n"
        "for each in t.METRICS.values():\n"
        "    how[each.kind](each.name, 1, {name: True for name in each.attributes})\n"
        "print(generate_latest().decode())\n"
    )
    told = [line for line in python(code).splitlines() if line.startswith("# TYPE cnp_router")]
    names = {line.split()[2] for line in told}
    docs = (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")
    assert len(names) > 20
    assert [name for name in sorted(names) if f"`{name}`" not in docs] == []
