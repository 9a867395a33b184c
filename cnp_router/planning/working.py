"""`Working`: a run under way, in which agents choose calls in turns and the engine keeps rules."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from cnp_router.agents import NextAct, NextStep, ShownHistory, TriedCall, WantedCall
from cnp_router.catalog import Api
from cnp_router.closest import closest
from cnp_router.exceptions import ChatAnswerError, InputError, SourceError
from cnp_router.execution import (
    Act,
    Approval,
    Executor,
    Filler,
    Job,
    JobReport,
    Journal,
    Performed,
    Plan,
)
from cnp_router.execution.calling import Then, act_key
from cnp_router.execution.learning import succeeded
from cnp_router.execution.running import Running
from cnp_router.execution.sharing import HIDDEN  # an agent could carry it elsewhere
from cnp_router.llm import ChatModel, completed
from cnp_router.llm.redaction import without_secrets
from cnp_router.llm.tokens import estimate_tokens
from cnp_router.planning.booked import BookedModel
from cnp_router.planning.guard import Guard
from cnp_router.planning.run import AgentTurn, Run, TurnKind
from cnp_router.planning.workspace import Workspace
from cnp_router.printing import printable
from cnp_router.protocols.metered import Books
from cnp_router.records import check_json, string_tuple
from cnp_router.sources import CallResult
from cnp_router.sources.source import SEPARATOR

__all__ = ["Agent", "Situation", "Working"]

_MOST_SAID = 300  # characters of an error
_MOST_IN_VAIN = 3  # answers in a row that lead to nothing
_BYTES_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Situation:
    """What an agent is told before a turn."""

    state: Mapping[str, Any]
    unmet: tuple[str, ...]
    history: ShownHistory


@dataclass(frozen=True, slots=True)
class Agent:
    """Who chooses the calls of a job.

    `task` is what it is asked in a situation. `missing` says what is missing for its job to be
    done, given whether its calls have changed the state, and how many have succeeded; "": nothing.
    One that `may_answer` is also done where it says so before it has wanted any call.
    """

    model: ChatModel
    apis: tuple[Api, ...]
    task: Callable[[Situation], NextAct | NextStep]
    missing: Callable[[bool, int], str]
    max_turns: int
    history_tokens: int
    result_tokens: int
    may_answer: bool = False


@dataclass(slots=True)
class _Job:
    """A job that is worked on in turns."""

    job: Job
    agent: Agent
    report: JobReport
    history: list[TriedCall] = field(default_factory=list)
    success: Act | None = None
    n_called: int = 0
    has_changed: bool = False
    is_given_up: bool = False

    @property
    def missing(self) -> str:
        return self.agent.missing(self.has_changed, self.n_called)


class Working(Running):
    """A run under way: as an execution, with a workspace, and agents that work in turns."""

    def __init__(
        self,
        executor: Executor,
        apis: tuple[Api, ...],
        workspace: Workspace | None,
        user: str | None = None,
    ) -> None:
        self.books, means = Books(), executor.means(user=user)
        filler = means.filler
        if filler.model is not None:
            filler = Filler(BookedModel(filler.model, self.books), hints=filler.hints)
        self.guard = Guard(means.sources, workspace)
        guarded = replace(means, sources=self.guard, filler=filler)
        how = {"announcement": "routed", "among": [api.id for api in apis], "date": None}
        super().__init__(guarded, Journal(), how)
        self.apis = apis
        self.workspace = workspace
        self.turns: list[AgentTurn] = []
        self.plans: list[Plan] = []
        self._job_of: dict[str, str] = {}  # by the id of a call that an agent chose

    @property
    def state(self) -> dict[str, Any]:
        """How far the work is."""
        if self.workspace is None:
            return {}
        return dict(check_json("the state of the workspace", self.workspace.state()))

    @property
    def unmet(self) -> tuple[str, ...]:
        """Rules that are not met."""
        if self.workspace is None:
            return ()
        return string_tuple("what Workspace.unmet gives", self.workspace.unmet())

    @property
    def is_complete(self) -> bool:
        """Whether there are rules, and all are met."""
        return self.workspace is not None and not self.unmet

    def is_ruled_out(self, act: Act) -> bool:
        """Return whether a rule of the workspace, or the tool itself, refused a call."""
        failure = act.result.failure
        if failure is None or failure.kind != "declined" or not act.attempts:
            return False
        return failure.message != self.guard.stopped

    async def in_turns(self, job: Job, agent: Agent) -> bool:
        """Have a job done by calls that an agent chooses; rules decide when it is done."""
        work, turns = _Job(job, agent, self.reports[job.id]), list[AgentTurn]()
        work.report.is_in_turns = True
        self.reports.enter(work.report, "acting", None)
        for number in range(1, agent.max_turns + 1):
            if self.is_complete:
                return self._end(work)
            turn, says_done = await self._turn(work, number)
            turns.append(turn)
            self.turns.append(turn)
            work.history.append(_as_shown(turn, agent.result_tokens))
            if turn.kind == "finished" or (says_done and not work.missing):
                return self._end(work)
            if work.is_given_up:
                return False
            if problem := _stuck(turns):
                work.report.problem = problem
                return False
        # Without rules, only its word says that a job is done.
        if self.is_complete or (self.workspace is not None and not work.missing):
            return self._end(work)
        why = work.missing or "it was never said to be done"
        work.report.problem = f"not done after {agent.max_turns} turns: {why}"
        return False

    def _end(self, work: _Job) -> bool:
        """Keep the last call that succeeded as what the job gave."""
        report, success = work.report, work.success
        if success is not None:
            source = Api(success.api, success.api, effects="reads")  # of it, nothing is open
            self.journal.take(report.id, source, success.inputs, success.result)
            if not report.acts[-1].result.is_done:
                again = replace(success, by="earlier", attempts=0, seconds=0.0)
                self.reports.add(report.id, again, self.reports.now())
        return True

    def shown_results(self, job: Job, most: int) -> dict[str, Any]:
        """Return the results that a job waits for, as an agent is shown them."""
        shown: dict[str, Any] = {}
        open_to_all = self._open_to_all(job)
        for name in job.after:
            result = self.reports[name].result
            if result is not None:
                shown[name] = _cut(result, most) if name in open_to_all else HIDDEN
        return shown

    def _open_to_all(self, job: Job) -> tuple[str, ...]:
        """Return for which jobs that a job waits for all that its agent may call may have them."""
        may = self.doer.sharing.may_reach
        return tuple(n for n in job.after if all(may(n, api.id) for api in self.apis))

    def run(self, method: str, request: str | Plan) -> Run:
        """Return how far it came."""
        return Run(
            method,
            self.execution(request),
            tuple(self.turns),
            tuple(self.books.calls),
            self.state,
            tuple(self.plans),
        )

    async def _turn(self, work: _Job, number: int) -> tuple[AgentTurn, bool]:
        """Return what an agent wanted and what came of it, and whether it says that it is done."""
        agent = work.agent
        shown = ShownHistory.of(work.history, agent.history_tokens)
        task = agent.task(Situation(self.state, self.unmet, shown))

        def turn(kind: TurnKind, seen: Any, wanted: WantedCall | None = None) -> AgentTurn:
            said = wanted or WantedCall("", "", {}, False)
            return AgentTurn(work.job.id, number, kind, said.tool, said.inputs, seen, said.thought)

        try:
            response = await completed(agent.model, task.chat_request())
            wanted = task.read(response.data)
        except ChatAnswerError as exc:
            said = f"the answer could not be used: {printable(exc.problem, _MOST_SAID)}"
            return turn("unusable", {"refused": said}), False
        if wanted.tool:
            kind, seen = await self._call(work, wanted)
        elif not wanted.is_done:
            kind, seen = "unknown", {"refused": "name a tool, or say that it is done"}
        elif work.missing and not (agent.may_answer and _is_answer(work, wanted)):
            kind, seen = "early", {"refused": f"it is not done yet: {work.missing}"}
        else:
            kind, seen = "finished", "done"
        return turn(kind, seen, wanted), wanted.is_done

    async def _call(self, work: _Job, wanted: WantedCall) -> tuple[TurnKind, Any]:
        """Make a call that an agent wants, if it may be made."""
        known = {api.id: api for api in work.agent.apis}
        try:
            check_json("inputs", wanted.inputs)
        except InputError as exc:
            return "failed", {"failed": "inputs", "said": printable(str(exc), _MOST_SAID)}
        if wanted.tool not in known:
            return "unknown", {"refused": _no_tool(wanted.tool, known)}
        try:
            api = await self.by.sources.api(wanted.tool)
        except SourceError as exc:
            return "failed", {"failed": "unavailable", "said": printable(str(exc), _MOST_SAID)}
        is_new = self.journal.earlier(api, wanted.inputs) is None
        if self.workspace is not None and (is_new or self.by.settings.repeat_calls):
            reason = self.workspace.refusal(wanted.tool, wanted.inputs)
            if reason is not None:
                return "refused", {"refused": reason}
        name = f"{work.job.id}\ncall {len(self._job_of) + 1}"  # no id of a job has such a character
        self._job_of[name] = work.job.id
        self.reports.enter(work.report, "acting", wanted.tool)
        began = self.reports.now()
        try:
            with self._negotiated(work, api) as acted:
                act, then = await self._act(work, name, api, wanted.inputs, is_new=is_new)
                acted.append(act)
        except asyncio.CancelledError:  # it ran: what it did is not lost with it
            begun = self.doer.given_up(work.job, wanted.tool, "directed", name)
            if begun is not None:
                self.reports.add(work.job.id, begun, began)
            raise
        except SourceError as exc:
            return "failed", {"failed": "unavailable", "said": printable(str(exc), _MOST_SAID)}
        act = self.reports.add(work.job.id, act, began)
        if act.result.is_done:
            work.success, work.n_called = act, work.n_called + 1
            key = act_key(self.journal.execution, name, api, wanted.inputs)
            work.has_changed |= key in self.guard.changed and api.effects != "reads"
        # A rule of the workspace refuses a call that is made; a person, before it is made.
        elif then != "reaward" and not self.is_ruled_out(act):
            work.is_given_up = work.report.is_final = True
            work.report.problem = _given_up(api, act)
        return _seen(act, work.agent.result_tokens)

    async def _act(
        self, work: _Job, name: str, api: Api, inputs: Mapping[str, Any], *, is_new: bool
    ) -> tuple[Act, Then]:
        """Take a result from shared context, or call an API, and return what is to follow."""
        sharing, kept, used = self.doer.sharing, dict(inputs), self._open_to_all(work.job)
        known = await sharing.recall(api, inputs) if is_new else None
        if known is not None:
            entry, result = known.entry, known.result
            source = Api(entry.source, api.name, effects="reads")
            self.journal.take(name, source, inputs, result)
            is_secret = sharing.recalled(work.job.id, api.id, entry, used)
            act = Act(source.id, "context", kept, result, 0, 0.0, is_confidential=is_secret)
            return act, "done"
        began = await sharing.begins(api)
        performed = await self._performed(name, api, inputs)
        await sharing.ended(work.job, api, inputs, performed, used, "", began)
        act = Act(
            api.id,
            "earlier" if performed.is_earlier else "directed",
            kept,
            performed.result,
            performed.attempts,
            performed.seconds,
            is_confidential=sharing.is_confidential(api.id, used),
        )
        return act, performed.then

    @contextmanager
    def _negotiated(self, work: _Job, api: Api) -> Iterator[list[Act]]:
        """Let the negotiator see a call; the act that it came to is put into the list."""
        negotiator, acted = self.by.negotiator, list[Act]()
        if negotiator is None:
            yield acted
            return
        negotiator.begin(api.id)
        try:
            yield acted
        finally:
            negotiator.end(
                api.id,
                success=succeeded(acted[0]) if acted else None,
                seconds=acted[0].seconds if acted else 0.0,
                category=work.report.category,
                execution=self.journal.execution if self.by.is_taught else None,
            )

    async def _performed(self, name: str, api: Api, inputs: Mapping[str, Any]) -> Performed:
        """Call an API; where the right is missing, once more if the user says that it is given."""
        caller = self.doer.caller
        performed = await caller.perform(name, api, inputs)
        if performed.then == "escalate":
            question = Approval(name, api, copy.deepcopy(dict(inputs)), "permission")
            if await caller.ask(question):
                performed = await caller.perform(name, api, inputs)
        return performed

    async def _approve(self, approval: Approval) -> bool:
        job = self._job_of.get(approval.job, approval.job)
        return await super()._approve(replace(approval, job=job))


def _stuck(turns: Sequence[AgentTurn]) -> str:
    """Return why an agent goes no further: its last answers led to nothing, all the same way."""
    last = turns[-_MOST_IN_VAIN:]
    if len(last) < _MOST_IN_VAIN:
        return ""
    if all(turn.kind == "unusable" for turn in last):
        return f"{_MOST_IN_VAIN} answers in a row could not be used"
    first, *others = last
    if first.kind in ("called", "failed", "finished"):
        return ""
    same = (first.kind, first.tool, first.inputs)
    if any((turn.kind, turn.tool, turn.inputs) != same for turn in others):
        return ""
    cure = ""
    if first.kind == "early":
        why = printable(first.thought, _MOST_SAID)
        cure = f": {why or 'nothing was found to call (is there a tool, and are its inputs said?)'}"
    return f"the same answer {_MOST_IN_VAIN} times in a row, in vain ({first.kind}){cure}"


def _is_answer(work: _Job, wanted: WantedCall) -> bool:
    """Return whether an agent answers by itself, and no call that it wanted came to nothing."""
    return bool(wanted.thought.strip()) and not any(turn.tool for turn in work.history)


def _no_tool(name: str, known: Iterable[str]) -> str:
    """Return that there is no such tool, and which one may be meant."""
    by_tool = {each.partition(SEPARATOR)[2]: each for each in known}
    close = closest(name, [*known, *by_tool])
    cure = f" (did you mean {by_tool.get(close[0], close[0])!r}?)" if close else ""
    return f"there is no tool {printable(name, _MOST_SAID)!r}{cure}"


def _as_shown(turn: AgentTurn, most: int) -> TriedCall:
    """Return a turn as its agent is shown it afterwards: long inputs and thoughts are cut."""
    text = json.dumps(dict(turn.inputs), ensure_ascii=False)
    inputs = turn.inputs if estimate_tokens(text) <= most else {"cut": _beginning(text, most)}
    thought = printable(turn.thought, _MOST_SAID)
    return TriedCall(turn.tool, inputs, turn.seen, thought, turn.kind)


def _seen(act: Act, most: int) -> tuple[TurnKind, Any]:
    """Return what an agent is told of a call."""
    failure = act.result.failure
    if failure is None:
        seen = {"result": HIDDEN if act.is_confidential else _cut(act.result, most)}
        if act.by in ("earlier", "context"):
            return "repeated", {**seen, "note": "it was known, and the call was not made again"}
        return "called", seen
    said = without_secrets(failure.message)
    said = HIDDEN if act.is_confidential else printable(said, _MOST_SAID)
    if failure.kind == "declined":
        return "refused", {"refused": said}
    return "failed", {"failed": failure.kind, "said": said}


def _given_up(api: Api, act: Act) -> str:
    """Return why nobody goes on with a job, in words of the engine."""
    failure = act.result.failure
    assert failure is not None
    if failure.kind == "declined":
        return f"{api.id}: {failure.message}"
    unknown = failure.was_done == "unknown" and api.effects != "reads"
    asked = "; nobody knows whether it was done" if unknown else ""
    return f"{api.id}: it failed: {failure.kind}{asked}"


def _cut(result: CallResult, most: int) -> Any:
    """Return what an agent is shown of a result: its data without secrets, or the beginning."""
    data = without_secrets(result.data)
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return data if estimate_tokens(text) <= most else _beginning(text, most)


def _beginning(text: str, most: int) -> str:
    """Return the beginning of a text, in about so many tokens, and how long all of it is."""
    kept = text.encode("utf-8", "replace")[: most * _BYTES_A_TOKEN].decode("utf-8", "ignore")
    return f"{kept}... (cut; {len(text):,} characters)"
