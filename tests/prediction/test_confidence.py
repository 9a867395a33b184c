from __future__ import annotations

import numpy as np
import pytest

from cnp_router.exceptions import InputError
from cnp_router.prediction.calibration import (
    Calibrator,
    expected_calibration_error,
    risk_coverage,
)


def overconfident(n, seed=0):
    """Claims, and outcomes that come at the square of the claim's rate."""
    rng = np.random.default_rng(seed)
    claims = rng.random(n)
    return claims, rng.random(n) < claims**2


class TestCalibrator:
    def test_before_anything_is_learned_confidence_is_taken_as_it_is(self):
        calibrator = Calibrator()
        for confidence in np.linspace(0, 1, 41):
            assert calibrator.calibrate(confidence) == pytest.approx(confidence)

    def test_it_cures_overconfidence_without_looking_ahead(self):
        claims, right = overconfident(4000)
        calibrator, cured = Calibrator(), []
        for claim, came in zip(claims, right, strict=True):
            cured.append(calibrator.calibrate(claim))
            calibrator.observe(claim, right=bool(came))
        assert expected_calibration_error(claims, right) > 0.12
        assert expected_calibration_error(cured, right) < 0.05

    def test_it_follows_a_change(self):
        calibrator = Calibrator()
        for _ in range(500):
            calibrator.observe(0.7, right=True)
        assert calibrator.calibrate(0.7) > 0.85
        for _ in range(500):
            calibrator.observe(0.7, right=False)
        assert calibrator.calibrate(0.7) < 0.4

    def test_more_confident_stays_more_confident(self):
        claims, right = overconfident(300, seed=1)
        calibrator = Calibrator()
        for claim, came in zip(1 - claims, right, strict=True):
            calibrator.observe(claim, right=bool(came))
        calibrated = [calibrator.calibrate(c) for c in np.linspace(0, 1, 101)]
        assert np.all(np.diff(calibrated) >= -1e-12)
        assert min(calibrated) >= 0
        assert max(calibrated) <= 1

    @pytest.mark.parametrize(
        "state",
        [
            {},
            {"seen": [1.0], "right": [0.0]},
            {"seen": [1.0] * 20, "right": [2.0] * 20},
            {"seen": [float("nan")] * 20, "right": [0.0] * 20},
            {"seen": "x", "right": None},
        ],
    )
    def test_a_bad_state(self, state):
        with pytest.raises(InputError, match=r"^no state of a calibrator"):
            Calibrator.from_state(state)


class TestMeasures:
    def test_the_error_of_one_bin_is_its_gap(self):
        assert expected_calibration_error([0.8] * 4, [1, 1, 0, 0]) == pytest.approx(0.3)

    def test_gaps_of_two_bins_do_not_cancel(self):
        assert expected_calibration_error([0.9, 0.1], [0, 1]) == pytest.approx(0.9)

    def test_nothing_to_measure(self):
        assert expected_calibration_error([], []) == 0.0
        assert risk_coverage([], []) == ()

    def test_the_curve(self):
        points = risk_coverage([0.2, 0.9, 0.5, 0.9], [False, True, True, False])
        assert [point.threshold for point in points] == [0.9, 0.5, 0.2]
        assert [point.coverage for point in points] == [0.5, 0.75, 1.0]
        assert [point.risk for point in points] == pytest.approx([0.5, 1 / 3, 0.5])

    def test_the_curve_is_thinned_and_keeps_its_end(self):
        points = risk_coverage(np.linspace(0, 1, 1000), [True] * 1000, n_points=10)
        assert len(points) == 10
        assert points[-1].coverage == 1.0
