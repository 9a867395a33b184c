"""What is called, how often, with whose approval, and what follows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from scripted_tools import READ, UNKNOWN, WRITE, Person, Scripted, Sleep, failed

from cnp_router.exceptions import InputError, UnknownApiError
from cnp_router.execution import Caller, ExecutionSettings, Job, Journal, Plan, allow_writes
from cnp_router.execution.approval import Approval, asked
from cnp_router.execution.calling import act_key
from cnp_router.sources import CallFailure, CallResult

DONE = CallResult("sunny", n_bytes=5)


def perform(tools, api=READ, inputs=None, *, job="a", **options):
    """Let a job be done, and return what came of it and how long was waited in between."""
    sleep = Sleep()
    caller = Caller(tools, sleep=sleep, clock=Clock(), **options)
    return asyncio.run(caller.perform(job, api, inputs or {"x": 1})), sleep.seconds


class Clock:
    """Goes on by a second each time it is looked at."""

    now = 0

    def __call__(self):
        self.now += 1
        return float(self.now)


# Approval


def test_what_reads_is_called_without_asking():
    tools, person = Scripted(DONE), Person()
    performed, _ = perform(tools, approve=person)
    assert (performed.then, performed.result, performed.attempts) == ("done", DONE, 1)
    assert person.asked == []


@pytest.mark.parametrize("api", [WRITE, UNKNOWN])
def test_anything_else_is_asked_once_and_shown_as_it_is(api):
    tools, person = Scripted(failed("busy"), DONE), Person(True)
    performed, _ = perform(tools, api, {"to": "+81"}, approve=person)
    assert performed.then == "done"
    [approval] = person.asked
    assert (approval.job, approval.api, approval.inputs) == ("a", api, {"to": "+81"})
    assert approval.why == api.effects


@pytest.mark.parametrize("api", [WRITE, UNKNOWN])
def test_without_approval_nothing_is_called(api):
    for approve, said in (
        (Person(False), "not approved: "),
        (None, "--allow-write or a callback, approve=, approves"),
    ):
        tools, journal = Scripted(), Journal()
        performed, _ = perform(tools, api, approve=approve, journal=journal)
        assert tools.calls == []
        assert (performed.then, performed.attempts) == ("stop", 0)
        assert performed.result.failure.kind == "declined"
        assert said in performed.result.failure.message
        assert journal.unsettled() == ()


def test_the_callback_may_be_a_coroutine_function():
    async def approve(approval):
        await asyncio.sleep(0)
        return True

    assert perform(Scripted(DONE), WRITE, approve=approve)[0].then == "done"


@pytest.mark.parametrize("answer", [None, "no", "yes", 1, 0, object()])
def test_nothing_but_true_is_taken_for_a_yes(answer):
    tools = Scripted()
    with pytest.raises(InputError, match="approve must return True or False"):
        perform(tools, WRITE, approve=Person(answer))
    assert tools.calls == []


def test_one_question_at_a_time():
    asking = []

    async def approve(approval):
        asking.append(approval.job)
        assert len(asking) == 1
        await asyncio.sleep(0)
        asking.pop()
        return True

    async def main():
        caller = Caller(Scripted(*[DONE] * 5), approve=approve)
        await asyncio.gather(*(caller.perform(f"j{n}", WRITE, {"x": n}) for n in range(5)))

    asyncio.run(main())


def test_who_approves_cannot_change_what_is_called():
    def approve(approval):
        approval.inputs["to"].append("+82")
        return True

    tools = Scripted(DONE)
    perform(tools, WRITE, {"to": ["+81"]}, approve=approve)
    assert tools.calls[0].inputs == {"to": ["+81"]}


def test_allowing_writes_is_not_allowing_repeats_and_rights():
    whys = ("writes", "unknown", "repeat", "permission")
    allowed = [why for why in whys if allow_writes(Approval("a", WRITE, {}, why))]
    assert allowed == ["writes", "unknown"]
    assert asyncio.run(asked(None, Approval("a", WRITE, {}, "writes"))) is False


def test_no_inputs_in_any_repr():
    secret = {"password": "hunter2"}
    journal = Journal()
    journal.start("a", WRITE, secret, key="k")
    for shown in (Approval("a", WRITE, secret, "writes"), journal, journal.unsettled()):
        assert "hunter2" not in repr(shown)


# Attempts


def test_what_may_pass_is_tried_again():
    tools = Scripted(failed("busy", n_bytes=2), failed("timeout", n_bytes=3), DONE)
    performed, waits = perform(tools)
    assert (performed.then, performed.attempts, performed.n_bytes) == ("done", 3, 10)
    assert performed.seconds == 3.0
    assert len(waits) == 2
    assert len({call.key for call in tools.calls}) == 1


@pytest.mark.parametrize("kind", ["busy", "unavailable", "timeout", "lost"])
def test_after_so_many_attempts_the_job_goes_to_another(kind):
    tools = Scripted(*[failed(kind)] * 3)
    performed, waits = perform(tools)
    assert (performed.then, performed.attempts, len(waits)) == ("reaward", 3, 2)
    tools = Scripted(failed(kind))
    performed, waits = perform(tools, settings=ExecutionSettings(attempts=1))
    assert (performed.then, performed.attempts, waits) == ("reaward", 1, [])


class Timed(Scripted):
    """Answers after some seconds, on a clock of its own, or at the end of what a call may take."""

    now = 0.0

    def __init__(self, seconds, *answers):
        super().__init__(*answers)
        self.seconds = seconds

    async def call(self, call):
        self.now += min(self.seconds, call.timeout)
        return await super().call(call)

    async def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize(("seconds", "attempts"), [(60, 1), (25, 1), (23, 1), (12, 2), (1, 5)])
def test_all_attempts_and_waits_together_take_no_longer_than_they_may(seconds, attempts):
    tools = Timed(seconds, *[failed("timeout")] * 9)
    settings = ExecutionSettings(attempts=9, wait=(6, 6))
    caller = Caller(tools, settings, sleep=tools.sleep, clock=lambda: tools.now)
    performed = asyncio.run(caller.perform("a", READ, {"x": 1}, within=29.0))
    assert performed.attempts == len(tools.calls) == attempts
    assert tools.now <= 29.0
    assert [call.timeout for call in tools.calls] == [
        29.0 - n * (seconds + 6) for n in range(attempts)
    ]


def test_the_time_for_all_attempts_begins_when_they_do():
    tools = Timed(5, failed("timeout"), DONE)
    tools.now = 100.0
    caller = Caller(
        tools, ExecutionSettings(wait=(6, 6)), sleep=tools.sleep, clock=lambda: tools.now
    )
    performed = asyncio.run(caller.perform("a", READ, {"x": 1}, within=29.0))
    assert (performed.then, performed.attempts) == ("done", 2)
    assert [call.timeout for call in tools.calls] == [29.0, 18.0]


def test_an_attempt_has_some_time_where_none_is_left():
    tools = Timed(60, failed("timeout"))
    caller = Caller(tools, sleep=tools.sleep, clock=lambda: tools.now)
    performed = asyncio.run(caller.perform("a", READ, {"x": 1}, within=0.0))
    assert (performed.then, performed.attempts) == ("reaward", 1)
    assert 0 < tools.now < 1


@pytest.mark.parametrize(
    ("kind", "then"),
    [
        ("inputs", "reaward"),
        ("changed", "reaward"),
        ("declined", "stop"),
        ("permission", "escalate"),
        ("unusable", "reaward"),
        ("tool", "reaward"),
        ("cancelled", "reaward"),
    ],
)
def test_what_does_not_pass_is_not_tried_again(kind, then):
    performed, waits = perform(Scripted(failed(kind)))
    assert (performed.then, performed.attempts, waits) == (then, 1, [])
    assert performed.result.failure.kind == kind


def test_the_waits_grow_and_stay_in_bounds():
    settings = ExecutionSettings(attempts=6)
    waits = [
        perform(Scripted(*[failed("busy")] * 6), settings=settings, random_state=n)[1]
        for n in range(20)
    ]
    for wait in waits:
        for seconds, (low, high) in zip(
            wait, [(2, 4), (4, 8), (5, 10), (5, 10), (5, 10)], strict=True
        ):
            assert low <= seconds <= high
    assert len({wait[0] for wait in waits}) == 20  # nobody comes again at the same time
    again = perform(Scripted(*[failed("busy")] * 6), settings=settings, random_state=0)[1]
    assert again == waits[0]


@pytest.mark.parametrize(
    ("note", "low", "high"),
    [
        ("Retry-After: 7", 7, 7),
        ("retry-after: 4.5", 4.5, 4.5),
        ("Retry-After: 3600", 10, 10),
        ("Retry-After: 0", 2, 4),
        ("Retry-After: -5", 2, 4),
        ("Retry-After: soon", 2, 4),
        ("sleep for 9999999999 seconds", 2, 4),
    ],
)
def test_a_source_can_ask_for_more_time_within_bounds(note, low, high):
    _, [seconds] = perform(Scripted(failed("busy", notes=(note,)), DONE))
    assert low <= seconds <= high


def test_without_a_shortest_wait_the_waits_grow_from_a_second():
    settings = ExecutionSettings(attempts=4, wait=(0, 5))
    _, waits = perform(Scripted(*[failed("busy")] * 4), settings=settings)
    for seconds, (low, high) in zip(waits, [(1, 2), (2, 4), (2.5, 5)], strict=True):
        assert low <= seconds <= high


def test_no_wait_at_all():
    settings = ExecutionSettings(wait=(0, 0))
    assert perform(Scripted(failed("busy"), DONE), settings=settings)[1] == [0.0]


@pytest.mark.parametrize(
    ("error", "kind"),
    [(UnknownApiError("weather__today"), "changed"), (InputError("x must be a city"), "inputs")],
)
def test_what_the_source_refuses_was_not_done(error, kind):
    journal = Journal()
    performed, _ = perform(Scripted(error), WRITE, approve=allow_writes, journal=journal)
    assert performed.then == "reaward"
    assert (performed.result.failure.kind, performed.result.failure.message) == (kind, str(error))
    assert journal.unsettled() == ()


def test_a_bug_in_a_source_is_raised_and_leaves_the_outcome_unknown():
    journal = Journal()
    with pytest.raises(ZeroDivisionError):
        perform(Scripted(ZeroDivisionError()), WRITE, approve=allow_writes, journal=journal)
    assert [call.job for call in journal.unsettled()] == ["a"]


def test_the_call_has_the_time_limit_and_tells_its_progress():
    tools, progress = Scripted(DONE), []

    async def main():
        caller = Caller(tools, ExecutionSettings(call_timeout=7))
        await caller.perform("a", READ, {}, on_progress=progress.append)

    asyncio.run(main())
    [call] = tools.calls
    assert call.timeout == 7.0
    call.on_progress("half")
    assert progress == ["half"]


# Writes whose outcome is unknown


def test_a_write_that_was_surely_not_done_is_tried_again():
    person = Person(True)
    performed, _ = perform(Scripted(failed("busy"), DONE), WRITE, approve=person)
    assert (performed.then, performed.attempts) == ("done", 2)
    assert person.whys == ["writes"]


@pytest.mark.parametrize("api", [WRITE, UNKNOWN])
@pytest.mark.parametrize("kind", ["timeout", "lost"])
def test_a_write_with_unknown_outcome_is_not_tried_again_without_approval(api, kind):
    tools, person = Scripted(failed(kind, notes=("it was slow",))), Person(True, False)
    performed, waits = perform(tools, api, approve=person)
    assert (performed.then, performed.attempts, waits) == ("stop", 1, [])
    assert person.whys == [api.effects, "repeat"]
    assert performed.result.failure.kind == kind
    assert "may have been done already" in performed.result.notes[-1]
    assert performed.result.notes[0] == "it was slow"
    performed, _ = perform(Scripted(failed(kind)), api, approve=allow_writes)
    assert (performed.then, performed.attempts) == ("stop", 1)


def test_with_approval_it_is_tried_again_with_the_same_key():
    tools = Scripted(failed("timeout"), failed("busy"), failed("lost"), DONE)
    person = Person(True, True, True)
    journal, settings = Journal(), ExecutionSettings(attempts=4)
    performed, _ = perform(tools, WRITE, approve=person, journal=journal, settings=settings)
    assert (performed.then, performed.attempts) == ("done", 4)
    assert person.whys == ["writes", "repeat", "repeat"]  # for each that may be one too many
    assert len({call.key for call in tools.calls}) == 1
    assert journal.unsettled() == ()


@pytest.mark.parametrize("answers", [("unusable",), ("cancelled",), ("timeout", "busy", "tool")])
def test_it_is_not_awarded_to_another_either(answers):
    tools = Scripted(*map(failed, answers))
    performed, _ = perform(tools, WRITE, approve=Person(True, True))
    assert performed.then == "stop"
    assert performed.attempts == len(answers)


def test_another_call_for_the_same_job_needs_approval_too():
    """By another API, one that only reads too: the job may have been done already."""
    for api in (WRITE, UNKNOWN, READ):
        journal, person = Journal(), Person(True, False)
        perform(Scripted(failed("unusable")), WRITE, approve=person, journal=journal)
        tools = Scripted()
        other = replace(api, id="other__tool")
        performed, _ = perform(tools, other, {"y": 2}, approve=person, journal=journal)
        assert (performed.then, tools.calls) == ("stop", [])
        assert person.whys == ["writes", "repeat"]
        assert person.asked[-1].api is other


def test_other_jobs_are_not_touched_by_it():
    journal, person = Journal(), Person(True, True)
    perform(Scripted(failed("unusable")), WRITE, approve=person, journal=journal)
    assert perform(Scripted(DONE), WRITE, job="b", approve=person, journal=journal)[0].then == (
        "done"
    )
    assert person.whys == ["writes", "writes"]


def test_a_job_goes_to_another_whatever_became_of_other_jobs():
    journal = Journal()
    perform(Scripted(failed("unusable")), WRITE, approve=Person(True), journal=journal)
    failing = Scripted(failed("tool"))
    assert perform(failing, READ, job="b", journal=journal)[0].then == "reaward"


def test_missing_rights_are_escalated_and_never_tried_again():
    performed, waits = perform(Scripted(failed("permission")), WRITE, approve=allow_writes)
    assert (performed.then, performed.attempts, waits) == ("escalate", 1, [])


def test_a_source_may_know_better_what_was_done():
    known = CallResult(failure=CallFailure("timeout", "the server says it was rolled back", "no"))
    performed, _ = perform(Scripted(known, DONE), WRITE, approve=Person(True))
    assert (performed.then, performed.attempts) == ("done", 2)
    unknown = CallResult(failure=CallFailure("tool", "it failed half-way", "unknown"))
    performed, _ = perform(Scripted(unknown), WRITE, approve=Person(True))
    assert performed.then == "stop"


def test_what_was_done_is_not_done_again():
    journal = Journal()
    perform(Scripted(DONE), WRITE, approve=Person(True), journal=journal)
    performed, _ = perform(Scripted(), WRITE, journal=journal)
    assert (performed.then, performed.attempts, performed.result) == ("done", 0, DONE)


# Cancellation


@pytest.mark.parametrize(("api", "n"), [(READ, 0), (WRITE, 1), (UNKNOWN, 1)])
def test_a_call_that_is_cancelled_is_in_the_journal(api, n):
    async def main():
        tools, journal = Scripted(None), Journal()
        caller = Caller(tools, approve=allow_writes, journal=journal)
        running = asyncio.create_task(caller.perform("a", api, {}))
        await tools.called.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(journal.unsettled("a")) == n
        assert journal.results == {}

    asyncio.run(main())


def test_what_is_cancelled_before_it_is_called_was_not_done():
    async def main():
        reached, tools, journal = asyncio.Event(), Scripted(), Journal()

        async def synced():
            reached.set()
            await asyncio.Event().wait()

        journal.synced = synced
        caller = Caller(tools, approve=allow_writes, journal=journal)
        running = asyncio.create_task(caller.perform("a", WRITE, {}))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (tools.calls, journal.unsettled()) == ([], ())

    asyncio.run(main())


# Keys and settings


def test_the_key_tells_acts_apart():
    def key(journal, job="a", api=WRITE, inputs=None):
        tools = Scripted(DONE)
        perform(tools, api, inputs or {"x": 1}, job=job, approve=allow_writes, journal=journal)
        return tools.calls[0].key

    def journal(execution):
        journal = Journal()
        journal.execution = execution
        return journal

    assert key(journal("e1")) == key(journal("e1"))
    keys = {
        key(journal("e1")),
        key(journal("e2")),
        key(journal("e1"), job="b"),
        key(journal("e1"), api=UNKNOWN),
        key(journal("e1"), inputs={"x": 2}),
    }
    assert len(keys) == 5


def test_a_key_that_is_given_goes_with_every_attempt():
    tools = Scripted(failed("busy"), DONE)
    caller = Caller(tools, approve=allow_writes, sleep=Sleep())
    asyncio.run(caller.perform("a", WRITE, {"x": 1}, key="order-7"))
    assert [call.key for call in tools.calls] == ["order-7"] * 2


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"call_timeout": 0}, "call_timeout in seconds"),
        ({"timeout": -1}, "timeout in seconds"),
        ({"timeout": True}, "timeout in seconds"),
        ({"attempts": 0}, "attempts"),
        ({"attempts": 1.5}, "attempts"),
        ({"wait": 3}, "wait must be two numbers of seconds"),
        ({"wait": (3,)}, "wait must be two numbers of seconds"),
        ({"wait": (3, 2)}, "the longest wait in seconds"),
        ({"wait": (-1, 2)}, "the shortest wait in seconds"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"fallback": ""}, "contractor"),
        ({"fallback": "manager"}, "reserved"),
    ],
)
def test_settings_that_cannot_be(fields, problem):
    with pytest.raises(InputError, match=problem):
        ExecutionSettings(**fields)


# Calls that have succeeded


def both(tools, *jobs, settings=None, api=READ, journal=None):
    """Let two jobs make calls at the same time, and return what came of them."""

    async def main():
        caller = Caller(tools, settings, approve=allow_writes, journal=journal, sleep=Sleep())
        return await asyncio.gather(*(caller.perform(job, api, x) for job, x in jobs))

    return asyncio.run(main())


@pytest.mark.parametrize("api", [READ, WRITE])
def test_a_call_that_succeeded_is_not_made_again_by_any_job(api):
    tools = Scripted(DONE)
    first, second = both(tools, ("a", {"x": 1, "y": [2]}), ("b", {"y": [2], "x": 1}), api=api)
    assert len(tools.calls) == 1
    assert (first.attempts, first.is_earlier) == (1, False)
    assert (second.attempts, second.is_earlier, second.then) == (0, True, "done")
    assert second.result.text == "sunny"
    assert "not made again" in second.result.notes[-1]


class Late(Scripted):
    """Lets others go on before it answers."""

    async def call(self, call):
        answer = await super().call(call)
        await asyncio.sleep(0)
        return answer


def test_the_same_call_waits_for_the_one_that_runs():
    tools = Late(DONE)
    first, second = both(tools, ("a", {"x": 1}), ("b", {"x": 1}))
    assert len(tools.calls) == 1
    assert (first.is_earlier, second.is_earlier) == (False, True)


def test_what_is_given_once_more_took_no_bytes_and_started_nothing():
    said = replace(DONE, start_seconds=2.0, notes=("it reconnected",))
    first, second = both(Scripted(said), ("a", {"x": 1}), ("b", {"x": 1}))
    assert (first.result.n_bytes, first.result.start_seconds) == (5, 2.0)
    assert (second.result.n_bytes, second.result.start_seconds) == (0, None)
    assert second.result.notes[:-1] == ("it reconnected",)


def test_other_inputs_and_failures_are_called_again():
    tools = Scripted(failed("tool"), DONE, DONE)
    *_, last = both(tools, ("a", {"x": 1}), ("b", {"x": 1}), ("c", {"x": True}))
    assert len(tools.calls) == 3 and not last.is_earlier


def test_the_settings_may_allow_to_repeat_calls():
    tools = Scripted(DONE, DONE)
    both(tools, ("a", {}), ("b", {}), settings=ExecutionSettings(repeat_calls=True))
    assert len(tools.calls) == 2


def test_what_succeeded_before_a_resumption_is_not_made_again(tmp_path):
    plan = Plan("Do it.", tuple(Job(name, "do") for name in "abc"))
    for job in "ab":
        tools = Scripted(*[DONE][: job == "a"])
        with Journal(tmp_path / "journal") as journal:
            journal.begin(plan)
            [performed] = both(tools, (job, {"x": 1}), journal=journal)
            assert performed.is_earlier == (job == "b")
    with Journal(tmp_path / "journal") as journal:
        assert set(journal.results) == {"a", "b"}
        assert journal.done_by("b").number == -1


BOOK = replace(
    WRITE,
    parameters={
        "type": "object",
        "properties": {"room": {"type": "string"}, "days": {"type": "integer", "default": 1}},
    },
)
SPELLINGS = (
    {"room": "Caf\u00e9"},
    {"room": "Caf\u00e9", "days": 1},
    {"days": 1.0, "room": "Caf\u00e9"},
    {"room": "Cafe\u0301"},
)


def test_the_same_call_in_another_spelling_is_not_made_again(tmp_path):
    """Also by another program: the journal's file says which call it was."""
    plan = Plan("Book.", tuple(Job(f"j{n}", "book") for n in range(5)))
    tools = Scripted(DONE, DONE)

    async def book(journal, numbers):
        caller = Caller(tools, approve=allow_writes, journal=journal)
        return [await caller.perform(f"j{n}", BOOK, SPELLINGS[n]) for n in numbers]

    with Journal(tmp_path / "journal") as journal:
        journal.begin(plan)
        first = asyncio.run(book(journal, range(2)))
    with Journal(tmp_path / "journal") as journal:
        first += asyncio.run(book(journal, range(2, 4)))
        assert len(tools.calls) == 1
        assert [each.is_earlier for each in first] == [False, True, True, True]
        other = Caller(tools, approve=allow_writes, journal=journal)
        assert not asyncio.run(other.perform("j4", BOOK, {"room": "caf\u00e9"})).is_earlier


def test_all_spellings_of_an_act_have_one_idempotency_key():
    assert len({act_key("e", "j", BOOK, inputs) for inputs in SPELLINGS}) == 1
    assert act_key("e", "j", BOOK, {"room": "B"}) != act_key("e", "j", BOOK, SPELLINGS[0])
