from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
from doors import APIS, QUICK, RAIN, SEND, World, gateway, run, until

from cnp_router import Api, Catalog, fit_router
from cnp_router.exceptions import (
    InputError,
    SourceUnavailableError,
    UnknownApiError,
    UnknownSearchError,
)
from cnp_router.history import History, Mashup
from cnp_router.online import OnlineStore
from cnp_router.routing import SpecificationRouter
from cnp_router.serving import Client, Gateway, GatewaySettings, SearchLog, Teaching
from cnp_router.serving.roll_out import is_acted_on, new_search_id
from cnp_router.sources import CallResult, Sources
from cnp_router.testing import ScriptedSource


def test_a_search_finds_tools_with_schema_probability_and_reasons():
    async def main():
        async with gateway() as door:
            return await door.search("rain and sun in a city", 2)

    search = run(main())
    tool = search.to_dict()["tools"][0]
    assert tool["name"] == "sky__rain"
    assert tool["inputSchema"] == RAIN.parameters
    assert tool["effects"] == "reads"
    assert 0 < tool["probability"] <= 1
    assert len(search.tools) <= 2
    assert search.acted
    assert search.fits
    assert len(search.search_id) == 32


def test_where_nothing_fits_it_says_so():
    router = fit_router(
        Catalog(APIS),
        History([Mashup(f"m{n}", f"rain in city {n}", ("sky__rain",)) for n in range(40)]),
    )

    async def main():
        async with gateway(router=router) as door:
            return await door.search("quantum chromodynamics lattice")

    search = run(main())
    assert not search.fits
    assert search.tools == ()
    assert search.to_dict()["verdict"].startswith("No tool fits. Nothing in the catalog fits")


def test_a_client_sees_and_calls_only_what_it_may():
    worlds = World("sky"), World("mail")
    client = Client("bob", among=("sky__*",), exclude=("*__wind",))

    async def main():
        async with gateway(*worlds) as door:
            assert [api.id for api in door.apis(client)] == ["sky__rain"]
            found = await door.search("send a mail about wind", client=client)
            assert {tool.api.id for tool in found.tools} <= {"sky__rain"}
            routed = await door.route("send a mail about wind", client=client)
            assert {r.contractor for r in routed.routing.recipients} <= {"sky__rain"}
            assert "mail" not in str(routed.routing.to_dict()["recipients"])
            said = routed.routing.to_dict()
            assert (said["n_contractors"], said["n_allowed"]) == (1, 1)
            assert "1 of 1 APIs" in repr(routed.routing)
            for name in ("mail__send", "sky__wind", "nowhere__at_all"):
                with pytest.raises(UnknownApiError) as error:
                    await door.call(name, {}, client=client)
                assert "did you mean 'mail" not in str(error.value)

    run(main())
    assert worlds[0].calls == worlds[1].calls == []


def test_a_client_that_may_see_nothing():
    nobody = Client("nobody", among=())

    async def main():
        async with gateway() as door:
            assert door.apis(nobody) == ()
            return await door.search("rain", client=nobody)

    search = run(main())
    assert (search.fits, search.tools, search.confidence) == (False, (), 0.0)
    assert search.verdict.startswith("No tool fits. Nothing in the catalog fits")
    said = search.routing.to_dict()
    assert said["n_contractors"] == said["n_allowed"] == said["messages_saved"] == 0


def test_tools_that_are_always_there():
    async def main():
        async with gateway(settings=replace(QUICK, always=("mail__read",))) as door:
            assert [api.id for api in door.always()] == ["mail__read"]
            assert door.always(Client("bob", exclude=("mail__*",))) == ()

    run(main())
    with pytest.raises(UnknownApiError, match="did you mean 'mail__read'"):
        run(_open(settings=replace(QUICK, always=("mail__reed",))))


async def _open(**options):
    async with gateway(**options):
        pass


@pytest.mark.parametrize(
    ("query", "k", "says"),
    [
        ("", None, "must not be blank"),
        ("x" * 10_001, None, r"10,001 characters, and 10,000 are taken"),
        ("half \ud800", None, "surrogate"),
        (7, None, "must be a string"),
        ("rain", 0, "k must be"),
        ("rain", 51, "k must be"),
        ("rain", True, "k must be"),
    ],
)
def test_queries_that_cannot_be_used(query, k, says):
    async def main():
        async with gateway() as door:
            with pytest.raises(InputError, match=says):
                await door.search(query, k)
            assert door.status()["in_flight"] == 0
            assert door.log.searches() == ()

    run(main())


def test_a_gateway_that_is_not_open():
    catalog = Catalog(APIS)
    door = Gateway(SpecificationRouter(catalog), catalog)

    async def main():
        with pytest.raises(InputError, match="not open"):
            await door.search("rain")
        async with door:
            with pytest.raises(InputError, match="open already"):
                async with door:
                    pass
            assert door.status()["status"] == "ok"
        assert door.status()["status"] == "closed"

    run(main())


def test_without_sources_it_routes_and_calls_nothing():
    catalog = Catalog(APIS)

    async def main():
        async with Gateway(SpecificationRouter(catalog), catalog) as door:
            found = await door.search("rain in a city")
            called = await door.call(found.tools[0].api.id, {"city": "Kyoto"}, found.search_id)
            return called.result

    result = run(main())
    assert result.failure.kind == "unavailable"
    assert "give --sources" in result.failure.message


# Sources that come and go


def test_only_what_the_sources_have_now_is_found_and_called():
    async def main():
        async with gateway(World("sky")) as door:  # nothing has mail
            assert {api.id for api in door.apis()} == {"sky__rain", "sky__wind"}
            found = await door.search("send a text by mail")
            assert all(tool.api.id.startswith("sky") for tool in found.tools)
            with pytest.raises(UnknownApiError):
                await door.call("mail__send", {})

    run(main())


def test_a_source_that_fails_at_first_and_comes_back():
    mail = World("mail")
    broken = ScriptedSource(
        "sky", {}, unavailable=SourceUnavailableError("sky", "no"), apis=APIS[:2]
    )

    async def main():
        async with gateway(mail, broken, settings=replace(QUICK, refresh_seconds=0.02)) as door:
            assert door.status()["sources"] == {"mail": "ready", "sky": "failed"}
            assert len(door.apis()) == 2
            broken.unavailable = None
            await until(lambda: len(door.apis()) == 4)
            assert door.status()["sources"] == {"mail": "ready", "sky": "ready"}
            mail.definitions.pop("mail__send")  # it says that its tools changed
            mail.stale = True
            await until(lambda: len(door.apis()) == 3)
            assert "mail__send" not in {api.id for api in door.apis()}

    run(main())


def test_no_source_has_what_the_model_knows():
    other = World("sea", apis=(Api("sea__tide", "tide", effects="reads"),))
    with pytest.raises(InputError, match=r"knows no tool of these sources, sea \(cnp-router sync"):
        run(_open_over(other))


def test_no_source_can_be_used():
    broken = ScriptedSource("sky", {}, unavailable=SourceUnavailableError("sky", "no route"))
    with pytest.raises(SourceUnavailableError, match="no route"):
        run(_open_over(broken))


async def _open_over(*worlds):
    async with gateway(*worlds):
        pass


# Shadow and share


def test_a_share_is_what_it_says():
    ids = [new_search_id() for _ in range(20_000)]
    for share in (0.05, 0.1, 0.25):
        acted = sum(is_acted_on(each, share) for each in ids)
        assert abs(acted / len(ids) - share) < 4 * (share * (1 - share) / len(ids)) ** 0.5
    assert sum(is_acted_on(each, 0.0) for each in ids) == 0
    assert sum(is_acted_on(each, 1.0) for each in ids) == len(ids)
    assert all(is_acted_on(each, 0.25) for each in ids if is_acted_on(each, 0.1))


def test_in_the_shadow_all_is_shown_and_the_decision_only_logged():
    async def main():
        async with gateway(settings=replace(QUICK, share=0.0, k=1)) as door:
            search = await door.search("rain and sun in a city")
            await door.call("mail__read", {}, search.search_id)
            await door.call("sky__rain", {"city": "Nara"}, search.search_id)
            await door.call("sky__rain", {"city": "Kyoto"}, search.search_id)
            (row,) = door.log.searches()
            return search, row, door.log.accuracy()

    search, row, accuracy = run(main())
    assert [tool.api.id for tool in search.tools] == [api.id for api in APIS]
    shown = search.to_dict()
    assert (shown["acted"], shown["fits"], shown["confidence"]) == (False, None, None)
    assert all(tool["probability"] is None and not tool["reasons"] for tool in shown["tools"])
    assert row.shown == tuple(api.id for api in APIS)
    assert row.chosen == ("sky__rain",)
    assert row.called == ("mail__read", "sky__rain")
    assert not row.acted
    assert row.confidence == search.routing.confidence
    assert (accuracy["shadow"].n_called, accuracy["shadow"].n_correct) == (2, 1)
    assert accuracy["shadow"].share == accuracy["all"].share == 0.5
    assert accuracy["acted"].share is None


def test_the_shadow_shows_so_many_and_no_more_than_a_client_may_see():
    client = Client("bob", exclude=("sky__rain",))

    async def main():
        async with gateway(settings=replace(QUICK, share=0.0, most_shown=2)) as door:
            return await door.search("rain", client=client)

    assert [tool.api.id for tool in run(main()).tools] == ["sky__wind", "mail__send"]


def test_route_shows_the_decision_in_the_shadow_too():
    async def main():
        async with gateway(settings=replace(QUICK, share=0.0)) as door:
            return await door.route("rain and sun in a city")

    routed = run(main())
    assert routed.acted
    assert routed.tools[0].api.id == "sky__rain"
    assert routed.routing.to_dict()["verdict"] == routed.verdict


def test_what_is_always_there_says_nothing_about_the_choice():
    async def main():
        async with gateway(settings=replace(QUICK, always=("mail__read",))) as door:
            search = await door.search("rain")
            await door.call("mail__read", {}, search.search_id)
            return door.log.accuracy()["all"].n_called

    assert run(main()) == 0


# Searches belong to clients


def test_a_search_that_is_unknown_too_old_or_of_another():
    now = [1000.0]
    log = SearchLog(clock=lambda: now[0])
    world = World("sky")

    async def main():
        said = set()
        async with gateway(world, log=log, settings=replace(QUICK, search_seconds=60)) as door:
            own = await door.search("rain", client=Client("ann"))
            for name, client in (("0" * 32, "ann"), (own.search_id, "eve")):
                with pytest.raises(UnknownSearchError) as error:
                    await door.call("sky__rain", {"city": "x"}, name, client=Client(client))
                said.add(str(error.value).replace(name, "X"))
                with pytest.raises(UnknownSearchError):
                    await door.rate(name, 5, client=Client(client))
            now[0] += 61
            with pytest.raises(UnknownSearchError) as error:
                await door.call("sky__rain", {"city": "x"}, own.search_id, client=Client("ann"))
            said.add(str(error.value).replace(own.search_id, "X"))
            assert door.status()["in_flight"] == 0
        assert len(said) == 1

    run(main())
    log.close()
    assert world.calls == []


@pytest.mark.parametrize("rating", [0, 6, 2.5, "5", None, True])
def test_ratings_that_are_none(rating):
    async def main():
        async with gateway() as door:
            search = await door.search("rain")
            with pytest.raises(InputError, match="rating must be a whole number from 1 to 5"):
                await door.rate(search.search_id, rating)
            await door.rate(search.search_id, 4)
            assert door.log.searches()[0].rating == 4

    run(main())


def test_two_hundred_clients_at_once_each_with_its_own():
    def answer(call):
        return CallResult(f"rain in {call.inputs['city']}")

    sky = World("sky", {"sky__rain": answer})
    sky.max_concurrency = 50

    async def one(door, n):
        client = Client(f"client {n}")
        search = await door.search(f"rain in city {n}", client=client)
        called = await door.call("sky__rain", {"city": str(n)}, search.search_id, client=client)
        assert called.result.text == f"rain in {n}"
        with pytest.raises(UnknownSearchError):
            await door.call(
                "sky__rain", {"city": "x"}, search.search_id, client=Client(f"client {n + 1}")
            )
        return search.search_id

    async def main():
        async with gateway(sky) as door:
            ids = await asyncio.gather(*(one(door, n) for n in range(200)))
            rows = {row.id: row for row in door.log.searches(500)}
            assert door.status()["in_flight"] == 0
        return ids, rows

    ids, rows = run(main())
    assert len(set(ids)) == len(sky.calls) == 200
    for n, name in enumerate(ids):
        assert rows[name].client == f"client {n}"
        assert rows[name].query == f"rain in city {n}"
        assert rows[name].called == ("sky__rain",)


def test_the_loop_goes_on_while_it_routes():
    go = threading.Event()

    class Slow(SpecificationRouter):
        def _scores(self, request, known, date):
            assert go.wait(20)
            return super()._scores(request, known, date)

    async def main():
        async with gateway(router=Slow(Catalog(APIS))) as door:
            searching = asyncio.create_task(door.search("rain"))
            for _ in range(11):
                await asyncio.sleep(0.005)
            assert not searching.done()
            go.set()
            await searching

    run(main())


# Whose request a reason quotes


def test_no_reason_quotes_the_request_of_another_client(monkeypatch):
    past = [
        Mashup(f"m{n}", f"my salary of {n} yen, rain", ("sky__rain",), user="ann")
        for n in range(40)
    ]
    router = fit_router(Catalog(APIS), History(past))

    def all_of_it(history):
        raise AssertionError("a search reads the whole history")

    async def main():
        async with gateway(router=router) as door:
            monkeypatch.setattr(History, "__iter__", all_of_it)
            hers = await door.search("my salary, rain", client=Client("ann"))
            his = await door.route("my salary, rain", client=Client("bob"))
            return hers, his

    hers, his = run(main())
    assert "salary of" in str(hers.to_dict()["tools"])
    assert "salary of" not in str(his.to_dict()["tools"])
    assert "salary of" not in str(his.routing.to_dict()["recipients"])
    assert "'m1" not in str(his.routing.to_dict()["recipients"])


def test_nothing_in_a_repr_that_no_log_should_hold():
    async def main():
        async with gateway(World("sky", {"sky__rain": "hunter2"})) as door:
            search = await door.search("my password is hunter2: rain")
            await door.call("sky__rain", {"city": "hunter2"}, search.search_id)
            return f"{search!r} {door!r} {door.log!r} {door.log.searches()!r}"

    assert "hunter2" not in run(main())


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"k": 51},
        {"share": 1.5},
        {"share": -0.1},
        {"search_seconds": 0},
        {"call_timeout": 0},
        {"allow_write": "yes"},
        {"most_shown": 0},
        {"always": "mail__read"},
    ],
)
def test_settings_that_cannot_be(wrong):
    with pytest.raises(InputError):
        GatewaySettings(**wrong)


def test_given_things_are_not_closed_by_it():
    log = SearchLog()

    async def main():
        async with Sources([World("mail")]) as sources:
            catalog = Catalog([SEND])
            async with Gateway(SpecificationRouter(catalog), catalog, sources, log=log) as door:
                await door.search("send")
            assert (await sources.api("mail__send")).id == "mail__send"

    run(main())
    assert len(log.searches()) == 1
    log.close()


def test_a_search_of_one_worker_is_used_at_another(tmp_path):
    store = tmp_path / "online.sqlite"

    async def main():
        with SearchLog(tmp_path / "log") as here, SearchLog(tmp_path / "log") as there:
            async with (
                gateway(log=here, teaching=Teaching(store)) as one,
                gateway(log=there, teaching=Teaching(store)) as other,
            ):
                search = await one.search("rain")
                await other.call("sky__rain", {"city": "x"}, search.search_id)
                await one.call("sky__wind", {"city": "x"}, search.search_id)
                await other.rate(search.search_id, 5)

    run(main())
    trajectory, mashup = OnlineStore.records_after(store, 0)[1]
    assert trajectory.tools == mashup.apis == ("sky__rain", "sky__wind")
    assert trajectory.success
