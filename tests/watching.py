"""What OpenTelemetry sees in a test: spans as a tree, and values of metrics."""

from __future__ import annotations

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Watched:
    """Providers of an SDK in the place of those of the program, until the test ends."""

    def __init__(self, monkeypatch):
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self._tracers = TracerProvider(shutdown_on_exit=False)
        self._tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._meters = MeterProvider([self._reader], shutdown_on_exit=False)
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: self._tracers)
        monkeypatch.setattr(metrics, "get_meter_provider", lambda: self._meters)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._tracers.shutdown()
        self._meters.shutdown()

    @property
    def spans(self):
        """All spans of the library that have ended, in the order of their ends."""
        ended = self._spans.get_finished_spans()
        return [each for each in ended if each.instrumentation_scope.name == "cnp_router"]

    def span(self, name):
        """The one span of a name."""
        (found,) = (each for each in self.spans if each.name == name)
        return found

    @property
    def tree(self):
        """Names of spans, each child two blanks to the right of its parent, in order of begin."""
        spans = sorted(self.spans, key=lambda each: each.start_time)
        known = {each.context.span_id for each in spans}

        def under(parent):
            for each in spans:
                above = each.parent.span_id if each.parent else None
                if (above if above in known else None) == parent:
                    yield each.name
                    yield from (f"  {line}" for line in under(each.context.span_id))

        return list(under(None))

    @property
    def everything(self):
        """All that was exported, as text."""
        data = self._reader.get_metrics_data()
        spans = "".join(each.to_json() for each in self.spans)
        return spans + (data.to_json() if data else "")

    def values(self, name):
        """By attributes, the value of a counter or gauge, or the count of a histogram."""
        return {
            of: point.count if hasattr(point, "count") else point.value
            for of, point in self._points(name)
        }

    def sums(self, name):
        """By attributes, the sum of a histogram."""
        return {of: point.sum for of, point in self._points(name)}

    def _points(self, name):
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points if metric.name == name else ():
                        given = sorted(point.attributes.items())
                        yield ", ".join(f"{key}={value}" for key, value in given), point
