"""What is saved under the rules of a `NextToolRouter`: cold start, falling threshold, guards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.report import number
from cnp_router.prediction import AgentRun, NextToolPolicy, NextToolRouter
from cnp_router.trajectories import Trajectory

__all__ = ["RULES", "Ruled", "ruled", "rules_rows"]

RULES = {
    "default": NextToolPolicy(),
    "AutoTool's guards": NextToolPolicy.autotool(),
}


@dataclass(frozen=True, slots=True)
class Ruled:
    """How a router did that was asked for every step of a log, and learned each run at its end.

    Parameters
    ----------
    rules : str
        A key of `RULES`.
    coverage : float in [0, 1]
        Share of the steps whose prediction it acted upon.
    accuracy : float in [0, 1] or None
        Share of those that were right; None without any.
    tokens_saved, tokens_saved_net : float
        As in `AtThreshold`.
    threshold : float in [0, 1]
        θ after the last run.
    """

    rules: str
    coverage: float
    accuracy: float | None
    tokens_saved: float
    tokens_saved_net: float
    threshold: float


def ruled(rules: str, before: Iterable[Trajectory], log: Iterable[Trajectory]) -> Ruled:
    """Walk a log of at least one step with a router that has learned from `before`."""
    router = NextToolRouter(policy=RULES[rules])
    for trajectory in before:
        router.observe(trajectory)
    n_steps = tokens = n_acted = n_right = won = lost = 0
    for trajectory in log:
        run = AgentRun(router, trajectory.id, trajectory.goal)
        for step in trajectory.steps:
            said = run.next()
            run.add(step)
            acted, right = said.source != "none", said.tool == step.tool
            n_steps, tokens = n_steps + 1, tokens + step.tokens
            n_acted, n_right = n_acted + acted, n_right + (acted and right)
            won += step.tokens if acted and right else 0
            lost += step.tokens if acted and not right else 0
        run.end(trajectory.success)
    whole = max(tokens, 1)
    return Ruled(
        rules=rules,
        coverage=n_acted / n_steps,
        accuracy=n_right / n_acted if n_acted else None,
        tokens_saved=won / whole,
        tokens_saved_net=(won - lost) / whole,
        threshold=router.threshold,
    )


def rules_rows(found: Mapping[str, Iterable[Ruled]]) -> list[list[str]]:
    """Return the rows of a table, the head first; `found` is by log."""
    head = ["log", "rules", "coverage", "accuracy", "tokens", "net", "θ at the end"]
    rows = [head]
    for log, results in found.items():
        for one in results:
            figures = (one.coverage, one.accuracy, one.tokens_saved, one.tokens_saved_net)
            cells = [*map(number, figures), number(one.threshold, 2)]
            rows.append([log, one.rules, *cells])
    return rows
