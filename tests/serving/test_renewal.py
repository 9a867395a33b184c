"""A model that is replaced while a gateway answers by it."""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from doors import APIS, QUICK, RAIN, gateway, run, until

from cnp_router import Api, Catalog, Forgetting, Mashup, fit_router, load_router
from cnp_router.exceptions import InputError, ModelStoreError
from cnp_router.history import History
from cnp_router.online import OnlineStore
from cnp_router.serving import Gateway, GatewaySettings, LoggedSearch, Renewal, SearchLog, Teaching
from cnp_router.serving.logged import LoggedCall

SNOW = Api("sky__snow", "snow", "Forecasts how deep the snow is on a mountain.", (), None, "reads")
PAST = History([Mashup(f"m{n}", f"rain in town {n}", ("sky__rain",)) for n in range(9)])
OFTEN = 0.02


@pytest.fixture
def folder(tmp_path):
    fit_router(Catalog(APIS), PAST).save(tmp_path / "model")
    return tmp_path / "model"


def renewal(folder, **how):
    return Renewal(folder, lambda: load_router(folder), every=OFTEN, **how)


def fitted(*apis, history=PAST):
    return fit_router(Catalog(apis), history)


def damage(folder):
    (file,) = folder.glob("generation-*/state.json")
    file.write_bytes(b"{}")
    manifest = folder / "manifest.json"  # replaced at once, as whoever saves a model does
    shutil.copy(manifest, folder / "copy").replace(manifest)


@asynccontextmanager
async def alone(folder, **options):
    """A gateway that calls nothing."""
    renewed = renewal(folder)
    router = load_router(folder)
    async with Gateway(router, router.catalog, renewal=renewed, **options) as door:
        yield door, renewed


def test_answers_come_from_the_new_model_and_none_is_dropped(folder):
    said, found, is_over = [], [], False

    async def ask(door):
        while not is_over:
            found.append(await door.search("rain in town, and how deep is the snow"))

    async def main():
        nonlocal is_over
        router = load_router(folder)
        renewed = renewal(folder, said=said.append)
        async with Gateway(router, router.catalog, renewal=renewed) as door:
            asking = [asyncio.create_task(ask(door)) for _ in range(4)]
            for n in range(3):  # one after the other
                new = fitted(*APIS, *(replace(SNOW, id=f"sky__snow{i}") for i in range(n + 1)))
                before = door.router
                await asyncio.to_thread(new.save, folder, overwrite=True)
                await until(lambda before=before: door.router is not before)
                assert len(door.apis()) == len(APIS) + n + 1
                answer = await door.search("how deep is the snow")
                assert answer.tools[0].api.id.startswith("sky__snow")
                assert answer.routing.n_apis == len(APIS) + n + 1
            is_over = True
            await asyncio.gather(*asking)
            assert door.status()["problems"] == []

    run(main())
    # Each is of one model, with its number of APIs.
    assert {answer.routing.n_apis for answer in found} == {4, 5, 6, 7}
    for answer in found:
        assert answer.tools
    assert said == [f"{folder}: a new model answers, LearnedRouter({n} APIs, 9 mashups)"
                    for n in (5, 6, 7)]  # fmt: skip


@pytest.mark.parametrize("share", [1.0, 0.0])
def test_what_was_asked_before_is_answered_by_the_old_one(folder, share):
    begun, release = threading.Event(), threading.Event()

    class Slow:
        """The router that was there, and takes its time."""

        def __init__(self, router):
            self.router = router

        def __call__(self, request, known, dates):
            begun.set()
            assert release.wait(20)
            return type(self.router)._scores_many(self.router, request, known, dates)

    async def main():
        async with alone(folder, settings=GatewaySettings(share=share)) as (door, _):
            old = door.router
            old._scores_many = Slow(old)
            asked = asyncio.create_task(door.search("rain"))
            await until(begun.is_set)
            fitted(RAIN, SNOW).save(folder, overwrite=True)
            await until(lambda: door.router is not old)
            later = asyncio.create_task(door.search("rain"))
            await asyncio.sleep(0.05)
            assert not asked.done()
            release.set()
            return await asked, await later

    before, after = run(main())
    # Of the old one's APIs, those that are there for the client when it asked.
    assert (before.routing.n_apis, after.routing.n_apis) == (4, 2)
    shown = [{tool.api.id for tool in each.tools} for each in (before, after)]
    assert SNOW.id not in shown[0]
    if not share:  # all that there is for the client
        assert shown == [{api.id for api in APIS}, {RAIN.id, SNOW.id}]


def test_a_model_that_cannot_be_opened_leaves_the_old_one(folder, caplog):
    async def main():
        async with alone(folder) as (door, renewed):
            old = door.router
            damage(folder)
            await until(lambda: renewed.problem)
            assert door.router is old
            assert (await door.search("rain in a city")).tools
            assert door.status()["problems"] == [
                "the model was replaced, and the new one cannot be used"
            ]
            await asyncio.sleep(5 * OFTEN)  # it is not tried again at once
            fitted(RAIN, SNOW).save(folder, overwrite=True)
            await until(lambda: door.router is not old)
            assert door.status()["problems"] == []
            return await door.search("how deep is the snow")

    assert run(main()).tools[0].api == SNOW
    (warning,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert warning.getMessage().startswith(
        f"the model before goes on answering: {folder}: the model is damaged: "
    )


def test_a_folder_that_is_taken_away_and_put_back(folder, caplog):
    renewed = renewal(folder)
    folder.rename(folder.with_name("away"))
    assert renewed.look(lambda router: None) is None
    assert "no model there" in renewed.problem
    folder.with_name("away").rename(folder)
    assert renewed.look(lambda router: None) is None
    assert renewed.problem == ""
    assert len(caplog.records) == 1


def test_one_that_failed_is_tried_again_after_a_while(folder, monkeypatch):
    tries = []
    renewed = Renewal(folder, lambda: tries.append(None) or load_router(folder))
    damage(folder)
    for _ in range(3):
        renewed.look(lambda router: None)
    assert len(tries) == 1
    monkeypatch.setattr("cnp_router.serving.renewal._AGAIN", 0.0)
    renewed._again = 0.0
    renewed.look(lambda router: None)
    assert len(tries) == 2


def test_a_model_that_cannot_answer_is_not_taken(folder):
    class Blind:
        catalog = Catalog(APIS)

        def score(self, request):
            raise InputError("it was fitted with an encoder")

    renewed = Renewal(folder, Blind)
    fitted(*APIS).save(folder, overwrite=True)
    assert renewed.look(lambda router: None) is None
    assert renewed.problem == "it was fitted with an encoder"


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), "5"])
def test_times_that_cannot_be(folder, wrong):
    with pytest.raises(InputError, match="every in seconds"):
        Renewal(folder, lambda: None, every=wrong)


def test_what_sources_have_of_the_new_model_is_found(folder):
    async def main():
        router = load_router(folder)
        options = {"router": router, "apis": APIS[:2], "renewal": renewal(folder)}
        async with gateway(**options) as door:
            assert [api.id for api in door.apis()] == ["sky__rain", "sky__wind"]
            fitted(*APIS, SNOW).save(folder, overwrite=True)
            await until(lambda: door.router is not router)
            return [api.id for api in door.apis()], door.status()["problems"]

    # Of snow no source knows.
    assert run(main()) == (["sky__rain", "sky__wind", "mail__send", "mail__read"], [])


@pytest.mark.parametrize(
    ("apis", "always", "said"),
    [
        ((replace(RAIN, id="other__rain"),), (), "the model knows no tool of sky, mail"),
        ((RAIN,), ("sky__wind",), "unknown API 'sky__wind'"),
    ],
)
def test_a_model_that_does_not_go_with_the_gateway(folder, apis, always, said):
    async def main():
        router, renewed = load_router(folder), renewal(folder)
        settings = replace(QUICK, always=always)
        async with gateway(router=router, settings=settings, renewal=renewed) as door:
            fitted(*apis, history=History([])).save(folder, overwrite=True)
            await until(lambda: renewed.problem)
            assert door.router is router
            assert len(door.apis()) == 4
        return renewed.problem

    assert run(main()).startswith(said)


class TestWhatWasLearned:
    REQUEST = "umbrella or sunglasses"

    def observed(self, folder, n=3):
        with OnlineStore(folder / "online.sqlite") as store:
            for i in range(n):
                store.observe(Mashup(f"o{i}", f"{self.REQUEST} {i}", ("sky__wind",), user="ann"))

    def test_it_goes_on_in_the_new_model(self, folder):
        self.observed(folder)

        async def main():
            teaching = Teaching(folder / "online.sqlite", load_router(folder), every=OFTEN)
            async with alone(folder, teaching=teaching) as (door, _):
                old = door.router
                fitted(*APIS, SNOW).save(folder, overwrite=True)
                await until(lambda: door.router is not old)
                known = len(door.router.history)
                found = await door.search(self.REQUEST)
                # And what comes later, it learns too.
                await door.rate(found.search_id, 5)
                with OnlineStore(folder / "online.sqlite") as store:
                    store.observe(Mashup("later", "ice on the road", ("sky__snow",)))
                await until(lambda: door.router.history.find("later") is not None)
                return found, known, len(old.history), teaching

        found, known, before, teaching = run(main())
        assert known == before + 3 == len(PAST) + 3
        assert found.routing.n_mashups == len(PAST) + 3
        # A checkpoint has each mashup once.
        state = teaching._observers[-1].state()["mashups"]
        assert [mashup["id"] for mashup in state] == ["o0", "o1", "o2", "later"]

    def test_a_model_that_was_fitted_on_it_counts_it_once(self, folder):
        self.observed(folder)
        teaching = Teaching(folder / "online.sqlite", load_router(folder))
        teaching.take_over()
        more = [Mashup(f"o{i}", f"{self.REQUEST} {i}", ("sky__wind",)) for i in range(3)]
        router = fitted(*APIS, history=PAST.extended(more))
        teaching.renew(router)
        assert len(router.history) == len(PAST) + 3

    def test_what_was_forgotten_is_forgotten_by_the_new_model(self, folder):
        self.observed(folder)
        teaching = Teaching(folder / "online.sqlite", load_router(folder))
        teaching.take_over()
        with OnlineStore(folder / "online.sqlite", []) as store:
            store.forget(Forgetting(users=("ann",)))
        router = load_router(folder)
        teaching.renew(router)
        assert len(router.history) == len(PAST)
        assert teaching.sequence == 0
        self.observed(folder, 1)
        teaching.take_over()
        assert len(router.history) == len(PAST) + 1

    def test_another_folder_has_a_store_of_its_own(self, folder):
        self.observed(folder)
        teaching = Teaching(folder / "online.sqlite", load_router(folder))
        teaching.take_over()
        folder.rename(folder.with_name("old"))
        with SearchLog() as log:
            log.add(LoggedSearch("s1", "ann", log.clock(), "ice", (), (), 0.9, True, True, 5))
            begun = log.begin("s1", "ann", RAIN.id, {}, since=0.0)
            log.end(begun, LoggedCall(RAIN.id, {}, "x", True, True))
            log.finish_own()
            assert teaching.turn(log) == 0
            assert "moved away" in teaching.problem
            assert not folder.exists()  # where the other one is to come
            router = fitted(*APIS)
            router.save(folder)
            teaching.renew(router)
            assert len(router.history) == len(PAST)
            assert teaching.turn(log) == 1
        assert teaching.problem == ""
        assert len(router.history) == len(PAST) + 1
        assert len(OnlineStore.records_after(folder / "online.sqlite", 0)[1]) == 2

    def test_a_store_that_cannot_be_read(self, folder):
        self.observed(folder)
        router = load_router(folder)
        teaching = Teaching(folder / "online.sqlite", router)
        teaching.take_over()
        (folder / "online.sqlite").write_bytes(b"nothing" * 99)
        with pytest.raises(ModelStoreError):
            teaching.renew(fitted(*APIS))
        assert teaching._router is router


def test_a_look_that_finds_nothing_costs_next_to_nothing(folder):
    renewed = renewal(folder)
    begun = time.process_time()
    for _ in range(1_000):
        assert renewed.look(lambda router: None) is None
    assert time.process_time() - begun < 0.5
