"""Plans that have worked: when they are offered, what of them is changed, whose they are."""

from __future__ import annotations

import asyncio
import json

import pytest
from desk import DONE, Desk, executor_of, job, pin, plan

from cnp_router.exceptions import DataFileError, InputError
from cnp_router.execution import ExecutionSettings, Job, Plan
from cnp_router.forgetting import Forgetting
from cnp_router.planning import PlanAndExecute, Planner, ProvenPlans
from cnp_router.testing import ScriptedChatModel

HOTEL = Plan(
    "Find 3 hotels near Gion and mail the list to aiko@example.org.",
    (
        Job("find", "Look near Gion.", "maps__find", {"near": "Gion", "most": 3}),
        Job(
            "mail",
            api="mail__send",
            inputs={
                "to": "aiko@example.org",
                "body": {"$from": "find", "path": "/list"},
                "subject": {"$text": "Gion: {find#/count}"},
            },
            after=("find",),
        ),
    ),
    "Nothing outside Gion.",
)


@pytest.fixture
def proven(tmp_path):
    return ProvenPlans(tmp_path / "plans.jsonl")


@pytest.fixture
def kept(proven):
    proven.keep(HOTEL)
    return proven


@pytest.mark.parametrize(
    "request_",
    [
        HOTEL.request,
        "Please find 3 hotels near Gion, and mail the list to aiko@example.org",
        "find 3 hotels near Gion and mail the list to aiko@example.org",
    ],
)
def test_the_same_in_other_words(kept, request_):
    offer = kept.near(request_)
    assert offer.differs == ()
    assert offer.plan.request == request_
    assert offer.plan.jobs == HOTEL.jobs
    assert offer.before == HOTEL.request
    assert offer.likeness == 1


def test_other_values_stand_in_the_plan_and_are_listed(kept):
    offer = kept.near("Find 5 hotels near Shibuya and mail the list to ben@example.org.")
    assert set(offer.differs) == {
        "'Gion' is 'Shibuya' now",
        "'3' is '5' now",
        "'aiko@example.org' is 'ben@example.org' now",
    }
    find, mail = offer.plan.jobs
    assert find.task == "Look near Shibuya."
    assert find.inputs == {"near": "Shibuya", "most": 5}
    assert mail.inputs == {
        "to": "ben@example.org",
        "body": {"$from": "find", "path": "/list"},
        "subject": {"$text": "Shibuya: {find#/count}"},
    }
    assert offer.plan.guideline == "Nothing outside Shibuya."


def test_values_may_change_places(proven):
    inputs = {"from": "Osaka", "to": "Naha"}
    proven.keep(Plan("Fly from Osaka to Naha.", (Job("fly", api="air__fly", inputs=inputs),)))
    # Naha is a value of both, and has another place.
    assert proven.near("Fly from Naha to Kobe.") is None
    assert proven.near("Fly from Naha to Osaka.") is None
    assert proven.near("Fly from Kobe to Naha.").plan.jobs[0].inputs == {**inputs, "from": "Kobe"}


LONG = "Find 3 hotels near Gion before 2026-12-03 and mail the whole list of them to the guests"


@pytest.mark.parametrize(
    "now",
    [
        LONG.replace("before", "after"),
        LONG.replace("Find 3", "Find all 3"),
        LONG.replace("Find 3", "Find no 3"),
        f"Do not {LONG.lower()}".replace("gion", "Gion"),
        f"Did we {LONG.lower()}?".replace("gion", "Gion"),
    ],
)
def test_a_small_word_that_turns_it_around(proven, now):
    proven.keep(Plan(LONG, (Job("find", "Look near Gion.", inputs={"near": "Gion"}),)))
    assert proven.near(LONG) is not None
    assert proven.near(now) is None


def test_a_question_on_a_condition_is_no_order_on_one(proven):
    order = f"{LONG} unless it rains"
    proven.keep(Plan(order, (Job("find", "Look near Gion.", inputs={"near": "Gion"}),)))
    assert proven.near(order) is not None
    assert proven.near(f"{order}?") is None


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ("Find 3 hotels and mail the list to aiko@example.org.", "a value is missing"),
        ("Find 3 hotels near Gion and Ueno and mail the list to aiko@example.org.", "one more"),
        ("Cancel 3 hotels near Gion and mail the list to aiko@example.org.", "another verb"),
        ("Find 3 hotels near Gion, mail the list to aiko@example.org and pay.", "it wants more"),
        ("Where is Gion?", "something else"),
    ],
)
def test_what_is_not_offered(kept, request_, why):
    assert kept.near(request_) is None, why


def test_a_value_that_does_not_stand_in_the_plan_cannot_be_changed(proven):
    proven.keep(Plan("Warn me at 09:00.", (Job("warn", api="sms__send"),)))
    assert proven.near("Warn me at 09:00!").differs == ()
    assert proven.near("Warn me at 10:00.") is None


def test_plans_of_others_and_of_tools_that_are_gone_are_not_looked_at(kept):
    kept.keep(HOTEL, user="ann")
    assert kept.near(HOTEL.request, user="ben") is None
    assert kept.near(HOTEL.request, user="ann")
    assert kept.near(HOTEL.request, known={"maps__find"}) is None
    assert kept.near(HOTEL.request, known={"maps__find", "mail__send"})


def test_another_profile_is_said_and_no_profile_is_in_the_file(proven):
    proven.keep(HOTEL, profile="Allergic to Latin.")
    assert "Latin" not in proven.path.read_text()
    assert proven.near(HOTEL.request, profile="Allergic to Latin.").differs == ()
    assert proven.near(HOTEL.request).differs == ("the profile was another one",)


def test_the_last_one_counts_and_only_so_many_are_kept(tmp_path):
    proven = ProvenPlans(tmp_path / "plans.jsonl", most=2)
    for number, request in enumerate(["Map bars.", "Map cafes.", "Map bars.", "Map shops."]):
        proven.keep(Plan(request, (Job(f"job-{number}", api="maps__find"),)))
    assert len(proven) == 2
    assert proven.near("Map bars.").plan.jobs[0].id == "job-2"
    assert proven.near("Map cafes.") is None


def test_only_the_owner_may_read_the_file(kept):
    assert kept.path.stat().st_mode & 0o777 == 0o600


def test_forgetting(kept):
    kept.keep(HOTEL, user="ann")
    kept.keep(Plan("Map bars.", (Job("map", api="maps__find"),)), user="ben")
    assert len(kept) == 3
    ann = Forgetting(users=["ann"])
    assert kept.count(ann) == kept.forget(ann) == 1
    assert "ann" not in kept.path.read_text()
    assert kept.forget(Forgetting(apis=["mail__send"])) == 1
    assert kept.near("Map bars.", user="ben")
    assert kept.forget(Forgetting(users=["ben"])) == 1
    assert not kept.path.exists()
    assert kept.forget(Forgetting(users=["ben"])) == 0


def test_a_file_that_is_damaged_or_gone(tmp_path, proven):
    assert proven.near("Map bars.") is None
    proven.path.write_text('{"plan": {"request": "x", "jobs": [{"id": "a", "after": ["a"]}]}}\n')
    with pytest.raises(DataFileError, match="line 1"):
        proven.near("Map bars.")
    before = proven.path.read_bytes()
    with pytest.raises(DataFileError):
        proven.keep(HOTEL)
    assert proven.path.read_bytes() == before
    with pytest.raises(DataFileError, match="folder does not exist"):
        ProvenPlans(tmp_path / "no" / "plans.jsonl").keep(HOTEL)
    with pytest.raises(InputError, match="least"):
        ProvenPlans(proven.path, least=2)


class TestOffered:
    def run(self, proven, answer, *, plans=(), request="Pin a note.", **how):
        desk = Desk(n_notes=1)
        planner = ScriptedChatModel(list(plans))
        offered = []

        async def offer(found):
            offered.append(found)
            return answer

        async def main():
            execute = executor_of(desk, ScriptedChatModel([pin("tea", "1"), DONE]))
            method = PlanAndExecute(Planner(planner), execute, proven=proven, offer=offer, **how)
            async with execute.sources:
                return await method.run(request, workspace=desk, user="ann")

        return asyncio.run(main()), planner, offered

    def test_the_planner_is_paid_once(self, proven):
        first, planner, offered = self.run(proven, True, plans=[plan(job("a"))])
        assert first.is_done
        assert (len(planner.calls), offered) == (1, [])
        second, planner, offered = self.run(proven, True, request="please pin a note")
        assert second.is_done
        assert (len(planner.calls), len(offered)) == (0, 1)
        assert "planner" not in second.tokens_by_role
        assert second.plans[0].request == "please pin a note"

    def test_a_no_is_a_no(self, proven):
        proven.keep(Plan("Pin a note.", (Job("old", "Pin it."),)), user="ann")
        done, planner, offered = self.run(proven, False, plans=[plan(job("new"))])
        assert (len(planner.calls), len(offered)) == (1, 1)
        assert done.plans[0].ids == {"new"}

    def test_the_time_stands_still_while_somebody_thinks(self, proven):
        proven.keep(Plan("Pin a note.", (Job("old", "Pin it."),)))
        desk = Desk(n_notes=1)

        async def offer(_):
            await asyncio.sleep(1.2)
            return True

        async def main():
            settings = ExecutionSettings(wait=(0, 0), timeout=1.0)
            execute = executor_of(desk, ScriptedChatModel([pin("tea", "1")]), settings=settings)
            method = PlanAndExecute(None, execute, proven=proven, offer=offer)
            async with execute.sources:
                return await method.run("Pin a note.", workspace=desk)

        assert asyncio.run(main()).is_done

    def test_anything_else_is_an_error(self, proven):
        proven.keep(Plan("Pin a note.", (Job("old", "Pin it."),)), user="ann")
        with pytest.raises(InputError, match="the answer to an offered plan"):
            self.run(proven, None)

    def test_a_plan_that_failed_is_not_kept(self, proven):
        done, *_ = self.run(proven, True, plans=[plan(job("a"))], max_turns=1, revisions=0)
        assert done.is_done
        proven.forget(Forgetting(users=["ann"]))
        desk = Desk(n_notes=2)

        async def main():
            execute = executor_of(desk, ScriptedChatModel([DONE]))
            planner = Planner(ScriptedChatModel([plan(job("a"))]))
            method = PlanAndExecute(planner, execute, proven=proven, revisions=0, max_turns=1)
            async with execute.sources:
                return await method.run("Pin a note.", workspace=desk)

        assert not asyncio.run(main()).is_done
        assert len(proven) == 0

    def test_a_revised_plan_is_kept_as_it_was_at_the_end(self, proven):
        self.run(
            proven,
            True,
            plans=[plan(job("a", api="desk__pin", inputs={"note": "tea"})), plan(job("b"))],
        )
        (line,) = proven.path.read_text().splitlines()
        assert [each["id"] for each in json.loads(line)["plan"]["jobs"]] == ["b"]
