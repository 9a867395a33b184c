from __future__ import annotations

import pytest

from cnp_router.evaluation import (
    Evaluation,
    comparison_rows,
    evaluate,
    markdown_table,
    text_table,
)
from cnp_router.exceptions import InputError
from cnp_router.history import History, Mashup
from cnp_router.routing import BroadcastRouter


@pytest.fixture
def evaluation(catalog):
    return evaluate(BroadcastRouter(catalog), History([Mashup("m1", "x", ("weather",))]))


def test_rows(evaluation):
    rows = comparison_rows({"one": evaluation, "another": evaluation})
    assert rows[0][:4] == ["router", "R@5", "R@20", "nDCG@10"]
    assert [row[0] for row in rows] == ["router", "one", "another"]
    assert len({len(row) for row in rows}) == 1
    assert rows[1][1] == "1.000"


def test_own_figures(evaluation: Evaluation):
    figures = {
        "share": lambda e: 0.6834,
        "almost one": lambda e: 0.9996,
        "count": lambda e: 1345,
        "none": lambda e: e.categories["f1"],
        "zero": lambda e: 0.0,
    }
    rows = comparison_rows({"one": evaluation}, figures)
    assert rows == [["router", *figures], ["one", ".683", "1.000", "1345.0", "-", ".000"]]


def test_text():
    assert text_table([["router", "F1", "ms"], ["a", ".1", "12.0"], ["longer one", "-", "1"]]) == (
        "router      F1    ms\n----------  --  ----\na           .1  12.0\nlonger one   -     1"
    )


def test_markdown():
    assert markdown_table([["router", "F1"], ["a|b", ".12"]]) == (
        "| router |  F1 |\n| :----- | --: |\n| a\\|b   | .12 |"
    )


def test_nothing_to_show():
    with pytest.raises(InputError, match="no evaluation to show"):
        comparison_rows({})
