"""ReAct: one agent that is told everything; the engine keeps the same rules."""

from __future__ import annotations

import asyncio
import json

import pytest
from desk import DONE, Desk, call, executor_of, pin

from cnp_router.exceptions import InputError
from cnp_router.planning import ReAct
from cnp_router.testing import ScriptedChatModel


def run(acts, desk=None, *, request="Pin two notes.", workspace=True, **how):
    desk = Desk() if desk is None else desk
    model = ScriptedChatModel(acts)
    given = {"workspace": desk if workspace else None, "profile": "Likes tea."}

    async def main():
        execute = executor_of(desk, model)
        async with execute.sources:
            return await ReAct(execute, **how).run(request, **given)

    return asyncio.run(main()), desk, model


def shown(request):
    return json.loads(request.messages[1].content.partition("\n")[2])


def test_each_prompt_has_request_profile_and_history():
    done, _, model = run([call("find", query="tea"), pin("tea", "1"), pin("milk", "2")])
    assert done.is_done
    assert done.problem == ""
    for each in map(shown, model.calls):
        assert each["request"] == "Pin two notes."
        assert each["profile"] == "Likes tea."
        assert each["hints"] == ["Pin short notes first."]
    assert [len(shown(each).get("acts", ())) for each in model.calls] == [0, 1, 2]
    assert done.tokens_by_role.keys() == {"single-agent"}
    assert done.execution.n_calls == 3


def test_the_history_is_cut_by_tokens():
    acts = [call("find", query=f"{'x' * 400} {n}") for n in range(6)]
    _, _, model = run(acts, max_turns=6, history_tokens=300)
    assert [len(shown(each).get("acts", ())) for each in model.calls] == [0, 1, 1, 1, 1, 1]
    assert shown(model.calls[-1])["earlier acts that are not shown"] == 4


def test_the_rules_are_kept():
    acts = [
        pin("tea", "1"),
        pin("milk", "1"),  # taken
        call("find", query="tea"),
        call("find", query="tea"),  # again
        DONE,  # early
        call("pni"),  # no such tool
        pin("milk", "2"),
        pin("rice", "3"),  # too late: all is met
    ]
    done, desk, _ = run(acts)
    assert done.is_done
    assert done.counts == {"called": 3, "refused": 1, "repeated": 1, "early": 1, "unknown": 1}
    assert desk.pinned == {"1": "tea", "2": "milk"}
    assert len(desk.seen) == 3


def test_it_ends_after_so_many_turns_and_says_what_is_missing():
    done, *_ = run([call("find", query=str(n)) for n in range(3)], max_turns=3)
    assert not done.is_done
    assert "not done after 3 turns: 2 more notes are needed" in done.problem


def test_without_a_workspace_it_may_say_that_it_is_done_after_a_call():
    done, *_ = run([DONE, call("find", query="tea"), DONE], workspace=False)
    assert done.is_done
    assert done.counts == {"early": 1, "called": 1, "finished": 1}


def test_bad_arguments():
    with pytest.raises(InputError, match="blank"):
        run([], request=" ")
    with pytest.raises(InputError, match="max_turns"):
        run([], max_turns=0)
