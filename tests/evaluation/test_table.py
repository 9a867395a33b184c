from __future__ import annotations

import pytest

from cnp_router.evaluation import Table
from cnp_router.evaluation.table import share


@pytest.mark.parametrize(
    ("value", "expected"), [(0.6834, ".683"), (0.9996, "1.000"), (0.0, ".000"), (None, "-")]
)
def test_a_share(value, expected):
    assert share(value) == expected


def test_labels_are_aligned_to_the_left():
    table = Table("", ("protocol", "stage", "F1"), (("auto", "bids", ".1"),), labels=2)
    assert table.markdown() == (
        "| protocol | stage |  F1 |\n| :------- | :---- | --: |\n| auto     | bids  |  .1 |"
    )


def test_markdown():
    table = Table("Routers", ("router", "F1"), (("a|b", ".12"),), notes=("Averages.",))
    assert table.markdown() == (
        "**Routers**\n\n| router |  F1 |\n| :----- | --: |\n| a\\|b   | .12 |\n\nAverages."
    )


def test_html_is_escaped():
    hostile = "<script>alert(1)</script> & more"
    table = Table(hostile, (hostile, "b"), ((hostile, "1"),), notes=(hostile,))
    page = table._repr_html_()
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt; &amp; more") == 4


@pytest.mark.parametrize("form", ["markdown", "_repr_html_"])
def test_a_cell_is_one_line_of_printable_characters(form):
    hostile = "a\nb\x1b[31m\x9b2J\u202ec\x7f"
    lines = getattr(Table("", ("x", "y"), ((hostile, "1"),), notes=(hostile,)), form)()
    assert all(c.isprintable() or c == "\n" for c in lines)
    assert lines.count(r"a b\x1b[31m\x9b2J\u202ec\x7f") == 2


def test_a_table_is_one_readable_line():
    assert repr(Table("Tokens", ("a", "b"), ())) == "Table('Tokens', 0 rows of 2 columns)"
