"""Tools of sources for agents of any framework, and of LangChain: approval, failures, names."""

from __future__ import annotations

import asyncio

import pytest
from fastmcp import FastMCP
from langchain.agents import create_agent
from langchain_core.tools import ToolException
from langchain_fakes import ObedientModel, asked, last

from cnp_router import Api, Call, CallResult, FunctionSource, InputError, Source, Sources
from cnp_router.adapters.fastmcp import server_source
from cnp_router.adapters.langchain import RoutedTools, source_tools
from cnp_router.adapters.source_tools import SourceTools, said_of
from cnp_router.execution.approval import allow_writes
from cnp_router.sources import Attachment, CallFailure
from cnp_router.testing import ScriptedSource


@pytest.fixture(autouse=True)
def _no_tracing(monkeypatch):
    monkeypatch.setenv("LANGSMITH_TRACING", "false")


def weather(city: str) -> str:
    """Says whether it will rain in a city."""
    return f"Rain in {city}."


def send_sms(self: str, config: str = "", run_manager: str = "", callbacks: str = "") -> str:
    """Sends a text message to a phone."""
    return f"sent to {self}{config}{run_manager}{callbacks}"


def share_price(share: str) -> str:
    """Looks up the price of a share on the stock exchange."""
    raise ValueError("the exchange is closed")


def town():
    effects = {"weather": "reads", "send_sms": "writes", "share_price": "reads"}
    return Sources([FunctionSource("town", [weather, send_sms, share_price], effects=effects)])


class Odd(Source):
    """Has a tool whose name no server of models takes, and says with which key it was called."""

    name = "odd"

    async def apis(self):
        long = "odd__" + "long/" * 20
        return (Api("odd__a.b/c", "c", "Odd.", effects="reads"), Api(long, "long", effects="reads"))

    async def call(self, call):
        return CallResult(f"{call.api} by {call.key}")


class TestSourceTools:
    def run(self, sources, inputs, tool, **how):
        async def main():
            async with sources:
                tools = SourceTools(sources, **how)
                named = await tools.named()
                return await tools.call(named[tool], inputs, key="k")

        return asyncio.run(main())

    def test_what_reads_is_called(self):
        assert self.run(town(), {"city": "Nara"}, "town__weather").text == "Rain in Nara."

    def test_what_writes_is_called_with_approval_only(self):
        to = {"self": "+81"}
        failure = self.run(town(), to, "town__send_sms").failure
        assert (failure.kind, failure.was_done) == ("declined", "no")
        assert "nobody was there to approve it" in failure.message
        questions = []

        async def approve(approval):
            questions.append((approval.job, approval.api.id, dict(approval.inputs), approval.why))
            return len(questions) > 1

        assert self.run(town(), to, "town__send_sms", approve=approve).failure.kind == "declined"
        assert self.run(town(), to, "town__send_sms", approve=approve).text == "sent to +81"
        assert questions == [("town__send_sms", "town__send_sms", to, "writes")] * 2
        assert self.run(town(), to, "town__send_sms", approve=allow_writes).is_done

    def test_unknown_effects_need_approval_too(self):
        sources = Sources([FunctionSource("town", [weather])])
        assert self.run(sources, {"city": "Nara"}, "town__weather").failure.kind == "declined"

    def test_names_that_servers_of_models_take(self):
        async def main():
            async with Sources([Odd()]) as sources:
                return await SourceTools(sources).named()

        named = asyncio.run(main())
        assert [api.id[:9] for api in named.values()] == ["odd__a.b/", "odd__long"]
        assert all(len(name) <= 64 and set(name) <= set(OF_A_NAME) for name in named)
        first = next(iter(named))
        assert first.startswith("odd__a_b_c_")
        assert self.run(Sources([Odd()]), {}, first).text == "odd__a.b/c by k"

    def test_a_definition_that_has_changed_is_not_called(self):
        async def main():
            async with town() as sources:
                tools = SourceTools(sources)
                api = (await tools.named())["town__weather"]
                other = Api(api.id, api.name, "Another one.", (), api.parameters, "reads")
                gone = Api("town__gone", "gone", effects="reads")
                return [await tools.call(each, {"city": "Nara"}) for each in (other, gone)]

        assert [result.failure.kind for result in asyncio.run(main())] == ["changed", "changed"]

    def test_inputs_that_are_no_json(self):
        assert self.run(town(), {"city": {1}}, "town__weather").failure.kind == "inputs"

    def test_a_timeout(self):
        async def sleep() -> None:
            await asyncio.sleep(30)

        sources = Sources([FunctionSource("slow", [sleep], effects={"sleep": "reads"})])
        assert self.run(sources, {}, "slow__sleep", timeout=0.05).failure.kind == "timeout"

    def test_what_cannot_be_used(self):
        with pytest.raises(InputError, match="sources must be"):
            SourceTools([Odd()])
        with pytest.raises(InputError, match="timeout"):
            SourceTools(town(), timeout=0)
        with pytest.raises(InputError, match="approve must return True or False"):
            self.run(town(), {"self": "+81"}, "town__send_sms", approve=lambda approval: "yes")


OF_A_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (CallResult("sunny", {"sun": 1}), "sunny"),
        (CallResult("", {"sun": 1}), '{"sun": 1}'),
        (CallResult("a map", attachments=(Attachment("image/png", b"12"),)), "a map\nAttachment("),
        (CallResult("sun", n_bytes=9_000, is_cut=True), "sun\n(cut: it had 9,000 bytes)"),
        (CallResult("closed", failure=CallFailure("tool", "closed")), "tool: closed"),
        (CallResult("why", failure=CallFailure("lost", "gone")), "lost: gone (nobody knows"),
    ],
)
def test_what_a_model_is_told(result, said):
    assert said_of(result).startswith(said)


class TestLangChain:
    def run(self, request, make=town, *, call=None, approve=None, how="ainvoke"):
        """Return what an agent of LangChain with the tools of sources says, and its messages."""

        async def main():
            async with make() as sources:
                tools = await source_tools(sources, approve=approve)
                model = ObedientModel(calls=call or {})
                agent = create_agent(model, middleware=[RoutedTools(tools=tools)])
                if how == "ainvoke":
                    return await agent.ainvoke(asked(request)), model
                return await asyncio.to_thread(agent.invoke, asked(request)), model

        return asyncio.run(main())

    @pytest.mark.parametrize("how", ["ainvoke", "invoke"])
    def test_what_reads_runs(self, how):
        call = {"town__weather": {"city": "Nara"}}
        done, model = self.run("Will it rain in Nara?", call=call, how=how)
        assert last(done) == "It said: Rain in Nara."
        assert model.seen == [("town__weather",)] * 2
        assert done["messages"][2].artifact.text == "Rain in Nara."

    @pytest.mark.parametrize("how", ["ainvoke", "invoke"])
    def test_what_writes_needs_approval(self, how):
        # These are names that LangChain fills in by itself.
        inputs = {"self": "+81", "config": "c", "run_manager": "r", "callbacks": "b"}
        call = {"town__send_sms": inputs}
        done, _ = self.run("Send a text message", call=call, how=how)
        assert done["messages"][2].status == "error"
        assert last(done).startswith("It said: declined: nobody was there to approve it")
        done, _ = self.run("Send a text message", call=call, approve=allow_writes, how=how)
        assert last(done) == "It said: sent to +81crb"

    def test_what_fails_reaches_the_model(self):
        done, _ = self.run("the price of a share", call={"town__share_price": {"share": "A"}})
        assert last(done) == "It said: tool: ValueError: the exchange is closed"
        done, _ = self.run("the price of a share", call={"town__share_price": {}})
        assert last(done).startswith("It said: inputs: ")
        assert done["messages"][2].status == "error"

    def test_the_schema_that_the_model_is_shown(self):
        _, model = self.run("Will it rain in Nara?", call={"town__weather": {"city": "Nara"}})
        from langchain_core.utils.function_calling import convert_to_openai_tool

        ((tool,), _), *_ = model.bound
        function = convert_to_openai_tool(tool)["function"]
        assert function["name"] == "town__weather"
        assert function["description"] == "Says whether it will rain in a city."
        assert function["parameters"]["required"] == ["city"]

    def test_the_id_of_the_call_is_the_idempotency_key(self):
        done, model = self.run("Odd", lambda: Sources([Odd()]))
        name = model.seen[0][0]
        assert last(done) == f"It said: odd__a.b/c by id-{name}"

    def test_called_in_the_loop_that_it_needs(self):
        async def main():
            async with town() as sources:
                tool, *_ = await source_tools(sources)
                with pytest.raises(InputError, match="run the agent asynchronously"):
                    tool.invoke({"city": "Nara"})
                with pytest.raises(ToolException):
                    tool._to_args_and_kwargs("Nara", None)
                return await tool.ainvoke({"city": "Nara"})

        assert asyncio.run(main()) == "Rain in Nara."

    def test_called_in_another_loop(self):
        async def main():
            async with town() as sources:
                tool, *_ = await source_tools(sources)

                def elsewhere():
                    return asyncio.run(tool.ainvoke({"city": "Nara"}))

                return tool, await asyncio.to_thread(elsewhere)

        tool, said = asyncio.run(main())
        assert said == "Rain in Nara."
        for call in (tool.invoke, lambda inputs: asyncio.run(tool.ainvoke(inputs))):
            with pytest.raises(InputError, match=r"the event loop .* does not run"):
                call({"city": "Nara"})

    def test_a_source_that_fails_beside_others(self, caplog):
        class Gone(Odd):
            name = "gone"

            async def apis(self):
                raise OSError("no such host")

        done, _ = self.run("Odd", lambda: Sources([Odd(), Gone()]))
        assert last(done).startswith("It said: odd__a.b/c")
        assert "no such host" in caplog.text

    def test_fifty_calls_at_once(self):
        async def main():
            async with town() as sources:
                tool, *_ = await source_tools(sources)
                calls = (tool.ainvoke({"city": str(n)}) for n in range(50))
                return await asyncio.gather(*calls)

        assert asyncio.run(main()) == [f"Rain in {n}." for n in range(50)]

    def test_the_tools_of_an_mcp_server(self):
        server = FastMCP("clock")

        @server.tool(annotations={"readOnlyHint": True})
        def hours_between(start: int, end: int) -> int:
            """Counts the hours between two times of day."""
            return end - start

        done, model = self.run(
            "How many hours are between nine and five?",
            lambda: Sources([server_source("clock", server, trusted=True)]),
            call={"clock__hours_between": {"start": 9, "end": 17}},
        )
        assert model.seen == [("clock__hours_between",)] * 2
        assert last(done) == "It said: 8"

    def test_nothing_is_called_twice(self):
        async def main():
            source = ScriptedSource("weather", {"today": ["sunny"]})
            async with Sources([source]) as sources:
                (tool,) = await source_tools(sources)
                await tool.ainvoke({})
                return source.calls

        (call,) = asyncio.run(main())
        assert isinstance(call, Call)
