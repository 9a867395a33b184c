"""The benchmark of what is offered: its rows, and that its truth is one."""

from __future__ import annotations

import pytest

from benchmarks import context
from cnp_router.context import FixedThreshold


def test_all_is_offered_at_no_threshold_and_nothing_at_the_highest():
    everything = context.measure(12, 0, FixedThreshold(0))
    assert everything["recall"] == 1.0
    assert everything["offered"] == 12
    assert everything["precision"] == pytest.approx(1 / 12)
    nothing = context.measure(12, 0, FixedThreshold(1))
    assert (nothing["offered"], nothing["f1"]) == (0, 0)


def test_the_same_seed_gives_the_same():
    figures = [context.measure(12, 1, FixedThreshold(0.2)) for _ in range(2)]
    for each in figures:
        del each["seconds"]
    assert figures[0] == figures[1]


def test_no_two_rows_share_a_threshold():
    assert {"fixed 0.7", "quantile 0.99", "adaptive, 1 by chance"} <= set(context.thresholds())
