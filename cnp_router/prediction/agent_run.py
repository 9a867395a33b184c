"""`AgentRun`: one run of an agent that asks for each next tool, and is learned from at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
        self._run = Trajectory(id, goal, ())  # checks the id
        self._steps: list[Step] = []
        self._sources: list[str] = []
        self._decided: RoutedTool | None = None
        self._ended = False

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps so far."""
        return tuple(self._steps)

    @property
    def sources(self) -> tuple[str, ...]:
        """Who chose each: the predictor's name, ``"llm"`` or ``"caller"``."""
        return tuple(self._sources)

    def next(self) -> RoutedTool:
        """Say the next tool; see `NextToolRouter.predict_next`."""
        goal = Context(self._run.goal)
        self._decided = self._router.predict_next(self._steps, goal, sources=self._sources)
        return self._decided

    async def anext(self) -> RoutedTool:
        """Say the next tool; see `NextToolRouter.apredict_next`."""
        goal = Context(self._run.goal)
        self._decided = await self._router.apredict_next(self._steps, goal, sources=self._sources)
        return self._decided

    def hints(self, tool: str) -> tuple[Hint, ...]:
        """Return where the inputs of a tool may be filled from; see `ParameterHints.hints`."""
        return self._router.hints(tool, self._steps)

    def add(self, step: Step) -> None:
        """Add the step that was taken, be it the one that was said or another.

        Raises
        ------
        InputError
            If the run has ended.
        """
        self._check_open()
        said = self._decided
        taken = said is not None and said.tool == step.tool and said.source != "none"
        self._sources.append(said.source if taken and said else "caller")
        self._steps.append(step)
        self._decided = None

    def end(self, success: bool | None = None) -> Trajectory:
        """End the run, and learn from it.

        Parameters
        ----------
        success : bool or None, default=None
            Whether the goal was reached. The steps of a failed run are not reinforced.

        Returns
        -------
        Trajectory

        Raises
        ------
        InputError
            If the run has ended already.
        """
        self._check_open()
        self._ended = True
        trajectory = Trajectory(self._run.id, self._run.goal, self.steps, success)
        self._observe(trajectory)
        return trajectory

    def __repr__(self) -> str:
        return f"AgentRun({self._run.id!r}, {len(self._steps)} steps)"

    def _check_open(self) -> None:
        if self._ended:
            raise InputError(f"run {self._run.id!r} has ended (begin another one)")
