"""`plan_figure`: a plan as a graph of its jobs by level."""

from __future__ import annotations

from cnp_router.evaluation.table import Table
from cnp_router.execution import Plan
from cnp_router.printing import printable
from cnp_router.reports.page import Figure
from cnp_router.reports.shapes import Shapes, fitted

__all__ = ["plan_figure"]

_CARD, _CARD_HIGH, _GAP_X, _GAP_Y = 168, 44, 56, 14
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
    levels = [level[:_MOST_IN_LEVEL] for level in plan.levels][: _MOST_JOBS // 2]
    while sum(map(len, levels)) > _MOST_JOBS:
        longest = max(range(len(levels)), key=lambda n: len(levels[n]))
        levels[longest] = levels[longest][:-1]
    most = max(map(len, levels))
    width = max(len(levels) * (_CARD + _GAP_X) - _GAP_X + 16, 530)
    shapes = Shapes(width, 30 + most * (_CARD_HIGH + _GAP_Y) + 8)
    places: dict[str, tuple[float, float]] = {}
    for number, level in enumerate(levels):
        x = 8.0 + number * (_CARD + _GAP_X)
        shapes.text(x, 16, f"level {number + 1}", size=11, bold=True, colour="soft")
        free = (most - len(level)) * (_CARD_HIGH + _GAP_Y) / 2
        for row, job in enumerate(level):
            places[job.id] = x, 28 + free + row * (_CARD_HIGH + _GAP_Y)
    shown = [job for level in levels for job in level]
    for job in shown:
        x, y = places[job.id]
        for before in job.after:
            if before in places:
                left, top = places[before]
                begin, end = (left + _CARD, top + _CARD_HIGH / 2), (x, y + _CARD_HIGH / 2)
                bend = begin[0] + (end[0] - begin[0]) / 2
                curve = f"M{begin[0]:.5g},{begin[1]:.5g} C{bend:.5g},{begin[1]:.5g} "
                curve += f"{bend:.5g},{end[1]:.5g} {end[0] - 6:.5g},{end[1]:.5g}"
                shapes.path(curve, colour="rest", width=1.3)
                shapes.head(end[0] - 1, end[1], right=True, colour="rest")
    for job in shown:
        x, y = places[job.id]
        what = job.api or job.task
        shapes.begin(f"{job.id}: {what}" + (f"; after {', '.join(job.after)}" if job.after else ""))
        shapes.box(x, y, _CARD, _CARD_HIGH, fill="well", edge="ink", edge_width=1)
        shapes.text(x + 9, y + 18, fitted(job.id, _CARD - 24), bold=True)
        shapes.text(x + 9, y + 34, fitted(what, _CARD - 18, size=11), size=11, colour="soft")
        shapes.end()
    n, n_levels = len(plan.jobs), len(plan.levels)
    says = f"{n:,} job{'s'[: n != 1]} on {n_levels} level{'s'[: n_levels != 1]}, "
    says += f"parallelism {plan.parallelism}."
    if left_out := n - len(shown):
        says += f" {left_out:,} jobs are not drawn."
    return Figure(title, shapes.svg(), says, _plan_table(plan))


def _plan_table(plan: Plan) -> Table:
    level = {job.id: n for n, jobs in enumerate(plan.levels, start=1) for job in jobs}
    rows = tuple(
        (
            printable(job.id, 60),
            str(level[job.id]),
            printable(", ".join(job.after), 80),
            printable(" ".join(filter(None, [job.api, job.task])), 160),
        )
        for job in plan.jobs[:_MOST_ROWS]
    )
    left = len(plan.jobs) - _MOST_ROWS
    notes = (f"{left:,} more jobs are not listed.",) if left > 0 else ()
    return Table("", ("job", "level", "after", "what it does"), rows, labels=4, notes=notes)
