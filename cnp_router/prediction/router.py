"""`NextToolRouter`: acts on a prediction where it may, asks a model where not, and learns."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from cnp_router.agents import ask
from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.history import Mashup
from cnp_router.llm import ChatModel, run_sync
from cnp_router.prediction.base import (
    Candidate,
    Context,
    NextTool,
    NextToolPredictor,
    State,
    as_context,
    as_steps,
)
from cnp_router.prediction.choice import ChooseTool
from cnp_router.prediction.context import ContextPredictor
from cnp_router.prediction.decision import RoutedTool, RouterSettings, Unsure
from cnp_router.prediction.hints import Hint, ParameterHints
from cnp_router.prediction.schedule import Coverage
from cnp_router.prediction.tools import ToolList
from cnp_router.trajectories import Step, Trajectory

__all__ = ["NextToolRouter", "as_trajectory"]

# Coverage is measured at every so many steps: it takes a prediction each time.
_MEASURED = 4


class NextToolRouter:
    """Says the next tool of an agent without asking a model, as often as it may.

    Its methods may be called from several threads at once. No lock is held while the model
    answers.

    Parameters
    ----------
    predictor : NextToolPredictor, optional
        A new `ContextPredictor` if not given. It must not be used elsewhere at the same time.
    model : ChatModel, optional
        Asked where the prediction is not acted upon. Without one, the caller decides.
    tools : Catalog or other iterable of Api or str, default=()
        The only tools to be foretold and chosen from. Without any: all that have been observed.
        Those in ``settings.exclude`` are left out.
    catalog : Catalog or other iterable of Api, default=()
        Without `tools`: what may be chosen besides the tools that have been observed.
    settings : RouterSettings, default=RouterSettings()
    hints : ParameterHints, optional

    Attributes
    ----------
    kind : str
        ``"next-tool"``, the name of its state in an `OnlineStore`.

    Raises
    ------
    InputError
        If a tool is given twice, or all that are given are excluded.

    Examples
    --------
    >>> from cnp_router.testing import ScriptedChatModel
    >>> from cnp_router.prediction import RouterSettings, Schedule
    >>> steps = (Step("weather"), Step("sms"))
    >>> settings = RouterSettings(Schedule.fixed(0.6))
    >>> model = ScriptedChatModel([{"tool": "sms"}])
    >>> router = NextToolRouter(model=model, tools=["weather", "sms"], settings=settings)
    >>> asked = router.predict_next(["weather"], Context("Rain?"))
    >>> asked.tool, asked.source, asked.unsure
    ('sms', 'llm', 'unknown')
    >>> for n in range(20):
    ...     router.observe(Trajectory(f"t{n}", "Rain?", steps))
    >>> foretold = router.predict_next(["weather"], Context("Rain?"))
    >>> foretold.tool, foretold.source, len(model.calls)
    ('sms', 'context', 1)
    """

    kind = "next-tool"

    def __init__(
        self,
        predictor: NextToolPredictor | None = None,
        *,
        model: ChatModel | None = None,
        tools: Iterable[Api | str] = (),
        catalog: Iterable[Api] = (),
        settings: RouterSettings | None = None,
        hints: ParameterHints | None = None,
    ) -> None:
        self.model = model
        self.settings = settings or RouterSettings()
        self._given = _without(self.settings.exclude, ToolList(tools))
        self._catalog = tuple(api for api in catalog if api.id not in self.settings.exclude)
        self._predictor = predictor or ContextPredictor()
        self._hints = hints or ParameterHints()
        self._coverage = Coverage()
        self._observed: dict[str, None] = {}  # in order of first use
        self._n_steps = self._n_trajectories = 0
        self._lock = threading.Lock()

    @property
    def n_trajectories(self) -> int:
        """How many trajectories have been observed."""
        return self._n_trajectories

    @property
    def n_steps(self) -> int:
        """How many steps have been observed, failed ones too."""
        return self._n_steps

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that may be chosen: those given, or the catalog and all observed."""
        return tuple(tool.id for tool in self._choosable())

    @property
    def coverage(self) -> float:
        """`Coverage` of the recent steps, measured at every fourth of them."""
        return self._coverage.share

    @property
    def threshold(self) -> float:
        """θ at present."""
        return self.settings.schedule.threshold(self._coverage.share)

    def predict_next(
        self,
        prefix: Sequence[Step | str],
        context: Context | None = None,
        *,
        sources: Sequence[str] | None = None,
    ) -> RoutedTool:
        """Say the next tool, where there is no event loop; see `apredict_next`.

        Raises
        ------
        InputError
            As `apredict_next`; and, if the model has to be asked, where an event loop is running.
        """
        decided = self._foretold(prefix, context, sources)
        if decided.unsure is None or self.model is None:
            return decided
        return run_sync(
            partial(self._ask_and_close, self.model, decided, prefix, context),
            instead="await router.apredict_next(...)",
        )

    async def apredict_next(
        self,
        prefix: Sequence[Step | str],
        context: Context | None = None,
        *,
        sources: Sequence[str] | None = None,
    ) -> RoutedTool:
        """Say the next tool: as foretold where that may be acted upon, else as the model says.

        Nothing is learned from it; `observe` what came.

        Parameters
        ----------
        prefix : sequence of Step or str
            The steps so far.
        context : Context, optional
        sources : sequence of str, optional
            Who chose each of them (`NextTool.source`, or ``"caller"``); guards that count need it.

        Returns
        -------
        RoutedTool

        Raises
        ------
        InputError
            If the prefix is none, or a guard needs `sources`.
        LanguageModelError
            If the model was asked and there is no usable answer.
        """
        decided = self._foretold(prefix, context, sources)
        if decided.unsure is None or self.model is None:
            return decided
        return await self._asked(self.model, decided, prefix, context)

    def hints(
        self, tool: str, prefix: Sequence[Step | str], *, inputs: Sequence[str] | None = None
    ) -> tuple[Hint, ...]:
        """Return where the inputs of `tool` may be filled from; see `ParameterHints.hints`."""
        with self._lock:
            return self._hints.hints(tool, prefix, inputs=inputs)

    def observe_step(
        self,
        prefix: Sequence[Step | str],
        step: Step | str,
        context: Context | None = None,
        *,
        weight: float = 1.0,
    ) -> None:
        """Learn at once that `step` followed `prefix`; see `NextToolPredictor.observe_step`.

        Who learns step by step ends with `end_trajectory`, and does not `observe` the trajectory
        too: it would count twice.
        """
        steps, came = as_steps(prefix), as_steps([step])[0]
        with self._lock:
            if self._n_steps % _MEASURED == 0:
                possible = self._possible(self._predictor.predict_next(steps, context))
                self._coverage.add(_best(possible).probability >= self.settings.schedule.last)
            self._predictor.observe_step(steps, came, context, weight=weight)
            if weight > 0:
                self._hints.observe_step(steps, came)
                self._observed.setdefault(came.tool)
            self._n_steps += 1

    def end_trajectory(self) -> None:
        """Count one more trajectory."""
        with self._lock:
            self._predictor.end_trajectory()
            self._n_trajectories += 1

    def observe(self, record: Trajectory | Mashup) -> None:
        """Learn from a finished trajectory, or from the order of an ordered mashup.

        Failed steps, and all steps of a failed trajectory, are not reinforced. A mashup in no
        order says nothing about what comes next.
        """
        trajectory = as_trajectory(record)
        if trajectory is None:
            return
        context = Context(trajectory.goal)
        for place, step in enumerate(trajectory.steps):
            failed = trajectory.success is False or step.success is False
            prefix = trajectory.steps[:place]
            self.observe_step(prefix, step, context, weight=0.0 if failed else 1.0)
        self.end_trajectory()

    def check(self, record: Trajectory | Mashup) -> None:
        """Take every record; see `Observer`."""

    def apply(self, records: Sequence[Trajectory | Mashup]) -> None:
        """Learn from records; see `Observer`."""
        for record in records:
            self.observe(record)

    def state(self) -> State:
        """Return all it has learned: JSON values and arrays."""
        with self._lock:
            return {
                "predictor": self._predictor.state(),
                "hints": self._hints.state(),
                "coverage": self._coverage.state(),
                "observed": list(self._observed),
                "n_steps": self._n_steps,
                "n_trajectories": self._n_trajectories,
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`. The predictor and the hints that were given keep their parameters.

        Raises
        ------
        InputError
            If it is none, that of another kind of predictor, or one that the predictor's
            parameters do not go with. Nothing is changed then.
        """
        try:
            learned = state["predictor"]
            hints = ParameterHints(size=self._hints.size)
            hints.restore(state["hints"])
            coverage = Coverage.from_state(state["coverage"])
            observed = {str(tool): None for tool in state["observed"]}
            n_steps, n_trajectories = int(state["n_steps"]), int(state["n_trajectories"])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
            if isinstance(exc, InputError):
                raise
            raise InputError(f"the state is broken: {exc!r} (give what state() gave)") from exc
        with self._lock:
            self._predictor.restore(learned)  # may refuse: the others only after it
            self._hints, self._coverage = hints, coverage
            self._observed, self._n_steps = observed, n_steps
            self._n_trajectories = n_trajectories

    def _foretold(
        self,
        prefix: Sequence[Step | str],
        context: Context | None,
        sources: Sequence[str] | None,
    ) -> RoutedTool:
        steps = as_steps(prefix)
        guard = self.settings.guards.refusal(steps, sources)
        with self._lock:
            foretold = self._predictor.predict_next(steps, context)
            threshold = self.threshold
            cold = self.settings.schedule.is_cold(self._n_trajectories)
        known = self._possible(foretold)
        best = _best(known)
        unsure: Unsure | None = guard
        if not known:
            unsure = "unknown"
        elif cold:
            unsure = "cold-start"
        elif guard is None and best.probability < threshold:
            unsure = "threshold"
        return RoutedTool(
            tool=best.tool or None,
            confidence=best.probability,
            candidates=known,
            source=foretold.source if unsure is None else "none",
            unsure=unsure,
            threshold=threshold,
        )

    def _possible(self, foretold: NextTool) -> tuple[Candidate, ...]:
        """Return the candidates that may be called."""
        return tuple(
            candidate
            for candidate in foretold.candidates
            if candidate.tool not in self.settings.exclude
            and (not self._given or candidate.tool in self._given)
        )

    def _choosable(self) -> ToolList:
        if self._given:
            return self._given
        apart = {*self.settings.exclude, *(api.id for api in self._catalog)}
        with self._lock:
            return ToolList([*self._catalog, *(t for t in self._observed if t not in apart)])

    async def _ask_and_close(
        self,
        model: ChatModel,
        decided: RoutedTool,
        prefix: Sequence[Step | str],
        context: Context | None,
    ) -> RoutedTool:
        try:
            return await self._asked(model, decided, prefix, context)
        finally:
            await model.aclose()

    async def _asked(
        self,
        model: ChatModel,
        decided: RoutedTool,
        prefix: Sequence[Step | str],
        context: Context | None,
    ) -> RoutedTool:
        task = self._task(decided, prefix, as_context(context))
        if not task.allowed:  # no tool is known, so there is none to name
            return decided
        asked = await ask(model, task)
        tool, usage = asked.answer.tool, asked.response.usage
        probability = {c.tool: c.probability for c in decided.candidates}
        return RoutedTool(
            tool=decided.tool if tool is None else tool,
            confidence=decided.confidence if tool is None else probability.get(tool, 0.0),
            candidates=decided.candidates,
            source="none" if tool is None else "llm",
            unsure=decided.unsure,
            threshold=decided.threshold,
            invented=asked.answer.invented,
            usage=usage,
        )

    def _task(
        self, decided: RoutedTool, prefix: Sequence[Step | str], context: Context
    ) -> ChooseTool:
        tools = self._choosable()
        first = [candidate.tool for candidate in decided.candidates]
        return ChooseTool(
            goal=context.goal,
            prefix=tuple(as_steps(prefix)),
            candidates=decided.candidates[: self.settings.offered],
            tools=tools.shortlist(context.goal, first, self.settings.listed),
            allowed=tools.ids,
        )


def _best(candidates: Sequence[Candidate]) -> Candidate:
    return candidates[0] if candidates else Candidate("", 0.0)


def _without(exclude: Sequence[str], tools: ToolList) -> ToolList:
    kept = ToolList(tool for tool in tools if tool.id not in exclude)
    if tools and not kept:
        raise InputError(f"exclude leaves none of the tools that are given, got {exclude!r}")
    return kept


def as_trajectory(record: Trajectory | Mashup) -> Trajectory | None:
    """Return the trajectory a record tells of: None for a mashup whose APIs are in no order.

    Examples
    --------
    >>> as_trajectory(Mashup("m1", "Rain by text", ("weather", "sms"), ordered=True)).tools
    ('weather', 'sms')
    """
    if isinstance(record, Trajectory):
        return record
    if not isinstance(record, Mashup):
        raise InputError(f"a Trajectory or a Mashup was expected, got {record!r}")
    if not record.ordered:
        return None
    return Trajectory(record.id, record.description, tuple(Step(api) for api in record.apis))
