"""Agents that are a contract net of their own, or a model with a few tools."""

from __future__ import annotations

import pytest
from chat_server import run

from cnp_router.agents import NextStep, offline_model
from cnp_router.exceptions import InputError
from cnp_router.execution import ExecutionSettings, allow_writes
from cnp_router.protocols import ContractNet
from cnp_router.routing import SpecificationRouter
from cnp_router.sources import FunctionSource, Sources
from cnp_router.subagents import SubAgent, SubAgents
from cnp_router.testing import ScriptedChatModel

ASK = 'Forecast the rain for the city "Nara".'
EFFECTS = {"forecast": "reads", "trains": "reads", "book": "writes"}


class Travel:
    """Tools, and what was called."""

    def __init__(self) -> None:
        self.called: list[tuple] = []

    def source(self):
        def forecast(city: str) -> str:
            """Forecast rain, wind and sun for a city."""
            self.called.append(("forecast", city))
            return f"Rain in {city} at five."

        def trains(target: str) -> list[str]:
            """Find trains to a station."""
            self.called.append(("trains", target))
            return ["9:00", "9:30"]

        def book(seat: str) -> str:
            """Book a seat on a train."""
            self.called.append(("book", seat))
            return "booked"

        return FunctionSource("travel", [forecast, trains, book], effects=EFFECTS)


def asked(make, text=ASK, arguments=None):
    """Ask the agent that `make` makes of tools and their catalog."""
    travel = Travel()

    async def main():
        async with Sources([travel.source()]) as tools:
            agent = make(tools, await tools.catalog())
            return await agent.ask(text, arguments)

    return run(main()), travel.called


def act(tool="", done=False, thought="", **inputs):
    return {"thought": thought, "tool": tool, "inputs": inputs, "done": done}


class TestOfNet:
    def net(self, catalog):
        return ContractNet(catalog, offline_model(catalog), router=SpecificationRouter(catalog))

    def test_its_router_finds_the_tool_and_its_award_acts(self):
        seen = []

        def make(tools, catalog):
            return SubAgent.of_net(
                "travel", "Knows weather.", self.net(catalog), tools, on_stream=seen.append
            )

        reply, called = asked(make)
        assert called == [("forecast", "Nara")]
        assert reply.result.data == {"travel__forecast": "Rain in Nara at five."}
        assert reply.tokens > 0
        assert [each.message for each in seen] == ["asks its contractors", "calls travel__forecast"]

    def test_arguments_are_told_behind_the_text(self):
        def make(tools, catalog):
            return SubAgent.of_net(
                "travel", "Knows weather.", self.net(catalog), tools,
                parameters={"city": {"type": "string"}})  # fmt: skip

        _, called = asked(make, "Forecast the rain.", {"city": "Kobe"})
        assert called == [("forecast", "Kobe")]

    def test_what_fails_inside_is_its_failure(self):
        def make(tools, catalog):
            settings = ExecutionSettings(attempts=1)
            return SubAgent.of_net(
                "travel", "Books.", self.net(catalog), tools, settings=settings)  # fmt: skip

        reply, called = asked(make, 'Book a seat "9A" on a train.')
        assert called == []  # nobody approved
        assert reply.result.failure is not None


class TestOfModel:
    def test_it_calls_its_tools_until_it_is_done(self):
        model = ScriptedChatModel([
            act("travel__forecast", city="Nara"), act("travel__trains", target="Nara"),
            act(done=True, thought="Take the first.")])  # fmt: skip
        reply, called = asked(lambda tools, _: SubAgent.of_model("t", "Knows.", model, tools))
        assert called == [("forecast", "Nara"), ("trains", "Nara")]
        assert reply.result.data == {
            "travel__forecast": "Rain in Nara at five.",
            "travel__trains": ["9:00", "9:30"],
        }
        assert reply.turns == 3
        assert reply.tokens == sum(usage.tokens_in + usage.tokens_out for usage in [reply.usage])

    def test_it_is_shown_the_tools_that_it_has(self):
        model = ScriptedChatModel([act("travel__trains", target="Nara", done=True)])
        asked(
            lambda tools, _: SubAgent.of_model(
                "t", "Knows.", model, tools, tools=["travel__trains"]
            )
        )
        [request] = model.calls
        assert isinstance(request.task, NextStep)
        assert [api.id for api in request.task.apis] == ["travel__trains"]

    def test_it_takes_no_more_turns_than_it_may(self):
        acts = [act(f"travel__nothing_{n}") for n in range(9)]
        model = ScriptedChatModel(acts)
        reply, called = asked(
            lambda tools, _: SubAgent.of_model("t", "Knows.", model, tools, max_turns=3)
        )
        assert len(model.calls) == 3
        assert called == []
        assert reply.result.failure.kind == "tool"
        assert "3 turns" in reply.result.failure.message
        assert reply.tokens > 0

    def test_what_writes_needs_approval(self):
        for approve, expected in ((None, []), (lambda _: True, [("book", "9A")])):
            model = ScriptedChatModel([act("travel__book", seat="9A", done=True)] * 9)
            _, called = asked(
                lambda tools, _, model=model, approve=approve: SubAgent.of_model(
                    "t", "Books.", model, tools, approve=approve, max_turns=1
                )
            )
            assert called == expected

    def test_a_tool_called_twice_has_two_results(self):
        model = ScriptedChatModel([
            act("travel__forecast", city="Nara"),
            act("travel__forecast", city="Kobe", done=True)])  # fmt: skip
        reply, _ = asked(lambda tools, _: SubAgent.of_model("t", "Knows.", model, tools))
        assert list(reply.result.data) == ["travel__forecast", "travel__forecast (2)"]

    def test_values_that_cannot_be_used(self):
        with pytest.raises(InputError, match="model"):
            asked(lambda tools, _: SubAgent.of_model("t", "Knows.", "gpt", tools))
        reply, _ = asked(
            lambda tools, catalog: SubAgent.of_model(
                "t", "Knows.", offline_model(catalog), tools, tools=["travel__none"]
            )
        )
        assert "travel__none" in reply.result.failure.message


def test_an_agent_may_have_agents_as_tools():
    async def look(question):
        return f"Rain in {question.text}."

    async def main():
        sky = SubAgents("sky", [SubAgent("weather", "Looks.", look, effects="reads")])
        async with Sources([sky]) as tools:
            model = ScriptedChatModel([act("sky__weather", text="Nara", done=True)])
            return await SubAgent.of_model("guide", "Guides.", model, tools).ask("Rain?")

    assert run(main()).result.data == {"sky__weather": "Rain in Nara."}


SECRET = "CANARY-90000"


class TestConfidential:
    """What is confidential to a tool of an agent is in no prompt and no answer of the agent."""

    @staticmethod
    def ask(make, classes, *, pays=True):
        """Return the reply of an agent that has salaries and a post, and what was posted."""
        posted = []

        def salary(name: str) -> str:
            """Say what the salary of a person is."""
            if not pays:
                raise ValueError(f"no {SECRET}")
            return SECRET

        def post(text: str) -> str:
            """Post a text."""
            posted.append(text)
            return "posted"

        async def main():
            hr = FunctionSource("hr", [salary], effects={"salary": "reads"})
            mail = FunctionSource("mail", [post], effects={"post": "writes"})
            async with Sources([hr, mail], classes=classes) as tools:
                return await make(tools, await tools.catalog()).ask('The salary of "Ann".')

        return run(main()), posted

    def test_of_a_model(self):
        acts = [
            act("hr__salary", name="Ann"),
            act("mail__post", text="hello", done=True)]  # fmt: skip
        for classes, is_secret in (({"hr__*": "confidential"}, True), ({}, False)):
            model = ScriptedChatModel(acts)
            reply, _ = self.ask(
                lambda tools, _, model=model: SubAgent.of_model(
                    "office", "Knows.", model, tools, approve=allow_writes
                ),
                classes,
            )
            assert reply.result.is_done
            assert reply.result.data["mail__post"] == "posted"
            prompts = [m.content for call in model.calls for m in call.messages]
            for text in (" ".join(prompts), reply.result.text, str(reply.result.data)):
                assert (SECRET not in text) is is_secret
            if is_secret:
                assert "confidential" in reply.result.data["hr__salary"]

    def test_of_a_net(self):
        def make(tools, catalog):
            net = ContractNet(
                catalog, offline_model(catalog), router=SpecificationRouter(catalog))  # fmt: skip
            return SubAgent.of_net("office", "Knows.", net, tools, approve=allow_writes)

        for classes, is_secret in (({"hr__*": "confidential"}, True), ({}, False)):
            reply, _ = self.ask(make, classes)
            assert "hr__salary" in reply.result.text
            assert (SECRET not in reply.result.text) is is_secret

    def test_what_a_failure_says(self):
        model = ScriptedChatModel([act("hr__salary", name="Ann"), act(done=True)] * 5)
        reply, _ = self.ask(
            lambda tools, _: SubAgent.of_model("office", "Knows.", model, tools, max_turns=2),
            {"hr__salary": "confidential"},
            pays=False,
        )
        assert not reply.result.is_done
        assert SECRET not in str(reply.result.to_dict())
        assert "confidential" in reply.result.failure.message
