"""Text that others wrote, as it is shown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.printing import printable


@given(st.text(), st.none() | st.integers(10, 99))
def test_nothing_in_a_text_steers_the_terminal(text, most):
    shown = printable(text, most)
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert not set(shown) & set("\u061c\u200b\u200e\u200f\u202a\u202b\u202d\u202e\u2066\ufeff")
    assert most is None or len(shown) <= most


def test_what_is_escaped_can_be_read():
    assert printable("a\x1b[2Jb\r\nc\td\u202ee\x9bf\x7f\ud800") == (
        r"a\x1b[2Jb  c d\u202ee\x9bf\x7f\ud800"
    )
    assert printable("न\u200d् 雨\u3000の Ünïcode") == "न\u200d् 雨 の Ünïcode"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("busy\n\x1b[2J  now", r"busy \x1b[2J now"),
        ("x" * 20, "x" * 20),
        ("x" * 21, f"{'x' * 17}..."),
        ("\n" * 999, ""),
    ],
)
def test_at_most_so_many_characters(text, shown):
    assert printable(text, 20) == shown
