"""What OpenTelemetry sees of the rooms: trees of spans, and values of metrics."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from chat_server import ChatServer, completion, stay_on_this_machine
from chat_server import run as in_loop
from worlds import run

from cnp_router import (
    Api,
    Catalog,
    ContractNet,
    ExecutionSettings,
    Executor,
    History,
    Job,
    Plan,
    Sources,
    allow_writes,
    fit_router,
    offline_model,
)
from cnp_router.agents import Decompose, ask
from cnp_router.context import (
    MemoryContextStore,
    SharedContext,
    SqliteContextStore,
)
from cnp_router.coordination import Negotiator
from cnp_router.exceptions import ChatAnswerError, InputError, UnknownApiError
from cnp_router.execution import run_jobs
from cnp_router.llm import (
    CachedChatModel,
    ChatMessage,
    ChatRequest,
    ModelPrice,
    ModelsByRole,
    Prices,
    Usage,
    completed,
)
from cnp_router.planning import PlanAndExecute, Planner
from cnp_router.prediction import AgentRun, Context, NextToolPolicy, NextToolRouter
from cnp_router.protocols.audience import look_ahead
from cnp_router.protocols.settings import RoundSettings
from cnp_router.routing import Router, Scores, SpecificationRouter, TopK
from cnp_router.sources import Call, CallFailure, CallResult
from cnp_router.subagents import Answer, SubAgent, SubAgents
from cnp_router.testing import ScriptedChatModel, ScriptedSource
from cnp_router.trajectories import Step

SECRET = "the-password-is-12345"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
APIS = (
    Api("sky__forecast", "forecast", "Forecasts the weather: rain, wind.", (), CITY, "reads"),
    Api("air__weather", "weather", "The weather forecast of a city, rain.", (), CITY, "reads"),
    Api("phone__send", "send", "Sends text messages to phones.", (), CITY, "writes"),
)
CATALOG = Catalog(APIS)
LOOK = Job("look", f"The weather of a city. {SECRET}", "sky__forecast", {"city": SECRET})
TELL = Job("tell", api="phone__send", inputs={"city": {"$text": "{look}"}}, after=("look",))


def sources(**results):
    found = []
    for api in APIS:
        source, name = api.id.split("__")
        found.append(ScriptedSource(source, {name: results.get(source, [])}, apis=[api]))
    return Sources(found)


def executor(router, tools, **how):
    net = ContractNet(CATALOG, offline_model(CATALOG), router=router)
    settings = ExecutionSettings(wait=(0, 0), timeout=20)
    return Executor(net, tools, settings=settings, approve=allow_writes, **how)


@pytest.fixture(scope="module")
def router():
    return fit_router(CATALOG)


def test_a_fit_is_seen(watched):
    fit_router(CATALOG, History([]))
    assert watched.tree == ["fit"]
    assert dict(watched.span("fit").attributes) == {"cnp_router.apis": 3, "cnp_router.mashups": 0}


class Half(Router):
    """Gives each API one half."""

    def _scores(self, request, known, date):
        return Scores(self.apis, np.full(len(self.apis), 0.5))


def test_a_route_is_seen_with_who_decided_and_how_sure(watched):
    router = Half(CATALOG.ids)
    sure = router.route("rain", threshold=0, select=TopK(1))
    unsure = router.route(SECRET, threshold=1, select=TopK(1), fallback="broadcast")
    assert watched.tree == ["route", "route"]
    assert dict(watched.spans[0].attributes) == {
        "cnp_router.apis": 3,
        "cnp_router.recipients": len(sure.recipients),
        "cnp_router.confidence": sure.confidence,
        "cnp_router.source": "learned",
        "cnp_router.fits": sure.fits,
    }
    assert watched.values("cnp_router.routings") == {
        f"confident=True, fits={sure.fits}, source=learned": 1,
        f"confident=False, fits={unsure.fits}, source=broadcast": 1,
    }
    confidence = watched.sums("cnp_router.routing.confidence")
    assert confidence == {"source=learned": sure.confidence, "source=broadcast": unsure.confidence}


def test_who_only_looks_ahead_is_not_counted(watched):
    net = ContractNet(CATALOG, offline_model(CATALOG), router=SpecificationRouter(CATALOG))
    look_ahead("Will it rain?", net.parties, RoundSettings())
    assert watched.values("cnp_router.routings") == {}
    assert not net.router.source_counts
    net.router.route("Will it rain?")
    assert sum(watched.values("cnp_router.routings").values()) == 1


def test_an_error_of_a_route_is_counted(watched):
    with pytest.raises(InputError):
        SpecificationRouter(CATALOG).route(" ")
    assert watched.values("cnp_router.errors") == {"error.type=InputError, operation=route": 1}


def test_a_routed_round_is_a_tree(watched):
    net = ContractNet(CATALOG, offline_model(CATALOG), router=SpecificationRouter(CATALOG))
    outcome = net.run_sync(f"Will it rain? {SECRET}")
    (first, *rest) = watched.tree
    assert first == "round contractor-led"
    assert "  route" in rest
    n_asked = len(outcome.transcript.calls)
    assert rest.count("  chat offline") == n_asked
    assert len(rest) == n_asked + 1
    counted = watched.values("cnp_router.messages")
    told = outcome.ledger.messages
    assert counted == {
        f"performative={kind}, protocol=contractor-led": n for kind, n in told.items() if n
    }
    attributes = watched.span(first).attributes
    assert attributes["cnp_router.messages"] == len(outcome.transcript.messages)
    assert attributes["cnp_router.announcement"] == "routed"
    usage = "gen_ai.operation.name=chat, gen_ai.provider.name=cnp_router, "
    usage += "gen_ai.request.model=offline, gen_ai.token.type=input"
    tokens = watched.sums("gen_ai.client.token.usage")
    assert tokens[usage] == sum(call.tokens_in for call in outcome.transcript.calls)


def test_an_execution_with_a_failing_job_and_a_reward_is_a_tree(watched, router):
    failed = CallFailure("tool", f"no such city: {SECRET}", "no")
    tools = sources(sky=[failed], air=[f"rain {SECRET}"], phone=[failed])
    execution = asyncio.run(
        executor(router, tools).execute(Plan("Text me the weather of Oslo.", (LOOK, TELL)))
    )
    assert not execution.is_done
    assert [act.by for act in execution.jobs[0].acts] == ["directed", "re-award"]
    assert watched.tree == [
        "execution",
        "  job",
        "    round directed",
        "      route",
        "      execute_tool sky__forecast",
        "      execute_tool air__weather",
        "  job",
        "    round directed",
        "      execute_tool phone__send",
    ]
    first, second = (each for each in watched.spans if each.name == "job")
    assert dict(first.attributes) == {
        "cnp_router.job.id": "look",
        "cnp_router.acts": 2,
        "cnp_router.outcome": "done",
    }
    assert second.attributes["error.type"] == "tool"
    whole = dict(watched.span("execution").attributes)
    assert whole == {
        "cnp_router.execution.id": execution.id,
        "cnp_router.jobs": 2,
        "cnp_router.outcome": "failed",
        "error.type": "failed",
    }
    call = dict(watched.span("execute_tool air__weather").attributes)
    key = call.pop("gen_ai.tool.call.id")
    assert len(key) == 32
    assert call == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "air__weather",
        "gen_ai.tool.type": "extension",
        "cnp_router.source.name": "air",
        "cnp_router.effects": "reads",
    }
    assert watched.values("cnp_router.tool.calls") == {
        "error.type=tool, outcome=failed, source=sky": 1,
        "outcome=done, source=air": 1,
        "error.type=tool, outcome=failed, source=phone": 1,
    }
    assert watched.values("cnp_router.tool.duration") == {
        "outcome=failed, source=sky": 1,
        "outcome=done, source=air": 1,
        "outcome=failed, source=phone": 1,
    }
    assert watched.values("cnp_router.acts") == {
        "by=directed, outcome=failed": 2,
        "by=re-award, outcome=done": 1,
    }
    assert watched.values("cnp_router.jobs") == {"outcome=done": 1, "outcome=failed": 1}
    assert watched.values("cnp_router.executions") == {"outcome=failed": 1}
    assert watched.values("cnp_router.selections") == {"by=award, correct=False": 2}
    assert watched.values("cnp_router.dependencies") == {"resolved=True": 1}
    assert watched.values("cnp_router.task_graph.duration") == {"outcome=failed": 1}
    errors = watched.values("cnp_router.errors")
    assert errors["error.type=tool, operation=execute_tool"] == 2


def test_nothing_of_what_was_said_and_given_is_seen(watched, router):
    failed = CallFailure("tool", f"no such city: {SECRET}", "no")
    tools = sources(sky=[failed], air=[f"rain {SECRET}"], phone=[SECRET])
    context = SharedContext()
    done = executor(router, tools, context=context).execute(
        Plan(f"Text me the weather. {SECRET}", (LOOK, TELL)), user=SECRET
    )
    assert asyncio.run(done).is_done
    assert len(watched.spans) > 5
    assert not [each.name for each in watched.spans if SECRET in each.to_json()]
    assert SECRET not in watched.everything


def test_a_dependency_that_fails_is_not_resolved(watched, router):
    tools = sources(sky=[CallFailure("tool", "no", "no")], air=[CallFailure("tool", "no", "no")])
    asyncio.run(executor(router, tools).execute(Plan("Text me the weather.", (LOOK, TELL))))
    assert watched.values("cnp_router.dependencies") == {"resolved=False": 1}
    assert watched.values("cnp_router.jobs") == {"outcome=failed": 1, "outcome=skipped": 1}


def test_jobs_of_one_source_are_no_dependency_across_sources(watched, router):
    again = Job("again", api="sky__forecast", inputs={"city": "Oslo"}, after=("look",))
    tools = sources(sky=["rain", "wind"])
    asyncio.run(executor(router, tools).execute(Plan("Weather.", (LOOK, again))))
    assert watched.values("cnp_router.dependencies") == {}


def test_jobs_at_the_same_time_have_their_own_spans(watched, router):
    jobs = (LOOK, Job("other", api="air__weather", inputs={"city": "Nara"}))
    tools = sources(sky=["rain"], air=["wind"])
    asyncio.run(executor(router, tools).execute(Plan("Weather.", jobs)))
    of = {each.context.span_id: each for each in watched.spans}

    def job_of(name):
        span = watched.span(name)
        while span.name != "job":
            span = of[span.parent.span_id]
        return span.attributes["cnp_router.job.id"]

    calls = ("execute_tool sky__forecast", "execute_tool air__weather")
    assert [job_of(name) for name in calls] == ["look", "other"]


class Hanging(ScriptedSource):
    """Never answers."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.began = asyncio.Event()

    async def call(self, call):
        self.began.set()
        await asyncio.Event().wait()


def hanging():
    """A source that never answers, and two that would."""
    found = []
    for kind, api in zip((Hanging, ScriptedSource, ScriptedSource), APIS, strict=True):
        source, name = api.id.split("__")
        found.append(kind(source, {name: ["done"]}, apis=[api]))
    return found


ASKED = Call(api="weather", inputs={"text": "Rain?"})
LAST = Job("last", api="air__weather", inputs={"city": "Oslo"}, after=("tell",))


class TestWhatIsBrokenOff:
    """Nobody knows how it would have ended: it is neither right nor wrong."""

    def late(self, router, plan):
        settings = ExecutionSettings(wait=(0, 0), timeout=1.0)
        net = ContractNet(CATALOG, offline_model(CATALOG), router=router)
        tools = Sources(hanging())
        execution = Executor(net, tools, settings=settings, approve=allow_writes).execute(plan)
        return asyncio.run(execution)

    def cancelled(self, router, plan):
        async def main():
            tools = hanging()
            task = asyncio.create_task(executor(router, Sources(tools)).execute(plan))
            await tools[0].began.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(main())

    def test_a_cancelled_execution_is_counted_as_such(self, watched, router):
        self.cancelled(router, Plan("Weather.", (LOOK, TELL, LAST)))
        assert watched.values("cnp_router.executions") == {"outcome=cancelled": 1}
        jobs = watched.values("cnp_router.jobs")
        assert jobs == {"outcome=cancelled": 1, "outcome=skipped": 2}
        assert watched.span("execution").attributes["error.type"] == "cancelled"

    def test_one_that_is_late_too(self, watched, router):
        assert self.late(router, Plan("Weather.", (LOOK, TELL, LAST))).is_late
        assert watched.values("cnp_router.executions") == {"outcome=late": 1}

    @pytest.mark.parametrize("how", ["late", "cancelled"])
    def test_no_choice_was_wrong_and_no_dependency_missed(self, watched, router, how):
        getattr(self, how)(router, Plan("Weather.", (LOOK, TELL, LAST)))
        assert watched.values("cnp_router.acts") == {"by=directed, outcome=cancelled": 1}
        assert watched.values("cnp_router.selections") == {}
        assert watched.values("cnp_router.dependencies") == {}

    @pytest.mark.parametrize("how", ["late", "cancelled"])
    def test_what_hangs_is_seen_with_how_long(self, watched, router, how):
        getattr(self, how)(router, Plan("Weather.", (LOOK, TELL, LAST)))
        calls = watched.values("cnp_router.tool.calls")
        assert calls == {"error.type=cancelled, outcome=cancelled, source=sky": 1}
        assert watched.values("cnp_router.tool.duration") == {"outcome=cancelled, source=sky": 1}
        assert watched.values("cnp_router.task_graph.duration") == {"outcome=cancelled": 1}
        if how == "late":
            for name in ("cnp_router.tool.duration", "cnp_router.task_graph.duration"):
                (seconds,) = watched.sums(name).values()
                assert seconds > 0.1

    def test_an_agent_that_is_given_up_is_a_delegation(self, watched):
        class Remote(Hanging):
            is_agent = True

        async def main():
            source = Remote("peer", {"ask": ["yes"]})
            task = asyncio.create_task(Sources([source]).call(Call(api="peer__ask")))
            await source.began.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(main())
        delegations = watched.values("cnp_router.delegations")
        assert delegations == {"error.type=cancelled, outcome=cancelled": 1}
        assert watched.values("cnp_router.delegation.duration") == {"outcome=cancelled": 1}

    def test_a_sub_agent_that_is_given_up_too(self, watched):
        async def main():
            async def think(question):
                began.set()
                await asyncio.Event().wait()

            began = asyncio.Event()
            task = asyncio.create_task(SubAgent("weather", "Weather.", think).perform(ASKED))
            await began.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(main())
        delegations = watched.values("cnp_router.delegations")
        assert delegations == {"error.type=cancelled, outcome=cancelled": 1}

    def test_a_plan_that_a_bug_ends_has_taken_its_time(self, watched):
        async def work(job):
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            asyncio.run(run_jobs(Plan("Weather.", (LOOK,)), work))
        assert watched.values("cnp_router.task_graph.duration") == {"outcome=failed": 1}

    def test_what_ended_before_is_counted(self, watched, router):
        ask = Job("ask", api="phone__send", inputs={"city": "Oslo"})
        far = Job("far", api="air__weather", inputs={"city": "Oslo"}, after=("ask",))
        look = Job("look", api="sky__forecast", inputs={"city": "Oslo"}, after=("far",))
        assert self.late(router, Plan("Weather.", (ask, far, look))).is_late
        assert watched.values("cnp_router.acts") == {
            "by=directed, outcome=done": 2,
            "by=directed, outcome=cancelled": 1,
        }
        assert watched.values("cnp_router.selections") == {"by=award, correct=True": 2}
        assert watched.values("cnp_router.dependencies") == {"resolved=True": 2}


class TestCalls:
    def test_an_unknown_tool_is_an_error_of_the_call(self, watched):
        with pytest.raises(UnknownApiError):
            asyncio.run(sources().call(Call(api="sky__other")))
        errors = watched.values("cnp_router.errors")
        assert errors == {"error.type=UnknownApiError, operation=execute_tool": 1}

    @pytest.mark.parametrize(("key", "is_seen"), [("ab" * 16, True), (SECRET, False)])
    def test_only_keys_of_our_own_are_seen(self, watched, key, is_seen):
        asyncio.run(sources(sky=["rain"]).call(Call(api="sky__forecast", key=key)))
        seen = watched.span("execute_tool sky__forecast").attributes.get("gen_ai.tool.call.id")
        assert seen == (key if is_seen else None)


class TestModels:
    PRICES = Prices("EUR", {"large": ModelPrice(2.0, 8.0)}, per=1)

    def ask(self, model, **fields):
        request = ChatRequest([ChatMessage("user", SECRET)], **fields)
        return asyncio.run(completed(model, request))

    def test_a_server_is_named_without_its_secrets(self, watched, monkeypatch):
        stay_on_this_machine(monkeypatch)

        async def main():
            async with ChatServer([completion("Hello.", usage=(7, 2))]) as server:
                model = server.model("gpt-oss:20b", api_key="sk-12345")
                async with model:
                    request = ChatRequest([ChatMessage("user", SECRET)], max_tokens=50)
                    return model.server, await completed(model, request)

        server, response = in_loop(main())
        span = watched.span("chat gpt-oss:20b")
        found = dict(span.attributes)
        assert span.kind.name == "CLIENT"
        assert found["server.address"] == "127.0.0.1"
        assert f":{found['server.port']}/" in f"{server}/"
        assert found["gen_ai.provider.name"] == "openai"
        assert found["gen_ai.request.model"] == "gpt-oss:20b"
        assert found["gen_ai.request.max_tokens"] == 50
        assert found["gen_ai.usage.input_tokens"] == response.usage.tokens_in
        assert "12345" not in span.to_json()

    @pytest.mark.parametrize("server", ["http://h:99999", "http://[::1", "a-server", "http://"])
    def test_a_server_that_is_no_url_fails_no_call(self, watched, server):
        class Odd(ScriptedChatModel):
            pass

        Odd.server = server
        assert self.ask(Odd(["Hello."], name="large")).text == "Hello."
        found = watched.span("chat large").attributes
        assert not {"server.address", "server.port"} & set(found)
        assert found["gen_ai.provider.name"] == "openai"

    @pytest.mark.parametrize(
        ("server", "provider"),
        [
            ("https://api.openai.com/v1", "openai"),
            ("https://mine.openai.azure.com", "azure.ai.openai"),
            ("https://openai.com.example.org", "openai"),
            ("https://notanthropic.com", "openai"),
            ("https://anthropic.com", "anthropic"),
        ],
    )
    def test_a_provider_is_known_by_its_host(self, watched, server, provider):
        class There(ScriptedChatModel):
            pass

        There.server = server
        self.ask(There(["Hello."], name="large"))
        assert watched.span("chat large").attributes["gen_ai.provider.name"] == provider

    def test_what_it_cost_is_counted_by_its_prices(self, watched):
        model = ScriptedChatModel(["Hello."], name="large")
        model.prices = self.PRICES
        response = self.ask(model)
        cost = watched.values("cnp_router.cost")
        paid = 2 * response.usage.tokens_in + 8 * response.usage.tokens_out
        assert cost == {"currency=EUR, gen_ai.request.model=large": paid}

    def test_without_a_price_nothing_is_said_of_cost(self, watched):
        model = ScriptedChatModel(["Hello."], name="small")
        model.prices = self.PRICES
        self.ask(model)
        assert watched.values("cnp_router.cost") == {}

    def test_what_a_cache_answers_costs_nothing(self, watched, tmp_path):
        model = CachedChatModel(ScriptedChatModel(["Hello."], name="large"), tmp_path)
        model.prices = self.PRICES
        self.ask(model)
        before = watched.values("cnp_router.cost"), watched.sums("gen_ai.client.token.usage")
        assert self.ask(model).cached
        assert watched.tree == ["chat large", "chat large"]
        assert watched.spans[1].attributes["cnp_router.cached"] is True
        after = watched.values("cnp_router.cost"), watched.sums("gen_ai.client.token.usage")
        assert after == before
        assert list(watched.values("gen_ai.client.operation.duration").values()) == [1]

    def test_of_several_models_the_one_that_answers_is_named(self, watched):
        manager = ScriptedChatModel([{"functions": ["map"]}], name="large")
        models = ModelsByRole(ScriptedChatModel([], name="small"), manager=manager)
        manager.prices = self.PRICES
        asyncio.run(ask(models, Decompose("a map")))
        found = watched.span("chat large").attributes
        assert found["cnp_router.role"] == "manager"
        assert found["gen_ai.output.type"] == "json"
        assert list(watched.values("cnp_router.cost")) == [
            "currency=EUR, gen_ai.request.model=large"
        ]

    def test_an_error_says_its_kind_and_what_it_cost(self, watched):
        error = ChatAnswerError(SECRET, usage=Usage(7, 2, "server"))
        with pytest.raises(ChatAnswerError):
            self.ask(ScriptedChatModel([error], name="large"))
        assert watched.span("chat large").attributes["error.type"] == "ChatAnswerError"
        (duration,) = watched.values("gen_ai.client.operation.duration")
        assert "error.type=ChatAnswerError" in duration
        assert sum(watched.sums("gen_ai.client.token.usage").values()) == 9
        assert SECRET not in watched.everything


class TestAgents:
    def test_a_sub_agent_is_invoked_below_its_call(self, watched):
        async def look(question):
            return Answer("Rain.", usage=Usage(90, 9, "server"))

        async def fail(question):
            raise RuntimeError(SECRET)

        async def main():
            agents = [SubAgent("weather", "Weather.", look), SubAgent("trains", "Trains.", fail)]
            async with Sources([SubAgents("agents", agents)]) as tools:
                calls = (
                    Call(api=f"agents__{name}", inputs={"text": SECRET})
                    for name in ("weather", "trains")
                )
                await asyncio.gather(*(tools.call(call) for call in calls))

        asyncio.run(main())
        assert sorted(watched.tree) == sorted(
            [
                "execute_tool agents__weather",
                "  invoke_agent weather",
                "execute_tool agents__trains",
                "  invoke_agent trains",
            ]
        )
        assert dict(watched.span("invoke_agent weather").attributes) == {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "weather",
            "gen_ai.usage.input_tokens": 90,
            "gen_ai.usage.output_tokens": 9,
            "cnp_router.turns": 0,
        }
        call = watched.span("execute_tool agents__weather")
        assert call.attributes["gen_ai.tool.type"] == "function"
        assert watched.span("invoke_agent weather").parent.span_id == call.context.span_id
        assert watched.values("cnp_router.delegations") == {
            "outcome=done": 1,
            "error.type=tool, outcome=failed": 1,
        }
        durations = watched.values("cnp_router.delegation.duration")
        assert durations == {"outcome=done": 1, "outcome=failed": 1}
        assert SECRET not in watched.everything

    def test_a_source_that_is_an_agent_is_a_delegation(self, watched):
        class Remote(ScriptedSource):
            is_agent = True

        tools = Sources([Remote("peer", {"ask": ["yes", CallResult.failed("busy", "later")]})])
        for _ in range(2):
            asyncio.run(tools.call(Call(api="peer__ask")))
        assert watched.values("cnp_router.delegations") == {
            "outcome=done": 1,
            "error.type=busy, outcome=failed": 1,
        }

    def test_a_plan_is_made_below_its_execution(self, watched, router):
        wanted = {"id": "look", "task": "Weather.", "api": "sky__forecast"}
        wanted |= {"inputs": {"city": "Oslo"}, "after": []}
        model = ScriptedChatModel([{"guideline": "", "jobs": [wanted]}], name="large")
        method = PlanAndExecute(Planner(model), executor(router, sources(sky=["rain"])))
        done = asyncio.run(method.run("The weather of Oslo?"))
        assert done.is_done
        assert watched.tree[:3] == ["execution", "  plan", "    chat large"]
        assert watched.span("plan").attributes["cnp_router.jobs"] == 1


class TestNextTool:
    def taught(self, **how):
        router = NextToolRouter(policy=NextToolPolicy.fixed(0.6), **how)
        for number in range(20):
            router.observe(run(number, "Rain?", "weather", "maps", "sms"))
        return router

    def test_without_a_model_it_is_predicted_or_nobody_decides(self, watched):
        router = self.taught()
        assert router.predict_next(["weather"], Context("Rain?")).tool == "maps"
        router.predict_next(["unheard"], Context(SECRET))
        assert watched.tree == ["next_tool", "next_tool"]
        first = watched.spans[0].attributes
        assert first["gen_ai.tool.name"] == "maps"
        assert first["cnp_router.source"] == "context"
        assert "cnp_router.unsure" not in first
        assert watched.values("cnp_router.next_tool.decisions") == {
            "source=context, unsure=no": 1,
            "source=none, unsure=threshold": 1,
        }

    def test_with_a_model_it_is_asked_below(self, watched):
        model = ScriptedChatModel([{"tool": "sms"}, {"tool": "maps"}], name="small")
        router = NextToolRouter(model=model, tools=["maps", "sms"])
        router.predict_next(["maps"], Context("Rain?"))
        asyncio.run(router.apredict_next(["maps"], Context("Rain?")))
        assert watched.tree == 2 * ["next_tool", "  chat small"]
        assert watched.values("cnp_router.next_tool.decisions") == {"source=llm, unsure=unknown": 2}

    def test_coverage_is_that_of_the_router(self, watched):
        router = self.taught()
        assert 0 < router.coverage < 1
        assert watched.values("cnp_router.routing.coverage") == {"": router.coverage}

    def test_what_was_taken_says_whether_it_was_right(self, watched):
        agent = AgentRun(self.taught(), "r1", "Rain?")
        agent.add(Step("weather"))
        for tool in ("maps", "mail"):
            assert agent.next().source == "context"
            agent.add(Step(tool))
        assert watched.values("cnp_router.selections") == {
            "by=next_tool, correct=True": 1,
            "by=next_tool, correct=False": 1,
        }


class TestContext:
    def test_how_long_it_takes_to_share_is_seen_by_step(self, watched, router):
        tools = sources(sky=["rain"], phone=["sent"])
        asyncio.run(
            executor(router, tools, context=SharedContext()).execute(Plan("Weather.", (LOOK, TELL)))
        )
        steps = watched.values("cnp_router.context.propagation.duration")
        assert steps["step=keep"] == 2
        assert steps["step=recall"] == 2

    @pytest.mark.parametrize("kind", ["memory", "sqlite"])
    def test_how_full_a_store_is_by_its_own_limits(self, watched, kind, tmp_path):
        made = {
            "memory": lambda: MemoryContextStore(max_entries=4),
            "sqlite": lambda: SqliteContextStore(tmp_path / "context.db", max_entries=4),
        }

        async def main():
            async with SharedContext(made[kind]()) as context:
                await context.keep(APIS[0], {"city": "Oslo"}, CallResult("rain"))
                await context.keep(APIS[0], {"city": "Nara"}, CallResult("rain"))
                return await context.store.usage()

        assert asyncio.run(main()) == 0.5
        seen = watched.values("cnp_router.context.store.usage")
        assert seen == {f"store={kind}": 0.25}  # looked at now and then

    def test_how_full_a_store_is_is_seen_where_context_is_only_looked_for(
        self, watched, monkeypatch
    ):
        monkeypatch.setattr("cnp_router.context.context_store._PAUSE", 0.0)
        now = [1_900_000_000.0]

        async def main():
            async with SharedContext(clock=lambda: now[0]) as context:
                await context.keep(APIS[0], {"city": "Oslo"}, CallResult("rain"))
                yield watched.values("cnp_router.context.store.usage")["store=memory"]
                now[0] += 600
                assert await context.recall(APIS[0], {"city": "Oslo"}) is None
                yield watched.values("cnp_router.context.store.usage")["store=memory"]

        async def both():
            return [value async for value in main()]

        assert asyncio.run(both()) == [1 / 2000, 0]

    def test_a_dense_encoder_is_timed(self, watched):
        def letters(texts):
            return [[text.lower().count(letter) + 1 for letter in "aeiou"] for text in texts]

        async def main():
            async with SharedContext(vectors=letters) as context:
                await context.keep(APIS[0], {"city": "Oslo"}, CallResult("rain"))

        asyncio.run(main())
        assert watched.values("cnp_router.embedding.duration") == {"purpose=context": 1}
        router = fit_router(CATALOG, encoder=letters)
        before = watched.values("cnp_router.embedding.duration").get("purpose=request", 0)
        router.route("rain and wind in a city")
        after = watched.values("cnp_router.embedding.duration")
        assert after["purpose=request"] == before + 1


def test_negotiations_say_whether_anybody_matches(watched):
    negotiator = Negotiator()
    asyncio.run(negotiator.order("Rain?", ["sky__forecast"], match={"sky__forecast": 0.8}))
    asyncio.run(negotiator.order("Rain?", [], match={}))
    assert watched.values("cnp_router.capability.matches") == {"hit=True": 1, "hit=False": 1}
