"""`ToolChoice`: at most k of many tools, whoever knows them, and nothing of a run is kept."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading

import pytest
from many_tools import SPECIAL, many_tools

from cnp_router import (
    Api,
    Catalog,
    History,
    InputError,
    Mashup,
    OnlineStore,
    SpecificationRouter,
    Step,
    fit_router,
    telemetry,
)
from cnp_router.adapters import ToolChoice, specification_routers, tool_api
from cnp_router.online import RouterObserver

TOOLS = (
    tool_api("weather", "Says whether it will rain in a city."),
    tool_api("send_sms", "Sends a text message to a phone."),
    tool_api("book_seat", "Reserves seats at the theatre."),
    tool_api("share_price", "Looks up the price of a share on the stock exchange."),
)
RAIN = "Will it rain in Kyoto?"


def chosen(choice: ToolChoice, request: str, tools=TOOLS):
    return asyncio.run(choice.choose(request, tools))


@pytest.fixture(scope="module")
def many():
    """Return ten thousand tools, and a choice whose router is fitted on them once."""
    tools = many_tools(10_000)
    return tools, ToolChoice(SpecificationRouter(Catalog(tools)), k=8)


class TestWithoutARouter:
    def test_what_fits_is_chosen_and_nothing_else(self):
        assert chosen(ToolChoice(), RAIN) == ("weather",)

    def test_of_a_request_for_two_things_both_are_chosen(self):
        request = "Look up the price of a share on the stock exchange. Will it rain in a city?"
        assert set(chosen(ToolChoice(), request)) == {"share_price", "weather"}
        assert len(chosen(ToolChoice(k=1), request)) == 1
        some = ToolChoice(fit_router(Catalog(TOOLS[1:])))  # the other is new to the router
        assert set(chosen(some, request)) == {"share_price", "weather"}

    def test_the_same_tools_are_fitted_once_by_many_runs(self, monkeypatch):
        fits, goes_on = [], threading.Event()

        def slowly(catalog, history=None):
            fits.append(threading.current_thread())
            assert goes_on.wait(20)  # the loop does, meanwhile
            return fit_router(catalog, history)

        monkeypatch.setattr(specification_routers, "fit_router", slowly)
        choice = ToolChoice()

        async def tick():
            while not fits:
                await asyncio.sleep(0.01)
            for _ in range(6):
                await asyncio.sleep(0.01)
            goes_on.set()

        async def run():
            clock = asyncio.create_task(tick())
            runs = [choice.choose(RAIN, [tool_api(t.id, t.description) for t in TOOLS])]
            more = [choice.choose(RAIN, TOOLS) for _ in range(20)]
            answers = await asyncio.gather(*runs, *more)
            await clock
            return answers

        assert set(asyncio.run(run())) == {("weather",)}
        assert len(fits) == 1
        assert fits[0] is not threading.main_thread()

    def test_some_of_them_in_any_order_need_no_router_of_their_own(self, monkeypatch):
        fits = []

        def fit(catalog, history=None):
            fits.append(catalog.ids)
            return fit_router(catalog, history)

        monkeypatch.setattr(specification_routers, "fit_router", fit)
        choice = ToolChoice()
        assert chosen(choice, RAIN) == ("weather",)
        assert chosen(choice, RAIN, TOOLS[::-1]) == ("weather",)
        assert chosen(choice, RAIN, TOOLS[:2]) == ("weather",)
        assert chosen(choice, RAIN, TOOLS[1:]) == ()  # it is not among them
        assert len(fits) == 1
        assert choice.observe("Umbrella?", [Step("weather")], True).tools == ("weather",)
        assert chosen(choice, "Umbrella?", TOOLS[:2]) == ("weather",)
        assert chosen(choice, "Umbrella?", TOOLS[1:]) == ()

    def test_another_definition_is_another_set(self):
        choice = ToolChoice()
        assert chosen(choice, RAIN) == ("weather",)
        now = (tool_api("weather", "Forecasts of election results."), *TOOLS[1:])
        assert chosen(choice, RAIN, now) == ()
        with_parameter = Api(
            "weather", "weather", "Forecasts.", parameters={"properties": {"rain_in_city": {}}}
        )
        assert chosen(choice, RAIN, (with_parameter, *TOOLS[1:])) == ("weather",)

    def test_a_router_of_more_tools_serves_for_some_of_them(self):
        choice = ToolChoice()
        assert chosen(choice, RAIN) == ("weather",)
        assert chosen(choice, RAIN, TOOLS[::-1]) == ("weather",)
        assert chosen(choice, RAIN, TOOLS[1:]) == ()
        assert chosen(choice, "Send a text message", TOOLS[1:2]) == ("send_sms",)
        assert len(choice._routers.fitted) == 1

    def test_a_few_sets_are_kept(self):
        choice = ToolChoice()
        for n in range(12):
            chosen(choice, RAIN, (*TOOLS, tool_api(f"tool{n}", "Another.")))
        assert len(choice._routers.fitted) == 8

    def test_who_gives_up_leaves_the_fit_to_the_others(self, monkeypatch):
        begun, goes_on = threading.Event(), threading.Event()

        def slowly(catalog, history=None):
            begun.set()
            assert goes_on.wait(20)
            return fit_router(catalog, history)

        monkeypatch.setattr(specification_routers, "fit_router", slowly)
        choice = ToolChoice()

        async def run():
            first = asyncio.create_task(choice.choose(RAIN, TOOLS))
            assert await asyncio.to_thread(begun.wait, 20)
            second = asyncio.create_task(choice.choose(RAIN, TOOLS))
            await asyncio.sleep(0.01)
            first.cancel()
            goes_on.set()
            return await asyncio.gather(first, second, return_exceptions=True)

        first, second = asyncio.run(run())
        assert isinstance(first, asyncio.CancelledError)
        assert second == ("weather",)

    def test_a_fit_that_fails_says_so_and_is_tried_again(self, monkeypatch):
        def broken(catalog, history=None):
            raise MemoryError("full")

        choice = ToolChoice()
        with monkeypatch.context() as patch:
            patch.setattr(specification_routers, "fit_router", broken)
            with pytest.raises(MemoryError, match="full"):
                chosen(choice, RAIN)
        assert chosen(choice, RAIN) == ("weather",)


class TestWithARouter:
    def test_at_most_k_of_ten_thousand(self, many):
        tools, choice = many
        found = chosen(choice, "List the invoices and show me each one", tools)
        assert 1 <= len(found) <= 8
        assert all("invoice" in name for name in found)

    def test_fifty_runs_at_once_see_their_own(self, many):
        tools, choice = many

        async def run():
            requests = [SPECIAL[name] for name in SPECIAL]
            return await asyncio.gather(*(choice.choose(each, tools) for each in requests))

        for name, found in zip(SPECIAL, asyncio.run(run()), strict=True):
            assert found[0] == name
            assert len(found) <= 8

    def test_tools_that_it_does_not_know_are_found_all_the_same(self):
        router = fit_router(Catalog(TOOLS[:2]))
        assert chosen(ToolChoice(router), "Reserve two theatre seats") == ("book_seat",)
        assert chosen(ToolChoice(router), RAIN) == ("weather",)

    def test_known_and_new_ones_share_the_places(self):
        router = fit_router(Catalog(TOOLS[:1]))
        both = "Will it rain in Kyoto, and what is the price of the share?"
        assert set(chosen(ToolChoice(router, k=2), both)) == {"weather", "share_price"}
        assert len(chosen(ToolChoice(router, k=1), both)) == 1

    def test_only_tools_that_are_there_are_chosen(self):
        router = fit_router(Catalog(TOOLS))
        assert chosen(ToolChoice(router), RAIN, TOOLS[1:]) == ()

    def test_names_of_the_framework(self):
        catalog = Catalog(Api(f"city__{t.id}", t.name, t.description) for t in TOOLS)
        history = History([Mashup(f"m{n}", "Pack for me", ("city__weather",)) for n in range(3)])
        names = {t.id: f"city__{t.id}" for t in TOOLS}
        choice = ToolChoice(fit_router(catalog, history), names=names)
        assert chosen(choice, "Pack for me") == ("weather",)

    def test_two_tools_under_one_id(self):
        choice = ToolChoice(SpecificationRouter(Catalog(TOOLS)), names={"send_sms": "weather"})
        with pytest.raises(InputError, match="weather"):
            chosen(choice, RAIN)


class TestCounted:
    """A choice is one routing, whoever is asked."""

    @pytest.fixture
    def counted(self, monkeypatch):
        amounts = []

        def add(name, amount, attributes):
            if name == "cnp_router.routings":
                amounts.append(amount)

        monkeypatch.setattr(telemetry, "add", add)
        return amounts

    @pytest.mark.parametrize("known", [None, TOOLS, TOOLS[:1]])
    def test_once(self, known, counted):
        router = None if known is None else fit_router(Catalog(known))
        choice = ToolChoice(router)
        for n in range(3):
            assert "weather" in chosen(choice, RAIN)
            choice.observe(f"Umbrella {n}?", [Step("weather")], True)  # fitted again twice
        assert sum(counted) == 3

    def test_where_the_router_knows_none_of_them(self, counted):
        choice = ToolChoice(fit_router(Catalog([tool_api("clock", "Tells the time.")])))
        assert chosen(choice, RAIN) == ("weather",)
        choice = ToolChoice(fit_router(Catalog(TOOLS[:1])), always=["weather"])
        assert chosen(choice, "Send a text message") == ("weather", "send_sms")
        assert sum(counted) == 2


class TestAlways:
    def test_first_and_counted(self):
        assert chosen(ToolChoice(k=2, always=["book_seat"]), RAIN) == ("book_seat", "weather")
        assert chosen(ToolChoice(k=1, always=["book_seat"]), RAIN) == ("book_seat",)

    def test_where_it_is_not_among_the_tools_it_takes_no_place(self):
        assert chosen(ToolChoice(k=1, always=["clock"]), RAIN) == ("weather",)

    def test_where_it_is_not_among_the_tools_the_log_says_so_once(self, caplog):
        choice = ToolChoice(always=["clock", "weather"])
        with caplog.at_level(logging.INFO, "cnp_router.adapters"):
            chosen(choice, RAIN, ())
            for _ in range(2):
                chosen(choice, RAIN)
        (said,) = caplog.messages
        assert said == "none of 4 tools is 'clock', which is always to be shown"

    def test_nothing_fits_or_nothing_is_said(self):
        choice = ToolChoice(always=["send_sms"])
        for request in ("zzz qqq", "", " \n"):
            assert chosen(choice, request) == ("send_sms",)
        assert chosen(ToolChoice(), "") == ()
        assert chosen(ToolChoice(), RAIN, ()) == ()

    def test_more_than_k(self):
        with pytest.raises(InputError, match="raise k"):
            ToolChoice(k=1, always=["a", "b"])


class TestOutcomes:
    REQUEST = "Do I need an umbrella?"
    STEPS = (Step("weather", success=True), Step("send_sms", success=False))

    def test_they_teach_the_router_fitted_here(self):
        choice = ToolChoice()
        assert chosen(choice, self.REQUEST) == ()
        choice.observe(self.REQUEST, self.STEPS, True)
        assert chosen(choice, "Do I need an umbrella today?") == ("weather",)

    @pytest.mark.parametrize("success", [False, None])
    def test_what_did_not_succeed_teaches_nothing(self, success, tmp_path):
        with OnlineStore(tmp_path / "a.sqlite", []) as store:
            choice = ToolChoice(store=store)
            chosen(choice, self.REQUEST)
            choice.observe(self.REQUEST, self.STEPS, success)
            assert store.sequence == 1  # the trajectory
            assert chosen(choice, self.REQUEST) == ()

    def test_they_teach_a_given_router(self):
        said = ("Do I need sun cream?", "Do I need a ticket?", "Umbrella or stick?")
        past = [Mashup(f"m{n}", text, ("book_seat",)) for n, text in enumerate(said)]
        router = fit_router(Catalog(TOOLS), History(past))
        choice = ToolChoice(router, k=1)
        assert chosen(choice, self.REQUEST) == ("book_seat",)
        choice.observe(self.REQUEST, self.STEPS, True)
        assert router.history[-1].apis == ("weather",)
        assert chosen(choice, self.REQUEST) == ("weather",)

    def test_once_where_the_store_teaches_the_router_too(self, tmp_path):
        router = fit_router(Catalog(TOOLS))
        with OnlineStore(tmp_path / "a.sqlite", [RouterObserver(router)]) as store:
            choice = ToolChoice(router, store=store)
            choice.observe(self.REQUEST, self.STEPS, True, id="run1", user="ann")
            choice.observe(self.REQUEST, self.STEPS, True, id="run1", user="ann")
            assert (len(router.history), store.sequence) == (1, 2)
        assert router.history[0].user == "ann"

    def test_a_router_learns_of_what_it_knows(self, tmp_path):
        router = fit_router(Catalog(TOOLS[:1]))
        with OnlineStore(tmp_path / "a.sqlite", [RouterObserver(router)]) as store:
            choice = ToolChoice(router, store=store)
            chosen(choice, self.REQUEST)
            request = "The usual Monday routine"
            choice.observe(request, [Step("weather"), Step("book_seat")], True)
            choice.observe("Take me away", [Step("book_seat")], True)
            assert [m.apis for m in router.history] == [("weather",)]
            assert set(chosen(choice, request)) == {"weather", "book_seat"}  # it used both
            assert chosen(choice, "Take me away") == ("book_seat",)

    def test_what_a_store_has_is_known_after_a_restart(self, tmp_path):
        for _ in range(2):
            with OnlineStore(tmp_path / "a.sqlite", [], checkpoint_every=1) as store:
                choice = ToolChoice(store=store)
                before = chosen(choice, self.REQUEST)
                choice.observe(self.REQUEST, self.STEPS, True, id="run1")
        assert before == ("weather",)

    def test_ids_of_the_router_are_kept(self):
        choice = ToolChoice(names={"weather": "city__weather"})
        assert choice.observe("Rain?", [Step("weather")]).tools == ("city__weather",)

    def test_nothing_called_nothing_learned(self, tmp_path):
        with OnlineStore(tmp_path / "a.sqlite", []) as store:
            ToolChoice(store=store).observe("Hello", [], True)
            assert store.sequence == 0

    def test_many_outcomes_at_once(self):
        choice = ToolChoice()
        chosen(choice, RAIN)

        async def run():
            await asyncio.gather(
                *(
                    asyncio.to_thread(choice.observe, f"Umbrella {n}?", self.STEPS, True)
                    for n in range(20)
                ),
                *(choice.choose(RAIN, TOOLS) for _ in range(20)),
            )

        asyncio.run(run())
        (fitted,) = choice._routers.fitted.values()
        assert len(fitted.result().history) == 20


def test_what_is_no_tool():
    with pytest.raises(InputError, match="tools"):
        chosen(ToolChoice(), RAIN, ["weather"])
    with pytest.raises(InputError, match="'weather'"):
        chosen(ToolChoice(), RAIN, [*TOOLS, TOOLS[0]])
    with pytest.raises(InputError, match="request"):
        chosen(ToolChoice(), None)


def test_the_room_imports_no_framework():
    code = "import sys, cnp_router.adapters; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    frameworks = {"agents", "pydantic_ai", "langchain", "langchain_core", "langgraph", "fastmcp"}
    assert not frameworks & set(done.stdout.split())
