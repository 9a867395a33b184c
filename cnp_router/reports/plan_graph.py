"""`execution_figure`: the jobs of a plan on an axis of time, with what waits for what."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cnp_router.evaluation.table import Table
from cnp_router.execution import Act, Execution, JobReport
from cnp_router.reports.listing import limited, not_listed
from cnp_router.reports.page import Figure
from cnp_router.reports.plan_levels import plan_figure
from cnp_router.reports.shapes import Shapes, fitted, time_text

__all__ = ["critical_path", "execution_figure"]

MOST_JOBS = 40
MOST_ROWS = 300  # of a table

_LABELS = 158  # pixels of the names on the left
_PLOT = 720
_AFTER = 190  # and of what stands behind a bar
_ROW = 40
_BAR = 20
_TOP = 34
_ROOM_OF_BAR = 26  # pixels that a bar needs so that something can be seen in it

# Each state has a pattern and is named beside its bar: colour alone says nothing.
_FILLS = {
    "done": ("good", "good-well", "M-2,8 L8,-2"),
    "failed": ("bad", "bad-well", "M0,0 L8,8 M0,8 L8,0"),
    "cancelled": ("unsure", "unsure-well", "M4,0 V8"),
}


def execution_figure(execution: Execution, title: str = "The jobs, and when they ran") -> Figure:
    """Return the jobs of an execution on an axis of time, with what waits for what.

    A bar reaches from a job's beginning to its end, and its parts are acts of contractors: the
    first one is light while proposals are collected. Where no job was begun in this run, it is the
    figure of the plan.

    Parameters
    ----------
    execution : Execution
        With a plan.
    title : str, optional

    Returns
    -------
    Figure
        At most 40 jobs: those that are not done, those on the critical path, and the longest. What
        was left out is said.

    Examples
    --------
    >>> from cnp_router.execution import Job, Plan
    >>> plan = Plan("Rain?", (Job("place", "Find it."), Job("rain", "Look.", after=("place",))))
    >>> jobs = (JobReport("place", "Find it.", state="done", began=0.0, ended=0.4),
    ...         JobReport("rain", "Look.", ("place",), "failed", began=0.4, ended=0.9))
    >>> figure = execution_figure(Execution("a1", "Rain?", plan, jobs, (), 1.0))
    >>> figure.says
    '2 jobs on 2 levels in 1.00 s: 1 done, 1 failed. The critical path is place, rain.'
    """
    plan = execution.plan
    assert plan is not None
    if not any(report.began is not None for report in execution.jobs):
        return plan_figure(plan, "The jobs, by level")
    path = critical_path(execution)
    rows = _rows(execution, path)
    return Figure(
        title,
        _timed(execution, rows, path),
        _says(execution, path, n_left_out=len(execution.jobs) + len(execution.failed) - len(rows)),
        _table(execution),
    )


def critical_path(execution: Execution) -> tuple[str, ...]:
    """Return the jobs that decided when the last one ended: each waited for the one before.

    From the job that ended last back to whichever of the jobs that it waited for ended last, and so
    on; of jobs with times only.

    Examples
    --------
    >>> jobs = (JobReport("a", "", state="done", began=0.0, ended=0.3),
    ...         JobReport("b", "", state="done", began=0.0, ended=0.5),
    ...         JobReport("c", "", ("a", "b"), "done", began=0.5, ended=0.6))
    >>> critical_path(Execution("a1", "", None, jobs, (), 1.0))
    ('b', 'c')
    """
    ended = {job.id: job.ended for job in execution.jobs if job.ended is not None}
    after = {job.id: job.after for job in execution.jobs}
    path: list[str] = []
    names: Sequence[str] = tuple(ended)
    while among := [name for name in names if name in ended]:
        path.append(max(among, key=lambda name: ended[name]))
        names = after[path[-1]]
    return tuple(reversed(path))


@dataclass(frozen=True, slots=True)
class _Row:
    """A job, and where it stands."""

    report: JobReport
    level: int  # from 1; 0 for what was planned anew
    what: str = ""  # the plan wants of it
    is_old: bool = False


def _rows(execution: Execution, path: Sequence[str]) -> list[_Row]:
    plan = execution.plan
    assert plan is not None
    level = {job.id: n for n, jobs in enumerate(plan.levels, start=1) for job in jobs}
    rows = [_Row(report, 0, is_old=True) for report in execution.failed]
    what = {job.id: job.api or job.task for job in plan.jobs}
    rows += [_Row(each, level.get(each.id, 1), what.get(each.id, "")) for each in execution.jobs]

    def weight(row: _Row) -> tuple[bool, bool, float]:
        report = row.report
        is_on_path = report.id in path and not row.is_old
        return report.state == "done", not is_on_path, -_length(report)

    kept = set(map(id, sorted(rows, key=weight)[:MOST_JOBS]))
    return sorted((row for row in rows if id(row) in kept), key=lambda row: row.level)


def _length(report: JobReport) -> float:
    if report.began is None or report.ended is None:
        return 0.0
    return report.ended - report.began


def _timed(execution: Execution, rows: Sequence[_Row], path: Sequence[str]) -> str:
    ends = [row.report.ended or 0.0 for row in rows]
    longest = max([execution.seconds, *ends]) or 1.0
    levels = list(dict.fromkeys(row.level for row in rows))
    height = _TOP + _ROW * len(rows) + 22 * len(levels) + 36
    shapes = Shapes(_LABELS + _PLOT + _AFTER, height)
    for state, (colour, ground, lines) in _FILLS.items():
        shapes.stripes(f"is-{state}", colour, ground, lines)

    def x(seconds: float) -> float:
        return _LABELS + _PLOT * seconds / longest

    y = float(_TOP)
    places: dict[str, float] = {}
    bands = []
    for level in levels:
        own = [row for row in rows if row.level == level]
        bands.append((y, level, len(own)))
        y += 22
        for row in own:
            places[_key(row)] = y + _ROW / 2
            y += _ROW
    for top, level, n in bands:
        shapes.box(2, top, _LABELS + _PLOT + _AFTER - 4, 20 + _ROW * n, fill="well", radius=6)
        said = f"level {level}" if level else "failed, and planned anew"
        shapes.text(10, top + 15, said, size=11, bold=True, colour="soft")
    for at in _ticks(longest):
        shapes.line([(x(at), _TOP - 6), (x(at), y + 4)], colour="line", width=1)
        said = time_text(at) if at else "0"
        shapes.text(x(at), _TOP - 12, said, size=11, colour="soft", anchor="middle")
    _before(shapes, x(0), x(min(row.report.began for row in rows if row.report.began is not None)))
    starts = {_key(row): _start(row, execution, x) for row in rows}
    for is_critical in (False, True):  # what matters most on top
        for row in rows:
            _arrows(shapes, row, starts, places, path, is_critical=is_critical)
    for row in rows:
        is_on_path = row.report.id in path and not row.is_old
        _bar(shapes, row, places[_key(row)], x, starts[_key(row)], is_on_path=is_on_path)
    _legend(shapes, y + 22)
    return shapes.svg()


def _before(shapes: Shapes, left: float, right: float) -> None:
    """Draw the time before the first job, in which a round was held or a plan was made."""
    if right - left > _ROOM_OF_BAR:
        shapes.begin("Before the first job: proposals and awards, or planning")
        shapes.box(left, _TOP + 4, right - left, 14, edge="rest", dash="2 3", radius=2)
        shapes.text(
            left + 5, _TOP + 15, fitted("before the first job", right - left - 8, size=10),
            size=10, colour="soft",
        )  # fmt: skip
        shapes.end()


def _key(row: _Row) -> str:
    return f"{'old' if row.is_old else 'job'} {row.report.id}"


def _start(row: _Row, execution: Execution, place: Callable[[float], float]) -> tuple[float, float]:
    """Return from where to where the bar of a job is drawn."""
    report = row.report
    if report.began is not None:
        left = place(report.began)
        ended = execution.seconds if report.ended is None else report.ended
        return left, max(place(ended), left + 3)
    ended_before = {job.id: job.ended or 0.0 for job in execution.jobs}
    at = max((ended_before.get(name, 0.0) for name in report.after), default=0.0)
    return place(at), place(at) + _ROOM_OF_BAR


def _bar(
    shapes: Shapes,
    row: _Row,
    y: float,
    place: Callable[[float], float],
    ends: tuple[float, float],
    *,
    is_on_path: bool,
) -> None:
    report, (left, right) = row.report, ends
    top = y - _BAR / 2
    edge, width = ("accent", 2.6) if is_on_path else ("ink", 1.0)
    shapes.begin(_said(row, is_on_path=is_on_path))
    shapes.text(10, y - 2, fitted(report.id, _LABELS - 22), bold=True)
    who = fitted(report.api or row.what or report.task, _LABELS - 22, size=11)
    shapes.text(10, y + 12, who, size=11, colour="soft")
    if report.began is None:
        shapes.box(left, top, right - left, _BAR, fill="card", edge="rest", dash="3 3")
    else:
        shapes.box(left, top, right - left, _BAR, fill="card", edge=edge, edge_width=width)
        for number, act in enumerate(report.acts):
            if act.began is None or act.ended is None:
                continue
            begin, end = place(act.began), max(place(act.ended), place(act.began) + 2)
            state = "done" if act.result.is_done else "failed"
            if number == len(report.acts) - 1 and report.state == "cancelled":
                state = "cancelled"
            shapes.box(begin, top, end - begin, _BAR, pattern=f"is-{state}", edge=edge, radius=2)
        if not report.acts and report.state in _FILLS:
            shapes.box(left, top, right - left, _BAR, pattern=f"is-{report.state}", edge=edge)
        shapes.box(left, top, right - left, _BAR, edge=edge, edge_width=width)
    shapes.text(
        right + 7, y + 4, fitted(_beside(report), _AFTER + _LABELS + _PLOT - right - 12),
        bold=is_on_path, halo="well",
    )  # fmt: skip
    shapes.end()


def _beside(report: JobReport) -> str:
    """Return what stands behind a bar: the state, the time, and what was tried."""
    if report.is_resumed:
        return "done before"
    parts = [report.state if report.began is None else f"{report.state}, {_took(report)}"]
    if again := sum(act.by in ("re-award", "fallback") for act in report.acts):
        parts.append(f"awarded again{_times(again)}")
    if retries := sum(max(act.attempts - 1, 0) for act in report.acts):
        parts.append(f"repeated{_times(retries)}")
    if any(act.by in ("earlier", "context") for act in report.acts):
        parts.append("known already")
    return "; ".join(parts)


def _times(n: int) -> str:
    return f" \N{MULTIPLICATION SIGN} {n}" if n > 1 else ""


def _took(report: JobReport) -> str:
    return time_text(_length(report)) if report.ended is not None else "not ended"


def _said(row: _Row, *, is_on_path: bool) -> str:
    """Return what is said of a job under the pointer."""
    report = row.report
    parts = [f"{report.id}: {_beside(report)}"]
    if report.began is not None:
        parts.append(f"from {time_text(report.began)} on")
    if report.acts:
        parts.append("by " + ", then ".join(act.api for act in report.acts))
    if report.after:
        parts.append(f"after {', '.join(report.after)}")
    if is_on_path:
        parts.append("on the critical path")
    return "; ".join(parts)


def _arrows(
    shapes: Shapes,
    row: _Row,
    starts: Mapping[str, tuple[float, float]],
    places: Mapping[str, float],
    path: Sequence[str],
    *,
    is_critical: bool,
) -> None:
    """Draw an arrow from each job that this one waits for, on the critical path or off it."""
    if row.is_old:
        return
    name = row.report.id
    steps = set(pairwise(path))
    end, y = starts[_key(row)][0], places[_key(row)]
    for before in row.report.after:
        if f"job {before}" not in starts or ((before, name) in steps) != is_critical:
            continue
        begin, top = starts[f"job {before}"][1], places[f"job {before}"]
        colour, width = ("accent", 2.2) if is_critical else ("rest", 1.2)
        turn = top + _BAR / 2 + 9 if y > top else top - _BAR / 2 - 9
        x = max(min(begin, end) - 1, _LABELS - 8)
        near = max(end - 11, _LABELS - 14)
        down = f"M{x:.5g},{top + _BAR / 2:.5g} V{turn:.5g} H{near:.5g} V{y:.5g} H{end - 2:.5g}"
        shapes.path(down, colour=colour, width=width)
        shapes.head(end - 1, y, right=True, colour=colour)


def _legend(shapes: Shapes, y: float) -> None:
    x = 10.0
    for state in _FILLS:
        shapes.box(x, y - 11, 24, 14, pattern=f"is-{state}", edge="ink", edge_width=1, radius=2)
        shapes.text(x + 31, y, state, size=11, colour="soft")
        x += 58 + 6 * len(state)
    for said, fill, edge, width, dash in (
        ("asking for proposals, or waiting", "card", "ink", 1.0, ""),
        ("not begun here", "card", "rest", 1.4, "3 3"),
        ("critical path", "card", "accent", 2.6, ""),
    ):
        shapes.box(x, y - 11, 24, 14, fill=fill, edge=edge, edge_width=width, dash=dash, radius=2)
        shapes.text(x + 31, y, said, size=11, colour="soft")
        x += 58 + 6 * len(said)


def _ticks(longest: float) -> list[float]:
    """Return times for an axis: at most eight, round numbers of seconds."""
    rough = longest / 6
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * n for n in (1, 2, 5, 10) if unit * n >= rough)
    return [step * n for n in range(int(longest / step + 1e-9) + 1)]


def _says(execution: Execution, path: Sequence[str], *, n_left_out: int) -> str:
    plan = execution.plan
    assert plan is not None
    n, levels = len(execution.jobs), len(plan.levels)
    counts = ", ".join(f"{number:,} {state}" for state, number in execution.counts.items())
    said = f"{n:,} job{'s'[: n != 1]} on {levels} level{'s'[: levels != 1]} in "
    said += f"{time_text(execution.seconds)}: {counts}."
    if execution.failed:
        said += f" {len(execution.failed):,} failed before and were planned anew."
    if len(path) > 1:
        few = path if len(path) <= 8 else (*path[:4], "...", *path[-3:])
        said += f" The critical path is {', '.join(limited(name, 40) for name in few)}."
    if n_left_out:
        said += f" {n_left_out:,} jobs are not drawn."
    return said


def _table(execution: Execution) -> Table:
    jobs = [*execution.failed, *execution.jobs]
    rows = tuple(
        (
            limited(job.id, 60),
            job.state,
            "-" if job.began is None else f"{job.began:.3f}",
            "-" if job.ended is None else f"{job.ended:.3f}",
            limited(", ".join(job.after), 80),
            limited(", ".join(map(_act, job.acts)), 160),
        )
        for job in jobs[:MOST_ROWS]
    )
    return Table(
        "",
        ("job", "state", "began (s)", "ended (s)", "after", "by"),
        rows,
        labels=6,
        notes=not_listed(len(jobs), MOST_ROWS, "more jobs"),
    )


def _act(act: Act) -> str:
    tried = f", {act.attempts} calls" if act.attempts > 1 else ""
    return f"{act.api} ({act.by}{tried})"
