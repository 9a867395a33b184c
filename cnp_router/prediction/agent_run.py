"""`AgentRun`: one run of an agent that asks for each next tool, and is learned from at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cnp_router import telemetry
from cnp_router.exceptions import InputError
from cnp_router.prediction.hints import Hint
from cnp_router.prediction.next_tool import NextToolRouter
from cnp_router.prediction.policy import RoutedTool
from cnp_router.prediction.predictor import Context
from cnp_router.trajectories import Step, Trajectory

__all__ = ["AgentRun"]


class AgentRun:
    """Keeps the steps of a run and who chose each of them, as guards need it.

    It belongs to one thread or task; the router may be shared.

    Parameters
    ----------
    router : NextToolRouter
    id : str
        Unique among trajectories.
    goal : str
    observe : callable, optional
        Takes the finished Trajectory; `NextToolRouter.observe` if not given. With an
        `OnlineStore` that the router observes: `OnlineStore.observe`.

    Examples
    --------
    >>> router = NextToolRouter(tools=["weather", "sms"])
    >>> run = AgentRun(router, "t1", "Rain?")
    >>> run.next().source
    'none'
    >>> run.add(Step("weather", observation="rain"))
    >>> run.add(Step("sms"))
    >>> run.end(success=True).tools, run.sources, router.n_trajectories
    (('weather', 'sms'), ('caller', 'caller'), 1)
    """

    def __init__(
        self,
        router: NextToolRouter,
        id: str,
        goal: str,
        *,
        observe: Callable[[Trajectory], Any] | None = None,
    ) -> None:
        self._router = router
        self._observe = observe or router.observe
        self._run = Trajectory(id, goal, ())
        self._sources: tuple[str, ...] = ()
        self._decided: RoutedTool | None = None
        self._ended = False

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps so far."""
        return self._run.steps

    @property
    def sources(self) -> tuple[str, ...]:
        """Who chose each: the predictor's name, ``"llm"`` or ``"caller"``."""
        return self._sources

    def next(self) -> RoutedTool:
        """Say the next tool; see `NextToolRouter.predict_next`."""
        goal = Context(self._run.goal)
        self._decided = self._router.predict_next(self.steps, goal, sources=self.sources)
        return self._decided

    async def anext(self) -> RoutedTool:
        """Say the next tool; see `NextToolRouter.apredict_next`."""
        goal = Context(self._run.goal)
        self._decided = await self._router.apredict_next(self.steps, goal, sources=self.sources)
        return self._decided

    def hints(self, tool: str) -> tuple[Hint, ...]:
        """Return where the inputs of a tool may be filled from; see `ParameterHints.hints`."""
        return self._router.hints(tool, self.steps)

    def add(self, step: Step) -> None:
        """Add the step that was taken, be it the one that was said or another."""
        self._check_open()
        said = self._decided
        self._run = replace(self._run, steps=(*self.steps, step))
        taken = said is not None and said.source != "none" and said.tool == step.tool
        if said is not None and said.source != "none":
            telemetry.add("cnp_router.selections", 1, {"correct": taken, "by": "next_tool"})
        self._sources += (said.source if said and taken else "caller",)
        self._decided = None

    def end(self, success: bool | None = None) -> Trajectory:
        """End the run, and learn from it; the steps of a failed run are not reinforced.

        Raises
        ------
        InputError
            If the run has ended already; `add` raises it then, too.
        """
        self._check_open()
        self._run, self._ended = replace(self._run, success=success), True
        self._observe(self._run)
        return self._run

    def __repr__(self) -> str:
        return f"AgentRun({self._run.id!r}, {len(self.steps)} steps)"

    def _check_open(self) -> None:
        if self._ended:
            raise InputError(f"run {self._run.id!r} has ended (begin another one)")
