from __future__ import annotations

import datetime
import itertools
import logging
import re

import numpy as np
import pytest
from fixed import NAMES, Fixed, Model
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.routing import (
    MaxCost,
    PopularityRouter,
    Router,
    Scores,
    SelectionRule,
    TargetRecall,
    TopK,
)
from cnp_router.routing.selection import expected_f1_size


class TestDate:
    @pytest.mark.parametrize("ask", ["score", "route", "recommend"])
    @pytest.mark.parametrize(
        "date", ["2012-02-29", datetime.datetime(2012, 2, 29), 2012, np.datetime64("2012-02-29")]
    )
    def test_only_a_date_is_one(self, router, ask, date):
        with pytest.raises(InputError, match=r"date must be a datetime\.date, got "):
            getattr(router, ask)("x", date=date)

    def test_it_reaches_the_scores(self, router, monkeypatch):
        asked = []
        monkeypatch.setattr(
            Fixed, "_scores", lambda self, *given: asked.append(given) or Scores(NAMES, np.ones(4))
        )
        day = datetime.date(2012, 2, 29)
        for ask in (router.score, router.route, router.recommend):
            ask("x", ["b"], date=day)
            ask("x")
        assert asked == [("x", [1], day), ("x", [], None)] * 3


class TestSelection:
    @pytest.mark.parametrize("k", [0, -1, 2.0, 1.5, True, "3", float("nan"), None])
    def test_top_k_must_be_a_whole_number(self, k):
        with pytest.raises(InputError, match="top-k must be a whole number of at least 1"):
            TopK(k)

    def test_top_k_of_numpy(self, router):
        assert router.route("x", select=TopK(np.int64(2))).contractors == ("b", "c")

    @pytest.mark.parametrize("target", [0, 1, -0.1, 1.1, float("nan")])
    def test_target_recall_is_a_share(self, target):
        with pytest.raises(InputError, match="target recall must be a number between 0 and 1"):
            TargetRecall(target)

    @pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), True, "3", None])
    def test_a_limit_of_cost_is_positive(self, limit):
        with pytest.raises(InputError, match="the limit of a MaxCost must be a number above 0"):
            MaxCost(limit)

    def test_costs_are_positive(self):
        with pytest.raises(InputError, match="the cost of 'a' must be a number above 0, got 0"):
            MaxCost(1, {"a": 0})

    def test_a_limit_of_cost_skips_what_does_not_fit(self, router):
        routing = router.route("x", select=MaxCost(2, {"b": 1.5, "c": 5}))
        assert routing.contractors == ("b",)
        routing = router.route("x", select=MaxCost(3, {"b": 1.5, "c": 5}))
        assert routing.contractors == ("b", "a")

    def test_the_best_is_asked_even_where_it_costs_too_much(self, router):
        costs = dict.fromkeys(NAMES, 9)
        assert router.route("x", select=MaxCost(1, costs)).contractors == ("b",)

    def test_without_control_the_target_is_a_share_of_the_mass(self, router):
        # Mass 1.2: b holds 2/3 of it, b and c 11/12.
        assert router.route("x", select=TargetRecall(0.6)).contractors == ("b",)
        assert router.route("x", select=TargetRecall(0.7)).contractors == ("b", "c")
        assert router.route("x", select=TargetRecall(0.95)).contractors == ("b", "c", "a")


class Odd(SelectionRule):
    """Every other one; or whatever else it is told to choose."""

    def __init__(self, answer=None):
        self.answer = answer

    def choose(self, ranked):
        return range(0, len(ranked.apis), 2) if self.answer is None else self.answer


class TestRulesOfOnesOwn:
    def test_it_is_asked_and_no_other_rule(self, router):
        assert router.route("x", select=Odd()).contractors == ("b", "a")

    def test_it_sees_what_may_be_asked_in_order(self, router):
        seen = []

        class Sees(Odd):
            def choose(self, ranked):
                seen.append(ranked)
                return super().choose(ranked)

        router.route("x", ["c"], select=Sees())
        assert seen[0].apis == ("b", "a", "d")
        assert seen[0].probabilities.tolist() == [0.8, 0.1, 0.0]

    @pytest.mark.parametrize("answer", [[2, 0], (0, 2, 2), iter([0, 2]), np.array([2, 0])])
    def test_the_router_puts_it_in_order(self, router, answer):
        assert router.route("x", select=Odd(answer)).contractors == ("b", "a")

    @pytest.mark.parametrize("answer", [[], (), np.array([]), range(0)])
    def test_choosing_no_one_asks_the_most_probable(self, router, answer):
        assert router.route("x", select=Odd(answer)).contractors == ("b",)

    @pytest.mark.parametrize(
        "answer", [3, [9], [-1], [0.5], ["b"], [True], [[0]], [None], object(), "ab", [[0], [1, 2]]]
    )
    def test_an_answer_that_is_no_choice(self, router, answer):
        with pytest.raises(InputError, match=r"Odd.choose must return places from 0 to 3, got"):
            router.route("x", select=Odd(answer))
        assert not router.source_counts

    def test_rounds_take_it(self, catalog, history):
        from cnp_router.agents import offline_model
        from cnp_router.protocols import ContractNet, RoundSettings

        net = ContractNet(
            catalog,
            offline_model(catalog),
            router=PopularityRouter(catalog, history),
            settings=RoundSettings(select=Odd(), threshold=0.0),
        )
        outcome = net.run_sync("Text me when it rains.")
        assert outcome.routing.contractors == ("weather", "sms", "tides")

    def test_its_repr_is_its_settings(self):
        assert repr(Odd([1])) == "Odd(answer=[1])"

    def test_it_needs_a_choice(self):
        with pytest.raises(TypeError, match="choose"):
            type("Empty", (SelectionRule,), {})()


class TestExpectedF1:
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
    def test_no_other_size_has_a_higher_expected_f1(self, values):
        p = np.sort(np.array(values))[::-1]
        expected = np.zeros(len(p))
        for needs in itertools.product((0, 1), repeat=len(p)):
            y = np.array(needs)
            chance = np.prod(np.where(y, p, 1 - p))
            k = np.arange(1, len(p) + 1)
            expected += chance * 2 * np.cumsum(y) / (k + y.sum())
        assert expected[expected_f1_size(p) - 1] == pytest.approx(expected.max())

    def test_the_rest_counts_beyond_the_exact_head(self):
        # Alone 0.9 and 0.35 are best apart; among many improbable needs a larger set pays.
        assert expected_f1_size(np.array([0.9, 0.35])) == 1
        assert expected_f1_size(np.array([0.9, 0.35, *[0.02] * 200])) == 2

    def test_many_may_be_worth_it_together_where_one_of_them_is_not(self):
        p = np.array([0.9, *[0.3] * 6])
        assert [expected_f1_size(p[:n]) for n in (2, 3, 7)] == [1, 1, 7]

    def test_what_is_left_out_counts_beside_what_is_behind_the_exact_head(self):
        p = np.array([0.9, 0.35, *[0.02] * 40])
        assert expected_f1_size(p) == 1
        assert expected_f1_size(p, rest=4.0) == 2

    @given(st.lists(st.floats(0, 1), min_size=2, max_size=7), st.data())
    def test_the_best_of_some_counts_needs_outside_as_misses(self, values, data):
        p = np.sort(np.array(values))[::-1]
        places = st.sets(st.integers(0, len(p) - 1), min_size=1, max_size=len(p))
        inside = np.isin(np.arange(len(p)), sorted(data.draw(places)))
        expected = np.zeros(inside.sum())
        for needs in itertools.product((0, 1), repeat=len(p)):
            y = np.array(needs)
            chance = np.prod(np.where(y, p, 1 - p))
            k = np.arange(1, inside.sum() + 1)
            expected += chance * 2 * np.cumsum(y[inside]) / (k + y.sum())
        size = expected_f1_size(p[inside], p[~inside])
        assert expected[size - 1] == pytest.approx(expected.max())

    def test_cutting_the_improbable_off_does_not_change_the_size(self):
        p = np.sort(np.random.default_rng(0).beta(0.05, 2, 300))[::-1]
        sizes = {expected_f1_size(p[:n], p[n:]) for n in (20, 30, 31, 100, 300)}
        assert sizes == {expected_f1_size(p)}
        assert 1 < expected_f1_size(p) < 20

    def test_nothing_probable_still_recommends_one(self):
        assert expected_f1_size(np.zeros(4)) == 1


class TestRoute:
    def test_the_confidence_is_that_no_one_else_is_needed(self, router):
        routing = router.route("x", select=TopK(1))
        assert routing.confidence == pytest.approx(0.9 * 0.7)

    def test_a_known_api_is_zero_though_the_router_forgot(self, router):
        scores = router.score("x", ["b"])
        assert scores.probabilities.tolist() == [0.1, 0.0, 0.3, 0.0]
        assert router.probabilities.tolist() == [0.1, 0.8, 0.3, 0.0]

    def test_known_may_be_an_iterator(self, router):
        routing = router.route("x", iter(["b", "nobody"]))
        assert (routing.known, routing.ignored) == (("b",), ("nobody",))

    def test_what_is_ignored_is_in_the_log_once(self, router, caplog):
        with caplog.at_level(logging.WARNING, "cnp_router.routing"):
            router.route("x", ["nobody"])
        assert len(caplog.messages) == 1
        assert "nobody" in caplog.messages[0]

    def test_deciding_is_apart_from_scoring(self, router):
        scores = router.score("x")
        first, second = (router.decide("x", scores, select=TopK(k)) for k in (1, 3))
        assert (first.contractors, second.contractors) == (("b",), ("b", "c", "a"))

    def test_a_fallback_widens_in_order_and_keeps_what_was_chosen(self, router, caplog):
        with caplog.at_level(logging.INFO, "cnp_router.routing"):
            routing = router.route("x", select=TopK(1), threshold=0.9, fallback=Model("d", "a"))
        assert routing.contractors == ("b", "a", "d")
        assert (routing.source, routing.fallback) == ("llm", "llm")
        assert router.source_counts == {"llm": 1}
        assert caplog.messages == ["confidence 0.63 is below 0.90: llm fallback to 3 APIs"]

    def test_a_fallback_that_names_no_one_keeps_what_was_chosen(self, router):
        routing = router.route("x", select=TopK(2), threshold=1, fallback=Model())
        assert routing.contractors == ("b", "c")

    def test_a_fallback_that_names_a_stranger(self, router):
        with pytest.raises(UnknownApiError, match="unknown API 'z'"):
            router.route("x", select=TopK(1), threshold=1, fallback=Model("z"))

    def test_a_fallback_does_not_bring_back_what_is_known(self, router):
        model = Model("d", "a")
        routing = router.route("x", ["a"], select=TopK(1), threshold=1, fallback=model)
        assert routing.contractors == ("b", "d")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"threshold": 1.1}, "threshold must be a number from 0 to 1, got 1.1"),
            ({"fallback": "llm"}, r"unknown fallback 'llm' \(use 'none', 'broadcast' or a Fall"),
            ({"select": 5}, r"unknown selection 5 \(use a TargetRecall, a TopK, a MaxCost or"),
            ({"known": "maps"}, r"known must be a list of strings, got 'maps' \(give \['maps'\]\)"),
            ({"known": '["maps"]'}, r"got '\[\"maps\"\]' \(it is text: give the list\)"),
            ({"known": NAMES}, "every API is already known"),
            ({"among": "a"}, "among must be a list of strings, got 'a'"),
            ({"among": ["a", 1]}, "among must be a list of strings"),
            ({"exclude": None}, "exclude must be a list of strings, got None"),
            ({"among": []}, r"among leaves none of 4 APIs .* \(allow at least one\)"),
            ({"among": ["A"]}, r"\(allow at least one; the router has never heard of 'A'\)"),
            ({"among": lambda name: False}, "among leaves none of 4 APIs to announce to"),
            ({"exclude": NAMES}, "exclude leaves none of 4 APIs to announce to"),
            ({"known": ["a"], "among": ["a"]}, "known and among leave none of 4 APIs"),
            (
                {"known": ["a"], "among": ["a", "b"], "exclude": ["b"]},
                "known and among and exclude leave none",
            ),
            ({"among": lambda name: None}, "given as among must answer True or False, got None"),
            ({"exclude": lambda name: "no"}, "as exclude must answer True or False, got 'no'"),
        ],
    )
    def test_what_cannot_be_used(self, router, options, message):
        with pytest.raises(InputError, match=message):
            router.route("x", **options)
        assert not router.source_counts

    @pytest.mark.parametrize("request_", ["", " ", "\t\n", "\u3000"])
    def test_a_blank_request_is_refused(self, router, request_):
        scores = router.score("x")
        calls = (
            lambda: router.route(request_),
            lambda: router.score(request_),
            lambda: router.recommend(request_),
            lambda: router.decide(request_, scores),
        )
        for call in calls:
            with pytest.raises(
                InputError, match=r"^a request must not be blank, got .* \(say what"
            ):
                call()
        assert not router.source_counts

    @pytest.mark.parametrize("names", [None, "d", 3, [3], [None], ["half \ud800"]])
    def test_a_fallback_that_returns_no_ids(self, router, names):
        model = Model()
        model.names = names
        with pytest.raises(InputError, match="what a fallback returns "):
            router.route("x", select=TopK(1), threshold=1, fallback=model)

    def test_scores_of_another_router(self, router):
        with pytest.raises(InputError, match="scores are of 2 APIs, and the router has 4"):
            router.decide("x", Fixed(0.5, 0.5).score("x"))

    def test_known_ids_match_in_either_normal_form(self):
        class Coffee(Fixed):
            def __init__(self):
                super().__init__(0.5, 0.5)
                Router.__init__(self, ["caf\u00e9", "b"])

        assert Coffee().route("x", ["cafe\u0301"]).known == ("caf\u00e9",)

    def test_reprs_are_one_readable_line(self, router):
        routing = router.route("a\nmap " * 1000)
        assert repr(routing) == (
            "Routing('a\\nmap a\\nmap a\\nmap a\\nmap a\\nmap a\\nmap a\\nmap a\\nmap ..., "
            "2 of 4 APIs: 'b' 0.80, 'c' 0.30, confidence 0.90, learned)"
        )
        unfit = repr(router.route("x", among=["a"]))
        assert (
            unfit == "Routing('x', 1 of 4 APIs: 'a' 0.10, confidence 0.14, learned, nothing fits)"
        )
        assert repr(router.score("x")) == "Scores(4 APIs, best 'b' 0.80, 'c' 0.30, 'a' 0.10)"
        assert repr(routing.recipients[0]) == "Recipient('b', 0.80)"

    def test_the_table_of_a_notebook_is_escaped(self):
        routing = Fixed(0.9, 0.2).route("<script>")
        html = routing._repr_html_()
        assert "<script>" not in html
        assert "<tr><td>*</td><td>a</td><td>0.90</td><td></td></tr>" in html
        assert "&lt;script&gt; - Sure: the confidence of " in html

    def test_the_table_of_a_notebook_says_the_verdict_and_marks_what_is_recommended(self, router):
        routing = router.route("a map")
        html = routing._repr_html_()
        assert f"a map - {routing.verdict} 2 of 4 APIs are asked; * is recommended.</p>" in html
        marked = re.findall(r"<tr><td>\*</td><td>(\w+)</td>", html)
        assert tuple(marked) == routing.recommendation
        unfit = router.route("x", among=["a"])._repr_html_()
        assert "Nothing that is allowed fits: the probability that anything does is 0." in unfit
        assert "<td>*</td>" not in unfit

    def test_apis_are_distinct_and_there_is_one(self):
        with pytest.raises(InputError, match="at least one API"):
            Fixed()
        with pytest.raises(InputError, match="duplicate API id 'a'"):
            Router.__init__(Fixed(0.5), ["b", "a", "a"])

    def test_the_routing_as_json(self, catalog, history):
        routing = PopularityRouter(catalog, history).route("x", ["maps", "?"], select=TopK(1))
        assert routing.to_dict() == {
            "request": "x",
            "known": ["maps"],
            "ignored": ["?"],
            "recommendation": ["weather"],
            "recipients": [
                {
                    "contractor": "weather",
                    "probability": 0.75,
                    "reasons": [
                        {
                            "kind": "popularity",
                            "text": "used by 3 of 4 past mashups",
                            "references": [],
                        }
                    ],
                }
            ],
            "n_recipients": 1,
            "n_contractors": 5,
            "n_allowed": 4,
            "messages_saved": 4,
            "answerable": 0.90625,
            "fits": True,
            "confidence": 0.375,
            "threshold": 0.6,
            "is_confident": False,
            "fallback": "none",
            "source": "learned",
            "n_mashups": 4,
            "verdict": "Not sure: the confidence of 0.38 is below the threshold of 0.60, so an "
            "API that is needed may be missing. Its probabilities are rough: they were learned "
            "from only 4 past "
            "requests of yours.",
        }
