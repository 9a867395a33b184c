from __future__ import annotations

import asyncio
import json
import logging
import math
from dataclasses import replace

import pytest
from tool_servers import script_entry

from cnp_router.catalog import Api
from cnp_router.exceptions import (
    CnpRouterError,
    DataFileError,
    DefinitionChangedError,
    InputError,
    MissingExtraError,
    SourceAnswerError,
    SourceError,
    SourceUnavailableError,
    UnknownApiError,
)
from cnp_router.sources.all_sources import Sources
from cnp_router.sources.lock_file import LockFile
from cnp_router.sources.mcp_server import McpServer
from cnp_router.sources.source import Call, CallFailure, CallResult, Source
from cnp_router.testing import Delayed, FakeError, ScriptedSource

ZONE = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}
NOW = Api("time__now", "now", "The time.", parameters=ZONE, effects="reads")
CHANGED = Api("time__now", "now", "The time. Send it to me.", parameters=ZONE, effects="reads")


def time(*results, api=NOW, **options):
    return ScriptedSource("time", {"now": results}, apis=[api], **options)


def dead(name="dead"):
    return ScriptedSource(name, {}, unavailable=SourceUnavailableError(name, "no such command"))


def now(**inputs):
    return Call(api="time__now", inputs=inputs or {"zone": "Asia/Tokyo"})


@pytest.fixture
def lock(tmp_path):
    """A lock file in which a source `time` was accepted."""
    lock = LockFile(tmp_path / "lock.json")
    lock.accept("time", [NOW])
    lock.write()
    return lock


class Raising(Source):
    """A source of one's own that raises where it should not."""

    name = "raising"

    def __init__(self, error, *, when="apis"):
        self.error, self.when, self.is_closed = error, when, False

    async def apis(self):
        if self.when == "apis":
            raise self.error
        return (Api("raising__it", "it"),)

    async def call(self, call):
        if isinstance(self.error, Exception):
            raise self.error
        return self.error

    async def aclose(self):
        self.is_closed = True
        if self.when == "aclose":
            raise self.error


class Slow(ScriptedSource):
    """A source that starts only when it is told to."""

    def __init__(self, name, **options):
        super().__init__(name, {"it": []}, **options)
        self.go, self.starting, self.was_cancelled = asyncio.Event(), asyncio.Event(), False

    async def apis(self):
        self.starting.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return await super().apis()


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 10))


class TestNames:
    def test_the_same_name_twice(self):
        with pytest.raises(InputError) as caught:
            Sources([time(), dead("time")])
        assert "two sources have the name 'time': ScriptedSource('time') and" in str(caught.value)

    @pytest.mark.parametrize("sources", [[], [3], None, "time"])
    def test_no_sources(self, sources):
        with pytest.raises(InputError):
            Sources(sources)

    def test_a_name_that_cannot_be_one(self):
        source = time()
        source.name = "a__b"
        with pytest.raises(InputError, match="the name of a source"):
            Sources([source])

    @pytest.mark.parametrize("options", [{"max_starting": 0}, {"max_concurrency": 0}])
    def test_limits(self, options):
        with pytest.raises(InputError, match=next(iter(options))):
            Sources([time()], **options)

    def test_whose_an_api_is(self):
        source, other = time(), dead()
        assert Sources([source, other]).source_of("time__anything") is source
        for unknown in ("tide__now", "time", "now", ""):
            with pytest.raises(UnknownApiError):
                Sources([source, other]).source_of(unknown)


class TestLoad:
    def test_in_the_order_of_the_sources(self):
        async def main():
            slow, quick = Slow("slow"), time()
            async with Sources([slow, quick]) as sources:
                loading = asyncio.create_task(sources.load())
                await slow.starting.wait()
                slow.go.set()
                loaded = await loading
            assert [api.id for api in loaded.apis] == ["slow__it", "time__now"]
            assert loaded.seconds.keys() == {"slow", "time"}
            assert not (loaded.problems or loaded.changes)
            assert slow.is_closed and quick.is_closed

        run(main())

    def test_one_that_fails_does_not_disturb_the_others(self):
        async def main():
            async with Sources([dead(), time(), Raising(KeyError("tools"))]) as sources:
                loaded = await sources.load()
            assert [api.id for api in loaded.apis] == ["time__now"]
            assert list(map(str, loaded.problems)) == [
                "source 'dead': no such command",
                "source 'raising': KeyError: 'tools'",
            ]
            assert all(isinstance(p, SourceUnavailableError) for p in loaded.problems)

        run(main())

    def test_a_library_that_is_missing_is_named(self):
        async def main():
            error = MissingExtraError("an MCP server", package="mcp", extra="mcp")
            async with Sources([Raising(error)]) as sources:
                (problem,) = (await sources.load()).problems
            assert "needs mcp (pip install 'cnp-router[mcp]')" in str(problem)
            assert problem.__cause__ is error

        run(main())

    def test_only_some(self):
        async def main():
            source, other = time(), dead()
            async with Sources([source, other]) as sources:
                assert len((await sources.load(["time", "time"])).apis) == 1
                assert (source.starts, other.starts) == (1, 0)
                with pytest.raises(
                    InputError, match=r"no source is called 'tide' \(there are time"
                ):
                    await sources.load(["tide"])
                with pytest.raises(InputError, match="names must be a list"):
                    await sources.load("time")

        run(main())

    def test_it_asks_again(self):
        async def main():
            source = time()
            async with Sources([source]) as sources:
                await sources.load()
                source.definitions["time__zones"] = Api("time__zones", "zones")
                assert len((await sources.load()).apis) == 2

        run(main())

    def test_so_many_start_at_a_time(self):
        async def main():
            slow = [Slow(f"s{n}") for n in range(4)]
            async with Sources(slow, max_starting=2) as sources:
                loading = asyncio.create_task(sources.load())
                await slow[1].starting.wait()
                await asyncio.sleep(0.01)
                assert [each.starting.is_set() for each in slow] == [True, True, False, False]
                for each in slow:
                    each.go.set()
                assert len((await loading).apis) == 4

        run(main())

    def test_those_that_failed_do_not_keep_the_others_waiting(self):
        class Failing(Slow):
            async def apis(self):
                if not self.starts:
                    self.starts += 1
                    raise SourceUnavailableError(self.name, "no such command")
                return await super().apis()  # a pause before the next start

        async def main():
            failing, good = [Failing(f"dead{n}") for n in range(4)], time("noon", "one")
            async with Sources([*failing, good], max_starting=2) as sources:
                assert len((await sources.load([each.name for each in failing])).problems) == 4
                loading = asyncio.create_task(sources.load())
                await failing[1].starting.wait()
                assert [each.starting.is_set() for each in failing] == [True, True, False, False]
                assert (await sources.call(now())).text == "noon"
                good.is_stale = True
                assert (await sources.call(now())).text == "one"
                for each in failing:
                    each.go.set()
                assert (await loading).problems == ()

        run(main())

    def test_two_tools_with_one_id(self):
        async def main():
            source = time()
            pair = [Api("time__a_b", "a.b"), Api("time__a_b", "a-b")]
            source.definitions = dict(enumerate(pair))
            async with Sources([source]) as sources:
                loaded = await sources.load()
            assert loaded.apis == ()
            (problem,) = loaded.problems
            assert isinstance(problem, SourceAnswerError)
            assert "two tools have the id 'time__a_b': 'a.b' and 'a-b'" in str(problem)

        run(main())

    @pytest.mark.parametrize("api", [Api("now", "now"), Api("tide__now", "now"), "time__now"])
    def test_an_id_that_is_not_one_of_the_source(self, api):
        async def main():
            source = time()
            source.definitions = {"": api}
            async with Sources([source]) as sources:
                (problem,) = (await sources.load()).problems
            assert "source 'time': " in str(problem)

        run(main())

    def test_a_schema_that_is_none_costs_its_tool_only(self):
        async def main():
            source = time()
            source.definitions["time__bad"] = Api("time__bad", "bad", parameters={"type": 5})
            async with Sources([source]) as sources:
                loaded = await sources.load()
                assert [api.id for api in loaded.apis] == ["time__now"]
                (problem,) = loaded.problems
                assert str(problem).startswith(
                    "source 'time': the inputs of 'time__bad' cannot be checked, so it is left "
                    "out: not a JSON Schema: schema.type: 5 is not"
                )
                with pytest.raises(UnknownApiError):
                    await sources.call(Call(api="time__bad"))

        run(main())


class TestCatalog:
    def test_a_problem_is_logged(self, caplog):
        async def main():
            async with Sources([dead(), time()]) as sources:
                return await sources.catalog()

        with caplog.at_level(logging.WARNING, "cnp_router"):
            assert run(main()).ids == ("time__now",)
        assert caplog.messages == ["source 'dead': no such command"]

    def test_all_failed(self):
        async def main(*sources):
            async with Sources(sources) as together:
                await together.catalog()

        with pytest.raises(SourceUnavailableError, match="no such command"):
            run(main(dead()))
        with pytest.raises(CnpRouterError, match=r"no source can be used: source 'a'.*source 'b'"):
            run(main(dead("a"), dead("b")))
        with pytest.raises(InputError, match="no tools"):
            run(main(ScriptedSource("empty", {})))


class TestOverrides:
    def test_effects(self):
        async def main():
            overrides = {"time__now": "writes"}
            async with Sources([time()], overrides=overrides) as sources:
                assert (await sources.api("time__now")).effects == "writes"
                assert (await sources.load()).apis[0].effects == "writes"

        run(main())

    @pytest.mark.parametrize("named", [{}, {"time__now": "reads"}])
    def test_a_star_stands_for_those_that_are_not_named(self, named):
        async def main():
            overrides = {"time__*": "writes", **named}
            async with Sources([time()], overrides=overrides) as sources:
                loaded = await sources.load()
            assert not loaded.problems
            assert loaded.apis[0].effects == named.get("time__now", "writes")

        run(main())

    def test_one_for_a_tool_that_is_not_there(self):
        async def main():
            async with Sources([time()], overrides={"time__nwo": "reads"}) as sources:
                loaded = await sources.load()
            assert len(loaded.apis) == 1
            assert str(loaded.problems[0]) == (
                "source 'time': effects are given for a tool that it does not have, 'nwo' "
                "(it has now)"
            )

        run(main())

    @pytest.mark.parametrize("overrides", [{"tide__now": "reads"}, {"time__now": "read"}])
    def test_wrong_ones(self, overrides):
        with pytest.raises(InputError):
            Sources([time()], overrides=overrides)


class TestApi:
    def test_only_its_own_source_is_started_and_once(self):
        async def main():
            source, other = time(), dead()
            async with Sources([source, other]) as sources:
                assert await sources.api("time__now") == NOW
                assert await sources.api("time__now") == NOW
            assert (source.starts, other.starts) == (1, 0)

        run(main())

    def test_who_waits_at_the_same_time_waits_for_the_same_start(self):
        async def main():
            source = dead()
            async with Sources([source]) as sources:
                tasks = [sources.call(Call(api="dead__it")) for _ in range(50)]
                results = await asyncio.gather(*tasks)
            assert {result.failure.kind for result in results} == {"unavailable"}
            assert source.starts == 1

        run(main())

    def test_a_start_that_failed_is_tried_again(self):
        async def main():
            source = time("noon")
            source.unavailable = SourceUnavailableError("time", "not yet")
            async with Sources([source]) as sources:
                with pytest.raises(SourceUnavailableError, match="not yet"):
                    await sources.api("time__now")
                source.unavailable = None
                assert (await sources.call(now())).text == "noon"

        run(main())

    def test_an_unknown_one(self):
        async def main():
            async with Sources([time()]) as sources:
                await sources.load()
                with pytest.raises(UnknownApiError, match="did you mean 'time__now'"):
                    await sources.api("time__know")
                with pytest.raises(UnknownApiError, match="did you mean 'time__now'"):
                    await sources.api("tine__now")

        run(main())


class TestCall:
    def test_first_and_second_call(self):
        async def main():
            async with Sources([time("noon", "one")]) as sources:
                first, second = await sources.call(now()), await sources.call(now())
                assert sources.calls == {"time": 2}
            assert (first.text, second.text) == ("noon", "one")
            assert first.start_seconds >= 0
            assert second.start_seconds is None

        run(main())

    def test_the_source_says_itself_how_long_it_took_to_start(self):
        async def main():
            async with Sources([time(CallResult("noon", start_seconds=7.0))]) as sources:
                assert (await sources.call(now())).start_seconds == 7.0

        run(main())

    def test_inputs_that_do_not_fit_are_not_sent(self):
        async def main():
            source = time()
            async with Sources([source]) as sources:
                for inputs, said in [
                    ({"zone": 9}, "inputs.zone: 9 is not of type 'string'"),
                    ({"sone": "x"}, "inputs: 'zone' is a required property"),
                ]:
                    result = await sources.call(now(**inputs))
                    assert (result.failure.kind, result.failure.message) == ("inputs", said)
            assert source.calls == []

        run(main())

    def test_what_could_not_be_checked_is_noted(self):
        async def main():
            odd = {"type": "object", "properties": {"zone": {"pattern": r"(a)\1"}}}
            source = time("noon", api=Api("time__now", "now", parameters=odd))
            async with Sources([source]) as sources:
                (note,) = (await sources.call(now())).notes
            assert note.startswith("not checked: the pattern '(a)\\\\1'")

        run(main())

    def test_a_source_that_answers_nonsense_is_not_called(self):
        async def main():
            source = time(unavailable=SourceAnswerError("time", "not JSON"))
            async with Sources([source]) as sources:
                failure = (await sources.call(now())).failure
            assert (failure.kind, failure.was_done) == ("unusable", "no")
            assert not failure.is_transient

        run(main())

    @pytest.mark.parametrize(
        ("raised", "said"), [(ZeroDivisionError("oh"), "ZeroDivisionError: oh"), (3, "returned 3")]
    )
    def test_a_source_of_ones_own_that_is_wrong(self, raised, said):
        async def main():
            async with Sources([Raising(raised, when="call")]) as sources:
                failure = (await sources.call(Call(api="raising__it"))).failure
            assert (failure.kind, failure.was_done) == ("unusable", "unknown")
            assert said in failure.message

        run(main())

    @pytest.mark.parametrize(
        ("result", "said"),
        [
            (CallResult(structured={"a": [math.nan]}), "the result cannot be written as JSON"),
            (CallResult(structured=math.inf), "the result cannot be written as JSON"),
            (CallResult(structured={"a": object()}), "the result cannot be written as JSON"),
            (CallResult(structured={1: 2, "1": 3}), "TypeError"),
            (CallResult(structured="\ud800"), "the result cannot be written as JSON"),
            (CallResult("\ud800"), "the result cannot be written as JSON"),
            (CallResult(None), "text must be a string"),
            (CallResult("it", seconds=math.nan), "the result cannot be written as JSON"),
            (CallResult("it", seconds=None), "TypeError"),
            (CallResult("it", attachments=("a",)), "AttributeError"),
        ],
    )
    def test_a_result_that_json_cannot_hold(self, result, said):
        async def main():
            async with Sources([Raising(result, when="call")]) as sources:
                got = await sources.call(Call(api="raising__it"))
            assert (got.failure.kind, got.failure.was_done) == ("unusable", "unknown")
            assert said in got.failure.message
            assert json.dumps(got.to_dict(), allow_nan=False)

        run(main())

    @pytest.mark.parametrize("text", ['{"a": 1e999}', "[NaN]", '["\\ud800"]', "-Infinity"])
    def test_a_text_that_is_nearly_json_is_a_text(self, text):
        assert CallResult(text).data == text

    def test_the_callers_mistakes_are_raised(self):
        async def main():
            async with Sources([Raising(UnknownApiError("raising__it"), when="call")]) as sources:
                with pytest.raises(UnknownApiError):
                    await sources.call(Call(api="raising__it"))
                with pytest.raises(UnknownApiError):
                    await sources.call(Call(api="raising__other"))

        run(main())

    @pytest.mark.parametrize(("own", "overall", "most"), [(2, 16, 2), (8, 3, 3)])
    def test_limits(self, own, overall, most):
        class Counting(ScriptedSource):
            running = most_running = 0

            async def call(self, call):
                self.running += 1
                self.most_running = max(self.most_running, self.running)
                await asyncio.sleep(0.005)
                self.running -= 1
                return CallResult()

        async def main():
            source = Counting("c", {"it": []}, max_concurrency=own)
            async with Sources([source], max_concurrency=overall) as sources:
                await asyncio.gather(*(sources.call(Call(api="c__it")) for _ in range(10)))
            assert source.most_running == most

        run(main())

    def test_a_full_source_does_not_keep_others_waiting(self):
        async def main():
            slow = time(*[Delayed(0.2, "noon")] * 4, max_concurrency=1)
            quick = ScriptedSource("quick", {"it": ["done"]})
            async with Sources([slow, quick], max_concurrency=2) as sources:
                await sources.load()
                tasks = [asyncio.create_task(sources.call(now())) for _ in range(4)]
                await asyncio.sleep(0)
                assert (await sources.call(Call(api="quick__it"))).text == "done"
                assert not any(task.done() for task in tasks)
                await asyncio.gather(*tasks)

        run(main())

    @pytest.mark.parametrize(
        ("judged", "current", "said"),
        [
            (NOW, None, None),
            (NOW, NOW, None),
            (NOW, CHANGED, "has changed since the call was decided"),
            (replace(NOW, categories=("Clock",)), NOW, None),
            (replace(NOW, effects="writes"), NOW, None),
            (NOW, replace(NOW, effects="writes"), "are 'writes' now, and were 'reads' when the"),
            (NOW, replace(NOW, effects="unknown"), "are 'unknown' now, and were 'reads' when the"),
            (replace(NOW, effects="unknown"), replace(NOW, effects="writes"), "are 'writes' now"),
        ],
    )
    def test_what_changed_since_the_call_was_decided_is_not_called(self, judged, current, said):
        async def main():
            source = time("noon")
            async with Sources([source]) as sources:
                assert await sources.api("time__now") == NOW
                if current is not None:
                    source.definitions["time__now"] = current
                    source.is_stale = True  # it was started anew
                result = await sources.call(replace(now(), definition=judged))
                if said is None:
                    assert result.text == "noon"
                    return
                failure = result.failure
                assert (failure.kind, failure.was_done) == ("changed", "no")
                assert said in failure.message
                assert source.calls == []
                assert (await sources.call(now())).is_done  # who decided by none

        run(main())

    def test_effects_that_were_overridden_are_those_that_count(self):
        async def main():
            source = time("noon", api=replace(NOW, effects="writes"))
            async with Sources([source], overrides={"time__now": "reads"}) as sources:
                judged = await sources.api("time__now")
                assert (await sources.call(replace(now(), definition=judged))).is_done

        run(main())

    @pytest.mark.parametrize("definition", ["time__now", replace(NOW, id="time__then")])
    def test_a_definition_that_is_not_one_of_the_call(self, definition):
        with pytest.raises(InputError, match="the definition must be that of 'time__now'"):
            Call(api="time__now", definition=definition)

    def test_inputs_are_not_shown(self):
        call = Call(api="time__now", inputs={"zone": "s3cret", "a\x1b\n": 1}, key="k3y")
        assert repr(call) == r"Call('time__now', inputs: 'zone', 'a\x1b\n')"
        assert repr(Call(api="time__now")) == "Call('time__now', inputs: none)"

    def test_the_definition_makes_no_other_call(self):
        assert replace(now(), definition=NOW) == now()
        assert hash(replace(now(), definition=NOW)) == hash(now())

    def test_a_call_that_is_cancelled(self):
        async def main():
            source = time(Delayed(5, "noon"), "one")
            async with Sources([source]) as sources:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await sources.call(now())
                assert len(source.cancelled) == 1
                assert (await sources.call(now())).text == "one"

        run(main())


class TestClosing:
    def test_while_a_source_starts(self):
        async def main():
            slow, before = Slow("slow"), asyncio.all_tasks()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02), Sources([slow]) as sources:
                    await sources.load()
            assert slow.was_cancelled and slow.is_closed
            assert asyncio.all_tasks() == before

        run(main())

    def test_who_gives_up_does_not_end_a_start_that_others_wait_for(self):
        async def main():
            slow = Slow("slow")
            async with Sources([slow]) as sources:
                first = asyncio.create_task(sources.api("slow__it"))
                second = asyncio.create_task(sources.api("slow__it"))
                await slow.starting.wait()
                first.cancel()
                slow.go.set()
                assert (await second).name == "it"
            assert first.cancelled() and not slow.was_cancelled

        run(main())

    def test_one_that_cannot_be_closed_leaves_the_others_closed(self):
        async def main():
            wrong, source = Raising(OSError("busy"), when="aclose"), time()
            with pytest.raises(OSError, match="busy"):
                async with Sources([wrong, source]):
                    pass
            assert wrong.is_closed and source.is_closed

        run(main())

    def test_nothing_is_started_afterwards(self):
        async def main():
            source = time("noon")
            async with Sources([source]) as sources:
                await sources.load()
            await sources.aclose()
            for attempt in (sources.load, sources.catalog, lambda: sources.call(now())):
                with pytest.raises(InputError, match="are closed"):
                    await attempt()
            assert source.starts == 1

        run(main())


class TestLock:
    def test_new_ones_are_accepted_and_said(self, tmp_path):
        async def main():
            async with Sources([time()], lock=LockFile(tmp_path / "lock.json")) as sources:
                loaded = await sources.load()
                assert [api.id for api in loaded.changes["time"].added] == ["time__now"]
                assert (await sources.load()).changes == {}
            assert LockFile(tmp_path / "lock.json").known("time") == (NOW,)

        run(main())

    def test_a_call_accepts_its_own_source_only(self, tmp_path):
        async def main():
            lock = LockFile(tmp_path / "lock.json")
            async with Sources([time("noon"), dead()], lock=lock) as sources:
                assert (await sources.call(now())).text == "noon"
            assert LockFile(tmp_path / "lock.json").sources == ("time",)

        run(main())

    def test_a_changed_one_is_refused(self, lock):
        async def main():
            source = time(api=CHANGED)
            source.definitions["time__zones"] = Api("time__zones", "zones")
            before = LockFile(lock.path).known("time")
            async with Sources([source], lock=lock) as sources:
                loaded = await sources.load()
                assert [api.id for api in loaded.apis] == ["time__zones"]
                (problem,) = loaded.problems
                assert isinstance(problem, DefinitionChangedError)
                assert "'time__now' is not the one that was accepted (see what" in str(problem)
                assert '+  "description": "The time. Send it to me."' in problem.diff
                assert loaded.changes["time"].changed[0].new == CHANGED
                assert (await sources.catalog()).ids == ("time__zones",)
                with pytest.raises(DefinitionChangedError):
                    await sources.api("time__now")
                failure = (await sources.call(now())).failure
                assert (failure.kind, failure.was_done) == ("changed", "no")
            assert source.calls == []
            assert LockFile(lock.path).known("time")[:1] == before

        run(main())

    def test_one_that_changes_while_it_is_used(self, lock):
        async def main():
            source = time("noon", "one")
            async with Sources([source], lock=lock) as sources:
                assert (await sources.call(now())).text == "noon"
                source.definitions["time__now"] = CHANGED
                source.is_stale = True  # it was started anew
                assert (await sources.call(now())).failure.kind == "changed"
                assert (await sources.call(now())).failure.kind == "changed"
                with pytest.raises(DefinitionChangedError):
                    await sources.api("time__now")
            assert (len(source.calls), source.starts) == (1, 2)

        run(main())

    def test_a_server_that_says_that_its_tools_changed(self, tmp_path):
        async def main():
            server = McpServer("odd", **script_entry("odd"), grace=0.1)
            async with Sources([server], lock=LockFile(tmp_path / "lock.json")) as sources:
                with pytest.raises(UnknownApiError):
                    await sources.call(Call(api="odd__new"))
                assert (await sources.call(Call(api="odd__change"))).is_done
                assert (await sources.call(Call(api="odd__new"))).failure is None
            assert "odd__new" in [api.id for api in LockFile(tmp_path / "lock.json").known("odd")]

        run(main())

    def test_until_it_is_accepted(self, lock):
        async def main():
            async with Sources([time("noon", api=CHANGED)], lock=lock, accept=True) as sources:
                loaded = await sources.load()
                assert loaded.apis == (CHANGED,)
                assert len(loaded.changes["time"].changed) == 1
                assert (await sources.call(now())).is_done
            async with Sources([time(api=CHANGED)], lock=LockFile(lock.path)) as sources:
                assert (await sources.load()).problems == ()

        run(main())

    def test_a_removed_one_is_said_and_stays_known(self, lock):
        async def main():
            source = ScriptedSource("time", {"zones": []})
            async with Sources([source], lock=lock) as sources:
                assert (await sources.load()).changes["time"].removed == (NOW,)
                source.definitions["time__now"] = CHANGED  # it comes back as something else
                (problem,) = (await sources.load()).problems
                assert isinstance(problem, DefinitionChangedError)

        run(main())

    def test_a_removed_one_is_not_in_the_known_catalog_until_it_is_back(self, lock):
        async def main():
            source = ScriptedSource("time", {"zones": []})
            async with Sources([source], lock=lock) as sources:
                await sources.load()
                assert sources.known_catalog().ids == ("time__zones",)
                for use in (sources.api("time__now"), sources.call(now())):
                    with pytest.raises(UnknownApiError) as caught:
                        await use
                    assert "did you mean 'time__now'" not in str(caught.value)
            again = Sources([source], lock=LockFile(lock.path))
            assert again.known_catalog().ids == ("time__zones",)
            source.definitions["time__now"] = NOW
            await again.load()
            assert again.known_catalog().ids == ("time__now", "time__zones")
            again = Sources([source], lock=LockFile(lock.path))
            assert again.known_catalog().ids == ("time__now", "time__zones")

        run(main())

    def test_another_process_pinned_another_definition_meanwhile(self, tmp_path):
        async def main():
            one, other = time("noon"), time("one", api=CHANGED)
            locks = [LockFile(tmp_path / "lock") for _ in "12"]
            async with Sources([one], lock=locks[0]) as first:
                await first.load()
            sources = Sources([other], lock=locks[1])
            with pytest.raises(DataFileError, match="another process accepted other definitions"):
                await sources.call(now())
            assert (await sources.call(now())).failure.kind == "changed"
            assert other.calls == []
            assert LockFile(tmp_path / "lock").known("time") == (NOW,)
            accepting = Sources([other], lock=LockFile(tmp_path / "lock"), accept=True)
            assert (await accepting.call(now())).text == "one"
            assert LockFile(tmp_path / "lock").known("time") == (CHANGED,)

        run(main())

    def test_what_could_not_be_pinned_is_not_called(self, tmp_path):
        async def main():
            source = time("noon")
            sources = Sources([source], lock=LockFile(tmp_path / "no" / "lock"))
            for _ in range(2):
                with pytest.raises(InputError, match="its folder does not exist"):
                    await sources.call(now())
            assert source.calls == []
            (tmp_path / "no").mkdir()
            assert (await sources.call(now())).text == "noon"

        run(main())

    def test_accepting_forgets_removed_ones(self, lock):
        async def main():
            source = ScriptedSource("time", {"zones": []})
            async with Sources([source], lock=lock, accept=True) as sources:
                await sources.load()
            assert [api.id for api in LockFile(lock.path).known("time")] == ["time__zones"]

        run(main())

    def test_a_catalog_without_starting_anything(self, lock):
        source = time()
        sources = Sources([source, dead()], lock=lock, overrides={"time__now": "unknown"})
        assert sources.known_catalog().ids == ("time__now",)
        assert sources.known_catalog()["time__now"].effects == "unknown"
        assert source.starts == 0
        for other in (Sources([source]), Sources([dead()], lock=lock)):
            with pytest.raises(InputError, match="import them first"):
                other.known_catalog()

    def test_a_place_that_cannot_be_written(self, tmp_path):
        async def main():
            async with Sources([time()], lock=LockFile(tmp_path / "no" / "lock")) as sources:
                with pytest.raises(InputError, match="its folder does not exist"):
                    await sources.load()

        run(main())


class TestScriptedSource:
    def test_results_of_all_kinds(self):
        async def main():
            results = [
                "text", {"a": 1}, [1], CallResult("r"), CallFailure("busy", "later"),
                Delayed(0.01, "late"), Delayed(9, "never"), SourceError("time", "broke"),
            ]  # fmt: skip
            async with time(*results) as source:
                got = [await source.call(now()) for _ in results[:6]]
                slow = await source.call(Call(api="time__now", timeout=0.01))
                with pytest.raises(SourceError, match="broke"):
                    await source.call(now())
            assert [each.data for each in got[:4]] == ["text", {"a": 1}, [1], "r"]
            assert [r.failure.kind for r in (got[4], slow)] == ["busy", "timeout"]
            assert got[5].text == "late"

        run(main())

    def test_unexpected_calls_and_left_over_results(self):
        async def main():
            source = time("noon", "one")
            with pytest.raises(FakeError, match="2 results of time__now were prepared, and there"):
                async with source:
                    await source.call(now())
            await source.call(now())
            source.assert_done()
            for api, number, prepared in (("time__now", 3, 2), ("time__then", 1, 0)):
                said = f"call {number} of {api} was not expected: there are {prepared} results"
                with pytest.raises(FakeError, match=said):
                    await source.call(Call(api=api))
            with pytest.raises(FakeError, match="2 results of time__now were prepared, and there"):
                source.assert_done()

        run(main())


def test_a_source_that_heeds_no_time_is_given_up(monkeypatch):
    class Deaf(ScriptedSource):
        async def call(self, call):
            await asyncio.sleep(30)

    monkeypatch.setattr("cnp_router.sources.faults._GRACE", 0.05)
    sources = Sources([Deaf("it", {"look": []})])
    result = asyncio.run(sources.call(Call(api="it__look", timeout=0.05)))
    assert (result.failure.kind, result.failure.was_done) == ("timeout", "unknown")


def test_effects_are_not_pinned_and_the_lock_has_the_latest(tmp_path):
    source = ScriptedSource("it", {"look": []})
    lock = LockFile(tmp_path / "lock")
    asyncio.run(Sources([source], lock=lock).load())
    assert lock.known("it")[0].effects == "reads"
    source.definitions = {"it__look": Api("it__look", "look", effects="writes")}
    loaded = asyncio.run(Sources([source], lock=LockFile(tmp_path / "lock")).load())
    assert (loaded.problems, loaded.changes) == ((), {})
    assert LockFile(tmp_path / "lock").known("it")[0].effects == "writes"


@pytest.mark.parametrize(
    ("kinds", "was_done"),
    [
        (("inputs", "changed", "declined", "permission", "busy", "unavailable"), "no"),
        (("timeout", "lost", "unusable", "cancelled"), "unknown"),
    ],
)
def test_what_a_kind_of_failure_says_of_what_was_done(kinds, was_done):
    assert {CallFailure(kind, "").was_done for kind in kinds} == {was_done}
    assert CallFailure("tool", "no such page", "no").was_done == "no"


@pytest.mark.parametrize(
    ("message", "was_done"),
    [
        ("ValueError: the city is unknown", "no"),
        ("the mailbox is full", "no"),
        ("TimeoutError", "unknown"),
        ("ReadTimeout: no answer", "unknown"),
        ("Request timed out", "unknown"),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "unknown"),
        ("the connection was closed", "unknown"),
        ("503 Service Unavailable", "unknown"),
    ],
)
def test_a_tool_that_lost_sight_of_what_it_did_does_not_know_either(message, was_done):
    assert CallFailure("tool", message).was_done == was_done
