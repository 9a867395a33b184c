"""pydantic-ai, with its own function model: what the model sees, and what its tools answer."""

from __future__ import annotations

import asyncio

import pytest
from many_tools import SPECIAL, many_tools
from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, ModelRetry, RunContext, Tool
from pydantic_ai.exceptions import (
    ModelAuthenticationError,
    ModelConnectionError,
    ModelRateLimitError,
    ModelTimeoutError,
    ToolFailed,
)
from pydantic_ai.messages import (
    ImageUrl,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.settings import ToolOrOutput
from pydantic_ai.tools import DeferredToolResults, ToolDefinition
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset, WrapperToolset

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
from cnp_router.adapters.pydantic_ai import (
    RoutedTools,
    RoutedToolset,
    SourceToolset,
    ToolsetSource,
    observe,
    sub_agent,
    tool_search,
)

TestModel.__test__ = False  # it is no test


def weather(city: str, days: int = 1) -> str:
    """Says whether it will rain in a city."""
    return f"Rain in {city} for {days} days."


def share_price(company: str) -> float:
    """Looks up the price of a share on the stock exchange."""
    if company == "secret":
        raise PermissionError("the market is closed")
    if company == "retry":
        raise ModelRetry("which company?")
    if company == "ask":
        raise ApprovalRequired
    raise ToolFailed(f"no quote of {company}")


def send_sms(text: str) -> str:
    """Sends a text message to a phone."""
    return "sent"


def delete_city(city: str) -> str:
    """Demolishes a city for good."""
    return f"{city} is gone."


FUNCTIONS = [weather, share_price, send_sms, Tool(delete_city, requires_approval=True)]
TOOLS = FunctionToolset(FUNCTIONS)
RAIN = "Will it rain in Kyoto?"


class Place(BaseModel):
    name: str


class Scripted:
    """A model that does what it is told to, and keeps what it saw."""

    def __init__(self, *steps):
        self.steps, self.seen, self.results = list(steps), [], []

    def __call__(self, messages, info):
        self.seen.append([tool.name for tool in info.function_tools])
        self.results.append(messages[-1].parts[-1])
        step = self.steps.pop(0) if self.steps else "Done."
        if isinstance(step, Exception):
            raise step
        part = TextPart(step) if isinstance(step, str) else ToolCallPart(*step)
        return ModelResponse(parts=[part])


def seen(prompt, *, tools=TOOLS, steps=(), agent_settings=None, history=None, **how):
    script = Scripted(*steps)
    agent = Agent(
        FunctionModel(script), toolsets=[RoutedToolset(tools, **how)], model_settings=agent_settings
    )
    asyncio.run(agent.run(prompt, message_history=history))
    return script.seen


class TestToolset:
    def test_what_fits_and_the_tool_runs(self):
        script = Scripted(("weather", {"city": "Kyoto", "days": 2}), "Take an umbrella.")
        agent = Agent(FunctionModel(script), toolsets=[RoutedToolset(TOOLS)])
        result = asyncio.run(agent.run(RAIN))
        assert script.seen == [["weather"], ["weather"]]
        assert script.results[-1].content == "Rain in Kyoto for 2 days."
        assert result.output == "Take an umbrella."

    def test_nothing_fits_or_nothing_is_said(self):
        assert seen("zzz") == [[]]
        assert seen(
            None, history=[ModelRequest([UserPromptPart([ImageUrl("http://a/b.png")])])]
        ) == [[]]

    def test_always_and_what_the_settings_name(self):
        always = ToolChoice(always=["send_sms"])
        assert seen(RAIN, choice=always) == [["weather", "send_sms"]]
        forced = {"tool_choice": ToolOrOutput(function_tools=["share_price"])}
        steps = [("share_price", {"company": "x"})]
        assert seen("zzz", agent_settings=forced, steps=steps)[0] == ["share_price"]

    def test_more_than_k_always(self):
        with pytest.raises(InputError, match="raise k"):
            seen(
                RAIN,
                choice=ToolChoice(k=1, always=["weather"]),
                agent_settings={"tool_choice": ToolOrOutput(function_tools=["share_price"])},
            )

    def test_the_newest_message_of_the_user(self):
        old = [ModelRequest([UserPromptPart(RAIN)]), ModelResponse([TextPart("Yes.")])]
        price = "What is the price of the share of a company?"
        assert seen(price, history=old) == [["share_price"]]
        assert seen([price, ImageUrl("http://127.0.0.1/a.png")], history=old) == [["share_price"]]
        assert seen([ImageUrl("http://127.0.0.1/a.png")], history=old) == [["weather"]]

    def test_what_was_called_before_stays(self):
        call = ("weather", {"city": "Kyoto"})
        script = Scripted(call, "Rain.", call, "Rain.")
        agent = Agent(FunctionModel(script), toolsets=[RoutedToolset(TOOLS)])

        async def turns():
            history = None
            for text in (RAIN, "And tomorrow?", "What is the price of the share?"):
                history = (await agent.run(text, message_history=history)).all_messages()

        asyncio.run(turns())
        assert script.seen == [["weather"]] * 4 + [["weather", "share_price"]]
        assert script.results[3].content == "Rain in Kyoto for 1 days."

    def test_ones_own_request(self):
        assert seen("And there?", request=lambda ctx: f"{ctx.prompt} {RAIN}") == [["weather"]]

        async def later(ctx: RunContext) -> str:
            return RAIN

        assert seen("And there?", request=later) == [["weather"]]

    def test_deferred_tools_are_left_as_they_are(self):
        tools = FunctionToolset([weather, Tool(send_sms, defer_loading=True)])
        script = Scripted()
        agent = Agent(
            FunctionModel(script), toolsets=[RoutedToolset(tools)], capabilities=[tool_search()]
        )
        asyncio.run(agent.run(RAIN))
        assert set(script.seen[0]) == {"weather", "search_tools"}

    def test_a_call_that_waits_for_approval_is_found_again(self):
        script = Scripted(("delete_city", {"city": "Atlantis"}, "c1"), "Gone.")
        agent = Agent(
            FunctionModel(script),
            toolsets=[RoutedToolset(TOOLS)],
            output_type=[str, DeferredToolRequests],
        )

        async def both():
            first = await agent.run("Demolish the city of Atlantis for good.")
            assert [call.tool_name for call in first.output.approvals] == ["delete_city"]
            return await agent.run(
                message_history=first.all_messages(),
                deferred_tool_results=DeferredToolResults(approvals={"c1": True}),
            )

        assert asyncio.run(both()).output == "Gone."
        assert script.results[-1].content == "Atlantis is gone."

    def test_the_agents_own_tools(self):
        script = Scripted()
        agent = Agent(
            FunctionModel(script),
            tools=[weather],
            toolsets=[FunctionToolset([send_sms])],
            capabilities=[RoutedTools()],
        )
        asyncio.run(agent.run(RAIN))
        assert script.seen == [["weather"]]

    def test_a_tool_that_was_not_shown_is_shown_once_it_is_named(self):
        call = ("send_sms", {"text": "Rain!"})
        script = Scripted(call, call, "Done.")
        agent = Agent(FunctionModel(script), toolsets=[RoutedToolset(TOOLS)])
        done = asyncio.run(agent.run(RAIN))
        assert script.seen == [["weather"], ["weather", "send_sms"], ["weather", "send_sms"]]
        back = [p for m in done.all_messages() for p in m.parts if isinstance(p, ToolReturnPart)]
        assert [part.outcome for part in back] == ["retried", "success"]
        assert "Unknown tool name" in back[0].content


def ran(name):
    def run() -> str:
        return f"{name} ran"

    return run


@pytest.fixture(scope="module")
def many():
    """Return a toolset of ten thousand tools, and a choice among them."""
    apis = many_tools(10_000)
    schema = {"type": "object", "properties": {}}
    tools = [
        Tool.from_schema(ran(api.id), api.id, api.description, schema, takes_ctx=False)
        for api in apis
    ]
    return FunctionToolset(tools), ToolChoice(SpecificationRouter(Catalog(apis)), k=8)


class TestManyTools:
    def test_at_most_k_of_ten_thousand(self, many):
        tools, choice = many
        (names,) = seen("List the invoices and show me each one", tools=tools, choice=choice)
        assert 1 <= len(names) <= 8
        assert all("invoice" in name for name in names)

    def test_fifty_runs_at_once_see_their_own(self, many):
        tools, choice = many
        few = FunctionToolset([tools.tools[name] for name in [*SPECIAL, *list(tools.tools)[:400]]])
        scripts = {name: Scripted((name, {})) for name in SPECIAL}
        agent = Agent(toolsets=[RoutedToolset(few, choice)])

        async def runs():
            await asyncio.gather(
                *(
                    agent.run(request, model=FunctionModel(scripts[name]))
                    for name, request in SPECIAL.items()
                )
            )

        asyncio.run(runs())
        for name, script in scripts.items():
            assert name in script.seen[0]
            assert all(len(each) <= 8 for each in script.seen)
            assert script.results[-1].content == f"{name} ran"


class TestToolSearch:
    def test_the_router_is_its_strategy(self):
        script = Scripted(
            ("search_tools", {"queries": ["rain in a city", "price of a share"]}),
            ("weather", {"city": "Kyoto"}),
        )
        hidden = [Tool(each, defer_loading=True) for each in (weather, share_price, send_sms)]
        agent = Agent(FunctionModel(script), tools=hidden, capabilities=[tool_search()])
        asyncio.run(agent.run("Hello"))
        assert script.seen[0] == ["search_tools"]
        assert set(script.seen[1]) == {"search_tools", "weather", "share_price"}
        assert script.results[-1].content == "Rain in Kyoto for 1 days."

    def test_each_query_has_its_turn_and_nothing_fits(self):
        found = []
        script = Scripted(
            ("search_tools", {"queries": ["rain in a city", "price of a share", ""]}),
            ("search_tools", {"queries": ["zzz"]}),
        )
        hidden = [Tool(each, defer_loading=True) for each in (weather, share_price, send_sms)]
        search = tool_search(ToolChoice(k=1))
        agent = Agent(FunctionModel(script), tools=hidden, capabilities=[search])
        asyncio.run(agent.run("Hello"))
        found = [part.content["discovered_tools"] for part in script.results[1:]]
        assert found == [[{"name": "weather"}], []]

    def test_at_most_k_of_ten_thousand(self, many):
        tools, choice = many
        script = Scripted(("search_tools", {"queries": ["show me the invoices"]}))
        deferred = tools.defer_loading()
        search = tool_search(choice)
        agent = Agent(FunctionModel(script), toolsets=[deferred], capabilities=[search])
        asyncio.run(agent.run("Hello"))
        assert script.seen[0] == ["search_tools"]
        assert 2 <= len(script.seen[1]) <= 9

    def test_no_choice(self):
        with pytest.raises(InputError, match="choice"):
            tool_search("keywords")


class TestOutcomes:
    def test_a_run_teaches(self, tmp_path):
        script = Scripted(("weather", {"city": "Kyoto"}), ("share_price", {"company": "x"}))
        with OnlineStore(tmp_path / "a.sqlite", []) as store:
            choice = ToolChoice(store=store, always=["share_price"])
            agent = Agent(FunctionModel(script), toolsets=[RoutedToolset(TOOLS, choice)])

            async def run():
                result = await agent.run(RAIN)
                asked = "Do I need an umbrella?"
                kept = await observe(choice, result, True, request=asked, user="ann")
                await agent.run(asked)
                return kept, await observe(choice, result)

            kept, unjudged = asyncio.run(run())
            assert store.sequence == 3
        assert [(step.tool, step.inputs, step.success) for step in kept.steps] == [
            ("weather", {"city": "Kyoto"}, True),
            ("share_price", {"company": "x"}, False),
        ]
        assert kept.steps[0].observation == "Rain in Kyoto for 1 days."
        assert (kept.user, unjudged.goal, unjudged.success) == ("ann", RAIN, None)
        assert script.seen[-1] == ["weather", "share_price"]

    @pytest.mark.parametrize("is_capability", [True, False])
    def test_it_learns_of_the_text_it_chose_by(self, is_capability):
        script = Scripted("No tool.", ("weather", {"city": "Kyoto"}))
        deps = {"1": RAIN, "2": "What is the price of a share?"}
        how = {"request": lambda ctx: ctx.deps[ctx.prompt]}
        routed = RoutedTools(**how) if is_capability else RoutedToolset(TOOLS, **how)
        toolsets, capabilities = ([TOOLS], [routed]) if is_capability else ([routed], [])
        agent = Agent(FunctionModel(script), toolsets=toolsets, capabilities=capabilities)

        async def runs():
            first, second = [await agent.run(text, deps=deps) for text in deps]
            kept = [await observe(routed, each, True) for each in (second, first)]
            return [*kept, await observe(routed, first, request="Rain?")]

        kept = asyncio.run(runs())
        assert [each.goal for each in kept] == [deps["2"], RAIN, "Rain?"]
        assert [each.tools for each in kept] == [("weather",), (), ()]

    def test_what_was_chosen_by_is_kept_of_so_many_runs(self, monkeypatch):
        monkeypatch.setattr("cnp_router.adapters.pydantic_ai._MOST_RUNS", 2)
        routed = RoutedToolset(TOOLS, request=lambda ctx: f"{ctx.prompt} rain")
        agent = Agent(FunctionModel(Scripted()), toolsets=[routed])
        runs = [asyncio.run(agent.run(text)) for text in "abc"]
        kept = [asyncio.run(observe(routed, each)).goal for each in runs]
        assert kept == ["a", "b rain", "c rain"]

    def test_searches_and_the_output_are_no_steps(self):
        script = Scripted(
            ("search_tools", {"queries": ["rain in a city"]}),
            ("weather", {"city": "Kyoto"}),
            ("final_result", {"town": "Kyoto"}),  # it is tried again
            ("final_result", {"name": "Kyoto"}),
        )
        agent = Agent(
            FunctionModel(script),
            tools=[Tool(weather, defer_loading=True)],
            capabilities=[tool_search()],
            output_type=Place,
        )
        result = asyncio.run(agent.run(RAIN))
        kept = asyncio.run(observe(ToolChoice(), result, True))
        assert result.output == Place(name="Kyoto")
        assert [(step.tool, step.success) for step in kept.steps] == [("weather", True)]


def book(seat: str) -> str:
    """Reserves a seat at the theatre."""
    return f"{seat} is yours"


def broken(seat: str) -> str:
    """Says which seat at the theatre is free."""
    raise ConnectionError("no line")


class TestToolsOfSources:
    def run(self, *calls, **how):
        script = Scripted(*calls)

        async def main():
            theatre = FunctionSource("theatre", [book, broken], effects={"broken": "reads"})
            async with Sources([theatre]) as sources:
                routed = RoutedToolset(SourceToolset(sources, **how))
                agent = Agent(FunctionModel(script), toolsets=[routed, TOOLS])
                result = await agent.run("Reserve a free seat at the theatre.")
                return await observe(routed.choice, result)

        kept = asyncio.run(main())
        assert {"theatre__book", "theatre__broken"} <= set(script.seen[0])
        return script.results[1:], kept.steps

    def test_called_with_approval(self):
        asked = []
        results, steps = self.run(
            ("theatre__book", {"seat": "A1"}), approve=lambda a: not asked.append(a)
        )
        assert results[0].content == "A1 is yours"
        assert asked[0].inputs == {"seat": "A1"}
        assert steps[0].success

    def test_what_goes_wrong_is_told_and_known(self):
        results, steps = self.run(
            ("theatre__book", {"seat": "A1"}),
            ("theatre__broken", {"seat": "A1"}),
            ("theatre__broken", {"row": 1}),
        )
        said = [part.content.partition(":")[0] for part in results]
        assert said == ["declined", "tool", "inputs"]
        assert [step.success for step in steps] == [False] * 3


class TestToolsAsContractors:
    SOURCE = ToolsetSource("city", TOOLS, effects={"weather": "reads"})

    def call(self, name, inputs=None, source=None, **how):
        call = Call(api=name, inputs=inputs or {}, **how)
        return asyncio.run((source or self.SOURCE).call(call))

    def test_definitions(self):
        apis = asyncio.run(self.SOURCE.apis())
        assert [(api.id, api.effects) for api in apis] == [
            ("city__weather", "reads"),
            ("city__share_price", "unknown"),
            ("city__send_sms", "unknown"),
            ("city__delete_city", "writes"),
        ]
        assert apis[0].parameters["required"] == ["city"]
        assert apis[0].description == "Says whether it will rain in a city."

    def test_called_without_asking_for_definitions(self):
        source = ToolsetSource("city", TOOLS)
        said = self.call("city__weather", {"city": "Nara"}, source)
        assert said.text == "Rain in Nara for 1 days."

    @pytest.mark.parametrize(
        ("company", "kind", "message"),
        [
            ("ACME", "tool", "ToolFailed: no quote of ACME"),
            ("retry", "tool", "ModelRetry: which company?"),
            ("secret", "permission", "PermissionError: the market is closed"),
            ("ask", "declined", "it asks for more first: ApprovalRequired()"),
        ],
    )
    def test_errors_say_what_happened(self, company, kind, message):
        failure = self.call("city__share_price", {"company": company}).failure
        assert (failure.kind, failure.message) == (kind, message)

    def test_wrong_inputs(self):
        assert self.call("city__weather", {"city": 9}).failure.kind == "inputs"
        assert self.call("city__weather", {"town": "Nara"}).failure.kind == "inputs"
        with pytest.raises(InputError, match="snow"):
            self.call("city__snow")

    def test_time_and_cancellation(self):
        ended = []

        async def wait() -> str:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
            return ""

        source = ToolsetSource("slow", FunctionToolset([wait]))
        assert self.call("slow__wait", source=source, timeout=0.05).failure.kind == "timeout"

        async def give_up():
            task = asyncio.create_task(source.call(Call(api="slow__wait")))
            await asyncio.sleep(0.05)
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(give_up())
        assert ended == ["cancelled", "cancelled"]

    def test_deps_results_and_connections(self):
        class Opened(WrapperToolset):
            log = []  # noqa: RUF012

            async def __aenter__(self):
                self.log.append("open")
                return await super().__aenter__()

            async def __aexit__(self, *error):
                self.log.append("closed")
                return await super().__aexit__(*error)

        tools = FunctionToolset()

        @tools.tool
        def where(ctx: RunContext[str]) -> Place:
            """Says where you are."""
            assert ctx.tool_name == "where"
            return Place(name=ctx.deps)

        source = ToolsetSource("here", Opened(tools), deps="Nara")
        assert self.call("here__where", source=source).data == {"name": "Nara"}
        assert Opened.log == ["open", "closed"] * 2

    def test_tools_that_are_called_elsewhere(self):
        source = ToolsetSource("x", ExternalToolset([ToolDefinition(name="far")]))
        with pytest.raises(InputError, match="'far'"):
            asyncio.run(source.apis())

    def test_wrong_arguments(self):
        with pytest.raises(InputError, match="toolset"):
            ToolsetSource("x", [weather])
        with pytest.raises(InputError, match="'snow'"):
            asyncio.run(ToolsetSource("x", TOOLS, effects={"snow": "reads"}).apis())


class TestAgentsAsContractors:
    def helper(self, *steps, output_type=str, **how):
        script = Scripted(*steps)
        agent = Agent(
            FunctionModel(script), tools=FUNCTIONS, output_type=output_type, name="helper"
        )
        return sub_agent(agent, "Says what the weather is.", max_turns=2, **how), script

    def ask(self, *steps, **how):
        helper, _ = self.helper(*steps, **how)
        return asyncio.run(helper.ask("Rain in Nara?"))

    def test_asked(self):
        reply = self.ask(("weather", {"city": "Nara"}), "Rain.")
        assert (reply.result.text, reply.turns) == ("Rain.", 2)
        assert reply.usage.tokens_in > 50
        assert reply.usage.tokens_out > 5

    def test_as_a_source(self):
        desk = SubAgents("desk", [self.helper("Rain.")[0]])
        call = Call(api="desk__helper", inputs={"text": "Rain?"})
        assert asyncio.run(desk.call(call)).text == "Rain."

    def test_arguments_are_told(self):
        helper, script = self.helper("Rain.", parameters={"city": {"type": "string"}})
        asyncio.run(helper.ask("Rain?", {"city": "Nara"}))
        assert script.results[0].content == "Rain?\ncity: Nara"

    def test_a_structured_answer(self):
        reply = self.ask(("final_result", {"response": 7}), output_type=int)
        assert reply.result.data == 7

    def test_too_many_turns(self):
        reply = self.ask(*[("weather", {"city": "Nara"})] * 3)
        assert "more than 2 turns" in reply.result.failure.message
        assert reply.tokens > 100  # paid all the same

    def test_a_call_that_needs_approval(self):
        call = ("delete_city", {"city": "Nara"})
        reply = self.ask(call, output_type=[str, DeferredToolRequests])
        assert reply.result.failure.kind == "declined"
        assert "delete_city" in reply.result.failure.message

    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            (ModelRateLimitError("m", "slow down"), "busy"),
            (ModelTimeoutError("m", "late"), "timeout"),
            (ModelConnectionError("m", "no line"), "unavailable"),
            (ModelAuthenticationError("m", "no key"), "permission"),
            (ValueError("broken"), "tool"),
        ],
    )
    def test_its_model_fails(self, error, kind):
        reply = self.ask(("weather", {"city": "Nara"}), error)
        assert reply.result.failure.kind == kind
        assert reply.result.failure.was_done == "unknown"  # it may have done something before
        assert reply.tokens > 50

    def test_its_time_is_up(self):
        async def think(messages, info):
            if len(messages) > 1:
                await asyncio.sleep(30)
            return ModelResponse(parts=[ToolCallPart("weather", {"city": "Nara"})])

        agent = Agent(FunctionModel(think), tools=[weather], name="helper")
        reply = asyncio.run(sub_agent(agent, "Says the weather.").ask("Rain?", timeout=1.0))
        assert (reply.result.failure.kind, reply.turns) == ("timeout", 1)
        assert reply.tokens > 50

    def test_no_name(self):
        with pytest.raises(InputError, match="agent"):
            sub_agent(Agent(TestModel()), "Nobody.")
