"""What was observed corrects probabilities, confidence and thresholds."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from planted import planted

from cnp_router.history import Mashup
from cnp_router.routing import RecallControl
from cnp_router.training import fit_router, recalibration
from cnp_router.training.decision import Answer, Decision
from cnp_router.training.linear import Evidence, sigmoid
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


def test_at_the_lowest_slope_the_intercept_is_the_best_one_beside_it():
    rng = np.random.default_rng(0)
    odds = [rng.normal(-2, 2, size=30) for _ in range(400)]
    used = [rng.random(30) < sigmoid(-0.8 * own - 6) for own in odds]
    found = Recalibration().observed([sigmoid(own) for own in odds], used)
    assert found.slope == 0.2
    wanted = np.log(np.concatenate(used).mean())
    _, free = found.evidence.posterior(recalibration._BEFORE).mean
    p = sigmoid(np.concatenate(odds))
    off = [
        abs(np.log(each.of(p).mean()) - wanted) for each in (found, replace(found, intercept=free))
    ]
    assert off[0] < off[1]


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


def served(p: list[float], labels: list[bool], by: float) -> Answer:
    missed = np.zeros(0) if any(labels) else np.array([1e-9])
    return Answer(np.array(p), np.array(labels), missed, by)


@pytest.mark.parametrize("by", [0.99, 0.9, 0.6])
def test_the_confidence_comes_back_however_long_all_was_well(by):
    """Also where what was served had seemed to be hardly served by anything."""
    decision = Decision.fit(answers(200, 0.75))
    for _ in range(100):
        decision = decision.adapted([served([0.9, 0.05, 0.01], [True, False, False], by)] * 20)
    assert 0 < decision.raised <= 3
    sure = decision.covering(np.array([0.9, 0.05, 0.01]), 0.06)
    for _ in range(5):
        decision = decision.adapted([served([0.9, 0.05, 0.01], [False, False, False], by)] * 20)
    assert decision.covering(np.array([0.9, 0.05, 0.01]), 0.06) < sure - 0.3


def test_whoever_is_announced_to_below_the_threshold_counts():
    """Always one at least."""
    decision = Decision.fit([served([0.9, 0.05], [True, False], 1.0)] * 100)
    assert decision.recall_control.threshold(0.9) == 0.5
    for _ in range(200):
        decision = decision.adapted([served([0.4, 0.05], [True, False], 1.0)])
        decision = replace(decision, shift=0.0, recalibration=Recalibration())
    assert decision.raised > 0


@pytest.mark.parametrize(("slope", "intercept"), [(1.0, -0.2), (0.7, -0.5), (2.0, 0.0)])
@pytest.mark.parametrize("shift", [0.0, -0.5])
def test_the_threshold_is_corrected_as_all_probabilities_are(slope, intercept, shift):
    p, labels = np.array([0.3, 0.05]), np.array([True, False])
    decision = replace(Decision.fit([Answer(p, labels, np.zeros(0))] * 50), shift=shift)
    correction = Recalibration(Evidence(np.eye(2), np.zeros(2), 1), slope, intercept)
    plain = decision.recall_control.threshold(0.9)
    corrected = replace(decision, recalibration=correction).recall_control.threshold(0.9)
    assert plain == pytest.approx(sigmoid(np.log(0.3 / 0.7) + shift))
    assert corrected == pytest.approx(correction.of(np.array([plain]))[0])


WORLD = planted(n_cliques=5, size=4, rounds=8)


@pytest.fixture(scope="module")
def router():
    return fit_router(WORLD.catalog, WORLD.history)


@pytest.mark.parametrize(("slope", "intercept"), [(1.0, -1.0), (1.0, 1.0), (0.7, -0.5)])
def test_a_correction_alone_changes_no_recipients(router, slope, intercept):
    """Nor do known APIs, or several requests in one."""
    other, decision = copy.copy(router), router.decision
    told = Evidence(np.eye(2), np.zeros(2), 1)
    decision = replace(decision, recalibration=Recalibration(told, slope, intercept))
    other.decision, other.recall_control = decision, decision.recall_control
    first, second = WORLD.cases[0], WORLD.cases[-1]
    assert first.clique != second.clique
    for asked in (first.request, f"{first.request} And then {second.request}"):
        for known in ((), first.known):
            left, right = (each.route(asked, known) for each in (router, other))
            assert left.contractors == right.contractors
            left, right = (each.score(asked, known).probabilities for each in (router, other))
            np.testing.assert_allclose(right, Recalibration(told, slope, intercept).of(left))


def test_scores_are_decided_on_by_what_was_known_when_they_were_made(router):
    """Whoever observes meanwhile changes no answer half way."""
    now, case = copy.copy(router), WORLD.cases[0]
    scores = now.score(case.request)
    before = now.decide(case.request, scores)
    wrong = WORLD.cases[-1].clique[:1]
    now.observe([Mashup(f"m{i}", f"{case.request} {i}", wrong) for i in range(30)])
    assert now.decision.shift != router.decision.shift
    after = now.decide(case.request, scores)
    assert (after.contractors, after.confidence) == (before.contractors, before.confidence)
    # What somebody has put there holds.
    now.recall_control = RecallControl(np.full(50, 1e-9), np.arange(50), np.zeros(50))
    assert now.decide(case.request, scores).n_recipients == len(now.apis)
