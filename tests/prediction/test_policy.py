from __future__ import annotations

import pytest

from cnp_router.exceptions import InputError
from cnp_router.prediction import Candidate, NextToolPolicy
from cnp_router.trajectories import Step

DONE, FAILED = Step("weather", success=True), Step("weather", success=False)


def steps(n):
    return [DONE] * n


class TestThreshold:
    def test_it_falls_as_coverage_grows_and_then_stays(self):
        thresholds = [NextToolPolicy().threshold(n / 20) for n in range(21)]
        assert thresholds == sorted(thresholds, reverse=True)
        assert (thresholds[0], round(thresholds[-1], 9)) == (0.9, 0.6)
        assert len({round(t, 9) for t in thresholds[17:]}) == 1

    def test_a_fixed_one(self):
        fixed = NextToolPolicy.fixed(0.7)
        assert (fixed.threshold(0), fixed.threshold(1), fixed.ask_first) == (0.7, 0.7, 0)
        assert NextToolPolicy.fixed(0.7, ask_first=2).ask_first == 2


class TestRefusal:
    SURE, UNSURE = [Candidate("sms", 0.8)], [Candidate("sms", 0.5), Candidate("mail", 0.4)]

    @pytest.mark.parametrize(
        ("candidates", "n", "guard", "reason"),
        [
            (SURE, 3, None, None),
            (SURE, 2, None, "cold-start"),
            (UNSURE, 3, None, "threshold"),
            ([], 3, None, "unknown"),
            ([], 2, "share", "unknown"),
            (SURE, 2, "share", "cold-start"),
            (SURE, 3, "share", "share"),
            (UNSURE, 3, "in-a-row", "in-a-row"),
        ],
    )
    def test_the_reason(self, candidates, n, guard, reason):
        assert NextToolPolicy(ask_first=3).refusal(candidates, 0.6, n, guard) == reason

    def test_the_threshold_itself_is_enough(self):
        assert NextToolPolicy.fixed(0.8).refusal(self.SURE, 0.8, 0) is None


class TestGuards:
    @pytest.mark.parametrize(
        ("limit", "sources", "refused"),
        [
            (0, [], True),
            (2, [], False),
            (2, ["context"], False),
            (2, ["context", "context"], True),
            (2, ["context", "context", "llm"], False),
            (2, ["context", "none", "context"], False),
            (2, ["caller", "context", "backoff"], True),
        ],
    )
    def test_in_a_row(self, limit, sources, refused):
        found = NextToolPolicy(max_in_a_row=limit).guard(steps(len(sources)), sources)
        assert found == ("in-a-row" if refused else None)

    @pytest.mark.parametrize("share", [0.0, 0.25, 0.3, 0.5, 1.0])
    def test_the_share_is_never_exceeded_and_is_reached(self, share):
        policy, sources = NextToolPolicy(max_share=share), []
        for _ in range(40):
            refused = policy.guard(steps(len(sources)), sources)
            assert refused in (None, "share")
            sources.append("llm" if refused else "context")
            assert sources.count("context") <= share * len(sources)
        assert sources.count("context") == int(share * 40)

    def test_after_a_failed_step(self):
        policy = NextToolPolicy()
        assert policy.guard([DONE, FAILED], None) == "after-failure"
        assert policy.guard([FAILED, DONE], None) is None
        assert policy.guard([Step("weather")], None) is None
        assert NextToolPolicy(ask_after_failure=False).guard([FAILED], None) is None
        assert NextToolPolicy(max_in_a_row=9).guard([FAILED], ["llm"]) == "after-failure"

    def test_at_the_start_nobody_has_chosen(self):
        assert NextToolPolicy.autotool(max_share=1.0).guard([], None) is None
        assert NextToolPolicy(max_in_a_row=0).guard([], None) == "in-a-row"

    @pytest.mark.parametrize("sources", [None, [], ["llm", "llm"], "l"])
    def test_guards_that_count_need_to_know_who_chose(self, sources):
        with pytest.raises(InputError, match="give one source for each"):
            NextToolPolicy(max_in_a_row=1).guard([DONE], sources)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ask_first": -1},
        {"first_threshold": 1.1},
        {"last_threshold": -0.1},
        {"first_threshold": 0.5, "last_threshold": 0.6},
        {"full_coverage": 0},
        {"full_coverage": 1.1},
        {"first_threshold": float("nan")},
        {"max_in_a_row": -1},
        {"max_share": 1.5},
        {"max_share": float("nan")},
        {"candidates_shown": 0},
        {"tools_shown": 0},
        {"ask_first": 1.5},
        {"max_share": object()},
        {"ask_after_failure": "no"},
    ],
)
def test_a_wrong_policy(wrong):
    with pytest.raises(InputError, match=r"must be .*got"):
        NextToolPolicy(**wrong)


@pytest.mark.parametrize("wrong", ["maps", ("",), (7,)])
def test_what_is_excluded_are_ids(wrong):
    with pytest.raises(InputError, match=r"exclude must be (several|a list)|must be a non-blank"):
        NextToolPolicy(exclude=wrong)


def test_what_is_excluded_is_the_same_however_it_is_spelled():
    assert NextToolPolicy(exclude=("cafe\u0301",)).exclude == ("caf\u00e9",)
