"""One agent as a tool: what it is asked, its limits, and what goes wrong with it."""

from __future__ import annotations

import asyncio

import pytest
from chat_server import run

from cnp_router.agents import offline_model
from cnp_router.exceptions import (
    ChatAccessError,
    ChatRateLimitError,
    ChatUnavailableError,
    InputError,
    UnknownApiError,
)
from cnp_router.execution import Executor
from cnp_router.llm import Usage
from cnp_router.protocols import ContractNet
from cnp_router.routing import SpecificationRouter
from cnp_router.sources import Call, CallFailure, Sources
from cnp_router.subagents import MOST_DEPTH, Answer, SubAgent, SubAgents


async def echo(question):
    return f"You asked: {question.text}"


def agent(answer=echo, name="weather", **how):
    return SubAgent(name, "Says what the weather is.", answer, **how)


def asked(answer=echo, text="Rain?", arguments=None, **how):
    return run(agent(answer, **how).ask(text, arguments))


class TestAsking:
    def test_it_is_told_the_text_and_its_own_arguments(self):
        seen = []

        async def look(question):
            seen.append((question.text, question.arguments, question.max_turns))
            return "Rain."

        parameters = {"city": {"type": "string"}, "days": {"type": "integer"}}
        reply = asked(look, arguments={"days": 3}, parameters=parameters)
        assert seen == [("Rain?", {"days": 3}, 10)]
        assert reply.result.data == "Rain."
        assert reply.agent == "weather"

    def test_its_schema_has_typed_optional_arguments(self):
        api = agent(parameters={"city": {"type": "string"}}).api
        assert api.parameters["required"] == ["text"]
        assert api.parameters["properties"]["city"] == {"type": "string"}
        assert api.parameters["additionalProperties"] is False
        assert api.effects == "unknown"

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [({"city": 3}, "3 is not of type 'string'"), ({"town": "Nara"}, "town")],
    )
    def test_what_does_not_fit_is_not_asked(self, arguments, problem):
        seen = []
        reply = asked(seen.append, arguments=arguments, parameters={"city": {"type": "string"}})
        assert reply.result.failure.kind == "inputs"
        assert problem in reply.result.failure.message
        assert seen == []

    def test_the_text_is_no_argument(self):
        with pytest.raises(InputError, match="no argument"):
            asked(arguments={"text": "Snow?"})
        with pytest.raises(InputError, match="text"):
            asked(text=3)

    @pytest.mark.parametrize(
        "how", [{"text": 3}, {"structured": object()}, {"usage": 9}, {"turns": "two"}]
    )
    def test_an_answer_of_another_type_is_a_failure(self, how):
        async def look(question):
            return Answer(**how)

        failure = asked(look).result.failure
        assert failure.kind == "tool"
        assert next(iter(how)) in failure.message

    def test_text_and_structure_are_given_back(self):
        async def look(question):
            return Answer("Rain.", {"mm": 4}, usage=Usage(90, 9, "server"), turns=2)

        reply = asked(look)
        assert (reply.result.text, reply.result.structured) == ("Rain.", {"mm": 4})
        assert (reply.tokens, reply.turns) == (99, 2)
        assert "99 tokens (server), 2 turns" in reply.result.notes

    @pytest.mark.parametrize(
        ("output", "data"),
        [(lambda a: {"mm": a.structured["mm"]}, {"mm": 4}), (lambda a: a.text.upper(), "RAIN.")],
    )
    def test_an_extractor_says_what_is_given_back(self, output, data):
        async def look(question):
            return Answer("Rain.", {"mm": 4, "secret": 1})

        assert asked(look, output=output).result.data == data

    def test_an_extractor_that_fails_is_a_failure(self):
        reply = asked(output=lambda answer: answer.structured["mm"])
        assert reply.result.failure.kind == "tool"
        assert "TypeError" in reply.result.failure.message
        reply = asked(output=lambda answer: object())
        assert reply.result.failure.kind == "tool"

    @pytest.mark.parametrize("said", [None, 3, b"x", {"a": 1}])
    def test_what_is_no_answer(self, said):
        async def look(question):
            return said

        failure = asked(look).result.failure
        assert failure.kind == "unusable"
        assert "must return an Answer or a text" in failure.message

    def test_a_long_answer_is_cut(self):
        async def talk(question):
            return "x" * 3_000_000

        result = asked(talk).result
        assert result.is_cut
        assert len(result.text) == 1_000_000

    def test_what_is_asked_is_in_no_repr(self):
        seen = []

        async def look(question):
            seen.append(repr(question))
            return "Rain."

        asked(look, text="my secret")
        assert "secret" not in seen[0]


class TestTurns:
    def test_it_may_take_so_many(self):
        async def think(question):
            for _ in range(3):
                question.turn("thinks")
            return "Rain."

        assert asked(think, max_turns=3).turns == 3
        failure = asked(think, max_turns=2).result.failure
        assert failure.kind == "tool"
        assert "it took more than 2 turns" in failure.message

    def test_it_may_count_them_itself(self):
        async def think(question):
            return Answer("Rain.", turns=11)

        assert "more than 10 turns" in asked(think).result.failure.message

    def test_progress_goes_to_both_callbacks(self):
        async def think(question):
            question.turn("looks at the sky")
            question.tell("sees clouds")
            return "Rain."

        stream, progress = [], []
        one = agent(think, on_stream=stream.append)
        call = Call(api="agents__weather", inputs={"text": "Rain?"}, on_progress=progress.append)
        run(SubAgents("agents", [one]).call(call))
        said = [(each.done, each.total, each.message) for each in stream]
        assert said == [(1, 10, "looks at the sky"), (1, 10, "sees clouds")]
        assert progress == stream

    def test_a_callback_that_fails_stops_nothing(self, caplog):
        async def think(question):
            question.turn()
            return "Rain."

        assert asked(think, on_stream=lambda progress: 1 / 0).result.is_done
        assert "a stream callback raised an error" in caplog.text


class TestTime:
    def test_alone_it_has_its_own_time(self):
        async def hang(question):
            question.book(Usage(50, 0, "server"))
            await asyncio.sleep(60)

        assert agent().timeout == 30.0
        reply = asked(hang, timeout=0.02)
        assert reply.result.failure.kind == "timeout"
        assert reply.result.failure.was_done == "unknown"
        assert reply.tokens == 50
        assert asked(hang, timeout=0.02, effects="reads").result.failure.was_done == "no"

    def test_as_a_tool_it_has_the_shorter_time(self):
        async def hang(question):
            await asyncio.sleep(60)

        for own, given in ((0.02, 30.0), (30.0, 0.02)):
            source = SubAgents("agents", [agent(hang, timeout=own)])
            call = Call(api="agents__weather", inputs={"text": "Rain?"}, timeout=given)
            assert run(source.call(call)).failure.message == "no answer in 0.02 s"

    def test_a_timeout_of_its_own_is_not_its_end(self):
        async def give_up(question):
            raise TimeoutError("the sky did not answer")

        assert "the sky did not answer" in asked(give_up).result.failure.message

    def test_who_gives_up_stops_it(self):
        ended = []

        async def hang(question):
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(True)

        async def give_up():
            task = asyncio.create_task(agent(hang).ask("Rain?"))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        run(give_up())
        assert ended == [True]


class TestFailures:
    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            (RuntimeError("a bug"), "tool"),
            (PermissionError("not yours"), "permission"),
            (ChatAccessError("no key"), "permission"),
            (ChatRateLimitError("too many"), "busy"),
            (ChatUnavailableError("down"), "unavailable"),
            (ConnectionResetError("gone"), "lost"),
            (TimeoutError("slow"), "timeout"),
            (asyncio.CancelledError(), "tool"),
        ],
    )
    def test_what_an_agent_raises_is_its_failure(self, error, kind):
        async def fail(question):
            raise error

        failure = asked(fail).result.failure
        assert failure.kind == kind
        assert failure.was_done == "unknown"
        assert asked(fail, effects="reads").result.failure.was_done == "no"

    def test_what_a_failed_answer_cost_is_counted(self):
        async def fail(question):
            failure = CallFailure("busy", "come again")
            return Answer("half", usage=Usage(40, 4, "server"), failure=failure)

        reply = asked(fail)
        assert reply.result.failure.kind == "busy"
        assert reply.result.text == "half"
        assert reply.tokens == 44

    def test_what_a_model_that_failed_cost_is_counted(self):
        async def fail(question):
            from cnp_router.exceptions import ChatAnswerError

            raise ChatAnswerError("no JSON", usage=Usage(30, 3, "server"))

        assert asked(fail).tokens == 33

    @pytest.mark.parametrize(
        ("how", "problem"),
        [
            ({"name": ""}, "agent"),
            ({"name": "a__b"}, "cannot have '__'"),
            ({"name": "a b"}, "agent 'a b': its name must be 1 to 128 letters"),
            ({"max_turns": 0}, "max_turns"),
            ({"timeout": 0}, "timeout"),
            ({"answer": "no"}, "answer of agent 'weather' must be callable"),
            ({"output": 3}, "output of agent"),
            ({"parameters": {"text": {}}}, "a parameter 'text' already"),
            ({"parameters": ["city"]}, "must be schemas by name"),
            ({"parameters": {"city": {"type": "town"}}}, "not a JSON Schema|town"),
            ({"effects": "harm"}, "effects"),
        ],
    )
    def test_values_that_cannot_be_used(self, how, problem):
        with pytest.raises(InputError, match=problem):
            agent(**how)


class TestDepth:
    def chain(self, *names):
        """Return an agent that asks the next one, and so on."""
        inner = None
        for name in reversed(names):

            async def ask(question, inner=inner):
                question.book(Usage(10, 1, "server"))
                if inner is None:
                    return "the end"
                reply = await inner.ask(question.text)
                if reply.result.failure is not None:
                    return Answer(failure=reply.result.failure)
                return reply.result.text

            inner = SubAgent(name, "Asks the next.", ask)
        return inner

    def test_three_may_ask_one_another(self):
        assert MOST_DEPTH == 3
        reply = run(self.chain("a", "b", "c").ask("Well?"))
        assert reply.result.text == "the end"
        assert reply.tokens == 33

    def test_a_fourth_is_a_clear_failure(self):
        reply = run(self.chain("a", "b", "c", "d").ask("Well?"))
        failure = reply.result.failure
        assert failure.kind == "declined"
        assert failure.message == "at most 3 agents may ask one another in a row: a > b > c > d"
        assert failure.was_done == "no"
        assert reply.tokens == 33

    def test_it_holds_through_sources_and_tasks(self):
        async def main():
            chain = self.chain("b", "c", "d")
            async with Sources([SubAgents("agents", [chain])]) as tools:

                async def ask(question):
                    call = Call(api="agents__b", inputs={"text": "Well?"})
                    result = await asyncio.create_task(tools.call(call))
                    return Answer(result.text, failure=result.failure)

                return await SubAgent("a", "Asks the next.", ask).ask("Well?")

        assert "a > b > c > d" in run(main()).result.failure.message

    def test_it_is_counted_anew_for_each_question(self):
        async def main():
            chain = self.chain("a", "b", "c")
            return [await chain.ask("Well?") for _ in range(2)]

        assert all(reply.result.is_done for reply in run(main()))


class TestSource:
    def test_any_number_of_agents_are_tools(self):
        agents = [SubAgent(f"a{n}", f"Number {n}.", echo) for n in range(30)]
        apis = run(SubAgents("agents", agents).apis())
        assert [api.id for api in apis] == [f"agents__a{n}" for n in range(30)]

    def test_they_work_through_sources(self):
        async def main():
            async with Sources([SubAgents("agents", [agent(effects="reads")])]) as tools:
                call = Call(api="agents__weather", inputs={"text": "Rain?"})
                return await tools.call(call)

        assert run(main()).text == "You asked: Rain?"

    def test_they_are_routed_and_executed_as_any_tool(self):
        async def main():
            trains = SubAgent("trains", "Finds trains between stations.", echo, effects="reads")
            own = agent(effects="reads")
            async with Sources([SubAgents("agents", [own, trains])]) as tools:
                catalog = await tools.catalog()
                net = ContractNet(
                    catalog, offline_model(catalog), router=SpecificationRouter(catalog)
                )
                return await Executor(net, tools).execute("What is the weather in Nara?")

        execution = run(main())
        assert execution.is_done
        [result] = execution.results.values()
        assert result.text == "You asked: What is the weather in Nara?"

    def test_what_is_wrong(self):
        with pytest.raises(InputError, match="weather"):
            SubAgents("agents", [agent(), agent()])
        with pytest.raises(InputError, match="agents"):
            SubAgents("agents", [echo])
        with pytest.raises(UnknownApiError, match="did you mean 'agents__weather'"):
            run(SubAgents("agents", [agent()]).call(Call(api="agents__wether")))
