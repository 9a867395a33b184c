from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from doors import APIS, QUICK, World, gateway, run, until

from cnp_router import Catalog, Forgetting, fit_router
from cnp_router.exceptions import DataFileError, InputError, ModelCorruptError
from cnp_router.history import History, Mashup
from cnp_router.online import OnlineStore
from cnp_router.online.database import Database
from cnp_router.prediction import NextToolPolicy, NextToolRouter
from cnp_router.serving import Client, LoggedSearch, SearchLog, Teaching
from cnp_router.serving.logged import LoggedCall
from cnp_router.sources import CallResult
from cnp_router.trajectories import Step, Trajectory

PAST = (("rain in town", "sky__rain"), ("wind at sea", "sky__wind"), ("my mail", "mail__read"))
ANN, BOB = Client("ann"), Client("bob")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "online.sqlite"


@pytest.fixture
def log():
    with SearchLog() as made:
        yield made


def searched(log, name, *calls, client="ann", query="rain in a city", rating=None):
    """Note a search, and what was called for it."""
    log.add(LoggedSearch(name, client, log.clock(), query, (), (), 0.9, True, True, rating))
    called(log, name, *calls, client=client)


def called(log, name, *calls, client="ann"):
    for call in calls:
        begun = log.begin(name, client, call.api, call.inputs, since=0.0)
        log.end(begun, call)


def good(api, observation="sun"):
    return LoggedCall(api, {"city": "Nara"}, observation, True, True)


def failed(api):
    return LoggedCall(api, {}, "no such city", False, False)


def records(store):
    return OnlineStore.records_after(store, 0)[1]


def test_what_came_of_a_search_is_learned(store, tmp_path):
    past = [Mashup(f"m{n}", f"{text} {n}", (api,)) for n in range(15) for text, api in PAST]
    router = fit_router(Catalog(APIS), History(replace(m, id=f"{m.id}-{m.apis}") for m in past))
    request = "umbrella or sunglasses"

    async def main():
        teaching = Teaching(store, router, every=0.02)
        async with gateway(router=router, teaching=teaching, settings=QUICK) as door:
            search = await door.search(request, client=ANN)
            assert not search.fits
            await door.call("sky__wind", {"city": "Nara"}, search.search_id, client=ANN)
            await door.rate(search.search_id, 5, client=ANN)
            await until(lambda: teaching.sequence)
            found = await door.search(request, client=BOB)
            assert door.status()["learns"]
            return search.search_id, found

    name, found = run(main())
    assert found.fits
    (tool,) = (each for each in found.to_dict()["tools"] if each["name"] == "sky__wind")
    assert tool["reasons"][0] == "used by a similar past request"
    assert request not in str(found.to_dict()["tools"])  # ann's words
    trajectory, mashup = records(store)
    assert trajectory.id == mashup.id == f"search-{name}"
    assert trajectory.goal == mashup.description == request
    assert trajectory.user == mashup.user == "ann"
    assert mashup.apis == trajectory.tools == ("sky__wind",)
    assert trajectory.success is True
    assert trajectory.steps[0].inputs == {"city": "Nara"}
    assert trajectory.steps[0].observation == "fine"
    assert mashup.date is not None


def test_what_is_left_at_the_end_is_learned(store):
    async def main():
        async with gateway(teaching=Teaching(store, every=60)) as door:
            search = await door.search("rain")
            await door.call("sky__rain", {"city": "x"}, search.search_id)

    run(main())
    assert len(records(store)) == 2


@pytest.mark.parametrize(
    ("rating", "calls", "success", "apis"),
    [
        (None, [good("sky__rain")], None, ("sky__rain",)),
        (3, [good("sky__rain")], None, ("sky__rain",)),
        (4, [good("sky__rain")], True, ("sky__rain",)),
        (2, [good("sky__rain")], False, None),
        (1, [good("sky__rain"), good("sky__wind")], False, None),
        (None, [failed("sky__rain"), good("sky__wind")], None, ("sky__wind",)),
        (None, [failed("sky__rain")], False, None),
        (None, [good("a__b"), good("sky__rain"), good("a__b")], None, ("a__b", "sky__rain")),
    ],
)
def test_what_is_made_of_a_search(store, log, rating, calls, success, apis):
    searched(log, "a1", *calls, rating=rating)
    log.finish_own()
    assert Teaching(store).turn(log) == 1
    trajectory, *mashups = records(store)
    assert isinstance(trajectory, Trajectory)
    assert trajectory.success is success
    assert trajectory.tools == tuple(call.api for call in calls)
    assert [m.apis for m in mashups] == ([] if apis is None else [apis])


def test_a_tool_that_the_router_does_not_know_is_in_no_mashup(store, log):
    searched(log, "a1", good("new__tool"))
    searched(log, "a2", good("new__tool"), good("sky__rain"))
    log.finish_own()
    assert Teaching(store, fit_router(Catalog(APIS))).turn(log) == 2
    assert [m.apis for m in records(store) if isinstance(m, Mashup)] == [("sky__rain",)]


def test_a_search_is_over_after_a_while(store):
    now = [1000.0]
    with SearchLog(clock=lambda: now[0]) as log:
        teaching = Teaching(store, idle=300)
        searched(log, "a1", good("sky__rain"))
        now[0] += 299
        called(log, "a1", good("sky__wind"))
        assert teaching.turn(log) == 0
        now[0] += 299
        assert teaching.turn(log) == 0
        assert not store.exists()
        now[0] += 1
        assert teaching.turn(log) == 1
        assert records(store)[0].tools == ("sky__rain", "sky__wind")
        called(log, "a1", good("mail__read"))  # it goes on all the same
        now[0] += 301
        assert teaching.turn(log) == 1
        assert [r.id for r in records(store)] == ["search-a1"] * 2 + ["search-a1-2"] * 2
        assert records(store)[2].tools == ("mail__read",)
        assert records(store)[2].goal == "rain in a city"
        assert teaching.turn(log) == 0


def test_without_teaching_no_words_stay_longer_than_a_search_can_be_used(tmp_path, store):
    now = [1000.0]
    secret = "CANARY-4711"
    file = tmp_path / "log.sqlite"

    async def main(log):
        async with gateway(log=log) as door:
            search = await door.search(f"rain, {secret} query", client=ANN)
            inputs = {"city": f"{secret} city"}
            called = await door.call("sky__rain", inputs, search.search_id, client=ANN)
            assert called.result.is_done
            await door.rate(search.search_id, 5, client=ANN)

    def held():
        return b"".join(each.read_bytes() for each in tmp_path.glob("log.sqlite*"))

    with SearchLog(file, clock=lambda: now[0]) as log:
        searched(log, "a1", good("sky__rain", observation=f"{secret} result"))  # before
        run(main(log))
        assert f"{secret} city".encode() not in held()
        assert f"{secret} result".encode() in held()
        now[0] += 3601
        run(main_of(None, log))
        assert secret.encode() not in held()
        newest, first = log.searches()
        assert (newest.client, newest.query, newest.called) == ("", "", ("sky__rain",))
        assert first.called == ("sky__rain",)
        assert log.accuracy()["all"].n_called == 2
        # Who learns later learns nothing of it.
        run(main_of(Teaching(store, idle=0.01), log))
        assert not store.exists()


@pytest.mark.parametrize("over", ["rated", "its worker ends"])
def test_a_search_that_is_over_while_a_call_runs_teaches_what_came_of_it(tmp_path, store, over):
    released = asyncio.Event()

    async def slow(call):
        await released.wait()
        return CallResult("sun")

    async def main():
        sky = World("sky", {"sky__rain": slow})
        with SearchLog(tmp_path / "log") as here, SearchLog(tmp_path / "log") as there:
            teaching = Teaching(store)
            async with (
                gateway(log=here) as one,
                gateway(sky, log=there, teaching=Teaching(store, every=60)) as other,
            ):
                search = await one.search("rain")
                about = ("sky__rain", {"city": "x"}, search.search_id)
                calling = asyncio.create_task(other.call(*about))
                while not sky.calls:
                    await asyncio.sleep(0.01)
                if over == "rated":
                    await one.rate(search.search_id, 5)
                else:
                    here.finish_own()
                assert teaching.turn(here) == 0
                released.set()
                await calling
                assert teaching.turn(here) == 1

    run(main())
    trajectory, mashup = records(store)
    assert trajectory.steps[0].success is True
    assert trajectory.steps[0].observation == "sun"
    assert mashup.apis == ("sky__rain",)


def test_a_search_after_which_nothing_was_called_teaches_nothing(store, log):
    searched(log, "a1", rating=5)
    log.finish_own()
    assert Teaching(store).turn(log) == 0
    assert not store.exists()


def test_what_was_taught_leaves_the_log(store, tmp_path):
    now = [1000.0]
    file = tmp_path / "log.sqlite"
    with SearchLog(file, clock=lambda: now[0]) as log:
        searched(log, "a1", good("sky__rain"), client="ann-canary", query="query-canary")
        called(
            log,
            "a1",
            LoggedCall("sky__wind", {"a": "input-canary"}, "result-canary", True, True),
            client="ann-canary",
        )
        log.finish_own()
        log.tidy(since=now[0] + 10_000)
        assert log.searches()[0].query  # it was not taught yet
        assert Teaching(store).turn(log) == 1
        assert log.searches()[0].client == "ann-canary"  # it can still be used
        log.tidy(since=now[0] + 10_000)
        (row,) = log.searches()
        assert (row.client, row.query) == ("", "")
        assert row.called == ("sky__rain", "sky__wind")
        assert log.accuracy()["acted"].n_called == 2
        held = b"".join(each.read_bytes() for each in tmp_path.glob("log.sqlite*"))
    for canary in (b"ann-canary", b"query-canary", b"input-canary", b"result-canary"):
        assert canary not in held


def test_who_does_not_get_the_store_teaches_later(store, log):
    searched(log, "a1", good("sky__rain"))
    log.finish_own()
    teaching = Teaching(store)
    with OnlineStore(store, []):
        assert teaching.turn(log) == 0
        assert teaching.problem == ""
    assert teaching.turn(log) == 1
    assert len(records(store)) == 2


def test_a_store_that_is_damaged_is_said_and_nothing_is_lost(store, log, caplog):
    teaching = Teaching(store, every=0.01)

    async def main():
        async with gateway(teaching=teaching, log=log, settings=QUICK) as door:
            store.write_bytes(b"this is no database" * 1000)
            search = await door.search("rain")
            await door.call("sky__rain", {"city": "x"}, search.search_id)
            log.finish_own()
            # By the gateway's own thread alone: turns are for one thread.
            await until(lambda: teaching.problem)
            assert door.status()["problems"] == ["nothing is learned at present"]
            assert not door.status()["learns"]

    run(main())
    assert "online.sqlite" in teaching.problem
    assert caplog.text.count("nothing is learned at present") == 1
    with pytest.raises(ModelCorruptError, match="restore it from a backup"):
        run(main_of(Teaching(store)))
    store.unlink()
    assert teaching.turn(log) == 1
    assert teaching.problem == ""


async def main_of(teaching, log=None):
    async with gateway(teaching=teaching, log=log):
        pass


def test_many_calls_are_taught_in_pieces(store, log, monkeypatch):
    monkeypatch.setattr("cnp_router.serving.teaching._CALLS_AT_ONCE", 5)
    for n in range(3):
        searched(log, f"a{n}", *[good("sky__rain")] * 4)
    log.finish_own()
    teaching = Teaching(store)
    assert [(teaching.turn(log), teaching.is_behind) for _ in range(2)] == [(2, True), (1, False)]
    assert teaching.next_tool.n_trajectories == 3


def test_a_query_that_no_store_takes_holds_up_nobody(store, log, caplog):
    searched(log, "a1", LoggedCall("sky__rain", {}, "x", True, True), query="fine")
    searched(log, "a2", good("sky__wind"))
    log.finish_own()
    teaching = Teaching(store)
    first = log.finished(idle=0)[0]
    broken = replace(first, calls=(LoggedCall("sky__rain", {"x": {1}}, "", True, True),))
    assert teaching._teach([broken], log, lambda work: work()) == 1
    assert "is not learned" in caplog.text
    assert teaching.turn(log) == 1


def test_few_records_write_no_checkpoint(store, log, monkeypatch):
    written = []
    write = Database.write_checkpoint
    monkeypatch.setattr(
        Database, "write_checkpoint", lambda *given: (written.append(given[1]), write(*given))
    )
    teaching = Teaching(store)
    for n in range(3):
        for m in range(50):
            searched(log, f"a{n}-{m}", good("sky__rain"))
        log.finish_own()
        assert teaching.turn(log) == 50
    assert written == [200]  # of 300 records
    late = Teaching(store)
    assert late.take_over() == teaching.sequence == 300
    assert late.next_tool.n_trajectories == teaching.next_tool.n_trajectories == 150
    assert late.reputation.rate("sky__rain") == teaching.reputation.rate("sky__rain") > 0.9


def test_a_disk_that_fails_is_no_bad_record(store, log, monkeypatch):
    teaching = Teaching(store)
    searched(log, "a1", failed("sky__rain"))  # one record: no mashup
    log.finish_own()
    with monkeypatch.context() as broken:

        def full(*_):
            raise DataFileError(store, "cannot be used: database or disk is full")

        broken.setattr(Database, "append", full)
        assert teaching.turn(log) == 0
        assert "disk is full" in teaching.problem
    assert teaching.turn(log) == 1
    assert teaching.problem == ""
    assert teaching.next_tool.n_trajectories == len(records(store)) == 1


def test_what_was_learned_before_something_broke_is_not_learned_again(store, log, monkeypatch):
    teaching = Teaching(store)
    for n in range(120):
        searched(log, f"a{n}", good("sky__rain"))
    log.finish_own()
    with monkeypatch.context() as broken:

        def broken_off(*_):
            raise MemoryError

        broken.setattr(OnlineStore, "_try_to_write_checkpoint", broken_off)
        with pytest.raises(MemoryError):
            teaching.turn(log)
    assert teaching.turn(log) == 120
    assert teaching.next_tool.n_trajectories == 120
    assert len(records(store)) == 240


@pytest.mark.parametrize("bad", [0, 4, 6])
def test_the_others_of_a_bad_record_are_learned_together(store, log, monkeypatch, caplog, bad):
    sizes, observe_many = [], OnlineStore.observe_many

    def observed(store, given):
        sizes.append(len(given))
        return observe_many(store, given)

    monkeypatch.setattr(OnlineStore, "observe_many", observed)
    teaching = Teaching(store)
    given = [Trajectory(f"t{n}", "rain", (Step("sky__rain"),)) for n in range(7)]
    object.__setattr__(given[bad].steps[0], "inputs", {"x": {1}})
    with OnlineStore(store) as open_store:
        teaching._observe(open_store, given)
    assert [r.id for r in records(store)] == [f"t{n}" for n in range(7) if n != bad]
    assert sum(sizes) <= 7 * 4
    assert caplog.text.count("is not learned") == 1


# Others teach too


def test_what_others_have_taught_is_taken_over(store, log):
    routers = [fit_router(Catalog(APIS)) for _ in range(2)]
    one, two = (Teaching(store, router) for router in routers)
    for n in range(4):
        searched(log, f"a{n}", good("sky__wind"), failed("sky__rain"), query="umbrella?")
        log.finish_own()
        assert (one if n % 2 else two).turn(log) == 1
    for teaching, router in zip((one, two), routers, strict=True):
        teaching.take_over()
        assert teaching.sequence == 8
        assert teaching.next_tool.n_trajectories == 4
        assert teaching.reputation.counts("sky__rain")[1] == pytest.approx(4, rel=1e-2)
        assert len(router.history) == 4
    # A new worker learns the same, from the checkpoint.
    late = Teaching(store, fit_router(Catalog(APIS)))
    assert late.take_over() == 8
    assert late.next_tool.n_trajectories == 4
    assert late.reputation.counts("sky__rain") == one.reputation.counts("sky__rain")


def test_where_nothing_is_new_nothing_is_read(store, log, monkeypatch):
    searched(log, "a1", good("sky__rain"))
    log.finish_own()
    one, two = Teaching(store), Teaching(store)
    one.turn(log)
    two.take_over()
    read = []
    original = OnlineStore.records_after
    monkeypatch.setattr(
        OnlineStore,
        "records_after",
        staticmethod(lambda path, n: read.append(n) or original(path, n)),
    )
    for _ in range(5):
        assert two.turn(log) == 0
    assert read == []
    searched(log, "a2", good("sky__rain"))
    log.finish_own()
    one.turn(log)
    read.clear()
    assert two.take_over() == 2
    assert min(read) == 1  # from the last that it knew


def test_what_was_forgotten_is_not_taught_again(store, log):
    router = fit_router(Catalog(APIS))
    one = Teaching(store, router)
    for n, client in enumerate(("ann", "bob", "ann")):
        searched(log, f"a{n}", good("sky__rain"), client=client, query=f"canary of {client} {n}")
    log.finish_own()
    assert one.turn(log) == 3
    with OnlineStore(store, []) as opened:
        forgotten = opened.forget(Forgetting(users=("ann",)))
    assert len(forgotten.mashups) == len(forgotten.trajectories) == 2
    for n in range(2):  # as many as are gone: by their number nobody would see it
        searched(log, f"b{n}", good("sky__wind"), client="bob")
    log.finish_own()
    assert one.turn(log) == 2
    assert one.next_tool.n_trajectories == 3
    assert one.reputation.counts("sky__rain")[0] == pytest.approx(1, abs=1e-3)
    held = b"".join(each.read_bytes() for each in store.parent.glob("online.sqlite*"))
    assert b"canary of ann" not in held
    assert b"canary of bob" in held
    late = Teaching(store, fit_router(Catalog(APIS)))
    late.take_over()
    assert late.next_tool.n_trajectories == 3
    assert late.reputation.counts("sky__wind") == one.reputation.counts("sky__wind")


# What is learned shows


def test_tools_that_failed_more_often_than_not_come_behind(store, log):
    for n in range(3):
        searched(log, f"a{n}", failed("sky__rain"), good("sky__wind"))
    log.finish_own()
    teaching = Teaching(store)
    teaching.turn(log)

    async def main():
        async with gateway(teaching=teaching, log=log) as door:
            return await door.search("forecasts rain and sun, and wind, for a city")

    search = run(main())
    names = [tool.api.id for tool in search.tools]
    assert names.index("sky__wind") < names.index("sky__rain") == len(names) - 1
    last = search.tools[-1]
    assert last.often_fails
    assert last.to_dict()["reasons"][-1] == "failed more often than not: 3 of 3 calls"
    assert search.routing.recipients[0].contractor == "sky__rain"


def test_likely_next_tools_where_it_is_sure(store, log):
    for n in range(30):
        searched(log, f"a{n}", good("sky__rain"), good("mail__read"), query="rain, then mail")
    log.finish_own()

    async def answers(teaching, client=ANN):
        async with gateway(teaching=teaching) as door:
            search = await door.search("rain, then mail", client=client)
            return [
                (await door.call(name, inputs, search.search_id, client=client)).to_dict()["next"]
                for name, inputs in (("sky__rain", {"city": "x"}), ("mail__read", {}))
            ]

    sure = Teaching(store, next_tool=NextToolRouter(policy=NextToolPolicy.fixed(0.6)))
    sure.turn(log)
    after_rain, _ = run(answers(sure))
    assert after_rain[0]["name"] == "mail__read"
    assert after_rain[0]["probability"] > 0.6
    assert run(answers(sure, Client("bob", exclude=("mail__send",))))[0]
    # A client is told of nothing that it may not see.
    hidden = Client("eve", among=("sky__*",))

    async def eve():
        async with gateway(teaching=sure) as door:
            search = await door.search("rain", client=hidden)
            called = await door.call("sky__rain", {"city": "x"}, search.search_id, client=hidden)
            return called.next

    assert run(eve()) == ()
    unsure = Teaching(store)  # until 100 trajectories were seen
    assert run(answers(unsure)) == [[], []]


def test_confidential_calls_teach_without_what_went_in_and_came_back(store):
    mail = World("mail", {"mail__read": CallResult("CANARY-4711")})

    async def main():
        about = {"classes": {"mail__*": "confidential"}, "teaching": Teaching(store)}
        async with gateway(mail, **about) as door:
            search = await door.search("read")
            await door.call("mail__read", {"text": "CANARY-4711"}, search.search_id)

    run(main())
    (step,) = records(store)[0].steps
    assert (step.tool, step.inputs, step.observation, step.success) == ("mail__read", {}, "", True)
    assert b"CANARY" not in store.read_bytes()


@pytest.mark.parametrize("wrong", [{"idle": 0}, {"every": 0}, {"idle": "x"}])
def test_times_that_cannot_be(store, wrong):
    with pytest.raises(InputError):
        Teaching(store, **wrong)


# Real processes

HERE = Path(__file__).parent


def start(tmp_path, *args):
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(HERE / "teach_in_processes.py"), str(tmp_path), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process):
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    assert err == ""
    return json.loads(out)


@pytest.mark.parametrize("when", ["written", "half"])
def test_several_processes_teach_one_store_and_one_is_killed(tmp_path, store, when):
    n = 12
    with ExitStack() as ended:
        victim = ended.enter_context(start(tmp_path, "victim", "10000", when))
        workers = [ended.enter_context(start(tmp_path, name, str(n))) for name in ("one", "two")]
        victim.communicate(timeout=150)
        assert victim.returncode == -signal.SIGKILL
        done = [finish(worker) for worker in workers]
    with start(tmp_path, "last", "0") as process:
        last = finish(process)
    with SearchLog(tmp_path / "log.sqlite") as log:
        searches = log.searches(1000)
        made = {s.id for s in searches if s.called}
        assert log.finished(idle=10**6) == ()
    trajectories = [r for r in records(store) if isinstance(r, Trajectory)]
    calls = [step.inputs["n"] for each in trajectories for step in each.steps]
    assert {each.id.split("-")[1] for each in trajectories} == made
    assert len(calls) == len(set(calls))  # nothing is counted twice
    assert len(calls) >= 2 * n + 1  # and nothing lost
    assert sum(each["taught"] for each in [*done, last]) >= 1
    assert last["n_trajectories"] == len(trajectories)
    assert last["rate"] == pytest.approx(done[0]["rate"], abs=0.2)


def test_a_client_is_forgotten_by_the_command(tmp_path):
    from click.testing import CliRunner

    from cnp_router.cli.app import app as command

    folder = tmp_path / "model"
    folder.mkdir()
    store = folder / "online.sqlite"

    async def work():
        async with gateway(teaching=Teaching(store)) as door:
            for client in (ANN, BOB):
                search = await door.search(f"rain for {client.name}", client=client)
                about = {"client": client}
                await door.call("sky__rain", {"city": "x"}, search.search_id, **about)

    run(work())
    done = CliRunner().invoke(command, ["forget", "--model", str(folder), "--user", "ann"])
    assert done.exit_code == 0, done.output
    assert {record.user for record in records(store)} == {"bob"}
    assert b"rain for ann" not in store.read_bytes()
