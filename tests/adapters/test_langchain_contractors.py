"""Tools and agents of LangChain as contractors: schema, failures, attachments, tokens, limits."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable
from typing import Annotated

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import InjectedToolCallId, StructuredTool, ToolException, tool
from langchain_fakes import ObedientModel, plain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field

from cnp_router import Call, InputError, Sources, UnknownApiError
from cnp_router.adapters.langchain import LangChainTools, sub_agent
from cnp_router.sources import Attachment
from cnp_router.subagents import SubAgents


@pytest.fixture(autouse=True)
def _no_tracing(monkeypatch):
    monkeypatch.setenv("LANGSMITH_TRACING", "false")


def called(tool_, inputs=None, **how):
    """Return the result of one call of one tool."""
    source = LangChainTools("own", [tool_])
    (api,) = asyncio.run(source.apis())
    return asyncio.run(source.call(Call(api=api.id, inputs=inputs or {}, **how)))


@tool
def weather(city: Annotated[str, "Where"], days: int = 1) -> dict:
    """Says whether it will rain in a city.

    In plain words.
    """
    return {"city": city, "days": days}


@tool
async def ask(question: str) -> str:
    """Answers."""
    await asyncio.sleep(0 if question == "at once" else 30)
    return f"You asked: {question}"


class TestTools:
    def test_their_definition(self):
        class Where(BaseModel):
            city: str = Field(description="A city")

        @tool(args_schema=Where)
        def rain(city: str, call: Annotated[str, InjectedToolCallId] = "") -> str:
            """Rains."""
            return city

        source = LangChainTools("own", [weather, rain], effects={"weather": "reads"})
        first, second = asyncio.run(source.apis())
        assert (first.id, first.name, first.effects) == ("own__weather", "weather", "reads")
        assert first.description.startswith("Says whether it will rain in a city.")
        assert first.parameters["properties"]["city"]["description"] == "Where"
        assert first.parameters["required"] == ["city"]
        assert second.effects == "unknown"
        assert second.parameters["properties"]["city"]["description"] == "A city"
        assert [*second.parameters["properties"]] == ["city"]

    def test_a_result(self):
        result = called(weather, {"city": "Kyoto"})
        assert result.data == {"city": "Kyoto", "days": 1}
        assert result.is_done

    def test_functions_become_tools(self):
        def add(a: int, b: int) -> int:
            """Adds."""
            return a + b

        assert called(add, {"a": 1, "b": 2}).data == 3

    def test_the_id_of_the_call_is_the_idempotency_key(self):
        @tool
        def once(call: Annotated[str, InjectedToolCallId]) -> str:
            """Acts once."""
            return call

        assert called(once, key="k-1").text == "k-1"

    def test_a_schema_of_json(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        one = StructuredTool(name="one", description="", func=lambda n: n + 1, args_schema=schema)
        assert called(one, {"n": 1}).data == 2
        failed = called(one, {"n": "1"}).failure
        assert (failed.kind, failed.was_done) == ("inputs", "no")

    def test_inputs_are_not_changed(self):
        @tool
        def grow(names: list[str]) -> str:
            """Grows."""
            names.append("more")
            return "grown"

        inputs = {"names": ["one"]}
        called(grow, inputs)
        assert inputs == {"names": ["one"]}

    def test_blocks_and_artifacts(self):
        picture = base64.b64encode(b"png").decode()

        @tool(response_format="content_and_artifact")
        def draw() -> tuple:
            """Draws."""
            blocks = [
                {"type": "text", "text": "a map"},
                {"type": "image", "base64": picture, "mime_type": "image/png"},
                {"type": "image", "url": "https://example.org/map.png"},
            ]
            return blocks, {"places": 3}

        result = called(draw)
        assert (result.text, result.structured) == ("a map", {"places": 3})
        assert result.attachments == (
            Attachment("image/png", b"png"),
            Attachment("image/*", uri="https://example.org/map.png"),
        )

    @pytest.mark.parametrize(
        ("artifact", "attachments", "notes"),
        [
            (b"wav", (Attachment("application/octet-stream", b"wav"),), 0),
            (Attachment("audio/wav", b"wav"), (Attachment("audio/wav", b"wav"),), 0),
            (object(), (), 1),
            (None, (), 0),
        ],
    )
    def test_other_artifacts(self, artifact, attachments, notes):
        @tool(response_format="content_and_artifact")
        def give() -> tuple:
            """Gives."""
            return "given", artifact

        result = called(give)
        assert (result.text, result.structured) == ("given", None)
        assert (result.attachments, len(result.notes)) == (attachments, notes)

    @pytest.mark.parametrize(
        ("error", "kind", "said"),
        [
            (ToolException("closed"), "tool", "ToolException: closed"),
            (ValueError("odd"), "tool", "ValueError: odd"),
            (PermissionError("not you"), "permission", "PermissionError: not you"),
        ],
    )
    @pytest.mark.parametrize("is_async", [True, False])
    def test_what_a_tool_raises(self, error, kind, said, is_async):
        def fail() -> str:
            """Fails."""
            raise error

        async def afail() -> str:
            """Fails."""
            raise error

        failure = called(tool(afail if is_async else fail)).failure
        assert (failure.kind, failure.message) == (kind, said)

    def test_an_error_that_a_tool_handles_is_a_failure(self):
        @tool
        def fail() -> str:
            """Fails."""
            raise ToolException("closed")

        handled = fail.model_copy(update={"handle_tool_error": True})
        result = called(handled)
        assert (result.failure.kind, result.failure.message) == ("tool", "closed")

    def test_tools_that_need_a_graph(self):
        @tool
        def go() -> Command:
            """Goes."""
            return Command(goto="there")

        @tool
        def count(state: Annotated[dict, InjectedState]) -> str:
            """Counts."""
            return str(len(state))

        assert "needs a graph" in called(go).failure.message
        assert called(count).failure.kind == "tool"

    def test_a_timeout_and_a_cancellation_leave_it_usable(self):
        source = LangChainTools("own", [ask])

        async def main():
            late = await source.call(Call(api="own__ask", inputs={"question": "x"}, timeout=0.05))
            task = asyncio.create_task(source.call(Call(api="own__ask", inputs={"question": "x"})))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return late, await source.call(Call(api="own__ask", inputs={"question": "at once"}))

        late, done = asyncio.run(main())
        assert (late.failure.kind, late.failure.was_done) == ("timeout", "unknown")
        assert done.text == "You asked: at once"

    def test_plain_ones_run_in_threads(self):
        inside = []

        @tool
        def where() -> str:
            """Says where."""
            inside.append(threading.current_thread() is threading.main_thread())
            return "there"

        called(where)
        assert inside == [False]

    def test_among_other_sources(self):
        async def main():
            async with Sources([LangChainTools("own", [weather])]) as sources:
                assert (await sources.catalog()).ids == ("own__weather",)
                return await sources.call(Call(api="own__weather", inputs={"city": "Nara"}))

        assert asyncio.run(main()).data["city"] == "Nara"

    def test_what_cannot_be_used(self):
        with pytest.raises(InputError, match="duplicate tool id 'weather'"):
            LangChainTools("own", [weather, plain_tool("weather", "")])
        with pytest.raises(InputError, match="effects of 'rain', which is no tool here"):
            LangChainTools("own", [weather], effects={"rain": "reads"})
        with pytest.raises(UnknownApiError):
            asyncio.run(LangChainTools("own", [weather]).call(Call(api="own__rain")))

        class Odd(BaseModel):
            function: Callable[[], int]

        odd = StructuredTool(name="odd", description="", func=print, args_schema=Odd)
        with pytest.raises(InputError, match="tool 'odd' has no JSON Schema"):
            LangChainTools("own", [odd])


def agent_of(name, description, agent, **how):
    return sub_agent(agent, description, name=name, **how)


def scripted(*messages):
    return GenericFakeChatModel(messages=iter(messages))


def said(text):
    metadata = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
    return AIMessage(text, usage_metadata=metadata)


class TestAgents:
    def test_an_agent_answers_with_its_tools_tokens_and_turns(self):
        model = ObedientModel(calls={"weather": {"city": "Kyoto"}})
        agent = create_agent(model, [weather])
        seen = []
        asked = agent_of("rain", "Says whether it rains.", agent, on_stream=seen.append)
        reply = asyncio.run(asked.ask("Rain?"))
        assert json.loads(reply.result.text.removeprefix("It said: ")) == {
            "city": "Kyoto",
            "days": 1,
        }
        assert reply.turns == 2
        assert reply.usage.source == "estimated"
        assert reply.usage.tokens_in > 0
        assert [each.done for each in seen] == [1, 2]

    def test_tokens_that_the_server_says(self):
        asked = agent_of("rain", "Says whether it rains.", create_agent(scripted(said("Yes."))))
        reply = asyncio.run(asked.ask("Rain?"))
        assert (reply.result.text, reply.tokens, reply.usage.source) == ("Yes.", 11, "server")

    def test_one_is_a_contractor(self):
        asked = agent_of("rain", "Rains.", create_agent(scripted(said("Yes."))), effects="reads")
        source = SubAgents("agents", [asked])
        (api,) = asyncio.run(source.apis())
        assert (api.id, api.effects) == ("agents__rain", "reads")
        result = asyncio.run(source.call(Call(api="agents__rain", inputs={"text": "Rain?"})))
        assert result.text == "Yes."

    def test_a_structured_response(self):
        class Answer(BaseModel):
            rains: bool

        model = ObedientModel(calls={"Answer": {"rains": True}})
        agent = create_agent(model, response_format=Answer)
        result = asyncio.run(agent_of("rain", "Rains.", agent).ask("Rain?")).result
        assert result.structured == {"rains": True}

    def test_arguments_are_told_or_keys_of_the_state(self):
        class State(MessagesState):
            city: str

        def node(state: State):
            text = state["messages"][-1].text
            return {"messages": [AIMessage(f"{text} {state.get('city')}")]}

        graph = StateGraph(State)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        graph.add_edge("node", END)
        city = {"city": {"type": "string"}}
        told = agent_of("rain", "Rains.", graph.compile(), parameters=city)
        assert asyncio.run(told.ask("Rain?", {"city": "Nara"})).result.text == (
            "Rain?\ncity: Nara None"
        )
        keyed = agent_of(
            "rain",
            "Rains.",
            graph.compile(),
            parameters=city,
            inputs=lambda q: {"messages": [("human", q.text)], **q.arguments},
        )
        assert asyncio.run(keyed.ask("Rain?", {"city": "Nara"})).result.text == "Rain? Nara"

    def test_its_name_is_that_of_the_agent(self):
        assert sub_agent(create_agent(scripted(), name="rain"), "Rains.").name == "rain"

    @pytest.mark.parametrize(
        ("status", "kind"), [(401, "permission"), (429, "busy"), (503, "unavailable")]
    )
    def test_errors_of_servers_of_models(self, status, kind):
        import httpx2
        from openai import APIStatusError

        request = httpx2.Request("POST", "http://127.0.0.1/v1")
        response = httpx2.Response(status, request=request)

        def fail(state):
            raise APIStatusError("no", response=response, body=None)

        reply = asyncio.run(agent_of("rain", "Rains.", RunnableLambda(fail)).ask("Rain?"))
        assert reply.result.failure.kind == kind

    def test_any_runnable_by_inputs(self):
        asked = agent_of("rain", "Rains.", scripted(said("Yes.")), inputs=lambda q: q.text)
        reply = asyncio.run(asked.ask("Rain?"))
        assert (reply.result.text, reply.turns, reply.tokens) == ("Yes.", 1, 11)
        upper = agent_of(
            "upper", "Shouts.", RunnableLambda(str.upper), inputs=lambda question: question.text
        )
        assert asyncio.run(upper.ask("rain")).result.text == "RAIN"
        size = agent_of("size", "Counts.", RunnableLambda(len), inputs=lambda q: q.text)
        assert asyncio.run(size.ask("rain")).result.structured == 4
        odd = agent_of("odd", "Odd.", RunnableLambda(lambda _: object()))
        assert asyncio.run(odd.ask("rain")).result.failure.kind == "unusable"
        with pytest.raises(InputError, match="agent must be"):
            agent_of("rain", "Rains.", lambda text: text)

    def test_too_many_turns_end_it(self):
        calls = [{"name": "weather", "args": {"city": "Kyoto"}, "id": "1"}]
        thinking = [AIMessage("", tool_calls=calls) for _ in range(9)]

        class Model(GenericFakeChatModel):
            def bind_tools(self, tools, **how):
                return self

        agent = create_agent(Model(messages=iter(thinking)), [weather])
        reply = asyncio.run(agent_of("rain", "Rains.", agent, max_turns=3).ask("Rain?"))
        assert "took more than 3 turns" in reply.result.failure.message
        assert reply.turns == 3
        assert reply.usage.tokens_in > 0

    def test_who_would_ask_a_person(self):
        def node(state: MessagesState):
            return {"messages": [AIMessage(interrupt("May I?"))]}

        graph = StateGraph(MessagesState)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        agent = graph.compile(checkpointer=InMemorySaver()).with_config(
            configurable={"thread_id": "1"}
        )
        failure = asyncio.run(agent_of("rain", "Rains.", agent).ask("Rain?")).result.failure
        assert failure.kind == "declined"
        assert "waits for a person" in failure.message

    def test_errors_and_a_timeout(self):
        async def slow(state):
            await asyncio.sleep(30)

        async def wrong(state):
            raise ValueError("odd")

        late = agent_of("late", "Late.", RunnableLambda(slow), timeout=0.05)
        assert asyncio.run(late.ask("?")).result.failure.kind == "timeout"
        failure = asyncio.run(
            agent_of("odd", "Odd.", RunnableLambda(wrong)).ask("?")
        ).result.failure
        assert (failure.kind, failure.message) == ("tool", "ValueError: odd")

    def test_fifty_at_once_keep_their_tokens_apart(self):
        class Counted(GenericFakeChatModel):
            def _generate(self, messages, *args, **how):
                n = int(messages[-1].text)
                usage = {"input_tokens": n, "output_tokens": 0, "total_tokens": n}
                self.messages = iter([AIMessage(str(n), usage_metadata=usage)])
                return super()._generate(messages, *args, **how)

        asked = agent_of("echo", "Echoes.", create_agent(Counted(messages=iter(()))))

        async def main():
            return await asyncio.gather(*(asked.ask(str(n)) for n in range(50)))

        replies = asyncio.run(main())
        assert [reply.tokens for reply in replies] == list(range(50))
        assert [reply.result.text for reply in replies] == [str(n) for n in range(50)]
