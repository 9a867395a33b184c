"""A request answered by keyword search, by a router, and by rounds."""

from __future__ import annotations

import pytest

from cnp_router import Mashup
from cnp_router.evaluation.side_by_side import (
    METHODS,
    Answer,
    Asked,
    SideBySide,
    mean_answers,
    typical,
)


def asked(name, needed, *found, contractors=()):
    answers = tuple(
        Answer(method, apis, contractors, 2, 10, 0.1)
        for method, apis in zip(METHODS, found, strict=True)
    )
    return Asked(Mashup(name, name, needed), answers)


class TestMeans:
    def test_they_are_of_each_method(self):
        right, wrong = ("a", "b"), ("x",)
        means = mean_answers(
            [
                asked("one", ("a", "b"), right, right, wrong, wrong, contractors=("a",)),
                asked("two", ("a", "b"), wrong, right, wrong, ("a",), contractors=("a", "b")),
            ]
        )
        assert [mean.method for mean in means] == list(METHODS)
        assert [mean.recall for mean in means] == [0.5, 1.0, 0.0, 0.25]
        assert [round(mean.f1, 3) for mean in means] == [0.5, 1.0, 0.0, 0.333]
        assert {mean.reached for mean in means} == {0.75}
        assert means[0].to_dict() == {
            "method": "keyword search",
            "recall": 0.5,
            "precision": 0.5,
            "f1": 0.5,
            "contractors": 1.5,
            "reached": 0.75,
            "messages": 2.0,
            "tokens": 10.0,
        }


class TestTypical:
    needed = ("a", "b", "c")

    def test_it_is_nearest_to_the_means(self):
        best = asked("best", self.needed, *[self.needed] * 4)
        worst = asked("worst", self.needed, *[("x",)] * 4)
        middle = asked("middle", self.needed, *[("a",)] * 4)
        assert typical([best, middle, worst]).mashup.id == "middle"

    def test_one_where_others_are_unusually_bad_is_not_chosen(self):
        lucky = asked("lucky", self.needed, ("x",), self.needed, ("x",), ("x",))
        usual = [asked(f"usual {n}", self.needed, *[("a", "b")] * 4) for n in range(3)]
        assert typical([lucky, *usual]).mashup.id == "usual 0"

    def test_it_needs_several_apis_if_any_does(self):
        simple = asked("simple", ("a",), *[("a",)] * 4)
        hard = asked("hard", self.needed, *[("x",)] * 4)
        assert typical([simple, simple, hard]).mashup.id == "hard"
        assert typical([simple]).mashup.id == "simple"


class TestAnswers:
    @pytest.fixture(scope="class")
    @staticmethod
    def answers(sample_router):
        ways = SideBySide(sample_router.catalog, sample_router.history, sample_router)
        return ways.answers("Warn me by text message before it rains, and show it on a map.")

    def test_each_method_answers(self, answers):
        assert tuple(answer.method for answer in answers) == METHODS
        assert all(answer.apis and answer.seconds > 0 for answer in answers)

    def test_only_rounds_cost_messages_and_tokens(self, answers):
        search, router, broadcast, routed = answers
        for free in (search, router):
            assert (free.contractors, free.messages, free.tokens) == ((), 0, 0)
        assert len(broadcast.contractors) == 149
        assert 0 < len(routed.contractors) < 149
        assert 0 < routed.tokens < broadcast.tokens
        assert routed.contractors == router.routing.contractors

    def test_as_json(self, answers):
        assert answers[2].to_dict() == {
            "method": "broadcast round",
            "apis": list(answers[2].apis),
            "contractors": 149,
            "messages": answers[2].messages,
            "tokens": answers[2].tokens,
            "seconds": round(answers[2].seconds, 6),
        }
