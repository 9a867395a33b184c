"""The benchmark of coordination: its servers, its tasks, how it counts, and one small run."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.coordination import measure
from benchmarks.coordination_tables import row_of
from benchmarks.office_runs import MODES, Mode, count_redundant, plan_of
from benchmarks.office_servers import ABILITIES, Office, fact, make_desks
from benchmarks.office_tasks import KINDS, make_sessions


def call(server="north", ability="place", inputs=None, began=0.0, end="done"):
    inputs = inputs or {"city": "Nara"}
    return {"server": server, "ability": ability, "inputs": inputs, "began": began, "end": end}


class TestServers:
    @pytest.mark.parametrize(("n", "each"), [(10, 3), (100, 30), (6, 2)])
    def test_several_have_each_ability(self, n, each):
        desks = make_desks(7, n)
        assert len({desk.name for desk in desks}) == n
        counts = Counter(ability for desk in desks for ability, _ in desk.tools)
        assert counts == dict.fromkeys(ABILITIES, each)

    def test_the_seed_decides(self):
        assert make_desks(1) == make_desks(1)
        assert make_desks(1) != make_desks(2)
        assert sum(desk.is_process for desk in make_desks(1)) == 2
        # The same qualities are dealt anew.
        assert sorted(d.failing for d in make_desks(1)) == sorted(d.failing for d in make_desks(2))

    def test_a_server_notes_what_it_got_and_how_that_ended(self):
        notes = []
        (desk,) = [d for d in make_desks(0) if d.name == "bridge"]
        office = Office(desk, notes.append)
        (tool,) = [name for name, ability in office.tools.items() if ability == "place"]
        found = asyncio.run(office.call(tool, {"city": "Nara"}))
        assert found == fact("place", {"city": "Nara"})
        assert (notes[0]["ability"], notes[0]["end"]) == ("place", "done")

    def test_who_fails_is_decided_by_the_call_and_how_often_it_was_made(self):
        (desk,) = [d for d in make_desks(0) if d.failing == 0.6]
        ability = desk.tools[0][0]
        hows = []
        for _ in range(2):
            office = Office(desk, lambda noted: None)
            hows.append([office._how(ability, {"n": n}) for n in range(40)])
            hows[-1] += [office._how(ability, {"n": 1}) for _ in range(40)]
        assert hows[0] == hows[1]
        assert set(hows[0]) == {"work", "hang", "fail"}

    def test_nothing_is_known_of_numbers_that_nobody_gave_out(self):
        with pytest.raises(LookupError, match="nothing is known"):
            fact("parcel", {"tracking_number": "Aiko"})


class TestTasks:
    def test_each_session_has_each_kind_once_and_recalls_what_it_found(self):
        for session in make_sessions(3, 6):
            assert sorted(task.kind for task in session) == sorted(KINDS)
            (recalled,) = [task for task in session if task.kind == "recalled"]
            earlier = session[: session.index(recalled)]
            done = [step for task in earlier for step in task.steps]
            givers = [g for step in recalled.steps for g, _ in step.needs.values()]
            outside = [each for each in givers if each not in recalled.steps]
            assert outside
            assert all(any(each.is_same(step) for step in done) for each in outside)
            assert not any(each.is_same(step) for each in outside for step in recalled.steps)

    def test_sessions_share_nobody_and_nothing(self):
        sessions = make_sessions(3, 12)
        said = [
            {
                step.inputs[name]
                for task in session
                for step in task.steps
                for name in ("name", "city", "order_number")
                if name in step.inputs
            }
            for session in sessions
        ]
        assert sum(map(len, said)) == len(set().union(*said))

    def test_what_is_needed_is_what_another_step_gives(self):
        for task in (task for session in make_sessions(4, 6) for task in session):
            for step in task.steps:
                for name, (giver, key) in step.needs.items():
                    assert step.inputs[name] == giver.answer[key]
                    is_said = str(step.inputs[name]) in step.text
                    assert not is_said
            places = {id(step): place for place, step in enumerate(task.steps)}
            pairs = [
                (places[id(giver)], places[id(step)])
                for step in task.steps
                for giver, _ in step.needs.values()
                if id(giver) in places
            ]
            in_order = all(giver < step for giver, step in pairs)
            assert in_order == (task.kind != "reversed")

    def test_only_named_needs_are_in_the_plan(self):
        for task in (task for session in make_sessions(5, 3) for task in session):
            plan = plan_of(task)
            assert [job.task for job in plan.jobs] == [step.text for step in task.steps]
            is_named = any(job.inputs or job.after for job in plan.jobs)
            assert is_named == (task.kind == "named")
            assert all(job.api is None for job in plan.jobs)


@pytest.mark.parametrize(
    ("calls", "redundant"),
    [
        ([call(), call(began=1)], 1),
        ([call(), call("south", began=1)], 1),  # an equivalent API
        ([call(), call(began=1, inputs={"city": "Oslo"})], 0),
        ([call(end="failed"), call(began=1)], 0),
        ([call(end="given up"), call(began=1), call(began=2)], 1),
        ([call(began=1), call(began=0, end="failed")], 0),
        ([call(ability="place"), call(ability="hotel", began=1)], 0),
    ],
)
def test_a_call_counts_against_one_that_succeeded(calls, redundant):
    assert count_redundant(calls) == redundant


def test_a_small_run_without_and_with_all_parts():
    modes = (Mode(), Mode(True, True, True))
    none, whole = asyncio.run(
        measure(0, n_servers=6, n_before=0, n_sessions=1, modes=modes, processes=0)
    )
    for found in (none, whole):
        assert found["tasks"] == 5
        assert 0 <= found["completion"] <= 1
        assert 0 <= found["redundant"] <= 1
        assert found["calls"] > 0
    assert not any(none["overhead"].values())
    assert all(whole["overhead"].values())
    assert none["by_kind"]["recalled"] == 0  # nothing could give the value
    assert set(row_of(modes[1], whole)) == {
        "context",
        "negotiation",
        "decomposition",
        "completion",
        "redundant",
        "seconds",
        "messages",
    }


def test_all_combinations_are_measured():
    assert len(set(MODES)) == 8
