"""The benchmark of MCP servers, on one of them."""

from __future__ import annotations

import asyncio

import pytest
from tool_servers import no_process_left, time_entry

from benchmarks.tool_servers import Case, measure
from cnp_router.exceptions import SourceError


def test_one_server_is_measured():
    case = Case("time", time_entry(), "get_current_time", {"timezone": "Asia/Tokyo"})
    with no_process_left():
        found = asyncio.run(measure(case, calls=3))
    assert (found["tools"], found["protocol"]) == (2, "2026-07-28")
    times = ("start", "list", "first call", "second call", "later calls", "in parallel", "close")
    assert min(found[key] for key in times) > 0


def test_a_call_that_fails_is_no_measurement():
    case = Case("time", time_entry(), "get_current_time", {"timezone": "Atlantis"})
    with no_process_left(), pytest.raises(SourceError, match="Atlantis"):
        asyncio.run(measure(case, calls=3))
