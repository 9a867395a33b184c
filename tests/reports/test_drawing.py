from __future__ import annotations

import builtins
import re

import pytest

from cnp_router.exceptions import MissingExtraError
from cnp_router.reports.drawing import COLOURS, SERIES, drawn, logarithmic, shares
from cnp_router.reports.page import template_source


def line(axes):
    axes.plot([1, 10, 1000], [0, 0.5, 1], color=SERIES[0], label="costs $5 & <more>")
    axes.legend()
    logarithmic(axes, "x")
    shares(axes.yaxis)


def test_text_is_text_and_colours_are_those_of_the_page():
    svg = drawn(line)
    assert ">costs $5 &amp; &lt;more&gt;</text>" in svg
    assert ">1,000</text>" in svg
    assert ">0.2</text>" in svg
    assert "mathdefault" not in svg
    assert not re.findall(r"#[0-9a-f]{6}\b", svg)
    used = set(re.findall(r"var\(--(\w+)\)", svg))
    assert {"s1", "ink", "soft", "line", "rest"} <= used
    assert svg.startswith("<svg")
    assert "<metadata" not in svg
    assert "<style" not in svg


def test_axes_of_a_common_scale_have_the_same_limits():
    limits = []

    def bars_behind(axes):
        bars = axes.twinx()
        bars.bar([0, 0.5], [10, 3], 0.07, align="edge", color=COLOURS["line"])
        axes.plot([0, 1], [0, 1], color=COLOURS["rest"])
        shares(axes.xaxis)
        shares(axes.yaxis)
        limits[:] = [axes.get_xlim, bars.get_xlim, axes.get_ylim, bars.get_ylim]

    drawn(bars_behind)
    x, x_of_bars, y, y_of_bars = (get() for get in limits)
    assert x == x_of_bars == y == (-0.02, 1.03)
    assert y_of_bars[1] > 10


def test_every_colour_is_in_the_template():
    assert set(COLOURS) <= set(re.findall(r"--([\w-]+):", template_source()))


def test_a_colour_that_the_page_does_not_have_is_an_error():
    with pytest.raises(KeyError, match="#ff0000"):
        drawn(lambda axes: axes.plot([0, 1], color="red"))


def test_a_text_can_name_colours():
    svg = drawn(lambda axes: axes.set_xlabel("a > #ff0000 #000001"))
    assert ">a &gt; #ff0000 #000001</text>" in svg


def test_any_script_can_be_drawn_and_nothing_steers():
    svg = drawn(lambda axes: axes.set_xlabel("日本語 \x1b[31m \u202e"))
    assert ">日本語 \\x1b[31m \\u202e</text>" in svg


def test_the_same_plot_is_the_same_text():
    assert drawn(line) == drawn(line)


def test_without_matplotlib(monkeypatch):
    real = builtins.__import__

    def without(name, *others, **more):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"needs matplotlib .*'cnp-router\[report\]'"):
        drawn(line)
