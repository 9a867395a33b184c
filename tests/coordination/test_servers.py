"""Negotiation and propagation with real MCP servers: objects, processes, behind a URL."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tool_servers import no_process_left, served

from cnp_router import Catalog, ContractNet, Executor, Job, Plan, offline_model
from cnp_router.context import ContextEntry, SharedContext
from cnp_router.coordination import Negotiator
from cnp_router.coordination.rpc import PROPAGATE
from cnp_router.execution import ExecutionSettings, allow_writes
from cnp_router.sources import FunctionSource, McpServer, Sources

SCRIPT = Path(__file__).parents[1] / "sources" / "servers" / "coordinating.py"
sys.path.insert(0, str(SCRIPT.parent))

from coordinating import coordinating_server  # noqa: E402

ERAS = ("auto", "legacy")
WAYS = ("object", "process", "url")
QUICK = ExecutionSettings(wait=(0, 0), timeout=20, attempts=1)


@contextlib.asynccontextmanager
async def servers(way: str, mode: str = "auto", **how: str) -> AsyncIterator[Sources]:
    """Yield the sources of some servers, started; `how` says what each does."""
    with contextlib.ExitStack() as stack:
        sources = []
        for name, what in how.items():
            where: dict[str, Any] = {"server": coordinating_server(*what.split())}
            if way == "process":
                where = {"command": sys.executable, "args": [str(SCRIPT), *what.split()]}
            elif way == "url":
                app = coordinating_server(*what.split()).streamable_http_app()
                where = {"url": stack.enter_context(served(app)) + "/mcp"}
            sources.append(McpServer(name, mode=mode, trusted=True, **where))
        effects = dict.fromkeys((f"{name}__draw" for name in how), "reads")
        async with Sources(sources, overrides=effects) as there:
            await there.load()
            yield there


@pytest.fixture(autouse=True)
def nothing_left():
    with no_process_left():
        yield


def negotiated(way: str, mode: str = "auto", **how: str) -> Any:
    async def main() -> Any:
        async with servers(way, mode, **how) as there:
            negotiator = Negotiator(there, timeout=20.0)
            match = {f"{name}__draw": 0.9 - n / 100 for n, name in enumerate(how)}
            found = await negotiator.negotiate("a map", list(match), match=match)
            return negotiator, found

    return asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("way", WAYS)
def test_servers_that_declare_it_speak_for_themselves(way, mode):
    negotiator, found = negotiated(way, mode, no="declines", yes="", mute="hidden")
    assert found.order == ("yes__draw", "mute__draw")
    assert found.declined == {"no__draw": "no paper left"}
    assert {each.api: each.said_by for each in found.offers} == {
        "no__draw": "server", "yes__draw": "server", "mute__draw": "coordinator",
    }  # fmt: skip
    assert list(negotiator.notes) == []
    assert negotiator.n_messages == 8  # two servers: discover and negotiate, a question and answer


@pytest.mark.parametrize(
    ("what", "way"), [("nonsense", "object"), ("nonsense", "url"), ("dies", "process")]
)
def test_a_server_whose_answers_are_none_is_spoken_for(what, way):
    negotiator, found = negotiated(way, odd=what, yes="")
    assert found.order == ("odd__draw", "yes__draw")
    assert found.offers[0].said_by == "coordinator"
    assert negotiator.notes


def test_who_declines_in_many_words_declines():
    _, found = negotiated("url", odd="long", yes="")
    assert found.order == ("yes__draw",)
    assert found.declined["odd__draw"].startswith("xxx")


def test_a_slow_one_is_waited_for_a_short_time():
    async def main():
        async with servers("object", odd="slow", yes="") as there:
            negotiator = Negotiator(there, timeout=0.2)
            match = {"odd__draw": 0.9, "yes__draw": 0.8}
            began = time.perf_counter()
            found = await negotiator.negotiate("a map", list(match), match=match)
            return found, time.perf_counter() - began

    found, seconds = asyncio.run(main())
    assert found.order == ("odd__draw", "yes__draw")
    assert seconds < 5


def test_one_that_was_not_started_is_not_started_for_a_question():
    async def main():
        server = McpServer("maps", server=coordinating_server("declines"))
        async with Sources([server]) as there:
            negotiator = Negotiator(there)
            found = await negotiator.negotiate("a map", ["maps__draw"], match={"maps__draw": 1.0})
            return found, server._connection

    found, connection = asyncio.run(main())
    assert found.order == ("maps__draw",)
    assert connection is None


@pytest.mark.parametrize("way", ["object", "process"])
def test_an_execution_passes_over_who_declines(way):
    async def main():
        async with servers(way, no="declines", yes="", mute="hidden") as there:
            catalog = await there.catalog()
            negotiator = Negotiator(there)
            executor = Executor(
                ContractNet(catalog, offline_model(catalog)), there,
                approve=allow_writes, settings=QUICK, negotiator=negotiator,
            )  # fmt: skip
            overrides = dict.fromkeys(catalog.ids, "reads")
            there.overrides.update(overrides)
            await there.load()
            catalog = await there.catalog()
            executor.net = ContractNet(catalog, offline_model(catalog))
            return await executor.execute(Plan("a map", (Job("map", "", "no__draw", {}),)))

    execution = asyncio.run(main())
    assert execution.is_done
    assert [act.api for act in execution.acts] == ["yes__draw"]


def test_all_declined_is_said():
    async def main():
        async with servers("object", a="declines", b="declines") as there:
            catalog = await there.catalog()
            executor = Executor(
                ContractNet(catalog, offline_model(catalog)), there,
                approve=allow_writes, settings=QUICK, negotiator=Negotiator(there),
            )  # fmt: skip
            return await executor.execute(Plan("a map", (Job("map", "", "a__draw", {}),)))

    execution = asyncio.run(main())
    assert not execution.is_done
    assert (
        execution.jobs[0].problem == ("all that could do it declined ('a__draw': no paper left)")
        or "no paper left" in execution.jobs[0].problem
    )
    assert execution.jobs[0].acts == []


def entry(id_: str, source: str, class_: str, *, age: float = 0.0, **fields: Any) -> ContextEntry:
    fields = {"data": {"said": id_}, "time": time.time() - age, "ttl": 300.0, **fields}
    return ContextEntry(id=id_, source=source, data_class=class_, **fields)


def entries() -> tuple[ContextEntry, ...]:
    """Return some of each class."""
    return (
        entry("ctx_public", "sky__look", "public", vector=(0.5, -0.25)),
        entry("ctx_private", "sky__look", "private"),
        entry("ctx_confidential", "hr__salary", "confidential"),
        entry("ctx_own", "maps__draw", "confidential"),
        entry("ctx_old", "sky__look", "public", age=301),
        entry("ctx_made", "sky__look", "public", dependencies=("ctx_public", "ctx_confidential")),
    )


def propagated(*, needed=(), times=1, what="", way="object"):
    async def main():
        server = coordinating_server(*what.split())
        async with Sources([McpServer("maps", server=server)]) as there:
            await there.load()
            negotiator = Negotiator(there, timeout=20.0)
            found = entries()
            kept = [
                await negotiator.propagate("maps__draw", found, needed=needed) for _ in range(times)
            ]
            sent = [params for method, params in server.received if method == PROPAGATE]
            return negotiator, kept, sent

    return asyncio.run(main())


class TestPropagation:
    def test_only_what_its_class_allows_is_sent(self):
        _, (kept,), sent = propagated()
        assert kept == ("ctx_public", "ctx_own", "ctx_made")
        assert [each["context_id"] for each in sent] == list(kept)

    def test_what_a_job_needs_is_sent_but_never_what_is_confidential(self):
        needed = ("ctx_private", "ctx_confidential")
        _, (kept,), sent = propagated(needed=needed)
        assert kept == ("ctx_public", "ctx_private", "ctx_own", "ctx_made")
        assert "ctx_confidential" not in str(sent)
        assert "hr" not in [each["source_server"] for each in sent]

    def test_the_fields(self):
        _, _, (first, *_, made) = propagated()
        assert first["source_server"] == "sky"
        assert first["data"] == {"said": "ctx_public"}
        assert first["embedding"] == [0.5, -0.25]
        assert 200 < first["ttl"] <= 300
        assert first["dependencies"] == []
        assert made["dependencies"] == ["ctx_public"]

    def test_each_is_sent_once(self):
        _, kept, sent = propagated(times=3)
        assert kept[1:] == [(), ()]
        assert len(sent) == 3

    def test_a_server_that_does_not_declare_it_is_sent_nothing(self):
        negotiator, (kept,), sent = propagated(what="hidden")
        assert (kept, sent) == ((), [])
        assert not negotiator.keeps_context("maps__draw")

    def test_a_wrong_answer_ends_it_and_is_noted(self):
        negotiator, (kept,), sent = propagated(what="nonsense")
        assert kept == ()
        assert len(sent) == 1
        assert "context/propagate of source 'maps' is not used any more" in negotiator.notes[0]

    @pytest.mark.parametrize("mode", ERAS)
    @pytest.mark.parametrize("way", WAYS)
    def test_over_every_way(self, way, mode):
        async def main():
            async with servers(way, mode, maps="") as there:
                return await Negotiator(there).propagate("maps__draw", entries())

        assert asyncio.run(main()) == ("ctx_public", "ctx_own", "ctx_made")

    def test_in_an_execution(self):
        """What one job found goes to the server of the next, but for what is confidential."""

        def look(city: str) -> dict[str, str]:
            """Look at the sky of a city."""
            return {"sky": f"rain in {city}"}

        def salary(name: str) -> dict[str, str]:
            """Tell a salary."""
            return {"salary": f"secret of {name}"}

        async def main():
            server = coordinating_server()
            sources = [
                FunctionSource("sky", [look], effects={"look": "reads"}),
                FunctionSource("hr", [salary], effects={"salary": "reads"}),
                McpServer("maps", server=server),
            ]
            async with Sources(sources) as there:
                catalog = Catalog(await there.catalog())
                classes = {"sky__look": "private", "hr__salary": "confidential"}
                async with SharedContext(classes=classes) as context:
                    executor = Executor(
                        ContractNet(catalog, offline_model(catalog)), there,
                        approve=allow_writes, settings=QUICK,
                        negotiator=Negotiator(there), context=context,
                    )  # fmt: skip
                    plan = Plan(
                        "a map of the rain",
                        (
                            Job("sky", "", "sky__look", {"city": "Oslo"}),
                            Job("pay", "", "hr__salary", {"name": "Ann"}),
                            Job("map", "", "maps__draw", {}, after=("sky", "pay")),
                            Job("other", "", "maps__measure", {}, after=("map",)),
                        ),
                    )
                    execution = await executor.execute(plan)
            return execution, server.received

        execution, received = asyncio.run(main())
        assert execution.is_done
        sent = [params for method, params in received if method == PROPAGATE]
        assert [each["source_server"] for each in sent] == ["sky", "maps"]
        assert sent[0]["data"] == {"sky": "rain in Oslo"}
        assert "secret" not in str(received)
