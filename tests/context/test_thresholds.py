"""Thresholds of what is offered."""

from __future__ import annotations

import itertools

import pytest

from cnp_router.catalog import Api
from cnp_router.context import (
    AdaptiveThreshold,
    FixedThreshold,
    QuantileThreshold,
    SharedContext,
    SparseVectors,
)
from cnp_router.exceptions import InputError

SPREAD = [n / 1000 for n in range(1000)]


def test_a_fixed_one_stays():
    threshold = FixedThreshold(0.4)
    threshold.learn(SPREAD)
    threshold.observe([0.9] * 100, category="a")
    assert threshold.value(category="a", load=1_000) == 0.4


def test_a_quantile_is_that_of_the_background():
    threshold = QuantileThreshold(0.95)
    assert threshold.value() == 0.3
    threshold.learn(SPREAD[:19])
    assert threshold.value() == 0.3
    threshold.learn(SPREAD)
    assert threshold.value() == 0.95
    threshold.learn([0.0] * 100)
    assert threshold.value() == 0.05


def test_more_entries_raise_an_adaptive_one():
    threshold = AdaptiveThreshold()
    threshold.learn(SPREAD)
    assert [threshold.value(load=n) for n in (0, 1, 10, 100, 10_000)] == [
        0.9,
        0.9,
        0.9,
        0.99,
        0.999,
    ]


def test_a_category_counts_by_what_was_seen_in_it():
    threshold = AdaptiveThreshold()
    threshold.learn(SPREAD)
    threshold.observe([0.1] * 19, category="few")
    threshold.observe([0.1] * 2_000, category="many")
    threshold.observe([0.1] * 2_000)
    assert threshold.value(category="few", load=10) == 0.9
    assert 0.1 < threshold.value(category="many", load=10) < 0.2
    assert threshold.value(load=10) == 0.9


def test_the_last_that_were_seen_count():
    threshold = AdaptiveThreshold(weight=0)
    threshold.learn(SPREAD)
    threshold.observe([0.8] * 2_000, category="a")
    threshold.observe([0.2] * 2_000, category="a")
    assert threshold.value(category="a", load=10) == 0.2


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedThreshold(1.1),
        lambda: QuantileThreshold(-1),
        lambda: AdaptiveThreshold(most=0),
        lambda: AdaptiveThreshold(least=2),
    ],
)
def test_what_cannot_be_is_refused(make):
    with pytest.raises(InputError):
        make()


def test_what_says_the_same_is_no_background():
    texts = [" ".join(words) for words in itertools.permutations(("rain", "wind", "city", "sun"))]
    others = ["Sends a text message.", "Shows a place on a map.", "Lists trains."]
    cosines = SparseVectors().learn([*texts, *others])
    assert len(cosines) == 3 * len(texts) + 3
    assert max(cosines) < 0.5


def test_a_catalog_of_many_alike_leaves_room():
    apis = [Api(f"s{n}__now", "now", "Forecasts rain for a city.") for n in range(50)]
    apis += [Api(f"t{n}__go", f"go{n}", f"Does the thing {n}.") for n in range(9)]
    context = SharedContext()
    context.know(apis)
    assert context.threshold.value() < 0.7
