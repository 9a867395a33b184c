"""What stands behind the candidates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cnp_router.training.ranker import Example
from cnp_router.training.tail import Tail
from cnp_router.training.views import Behind

NEVER, OFTEN = 0.0005, 0.01


def examples(n, seed=0):
    """Behind each request stand 200 APIs; those that are named are needed more, later ones too."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        months = float(rng.choice([-10.0, 30.0]))
        naming, counts = rng.integers(0, 3, 200), rng.integers(0, 2, 200) * 5.0
        p = np.where(naming > 0, OFTEN, NEVER) * np.where((months > 0) & (counts == 0), 3, 1)
        needed = rng.random(200) < p
        pairs = np.stack([naming, counts])
        behind = Behind(pairs[:, needed], pairs, np.ones(200))
        found.append(Example(None, None, None, np.zeros(0), True, 0, months, behind))
    return found


def test_as_many_are_needed_as_it_says():
    tail = Tail.fit(examples(2_000))
    said = needed = 0.0
    for example in examples(2_000, seed=1):
        naming, counts = example.behind.groups
        said += tail.probabilities(naming, counts, example.months).sum()
        needed += example.behind.missed.shape[1]
    assert said == pytest.approx(needed, rel=0.1)


def test_it_tells_groups_apart():
    tail = Tail.fit(examples(2_000))
    named, unnamed = tail.probabilities(np.array([2, 0]), np.array([5.0, 5.0]), 0.0)
    assert named > 5 * unnamed
    (before,) = tail.probabilities(np.array([1]), np.zeros(1), -10.0)
    (after,) = tail.probabilities(np.array([1]), np.zeros(1), 30.0)
    assert after > 1.5 * before


def test_what_was_missed_is_among_what_it_judges():
    tail = Tail.fit(examples(300))
    some = examples(300)
    for example, missed in zip(some, tail.missed(some), strict=True):
        naming, counts = example.behind.missed
        expected = tail.probabilities(naming, counts, example.months)
        np.testing.assert_allclose(missed, expected, rtol=1e-9)
        assert ((missed > 0) & (missed < 0.5)).all()
    assert tail.missed([]) == []


def test_where_nothing_was_ever_missed_nothing_is_probable():
    nothing = Behind(np.zeros((2, 0)), np.array([[0, 1], [0, 4]]), np.ones(2))
    tail = Tail.fit([Example(None, None, None, np.zeros(0), True, 0, 0.0, nothing)] * 20)
    assert tail.model is None
    assert tail.probabilities(np.array([0, 9]), np.array([0.0, 9.0]), 0.0).tolist() == [0, 0]


def test_a_few_days_later_tell_nothing_of_a_year_later():
    some = [replace(example, months=0.0) for example in examples(300)]
    late = next(i for i, example in enumerate(some) if example.behind.missed.shape[1])
    some[late] = replace(some[late], months=0.02)
    tail = Tail.fit(some)
    naming, counts = np.array([0, 1, 2]), np.array([0.0, 5.0, 5.0])
    now, then = (tail.probabilities(naming, counts, months) for months in (0.0, 12.0))
    np.testing.assert_array_equal(now, then)
    assert now.max() < 0.1


def test_a_group_counts_for_all_that_are_in_it():
    some = examples(1_000)
    grouped = []
    for example in some:
        pairs, sizes = np.unique(example.behind.groups, axis=1, return_counts=True)
        behind = Behind(example.behind.missed, pairs, sizes)
        grouped.append(replace(example, behind=behind))
    naming, counts = np.array([0, 2, 0, 2]), np.array([0.0, 0.0, 5.0, 5.0])
    each, together = (Tail.fit(own).probabilities(naming, counts, 30.0) for own in (some, grouped))
    np.testing.assert_allclose(together, each, rtol=0.05)


def test_groups_at_several_times_are_those_of_each():
    naming, counts, months = np.zeros(1), np.array([0.0, 5.0, 7.0]), np.array([[-4.0], [30.0]])
    for tail in (Tail.fit(examples(300)), Tail(None)):
        found = tail.groups(naming, counts, months)
        assert found.shape == (2, 3)
        for row, own in zip(found, months[:, 0], strict=True):
            expected = tail.probabilities(np.zeros(3), counts, own)
            np.testing.assert_allclose(row, expected, rtol=1e-9)


def test_groups_are_as_probable_as_what_is_in_them():
    tail = Tail.fit(examples(2_000))
    naming, counts = np.array([0, 3, 0, 1]), np.array([0.0, 5.0, 1.0, 0.0])
    for months in (-4.0, 0.0, 30.0):
        np.testing.assert_allclose(
            tail.groups(naming, counts, months),
            tail.probabilities(naming, counts, months),
            rtol=1e-9,
        )
    assert Tail(None).groups(naming, counts, 0.0).tolist() == [0] * 4
