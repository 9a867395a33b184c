from __future__ import annotations

import numpy as np
import pytest

from cnp_router.evaluation.metrics import ece
from cnp_router.exceptions import InputError
from cnp_router.prediction import AlwaysAsk
from cnp_router.prediction.calibrated import Calibrator


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
        assert ece(claims, right) > 0.12
        assert ece(cured, right) < 0.05

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
            {"counts": [1.0], "right": [0.0]},
            {"counts": [1.0] * 20, "right": [2.0] * 20},
            {"counts": [float("nan")] * 20, "right": [0.0] * 20},
            {"counts": "x", "right": None},
        ],
    )
    def test_a_bad_state(self, state):
        predictor = AlwaysAsk()
        with pytest.raises(InputError, match=r"predictor is broken.*\(give what state\(\) gave\)$"):
            predictor.restore({**predictor.state(), "calibrator": state})
