"""Confidential data never reaches another contractor: each way is tried.

What ``hr__pay`` gives is confidential. `CANARY` are its parts; after each way was tried, they are
looked for in all that reaches anybody but ``hr`` and the user.
"""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from cnp_router import Filler, OnlineStore
from cnp_router.agents import FillInputs, PlanJobs
from cnp_router.context import RedisContextStore, SharedContext, SqliteContextStore
from cnp_router.coordination import Negotiator
from cnp_router.coordination.rpc import PROPAGATE
from cnp_router.execution import ExecutionSettings, Job, allow_writes
from cnp_router.execution.learning import trajectory_of
from cnp_router.planning import PlanAndExecute, Planner, ReAct
from cnp_router.prediction import ParameterHints
from cnp_router.sources import CallFailure, CallProgress, CallResult
from tests.execution.contextual import APIS, CANARY, PAID, QUICK, SECRET, World, outlines
from tests.redis_server import redis_server

ALL = {"$from": "pay", "path": ""}
SAID = {"$from": "pay", "path": "/said"}
TOLD_ALL = "".join(CANARY)


def tell(inputs, after=("pay",), api="mail__tell", task=""):
    return Job("tell", task, api, inputs, after)


def words(inputs=None, task=""):
    return Job("words", task, "hr__words", inputs, ("pay",))


def _is_own(task):
    """Whether a model fills inputs for the contractor that may have it."""
    return task.api.id.startswith("hr__")


class Watched(World):
    """A world in which it is known what reached whom."""

    def __init__(self, tmp_path, caplog, *, classes=None, **how):
        self.tmp_path, self.caplog = tmp_path, caplog
        caplog.set_level(logging.DEBUG)
        self.encoded, self.others = [], []
        self.file = tmp_path / "context.db"
        self.online = OnlineStore(tmp_path / "online.db", [])
        context = SharedContext(
            SqliteContextStore(self.file),
            vectors=self.encoder,
            threshold=0,
            classes={"hr__*": "public", "hr__pay": "confidential"} if classes is None else classes,
        )
        how = {"hr_pay": SECRET, "store": self.online, "context": context, **how}
        super().__init__(**how)

    def encoder(self, texts):
        self.encoded.extend(texts)
        return [[1.0] for _ in texts]

    def reached(self):
        """Return all that reached anybody but hr and the user, by the way it went."""
        others = [call for call in self.calls() if not call.api.startswith("hr__")]
        found = {
            "servers": self.others,
            "calls": [f"{call.api} {call.inputs}" for call in others],
            "progress": [event.text for event in self.events],
            "encoder": self.encoded,
            "log": [record.getMessage() for record in self.caplog.records],
            "log with causes": [self.caplog.text],
        }
        for number, execution in enumerate(self.executions):
            found |= {
                f"transcripts {number}": [
                    json.dumps(list(each.records())) for each in execution.transcripts
                ],
                f"problems {number}": [job.problem for job in execution.jobs],
                f"learned {number}": [json.dumps(trajectory_of(execution).to_dict())],
            }
        if self.model is not None:
            asked = self.model.calls
            others = [c for c in asked if not isinstance(c.task, FillInputs) or not _is_own(c.task)]
            found["models"] = [each.content for call in others for each in call.messages]
        self.online.close()
        for path in sorted(self.tmp_path.iterdir()):
            if not path.name.startswith("state"):  # the journal is the user's own
                found[path.name] = [path.read_bytes().decode("utf-8", "replace")]
        return found

    def leaks(self, but=()):
        """Return where a part of the secret was found."""
        found = self.reached()
        return sorted(
            where
            for where, texts in found.items()
            if where not in but and any(part in text for text in texts for part in CANARY)
        )


@pytest.fixture
def make(tmp_path, caplog):
    made = []

    def make(**how):
        made.append(Watched(tmp_path, caplog, **how))
        return made[-1]

    yield make
    for world in made:
        world.online.close()
        asyncio.run(world.context.aclose())


def echoes(call):
    """A helper that says what it was given."""
    return CallResult(f"in words: {json.dumps(call.inputs)}")


def answers(inputs):
    """A model that fills inputs with whatever it was told to."""
    return lambda request: {"inputs": inputs, "missing": []}


def copies_what_it_sees(request):
    """A model that writes whatever an outline shows into the one parameter there is."""
    seen = " ".join(
        str(entry.get("value", "")) + entry["path"]
        for each in outlines(request).values()
        for entry in each
    )
    return {"inputs": {"text": f"seen: {seen}", "value": f"seen: {seen}"}, "missing": []}


def by_reference(make):
    world = make()
    world.run(PAID, tell({"value": ALL}, api="chat__tell"))
    return world


def by_a_part(make):
    world = make()
    world.run(PAID, tell({"text": SAID}))
    return world


def by_a_text(make):
    world = make()
    world.run(PAID, tell({"text": {"$text": "It is {pay#/sum}, {pay#/said}."}}))
    return world


def by_an_inner_reference(make):
    world = make()
    world.run(PAID, tell({"text": "x", "more": [{"deep": [SAID]}]}))
    return world


def by_a_write(make):
    world = make()
    world.run(PAID, tell({"text": SAID}, api="mail__send"))
    return world


def by_an_outline(make):
    world = make(model=copies_what_it_sees)
    world.run(PAID, tell(None, task="Tell it."))
    return world


def by_a_reference_that_a_model_writes(make):
    world = make(model=answers({"text": SAID}))
    world.run(PAID, tell(None, task="Tell it."))
    return world


def by_a_part_of_the_inputs_that_a_model_writes(make):
    world = make(model=answers({"text": {"$text": "{pay#/said}"}}))
    world.run(PAID, tell({}, task="Tell it."))
    return world


def by_the_stand_in(make):
    world = make()
    world.run(PAID, tell(None, task="Tell it."))
    return world


def by_a_helper_of_its_own(make):
    world = make(hr_words=echoes)
    world.run(
        PAID, words({"value": ALL}), tell({"text": {"$from": "words", "path": ""}}, ("words",))
    )
    assert len(world.calls("hr")) == 2
    return world


def by_two_helpers_of_its_own(make):
    world = make(hr_words=echoes)
    again = Job("again", "", "hr__words", {"value": {"$from": "words", "path": ""}}, ("words",))
    last = tell({"text": {"$from": "again", "path": ""}}, ("again",))
    world.run(PAID, words({"value": ALL}), again, last)
    assert len(world.calls("hr")) == 3
    return world


def by_a_helper_that_a_model_fills(make):
    def model(request):
        return copies_what_it_sees(request)

    world = make(model=model, hr_words=echoes)
    said = tell({"text": {"$from": "words", "path": ""}}, ("words",))
    world.run(PAID, words(task="In words."), said)
    assert len(world.calls("hr")) == 2
    return world


def by_a_helper_in_the_next_execution(make):
    world = make(hr_words=echoes)
    world.run(PAID, words({"value": ALL}))
    said = tell({"text": {"$from": "words", "path": ""}}, ("words",))
    execution = world.run(PAID, words({"value": ALL}), said)
    assert execution.n_recalled == 2
    return world


def by_what_was_recalled(make):
    world = make()
    world.run(PAID)
    assert world.run(PAID, tell({"text": SAID})).n_recalled == 1
    return world


def by_an_equivalent_of_another_contractor(make):
    world = make(classes={"hr__pay": "confidential", "union__pay": "public"})
    world.run(PAID)
    wage = Job("wage", "", "union__pay", {"who": "Aiko"})
    said = tell({"text": {"$from": "wage", "path": ""}}, ("wage",))
    execution = world.run(wage, said)
    assert execution.n_recalled == 0
    return world


def by_similarity(make):
    world = make(model=copies_what_it_sees)
    world.run(PAID, words({"value": ALL}))
    world.run(Job("tell", "What somebody earns in a year.", "mail__tell"))
    return world


def by_similarity_to_a_write(make):
    world = make(model=copies_what_it_sees, classes={"hr__*": "confidential"})
    world.run(PAID, words({"value": ALL}))
    world.run(Job("send", "What somebody earns in a year.", "mail__send"))
    return world


def by_a_second_contractor(make):
    """The first one fails, and the job is awarded to who comes next."""
    world = make(
        hr_words=CallResult.failed("tool", f"cannot say {TOLD_ALL}"), model=copies_what_it_sees
    )
    world.run(PAID, words({"value": ALL}, task="Puts a text into a letter."))
    return world


def by_the_fallback(make):
    settings = ExecutionSettings(**{**_settings(), "fallback": "mail__tell"})
    world = make(
        hr_words=CallResult.failed("tool", f"cannot say {TOLD_ALL}"),
        settings=settings,
        model=copies_what_it_sees,
    )
    world.run(PAID, words({"value": ALL}, task="Puts a text into a letter."))
    return world


def by_the_reason_of_a_failure(make):
    world = make(hr_pay=CallResult.failed("tool", f"no {TOLD_ALL}"))
    world.run(PAID, tell({"text": "x"}, task="Tell it."))
    return world


def by_the_reason_of_a_failure_of_a_helper(make):
    world = make(hr_words=CallResult.failed("tool", f"no {TOLD_ALL}"))
    world.run(PAID, words({"value": ALL}))
    return world


def by_an_unusable_answer(make):
    def raises(call):
        raise ValueError(f"no {TOLD_ALL}")

    world = make(hr_words=raises)
    world.run(PAID, words({"value": ALL}))
    return world


def by_inputs_that_do_not_fit(make):
    world = make()
    world.run(PAID, Job("tax", "", "hr__tax", {"sum": SAID}, ("pay",)))
    return world


def by_inputs_that_the_source_refuses(make):
    world = make(
        hr_tax=lambda call: CallResult(failure=CallFailure("inputs", f"{call.inputs} {TOLD_ALL}"))
    )
    world.run(PAID, Job("tax", "", "hr__tax", {"sum": {"$from": "pay", "path": "/sum"}}, ("pay",)))
    return world


def by_progress(make):
    def tells(call):
        call.on_progress(CallProgress(1, 2, TOLD_ALL))
        return CallResult(json.dumps(SECRET))

    world = make(hr_pay=tells)
    world.run(PAID)
    assert any("1 of 2" in event.text for event in world.events)
    return world


def by_the_journal(make):
    """The first execution was broken off; nobody knows any more what the helper was given."""
    world = make(hr_words=echoes, mail_tell="fine")
    said = tell({"text": {"$from": "words", "path": ""}}, ("words",))
    jobs = PAID, words({"value": ALL}), said
    state = world.tmp_path / "state.jsonl"
    world.run(*jobs, journal=state)
    execution = world.run(*jobs, journal=state)
    assert [job.is_resumed for job in execution.jobs] == [True, True, False]
    return world


def by_the_journal_itself(make):
    world = make()
    state = world.tmp_path / "state.jsonl"
    for _ in range(2):
        world.run(PAID, tell({"text": SAID}), journal=state)
    return world


def by_a_call_that_was_made_before(make):
    world = make()
    again = Job("again", "", "hr__pay", {"who": "Aiko"}, ("pay",))
    world.run(PAID, again, tell({"text": {"$from": "again", "path": ""}}, ("again",)))
    return world


def by_what_is_fetched_again(make):
    class Clock:
        now = 1_000.0

        def __call__(self):
            return self.now

    world = make(model=copies_what_it_sees)
    clock = world.context._clock = world.context._own._clock = Clock()
    world.context.store._clock = clock
    world.run(PAID)
    clock.now += 200
    world.run(PAID, words({"value": ALL}))
    clock.now += 150
    world.run(words_alone())
    world.run(Job("tell", "What somebody earns in a year.", "mail__tell"))
    return world


def words_alone():
    return Job("words", "", "hr__words", {"value": SECRET})


def by_a_job_that_is_skipped(make):
    world = make(hr_pay=CallResult.failed("busy", TOLD_ALL))
    world.run(PAID, tell({"text": SAID}))
    return world


def by_hints(make):
    world = make(hr_words=echoes)
    world.run(PAID, words({"value": SAID}))
    hints = ParameterHints()
    steps = trajectory_of(world.executions[0]).steps
    for place, step in enumerate(steps):
        hints.observe_step(steps[:place], step)
    assert not any(part in json.dumps(hints.state()) for part in CANARY)
    world.executor.filler = Filler(world.model, hints=hints)
    world.run(PAID, tell(None, task="Tell it."))
    return world


def by_a_callable_that_says_so(make):
    world = make(classes=lambda api: "confidential" if api == "hr__pay" else None)
    world.run(PAID, tell({"text": SAID}))
    return world


def by_all_of_a_source(make):
    world = make(classes={"hr__*": "confidential"})
    world.run(PAID, tell({"text": SAID}))
    return world


class Server:
    """Whoever declares that it keeps context, and keeps what it is sent."""

    def __init__(self):
        self.sent = []

    def is_declared(self, api, method):
        return method == PROPAGATE and not api.startswith("hr__")

    async def ask(self, api, method, message, kind):
        self.sent.append(message.model_dump_json())


def by_propagation(make):
    """Servers of other contractors declare that they keep context."""
    world = make(hr_words=echoes, mail_tell="fine", chat_tell="fine")
    world.executor.negotiator = Negotiator()
    server = world.executor.negotiator._propagation._asking = Server()
    done = tell({"text": "Done."}, ("pay", "words"), task="What somebody earns in a year.")
    note = Job("note", "", "mail__send", {"text": {"$from": "tell", "path": ""}}, ("tell",))
    world.run(PAID, words({"value": ALL}), done, note)
    world.run(PAID, words({"value": ALL}), done, note)
    assert any("fine" in message for message in server.sent)
    world.others = server.sent
    return world


def _copies_into_a_letter(request):
    """An agent that asks what somebody earns, and then writes all that it sees into a letter."""
    task = request.task
    if isinstance(task, PlanJobs):
        seen = " ".join(message.content for message in request.messages)
        api, inputs = ("hr__pay", {"who": "Aiko"}) if not task.failed else ("mail__tell", None)
        if task.failed:
            inputs = {"text": seen}
        jobs = [
            {"id": f"first{len(task.failed)}", "task": "a", "api": api, "inputs": inputs},
            {"id": f"then{len(task.failed)}", "task": "b", "api": None, "inputs": None},
        ]
        jobs[1]["after"] = [jobs[0]["id"]]
        return {"guideline": "", "jobs": [{"after": [], **job} for job in jobs]}
    turns = [*task.history.before, *task.history.last]
    tried = [act.tool for act in turns]
    seen = (
        request.messages[1].content.partition('"state"')[2]
        + str([act.seen for act in turns])
        + str(getattr(task, "results", ""))
    )
    for tool, inputs in (("hr__pay", {"who": "Aiko"}), ("mail__tell", {"text": seen})):
        if tool not in tried:
            return {"thought": "", "tool": tool, "inputs": inputs, "done": False}
    return {"thought": "", "tool": "", "inputs": {}, "done": True}


def _in_turns(world, run):
    world.executor.approve = allow_writes
    world.executions = [asyncio.run(run).execution]
    assert world.calls("mail")
    return world


def by_an_agent_without_a_plan(make):
    world = make(model=_copies_into_a_letter)
    agent = ReAct(world.executor, model=world.model, max_turns=5)
    return _in_turns(world, agent.run("Tell Ben what Aiko earns.", apis=APIS))


def by_an_executor_in_turns(make):
    world = make(model=_copies_into_a_letter)
    method = PlanAndExecute(Planner(world.model), world.executor, model=world.model, max_turns=5)
    return _in_turns(world, method.run("Tell Ben what Aiko earns.", apis=APIS))


def by_a_plan_that_is_revised(make):
    world = make(model=_copies_into_a_letter, hr_pay=CallResult.failed("tool", f"no {TOLD_ALL}"))
    method = PlanAndExecute(Planner(world.model), world.executor, model=world.model, max_turns=5)
    return _in_turns(world, method.run("Tell Ben what Aiko earns.", apis=APIS))


WAYS = [each for name, each in sorted(globals().items()) if name.startswith("by_")]


def _settings():
    names = ExecutionSettings.__dataclass_fields__
    return {name: getattr(QUICK, name) for name in names}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_nothing_confidential_reaches_another_contractor(way, make):
    # `words_alone` gives the secret as the user's own words: that call is the user's.
    assert way(make).leaks() == []


def test_the_same_ways_are_open_to_what_is_private(make):
    """What the tests above look at does hold what goes through it."""
    world = make(classes={}, hr_words=echoes)
    world.run(PAID, words({"value": ALL}), tell({"text": SAID}, task="Tell it."))
    world.run(PAID)
    assert set(world.leaks()) == {
        "calls",
        "context.db-wal",
        "encoder",
        "learned 0",
        "online.db",
        "transcripts 0",
        "transcripts 1",
    }


def test_what_is_refused_names_both(make):
    execution = by_a_part(make).executions[0]
    assert execution.jobs[1].problem == (
        "job 'tell', 'mail__tell': its inputs refer to the result of job 'pay', and what 'hr__pay' "
        "gives is confidential and never leaves 'hr': 'mail__tell' may not have it (leave it out, "
        "or let its contractor do the job)"
    )
    assert [job.state for job in execution.jobs] == ["done", "failed"]


def test_what_a_helper_made_of_it_names_who_gave_it(make):
    execution = by_a_helper_of_its_own(make).executions[0]
    assert "what 'hr__pay' gives is confidential" in execution.jobs[2].problem


def test_what_is_known_in_the_same_words_is_confidential_where_they_come_from_it(make):
    world = make(hr_pay=SECRET["said"], hr_words="It is much.")
    world.run(Job("words", "", "hr__words", {"value": SECRET["said"]}))  # the user's own words
    said = tell({"text": {"$from": "words", "path": ""}}, ("words",))
    execution = world.run(PAID, words({"value": ALL}), said)
    assert execution.n_recalled == 1
    assert execution.jobs[2].state == "failed"
    assert world.calls("mail") == []


def test_its_own_contractor_and_the_user_get_it(make):
    world = make(hr_words=echoes)
    execution = world.run(PAID, words({"value": SAID}))
    assert execution.is_done
    assert world.calls("hr")[1].inputs == {"value": CANARY[0]}
    assert execution.results["pay"].data == SECRET
    assert CANARY[0] in execution.results["words"].text
    assert [act.is_confidential for act in execution.acts] == [True, True]


def test_what_waits_for_it_and_uses_nothing_of_it_is_done_and_is_not_confidential(make):
    world = make(mail_tell="fine", chat_tell="fine")
    first = tell({"text": "Done."})
    second = Job("more", "", "chat__tell", {"value": {"$from": "tell", "path": ""}}, ("tell",))
    execution = world.run(PAID, first, second)
    assert execution.is_done
    assert [act.is_confidential for act in execution.acts] == [True, False, False]


def test_the_model_that_fills_for_its_own_contractor_sees_its_outline(make):
    shown = []

    def model(request):
        shown.append(outlines(request))
        return {"inputs": {"value": SAID}, "missing": []}

    world = make(model=model)
    assert world.run(PAID, words(task="In words.")).is_done
    assert list(shown[0]) == ["pay"]


def test_a_redis_server_never_sees_it(caplog):
    import redis as library

    with redis_server() as server:
        store = RedisContextStore(server.url)
        context = SharedContext(store, classes={"hr__pay": "confidential"})
        world = World(hr_pay=SECRET, context=context)
        world.run(PAID, words({"value": ALL}), Job("note", "", "chat__tell", {"value": "x"}))
        with library.Redis.from_url(server.url) as client:
            keys = list(client.scan_iter())
            values = b"".join(client.mget(keys))
        asyncio.run(context.aclose())
    assert len(keys) == 1
    assert not any(part.encode() in values for part in CANARY)
