"""Spans and metrics by OpenTelemetry, where the program that uses the library has it.

Nothing is imported and nothing is measured until somebody has imported `opentelemetry`, which
whoever sets up an SDK has done. Without an SDK, its API does nothing.

What there is to see stands in the tables of `telemetry_tables.py`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from time import monotonic
from types import TracebackType
from typing import Any, Self

from cnp_router.telemetry_tables import METRICS, SPANS, SpanKind
from cnp_router.version import __version__

__all__ = [
    "METRICS",
    "SPANS",
    "Span",
    "add",
    "gauge",
    "is_on",
    "record",
    "span",
    "timed",
    "trace_headers",
]

_NAME = "cnp_router"

strict = False
"""Whether an unknown name or attribute is an error, also where nothing is recorded. For tests: a
program goes on."""


class Span:
    """An operation that is watched; this one by nobody."""

    __slots__ = ()

    @property
    def seconds(self) -> float:
        """How long it takes until now; 0 where nobody watches."""
        return 0.0

    def set(self, **attributes: Any) -> None:
        """Set attributes; in their names ``__`` stands for a dot, None is left out."""
        if strict:
            _known("a span", _ALL_OF_SPANS, (name.replace("__", ".") for name in attributes))

    def fail(self, kind: str) -> None:
        """Say that it failed, without an exception: ``error.type`` is the kind."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


_NOTHING = Span()


class _Watched(Span):
    """An operation that an SDK sees as a span, in metrics, or both."""

    __slots__ = ("_began", "_failure", "_kind", "_span", "_token")

    def __init__(self, kind: SpanKind, current: Any) -> None:
        self._kind = kind
        self._span = current
        self._token: Any = None
        self._failure: str | None = None
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def set(self, **attributes: Any) -> None:
        named = {name.replace("__", "."): value for name, value in attributes.items()}
        if strict:
            _known(f"the span {self._kind.name!r}", self._kind.attributes, named)
        if self._span is not None and self._span.is_recording():
            self._span.set_attributes(_given(named))

    def fail(self, kind: str) -> None:
        self._failure = kind

    def __enter__(self) -> Self:
        if self._span is not None:
            api, context = _api("trace"), _api("context")
            self._token = context.attach(api.set_span_in_context(self._span))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        is_cancelled = kind is not None and issubclass(kind, _cancelling())
        if kind is not None:  # never what it says: that may be what nobody else should read
            self._failure = "cancelled" if is_cancelled else kind.__qualname__
        operation = {"operation": self._kind.name}
        record("cnp_router.operation.duration", self.seconds, operation)
        if self._failure is not None and not is_cancelled:
            add("cnp_router.errors", 1, {**operation, "error.type": self._failure})
        if self._span is None:
            return
        api, context = _api("trace"), _api("context")
        if self._failure is not None:
            self._span.set_attribute("error.type", self._failure)
            if not is_cancelled:
                self._span.set_status(api.StatusCode.ERROR)
        self._span.end()
        context.detach(self._token)


def span(name: str, attributes: Mapping[str, Any] | None = None) -> Span:
    """Return an operation to be done in a ``with``: its span is the parent of those begun in it.

    Parameters
    ----------
    name : str
        One of `SPANS`, with what it is about behind a blank: ``"chat gpt-oss:20b"``.
    attributes : mapping, optional
        Of the span; None is left out.

    Examples
    --------
    Without OpenTelemetry nothing happens:

    >>> with span("execute_tool time__now", {"gen_ai.tool.name": "time__now"}) as watched:
    ...     watched.set(cnp_router__effects="reads")
    """
    if strict:
        kind: SpanKind = _found(SPANS, name.partition(" ")[0])
        _known(f"the span {kind.name!r}", kind.attributes, attributes or ())
    tracer = _tracer()
    if tracer is None and _instruments() is None:
        return _NOTHING
    word = name.partition(" ")[0]
    kind = SPANS[word] if word in SPANS else SpanKind(word, "", "")
    if tracer is None:
        return _Watched(kind, None)
    kinds = _api("trace").SpanKind
    role = kinds.CLIENT if kind.is_client else kinds.INTERNAL
    current = tracer.start_span(name, kind=role, attributes=_given(attributes or {}))
    return _Watched(kind, current)


def trace_headers() -> dict[str, str]:
    """Return the header by which a server continues the trace; none where there is no span.

    It is the ``traceparent`` of W3C Trace Context alone: baggage stays here.

    Examples
    --------
    >>> trace_headers()
    {}
    """
    if _tracer() is None:
        return {}
    now = _api("trace").get_current_span().get_span_context()
    if not now.is_valid:
        return {}
    return {"traceparent": f"00-{now.trace_id:032x}-{now.span_id:016x}-{now.trace_flags:02x}"}


def is_on() -> bool:
    """Return whether anything is recorded, for what is costly to find out."""
    return strict or _tracer() is not None or _instruments() is not None


def add(name: str, amount: float = 1, attributes: Mapping[str, Any] | None = None) -> None:
    """Add to a counter.

    Parameters
    ----------
    name : str
        One of `METRICS`.
    amount : float >= 0, default=1
    attributes : mapping of str to str, bool, int or float, optional
        None is left out.
    """
    _measure("counter", name, amount, attributes)


def record(name: str, value: float, attributes: Mapping[str, Any] | None = None) -> None:
    """Record one value of a histogram; parameters are those of `add`."""
    _measure("histogram", name, value, attributes)


def gauge(name: str, value: float, attributes: Mapping[str, Any] | None = None) -> None:
    """Say what the value of a gauge is now; parameters are those of `add`."""
    _measure("gauge", name, value, attributes)


class timed:  # noqa: N801  (used as a function)
    """Record in a histogram how many seconds a ``with`` took, also where an error ended it.

    Examples
    --------
    >>> with timed("cnp_router.embedding.duration", {"purpose": "request"}):
    ...     pass
    """

    __slots__ = ("_attributes", "_began", "_name")

    def __init__(self, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        self._name, self._attributes = name, attributes

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        record(self._name, time.perf_counter() - self._began, self._attributes)


def _measure(kind: str, name: str, value: float, attributes: Mapping[str, Any] | None) -> None:
    if strict:
        metric = _found(METRICS, name)
        if metric.kind != kind:
            raise KeyError(f"{name!r} is a {metric.kind}, not a {kind}")
        _known(f"the metric {name!r}", metric.attributes, attributes or ())
    instruments = _instruments()
    if instruments is not None and name in instruments:
        instruments[name](value, _given(attributes) if attributes else None)


class _Latest:
    """The last values of a gauge, each shown for as long as it says something."""

    def __init__(self, lasts: float) -> None:
        self._lasts = lasts
        self._values: dict[frozenset[tuple[str, Any]], tuple[float, float]] = {}

    def set(self, value: float, attributes: Mapping[str, Any] | None = None) -> None:
        self._values[frozenset((attributes or {}).items())] = value, monotonic()

    def told(self, _: Any) -> list[Any]:
        now, told = monotonic(), _api("metrics").Observation
        latest = self._values.copy().items()
        return [told(value, dict(of)) for of, (value, at) in latest if now - at < self._lasts]


# By provider, so that one that is set later is used: what was made for it. One assignment each, so
# that several threads may ask.
_by_tracer_provider: tuple[Any, Any] = (None, None)
_by_meter_provider: tuple[Any, dict[str, Any] | None] = (None, None)
_making = threading.Lock()


def _api(name: str) -> Any:
    return sys.modules.get(f"opentelemetry.{name}")


def _tracer() -> Any:
    """Return the tracer of the SDK, or None where there is none."""
    global _by_tracer_provider  # noqa: PLW0603
    get = getattr(_api("trace"), "get_tracer_provider", None)
    if get is None:
        return None
    provider = get()
    known, tracer = _by_tracer_provider
    if known is not provider:
        of_api = type(provider).__module__.startswith("opentelemetry.trace")
        tracer = None if of_api else provider.get_tracer(_NAME, __version__)
        _by_tracer_provider = provider, tracer
    return tracer


def _instruments() -> dict[str, Any] | None:
    """Return what records each metric, by name, or None where there is no SDK."""
    global _by_meter_provider  # noqa: PLW0603
    get = getattr(_api("metrics"), "get_meter_provider", None)
    if get is None:
        return None
    provider = get()
    known, made = _by_meter_provider
    if known is provider:
        return made
    with _making:
        known, made = _by_meter_provider
        if known is not provider:
            of_api = type(provider).__module__.startswith("opentelemetry.metrics")
            made = None if of_api else _made(provider.get_meter(_NAME, __version__))
            _by_meter_provider = provider, made
    return made


def _made(meter: Any) -> dict[str, Any]:
    """Return all instruments of a meter, each by what takes its values."""
    found: dict[str, Any] = {}
    for each in METRICS.values():
        if each.kind == "counter":
            found[each.name] = meter.create_counter(each.name, each.unit, each.description).add
        elif each.kind == "gauge":
            latest = _Latest(each.lasts)
            how = (each.name, [latest.told], each.unit, each.description)
            meter.create_observable_gauge(*how)
            found[each.name] = latest.set
        else:
            found[each.name] = meter.create_histogram(
                each.name,
                each.unit,
                each.description,
                explicit_bucket_boundaries_advisory=each.boundaries,
            ).record
    return found


def _given(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


_ALL_OF_SPANS = tuple({name for each in SPANS.values() for name in each.attributes})


def _found(table: Mapping[str, Any], name: str) -> Any:
    if name not in table:
        raise KeyError(f"there is no {name!r} in telemetry_tables.py (add it there)")
    return table[name]


def _known(what: str, there: Any, names: Any) -> None:
    for name in names:
        if name not in there:
            raise KeyError(f"{what} has no attribute {name!r} (add it in telemetry_tables.py)")


def _cancelling() -> tuple[type[BaseException], ...]:
    """Return what says that work was cancelled: who was, has imported asyncio."""
    asyncio = sys.modules.get("asyncio")
    return (GeneratorExit,) if asyncio is None else (GeneratorExit, asyncio.CancelledError)
