"""openai-agents, with its own scripted model: what the model sees, and what its tools answer."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import httpx
import openai
import pytest
from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelSettings,
    RunContextWrapper,
    Runner,
    RunState,
    SQLiteSession,
    StopAtTools,
    ToolGuardrailFunctionOutput,
    Usage,
    WebSearchTool,
    function_tool,
    input_guardrail,
    set_tracing_disabled,
    tool_input_guardrail,
)
from agents.mcp import MCPServer
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from many_tools import SPECIAL, many_tools
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool

from cnp_router import (
    Call,
    Catalog,
    FunctionSource,
    InputError,
    OnlineStore,
    Sources,
    SpecificationRouter,
    SubAgents,
)
from cnp_router.adapters import ToolChoice
from cnp_router.adapters.openai_agents import FunctionTools, RoutedAgent, source_tools, sub_agent

set_tracing_disabled(True)


@function_tool
def weather(city: str, days: int = 1) -> str:
    """Says whether it will rain in a city."""
    return f"Rain in {city} for {days} days."


@function_tool
def share_price(company: str) -> float:
    """Looks up the price of a share on the stock exchange."""
    if company == "secret":
        raise PermissionError("the market is closed")
    raise ConnectionError(f"no quote of {company}")


@function_tool
def send_sms(text: str) -> str:
    """Sends a text message to a phone."""
    return "sent"


@function_tool(needs_approval=True)
def delete_city(city: str) -> str:
    """Demolishes a city for good."""
    return f"{city} is gone."


@dataclass
class Place:
    name: str


TOOLS = [weather, share_price, send_sms]
RAIN = "Will it rain in Kyoto?"


class Listening(ToolChoice):
    """Keeps the requests that it chooses by."""

    def __init__(self):
        super().__init__()
        self.requests = []

    async def choose(self, request, tools, *, always=()):
        self.requests.append(request)
        return await super().choose(request, tools, always=always)


def shown(model: ScriptedModel) -> list[list[str]]:
    return [[tool.name for tool in call.tools] for call in model.calls]


def done(text: str = "Done."):
    return [assistant_message(text)]


def run(agent, request, **how):
    return asyncio.run(Runner.run(agent, request, **how))


class TestWhatTheModelSees:
    def test_what_fits_and_the_tool_runs(self):
        call = function_call("weather", {"city": "Kyoto", "days": 2}, call_id="c1")
        model = ScriptedModel([[call], done("Take an umbrella.")])
        result = run(RoutedAgent("helper", tools=list(TOOLS), model=model), RAIN)
        assert shown(model) == [["weather"], ["weather"]]
        assert result.final_output == "Take an umbrella."
        assert model.last_call.input[-1]["output"] == "Rain in Kyoto for 2 days."

    def test_nothing_fits(self):
        model = ScriptedModel([done()])
        assert run(RoutedAgent("helper", tools=list(TOOLS), model=model), "zzz").final_output
        assert shown(model) == [[]]

    def test_always_and_what_the_settings_name(self):
        model = ScriptedModel([done(), done(), done()])
        agent = RoutedAgent(
            "helper", tools=list(TOOLS), model=model, choice=ToolChoice(always=["send_sms"])
        )
        run(agent, RAIN)
        run(agent.clone(tool_use_behavior=StopAtTools(stop_at_tool_names=["share_price"])), "zzz")
        run(agent.clone(model_settings=ModelSettings(tool_choice="share_price")), "zzz")
        assert shown(model) == [
            ["weather", "send_sms"],
            ["share_price", "send_sms"],
            ["share_price", "send_sms"],
        ]

    def test_more_than_k_always(self):
        agent = RoutedAgent("helper", tools=list(TOOLS), choice=ToolChoice(k=1))
        agent.tool_use_behavior = StopAtTools(stop_at_tool_names=["weather", "send_sms"])
        with pytest.raises(InputError, match="raise k"):
            run(agent.clone(model=ScriptedModel([done()])), RAIN)

    def test_hosted_tools_handoffs_and_disabled_tools_are_left_as_they_are(self):
        model = ScriptedModel([done()])
        closed = function_tool(lambda: "", name_override="rain_in_kyoto", is_enabled=False)
        clerk = Agent("clerk")
        agent = RoutedAgent(
            "helper", tools=[WebSearchTool(), *TOOLS, closed], handoffs=[clerk], model=model
        )
        run(agent, RAIN)
        assert shown(model) == [["web_search", "weather"]]
        assert [handoff.agent_name for handoff in model.last_call.handoffs] == ["clerk"]

    def test_two_tools_of_one_name(self):
        closed = function_tool(lambda: "", name_override="weather", is_enabled=lambda c, a: False)
        for twice in (weather, function_tool(lambda: "", name_override="weather")):
            with pytest.raises(InputError, match="'weather'"):
                RoutedAgent("helper", tools=[weather, twice])
            with pytest.raises(InputError, match="'weather'"):
                RoutedAgent("helper").clone(tools=[weather, closed, twice])
        model = ScriptedModel([done()])
        run(RoutedAgent("helper", tools=[closed, *TOOLS], model=model), RAIN)
        assert shown(model) == [["weather"]]

    def test_two_tools_of_one_name_that_are_enabled_in_the_run(self):
        async def nothing(context, arguments):
            return ""

        other = FunctionTool("weather", "Whether a city has snow.", {"properties": {}}, nothing)
        other.is_enabled = lambda context, agent: True
        agent = RoutedAgent("helper", tools=[weather, other, send_sms])

        async def tools():
            context = RunContextWrapper(None)
            context.turn_input = [{"role": "user", "content": RAIN}]
            return await agent.get_all_tools(context)

        assert [tool.description for tool in asyncio.run(tools())] == [weather.description]

    def test_what_is_no_tool_and_no_choice(self):
        with pytest.raises(InputError, match=r"tools must be tools of openai-agents, got 'x'"):
            RoutedAgent("helper", tools=["x"])
        with pytest.raises(InputError, match="function_tool"):
            RoutedAgent("helper", tools=[weather, book])
        with pytest.raises(InputError, match="choice must be"):
            RoutedAgent("helper", choice="all of them")

    def test_clone_and_as_tool(self):
        model = ScriptedModel([done("Rain.")])
        helper = RoutedAgent("helper", tools=list(TOOLS), model=model).clone(name="other")
        assert isinstance(helper, RoutedAgent)
        asked = function_call("ask", {"input": RAIN}, call_id="c1")
        manager = Agent(
            "manager",
            tools=[helper.as_tool("ask", "Asks.")],
            model=ScriptedModel([[asked], done()]),
        )
        run(manager, "Ask somebody.")
        assert shown(model) == [["weather"]]

    def test_streamed(self):
        model = ScriptedModel([done()])
        agent = RoutedAgent("helper", tools=list(TOOLS), model=model)

        async def stream():
            async for _ in Runner.run_streamed(agent, RAIN).stream_events():
                pass

        asyncio.run(stream())
        assert shown(model) == [["weather"]]


class TestWhichRequest:
    SHARE = "What is the price of the share of a company?"

    def seen(self, items, **how):
        model = ScriptedModel([done()])
        run(RoutedAgent("helper", tools=list(TOOLS), model=model, **how), items)
        return shown(model)[0]

    def test_the_newest_messages_of_the_user(self):
        old = {"role": "user", "content": RAIN}
        answer = {"role": "assistant", "content": "Yes."}
        new = {"role": "user", "content": [{"type": "input_text", "text": self.SHARE}]}
        assert self.seen([old, answer, new]) == ["share_price"]
        assert self.seen([new, answer, old]) == ["weather"]
        heard = Listening()
        self.seen([answer, old, new], choice=heard)
        assert heard.requests == [f"{RAIN}\n{self.SHARE}"]

    def test_an_image_alone_says_nothing_new(self):
        image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}
        assert self.seen([{"role": "user", "content": RAIN}, image]) == ["weather"]
        assert self.seen([image]) == []

    def test_a_session_goes_on(self):
        model = ScriptedModel([done(), done()])
        agent = RoutedAgent("helper", tools=list(TOOLS), model=model)
        session = SQLiteSession("s1")
        run(agent, RAIN, session=session)
        run(agent, self.SHARE, session=session)
        session.close()
        assert shown(model) == [["weather"], ["share_price"]]

    def test_what_was_called_before_stays(self):
        again = [function_call("weather", {"city": "Nara", "days": 1}, call_id="c2")]
        first = [function_call("weather", {"city": "Kyoto", "days": 1}, call_id="c1")]
        model = ScriptedModel([first, done(), again, done(), done()])
        agent = RoutedAgent("helper", tools=list(TOOLS), model=model)

        async def turns():
            items = []
            for text in (RAIN, "And tomorrow?", self.SHARE):
                items.append({"role": "user", "content": text})
                items = (await Runner.run(agent, items)).to_input_list()
            return items

        said = [item["output"] for item in asyncio.run(turns()) if "output" in item]
        assert said == ["Rain in Kyoto for 1 days.", "Rain in Nara for 1 days."]
        assert shown(model) == [["weather"]] * 4 + [["weather", "share_price"]]

    def test_ones_own(self):
        assert self.seen("And there?", request=lambda context: RAIN) == ["weather"]

        async def later(context: RunContextWrapper) -> str:
            return context.turn_input[0]["content"].replace("?", " rain")

        assert self.seen("And in a city?", request=later) == ["weather"]


def routed(n: int) -> RoutedAgent:
    """Return an agent of `n` tools, and a router of a kind that is ready at once."""
    apis = many_tools(n)

    async def called(context, arguments):
        return f"{context.tool_name} ran"

    tools = [
        FunctionTool(api.id, api.description, {"properties": {}}, called, False) for api in apis
    ]
    choice = ToolChoice(SpecificationRouter(Catalog(apis)), k=8)
    return RoutedAgent("helper", tools=tools, choice=choice)


class TestManyTools:
    def test_at_most_k_of_ten_thousand(self):
        model = ScriptedModel([done()])
        run(routed(10_000).clone(model=model), "List the invoices and show me each one")
        (names,) = shown(model)
        assert 1 <= len(names) <= 8
        assert all("invoice" in name for name in names)

    def test_fifty_runs_at_once_see_their_own(self):
        agent = routed(500)
        models = {
            name: ScriptedModel([[function_call(name, {}, call_id="c")], done()])
            for name in SPECIAL
        }

        async def runs():
            await asyncio.gather(
                *(
                    Runner.run(agent.clone(model=models[name]), request)
                    for name, request in SPECIAL.items()
                )
            )

        asyncio.run(runs())
        for name, own in models.items():
            assert name in shown(own)[0]
            assert all(len(each) <= 8 for each in shown(own))
            assert own.last_call.input[-1]["output"] == f"{name} ran"

    def test_one_agent_in_many_runs(self):
        agent = routed(200)
        names = [*SPECIAL][:20]

        def answer(call):
            (asked,) = (item["content"] for item in call.input)
            return done(f"{asked}: {[tool.name for tool in call.tools]}")

        agent.model = ScriptedModel([ModelStep.respond(answer) for _ in names])

        async def runs():
            return await asyncio.gather(*(Runner.run(agent, SPECIAL[name]) for name in names))

        for name, result in zip(names, asyncio.run(runs()), strict=True):
            assert result.final_output.startswith(f"{SPECIAL[name]}: ")
            assert name in result.final_output


class TestSavedRuns:
    def test_a_call_that_waits_for_approval_is_found_again(self):
        call = function_call("delete_city", {"city": "Atlantis"}, call_id="c1")
        model = ScriptedModel([[call], done("Gone.")])
        agent = RoutedAgent("helper", tools=[*TOOLS, delete_city], model=model)

        async def both():
            first = await Runner.run(agent, "Demolish the city of Atlantis for good.")
            assert len(first.interruptions) == 1
            state = await RunState.from_json(agent, json.loads(first.to_state().to_string()))
            state.approve(state.get_interruptions()[0])
            return await Runner.run(agent, state)

        assert asyncio.run(both()).final_output == "Gone."
        assert shown(model) == [["delete_city"], ["delete_city"]]


class TestOutcomes:
    REQUEST = "Do I need an umbrella?"

    def test_a_run_teaches(self, tmp_path):
        call = function_call("weather", {"city": "Kyoto", "days": 1}, call_id="c1")
        wrong = function_call("share_price", {"company": "rain"}, call_id="c2")
        model = ScriptedModel([[call, wrong], done(), done()])
        with OnlineStore(tmp_path / "a.sqlite", []) as store:
            choice = ToolChoice(store=store)
            agent = RoutedAgent(
                "helper", tools=list(TOOLS), model=model, choice=choice, request=self.asked
            )

            async def runs():
                both = "Will it rain in a city, and the price of the share?"
                result = await Runner.run(agent, both, context={})
                kept = await agent.observe(result, success=True, user="ann")
                await Runner.run(agent, self.REQUEST)
                return kept

            kept = asyncio.run(runs())
            assert store.sequence == 2
        assert [(step.tool, step.success) for step in kept.steps] == [
            ("weather", None),
            ("share_price", False),
        ]
        assert kept.steps[0].inputs == {"city": "Kyoto", "days": 1}
        assert kept.steps[0].observation == "Rain in Kyoto for 1 days."
        assert kept.user == "ann"
        assert shown(model)[-1] == ["weather"]

    def asked(self, context):
        (item,) = context.turn_input
        return item["content"] if "rain" in item["content"] else self.REQUEST + " rain"

    def test_a_run_that_broke_off(self):
        calls = [
            [function_call("weather", {"city": "a", "days": 1}, call_id=f"c{n}")] for n in "ab"
        ]
        agent = RoutedAgent("helper", tools=list(TOOLS), model=ScriptedModel(calls))
        with pytest.raises(MaxTurnsExceeded) as error:
            run(agent, RAIN, max_turns=2)
        kept = asyncio.run(agent.observe(error.value.run_data, success=False))
        assert (kept.goal, kept.tools, kept.success) == (RAIN, ("weather", "weather"), False)


def book(seat: str) -> str:
    """Reserves a seat at the theatre."""
    return f"{seat} is yours"


def broken(seat: str) -> str:
    """Says which seat at the theatre is free."""
    raise ConnectionError("no line")


class TestToolsOfSources:
    SEAT = "Reserve a free seat at the theatre."

    def run(self, *calls, **how):
        model = ScriptedModel(
            [[function_call(*call, call_id=f"c{n}")] for n, call in enumerate(calls)]
        )
        model.enqueue(done())

        async def main():
            theatre = FunctionSource("theatre", [book, broken], effects={"broken": "reads"})
            async with Sources([theatre]) as sources:
                tools = await source_tools(sources, **how)
                agent = RoutedAgent("helper", tools=[*tools, weather], model=model)
                result = await Runner.run(agent, self.SEAT)
                return await agent.observe(result, success=False)

        kept = asyncio.run(main())
        assert set(shown(model)[0]) == {"theatre__book", "theatre__broken"}
        return [call.input[-1]["output"] for call in model.calls[1:]], kept.steps

    def test_called_with_approval(self):
        asked = []
        said, steps = self.run(
            ("theatre__book", {"seat": "A1"}), approve=lambda a: not asked.append(a)
        )
        assert said == ["A1 is yours"]
        assert asked[0].inputs == {"seat": "A1"}
        assert steps[0].success is None

    def test_what_goes_wrong_is_told_and_known(self):
        said, steps = self.run(
            ("theatre__book", {"seat": "A1"}),
            ("theatre__broken", {"seat": "A1"}),
            ("theatre__broken", {"row": 1}),
            ("theatre__broken", "{"),
            ("theatre__broken", "[]"),
        )
        kinds = [text.partition(":")[0] for text in said]
        assert kinds == ["declined", "tool", "inputs", "inputs", "inputs"]
        assert [step.success for step in steps] == [False] * 5


class TownServer(MCPServer):
    """A server of tools in this process."""

    name = "town"

    async def connect(self):
        pass

    cleanup = list_prompts = connect

    async def get_prompt(self, name, arguments=None):
        pass

    async def list_tools(self, run_context=None, agent=None):
        schema = {"type": "object", "properties": {}}
        said = {"museum": "Opening hours of the museum.", "market": "Dates of the market."}
        return [MCPTool(name=n, description=d, input_schema=schema) for n, d in said.items()]

    async def call_tool(self, tool_name, arguments, meta=None):
        return CallToolResult(content=[TextContent(type="text", text="from nine to five")])


def test_tools_of_mcp_servers_are_chosen_among_the_others():
    model = ScriptedModel([[function_call("museum", {}, call_id="c1")], done()])
    agent = RoutedAgent("helper", tools=list(TOOLS), mcp_servers=[TownServer()], model=model)
    run(agent, "What are the opening hours of the museum?")
    assert shown(model) == [["museum"], ["museum"]]
    assert "from nine to five" in str(model.last_call.input[-1]["output"])


class TestToolsAsContractors:
    TOOLS = FunctionTools("city", [*TOOLS, delete_city], effects={"weather": "reads"})

    def call(self, name, inputs, tools=None, **how):
        return asyncio.run((tools or self.TOOLS).call(Call(api=name, inputs=inputs, **how)))

    def test_definitions(self):
        apis = asyncio.run(self.TOOLS.apis())
        assert [(api.id, api.effects) for api in apis] == [
            ("city__weather", "reads"),
            ("city__share_price", "unknown"),
            ("city__send_sms", "unknown"),
            ("city__delete_city", "writes"),
        ]
        assert apis[0].parameters["required"] == ["city"]

    def test_called(self):
        assert self.call("city__weather", {"city": "Nara"}).text == "Rain in Nara for 1 days."

    def test_errors_say_what_happened(self):
        failure = self.call("city__share_price", {"company": "ACME"}).failure
        assert (failure.kind, failure.message) == ("tool", "ConnectionError: no quote of ACME")
        assert self.call("city__share_price", {"company": "secret"}).failure.kind == "permission"
        assert self.call("city__weather", {"city": 9}).failure.kind == "inputs"
        assert self.call("city__weather", {"town": "Nara"}).failure.kind == "inputs"

    def test_the_tool_of_the_agent_stays_as_it_is(self):
        model = ScriptedModel(
            [[function_call("share_price", {"company": "ACME"}, call_id="c")], done()]
        )
        run(Agent("helper", tools=[share_price], model=model), "Price?")
        assert "error occurred" in model.last_call.input[-1]["output"]

    def test_time_and_cancellation(self):
        ended = []

        @function_tool
        async def wait() -> str:
            """Waits."""
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
            return ""

        tools = FunctionTools("slow", [wait])
        assert self.call("slow__wait", {}, tools, timeout=0.05).failure.kind == "timeout"

        async def give_up():
            task = asyncio.create_task(tools.call(Call(api="slow__wait")))
            await asyncio.sleep(0.05)
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(give_up())
        assert ended == ["cancelled", "cancelled"]

    def test_context_and_structured_results(self):
        @function_tool
        def where(context: RunContextWrapper[str]) -> Place:
            """Says where you are."""
            return Place(context.context)

        tools = FunctionTools("here", [where], context="Nara")
        assert self.call("here__where", {}, tools).data == {"name": "Nara"}

    def test_an_agent_as_tool(self):
        helper = Agent("helper", model=ScriptedModel([done("Yes.")]))
        tools = FunctionTools("desk", [helper.as_tool("ask", "Asks the helper.")])
        assert self.call("desk__ask", {"input": "Rain?"}, tools).text == "Yes."

    def test_what_needs_an_agents_run(self):
        @tool_input_guardrail
        def check(data):
            return ToolGuardrailFunctionOutput.allow()

        guarded = function_tool(lambda: "", name_override="a", tool_input_guardrails=[check])
        asks = function_tool(lambda: "", name_override="a", is_enabled=lambda c, a: True)
        off = function_tool(lambda: "", name_override="a", is_enabled=False)
        with pytest.raises(InputError, match="guardrails"):
            FunctionTools("x", [guarded])
        with pytest.raises(InputError, match="enabled"):
            FunctionTools("x", [asks])
        assert asyncio.run(FunctionTools("x", [off, weather]).apis())[0].id == "x__weather"

    def test_wrong_arguments(self):
        with pytest.raises(InputError, match="'snow'"):
            FunctionTools("x", [weather], effects={"snow": "reads"})
        with pytest.raises(InputError, match="'weather'"):
            FunctionTools("x", [weather, weather])
        with pytest.raises(InputError, match="tools"):
            FunctionTools("x", [lambda: ""])


class TestAgentsAsContractors:
    USAGE = Usage(requests=1, input_tokens=90, output_tokens=9, total_tokens=99)

    def helper(self, *steps, **how):
        model = ScriptedModel(steps, default_usage=self.USAGE)
        agent = Agent("helper", tools=[weather, delete_city], model=model, **how)
        return sub_agent(agent, "Says what the weather is.", max_turns=2), model

    def test_asked(self):
        call = function_call("weather", {"city": "Nara", "days": 1}, call_id="c1")
        helper, model = self.helper([call], done("Rain."))
        reply = asyncio.run(helper.ask("Rain in Nara?"))
        assert (reply.result.text, reply.tokens, reply.turns) == ("Rain.", 198, 2)
        assert model.first_call.input[0]["content"] == "Rain in Nara?"

    def test_as_a_source(self):
        helper, _ = self.helper(done("Rain."))
        desk = SubAgents("desk", [helper])
        call = Call(api="desk__helper", inputs={"text": "Rain?"})
        assert asyncio.run(desk.call(call)).text == "Rain."

    def test_a_structured_answer(self):
        helper, _ = self.helper(done('{"response": {"name": "Nara"}}'), output_type=Place)
        assert asyncio.run(helper.ask("Rain?")).result.data == {"name": "Nara"}

    def test_too_many_turns(self):
        calls = [
            [function_call("weather", {"city": "a", "days": 1}, call_id=f"c{n}")] for n in "ab"
        ]
        reply = asyncio.run(self.helper(*calls)[0].ask("Rain?"))
        assert "more than 2 turns" in reply.result.failure.message
        assert reply.tokens == 198  # paid all the same

    def test_a_call_that_needs_approval(self):
        call = function_call("delete_city", {"city": "Nara"}, call_id="c1")
        reply = asyncio.run(self.helper([call])[0].ask("Demolish Nara."))
        assert reply.result.failure.kind == "declined"
        assert "delete_city" in reply.result.failure.message
        assert reply.tokens == 99

    def test_its_model_is_gone_for_now(self):
        request = httpx.Request("POST", "http://127.0.0.1/")
        gone = openai.APIConnectionError(request=request)
        reply = asyncio.run(self.helper(ModelStep.raise_error(gone))[0].ask("Rain?"))
        assert reply.result.failure.kind == "unavailable"
        assert reply.result.failure.is_transient

    def test_a_guardrail_and_an_error(self):
        @input_guardrail
        async def never(context, agent, items):
            return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

        helper, _ = self.helper(done(), input_guardrails=[never])
        failure = asyncio.run(helper.ask("Rain?")).result.failure
        assert (failure.kind, InputGuardrailTripwireTriggered.__name__ in failure.message) == (
            "tool",
            True,
        )
        failure = asyncio.run(self.helper(ValueError("broken"))[0].ask("Rain?")).result.failure
        assert failure.message == "ValueError: broken"

    def test_its_time_is_up(self):
        async def think(call):
            await asyncio.sleep(30)

        call = function_call("weather", {"city": "Nara", "days": 1}, call_id="c1")
        helper, _ = self.helper([call], ModelStep.respond(think))
        reply = asyncio.run(helper.ask("Rain?", timeout=1.0))
        assert (reply.result.failure.kind, reply.tokens, reply.turns) == ("timeout", 99, 2)

    def test_it_says_how_far_it_is(self):
        told = []
        call = function_call("weather", {"city": "Nara", "days": 1}, call_id="c1")
        helper, _ = self.helper([call], done("Rain."))
        asyncio.run(helper.ask("Rain?", on_progress=told.append))
        assert [(each.done, each.message) for each in told] == [
            (1, "thinks"),
            (1, "calls weather"),
            (2, "thinks"),
        ]

    def test_no_description(self):
        with pytest.raises(InputError, match="say what it can be asked"):
            sub_agent(Agent("helper"))
        helper = sub_agent(Agent("helper", handoff_description="Knows the weather."))
        assert helper.api.description == "Knows the weather."
