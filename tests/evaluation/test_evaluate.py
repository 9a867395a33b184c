from __future__ import annotations

import datetime
import json
import math

import numpy as np
import pytest

from cnp_router.catalog import Api, Catalog
from cnp_router.evaluation import evaluate
from cnp_router.evaluation.metrics import RANKING, ece
from cnp_router.exceptions import InputError
from cnp_router.history import History, Mashup
from cnp_router.routing import (
    BroadcastRouter,
    HistoryKNNRouter,
    PopularityRouter,
    RecallControl,
    Router,
    Scores,
)

NAMES = tuple("abcdef")
CATALOG = Catalog(
    [
        Api("a", "A", categories=("Vowels",)),
        Api("b", "B", categories=("Consonants",)),
        Api("c", "C", categories=("Consonants", "Early")),
        Api("d", "D"),
        Api("e", "E", categories=("Vowels",)),
        Api("f", "F", categories=("Consonants",)),
    ]
)
KEYS = {
    "requests": None,
    "skipped": None,
    "dated": None,
    "with_date": None,
    "days": None,
    "n_mashups": None,
    "learned_from": None,
    "ranking": list(RANKING),
    "recommendation": ["precision", "recall", "f1", "mean_apis"],
    "categories": ["precision", "recall", "f1"],
    "recipients": ["target_recall", "recall", "mean", "p50", "p95", "total"],
    "calibration": ["ece", "brier"],
    "threshold": None,
    "fallback_rate": None,
    "complete_if_sure": None,
    "nothing_fits_rate": None,
    "latency_ms": ["p50", "p95"],
}


class Table(Router):
    """Gives each request the probabilities of a table."""

    def __init__(self, rows):
        super().__init__(NAMES)
        self.rows = rows

    def _scores(self, request, known, date):
        return Scores(NAMES, np.array(self.rows[request]))


class Categories:
    """A classifier that always predicts the same."""

    classes_ = ("Consonants", "Early", "Vowels")

    def __init__(self, *predicted):
        self.predicted = predicted

    def predict(self, texts):
        return tuple(self.predicted for _ in texts)


ROWS = {
    "one": [0.9, 0.8, 0.1, 0.0, 0.0, 0.0],
    "two": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
}


@pytest.fixture
def router():
    return Table(ROWS)


class Asked(Router):
    """Remembers the dates that it is asked about."""

    def __init__(self):
        super().__init__(NAMES)
        self.dates = []

    def _scores(self, request, known, date):
        self.dates.append(date)
        return Scores(NAMES, np.full(len(NAMES), 0.5))


@pytest.fixture
def history():
    return History([Mashup("m1", "one", ("a", "c", "a")), Mashup("m2", "two", ("a",))])


def test_what_nothing_fits_is_counted_and_measured_by_what_comes_nearest(sample, sample_router):
    router = sample_router
    held_out = [Mashup("1", sample.history.texts[0], sample.history[0].apis)]
    assert evaluate(router, History(held_out)).nothing_fits_rate == 0
    strange = Mashup("2", "qwzx vrrk", (router.apis[0],))
    found = evaluate(router, History([*held_out, strange]))
    assert router.recommend(strange.description) == ()
    assert found.nothing_fits_rate == found.to_dict()["nothing_fits_rate"] == 0.5
    assert found.recommendation["mean_apis"] >= 0.5 + len(held_out[0].apis) / 2


def without_latency(evaluation):
    return {k: v for k, v in evaluation.to_dict().items() if k != "latency_ms"}


def test_the_json_object_has_exactly_these_keys(router, history):
    record = evaluate(router, history).to_dict()
    assert list(record) == list(KEYS)
    assert {k: list(v) for k, v in record.items() if isinstance(v, dict)} == {
        k: v for k, v in KEYS.items() if v
    }
    assert json.loads(json.dumps(record)) == record


def test_each_mashup_is_asked_as_of_its_date_or_none_is():
    days = [datetime.date(2012, 2, 29), None, datetime.date(2013, 1, 1)]
    history = History(Mashup(f"m{i}", "one", ("a",), date=day) for i, day in enumerate(days))
    router = Asked()
    evaluation = evaluate(router, history)
    assert router.dates[1:] == days  # the first is to warm up
    assert (evaluation.dated, evaluation.with_date) == (True, 2)
    assert evaluation.days == (days[0], days[2])
    assert evaluation.to_dict()["days"] == ["2012-02-29", "2013-01-01"]
    shown = evaluation._repr_html_()
    assert "3 requests, none left out; 2 have a date, and were asked as of that day" in shown
    router.dates.clear()
    evaluation = evaluate(router, history, dated=False)
    assert set(router.dates) == {None}
    assert (evaluation.dated, evaluation.with_date) == (False, 2)
    assert "2 have a date, which was not given" in evaluation._repr_html_()
    with pytest.raises(InputError, match="dated must be true or false"):
        evaluate(router, history, dated=None)


def test_the_table_says_what_each_figure_is(router, history):
    table = evaluate(router, history).table()
    assert table.title == "2 requests, none left out; none has a date"
    figures = {row[2]: row for row in table.rows}
    assert figures["ndcg@5"][:2] == (
        *("All APIs, ranked (0 to 1, best 1)", "the same, the earlier the better, first 5"),
    )
    assert figures["total"][3] == "6"
    assert figures["ece"][0] == "Probabilities (0 to 1, best 0)"
    # Of six APIs, the first ten are all.
    assert {name for name in figures if "@" in name} == {"recall@5", "ndcg@5"}


def test_these_metrics_of_a_ranking_stay():
    recalls = {f"recall@{k}" for k in (5, 10, 20, 50, 100)}
    assert {*recalls, "ndcg@5", "ndcg@10", "map@10", "complete@20"} <= set(RANKING)


def test_by_hand(router, history):
    evaluation = evaluate(router, history, target_recall=0.9)
    assert (evaluation.requests, evaluation.skipped) == (2, 0)
    # m1: a and c at ranks 1 and 3. m2: a at rank 6.
    assert evaluation.ranking["recall@5"] == pytest.approx((1 + 0) / 2)
    assert evaluation.ranking["recall@10"] == evaluation.ranking["recall@100"] == 1
    ideal = 1 + 1 / math.log2(3)
    assert evaluation.ranking["ndcg@5"] == pytest.approx((1 + 1 / 2) / ideal / 2)
    assert evaluation.ranking["ndcg@10"] == pytest.approx(
        ((1 + 1 / 2) / ideal + 1 / math.log2(7)) / 2
    )
    assert evaluation.ranking["map@10"] == pytest.approx(((1 + 2 / 3) / 2 + 1 / 6) / 2)
    assert evaluation.ranking["complete@20"] == 1
    # Recommended: a and b, of which a is right; and some of f, e, d and so on, of which none is.
    sizes = [np.cumsum(np.sort(row)[::-1]) / (np.arange(1, 7) + sum(row)) for row in ROWS.values()]
    first, second = (int(np.argmax(f1)) + 1 for f1 in sizes)
    assert first == 2
    assert evaluation.recommendation == pytest.approx(
        {
            "precision": (1 / 2) / 2,
            "recall": (1 / 2) / 2,
            "f1": (1 / 2) / 2,
            "mean_apis": (first + second) / 2,
        }
    )
    # 0.9 of the mass is held by a and b, 17/18 of it, and by f to b, 2.0/2.1 of it.
    assert evaluation.recipients == pytest.approx(
        {
            "target_recall": 0.9,
            "recall": (1 / 2 + 0) / 2,
            "mean": 3.5,
            "p50": 3.5,
            "p95": 4.85,
            "total": 6,
        }
    )
    distances = np.array([0.1, 0.8, 0.9, 0, 0, 0, 0.9, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert evaluation.calibration["brier"] == pytest.approx((distances**2).mean())
    labels = [1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert evaluation.calibration["ece"] == pytest.approx(ece([*ROWS["one"], *ROWS["two"]], labels))
    # Outside the recipients there is 0.1 in both.
    assert evaluation.fallback_rate == 0
    assert evaluate(router, history, threshold=0.95).fallback_rate == 1
    assert 0 < evaluation.latency_ms["p50"] <= evaluation.latency_ms["p95"] < 1000


def test_standard_errors_by_hand(router, history):
    errors = evaluate(router, history).standard_errors
    # Of two values, half their distance: recall@5 is 1 and 0, recipients are 2 and 5.
    assert errors["ranking"]["recall@5"] == pytest.approx(0.5)
    assert errors["recipients"]["mean"] == pytest.approx(1.5)
    assert set(evaluate(router, history[:1]).standard_errors["ranking"].values()) == {None}


def test_mashups_with_strange_apis_are_skipped_and_counted(router):
    history = History(
        [
            Mashup("m1", "one", ("a",)),
            Mashup("m2", "one", ("a", "z")),
            Mashup("m3", "one", ("z",)),
        ],
        skipped=4,
    )
    evaluation = evaluate(router, history)
    assert (evaluation.requests, evaluation.skipped) == (1, 6)


def test_what_the_router_learned_from_is_counted(router, history):
    assert evaluate(router, history).learned_from is None  # it keeps no history
    router.history = History([Mashup("m1", "ONE  more", ("c", "a")), Mashup("m9", "two", ("b",))])
    evaluation = evaluate(router, history)
    assert evaluation.learned_from == 2  # by id and APIs, and by text
    assert evaluation.to_dict()["learned_from"] == 2
    assert "2 of 2 requests are among those the model learned" in evaluation.learned_from_note
    assert "of no use" in evaluation.learned_from_note
    # The same id of another request, as of another file, says nothing.
    router.history = History([Mashup("m1", "other", ("b",)), Mashup("m2", "more", ("b",))])
    evaluation = evaluate(router, history)
    assert (evaluation.learned_from, evaluation.learned_from_note) == (0, "")


def test_few_that_were_learned_from_flatter():
    router = Table(ROWS)
    router.history = History([Mashup("x", "one", ("a",))])
    mashups = [Mashup("0", "one", ("a",)), *(Mashup(str(n), "two", ("b",)) for n in (1, 2))]
    assert "better than they will be" in evaluate(router, History(mashups)).learned_from_note


@pytest.mark.parametrize("mashups", [[], [Mashup("m1", "one", ("z",))]])
def test_nothing_to_evaluate_is_an_error(router, mashups):
    with pytest.raises(InputError, match=r"none of the \d mashups .* \(evaluate on mashups of its"):
        evaluate(router, History(mashups))


def test_options_are_checked(router, history):
    with pytest.raises(InputError, match="target recall"):
        evaluate(router, history, target_recall=1.2)
    with pytest.raises(InputError, match="threshold"):
        evaluate(router, history, threshold=-1)


def test_the_router_is_left_as_it_is(router, history):
    router.route("one")
    evaluate(router, history)
    assert router.source_counts == {"learned": 1}


def test_a_fallback_widens_the_recipients(router, history):
    plain = evaluate(router, history, threshold=0.95)
    wide = evaluate(router, history, threshold=0.95, fallback="broadcast")
    assert wide.fallback_rate == plain.fallback_rate == 1
    assert (wide.recipients["mean"], wide.recipients["recall"]) == (6, 1)


def test_the_recall_control_is_used(history):
    router = Table(ROWS)
    router.recall_control = RecallControl(np.ones(100), np.arange(100), np.zeros(100))
    assert evaluate(router, history).recipients["mean"] == 1


def test_workers_find_the_same(catalog):
    random = np.random.default_rng(0)
    texts = ["rain on the map", "text me", "mail the forecast", "high water"]
    history = History(
        [
            Mashup(str(i), texts[i % 4], tuple(random.choice(catalog.ids, 2, replace=False)))
            for i in range(30)
        ]
    )
    router = HistoryKNNRouter(catalog, history[:20])
    alone, together = (evaluate(router, history[20:], n_jobs=n) for n in (1, 2))
    assert without_latency(alone) == without_latency(together)
    assert together.latency_ms["p50"] > 0


def test_more_workers_than_requests(router, history):
    assert evaluate(router, history[:1], n_jobs=4).requests == 1


class TestCategories:
    @pytest.fixture
    def router(self):
        router = Table(ROWS)
        router.catalog = CATALOG
        return router

    def test_by_hand(self, router, history):
        router.categories = Categories("Vowels", "Early")
        evaluation = evaluate(router, history)
        # m1: of a and c, Vowels, Consonants, Early. m2: of a, Vowels.
        assert evaluation.categories == pytest.approx(
            {"precision": (1 + 1 / 2) / 2, "recall": (2 / 3 + 1) / 2, "f1": (4 / 5 + 2 / 3) / 2}
        )
        # In them: a, c, e.
        assert evaluation.category_apis == pytest.approx(
            {"precision": (2 / 3 + 1 / 3) / 2, "recall": 1, "f1": (4 / 5 + 1 / 2) / 2}
        )

    def test_no_category_predicted(self, router, history):
        router.categories = Categories()
        assert set(evaluate(router, history).categories.values()) == {0}
        assert set(evaluate(router, history).category_apis.values()) == {0}

    def test_requests_whose_apis_have_no_category_do_not_count(self, router):
        router.categories = Categories("Vowels")
        history = History([Mashup("m1", "one", ("d",)), Mashup("m2", "two", ("a",))])
        assert evaluate(router, history).categories["f1"] == 1

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda router: delattr(router, "categories"),
            lambda router: setattr(router, "categories", None),
            lambda router: delattr(router, "catalog"),
            lambda router: setattr(router, "catalog", Catalog(Api(n, n) for n in NAMES)),
        ],
        ids=["no classifier", "None", "no catalog", "no categories"],
    )
    def test_null_where_there_are_none(self, router, history, spoil):
        router.categories = Categories("Vowels")
        assert evaluate(router, history).categories["f1"] is not None
        spoil(router)
        evaluation = evaluate(router, history)
        assert set(evaluation.categories.values()) == {None}
        assert set(evaluation.category_apis.values()) == {None}


def test_the_baselines_on_what_they_should_and_should_not_find():
    from planted import planted

    world = planted()
    requests = History(
        Mashup(f"case {i}", case.request, case.clique) for i, case in enumerate(world.cases)
    )
    knn = evaluate(HistoryKNNRouter(world.catalog, world.history), requests)
    popular = evaluate(PopularityRouter(world.catalog, world.history), requests)
    everyone = evaluate(BroadcastRouter(world.catalog), requests)
    assert knn.ranking["ndcg@10"] == knn.ranking["map@10"] == 1
    assert knn.recommendation["f1"] > 0.95
    assert popular.ranking["ndcg@10"] < 0.5
    assert (everyone.recipients["recall"], everyone.recipients["mean"]) == (1, len(world.catalog))
    assert knn.recipients["recall"] >= 0.9
    assert knn.recipients["mean"] < 6
