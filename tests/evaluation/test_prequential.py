from __future__ import annotations

import json

import numpy as np
import pytest
from worlds import noisy, run

from cnp_router.evaluation.metrics import ReliabilityBin, risk_coverage
from cnp_router.evaluation.prequential import (
    THRESHOLDS,
    AtThreshold,
    PredictorEvaluation,
    PrequentialEvaluation,
    prequential,
)
from cnp_router.exceptions import InputError
from cnp_router.prediction import (
    PREDICTORS,
    AlwaysAsk,
    Candidate,
    ContextPredictor,
    FirstOrderPredictor,
    NextTool,
)
from cnp_router.trajectories import Step, Trajectory


class Scripted(AlwaysAsk):
    """Answers from a list, and records what it was shown and taught."""

    name = "scripted"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []

    def predict_next(self, prefix, context=None):
        self.calls.append(("asked", tuple(step.tool for step in prefix), context.goal))
        tool, confidence = self.answers.pop(0)
        candidates = () if tool is None else (Candidate(tool, confidence),)
        return NextTool(tool, confidence, candidates, self.name)

    def observe_step(self, prefix, step, context=None, *, weight=1.0):
        self.calls.append(("taught", tuple(s.tool for s in prefix), step.tool, weight))

    def end_trajectory(self):
        self.calls.append(("end",))


def paid(tool, tokens, seconds, **rest):
    return Step(tool, {}, "", tokens - 1, 1, seconds, **rest)


class TestFigures:
    def test_what_is_saved(self):
        log = [run(0, "Rain?", paid("a", 100, 1.0), paid("b", 200, 2.0), paid("c", 700, 5.0))]
        predictor = Scripted(("a", 0.9), ("x", 0.8), ("c", 0.5))
        result = prequential([predictor], log, thresholds=[0.5, 0.8, 0.95])
        low, middle, high = result.methods["scripted"].thresholds
        assert (low.coverage, low.accuracy) == (1.0, pytest.approx(2 / 3))
        assert low.tokens_saved == pytest.approx(0.8)
        assert low.tokens_saved_net == pytest.approx(0.6)
        assert low.seconds_saved == pytest.approx(0.75)
        assert (middle.coverage, middle.accuracy) == (pytest.approx(2 / 3), 0.5)
        assert middle.tokens_saved == pytest.approx(0.1)
        assert middle.tokens_saved_net == pytest.approx(-0.1)
        assert (high.coverage, high.accuracy, high.tokens_saved) == (0.0, None, 0.0)
        assert (result.n_trajectories, result.n_steps, result.n_warm) == (1, 3, 0)
        assert (result.tokens, result.seconds) == (1000, 8.0)

    def test_an_excluded_tool_is_not_acted_upon(self):
        log = [run(0, "Rain?", paid("a", 100, 1.0), paid("b", 200, 2.0), paid("c", 700, 5.0))]
        predictor = Scripted(("a", 0.9), ("x", 0.8), ("c", 0.5))
        result = prequential([predictor], log, thresholds=[0.0], exclude=["c", "x", "c"])
        (at,) = result.methods["scripted"].thresholds
        assert (at.coverage, at.accuracy) == (pytest.approx(1 / 3), 1.0)
        assert (at.tokens_saved, at.tokens_saved_net) == (pytest.approx(0.1), pytest.approx(0.1))
        assert at.seconds_saved == pytest.approx(0.125)
        assert (result.n_steps, result.tokens, result.exclude) == (3, 1000, ("c", "x"))
        assert [row[2] for row in predictor.calls if row[0] == "taught"] == ["a", "b", "c"]
        curve = [(p.coverage, p.risk) for p in result.methods["scripted"].risk_coverage]
        assert curve == [(pytest.approx(1 / 3), 0.0), (1.0, pytest.approx(2 / 3))]

    def test_excluding_leaves_what_is_learned_as_it_is(self):
        log = noisy(20)
        plain = prequential([ContextPredictor()], log).methods["context"]
        without = prequential([ContextPredictor()], log, exclude=["weather"]).methods["context"]
        assert without.calibration_error == plain.calibration_error
        assert without.thresholds[0].coverage < plain.thresholds[0].coverage

    def test_who_says_nothing_covers_nothing(self):
        result = prequential([AlwaysAsk()], noisy(3), thresholds=[0.0, 1.0])
        for at in result.methods["always-ask"].thresholds:
            assert (at.coverage, at.accuracy, at.tokens_saved_net) == (0.0, None, 0.0)

    def test_steps_without_tokens_save_none(self):
        result = prequential(
            [FirstOrderPredictor()], [run(0, "Rain?", *"ababab")], thresholds=[0.0]
        )
        at = result.methods["first-order"].thresholds[0]
        assert at.coverage > 0
        assert (at.tokens_saved, at.seconds_saved) == (0.0, 0.0)

    def test_the_best_threshold(self):
        log = [run(0, "Rain?", *(paid("a", 100, 1.0) for _ in range(4)))]
        answers = [("a", 0.9), ("a", 0.7), ("x", 0.6), ("x", 0.5)]
        method = prequential([Scripted(*answers)], log, thresholds=[0.5, 0.6, 0.7, 0.9]).methods
        best = method["scripted"].best(0.8)
        assert (best.threshold, best.tokens_saved) == (0.7, 0.5)
        assert method["scripted"].best(0.0).threshold == 0.7  # .5 makes errors
        assert method["scripted"].best(0.0, less_errors=False).threshold == 0.5
        none = prequential([Scripted(*[("x", 0.9)] * 4)], log).methods["scripted"]
        assert none.best(0.8) is None

    def test_what_was_predicted_over_the_log(self):
        steps = [paid("a", 100, 1.0) for _ in range(41)]
        answers = [("a", 0.9)] * 20 + [("x", 0.9)] * 2 + [(None, 0.0)] * 19
        method = prequential(
            [Scripted(*answers)], [run(0, "Rain?", *steps)], thresholds=[0.5, 0.95]
        ).methods["scripted"]
        windows = method.over_time
        assert method.shown_at == 0.5
        assert len(windows) == 20
        assert [w.first for w in windows[:3]] == [1, 4, 6]
        assert sum(w.n_steps for w in windows) == 41
        assert (windows[0].coverage, windows[0].accuracy, windows[0].tokens_saved) == (1, 1, 1)
        assert (windows[-1].coverage, windows[-1].accuracy, windows[-1].tokens_saved) == (
            0,
            None,
            0,
        )
        whole = method.best()
        assert sum(w.coverage * w.n_steps for w in windows) == pytest.approx(whole.coverage * 41)
        saved = sum(w.tokens_saved * w.n_steps for w in windows)
        assert saved == pytest.approx(whole.tokens_saved * 41)

    def test_where_nothing_is_accurate_enough_the_lowest_threshold_is_shown(self):
        log = [run(0, "Rain?", *["b"] * 3)]
        method = prequential([Scripted(*[("a", 0.9)] * 3)], log, thresholds=[0.8, 0.6]).methods
        assert method["scripted"].shown_at == 0.6
        assert [w.accuracy for w in method["scripted"].over_time] == [0.0] * 3
        none = prequential([Scripted(*[("a", 0.9)] * 3)], log, thresholds=[]).methods["scripted"]
        assert (none.shown_at, none.over_time) == (None, ())

    def test_the_json_document(self):
        result = prequential(None, noisy(3), warm=noisy(3, seed=1))
        document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert list(document["methods"]) == list(PREDICTORS)
        for rows in document["methods"].values():
            assert [row["threshold"] for row in rows] == list(THRESHOLDS)
            assert set(rows[0]) == {
                "threshold",
                "coverage",
                "accuracy",
                "tokens_saved",
                "tokens_saved_net",
                "tokens_in_saved",
                "tokens_out_saved",
                "seconds_saved",
            }
        for name, said in document["over_time"].items():
            assert said["threshold"] == result.methods[name].shown_at
            assert set(said["windows"][0]) == {
                "first",
                "n_steps",
                "coverage",
                "accuracy",
                "tokens_saved",
            }


class TestHonesty:
    def test_each_step_is_asked_before_it_is_taught(self):
        log = [run(0, "Rain?", "a", Step("b", success=False)), run(1, "Snow?", "c")]
        predictor = Scripted(("a", 0.9), ("b", 0.9), ("c", 0.9))
        prequential([predictor], log)
        assert predictor.calls == [
            ("asked", (), "Rain?"),
            ("taught", (), "a", 1.0),
            ("asked", ("a",), "Rain?"),
            ("taught", ("a",), "b", 0.0),
            ("end",),
            ("asked", (), "Snow?"),
            ("taught", (), "c", 1.0),
            ("end",),
        ]

    @pytest.mark.parametrize("place", [0, 1])
    def test_what_comes_later_changes_no_earlier_prediction(self, place):
        log = noisy(12)
        altered = [*log[:8], *(Trajectory(t.id, "Else", t.steps[::-1]) for t in log[8:])]
        cut = sum(len(t.steps) for t in log[:8])
        answers = []
        for version in (log, altered):
            predictor = Recording(list(PREDICTORS.values())[place]())
            prequential([predictor], version)
            answers.append(predictor.answers)
        assert answers[0][:cut] == answers[1][:cut]
        assert answers[0] != answers[1]

    def test_within_a_trajectory_too(self):
        steps = noisy(1, seed=3)[0].steps
        answers = []
        for last in ("weather", "telex"):
            predictor = Recording(ContextPredictor())
            prequential([predictor], [run(0, "Rain?", *steps[:-1], last)], warm=noisy(5))
            answers.append(predictor.answers)
        assert answers[0] == answers[1]

    def test_warming_up_is_learning(self):
        log = noisy(20)
        cold = prequential([FirstOrderPredictor()], log[10:]).methods["first-order"]
        warm = prequential([FirstOrderPredictor()], log[10:], warm=log[:10]).methods["first-order"]
        assert warm != cold


class Recording(AlwaysAsk):
    """Hands everything on to another predictor, and keeps its answers."""

    name = "recording"

    def __init__(self, inner):
        self.inner = inner
        self.answers = []

    def predict_next(self, prefix, context=None):
        self.answers.append(self.inner.predict_next(prefix, context))
        return self.answers[-1]

    def observe_step(self, prefix, step, context=None, *, weight=1.0):
        self.inner.observe_step(prefix, step, context, weight=weight)

    def end_trajectory(self):
        self.inner.end_trajectory()


class TestQuality:
    def test_the_planted_rule_is_found(self):
        """The last two tools decide in 7 of 10 steps; the rest is one in five."""
        log = noisy(150)
        result = prequential(None, log[75:], warm=log[:75], thresholds=[0.0])
        found = {name: method.thresholds[0].accuracy for name, method in result.methods.items()}
        assert found["context"] > 0.6
        assert found["backoff"] > 0.6
        assert found["first-order"] < 0.5

    def test_confidence_is_calibrated(self):
        log = noisy(150)
        result = prequential(None, log[75:], warm=log[:75])
        for name in ("context", "backoff", "first-order"):
            assert result.methods[name].calibration_error < 0.09


class TestErrors:
    def test_one_bare_tool_to_exclude(self):
        with pytest.raises(InputError, match="exclude must be a list of strings, got 'sms'"):
            prequential(None, noisy(1), exclude="sms")

    def test_nothing_to_prequential(self):
        with pytest.raises(InputError, match=r"^there is no step to replay \(give"):
            prequential(None, [Trajectory("t", "Rain?", ())])

    def test_two_of_one_name(self):
        with pytest.raises(InputError, match=r"^predictors must have distinct names, got"):
            prequential([AlwaysAsk(), AlwaysAsk()], noisy(1))

    @pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
    def test_a_bad_threshold(self, threshold):
        with pytest.raises(InputError, match=r"^a threshold must be a number from 0 to 1, got"):
            prequential(None, noisy(1), thresholds=[threshold])


class TestAdvice:
    @staticmethod
    def found(*thresholds, tokens=100):
        bins = (ReliabilityBin(0.3, 0.4, 9, 0.35, 0.4),)
        method = PredictorEvaluation(thresholds, 0.1, (), reliability=bins)
        return PrequentialEvaluation(3, 9, 0, tokens, 1.0, {"context": method})

    def test_what_saves_most_less_errors(self):
        most = AtThreshold(0.3, 0.9, 0.8, 0.6, 0.409, 0.6)
        best = AtThreshold(0.4, 0.75, 0.875, 0.55, 0.451, 0.5)
        wrong = AtThreshold(0.2, 1.0, 0.7, 0.9, 0.6, 0.9)
        found = self.found(wrong, most, best)
        assert found.best == ("context", best)
        assert found.advice == (
            "Act on context from a confidence of 0.40 on: where at least 80% of what is predicted "
            "is right, this saves most tokens less errors, 45.1% of the log's; 75% of the steps "
            "are predicted, 88% of these rightly."
        )

    def test_where_nothing_is_worth_it(self):
        wrong = AtThreshold(0.2, 1.0, 0.7, 0.9, 0.6, 0.9)
        assert self.found(wrong).advice.startswith("Act on no prediction yet: at none of these")
        dear = AtThreshold(0.2, 1.0, 0.9, 0.1, -0.1, 0.9)
        assert self.found(dear).advice.startswith("Act on no prediction: what is predicted wrong")
        assert self.found(dear, tokens=0).advice.startswith("The log has no tokens")


def test_who_predicts_nothing_is_said_so():
    steps = (Step("a", input_tokens=1), Step("b", input_tokens=1))
    result = prequential(None, [Trajectory(f"t{n}", "x", steps) for n in range(9)])
    silent = [name for name, method in result.methods.items() if not method.predicts]
    assert silent == ["always-ask"]


def test_it_is_shown_in_one_line():
    result = prequential(None, noisy(3))
    assert repr(result).startswith("PrequentialEvaluation(") and "\n" not in repr(result)
    assert "ECE" in repr(result.methods["context"])
    odd = Scripted(*[("x", 0.9)] * 99)
    odd.name = "<b>"
    assert "<b>" not in prequential([odd], noisy(1))._repr_html_()


class TestRiskCoverage:
    def test_the_curve(self):
        points = risk_coverage([0.2, 0.9, 0.5, 0.9], [False, True, True, False])
        assert [point.threshold for point in points] == [0.9, 0.5, 0.2]
        assert [point.coverage for point in points] == [0.5, 0.75, 1.0]
        assert [point.risk for point in points] == pytest.approx([0.5, 1 / 3, 0.5])

    def test_the_curve_is_thinned_and_keeps_its_end(self):
        points = risk_coverage(np.linspace(0, 1, 1000), [True] * 1000, n_points=10)
        assert len(points) == 10
        assert points[-1].coverage == 1.0
