"""`plan_figure`: a plan as a graph of its jobs by level."""

from __future__ import annotations

from dataclasses import dataclass

from cnp_router.evaluation.table import Table
from cnp_router.execution import Job, Plan
from cnp_router.reports.listing import limited, not_listed
from cnp_router.reports.page import Figure
from cnp_router.reports.shapes import Shapes, fitted

__all__ = ["plan_figure"]

_CARD, _CARD_HIGH, _GAP_X, _GAP_Y = 168, 44, 56, 14  # pixels
_LANE = 8
_LEAST = 530
_MOST_IN_LEVEL = 14
_MOST_JOBS = 40
_MOST_ROWS = 300  # of the table


def plan_figure(plan: Plan, title: str = "The plan") -> Figure:
    """Return a plan as a graph: its jobs by level, with arrows to those that wait for them.

    Parameters
    ----------
    plan : Plan
    title : str, optional

    Returns
    -------
    Figure
        At most 14 jobs of a level, and 40 in all. What was left out is said.

    Examples
    --------
    >>> from cnp_router.execution import Job
    >>> plan = Plan("Rain?", (Job("place", "Find it."), Job("rain", "Look.", after=("place",))))
    >>> figure = plan_figure(plan)
    >>> figure.says, figure.table.rows[1]
    ('2 jobs on 2 levels, parallelism 1.', ('rain', '2', 'place', 'Look.'))
    """
    levels = _shown(plan)
    rows = _ordered(levels)
    high = max(map(_height, rows))
    width = max(len(rows) * (_CARD + _GAP_X) - _GAP_X + 16, _LEAST)
    shapes = Shapes(width, 28 + high + 8)
    places: dict[tuple[str, int], float] = {}  # the middle of what stands in a level
    for level, row in enumerate(rows):
        shapes.text(_left(level), 16, f"level {level + 1}", size=11, bold=True, colour="soft")
        y = 28 + (high - _height(row)) / 2
        for item in row:
            tall = _CARD_HIGH if item.job else _LANE
            places[item.id, level] = y + tall / 2
            y += tall + _GAP_Y
    for level, jobs in enumerate(levels):
        for job in jobs:
            for before in job.after:
                _edge(shapes, before, job.id, level, places)
    for level, jobs in enumerate(levels):
        for job in jobs:
            _card(shapes, job, _left(level), places[job.id, level] - _CARD_HIGH / 2)
    n_left_out = len(plan.jobs) - sum(map(len, levels))
    n, n_levels = len(plan.jobs), len(plan.levels)
    says = f"{n:,} job{'s'[: n != 1]} on {n_levels} level{'s'[: n_levels != 1]}, "
    says += f"parallelism {plan.parallelism}."
    if n_left_out:
        says += f" {n_left_out:,} jobs are not drawn."
    return Figure(title, shapes.svg(), says, _plan_table(plan))


@dataclass(frozen=True, slots=True)
class _Item:
    """What stands in a level: a job, or the lane of arrows that pass it by from the job `id`."""

    id: str
    job: Job | None = None


def _shown(plan: Plan) -> list[list[Job]]:
    """Return the jobs that are drawn, by level."""
    levels = [list(level[:_MOST_IN_LEVEL]) for level in plan.levels][: _MOST_JOBS // 2]
    while sum(map(len, levels)) > _MOST_JOBS:
        max(levels, key=len).pop()
    return levels


def _ordered(levels: list[list[Job]]) -> list[list[_Item]]:
    """Return jobs and lanes by level, each near to what it waits for (Sugiyama et al., 1981)."""
    level_of = {job.id: n for n, jobs in enumerate(levels) for job in jobs}
    rows: list[list[_Item]] = [[_Item(job.id, job) for job in jobs] for jobs in levels]
    lanes: dict[tuple[str, int], None] = {}
    for n, jobs in enumerate(levels):
        for job in jobs:
            for before in job.after:
                lanes |= {(before, m): None for m in range(level_of.get(before, n) + 1, n)}
    for before, level in lanes:
        rows[level].append(_Item(before))
    for level in range(1, len(rows)):
        above = {item.id: place for place, item in enumerate(rows[level - 1])}
        size = max(len(rows[level - 1]) - 1, 1)

        def middle(item: _Item, above: dict[str, int] = above, size: int = size) -> float:
            names = item.job.after if item.job else (item.id,)
            there = [above[name] / size for name in names if name in above]
            return sum(there) / len(there) if there else 0.5

        rows[level].sort(key=middle)
    return rows


def _height(row: list[_Item]) -> float:
    tall = sum(_CARD_HIGH if item.job else _LANE for item in row)
    return tall + _GAP_Y * (len(row) - 1)


def _left(level: int) -> float:
    return 8.0 + level * (_CARD + _GAP_X)


def _edge(
    shapes: Shapes, before: str, job: str, level: int, places: dict[tuple[str, int], float]
) -> None:
    """Draw an arrow to a job in a level from one before it, along the lanes between."""
    passed = sorted(n for name, n in places if name == before and n < level)
    if not passed:
        return  # what it waits for is not drawn
    path = ""
    for n in passed:
        x, y = _left(n), places[before, n]
        path += f" H{x + _CARD:.5g}" if path else f"M{x + _CARD:.5g},{y:.5g}"
        end = places[before, n + 1] if n + 1 < level else places[job, level]
        right, bend = _left(n + 1), _left(n + 1) - _GAP_X / 2
        stop = right - 6 if n + 1 == level else right
        path += f" C{bend:.5g},{y:.5g} {bend:.5g},{end:.5g} {stop:.5g},{end:.5g}"
    shapes.path(path, colour="rest", width=1.3)
    shapes.head(_left(level) - 1, places[job, level], right=True, colour="rest")


def _card(shapes: Shapes, job: Job, x: float, y: float) -> None:
    what = job.api or job.task
    shapes.begin(f"{job.id}: {what}" + (f"; after {', '.join(job.after)}" if job.after else ""))
    shapes.box(x, y, _CARD, _CARD_HIGH, fill="well", edge="ink", edge_width=1)
    shapes.text(x + 9, y + 18, fitted(job.id, _CARD - 24), bold=True)
    shapes.text(x + 9, y + 34, fitted(what, _CARD - 18, size=11), size=11, colour="soft")
    shapes.end()


def _plan_table(plan: Plan) -> Table:
    level = {job.id: n for n, jobs in enumerate(plan.levels, start=1) for job in jobs}
    rows = tuple(
        (
            limited(job.id, 60),
            str(level[job.id]),
            limited(", ".join(job.after), 80),
            limited(" ".join(filter(None, [job.api, job.task])), 160),
        )
        for job in plan.jobs[:_MOST_ROWS]
    )
    notes = not_listed(len(plan.jobs), _MOST_ROWS, "more jobs")
    return Table("", ("job", "level", "after", "what it does"), rows, labels=4, notes=notes)
