"""How a history is parted."""

from __future__ import annotations

import numpy as np
import pytest

from cnp_router.training.splits import (
    HIDDEN_SHARES,
    MAX_EXAMPLES,
    MOST_SPLITS,
    dated_splits,
    random_splits,
)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 30, 499, 500, 1_200])
@pytest.mark.parametrize("dated", [False, True])
def test_random_folds_ask_each_mashup_once_and_never_one_that_is_known(n, dated):
    splits = random_splits(n, dated=dated, random_state=0)
    asked = [row for split in splits for row in split.asked.tolist()]
    assert sorted(asked) == (list(range(n)) if n > 1 else [])
    for split in splits:
        assert not set(split.train) & set(split.asked)
        assert len(split.train) + len(split.asked) == n
        assert set(split.undated) <= set(split.asked)
        assert split.is_random


def test_a_dated_history_hides_nothing_and_asks_some_without_their_date():
    plain = random_splits(2_000, dated=False, random_state=1)
    dated = random_splits(2_000, dated=True, random_state=1)
    assert tuple(split.hidden for split in plain) == HIDDEN_SHARES
    assert not any(split.hidden for split in dated)
    assert not any(len(split.undated) for split in plain)
    assert sum(len(split.undated) for split in dated) == pytest.approx(800, abs=80)


def test_what_is_asked_is_later_than_all_that_is_known():
    days = np.random.default_rng(0).permutation(3_000).astype(np.float32)
    splits = dated_splits(days, random_state=0)
    assert [round(len(split.train) / 300) for split in splits] == [4, 5, 6, 7, 8, 9, 3, 5, 7]
    for split in splits:
        assert days[split.train].max() < days[split.asked].min()
        assert not split.is_random
    rolling, long = splits[:6], splits[6:]
    for split in rolling:
        assert days[split.asked].max() - days[split.train].max() <= 300
    assert all(days[split.asked].max() > 2_900 for split in long)
    assert len(random_splits(3_000, dated=True, random_state=0)) + len(splits) <= MOST_SPLITS


def test_cost_is_bounded():
    n = 50_000
    splits = random_splits(n, dated=True, random_state=0)
    assert sum(len(split.asked) for split in splits) == MAX_EXAMPLES
    assert sum(len(s.asked) for s in dated_splits(np.arange(n), random_state=0)) <= MAX_EXAMPLES


def test_the_same_seed_parts_alike():
    one, other = (random_splits(900, dated=True, random_state=7) for _ in range(2))
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left.asked, right.asked)
        np.testing.assert_array_equal(left.undated, right.undated)
