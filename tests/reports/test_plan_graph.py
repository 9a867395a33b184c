"""Plans as graphs: on an axis of time where they ran, and by level where they did not."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hostile_results import execution_of

from cnp_router.execution import Act, Execution, Job, JobReport, Plan
from cnp_router.reports.plan_graph import MOST_JOBS, critical_path, execution_figure
from cnp_router.reports.plan_levels import plan_figure
from cnp_router.sources import CallResult
from tests.reports.report_pages import HOSTILE

OK, BROKEN = CallResult("sunny"), CallResult.failed("tool", "broken")


def act(by, result, began, ended, **more):
    return Act("sky__now", by, {}, result, 1, ended - began, began=began, ended=ended, **more)


def job(name, state, began, ended, *acts, after=(), **more):
    return JobReport(name, "", after, state, acts=list(acts), began=began, ended=ended, **more)


def execution(*jobs, seconds=1.0, **more):
    plan = Plan("Rain?", tuple(Job(each.id, "x", after=each.after) for each in jobs))
    return Execution("e1", "Rain?", plan, jobs, (), seconds, **more)


def texts(figure):
    return [each.text for each in ElementTree.fromstring(figure.svg).iter("text")]


def groups(figure):
    """Return what is said of each job under the pointer, and its bars."""
    return {
        group.findtext("title").partition(":")[0]: group
        for group in ElementTree.fromstring(figure.svg).iter("g")
    }


def test_bars_are_where_the_jobs_were():
    figure = execution_figure(
        execution(job("a", "done", 0.0, 0.5, act("award", OK, 0.1, 0.5)),
                  job("b", "done", 0.5, 1.0, act("award", OK, 0.5, 1.0), after=("a",)))
    )  # fmt: skip
    first, second = (groups(figure)[name].findall("rect")[0] for name in "ab")
    assert float(second.get("x")) == pytest.approx(
        float(first.get("x")) + float(first.get("width")), abs=0.2
    )
    assert float(first.get("width")) == pytest.approx(float(second.get("width")), abs=0.2)
    acted = groups(figure)["a"].findall("rect")[1]
    assert float(acted.get("width")) == pytest.approx(0.8 * float(first.get("width")), abs=0.5)
    assert figure.table.rows[1][:5] == ("b", "done", "0.500", "1.000", "a")


def test_a_state_is_a_pattern_and_a_word():
    figure = execution_figure(
        execution(
            job("a", "done", 0.0, 0.2, act("award", OK, 0.0, 0.2)),
            job("b", "failed", 0.0, 0.4, act("award", BROKEN, 0.0, 0.4)),
            job("c", "cancelled", 0.0, 0.9, act("award", BROKEN, 0.0, 0.9)),
            job("d", "skipped", None, None, after=("b",)),
            job("e", "done", None, None, is_resumed=True),
        )
    )
    shown = groups(figure)
    for name, state in zip("abc", ("done", "failed", "cancelled"), strict=True):
        assert any(box.get("fill") == f"url(#is-{state})" for box in shown[name].findall("rect"))
        assert shown[name].findall("text")[-1].text.startswith(state)
    assert shown["d"].find("rect").get("stroke-dasharray")
    assert shown["d"].findall("text")[-1].text == "skipped"
    assert shown["e"].findall("text")[-1].text == "done before"


def test_retries_and_re_awards_are_parts_of_a_bar_and_are_said():
    tried = replace(act("award", BROKEN, 0.0, 0.3), attempts=3)
    again = act("re-award", OK, 0.3, 0.5)
    figure = execution_figure(execution(job("a", "done", 0.0, 0.5, tried, again)))
    group = groups(figure)["a"]
    fills = [box.get("fill") for box in group.findall("rect")]
    assert fills.count("url(#is-failed)") == fills.count("url(#is-done)") == 1
    said = group.findall("text")[-1].text
    assert "awarded again" in said
    assert "repeated \N{MULTIPLICATION SIGN} 2" in said


def test_the_critical_path_is_marked_and_named():
    told = execution(
        job("a", "done", 0.0, 0.3),
        job("b", "done", 0.0, 0.6),
        job("c", "done", 0.6, 0.7, after=("a", "b")),
        job("d", "done", 0.3, 0.65, after=("a",)),
    )
    assert critical_path(told) == ("b", "c")
    figure = execution_figure(told)
    assert "The critical path is b, c." in figure.says
    marked = {name for name, group in groups(figure).items() if "critical" in
              group.findtext("title")}  # fmt: skip
    assert marked == {"b", "c"}
    edges = [path for path in ElementTree.fromstring(figure.svg).iter("path")
             if path.get("stroke") == "var(--accent)"]  # fmt: skip
    assert len(edges) == 1


def test_nobody_has_waited_for_what_was_not_begun():
    assert critical_path(execution(job("a", "skipped", None, None))) == ()
    figure = execution_figure(execution(job("a", "skipped", None, None)))
    assert figure.says == "1 job on 1 level, parallelism 1."


def test_what_failed_before_the_plan_was_changed_is_drawn_too():
    old = job("a", "failed", 0.0, 0.2, act("award", BROKEN, 0.0, 0.2))
    figure = execution_figure(execution(job("b", "done", 0.2, 0.4), failed=(old,)))
    assert "failed, and planned anew" in texts(figure)
    assert [row[0] for row in figure.table.rows] == ["a", "b"]


def test_of_many_jobs_the_most_telling_are_drawn():
    jobs = [job(f"j{n}", "done", 0.0, 0.1 + n / 1_000) for n in range(1_345)]
    jobs[7] = job("j7", "failed", 0.0, 0.001)
    figure = execution_figure(execution(*jobs, seconds=2.0))
    assert len(groups(figure)) == MOST_JOBS
    assert {"j7", "j1344"} <= set(groups(figure))
    assert "1,305 jobs are not drawn." in figure.says
    assert len(figure.table.rows) == 300
    assert figure.table.notes == ("1,045 more jobs are not listed.",)
    assert len(figure.svg) < 80_000
    levels = plan_figure(execution(*jobs).plan)
    assert "are not drawn" in levels.says
    assert len(levels.svg) < 80_000


def test_levels_and_the_arrows_between_them():
    plan = Plan("x", (Job("a", "x"), Job("b", "x", after=("a",)), Job("c", "x", after=("a", "b"))))
    figure = plan_figure(plan)
    root = ElementTree.fromstring(figure.svg)
    assert {"level 1", "level 2", "level 3"} <= set(texts(figure))
    arrows = [path for path in root.iter("path") if path.get("fill") == "none"]
    assert len(arrows) == 3
    assert figure.table.rows[2] == ("c", "3", "a, b", "x")


def test_no_text_is_markup():
    told = execution_of(HOSTILE)
    for figure in (execution_figure(told), plan_figure(told.plan)):
        tags = {element.tag for element in ElementTree.fromstring(figure.svg).iter()}
        assert tags <= {"svg", "g", "title", "text", "path", "rect", "defs", "pattern"}
        assert "\x1b" not in figure.svg
        assert "\u202e" not in figure.svg
