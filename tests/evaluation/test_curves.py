from __future__ import annotations

import json

import numpy as np
import pytest

from cnp_router.evaluation import evaluate
from cnp_router.evaluation.curves import by_confidence, by_depth, by_threshold, n_reached
from cnp_router.evaluation.metrics import reliability
from cnp_router.history import History, Mashup
from cnp_router.routing import PopularityRouter, Router, Scores

PROBABILITIES = {"one": [0.9, 0.3, 0.2], "two": [0.05, 0.02, 0.6]}


class Fixed(Router):
    def __init__(self):
        super().__init__(("a", "b", "c"))

    def _scores(self, request, known, date):
        return Scores(("a", "b", "c"), np.array(PROBABILITIES[request]))


@pytest.fixture(scope="module")
def curves():
    history = History([Mashup("1", "one", ("a", "c")), Mashup("2", "two", ("c",))])
    return evaluate(Fixed(), history).curves


def at(curves, threshold):
    return next(point for point in curves.thresholds if point.threshold <= threshold)


def test_the_thresholds_go_down_to_everyone(curves):
    levels = [point.threshold for point in curves.thresholds]
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] == 0
    assert curves.thresholds[-1].recipients == 3
    assert (curves.thresholds[-1].recall, curves.thresholds[-1].complete) == (1, 1)
    recalls = [point.recall for point in curves.thresholds]
    assert recalls == sorted(recalls)


def test_recall_by_threshold(curves):
    # Above every probability the most probable one is still asked: a, and c.
    highest = curves.thresholds[0]
    assert (highest.recipients, highest.recall, highest.complete) == (1, 0.75, 0.5)
    # .25 lets a and b in for the one, c for the other.
    between = at(curves, 0.25)
    assert (between.recipients, between.recall) == (1.5, 0.75)
    lower = at(curves, 0.18)
    assert (lower.recipients, lower.recall, lower.complete) == (2, 1, 1)


def test_recall_by_depth_is_that_of_the_ranking(sample):
    evaluation = evaluate(
        PopularityRouter(sample.catalog, sample.history[:300]), sample.history[600:]
    )
    recalls = {point.recipients: point.recall for point in evaluation.curves.depths}
    for k in (5, 10, 20, 50, 100):
        assert recalls[k] == pytest.approx(evaluation.ranking[f"recall@{k}"])
    complete = {point.recipients: point.complete for point in evaluation.curves.depths}
    assert complete[20] == pytest.approx(evaluation.ranking["complete@20"])
    assert list(recalls) == [1, 2, 3, 5, 7, 10, 20, 30, 50, 70, 100, 149]
    latencies = evaluation.curves.latency_ms
    assert latencies["p50"] == evaluation.latency_ms["p50"]
    assert list(latencies.values()) == sorted(latencies.values())


def test_by_hand():
    assert n_reached(np.array([0.995, 0.5, 0.0]))[[0, -1]].tolist() == [1, 3]
    points = by_depth([{"a": 0, "b": 2}], 3)
    assert [(p.recipients, p.recall, p.complete) for p in points] == [
        *((1, 0.5, 0), (2, 0.5, 0), (3, 1, 1)),
    ]
    reached = [np.full(48, 2)]
    assert {p.recall for p in by_threshold([{"a": 0, "b": 2}], reached)} == {0.5}


def test_by_confidence_by_hand():
    points = by_confidence([0.9, 0.7, 0.7, 0.2], [True, True, False, False], 0.62)
    found = {p.threshold: (p.requests, p.share, p.complete) for p in points}
    assert list(found) == sorted(found)
    assert found[0.0] == (4, 1.0, 0.5)
    assert found[0.62] == (3, 0.75, pytest.approx(2 / 3))
    assert found[0.7] == (3, 0.75, pytest.approx(2 / 3))
    assert found[0.9] == (1, 0.25, 1.0)
    assert found[0.95] == (0, 0.0, None)


def test_the_confidence_is_of_what_the_router_chose_itself():
    history = History([Mashup("1", "one", ("a", "c")), Mashup("2", "two", ("c",))])
    how = {"target_recall": 0.5, "threshold": 0.95}
    plain = evaluate(Fixed(), history, **how)
    wide = evaluate(Fixed(), history, **how, fallback="broadcast")
    assert wide.recipients["recall"] == 1  # everyone is asked
    assert wide.curves.confidences == plain.curves.confidences
    assert plain.curves.confidences[0].complete == 0.5  # c of the two, not c of the one
    assert (plain.threshold, plain.complete_if_sure) == (0.95, None)


def test_the_curves_are_json_and_beside_the_figures(curves):
    document = json.loads(json.dumps(curves.to_dict(), allow_nan=False))
    assert list(document) == ["thresholds", "depths", "reliability", "confidences", "latency_ms"]
    assert list(document["confidences"][0]) == ["threshold", "requests", "share", "complete"]
    assert list(document["depths"][0]) == ["recipients", "recall", "complete", "threshold"]
    assert repr(curves) == "EvaluationCurves(48 thresholds, 3 depths, 5 bins)"


def test_no_bin_is_empty_and_none_is_lost():
    found = reliability([0, 0.05, 0.5, 0.99, 1], [0, 1, 0, 1, 1], bins=10)
    assert [(b.low, b.n, b.observed) for b in found] == [(0, 2, 0.5), (0.5, 1, 0), (0.9, 2, 1)]
    assert found[0].predicted == 0.025
