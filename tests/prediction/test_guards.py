from __future__ import annotations

import pytest

from cnp_router.exceptions import InputError
from cnp_router.prediction import Guards
from cnp_router.trajectories import Step

DONE, FAILED = Step("weather", success=True), Step("weather", success=False)


def steps(n):
    return [DONE] * n


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
def test_in_a_row(limit, sources, refused):
    found = Guards(in_a_row=limit).refusal(steps(len(sources)), sources)
    assert found == ("in-a-row" if refused else None)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.3, 0.5, 1.0])
def test_the_share_is_never_exceeded_and_is_reached(share):
    guards, sources = Guards(share=share), []
    for _ in range(40):
        refused = guards.refusal(steps(len(sources)), sources)
        assert refused in (None, "share")
        sources.append("llm" if refused else "context")
        assert sources.count("context") <= share * len(sources)
    assert sources.count("context") == int(share * 40)


def test_after_a_failed_step():
    assert Guards().refusal([DONE, FAILED], None) == "after-failure"
    assert Guards().refusal([FAILED, DONE], None) is None
    assert Guards().refusal([Step("weather")], None) is None
    assert Guards(after_failure=False).refusal([FAILED], None) is None
    assert Guards(in_a_row=9).refusal([FAILED], ["llm"]) == "after-failure"


@pytest.mark.parametrize("sources", [None, [], ["llm", "llm"], "l"])
def test_guards_that_count_must_be_told_who_chose(sources):
    with pytest.raises(InputError, match="give one source for each"):
        Guards(in_a_row=1).refusal([DONE], sources)


@pytest.mark.parametrize("wrong", [{"in_a_row": -1}, {"share": 1.5}, {"share": float("nan")}])
def test_wrong_guards(wrong):
    with pytest.raises(InputError, match="must be"):
        Guards(**wrong)
