from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from worlds import noisy, run

from cnp_router.catalog import Api, Catalog
from cnp_router.exceptions import ChatAnswerError, InputError
from cnp_router.history import Mashup
from cnp_router.llm import OfflineChatModel
from cnp_router.prediction import (
    BackoffPredictor,
    ChooseTool,
    Context,
    ContextPredictor,
    Decay,
    FirstOrderPredictor,
    NextToolPolicy,
    NextToolRouter,
    ParameterHints,
    offline_choice,
)
from cnp_router.testing import FunctionChatModel, ScriptedChatModel
from cnp_router.trajectories import Step

AT_ONCE = NextToolPolicy.fixed(0.6)
ALWAYS_ASK = NextToolPolicy(ask_first=1_000)
GOAL = Context("Rain?")


def taught(n=20, *, policy=AT_ONCE, **options):
    router = NextToolRouter(policy=policy, **options)
    for number in range(n):
        router.observe(run(number, "Rain?", "weather", "maps", "sms"))
    return router


def decided(answer):
    return answer.tool, answer.source, answer.unsure


class TestDeciding:
    def test_a_sure_prediction_is_acted_upon_and_nobody_is_asked(self):
        model = ScriptedChatModel([])
        answer = taught(model=model).predict_next(["weather"], GOAL)
        assert decided(answer) == ("maps", "context", None)
        assert answer.confidence >= answer.threshold == 0.6
        model.assert_done()

    def test_below_the_threshold_the_model_is_asked(self):
        model = ScriptedChatModel([{"tool": "sms"}])
        router = NextToolRouter(model=model, policy=NextToolPolicy.fixed(0.9))
        for number in range(30):
            router.observe(run(number, "Rain?", "weather", ("maps", "sms")[number * 7 % 3 % 2]))
        answer = router.predict_next([Step("weather", {"city": "Oslo"}, "rain")], GOAL)
        assert decided(answer) == ("sms", "llm", "threshold")
        assert answer.usage is not None and answer.usage.tokens_in > 0
        task = model.calls[0].task
        assert isinstance(task, ChooseTool)
        assert task.goal == "Rain?" and task.prefix[0].inputs == {"city": "Oslo"}
        assert task.candidates == answer.candidates[:3]
        assert task.allowed == {"weather", "maps", "sms"}
        by_tool = {c.tool: c.probability for c in answer.candidates}
        assert answer.confidence == by_tool.get("sms", 0.0)

    def test_without_a_model_the_caller_decides(self):
        router = taught(policy=ALWAYS_ASK)
        answer = router.predict_next(["weather"], GOAL)
        assert decided(answer) == ("maps", "none", "cold-start")

    def test_the_cold_start_asks(self):
        router = NextToolRouter(policy=NextToolPolicy.fixed(0.5, ask_first=5))
        sources = []
        for number in range(8):
            sources.append(router.predict_next(["weather"], GOAL).unsure)
            router.observe(run(number, "Rain?", *["weather", "maps"] * 5))
        assert sources == ["unknown", *["cold-start"] * 4, None, None, None]

    def test_guards_say_which_one_refused(self):
        router = taught(policy=NextToolPolicy.fixed(0.6, max_in_a_row=1))
        asked = router.predict_next(["weather"], GOAL, sources=["context"])
        assert decided(asked) == ("maps", "none", "in-a-row")
        assert router.predict_next(["weather"], GOAL, sources=["llm"]).unsure is None
        failed = [Step("weather", success=False)]
        assert router.predict_next(failed, GOAL, sources=["llm"]).unsure == "after-failure"
        with pytest.raises(InputError, match="give one source for each"):
            router.predict_next(["weather"], GOAL)

    def test_an_hallucinated_tool_is_dropped_and_said(self):
        model = ScriptedChatModel([{"tool": "pigeon"}])
        router = taught(model=model, policy=ALWAYS_ASK)
        answer = router.predict_next(["weather"], GOAL)
        assert decided(answer) == ("maps", "none", "cold-start")
        assert answer.hallucinated == ("pigeon",)
        assert answer.usage is not None

    def test_the_model_may_name_a_tool_nobody_has_used(self):
        model = ScriptedChatModel([{"tool": "mail"}])
        catalog = Catalog([Api(t, t) for t in ("weather", "maps", "sms", "mail")])
        policy = ALWAYS_ASK
        answer = taught(model=model, tools=catalog, policy=policy).predict_next(["weather"])
        assert (answer.tool, answer.source, answer.confidence) == ("mail", "llm", 0.0)

    def test_a_tool_that_is_not_in_the_list_is_never_predicted(self):
        router = taught(tools=["weather", "sms"])
        answer = router.predict_next(["weather"], GOAL)
        assert {c.tool for c in answer.candidates} <= {"weather", "sms"}
        assert answer.source == "none"
        assert router.tools == ("weather", "sms")

    def test_where_no_tool_is_known_nobody_is_asked(self):
        model = ScriptedChatModel([])
        answer = NextToolRouter(model=model).predict_next([], GOAL)
        assert decided(answer) == (None, "none", "unknown")

    def test_an_answer_that_cannot_be_used_is_an_error(self):
        model = ScriptedChatModel(["I do not know."])
        router = taught(model=model, policy=ALWAYS_ASK)
        with pytest.raises(ChatAnswerError):
            router.predict_next(["weather"])

    def test_in_an_event_loop(self):
        model = FunctionChatModel(lambda request: {"tool": request.task.candidates[0].tool})
        router = taught(model=model, policy=ALWAYS_ASK)

        async def many():
            answers = (router.apredict_next(["weather"], GOAL) for _ in range(5))
            return await asyncio.gather(*answers)

        assert {answer.tool for answer in asyncio.run(many())} == {"maps"}
        assert len(model.calls) == 5

        async def wrongly():
            router.predict_next(["weather"], GOAL)

        with pytest.raises(InputError, match=r"await router\.apredict_next"):
            asyncio.run(wrongly())

    def test_the_offline_model(self):
        model = OfflineChatModel({ChooseTool: offline_choice})
        router = taught(model=model, policy=ALWAYS_ASK)
        assert decided(router.predict_next(["weather"], GOAL)) == ("maps", "llm", "cold-start")

    def test_what_may_be_chosen_is_listed_anew_where_more_was_observed(self):
        model = OfflineChatModel({ChooseTool: offline_choice})
        router = NextToolRouter(model=model, policy=ALWAYS_ASK)
        router.observe(run(0, "Rain?", "weather"))
        listed = router._choice()
        assert router._choice() is listed
        router.observe(run(1, "Rain?", "maps"))
        assert set(router._choice().apis) == {"weather", "maps"}
        other = NextToolRouter(model=model, policy=ALWAYS_ASK)
        other.observe(run(0, "Rain?", "sms"))
        other.observe(run(1, "Rain?", "mail"))
        router.restore(other.state())
        assert set(router._choice().apis) == {"sms", "mail"}

    def test_it_is_a_json_object(self):
        model = ScriptedChatModel([{"tool": "sms"}])
        router = taught(model=model, policy=ALWAYS_ASK)
        document = json.loads(json.dumps(router.predict_next(["weather"], GOAL).to_dict()))
        assert list(document)[:4] == ["tool", "confidence", "candidates", "source"]
        assert document["usage"]["source"] == "estimated"


class TestExcluding:
    def excluding(self, *tools, **options):
        policy = NextToolPolicy.fixed(0.6, exclude=tools)
        return taught(policy=policy, **options)

    def mixed(self, router):
        for number in range(30):
            followers = ["unknown", "unknown", "maps"]
            router.observe(run(number, "Rain?", "weather", followers[number % 3]))
        return router

    def test_the_next_best_has_the_probability_it_had(self):
        policy = NextToolPolicy.fixed(0.01, exclude=("unknown",))
        all_tools = self.mixed(NextToolRouter(policy=AT_ONCE)).predict_next(["weather"], GOAL)
        first, second = all_tools.candidates[:2]
        assert (first.tool, second.tool) == ("unknown", "maps")
        answer = self.mixed(NextToolRouter(policy=policy)).predict_next(["weather"], GOAL)
        assert decided(answer) == ("maps", "context", None)
        assert answer.candidates == all_tools.candidates[1:]
        assert answer.confidence == second.probability

    def test_a_sure_prediction_of_it_is_not_acted_upon(self):
        answer = self.excluding("maps").predict_next(["weather"], GOAL)
        assert (answer.source, answer.unsure) in {("none", "threshold"), ("none", "unknown")}
        assert answer.tool != "maps" and answer.confidence < 0.4

    def test_nobody_can_choose_it(self):
        model = ScriptedChatModel([{"tool": "maps"}])
        router = self.excluding("maps", model=model)
        answer = router.predict_next(["weather"], GOAL)
        assert answer.hallucinated == ("maps",)
        task = model.calls[0].task
        assert "maps" not in task.allowed | {tool.id for tool in task.tools}
        assert router.tools == ("weather", "sms")
        assert self.excluding("maps", tools=["maps", "sms"]).tools == ("sms",)

    def test_it_is_learned_all_the_same(self):
        plain, router = taught(), self.excluding("maps")
        assert router.state()["predictor"]["usage"] == plain.state()["predictor"]["usage"]
        assert router.predict_next(["weather", "maps"], GOAL).tool == "sms"
        assert router.coverage < plain.coverage

    def test_nothing_is_left(self):
        with pytest.raises(InputError, match="exclude leaves none of the tools"):
            self.excluding("maps", tools=["maps"])


class TestLearning:
    def test_what_was_observed_is_predicted_at_once(self):
        router = NextToolRouter(policy=AT_ONCE)
        for number in range(10):
            router.observe(run(number, "Rain?", "weather", "sms"))
        before = router.predict_next(["weather"], GOAL).tool
        for number in range(10):
            router.observe(run(number, "Rain?", "weather", "mail"))
        assert (before, router.predict_next(["weather"], GOAL).tool) == ("sms", "mail")
        assert (router.n_trajectories, router.n_steps) == (20, 40)

    def test_a_failed_path_is_not_reinforced(self):
        router = taught(3)
        before = router.predict_next(["weather"], GOAL)
        hints = router.state()["hints"]
        for number in range(10):
            router.observe(run(number, "Rain?", "weather", "telex", success=False))
            router.observe(run(number, "Rain?", Step("fax", {"to": 3}, success=False)))
        after = router.predict_next(["weather"], GOAL)
        assert after.candidates == before.candidates
        assert router.state()["hints"] == hints
        assert "telex" not in router.tools and "fax" not in router.tools

    def test_an_ordered_mashup_is_a_trajectory_and_another_is_nothing(self):
        router = NextToolRouter(policy=AT_ONCE)
        for number in range(10):
            router.observe(Mashup(f"m{number}", "Rain?", ("weather", "sms"), ordered=True))
            router.observe(Mashup(f"n{number}", "Rain?", ("mail", "pay")))
        assert router.n_trajectories == 10
        assert router.predict_next(["weather"], GOAL).tool == "sms"
        assert set(router.tools) == {"weather", "sms"}

    def test_something_else_is_an_error(self):
        with pytest.raises(InputError, match="a Trajectory or a Mashup was expected, got 'rain'"):
            NextToolRouter().observe("rain")

    def test_the_threshold_falls_as_coverage_grows(self):
        router = NextToolRouter(policy=NextToolPolicy())
        first = router.threshold
        for number in range(150):
            router.observe(run(number, "Rain?", *["weather", "maps", "sms"] * 3))
        assert (first, round(router.threshold, 9)) == (0.9, 0.6)
        assert router.coverage > 0.85

    def test_coverage_is_that_of_the_last_500_steps_measured(self):
        router = NextToolRouter(FirstOrderPredictor())
        assert router.coverage == 0.0
        for number in range(160):  # every fourth step is measured: 480
            router.observe(run(number, "Rain?", *["weather", "maps", "sms"] * 4))
        assert router.coverage > 0.98
        for number in range(500):  # 500 more, and nothing is known after them
            router.observe_step(["weather"], f"new{number}")
            for place in range(3):
                router.observe_step([f"x{number}.{place}"], "weather")
        assert router.coverage < 0.1
        assert len(router.state()["predictable"]) == 500

    def test_a_step_that_is_called_like_a_role_is_learned_and_cannot_be_chosen(self):
        model = ScriptedChatModel([{"tool": "user"}])
        router = NextToolRouter(model=model, policy=ALWAYS_ASK)
        router.observe(run(1, "Rain?", "weather", "user"))
        assert router.tools == ("weather",)
        assert router.predict_next(["weather"], GOAL).hallucinated == ("user",)

    def test_hints_are_learned_on_the_way(self):
        router = NextToolRouter()
        steps = (Step("find", {"name": "Oslo"}), Step("weather", {"city": "Oslo"}))
        router.observe(run(1, "Rain?", *steps))
        (hint,) = router.hints("weather", [Step("find", {"name": "Rome"})])
        assert (hint.input, hint.value, hint.count, hint.of) == ("city", "Rome", 1, 1)

    @pytest.mark.parametrize("kind", [ContextPredictor, BackoffPredictor, FirstOrderPredictor])
    def test_the_state_goes_on_where_it_was(self, kind):
        router, again = NextToolRouter(kind()), NextToolRouter(kind())
        log = noisy(30)
        for trajectory in log[:20]:
            router.observe(trajectory)
        again.restore(router.state())
        for trajectory in log[20:]:
            router.observe(trajectory)
            again.observe(trajectory)
        for trajectory in noisy(5, seed=1):
            prefix = trajectory.steps[:3]
            expected = router.predict_next(prefix, Context(trajectory.goal))
            assert again.predict_next(prefix, Context(trajectory.goal)) == expected
        assert (again.coverage, again.tools) == (router.coverage, router.tools)

    def test_what_was_given_keeps_its_parameters(self):
        predictor = ContextPredictor(context_decay=0.5, decay=Decay(0.5, 10))
        router = NextToolRouter(predictor, hints=ParameterHints(size=7))
        router.restore(taught(20).state())
        state = router.state()
        assert (predictor.decay, predictor._memory.decay) == (Decay(0.5, 10), 0.5)
        assert len({tool for tool, *_ in state["hints"]["uses"]}) <= 7
        before = sum(state["predictor"]["usage"].values())
        for number in range(10):
            router.observe(run(number, "Rain?"))
        assert sum(router.state()["predictor"]["usage"].values()) == before / 2

    @pytest.mark.parametrize(
        "break_",
        [
            lambda s: s.pop("hints"),
            *(
                lambda s, wrong=wrong: s.update(predictable=wrong)
                for wrong in (7, None, [2], [1] * 501)
            ),
        ],
    )
    def test_a_broken_state_changes_nothing(self, break_):
        router, state = taught(), taught().state()
        break_(state)
        before = router.predict_next(["weather"], GOAL)
        with pytest.raises(InputError, match="broken"):
            router.restore(state)
        with pytest.raises(InputError, match="'first-order' predictor"):
            NextToolRouter(FirstOrderPredictor()).restore(taught().state())
        assert router.predict_next(["weather"], GOAL) == before


class TestThreads:
    def test_many_threads_lose_nothing(self):
        router, log = NextToolRouter(FirstOrderPredictor()), noisy(120)
        start = threading.Barrier(6)

        def work(part):
            start.wait()
            for trajectory in log[part::6]:
                router.observe(trajectory)
                router.predict_next(trajectory.steps[:2], Context(trajectory.goal))
                router.hints(trajectory.steps[0].tool, trajectory.steps)

        with ThreadPoolExecutor(6) as pool:
            for done in [pool.submit(work, part) for part in range(6)]:
                done.result()
        one_by_one = NextToolRouter(FirstOrderPredictor())
        for trajectory in log:
            one_by_one.observe(trajectory)
        assert (router.n_trajectories, router.n_steps) == (120, one_by_one.n_steps)
        assert counts(router) == counts(one_by_one)

    def test_no_lock_is_held_while_the_model_answers(self):
        def answer(request):
            worker = threading.Thread(target=router.observe, args=[run(99, "Rain?", "weather")])
            worker.start()
            worker.join(timeout=30)
            assert not worker.is_alive()
            return {"tool": "sms"}

        policy = ALWAYS_ASK
        router = taught(model=FunctionChatModel(answer), policy=policy)
        assert router.predict_next(["weather"]).tool == "sms"


def counts(router):
    rows = router.state()["predictor"]["counts"]
    return {tuple(suffix): followers for suffix, followers, _ in rows}
