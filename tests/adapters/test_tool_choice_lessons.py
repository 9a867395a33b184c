"""What outcomes teach a `ToolChoice`: after a restart, of other tools, until it is forgotten."""

from __future__ import annotations

import asyncio

import pytest

from cnp_router import Catalog, Forgetting, Mashup, OnlineStore, Step, Trajectory, fit_router
from cnp_router.adapters import ToolChoice, specification_routers, tool_api
from cnp_router.online import RouterObserver

TOOLS = (
    tool_api("weather", "Says whether it will rain in a city."),
    tool_api("send_sms", "Sends a text message to a phone."),
    tool_api("book_seat", "Reserves seats at the theatre."),
)
UMBRELLA = "Do I need an umbrella?"
WEATHER = Step("weather", success=True)


def chosen(choice: ToolChoice, request: str = UMBRELLA, tools=TOOLS):
    return asyncio.run(choice.choose(request, tools))


@pytest.fixture
def store(tmp_path):
    with OnlineStore(tmp_path / "a.sqlite", []) as store:
        yield store


class TestAfterARestart:
    @pytest.mark.parametrize("other", ["final_result", "load_tools", "gone"])
    def test_a_step_of_a_tool_that_is_not_there(self, store, other):
        ToolChoice(store=store).observe(UMBRELLA, [WEATHER, Step(other, success=True)], True)
        assert chosen(ToolChoice(store=store)) == ("weather",)

    def test_nothing_but_tools_that_are_not_there(self, store):
        ToolChoice(store=store).observe(UMBRELLA, [Step("final_result")], True)
        assert chosen(ToolChoice(store=store)) == ()

    def test_tools_that_the_router_does_not_know(self, store):
        router = fit_router(Catalog(TOOLS[1:]))
        steps = [WEATHER, Step("send_sms", success=False)]
        ToolChoice(router, store=store).observe(UMBRELLA, steps, True)
        assert chosen(ToolChoice(router, store=store)) == ("weather",)

    def test_some_that_the_router_knows_and_some_that_it_does_not(self, tmp_path):
        request = "The usual Monday routine"
        for _ in range(2):
            router = fit_router(Catalog(TOOLS[1:]))
            with OnlineStore(tmp_path / "b.sqlite", [RouterObserver(router)]) as store:
                choice = ToolChoice(router, store=store)
                found = chosen(choice, request)
                choice.observe(request, [WEATHER, Step("book_seat", success=True)], True, id="run")
        assert {"weather", "book_seat"} <= set(found)
        assert [m.apis for m in router.history] == [("book_seat",)]

    def test_other_names_than_those_of_the_framework(self, store):
        for router in (None, fit_router(Catalog(TOOLS[1:]))):
            names = {"weather": "sky__weather", "send_sms": "phone__send_sms"}
            choice = ToolChoice(router, store=store, names=names)
            choice.observe(UMBRELLA, [WEATHER], True, id="run")
            assert chosen(choice) == ("weather",)
            assert chosen(ToolChoice(router, store=store, names=names)) == ("weather",)

    def test_what_others_observed(self, store):
        store.observe(Mashup("m1", UMBRELLA, ("weather", "radar")))
        store.observe(Trajectory("t1", "Take me away", (Step("book_seat"),), success=True))
        store.observe(Trajectory("t2", "Call me back", (Step("send_sms"),)))
        store.observe(Trajectory("t3", " ", (Step("send_sms"),), success=True))
        choice = ToolChoice(store=store)
        assert chosen(choice) == ("weather",)
        assert chosen(choice, "Take me away") == ("book_seat",)
        assert chosen(choice, "Call me back") == ()


class TestOfOtherTools:
    def test_before_the_first_choice(self):
        choice = ToolChoice()
        choice.observe(UMBRELLA, [WEATHER], True)
        assert chosen(choice) == ("weather",)

    def test_one_more_tool(self):
        choice = ToolChoice()
        assert chosen(choice) == ()
        choice.observe(UMBRELLA, [WEATHER], True)
        more = (*TOOLS, tool_api("clock", "Says what time it is."))
        assert chosen(choice, tools=more) == ("weather",)

    def test_many_sets_of_tools_between(self):
        choice = ToolChoice()
        chosen(choice)
        choice.observe(UMBRELLA, [WEATHER], True)
        for n in range(20):
            chosen(choice, "Something", [tool_api(f"a{n}", "Other."), tool_api(f"b{n}", "Thing.")])
        assert frozenset(TOOLS) in choice._routers.fitted  # it took longest to fit
        choice._routers.fitted.clear()
        assert chosen(choice) == ("weather",)

    def test_the_largest_set_goes_too_where_newer_ones_are_as_large(self):
        choice = ToolChoice()
        chosen(choice)
        for n in range(12):
            chosen(choice, tools=(*TOOLS, tool_api(f"tool{n}", "Another.")))
        assert len(choice._routers.fitted) == 8
        assert frozenset(TOOLS) not in choice._routers.fitted

    def test_the_newest_are_held(self, monkeypatch):
        monkeypatch.setattr(specification_routers, "_MOST_LESSONS", 2)
        choice = ToolChoice()
        for request in (UMBRELLA, "Take me away", "Call me back"):
            choice.observe(request, [Step("book_seat")], True)
        assert chosen(choice) == ()
        assert chosen(choice, "Take me away") == chosen(choice, "Call me back") == ("book_seat",)

    def test_one_run_counts_once(self):
        choice = ToolChoice()
        for _ in range(2):
            choice.observe(UMBRELLA, [WEATHER], True, id="run")
        chosen(choice)
        choice.observe(UMBRELLA, [WEATHER], True, id="run")
        (fitted,) = choice._routers.fitted.values()
        assert len(fitted.result().history) == 1

    def test_calls_that_all_failed_teach_nothing(self):
        choice = ToolChoice()
        choice.observe(UMBRELLA, [Step("weather", success=False)], True)
        assert chosen(choice) == ()


class TestForgotten:
    def test_a_user(self, store):
        choice = ToolChoice(store=store)
        assert chosen(choice) == ()
        choice.observe(UMBRELLA, [WEATHER], True, user="ann")
        choice.observe("Take me away", [Step("book_seat")], True, user="bob")
        assert chosen(choice) == ("weather",)
        store.forget(Forgetting(users=("ann",)))
        choice.observe("Call me back", [Step("send_sms")], True)  # as many records as before
        assert chosen(choice) == ()
        assert chosen(choice, "Take me away") == ("book_seat",)
        assert chosen(choice, "Call me back") == ("send_sms",)

    def test_a_tool_of_a_record_that_stays(self, store):
        choice = ToolChoice(store=store)
        choice.observe(UMBRELLA, [WEATHER, Step("book_seat", success=True)], True)
        assert set(chosen(choice)) == {"weather", "book_seat"}
        store.forget(Forgetting(apis=("weather",)))
        assert chosen(choice) == ("book_seat",)

    def test_beside_a_router(self, store):
        choice = ToolChoice(fit_router(Catalog(TOOLS[1:])), store=store)
        choice.observe(UMBRELLA, [WEATHER], True, user="ann")
        assert chosen(choice) == ("weather",)
        store.forget(Forgetting(users=("ann",)))
        assert chosen(choice) == ()

    def test_while_a_router_is_fitted_again(self, store, monkeypatch):
        choice, fit = ToolChoice(store=store), specification_routers.fit_router
        assert chosen(choice) == ()

        def slowly(catalog, history):
            monkeypatch.setattr(specification_routers, "fit_router", fit)
            store.forget(Forgetting(users=("ann",)))
            assert chosen(choice) == ()  # fitted anew meanwhile
            return fit(catalog, history)

        monkeypatch.setattr(specification_routers, "fit_router", slowly)
        choice.observe(UMBRELLA, [WEATHER], True, user="ann")
        assert chosen(choice) == ()
