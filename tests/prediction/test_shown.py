"""What a person sees of it: one line, and in a notebook a table in which nothing is markup."""

from __future__ import annotations

import pytest
from worlds import run

from cnp_router.prediction import (
    PREDICTORS,
    AgentRun,
    Candidate,
    NextTool,
    NextToolRouter,
    ParameterHints,
    RoutedTool,
)


@pytest.mark.parametrize(
    "thing",
    [
        *(kind() for kind in PREDICTORS.values()),
        NextToolRouter(),
        AgentRun(NextToolRouter(), "t1", "Rain?"),
        ParameterHints(),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_it_is_one_short_line(thing):
    assert repr(thing).startswith(f"{type(thing).__name__}(")
    assert "\n" not in repr(thing) and len(repr(thing)) < 100


def test_a_prediction_is_one_short_line():
    router = NextToolRouter()
    for number in range(5):
        router.observe(run(number, "Rain?", "weather", *(f"tool-{n}" for n in range(9))))
    said = router.predict_next(["weather"])
    assert repr(said) == (
        f"RoutedTool('tool-0', confidence={said.confidence:.2f}, source='none', "
        f"unsure='cold-start', threshold={said.threshold:.2f})"
    )


@pytest.mark.parametrize("kind", [NextTool, RoutedTool])
def test_in_a_notebook_nothing_is_markup(kind):
    evil = "<script>alert(1)</script>"
    shown = kind(evil, 0.5, (Candidate(evil, 0.5),), evil)._repr_html_()
    assert "<script>" not in shown
    assert shown.count("&lt;script&gt;") == 3
    assert "<td>0.500</td>" in shown
