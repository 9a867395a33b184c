"""Executions that share context: what is known is not called again, and whom it may reach."""

from __future__ import annotations

import asyncio
import json

import pytest

from cnp_router import Api, Catalog
from cnp_router.context import ContextStore, MemoryContextStore, RedisContextStore, SharedContext
from cnp_router.exceptions import ContextStoreError, InputError
from cnp_router.execution import Job
from cnp_router.protocols import validate
from cnp_router.sources import CallResult
from tests.execution.contextual import PAID, World, outlines
from tests.redis_server import redis_server


def tell(reference, after=("pay",), **fields):
    return Job("tell", api="mail__tell", inputs={"text": reference}, after=after, **fields)


def test_what_was_read_is_not_read_again_by_the_next_execution():
    world = World(hr_pay={"sum": 7})
    first = world.run(PAID)
    second = world.run(PAID)
    assert (first.n_calls, first.n_recalled) == (1, 0)
    assert (second.n_calls, second.n_recalled) == (0, 1)
    assert second.is_done
    assert second.results["pay"].data == {"sum": 7}
    [act] = second.acts
    assert (act.api, act.by, act.attempts) == ("hr__pay", "context", 0)
    assert "known from hr__pay" in act.result.notes[-1]
    assert len(world.calls()) == 1
    for execution in (first, second):
        for transcript in execution.transcripts:
            validate(transcript)
    assert second.to_dict()["recalled"] == 1


def test_what_depends_on_it_gets_what_was_recalled():
    world = World(hr_pay={"said": "much"})
    world.run(PAID)
    execution = world.run(PAID, tell({"$from": "pay", "path": "/said"}))
    assert execution.is_done
    assert world.calls("mail")[0].inputs == {"text": "much"}


def test_the_same_call_in_one_execution_is_an_earlier_one():
    world = World(hr_pay={"sum": 7})
    again = Job("again", api="hr__pay", inputs={"who": "Aiko"}, after=("pay",))
    execution = world.run(PAID, again)
    assert [act.by for act in execution.acts] == ["directed", "earlier"]


def test_an_equivalent_of_another_contractor_is_not_called_and_its_giver_is_named():
    world = World(hr_pay={"sum": 7})
    world.run(PAID)
    execution = world.run(Job("wage", api="union__pay", inputs={"who": "Aiko"}))
    [act] = execution.acts
    assert (act.api, act.by) == ("hr__pay", "context")
    assert world.calls("union") == []


def test_what_another_contractor_gave_is_not_what_was_asked_for():
    world = World(context=SharedContext(), hr_pay={"sum": 7}, union_pay={"sum": 8})
    world.run(PAID)
    execution = world.run(Job("wage", api="union__pay", inputs={"who": "Aiko"}))
    assert execution.results["wage"].data == {"sum": 8}


def test_what_writes_is_done_each_time():
    world = World()
    job = Job("send", api="mail__send", inputs={"text": "hello"})
    for _ in range(2):
        assert world.run(job).n_recalled == 0
    assert len(world.calls("mail")) == 2


def test_what_was_written_makes_what_was_read_there_old():
    world = World()
    told = Job("tell", api="mail__tell", inputs={"text": "a"})
    world.run(told)
    world.run(Job("send", api="mail__send", inputs={"text": "hello"}))
    assert world.run(told).n_recalled == 0


def test_a_failed_write_makes_what_was_read_there_old_too():
    world = World(mail_send=CallResult.failed("timeout", "no answer"))
    told = Job("tell", api="mail__tell", inputs={"text": "a"})
    world.run(told)
    world.run(Job("send", api="mail__send", inputs={"text": "hello"}))
    assert world.run(told).n_recalled == 0


def test_what_is_one_users_is_not_given_to_another():
    world = World(hr_pay={"sum": 7})
    world.run(PAID, user="aiko")
    assert world.run(PAID, user="ben").n_recalled == 0
    assert world.run(PAID, user="aiko").n_recalled == 1


def test_without_shared_context_all_is_called():
    world = World(hr_pay={"sum": 7})
    world.executor.context = None
    world.run(PAID)
    assert world.run(PAID).n_calls == 1


def test_a_job_that_was_recalled_is_resumed_as_it_was(tmp_path):
    world = World(hr_pay={"said": "much"}, mail_tell=CallResult.failed("tool", "no"))
    world.run(PAID)
    jobs = PAID, tell({"$from": "pay", "path": "/said"})
    first = world.run(*jobs, journal=tmp_path / "state.jsonl")
    assert (first.n_recalled, first.is_done) == (1, False)
    world.told["mail"].answers = {}
    second = world.run(*jobs, journal=tmp_path / "state.jsonl")
    assert second.is_done
    assert second.jobs[0].is_resumed
    assert len(world.calls("hr")) == 1


def test_similar_context_is_offered_to_the_model_that_fills_inputs():
    asked = []

    def model(request):
        asked.append(request.messages[1].content)
        [name] = outlines(request)
        return {"inputs": {"text": {"$from": name, "path": "/said"}}, "missing": []}

    context = SharedContext(classes={"hr__pay": "public"}, threshold=0.1)
    world = World(model=model, hr_pay={"said": "much"}, context=context)
    world.run(Job("pay", "What Aiko earns in a year.", "hr__pay", {"who": "Aiko"}))
    execution = world.run(Job("tell", "Tell Ben what Aiko earns in a year.", "mail__tell"))
    assert execution.is_done
    assert world.calls("mail")[0].inputs == {"text": "much"}
    assert "much" not in json.dumps(asked)
    assert context.counts["offered"] == 1


def test_what_is_private_is_offered_to_its_own_contractor_only():
    shown = []

    def model(request):
        shown.append(outlines(request))
        return {"inputs": {"text": "x", "value": 1}, "missing": []}

    world = World(model=model, hr_pay={"said": "much"}, context=SharedContext(threshold=0))
    world.run(PAID)
    world.run(Job("words", "In words.", "hr__words"))
    world.run(Job("tell", "Tell it.", "mail__tell"))
    assert [len(each) for each in shown] == [1, 0]


@pytest.mark.parametrize("pads", [0, 1_100_000], ids=["kept", "too long to be kept"])
def test_what_is_made_from_private_data_is_not_offered_to_others(pads):
    shown = []

    def model(request):
        shown.append(outlines(request))
        return {"inputs": {"value": 1}, "missing": []}

    context = SharedContext(classes={"mail__tell": "public"}, threshold=0)
    pay = {"said": "much", "pad": "x" * pads}
    world = World(model=model, hr_pay=pay, mail_tell="It is much.", context=context)
    assert world.run(PAID, tell({"$from": "pay", "path": "/said"})).is_done
    world.run(Job("note", "Tell it.", "chat__tell"))
    world.run(Job("words", "In words.", "hr__words"))
    assert [len(each) for each in shown] == [0, 0 if pads else 1]  # of hr there is what hr gave


def test_the_stand_in_takes_what_it_needs_from_what_is_offered():
    world = World(hr_pay={"sum": 7}, context=SharedContext(threshold=0.1))
    world.run(Job("pay", "What Aiko earns in a year.", "hr__pay", {"who": "Aiko"}))
    execution = world.run(Job("tax", "The tax on what Aiko earns in a year.", "hr__tax"))
    assert execution.is_done
    assert world.calls("hr")[1].inputs == {"sum": 7}


def test_the_stand_in_passes_on_nothing_that_a_job_does_not_wait_for():
    world = World(hr_pay={"said": "much"}, context=SharedContext(classes=lambda _: "public"))
    world.run(Job("pay", "What Aiko earns in a year.", "hr__pay", {"who": "Aiko"}))
    world.run(Job("tell", "Tell Ben what Aiko earns in a year.", "mail__tell"))
    assert "much" not in str(world.calls("mail")[0].inputs)


def test_nothing_is_offered_where_the_plan_gives_all_inputs():
    context = SharedContext(classes=lambda _: "public", threshold=0)
    world = World(context=context)
    world.run(PAID)
    world.run(Job("tell", api="mail__tell", inputs={"text": "a"}))
    assert context.counts["offered"] == 0


def test_what_has_expired_is_fetched_again_before_it_is_relied_on():
    class Clock:
        now = 1_000.0

        def __call__(self):
            return self.now

    clock = Clock()
    world = World(hr_pay={"said": "much"}, context=SharedContext(clock=clock))
    jobs = PAID, tell({"$from": "pay", "path": "/said"})
    world.run(*jobs)
    clock.now += 200
    world.run(Job("tell", api="mail__tell", inputs={"text": "much"}))  # from what is known
    clock.now += 101  # what `pay` gave has expired, and what was made from it has too
    world.run(*jobs)
    clock.now += 299
    execution = world.run(Job("tell", api="mail__tell", inputs={"text": "much"}))
    assert execution.n_recalled == 1


class Lost(MemoryContextStore):
    """A store that is lost after so many uses."""

    def __init__(self, uses):
        super().__init__()
        self.uses = uses

    def use(self):
        self.uses -= 1
        if self.uses < 0:
            raise ContextStoreError("redis://127.0.0.1:1/0", "no connection")

    async def get(self, entry_id):
        self.use()
        return await super().get(entry_id)

    async def put(self, entry):
        self.use()
        await super().put(entry)

    async def live(self):
        self.use()
        return await super().live()

    async def delete(self, *entry_ids):
        self.use()
        return await super().delete(*entry_ids)


@pytest.mark.parametrize("uses", range(7))
def test_a_lost_store_loses_nothing_and_is_said_once(uses, caplog):
    assert issubclass(Lost, ContextStore)
    world = World(hr_pay={"said": "much"}, context=SharedContext(Lost(uses)))
    more = [Job(f"send-{n}", api="mail__send", inputs={"text": f"{n}"}) for n in range(3)]
    execution = world.run(PAID, tell({"$from": "pay", "path": "/said"}), *more)
    assert execution.is_done
    assert len(world.calls()) == 5
    assert "no connection" in execution.context_problem
    assert execution.to_dict()["context_problem"] == execution.context_problem
    assert {job.lost for job in execution.jobs} == {""}  # jobs go as usual
    assert {act.by for act in execution.acts} == {"directed"}
    said = [record for record in caplog.records if "shared context" in record.message]
    assert len(said) == 1


def test_classes_hold_where_the_store_is_lost():
    context = SharedContext(Lost(0), classes={"hr__*": "confidential"})
    world = World(hr_pay={"said": "much"}, context=context)
    assert not world.run(PAID, tell({"$from": "pay", "path": "/said"})).is_done
    assert world.calls("mail") == []


def test_a_redis_server_that_dies_stops_no_execution():
    with redis_server() as server:
        store = RedisContextStore(server.url, timeout=0.5)
        world = World(hr_pay={"said": "much"}, context=SharedContext(store))
        other = World(hr_pay={"said": "much"}, context=SharedContext(RedisContextStore(server.url)))
        assert world.run(PAID).n_recalled == 0
        assert other.run(PAID).n_recalled == 1  # as in another process
        server.stop()
        execution = world.run(PAID)
    assert execution.is_done
    assert f"127.0.0.1:{server.port}" in execution.context_problem
    for each in (world, other):
        asyncio.run(each.context.aclose())


def test_a_redis_server_that_dies_in_the_middle_stops_no_execution(caplog):
    with redis_server() as server:

        def dies(call):
            server.stop()
            return "in words"

        store = RedisContextStore(server.url, timeout=0.5)
        world = World(hr_pay={"said": "much"}, hr_words=dies, context=SharedContext(store))
        said = {"$from": "pay", "path": "/said"}
        words = Job("words", api="hr__words", inputs={"value": said}, after=("pay",))
        more = [
            Job(f"note {n}", api="chat__tell", inputs={"value": said}, after=("pay", "words"))
            for n in range(3)
        ]
        last = tell({"$from": "words", "path": ""}, ("words",))
        execution = world.run(PAID, words, *more, last)
    assert execution.is_done
    assert len(world.calls("hr")) == 2
    assert world.calls("mail")[0].inputs == {"text": "in words"}
    assert f"127.0.0.1:{server.port}" in execution.context_problem
    warned = [each for each in caplog.records if each.levelname == "WARNING"]
    assert len(warned) == 1
    asyncio.run(world.context.aclose())


def test_an_encoder_that_is_lost_stops_no_execution():
    def encoder(texts):
        raise ValueError("no vectors")

    world = World(hr_pay={"said": "much"}, context=SharedContext(vectors=encoder))
    execution = world.run(PAID)
    assert execution.is_done
    assert "no vectors" in execution.context_problem


def test_a_class_for_a_tool_that_is_not_there_is_refused_before_anything_is_called():
    world = World(context=SharedContext(classes={"hr__pya": "confidential"}))
    with pytest.raises(InputError, match="hr__pya"):
        world.run(PAID)
    assert world.calls() == []


def test_context_must_be_shared_context():
    world = World()
    net, sources = world.executor.net, world.executor.sources
    with pytest.raises(InputError, match="context must be of type SharedContext"):
        type(world.executor)(net, sources, context={})


def test_reads_of_a_source_that_ran_while_it_was_written_are_not_kept():
    world = World()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(call):
        begun.set()
        await go_on.wait()
        return CallResult("old")

    async def write(call):
        await begun.wait()
        go_on.set()
        return CallResult("sent")

    world.told["mail"].answers = {
        "mail__tell": slow,
        "mail__send": write,
    }
    told = Job("tell", api="mail__tell", inputs={"text": "a"})
    world.run(told, Job("send", api="mail__send", inputs={"text": "hello"}))
    world.told["mail"].answers = {}
    assert world.run(told).n_recalled == 0


def test_catalogs_of_others_are_known_for_equivalents():
    twin = Api("other__pay", "pay", "What somebody earns.", (), None, "reads")
    context = SharedContext()
    context.know(Catalog([twin]))
    world = World(context=context, hr_pay={"sum": 7})
    world.run(PAID)
    assert world.run(PAID).n_recalled == 1
