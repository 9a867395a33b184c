"""`NextToolRouter`: acts on a prediction where it may, asks a model where not, and learns."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from cnp_router import telemetry
from cnp_router.agents import ask
from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.history import Mashup
from cnp_router.llm import ChatModel, run_sync
from cnp_router.prediction.choose_tool import ChooseTool, ToolList
from cnp_router.prediction.context import ContextPredictor
from cnp_router.prediction.hints import Hint, ParameterHints
from cnp_router.prediction.policy import NextToolPolicy, RoutedTool
from cnp_router.prediction.predictor import (
    Candidate,
    Context,
    NextTool,
    NextToolPredictor,
    State,
    as_context,
    as_steps,
    lessons,
    readable_state,
)
from cnp_router.records import RESERVED_IDS
from cnp_router.trajectories import Step, Trajectory

__all__ = ["NextToolRouter"]

# Coverage is measured at every so many steps, as it takes a prediction each time, over so many.
_MEASURED = 4
_WINDOW = 500


class NextToolRouter:
    """Says the next tool of an agent without asking a model, as often as it may.

    Its methods may be called from several threads at once. No lock is held while the model
    answers. It is an `Observer`: an `OnlineStore` can keep what it learns.

    Parameters
    ----------
    predictor : NextToolPredictor, optional
        A new `ContextPredictor` if not given. It must not be used elsewhere at the same time.
    model : ChatModel, optional
        Asked where the prediction is not acted upon. Without one, the caller decides.
    tools : Catalog or other iterable of Api or str, default=()
        The only tools to be predicted and chosen from. Without any: all that have been observed.
        Those in ``policy.exclude`` are left out.
    catalog : Catalog or other iterable of Api, default=()
        Without `tools`: what may be chosen besides the tools that have been observed.
    policy : NextToolPolicy, default=NextToolPolicy()
    hints : ParameterHints, optional

    Attributes
    ----------
    kind : str
        ``"next-tool"``, the name of its state in an `OnlineStore`.
    n_trajectories, n_steps : int
        How many have been observed, failed ones too.

    Raises
    ------
    InputError
        If a tool is given twice, or all that are given are excluded.

    Examples
    --------
    >>> from cnp_router.testing import ScriptedChatModel
    >>> from cnp_router.prediction import NextToolPolicy
    >>> steps = (Step("weather"), Step("sms"))
    >>> model, policy = ScriptedChatModel([{"tool": "sms"}]), NextToolPolicy.fixed(0.6)
    >>> router = NextToolRouter(model=model, tools=["weather", "sms"], policy=policy)
    >>> router.predict_next(["weather"], Context("Rain?"))
    RoutedTool('sms', confidence=0.00, source='llm', unsure='unknown', threshold=0.60)
    >>> for n in range(20):
    ...     router.observe(Trajectory(f"t{n}", "Rain?", steps))
    >>> predicted = router.predict_next(["weather"], Context("Rain?"))
    >>> predicted.tool, predicted.source, len(model.calls)
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
        policy: NextToolPolicy | None = None,
        hints: ParameterHints | None = None,
    ) -> None:
        self.model = model
        self.policy = policy or NextToolPolicy()
        exclude = self.policy.exclude
        given = ToolList(tools)
        self._given = ToolList(api for api in given.apis.values() if api.id not in exclude)
        if given.apis and not self._given.apis:
            raise InputError(f"exclude leaves none of the tools that are given, got {exclude!r}")
        self._catalog = tuple(api for api in catalog if api.id not in exclude)
        self._predictor = predictor or ContextPredictor()
        self._hints = hints or ParameterHints()
        self._predictable: deque[bool] = deque(maxlen=_WINDOW)
        self._observed: dict[str, None] = {}  # in order of first use
        # What may be chosen, whose index takes long to make, and the observed it was made of.
        self._chosen_from: tuple[dict[str, None], int, ToolList] | None = None
        self.n_steps = self.n_trajectories = 0
        self._lock = threading.Lock()

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that may be chosen: those given, or the catalog and all observed."""
        with self._lock:
            return tuple(self._choice().apis)

    @property
    def observed(self) -> tuple[str, ...]:
        """The tools that have been observed, but for steps that failed, in order of first use."""
        with self._lock:
            return tuple(self._observed)

    @property
    def coverage(self) -> float:
        """The share of the last 500 steps measured that could have been predicted.

        Every fourth step is measured: it counts if its prediction, made before it was learned,
        had a confidence of the policy's lowest threshold.
        """
        recent = tuple(self._predictable)
        return sum(recent) / len(recent) if recent else 0.0

    @property
    def threshold(self) -> float:
        """θ at present."""
        return self.policy.threshold(self.coverage)

    def predict_next(
        self,
        prefix: Sequence[Step | str],
        context: Context | None = None,
        *,
        sources: Sequence[str] | None = None,
        may_ask: bool = True,
    ) -> RoutedTool:
        """Say the next tool; see `apredict_next`, which has to be used where a loop is running.

        Without `may_ask`, no model is asked.
        """
        with telemetry.span("next_tool") as span:
            decided = self._decide(prefix, context, sources)
            model = self.model if may_ask else None
            if decided.unsure is None or model is None:
                return _counted(decided, span)

            async def asked() -> RoutedTool:
                async with aclosing(model):
                    return await self._ask(model, decided, prefix, context)

            said = run_sync(asked, instead="await router.apredict_next(...)")
            return _counted(said, span)

    async def apredict_next(
        self,
        prefix: Sequence[Step | str],
        context: Context | None = None,
        *,
        sources: Sequence[str] | None = None,
    ) -> RoutedTool:
        """Say the next tool: as predicted where that may be acted upon, else as the model says.

        Nothing is learned from it; `observe` what came.

        Parameters
        ----------
        prefix : sequence of Step or str
            The steps so far.
        context : Context, optional
        sources : sequence of str, optional
            Who chose each of them (`RoutedTool.source`, or ``"caller"``); guards that count need
            it.

        Returns
        -------
        RoutedTool

        Raises
        ------
        InputError
            If the prefix is not one, or a guard needs `sources`.
        LanguageModelError
            If the model was asked and there is no usable answer.
        """
        with telemetry.span("next_tool") as span:
            decided = self._decide(prefix, context, sources)
            if decided.unsure is not None and self.model is not None:
                decided = await self._ask(self.model, decided, prefix, context)
            return _counted(decided, span)

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

        After the last step comes `end_trajectory`, not `observe`: that would count all steps twice.
        """
        steps, came = as_steps(prefix), as_steps([step])[0]
        with self._lock:
            if self.n_steps % _MEASURED == 0:
                possible = self._possible(self._predictor.predict_next(steps, context))
                confidence = possible[0].probability if possible else 0.0
                self._predictable.append(confidence >= self.policy.last_threshold)
                if telemetry.is_on():
                    telemetry.gauge("cnp_router.routing.coverage", self.coverage)
            self._predictor.observe_step(steps, came, context, weight=weight)
            if weight > 0:
                self._hints.observe_step(steps, came)
                self._observed.setdefault(came.tool)
            self.n_steps += 1

    def end_trajectory(self) -> None:
        """Count one more trajectory."""
        with self._lock:
            self._predictor.end_trajectory()
            self.n_trajectories += 1

    def observe(self, record: Trajectory | Mashup) -> None:
        """Learn from a finished trajectory, or from the order of an ordered mashup.

        Failed steps, and all steps of a failed trajectory, are not reinforced. A mashup in no
        order says nothing about what comes next.
        """
        if isinstance(record, Mashup):
            if not record.ordered:
                return
            steps = tuple(Step(api) for api in record.apis)
            record = Trajectory(record.id, record.description, steps)
        if not isinstance(record, Trajectory):
            raise InputError(f"a Trajectory or a Mashup was expected, got {record!r}")
        for prefix, step, context, weight in lessons(record):
            self.observe_step(prefix, step, context, weight=weight)
        self.end_trajectory()

    def check(self, records: Sequence[Trajectory | Mashup]) -> None:
        """Take every record; see `Observer`."""

    def apply(self, records: Sequence[Trajectory | Mashup]) -> None:
        """Learn from records; see `Observer`."""
        for record in records:
            self.observe(record)

    def state(self) -> State:
        """Return all it has learned: JSON values and arrays."""
        with self._lock:
            return {
                "kind": self.kind,
                "predictor": self._predictor.state(),
                "hints": self._hints.state(),
                "predictable": [int(could) for could in self._predictable],
                "observed": list(self._observed),
                "n_steps": self.n_steps,
                "n_trajectories": self.n_trajectories,
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`. The predictor and the hints that were given keep their parameters.

        InputError if it is none, that of another kind of predictor, or one that the predictor's
        parameters do not go with. Nothing is changed then.
        """
        with readable_state(self.kind, state), self._lock:
            hints = ParameterHints(size=self._hints.size)
            hints.restore(state["hints"])
            recent = state["predictable"]
            if len(recent) > _WINDOW or not {0, 1}.issuperset(recent):
                raise ValueError(f"the recent steps are at most {_WINDOW} of 0 and 1")
            observed = {str(tool): None for tool in state["observed"]}
            n_steps, n_trajectories = int(state["n_steps"]), int(state["n_trajectories"])
            self._predictor.restore(state["predictor"])  # may refuse: the others only after it
            self._hints, self._observed = hints, observed
            self._predictable = deque(map(bool, recent), maxlen=_WINDOW)
            self.n_steps, self.n_trajectories = n_steps, n_trajectories

    def __repr__(self) -> str:
        learned = f"{self.n_trajectories:,} trajectories, threshold {self.threshold:.2f}"
        return f"NextToolRouter({self._predictor.name!r}, {learned})"

    def _decide(
        self,
        prefix: Sequence[Step | str],
        context: Context | None,
        sources: Sequence[str] | None,
    ) -> RoutedTool:
        steps = as_steps(prefix)
        guard = self.policy.guard(steps, sources)
        with self._lock:
            predicted = self._predictor.predict_next(steps, context)
            threshold, n_trajectories = self.threshold, self.n_trajectories
        known = self._possible(predicted)
        unsure = self.policy.refusal(known, threshold, n_trajectories, guard)
        return RoutedTool(
            tool=known[0].tool if known else None,
            confidence=known[0].probability if known else 0.0,
            candidates=known,
            source=predicted.source if unsure is None else "none",
            unsure=unsure,
            threshold=threshold,
        )

    def _possible(self, predicted: NextTool) -> tuple[Candidate, ...]:
        """Return the candidates that may be called."""
        return tuple(
            candidate
            for candidate in predicted.candidates
            if candidate.tool not in self.policy.exclude
            and (not self._given.apis or candidate.tool in self._given.apis)
        )

    def _choice(self) -> ToolList:
        """Return the tools that may be chosen; under the lock."""
        if self._given.apis:
            return self._given
        observed, made = self._observed, self._chosen_from
        if made is None or made[0] is not observed or made[1] != len(observed):
            # Nobody can call a role, though logs have steps of that name.
            apart = {*RESERVED_IDS, *self.policy.exclude, *(api.id for api in self._catalog)}
            tools = ToolList([*self._catalog, *(t for t in observed if t not in apart)])
            made = self._chosen_from = (observed, len(observed), tools)
        return made[2]

    async def _ask(
        self,
        model: ChatModel,
        decided: RoutedTool,
        prefix: Sequence[Step | str],
        context: Context | None,
    ) -> RoutedTool:
        with self._lock:
            tools = self._choice()
        if not tools.apis:  # no tool is known, so there is none to name
            return decided
        goal = as_context(context).goal
        first = [candidate.tool for candidate in decided.candidates]
        task = ChooseTool(
            goal=goal,
            prefix=tuple(as_steps(prefix)),
            candidates=decided.candidates[: self.policy.candidates_shown],
            tools=tools.shortlist(goal, first, self.policy.tools_shown),
            allowed=frozenset(tools.apis),
        )
        asked = await ask(model, task)
        tool, usage = asked.answer.tool, asked.response.usage
        if tool is None:
            return replace(decided, hallucinated=asked.answer.hallucinated, usage=usage)
        confidence = next((c.probability for c in decided.candidates if c.tool == tool), 0.0)
        return replace(decided, tool=tool, confidence=confidence, source="llm", usage=usage)


def _counted(said: RoutedTool, span: telemetry.Span) -> RoutedTool:
    """Return who was said to be next, counted by who decided."""
    decided = {"source": said.source, "unsure": said.unsure or "no"}
    telemetry.add("cnp_router.next_tool.decisions", 1, decided)
    span.set(
        gen_ai__tool__name=said.tool,
        cnp_router__source=said.source,
        cnp_router__unsure=said.unsure,
        cnp_router__confidence=said.confidence,
    )
    return said
