"""What was observed corrects probabilities, confidence and thresholds."""

from __future__ import annotations

import numpy as np
import pytest

from cnp_router.routing import RecallControl
from cnp_router.training.decision import Answer, Decision
from cnp_router.training.linear import sigmoid
from cnp_router.training.recalibration import Recalibration


def outcomes(n: int, slope: float, intercept: float, seed: int = 0):
    """Give probabilities, and what was used by those that are right after a correction."""
    rng = np.random.default_rng(seed)
    odds = [rng.normal(-2, 2, size=30) for _ in range(n)]
    used = [rng.random(30) < sigmoid(slope * own + intercept) for own in odds]
    return [sigmoid(own) for own in odds], used


@pytest.mark.parametrize(("slope", "intercept"), [(1.0, 0.0), (1.0, -1.5), (0.6, 0.5), (1.6, 1.0)])
@pytest.mark.parametrize("at_once", [1, 25, 500])
def test_it_finds_what_is_wrong(slope, intercept, at_once):
    given, used = outcomes(500, slope, intercept)
    found = Recalibration()
    for start in range(0, 500, at_once):
        own = slice(start, start + at_once)
        found = found.observed(given[own], used[own])
    assert found.evidence.n == 500
    assert found.slope == pytest.approx(slope, abs=0.12)
    assert found.intercept == pytest.approx(intercept, abs=0.3)
    p, labels = np.concatenate(given), np.concatenate(used)
    assert found.of(p).sum() == pytest.approx(labels.sum(), rel=0.1)


def test_without_feedback_nothing_changes():
    p = np.array([0.0, 0.3, 1.0])
    assert Recalibration().of(p) is p
    assert Recalibration().observed([np.array([0.0, 1.0])], [np.array([True, False])]).of(p) is p


def test_the_order_stays_and_so_do_the_ends():
    given, used = outcomes(50, 0.5, -1.0)
    found = Recalibration().observed(given, used)
    p = np.array([0.0, 1e-12, 0.01, 0.5, 0.99, 1.0])
    corrected = found.of(p)
    assert corrected[0] == 0 and corrected[-1] == 1 and (np.diff(corrected) > 0).all()


def test_one_request_changes_little_and_many_strange_ones_not_the_order():
    given, used = outcomes(1, 1.0, 0.0)
    once = Recalibration().observed(given, used)
    assert once.slope == pytest.approx(1, abs=0.2) and once.intercept == pytest.approx(0, abs=0.2)
    upside_down = [1 - own for own in outcomes(300, 1.0, 0.0)[0]]
    found = Recalibration().observed(upside_down, outcomes(300, 3.0, 0.0)[1])
    assert found.slope > 0


def test_the_last_requests_count_most():
    found = Recalibration().observed(*outcomes(1_000, 1.0, -2.0))
    for seed in range(4):
        found = found.observed(*outcomes(200, 1.0, 2.0, seed=seed + 1))
    assert found.intercept == pytest.approx(2.0, abs=0.5)


def test_a_threshold_is_corrected_as_the_probabilities_are():
    """Whom it reaches stays the same."""
    rng = np.random.default_rng(0)
    needed = rng.uniform(0.05, 0.9, size=200)
    given, used = outcomes(100, 0.7, -0.8)
    found = Recalibration().observed(given, used)
    p = rng.uniform(0, 1, size=1_000)
    for shift in (0.0, -1.0, 1.5):
        before = RecallControl(needed, np.arange(200), np.zeros(200), shift)
        after = RecallControl(
            needed,
            np.arange(200),
            np.zeros(200),
            shift,
            slope=found.slope,
            intercept=found.intercept,
        )
        reached = p >= before.threshold(0.9)
        assert 0 < reached.sum() < 1_000
        np.testing.assert_array_equal(found.of(p) >= after.threshold(0.9), reached)


def answers(n: int, covered: float, seed: int = 0) -> list[Answer]:
    """Give answers of the same probabilities, of which some are missed whatever is announced."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        is_missed = rng.random() >= covered
        labels = np.array([True, False, False])
        missed = np.array([1e-9]) if is_missed else np.zeros(0)
        made.append(Answer(np.array([0.9, 0.05, 0.01]), labels, missed, 0.9))
    return made


@pytest.mark.parametrize("covered", [0.3, 0.6, 0.9])
def test_the_confidence_becomes_how_often_all_are_reached(covered):
    decision = Decision.fit(answers(200, 0.75))
    for start in range(0, 600, 20):
        decision = decision.adapted(answers(20, covered, seed=start + 1))
    sure = decision.covering(np.array([0.9, 0.05, 0.01]), 0.06)
    assert min(sure * 0.9, 0.9) == pytest.approx(covered, abs=0.1)
