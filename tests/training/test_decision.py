from __future__ import annotations

import numpy as np
import pytest

from cnp_router.routing import Ranked, RecallControl, TargetRecall
from cnp_router.training.decision import (
    CONFIDENCE,
    Answer,
    Decision,
    confidence_features,
    confidence_rows,
)
from cnp_router.training.linear import Logistic
from cnp_router.training.prior import bundled_prior

NONE = np.zeros(0)


def generated(n, seed, size=15):
    """Requests whose probabilities are true: each API is used with just that one."""
    rng = np.random.default_rng(seed)
    answers = []
    while len(answers) < n:
        p = rng.beta(0.4, rng.uniform(0.5, 6), size)
        labels = rng.random(size) < p
        if labels.any():
            answers.append(Answer(p, labels, NONE))
    return answers


def test_the_recall_control_is_the_one_measured_on_all_apis():
    answers = generated(50, seed=0)
    control = Decision.fit(answers).recall_control
    measured = RecallControl.measured(
        [a.probabilities for a in answers], [np.flatnonzero(a.labels) for a in answers]
    )
    assert control.n_requests == measured.n_requests == 50
    for target in (0.5, 0.8, 0.9, 0.95):
        assert control.threshold(target) == pytest.approx(measured.threshold(target))


def test_a_recall_is_promised_from_ones_own_requests_only():
    answers = generated(50, seed=0)
    for prior, is_promise in ((None, True), (bundled_prior(), False)):
        decision = Decision.fit(answers, 50, prior)
        assert decision.recall_control.is_promise is is_promise
        assert Decision.from_state(decision.state()).recall_control.is_promise is is_promise
        assert decision.recall_control.adapted([0.5]).is_promise is is_promise


def test_a_use_that_was_no_candidate_is_reached_by_a_broadcast_only():
    answers = [Answer(np.array([0.5, 0.2]), np.array([True, False]), np.zeros(1))] * 9
    control = Decision.fit(answers).recall_control
    assert (control.needed == 0).sum() == 9
    assert control.threshold(0.4) == 0.5
    assert control.threshold(0.6) == 0


def test_a_use_behind_the_candidates_is_reached_by_its_group():
    answers = [Answer(np.array([0.5, 0.2]), np.array([True, False]), np.array([0.001]))] * 19
    assert Decision.fit(answers).recall_control.threshold(0.9) == 0.001


def test_what_nothing_speaks_for_lowers_the_threshold_only_where_that_reaches_others():
    decision = Decision.fit(generated(200, seed=0))
    least = decision.recall_control.threshold(0.9)
    for other, is_lowered in ((least / 2, True), (least * 1.1, False)):
        missed = Answer(np.array([0.9, other]), np.array([True, False]), np.zeros(1))
        assert (decision.adapted([missed]).shift < 0) is is_lowered


def test_with_little_history_who_was_given_nothing_is_reached_too():
    answers = [Answer(np.array([0.5, 0.2]), np.array([True, False]), np.zeros(1), 1.0, 7.0)] * 9
    assert Decision.fit(answers).needed.min() == 0
    decision = Decision.fit(answers, 9, bundled_prior())
    assert decision.needed.min() > 0
    # And it is the same at any time.
    assert not decision.months.any()
    assert Decision.fit(answers).months.tolist() == [7.0] * 9


@pytest.mark.parametrize("by", [0.9, 0.5])
def test_it_is_no_surer_than_that_anything_serves_the_request(by):
    answer = Answer(np.array([0.9, 0.1]), np.array([True, False]), NONE, by)
    decision = Decision.fit([answer] * 99)
    sure = decision.covering(answer.probabilities, 0.1)
    assert sure * by == pytest.approx(by * 0.99, abs=0.002)


def test_it_is_right_on_average_where_one_is_announced_to_below_the_threshold():
    sure = Answer(np.array([0.9, 0.1]), np.array([True, False]), NONE)
    unsure = Answer(np.array([0.3, 0.1]), np.array([True, False]), NONE)
    decision = Decision.fit([sure] * 95 + [unsure] * 5)
    assert decision.recall_control.threshold(0.9) == 0.5
    said = [decision.covering(answer.probabilities, 0.1) for answer in (sure, unsure)]
    assert np.average(said, weights=[95, 5]) == pytest.approx(100 / 101, abs=1e-5)


def test_it_can_have_a_share_of_what_the_prior_is_sure_of():
    decision, prior = Decision.fit(generated(50, seed=0)), bundled_prior()
    known = Decision.fit([], 10, prior)
    for feature in (np.array([0.0, 0.9]), np.array([0.4, 0.2])):
        own, half, its = (
            decision.at(prior, 10, share).confidence.log_odds(feature) for share in (0.0, 0.5, 1.0)
        )
        assert own == pytest.approx(decision.confidence.log_odds(feature))
        assert its == pytest.approx(known.confidence.log_odds(feature))
        assert half == pytest.approx((own + its) / 2)


def test_no_candidates_at_all():
    nothing = Answer(np.zeros(0), np.zeros(0, dtype=bool), np.zeros(2))
    assert Decision.fit([nothing] * 3).recall_control.threshold(0.5) == 0
    # It has never covered anything, and it says so.
    never = Decision.fit([nothing] * 3).confidence.probability(np.zeros(len(CONFIDENCE)))
    assert never < 0.001


def test_the_confidence_is_calibrated():
    decision = Decision.fit(generated(800, seed=1))
    model = decision.confidence
    confidence, covered, by_rule = [], [], []
    for answer in generated(800, seed=2):
        p, labels = answer.probabilities, answer.labels
        order = np.argsort(-p)
        for size in (1, 4, 8, 12):
            outside = float(p[order[size:]].sum())
            confidence.append(model.probability_of(confidence_features(p, outside)))
            covered.append(labels[order[:size]].sum() == answer.n_used)
        ids = [str(i) for i in range(len(p))]
        chosen = TargetRecall().places(
            Ranked(ids, p[order], recall_control=decision.recall_control)
        )
        outside = float(np.delete(p[order], chosen).sum())
        by_rule.append(
            (
                model.probability_of(confidence_features(p, outside)),
                labels[order[chosen]].sum() == answer.n_used,
            )
        )
    confidence, covered = np.array(confidence), np.array(covered)
    place = np.minimum((confidence * 5).astype(int), 4)
    for b in range(5):
        inside = place == b
        assert confidence[inside].mean() == pytest.approx(covered[inside].mean(), abs=0.12)
    assert abs(confidence.mean() - covered.mean()) < 0.08
    # It is set so that it is right on average where the default rule selects.
    said, true = np.mean(by_rule, axis=0)
    assert abs(said - true) < 0.04


def test_asking_more_gives_more_confidence():
    model = Decision.fit(generated(400, seed=3)).confidence
    p = np.sort(generated(1, seed=4)[0].probabilities)[::-1]
    confidence = [
        model.probability_of(confidence_features(p, float(p[size:].sum())))
        for size in range(1, len(p) + 1)
    ]
    assert confidence == sorted(confidence)


def test_always_covered_is_not_yet_certain():
    answer = Answer(np.array([0.9, 0.1]), np.array([True, False]), NONE)
    model = Decision.fit([answer] * 5).confidence
    p = model.probability_of(confidence_features(np.array([0.9, 0.1]), 0.1))
    assert 0.5 < p < 1


def test_a_selection_that_several_shares_lead_to_counts_once():
    p, labels = np.array([0.99, *[1e-4] * 59]), np.arange(60) == 4
    rows, covered = zip(*confidence_rows(Answer(p, labels, NONE)), strict=True)
    outside = [(60 - size) * 1e-4 / p.sum() for size in (1, 3, 5, 10, 20, 50)]
    np.testing.assert_allclose(rows, [(share, 0.99) for share in outside], rtol=1e-9)
    assert covered == (False, False, True, True, True, True)


@pytest.mark.parametrize("probabilities", [[0.0, 0.0], [1.0, 1.0], []])
def test_confidence_features_are_finite(probabilities):
    assert np.isfinite(confidence_features(np.array(probabilities), 0.0)).all()


class TestLogistic:
    def test_the_scale_of_the_features_is_folded_in(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(500, 2))
        y = rng.random(500) < 1 / (1 + np.exp(-2 * X[:, 0]))
        plain = Logistic.fit(X, y)
        scaled = Logistic.fit(X * [1000, 0.001] + [5, -7], y)
        np.testing.assert_allclose(
            plain.probability(X), scaled.probability(X * [1000, 0.001] + [5, -7]), atol=1e-3
        )

    def test_a_feature_that_never_changes(self):
        X = np.column_stack([np.ones(20), np.arange(20)])
        model = Logistic.fit(X, np.arange(20) > 9)
        assert np.isfinite(model.coefficients).all()

    @pytest.mark.parametrize(("n", "positive", "rate"), [(0, False, 0.5), (8, True, 0.9)])
    def test_a_single_class_gives_its_smoothed_frequency(self, n, positive, rate):
        model = Logistic.fit(np.zeros((n, 3)), np.full(n, positive))
        assert model.probability(np.ones((1, 3)))[0] == pytest.approx(rate)

    def test_extreme_scores_do_not_overflow(self):
        model = Logistic(np.array([1.0]), 0.0)
        assert model.probability(np.array([[-1e9], [0], [1e9]])).tolist() == [0, 0.5, 1]


def test_what_is_more_probably_needed_than_not_is_always_asked():
    p = np.array([0.99, 0.9, 0.01])
    labels = np.array([True, True, False])
    easy = [Answer(p, labels, np.zeros(0), 0.99, 0.0)] * 300
    control = Decision.fit(easy).recall_control
    assert control.threshold(0.9) == control.threshold(0.3) == 0.5
