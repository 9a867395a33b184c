"""Evidence: what it is made of, where prompts show it, and what the offline model makes of it."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest
from hostile import HOSTILE, as_sent

from cnp_router.agents import (
    ApiEvidence,
    InterpretRequest,
    MatchFunction,
    ProposedApi,
    SelectApis,
    ServeFunction,
    ask,
    evidence_of,
    offline_model,
)
from cnp_router.catalog import Api, Catalog
from cnp_router.routing import Reason, Recipient, Routing

MAPS = Api("maps", "Maps", "Shows places.", ("Mapping",), {"q": "string"})
SMS = Api("sms", "SMS", "Sends texts.", ("Messaging",))
OFFLINE = offline_model(Catalog([MAPS, SMS]))

KNOWN = (ApiEvidence("maps", 0.4, "the request names it"), ApiEvidence("sms", 0.02))
PROPOSED = (ProposedApi("maps", "It shows places."), ProposedApi("sms", "It sends."))
TASKS = [
    MatchFunction((MAPS, SMS), "show places", "Mapping"),
    InterpretRequest((MAPS, SMS), "places"),
    ServeFunction((MAPS, SMS), "show places"),
    SelectApis("places", (), PROPOSED),
]


def prompt(task):
    """Return the system message of a task, and what its information says of each API."""
    system, user = (message.content for message in task.chat_request().messages)
    data = json.loads(user.split("\n", 1)[1])
    return system, {each["id"]: each for each in data.get("proposals") or data["specifications"]}


def routing_of(*recipients):
    return Routing("r", recipients, ("maps",), 0.8, "learned", 40, 0.6, "none")


def answer(task):
    return asyncio.run(ask(OFFLINE, task)).answer


class TestOfARouting:
    def test_it_has_the_first_reason_of_each_recipient(self):
        reasons = (Reason("name", "the request names it"), Reason("history", "used before"))
        found = evidence_of(routing_of(Recipient("maps", 0.123456, reasons), Recipient("sms", 0.0)))
        assert found == {
            "maps": ApiEvidence("maps", 0.123, "the request names it"),
            "sms": ApiEvidence("sms", 0.0, ""),
        }

    def test_a_long_reason_is_cut_and_any_text_can_be_sent(self):
        reasons = (Reason("history", "used by “\ud800" + "x" * 500),)
        [found] = evidence_of(routing_of(Recipient("maps", 1.0, reasons))).values()
        assert len(found.reason) == 120
        assert found.reason.startswith("used by “?x")
        assert found.reason.endswith("x…")


class TestPrompts:
    @pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
    def test_it_stands_beside_its_api(self, task):
        plain_system, plain = prompt(task)
        system, shown = prompt(dataclasses.replace(task, evidence=KNOWN))
        added = {name: each.pop("evidence") for name, each in shown.items()}
        assert shown == plain
        assert added == {
            "maps": {"probability": 0.4, "reason": "the request names it"},
            "sms": {"probability": 0.02},
        }
        before, after = plain_system.split("\n# ")[:2], system.split("\n# ")[:2]
        assert after[0] == before[0]
        assert after[1].strip() == f"{before[1].strip()} {task.on_evidence}"
        assert system.replace(f" {task.on_evidence}", "") == plain_system

    @pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
    @pytest.mark.parametrize("text", HOSTILE)
    def test_a_reason_stays_data(self, task, text):
        # A reason may quote a past request, which somebody wrote.
        found = evidence_of(routing_of(Recipient("maps", 0.4, (Reason("history", text),))))
        _, shown = prompt(dataclasses.replace(task, evidence=tuple(found.values())))
        assert shown["maps"]["evidence"] == {"probability": 0.4, "reason": as_sent(text)}
        assert "evidence" not in shown["sms"]

    def test_that_of_another_api_is_not_shown(self):
        other = (ApiEvidence("mail", 0.9, "the request names it"),)
        for task in TASKS:
            assert all("evidence" not in each for each in prompt(task)[1].values())
            shown = dataclasses.replace(task, evidence=other).chat_request().messages[1].content
            assert shown == task.chat_request().messages[1].content


class TestOffline:
    @pytest.mark.parametrize("task", TASKS[:3], ids=lambda task: type(task).__name__)
    def test_a_contractor_bids_on_evidence_too(self, task):
        assert [each.api for each in answer(task).apis] == ["maps"]  # by its text
        likely = answer(dataclasses.replace(task, evidence=KNOWN)).apis
        assert [each.api for each in likely] == ["maps", "sms"]
        little = dataclasses.replace(task, evidence=(ApiEvidence("sms", 0.019, "rain"),))
        assert [each.api for each in answer(little).apis] == ["maps"]

    def test_a_contractor_does_not_repeat_it(self):
        evidence = (ApiEvidence("sms", 0.731, "used by a similar past request"),)
        [_, sms] = answer(dataclasses.replace(TASKS[1], evidence=evidence)).apis
        assert sms.grounds == "SMS may serve that."

    def test_the_manager_selects_by_evidence_alone(self):
        task = SelectApis("places", (), PROPOSED)
        assert answer(task).apis == ("maps",)
        for grounds in ("It shows places.", "probability 0.99", ""):
            proposed = (ProposedApi("maps", grounds), PROPOSED[1])
            likely = (ApiEvidence("maps", 0.1), ApiEvidence("sms", 0.9))
            assert answer(SelectApis("places", (), proposed, (), likely)).apis == ("sms",)
            both = (ApiEvidence("maps", 0.8), ApiEvidence("sms", 0.9))
            assert answer(SelectApis("places", (), proposed, (), both)).apis == ("sms", "maps")

    def test_the_manager_selects_nothing_without_evidence_where_others_have_some(self):
        task = SelectApis("places", (), PROPOSED, (), (ApiEvidence("sms", 0.1),))
        assert answer(task).apis == ("sms",)

    def test_evidence_of_what_was_not_proposed_is_of_no_use(self):
        task = SelectApis("places", (), PROPOSED[1:], (), (ApiEvidence("maps", 0.9),))
        assert answer(task).hallucinated == ()
