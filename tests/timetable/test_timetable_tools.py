from __future__ import annotations

import asyncio
import json

import pytest

from cnp_router.exceptions import InputError
from cnp_router.execution import Executor, allow_writes
from cnp_router.llm.tokens import estimate_tokens
from cnp_router.planning import ReAct
from cnp_router.protocols import ContractNet
from cnp_router.sources import Call, Sources
from cnp_router.testing import ScriptedChatModel
from cnp_router.timetable.board import Board
from cnp_router.timetable.course import load_courses
from cnp_router.timetable.form import Form
from cnp_router.timetable.timetable_tools import TimetableTools

FORM = Form(
    department="Economics and Business",
    year=2,
    min_credits=4,
    max_credits=8,
    first_period=False,
    gaps=True,
    free_day=False,
    interests="statistics, film",
)


@pytest.fixture
def board():
    return Board(load_courses(), form=FORM)


@pytest.fixture
def call(board):
    tools = TimetableTools(board)

    def call(name, **inputs):
        return asyncio.run(tools.call(Call(api=f"timetable__{name}", inputs=inputs)))

    return call


def ids(answer):
    return [each["id"] for each in answer.data["courses"]]


class TestTools:
    def test_what_they_are(self, board):
        apis = {api.name: api for api in asyncio.run(TimetableTools(board).apis())}
        assert list(apis) == ["search", "add", "finish"]
        effects = [api.effects for api in apis.values()]
        assert effects == ["reads", "writes", "writes"]
        search = apis["search"]
        assert "A course has to pass every filter" in search.description
        assert "a list of which any one will do" in search.description
        assert all("description" in each for each in search.parameters["properties"].values())
        assert list(search.parameters["properties"])[:5] == [
            *("query", "slot", "department", "field", "year"),
        ]
        assert apis["add"].parameters["required"] == ["course_id"]


class TestSearch:
    def test_what_is_shown_of_a_course(self, call):
        first = call("search", query="statistics for economics").data["courses"][0]
        assert list(first) == [
            *("id", "name", "slot", "form", "assessment", "pass_rate", "credits", "summary")
        ]
        assert first["id"] == "ST-104"
        assert set(first["summary"]) == {
            *("topic", "aims", "topics", "skills", "style", "prerequisites")
        }

    def test_the_answer_is_json(self, call):
        answer = call("search", slot="Friday")
        assert json.loads(answer.text) == answer.data

    def test_at_most_seven_are_shown_and_the_rest_is_counted(self, call):
        answer = call("search").data
        assert len(answer["courses"]) == 7
        assert answer["found"] == 7 + answer["more"] + sum(answer["left_out"].values())

    @pytest.mark.parametrize("query", ["", "statistics", "seminar on ethics", "no exam"])
    def test_an_answer_is_short_enough_to_be_shown_whole(self, call, query):
        assert estimate_tokens(call("search", query=query, all_courses=True).text) <= 1_000
        assert estimate_tokens(call("search", query=query).text) <= 1_000

    def test_without_words_what_suits_comes_first(self, call):
        assert ids(call("search"))[0] in ("ST-120", "ST-104", "ST-101", "FM-205")

    def test_what_cannot_be_added_is_left_out_and_counted(self, call):
        call("add", course_id="ST-104")
        answer = call("search", slot="Wed 2").data
        assert answer["courses"] == []
        assert answer["left_out"] == {"Wednesday 2 is taken": 6, "it is chosen already": 1}
        assert answer["note"] == "none of those that were found can be added now"

    def test_it_is_shown_when_asked_for(self, call):
        call("add", course_id="ST-104")
        answer = call("search", slot="Wed 2", all_courses=True).data
        assert len(answer["courses"]) == 7
        assert "left_out" not in answer

    def test_what_is_shown_can_be_added(self, call, board):
        for _ in range(20):
            shown = ids(call("search"))
            assert all(board.reason_against(each) is None for each in shown)
            if not shown:
                break
            call("add", course_id=shown[-1])
        assert board.unmet() == ()

    @pytest.mark.parametrize(
        ("inputs", "note"),
        [
            ({"query": "qwertz"}, "no course has to do with 'qwertz'"),
            (
                {"field": "Film", "slot": "Mon 2"},
                "no course on Monday 2 of field Film (there are 4 without the slot, "
                "6 without the field)",
            ),
            ({"field": "Filmm"}, "field 'Filmm' is unknown (did you mean 'Film'?)"),
            ({"year": 9}, "year must be a whole number from 1 to 6, got 9"),
        ],
    )
    def test_where_nothing_is_found_it_says_why(self, call, inputs, note):
        assert call("search", **inputs).data == {"found": 0, "courses": [], "note": note}

    def test_what_is_not_wanted_is_a_filter(self, call):
        answer = call("search", query="statistics for economics without exam").data
        assert answer["read_as"] == {"query": "statistics for economics", "without": ["exam"]}
        assert all("exam" not in each["assessment"] for each in answer["courses"])

    def test_filters_take_one_value_or_a_list(self, call):
        one = call("search", year=2, slot="Tue 3").data
        assert one == call("search", year=[2], slot=["Tuesday 3"]).data

    @pytest.mark.parametrize("inputs", [{"year": "two"}, {"slot": 3}, {"day": "Mon"}])
    def test_inputs_of_a_wrong_type_are_refused(self, call, inputs):
        assert call("search", **inputs).failure.kind == "inputs"


class TestAddAndFinish:
    def test_adding(self, call, board):
        assert call("add", course_id="ST-104").data == {
            "added": "ST-104",
            "slot": "Wed 2",
            "credits": 2.0,
        }
        assert [course.id for course in board.chosen] == ["ST-104"]

    def test_a_refusal_is_a_failure_with_the_reason(self, call):
        call("add", course_id="ST-104")
        failure = call("add", course_id="AR-230").failure
        assert failure.kind == "declined"
        assert failure.was_done == "no"
        assert failure.message == "Wednesday 2 is taken (by ST-104, Statistics for Economics)"

    def test_an_early_end_is_refused(self, call, board):
        failure = call("finish").failure
        assert failure.message == (
            "it is not finished: at least 4 credits (0 instead of at least 4); "
            "at least one course (0 instead of at least 1)"
        )
        assert not board.is_finished

    def test_the_end(self, call, board):
        call("add", course_id="ST-104")
        call("add", course_id="CS-110")
        done = call("finish").data
        assert done == {"finished": True, "courses": ["ST-104", "CS-110"], "credits": 5.0}
        assert board.is_finished
        assert call("add", course_id="ST-240").failure.message == "the timetable is finished"

    def test_calls_at_the_same_time_take_a_slot_once(self, board):
        tools = TimetableTools(board)
        wanted = ["ST-104", "PH-220", "PS-214", "EN-102"]

        async def all_at_once():
            calls = (Call(api="timetable__add", inputs={"course_id": each}) for each in wanted)
            return await asyncio.gather(*map(tools.call, calls))

        results = asyncio.run(all_at_once())
        assert sum(result.is_done for result in results) == 1
        assert len(board.chosen) == 1

    def test_another_tool_is_unknown(self, call):
        with pytest.raises(InputError):
            call("remove", course_id="ST-104")


class TestUnderAnEngine:
    def test_an_agent_that_errs_books_nothing_twice(self, board):
        def act(name, done=False, **inputs):
            tool = f"timetable__{name}" if name else ""
            return {"thought": "", "tool": tool, "inputs": inputs, "done": done}

        model = ScriptedChatModel(
            [
                act("add", course_id="ST-104"),
                act("add", course_id="PS-214"),  # the same slot
                act("add", course_id="ST-104"),  # once more
                act("add", course_id="ZZ-9"),  # no such course
                act("finish"),  # too early
                act("", done=True),  # the same without a tool
                act("add", course_id="CS-110"),
            ]
        )

        async def main():
            async with Sources([TimetableTools(board)]) as tools:
                net = ContractNet(await tools.catalog(), model)
                by = Executor(net, tools, approve=allow_writes)
                return await ReAct(by).run("A timetable.", apis=net.catalog, workspace=board)

        run = asyncio.run(main())
        assert [turn.kind for turn in run.turns] == [
            *("called", "refused", "repeated", "refused", "refused", "early", "called")
        ]
        assert run.is_done
        assert [course.id for course in board.chosen] == ["ST-104", "CS-110"]
        assert board.unmet() == ()
