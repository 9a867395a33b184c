"""Savings by history, the rules of a router, and the pictures, on logs whose answer is planted."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import next_tool_history, next_tool_plots, run
from benchmarks.next_tool_history import HistoryPoint, Round, known_transitions, measured, rounds
from benchmarks.next_tool_predictors import Frozen, Recorded
from benchmarks.next_tool_rules import ruled
from cnp_router.evaluation import PrequentialEvaluation, prequential
from cnp_router.evaluation.prequential import THRESHOLDS, AtThreshold, PredictorEvaluation
from cnp_router.exceptions import DataFileError
from cnp_router.history import History, Mashup
from cnp_router.prediction import BackoffPredictor, FirstOrderPredictor
from cnp_router.trajectories import Step, Trajectory, write_trajectories


def runs(name, n, tools=("a", "b", "c")):
    steps = tuple(Step(tool, input_tokens=10) for tool in tools * 3)
    return [Trajectory(f"{name}-{place}", "Rain?", steps) for place in range(n)]


class TestWrapped:
    def test_frozen_learns_what_it_is_shown_and_nothing_of_the_prequential(self):
        known = prequential([Frozen(FirstOrderPredictor())], runs("t", 3), warm=runs("w", 20))
        assert known.methods["first-order"].thresholds[0].accuracy == 1.0
        unknown = prequential([Frozen(FirstOrderPredictor())], runs("t", 20))
        assert unknown.methods["first-order"].thresholds[0].coverage == 0.0

    def test_recorded_bins_add_up_to_the_calibration_error(self):
        recorded = Recorded(BackoffPredictor())
        log = runs("t", 10) + runs("u", 10, ("a", "c", "c"))
        method = prequential([recorded], log, warm=runs("w", 5)).methods["backoff"]
        bins = recorded.reliability()
        assert sum(one.n for one in bins) == sum(len(t.steps) for t in log)
        gap = sum(one.n * abs(one.confidence - one.accuracy) for one in bins)
        assert gap / sum(one.n for one in bins) == pytest.approx(method.calibration_error)
        assert [one.confidence for one in bins] == sorted(one.confidence for one in bins)

    def test_what_is_recorded_answers_as_what_is_not(self):
        plain = prequential([BackoffPredictor()], runs("t", 5), warm=runs("w", 5))
        recorded = prequential([Recorded(BackoffPredictor())], runs("t", 5), warm=runs("w", 5))
        assert recorded == plain


class TestRounds:
    def test_each_log_has_all_others_before_it(self, tmp_path):
        for name in ("one", "two"):
            write_trajectories(tmp_path / f"trajectories-{name}.jsonl", runs(name, 2))
        one, two = rounds(tmp_path)
        assert (one.name, one.before, one.log) == ("one", two.log, two.before)

    def test_ordered_mashups_are_trajectories_with_a_token_a_step(self, tmp_path):
        for name in ("train", "dev"):
            mashups = [
                Mashup(f"{name}-1", "Rain?", ("a", "b"), ordered=True),
                Mashup(f"{name}-2", "Rain?", ("b", "a")),
            ]
            History(mashups).write(tmp_path / f"mashups-{name}.jsonl")
        (one,) = rounds(tmp_path)
        assert [t.id for t in (*one.before, *one.log)] == ["train-1", "dev-1"]
        assert one.log[0].tools == ("a", "b")
        assert [step.tokens for step in one.log[0].steps] == [1, 1]

    def test_a_folder_with_nothing_in_order_is_an_error(self, tmp_path):
        for name in ("train", "dev"):
            History([Mashup(name, "Rain?", ("a",))]).write(tmp_path / f"mashups-{name}.jsonl")
        with pytest.raises(DataFileError, match="neither two logs of trajectories nor ordered"):
            rounds(tmp_path)


@pytest.fixture(scope="module")
def points():
    return measured([Round("one", tuple(runs("w", 20)), tuple(runs("t", 5)))], seed=0)


class TestMeasured:
    def point(self, points, predictor, size, learning):
        (found,) = [
            p for p in points if (p.predictor, p.size, p.learning) == (predictor, size, learning)
        ]
        return found

    def test_sizes_end_with_all_there_is(self, points):
        assert sorted({point.size for point in points}) == [0, 10, 20]
        assert len(points) == 3 * 2 * 3

    def test_without_history_only_the_replay_itself_teaches(self, points):
        frozen = self.point(points, "context", 0, learning=False)
        assert (frozen.known, frozen.coverage, frozen.accuracy) == (0.0, 0.0, None)
        assert self.point(points, "context", 0, learning=True).coverage > 0

    def test_with_history_all_that_repeats_is_saved(self, points):
        frozen = self.point(points, "backoff", 20, learning=False)
        assert (frozen.known, frozen.accuracy) == (1.0, 1.0)
        assert frozen.tokens_saved == pytest.approx(frozen.coverage)
        assert frozen.best_saved > 0.9

    def test_the_same_seed_draws_the_same(self, points):
        one = Round("one", tuple(runs("w", 20)), tuple(runs("t", 5)))
        assert measured([one], seed=0) == points

    def test_known_transitions_count_the_start(self):
        before = runs("w", 1, ("a", "b"))
        assert known_transitions(before, [Trajectory("t", "", (Step("a"), Step("a")))]) == 0.5
        assert known_transitions(before, []) == 0.0


class TestRuled:
    def test_the_cold_start_saves_nothing(self):
        found = ruled("default", runs("w", 90), runs("t", 10))
        assert (found.coverage, found.accuracy, found.tokens_saved) == (0.0, None, 0.0)

    def test_after_it_what_is_predicted_is_saved(self):
        found = ruled("default", runs("w", 100), runs("t", 10))
        assert found.accuracy == 1.0
        assert found.tokens_saved == found.tokens_saved_net == pytest.approx(found.coverage)
        assert found.coverage > 0.9

    def test_a_wrong_prediction_loses_its_tokens(self):
        found = ruled(
            "default", runs("w", 100), [Trajectory("t", "Rain?", (Step("z", {}, "", 5),))]
        )
        assert (found.accuracy, found.tokens_saved, found.tokens_saved_net) == (0.0, 0.0, -1.0)

    def test_guards_limit_the_share(self):
        assert ruled("AutoTool's guards", runs("w", 100), runs("t", 10)).coverage <= 0.3


class TestPlots:
    @pytest.fixture
    def result(self):
        at = tuple(AtThreshold(t, 1 - t, 0.9, 0.4, 0.3, 0.4) for t in THRESHOLDS)
        recorded = Recorded(BackoffPredictor())
        curve = prequential([recorded], runs("t", 10)).methods["backoff"].risk_coverage
        one = PredictorEvaluation(at, 0.0123, curve)
        methods = {"context": one, "always-ask": one}
        return PrequentialEvaluation(10, 90, 0, 900, 0.0, methods), recorded.reliability()

    def test_pictures_hold_what_they_are_given(self, tmp_path, result):
        found, bins = result
        risk, calibration = tmp_path / "new" / "risk.svg", tmp_path / "new" / "calibration.svg"
        next_tool_plots.draw_risk({"log one": found}, risk)
        next_tool_plots.draw_calibration(
            {"log one": found}, {"log one": {"context": bins}}, calibration
        )
        assert {"log one", "coverage", "first order", ".4", ".8"} <= texts(risk)
        assert {"log one", "confidence", "ECE 0.012"} <= texts(calibration)

    def test_the_same_figures_are_the_same_file(self, tmp_path):
        points = [
            HistoryPoint("one", name, size, learning, 0.1234, 0.5, None, 0.4, 0.4)
            for name in ("context", "backoff", "first-order")
            for size in (0, 10)
            for learning in (False, True)
        ]
        files = tmp_path / "1.svg", tmp_path / "2.svg"
        for file in files:
            next_tool_plots.draw_history(points, file)
        assert files[0].read_bytes() == files[1].read_bytes()
        assert "reported for AutoTool" in texts(files[0])


def texts(file: Path) -> set[str]:
    return {node.text for node in ElementTree.parse(file).iter() if node.tag.endswith("}text")}


def test_the_track_runs(tmp_path, capsys):
    for name in ("train", "dev"):
        mashups = [Mashup(f"{name}-{n}", "Rain?", ("a", "b"), ordered=True) for n in range(3)]
        History(mashups).write(tmp_path / f"mashups-{name}.jsonl")
    file, plots = tmp_path / "results.json", tmp_path / "plots"
    arguments = ["next_tool_history", "--data", tmp_path, "--json", file, "--plots", plots]
    assert run.main([str(argument) for argument in arguments]) == 0
    assert "| context " in capsys.readouterr().out
    assert len(json.loads(file.read_text())["points"]) == 2 * 3 * 2
    assert (plots / "next-tool-history.svg").exists()


def test_without_data_it_says_so(tmp_path):
    options = argparse.Namespace(data=tmp_path, plots=None, seed=0)
    with pytest.raises(DataFileError, match=r"put two files trajectories-x\.jsonl there"):
        next_tool_history.run(options)
