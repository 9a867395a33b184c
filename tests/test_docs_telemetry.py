"""The tables of docs/telemetry.md are those of the module."""

from __future__ import annotations

import re
from pathlib import Path

from cnp_router import telemetry

PAGE = Path(__file__).resolve().parents[1] / "docs" / "telemetry.md"


def spans():
    yield "| span | what it is | attributes |"
    yield "|---|---|---|"
    for each in telemetry.SPANS.values():
        name = f"{each.name} {{{each.about}}}" if each.about else each.name
        attributes = ", ".join(f"`{one}`" for one in each.attributes)
        client = " (a client's)" if each.is_client else ""
        yield f"| `{name}`{client} | {each.description} | {attributes} |"


def metrics():
    yield "| metric | Prometheus | kind, unit | what it is | attributes |"
    yield "|---|---|---|---|---|"
    for each in telemetry.METRICS.values():
        attributes = ", ".join(f"`{one}`" for one in each.attributes)
        kind = f"{each.kind}, `{each.unit}`"
        shown = f"`{each.name}` | `{prometheus(each)}`"
        yield f"| {shown} | {kind} | {each.description} | {attributes} |"


def prometheus(metric):
    """The name that the exporter writes (a test of telemetry runs it)."""
    name = metric.name.replace(".", "_") + ("_seconds" if metric.unit == "s" else "")
    return name + ("_total" if metric.kind == "counter" else "")


def test_the_tables_are_those_of_the_module():
    text = PAGE.read_text(encoding="utf-8")
    for name, made in (("spans", spans), ("metrics", metrics)):
        (shown,) = re.findall(
            rf"<!-- table: {name} -->\n(.*?)<!-- table ends: {name} -->", text, re.DOTALL
        )
        table = "\n".join(made()) + "\n"
        assert shown == table, f"the table of {name} must be:\n\n{table}"
