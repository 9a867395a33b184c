"""Several agents at the same time, their retries, and what is merged."""

from __future__ import annotations

import asyncio

import pytest
from chat_server import run

from cnp_router.exceptions import InputError
from cnp_router.execution import ExecutionSettings
from cnp_router.llm import Usage
from cnp_router.subagents import Answer, Ask, SubAgent, merge, run_parallel


def agent(name, answer, **how):
    return SubAgent(name, f"Is called {name}.", answer, **how)


def saying(text, tokens=10):
    async def say(question):
        return Answer(text, usage=Usage(tokens, 0, "server"))

    return say


def failing(*errors, then="at last"):
    """Return an agent that raises errors, one a question, and then answers."""
    left = list(errors)

    async def fail(question):
        question.book(Usage(5, 0, "server"))
        if left:
            raise left.pop(0)
        return then

    return fail


def together(*agents, text="Well?", **how):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    asks = [Ask(each, text) for each in agents]
    results = run(run_parallel(asks, sleep=sleep, **how))
    return results, pauses


class TestTogether:
    def test_they_are_at_work_at_the_same_time(self):
        async def main():
            both = asyncio.Barrier(3)

            async def wait(question):
                await both.wait()
                return question.text

            asks = [Ask(agent(name, wait), name) for name in "abc"]
            return await run_parallel(asks, timeout=5)

        assert [result.result.text for result in run(main())] == ["a", "b", "c"]

    def test_one_failure_leaves_the_others(self):
        results, _ = together(
            agent("a", saying("A")),
            agent("b", failing(RuntimeError("no"))),
            agent("c", saying("C")),
        )
        merged = merge(results)
        assert merged.to_dict() == {
            "analyses": {"a": "A", "c": "C"},
            "total_tokens": 25,
            "success_count": 2,
            "failure_count": 1,
            "errors": {"b": "RuntimeError: no"},
        }

    def test_each_has_the_whole_time_and_no_more(self):
        async def hang(question):
            await asyncio.sleep(60)

        slow = agent("slow", hang, effects="reads", timeout=0.001)
        results, _ = together(slow, agent("a", saying("A")), timeout=0.05)
        failure = results[0].result.failure
        assert failure.kind == "timeout"
        assert "no answer in 0.05 s" in failure.message  # not in its time alone
        assert results[1].is_done

    def test_an_agent_asked_twice_has_two_results(self):
        one = agent("a", saying("A"))
        results = run(run_parallel([Ask(one, "x"), Ask(one, "y")]))
        assert list(merge(results).analyses) == ["a", "a (2)"]

    def test_agents_of_one_name_all_have_their_results(self):
        results, _ = together(*(agent("a", saying(text)) for text in "ABC"))
        merged = merge(results)
        assert merged.analyses == {"a": "A", "a (2)": "B", "a (3)": "C"}
        assert merged.success_count == 3

    def test_what_is_merged_of_two_rounds_is_all_there(self):
        first, _ = together(agent("a", saying("A")))
        second, _ = together(agent("a", saying("B")), agent("b", failing(RuntimeError("no"))))
        third, _ = together(agent("b", failing(RuntimeError("never"))))
        merged = merge([*first, *second, *third])
        assert merged.analyses == {"a": "A", "a (2)": "B"}
        assert (merged.success_count, merged.failure_count) == (2, 2)
        assert list(merged.errors) == ["b", "b (2)"]

    def test_arguments_go_along(self):
        async def look(question):
            return question.arguments["city"]

        one = agent("a", look, parameters={"city": {"type": "string"}})
        results = run(run_parallel([Ask(one, "Rain?", {"city": "Nara"})]))
        assert results[0].result.text == "Nara"
        results = run(run_parallel([Ask(one, "Rain?", {"town": "Nara"})]))
        assert results[0].result.failure.kind == "inputs"

    def test_nobody(self):
        assert run(run_parallel([])) == ()
        assert merge([]).to_dict()["errors"] == {}

    def test_what_is_wrong(self):
        with pytest.raises(InputError, match="asks"):
            run(run_parallel(["a"]))
        with pytest.raises(InputError, match="timeout"):
            run(run_parallel([], timeout=-1))
        with pytest.raises(InputError, match="agent"):
            Ask("a", "x")


class TestRetries:
    def test_what_may_pass_is_tried_again_after_waits_that_grow(self):
        flaky = agent("a", failing(ConnectionError("x"), ConnectionError("y")), effects="reads")
        results, pauses = together(flaky)
        assert results[0].result.text == "at last"
        assert results[0].attempts == 3
        assert results[0].tokens == 15
        assert 2.0 <= pauses[0] <= 4.0
        assert 4.0 <= pauses[1] <= 8.0

    def test_not_more_often_than_the_settings_say(self):
        flaky = agent("a", failing(*[ConnectionError("x")] * 9), effects="reads")
        results, pauses = together(flaky, settings=ExecutionSettings(attempts=2))
        assert results[0].attempts == 2
        assert len(pauses) == 1
        assert not results[0].is_done

    def test_what_is_no_passing_error_is_not(self):
        results, pauses = together(agent("a", failing(ValueError("no")), effects="reads"))
        assert results[0].attempts == 1
        assert pauses == []

    def test_what_may_have_been_done_is_not_done_again(self):
        results, _ = together(agent("a", failing(ConnectionError("x"))))
        assert results[0].attempts == 1
        results, _ = together(agent("a", failing(ConnectionError("x"))), approve=lambda _: True)
        assert results[0].attempts == 2

    def test_missing_rights_are_escalated_and_not_tried_again(self):
        denied = agent("a", failing(PermissionError("not yours")), effects="reads")
        results, pauses = together(denied)
        assert results[0].attempts == 1
        assert results[0].needs_right
        assert pauses == []
        assert merge(results).errors == {"a": "PermissionError: not yours"}

    def test_who_has_the_right_may_give_it(self):
        questions = []

        def approve(approval):
            questions.append(approval.why)
            return True

        denied = agent("a", failing(PermissionError("not yours")), effects="reads")
        results, _ = together(denied, approve=approve)
        assert questions == ["permission"]
        assert results[0].is_done
        assert not results[0].needs_right

    def test_questions_to_the_user_come_one_at_a_time(self):
        at_once, most = 0, 0

        async def approve(approval):
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.005)
            at_once -= 1
            return True

        results, _ = together(*(agent(name, saying(name)) for name in "abc"), approve=approve)
        assert all(result.is_done for result in results)
        assert most == 1

    def test_an_approval_that_is_none_stops_all(self):
        ended = []

        async def hang(question):
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(True)

        async def main():
            asks = [Ask(agent("a", hang, effects="reads"), "x"), Ask(agent("b", hang), "y")]
            await run_parallel(asks, approve=lambda _: "yes")

        with pytest.raises(InputError, match="approve must return True or False"):
            run(main())
        assert ended == [True]

    def test_what_the_user_declines_is_not_asked(self):
        results, _ = together(agent("a", saying("A")), approve=lambda _: False)
        assert results[0].result.failure.kind == "declined"
        assert results[0].attempts == 0


class TestTokens:
    """What was paid counts, whatever comes of it."""

    def test_of_an_agent_whose_time_was_up(self):
        async def hang(question):
            question.book(Usage(900, 100, "server"))
            await asyncio.sleep(30)

        results, _ = together(agent("a", hang), agent("b", saying("B", 7)), timeout=0.1)
        assert [(each.tokens, each.attempts) for each in results] == [(1000, 1), (7, 1)]
        assert merge(results).total_tokens == 1007

    def test_of_those_that_it_had_asked(self):
        async def hang(question):
            question.book(Usage(50, 0, "server"))
            await asyncio.sleep(30)

        inner = agent("inner", hang)

        async def ask(question):
            question.book(Usage(3, 0, "server"))
            await run_parallel([Ask(inner, "x"), Ask(agent("done", saying("x", 10)), "y")])

        results, _ = together(agent("outer", ask), timeout=0.1)
        assert results[0].tokens == 63

    def test_they_count_once_on_each_level(self):
        async def ask(question):
            question.book(Usage(3, 0, "server"))
            results = await run_parallel([Ask(agent("inner", saying("x", 10)), "x")] * 2)
            return str(merge(results).total_tokens)

        results, _ = together(agent("outer", ask))
        assert results[0].result.text == "20"
        assert results[0].tokens == 23
