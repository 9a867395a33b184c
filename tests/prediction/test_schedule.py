from __future__ import annotations

import pytest

from cnp_router.exceptions import InputError
from cnp_router.prediction import Coverage, Schedule


def test_the_threshold_falls_as_coverage_grows_and_then_stays():
    thresholds = [Schedule().threshold(n / 20) for n in range(21)]
    assert thresholds == sorted(thresholds, reverse=True)
    assert (thresholds[0], round(thresholds[-1], 9)) == (0.9, 0.6)
    assert len({round(t, 9) for t in thresholds[17:]}) == 1


def test_the_cold_start_ends_after_so_many_trajectories():
    schedule = Schedule(ask_first=3)
    assert [schedule.is_cold(n) for n in (0, 2, 3, 4)] == [True, True, False, False]


def test_a_fixed_threshold_is_never_cold():
    fixed = Schedule.fixed(0.7)
    assert (fixed.threshold(0), fixed.threshold(1), fixed.is_cold(0)) == (0.7, 0.7, False)
    assert Schedule.fixed(0.7, ask_first=2).is_cold(1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ask_first": -1},
        {"first": 1.1},
        {"last": -0.1},
        {"first": 0.5, "last": 0.6},
        {"full": 0},
        {"full": 1.1},
        {"first": float("nan")},
    ],
)
def test_a_wrong_schedule(wrong):
    with pytest.raises(InputError, match=r"must be|thresholds"):
        Schedule(**wrong)


def test_coverage_is_that_of_the_window():
    coverage = Coverage(window=3)
    shares = []
    for foretold in (True, True, False, False, False, True):
        coverage.add(foretold)
        shares.append(round(coverage.share, 2))
    assert shares == [1.0, 1.0, 0.67, 0.33, 0.0, 0.33]


def test_coverage_comes_back_from_its_state():
    coverage = Coverage(window=5)
    for n in range(8):
        coverage.add(n % 3 == 0)
    again = Coverage.from_state(coverage.state())
    for foretold in (True, True, False):
        coverage.add(foretold)
        again.add(foretold)
        assert again.share == coverage.share


@pytest.mark.parametrize(
    "state", [{"window": 2, "recent": [1, 1, 1]}, {"window": 2, "recent": [2]}, {"window": 0}]
)
def test_a_state_that_is_none(state):
    with pytest.raises((KeyError, ValueError)):
        Coverage.from_state(state)
