"""LangChain: the model sees at most k tools, and what it calls of them runs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import ToolException, tool
from langchain_fakes import ObedientModel, asked, last, plain_tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from many_tools import SPECIAL, many_tools
from pydantic import BaseModel

from cnp_router import Catalog, InputError, OnlineStore, SpecificationRouter
from cnp_router.adapters import ToolChoice
from cnp_router.adapters.langchain import RoutedTools

RAIN = "Will it rain in Kyoto?"


@pytest.fixture(autouse=True)
def _no_tracing(monkeypatch):
    monkeypatch.setenv("LANGSMITH_TRACING", "false")


@tool
def weather(city: str = "Kyoto") -> str:
    """Says whether it will rain in a city."""
    return f"Rain in {city}."


@tool
def send_sms(to: str = "", text: str = "") -> str:
    """Sends a text message to a phone."""
    return "sent"


@tool
def share_price(share: str = "") -> str:
    """Looks up the price of a share on the stock exchange."""
    raise ToolException("the exchange is closed")


FEW = [weather, send_sms, share_price]


@pytest.fixture(scope="module")
def many():
    """Return a function that gives a middleware which holds ten thousand tools, and a router."""
    apis = many_tools(10_000)
    router = SpecificationRouter(Catalog(apis))
    tools = [plain_tool(api.id, api.description) for api in apis]
    return lambda *always: RoutedTools(ToolChoice(router, k=4, always=always), tools=tools)


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request):
    """Return how an agent is run: synchronously, or not."""

    def runs(agent, request_, **how):
        if request.param == "invoke":
            return agent.invoke(asked(request_), **how)
        return asyncio.run(agent.ainvoke(asked(request_), **how))

    return runs


class TestTheModelIsShown:
    def test_at_most_k_of_ten_thousand_and_what_it_calls_runs(self, many, run):
        model = ObedientModel(calls={"feed_jade_heron": {}})
        routed = many("list_weather_0")
        done = run(create_agent(model, middleware=[routed]), "Feed the jade heron")
        assert last(done) == "It said: feed_jade_heron was called"
        assert len(model.seen) == 2
        for names in model.seen:
            assert names[0] == "list_weather_0"  # always
            assert "feed_jade_heron" in names
            assert len(names) <= 4

    def test_the_agents_own_tools_that_fit(self, run):
        model = ObedientModel()
        agent = create_agent(model, FEW, middleware=[RoutedTools()])
        assert last(run(agent, RAIN)) == "It said: Rain in Kyoto."
        assert model.seen == [("weather",)] * 2

    def test_those_that_are_always_shown_come_first(self, run):
        model = ObedientModel(calls={"weather": {"city": "Nara"}})
        routed = RoutedTools(ToolChoice(k=2, always=["send_sms"]), tools=[send_sms])
        done = run(create_agent(model, [weather, share_price], middleware=[routed]), RAIN)
        assert last(done) == "It said: Rain in Nara."
        assert model.seen == [("send_sms", "weather")] * 2

    def test_nothing_where_nothing_fits(self, run):
        model = ObedientModel()
        agent = create_agent(model, FEW, middleware=[RoutedTools()])
        assert last(run(agent, "zzz qqq")) == "I have no tool for this."
        assert model.seen == [()]
        assert model.bound == []

    def test_what_the_newest_message_of_a_person_asks_for(self, run):
        model = ObedientModel()
        agent = create_agent(model, FEW, middleware=[RoutedTools()])
        messages = [
            HumanMessage("Send a text message to her phone."),
            AIMessage("Sent."),
            HumanMessage([{"type": "text", "text": RAIN}, {"type": "image", "url": "http://x/"}]),
            HumanMessage([{"type": "image", "url": "http://x/"}]),  # says nothing
        ]
        agent.invoke({"messages": messages})
        assert model.seen[0] == ("weather",)

    def test_what_was_called_before_stays(self):
        model = ObedientModel()
        agent = create_agent(model, middleware=[RoutedTools(tools=FEW)])
        done = agent.invoke(asked(RAIN))
        for text in ("And tomorrow?", "Send a text message to her phone."):
            done = agent.invoke({"messages": [*done["messages"], ("human", text)]})
        assert model.seen == [("weather",)] * 4 + [("send_sms", "weather")] * 2

    @pytest.mark.parametrize("is_async", [True, False])
    def test_what_a_function_of_the_messages_says(self, run, is_async):
        async def later(messages):
            return messages[0].text.removeprefix("zzz ")

        def now(messages):
            return messages[0].text.removeprefix("zzz ")

        model = ObedientModel()
        routed = RoutedTools(tools=FEW, request=later if is_async else now)
        run(create_agent(model, middleware=[routed]), f"zzz {RAIN}")
        assert model.seen == [("weather",)] * 2

    def test_only_the_permanent_ones_where_nobody_says_a_word(self):
        model = ObedientModel()
        routed = RoutedTools(ToolChoice(always=["send_sms"]))
        agent = create_agent(model, FEW, middleware=[routed])
        agent.invoke({"messages": [HumanMessage([{"type": "image", "url": "http://x/"}])]})
        assert model.seen[0] == ("send_sms",)

    def test_tools_of_the_provider_and_those_of_the_response_format_stay(self, run):
        class Answer(BaseModel):
            rains: bool

        model = ObedientModel(calls={"Answer": {"rains": True}})
        search = {"type": "web_search"}
        agent = create_agent(
            model, [*FEW, search], middleware=[RoutedTools()], response_format=Answer
        )
        assert run(agent, RAIN)["structured_response"] == Answer(rains=True)
        assert model.seen == [("weather", "web_search", "Answer")]

    @pytest.mark.parametrize(
        ("tool_choice", "more"),
        [
            ("share_price", ("share_price",)),
            ({"type": "function", "function": {"name": "share_price"}}, ("share_price",)),
            ({"type": "tool", "name": "share_price"}, ("share_price",)),
            ("any", ()),
            ({"type": "any"}, ()),
            ("weather", ()),
            (None, ()),
        ],
    )
    @pytest.mark.parametrize("is_held", [True, False])
    def test_the_tool_that_has_to_be_called_stays(self, tool_choice, more, is_held):
        model = ObedientModel(calls={"weather": {}})
        routed = RoutedTools(tools=FEW if is_held else ())

        @wrap_model_call
        def forced(request, handler):
            return handler(request.override(tool_choice=tool_choice))

        agent = create_agent(model, [] if is_held else FEW, middleware=[forced, routed])
        agent.invoke(asked(RAIN))
        assert model.seen[0] == (*more, "weather")


class TestManyAtOnce:
    def test_fifty_runs_keep_their_tools_apart(self, many):
        model = ObedientModel()
        agent = create_agent(model, middleware=[many()])

        async def one(name, request):
            done = await agent.ainvoke(asked(request))
            return name, last(done)

        async def main():
            return await asyncio.gather(*(one(*each) for each in SPECIAL.items()))

        apart_of(asyncio.run(main()), model)

    def test_fifty_runs_in_threads_too(self, many):
        model = ObedientModel()
        agent = create_agent(model, middleware=[many()])

        def one(each):
            name, request = each
            done = agent.invoke(asked(request), {"configurable": {"thread_id": name}})
            return name, last(done)

        with ThreadPoolExecutor(50) as pool:
            apart_of(list(pool.map(one, SPECIAL.items())), model)

    def test_different_agents_share_one_middleware(self):
        routed = RoutedTools()
        models = [ObedientModel(), ObedientModel()]
        first = create_agent(models[0], [weather], middleware=[routed])
        second = create_agent(models[1], [send_sms], middleware=[routed])

        async def main():
            for _ in range(5):
                await asyncio.gather(
                    first.ainvoke(asked(RAIN)), second.ainvoke(asked("Send a text message."))
                )

        asyncio.run(main())
        assert {*models[0].seen} == {("weather",)}
        assert {*models[1].seen} == {("send_sms",)}


def apart_of(runs, model):
    """Check that each run was shown its own tool first, in both turns, and called it."""
    assert len(runs) == 50
    assert all(said == f"It said: {name} was called" for name, said in runs)
    assert sorted(names[0] for names in model.seen) == sorted([*SPECIAL, *SPECIAL])
    assert all(len(names) <= 4 for names in model.seen)


class TestGraphs:
    def test_an_agent_is_a_node_of_a_graph(self, run):
        model = ObedientModel()
        agent = create_agent(model, middleware=[RoutedTools(tools=FEW)])
        graph = StateGraph(MessagesState)
        graph.add_node("agent", agent)
        graph.add_edge(START, "agent")
        graph.add_edge("agent", END)
        assert last(run(graph.compile(), RAIN)) == "It said: Rain in Kyoto."
        assert model.seen == [("weather",)] * 2

    def test_a_graph_of_ones_own(self):
        model, routed = ObedientModel(), RoutedTools(tools=FEW)

        async def think(state: MessagesState) -> Any:
            shown = await routed.chosen(state["messages"])
            return {"messages": [await model.bind_tools(shown).ainvoke(state["messages"])]}

        graph = StateGraph(MessagesState)
        graph.add_node("think", think)
        node = ToolNode(
            [], wrap_tool_call=routed.wrap_tool_call, awrap_tool_call=routed.awrap_tool_call
        )
        graph.add_node("tools", node)
        graph.add_edge(START, "think")
        graph.add_conditional_edges(
            "think", lambda s: "tools" if s["messages"][-1].tool_calls else END
        )
        graph.add_edge("tools", "think")
        done = asyncio.run(graph.compile().ainvoke(asked(RAIN)))
        assert last(done) == "It said: Rain in Kyoto."
        assert model.seen == [("weather",)] * 2

    def test_invoke_where_an_event_loop_runs(self):
        model = ObedientModel()
        agent = create_agent(model, middleware=[RoutedTools(tools=FEW)])

        async def main():
            return agent.invoke(asked(RAIN))

        assert last(asyncio.run(main())) == "It said: Rain in Kyoto."

    def test_a_held_tool_is_given_the_state(self, run):
        @tool
        def count(state: Annotated[dict, InjectedState]) -> str:
            """Counts the messages of this conversation."""
            return f"{len(state['messages'])} messages"

        agent = create_agent(ObedientModel(), middleware=[RoutedTools(tools=[count])])
        assert last(run(agent, "Count the messages")) == "It said: 2 messages"


class TestErrors:
    def test_what_a_held_tool_raises_is_treated_as_by_the_framework(self, run):
        for how in ({"tools": FEW}, {"middleware": [RoutedTools(tools=FEW)]}):
            model = ObedientModel(calls={"share_price": {"share": "ACME"}})
            with pytest.raises(ToolException, match="the exchange is closed"):
                run(create_agent(model, **how), "the price of a share")

    def test_an_error_that_a_tool_handles_reaches_the_model(self, run):
        handled = share_price.model_copy(update={"handle_tool_error": True})
        model = ObedientModel()
        agent = create_agent(model, middleware=[RoutedTools(tools=[handled, weather])])
        done = run(agent, "the price of a share")
        assert last(done) == "It said: the exchange is closed"
        assert done["messages"][2].status == "error"

    def test_inputs_that_do_not_fit_reach_the_model(self, run):
        model = ObedientModel(calls={"weather": {"city": []}})
        done = run(create_agent(model, middleware=[RoutedTools(tools=FEW)]), RAIN)
        assert done["messages"][2].status == "error"
        assert "valid string" in last(done)

    def test_a_tool_that_nobody_has_is_named_and_no_other(self, run):
        model = ObedientModel(calls={"rain": {}})
        done = run(create_agent(model, FEW, middleware=[RoutedTools()]), RAIN)
        assert done["messages"][2].status == "error"
        assert last(done).startswith("It said: Error: rain is not a valid tool; use one of those")
        assert "send_sms" not in last(done)

    def test_two_tools_of_one_name(self):
        other = plain_tool("weather", "Another one.")
        with pytest.raises(InputError, match="two tools have the name 'weather'"):
            RoutedTools(tools=[weather, other])
        agent = create_agent(ObedientModel(), [other], middleware=[RoutedTools(tools=FEW)])
        with pytest.raises(InputError, match="different tools 'weather'"):
            agent.invoke(asked(RAIN))
        agent = create_agent(ObedientModel(), FEW, middleware=[RoutedTools(tools=FEW)])
        assert last(agent.invoke(asked(RAIN))) == "It said: Rain in Kyoto."

    def test_a_choice_that_is_none(self):
        with pytest.raises(InputError, match="choice must be"):
            RoutedTools("all of them")


class Kept:
    """Keeps what a store observes."""

    kind = "kept"

    def __init__(self):
        self.records = []

    def check(self, records):
        pass

    def apply(self, records):
        self.records += records

    def state(self):
        return {}

    def restore(self, state):
        pass


class ScriptedModel(GenericFakeChatModel):
    """Says what it is told to."""

    def bind_tools(self, tools, **how):
        return self


class TestOutcomes:
    def test_a_run_is_kept(self, tmp_path, run):
        kept = Kept()
        handled = share_price.model_copy(update={"handle_tool_error": True})
        with OnlineStore(tmp_path / "online.sqlite", [kept]) as store:
            routed = RoutedTools(ToolChoice(store=store), tools=[weather, handled])
            model = ObedientModel(calls={"weather": {}, "share_price": {"share": "A"}})
            done = run(create_agent(model, middleware=[routed]), RAIN)
            routed.observe(done, user="anna")
            asyncio.run(routed.aobserve(done, user="anna"))
        first, second = kept.records
        assert (first.goal, first.success, first.user) == (RAIN, None, "anna")
        steps = [(step.tool, step.inputs, step.observation, step.success) for step in first.steps]
        assert steps == [
            ("weather", {}, "Rain in Kyoto.", True),
            ("share_price", {"share": "A"}, "the exchange is closed", False),
        ]
        assert second.steps == first.steps

    def test_what_succeeded_teaches(self, run):
        routed = RoutedTools(tools=FEW)
        model = ObedientModel(calls={"weather": {}})
        agent = create_agent(model, middleware=[routed])
        request = "Do I need an umbrella?"
        routed.observe(run(agent, request), True)
        run(agent, request)
        assert model.seen == [(), ("weather",), ("weather",), ("weather",)]

    @pytest.mark.parametrize("how", ["observe", "aobserve"])
    def test_it_learns_of_the_text_it_chose_by(self, run, how):
        async def newest(messages):
            return str(messages[-1].text).removeprefix("<note> ")

        model = ObedientModel(calls={"weather": {}})
        routed = RoutedTools(tools=FEW, request=newest)
        agent = create_agent(model, middleware=[routed])
        done = run(agent, "<note> Do I need an umbrella?")
        if how == "observe":
            kept = routed.observe(done, True)
        else:
            kept = asyncio.run(routed.aobserve(done, True))
        assert (kept.goal, kept.tools) == ("Do I need an umbrella?", ("weather",))
        run(agent, "<note> Do I need an umbrella?")
        assert model.seen[0::2] == [(), ("weather",)]

    @pytest.mark.parametrize(
        "turns",
        [
            [["weather"], ["Answer"]],
            [["Answer", "weather"]],
            [["weather", "Answer"]],
        ],
    )
    def test_a_structured_answer_is_no_step(self, run, turns):
        class Answer(BaseModel):
            rains: bool

        inputs = {"weather": {}, "Answer": {"rains": True}}
        calls = ([{"name": n, "args": inputs[n], "id": n} for n in names] for names in turns)
        model = ScriptedModel(messages=(AIMessage("", tool_calls=turn) for turn in calls))
        routed = RoutedTools(tools=FEW)
        how = ToolStrategy(Answer)
        done = run(create_agent(model, middleware=[routed], response_format=how), RAIN)
        assert done["structured_response"] == Answer(rains=True)
        assert routed.observe(done, True).tools == ("weather",)

    def test_only_the_newest_request_of_a_conversation(self):
        routed = RoutedTools(tools=FEW)
        agent = create_agent(ObedientModel(), middleware=[routed])
        done = agent.invoke(asked(RAIN))
        done = agent.invoke({"messages": [*done["messages"], ("human", "Send a text message")]})
        kept = routed.observe(done)
        assert (kept.goal, [step.tool for step in kept.steps]) == (
            "Send a text message",
            ["send_sms"],
        )


def test_nothing_is_left_running():
    before = threading.active_count()
    agent = create_agent(ObedientModel(), middleware=[RoutedTools(tools=FEW)])
    asyncio.run(agent.ainvoke(asked(RAIN)))
    assert threading.active_count() <= before + 1  # a pool of LangChain's own
