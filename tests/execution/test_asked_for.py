"""What is called of what the router alone chose: what words ask for."""

from __future__ import annotations

import asyncio

import pytest

from cnp_router import ContractNet, Executor, Filler, allow_writes, fit_router, offline_model
from cnp_router.agents import FillInputs
from cnp_router.catalog import Api, Catalog
from cnp_router.execution.asked_for import asked_for, left_open, routed_parts
from cnp_router.protocols.acting import AwardedApi
from cnp_router.sources import FunctionSource, Sources
from cnp_router.testing import ScriptedChatModel

TOOLS = {
    api.id: api
    for api in (
        Api("list", "list", "Lists the appointments of a day.", effects="reads"),
        Api("cancel", "cancel", "Cancels an appointment by its number.", effects="writes"),
        Api("mail", "mail", "Sends a message by e-mail.", effects="writes"),
        Api("sms", "sms", "Sends a message to a phone.", effects="unknown"),
    )
}


def acting(request, *names):
    awards = [AwardedApi(n, name, name, request) for n, name in enumerate(names)]
    kept, why = asked_for(request, awards, TOOLS.__getitem__)
    assert len(kept) + len(why) == len(names)
    return [each.api for each in kept]


@pytest.mark.parametrize(
    ("request_", "awarded", "called"),
    [
        ("which appointments are there today", ["list", "cancel"], ["list"]),
        ("appointment 5", ["cancel", "list"], ["list"]),
        ("cancel appointment 5, and list all of the day", ["cancel", "list"], ["cancel", "list"]),
        ("send Ann a message", ["mail", "sms"], ["mail"]),
        ("send Ann a message to her phone and by e-mail", ["mail", "sms"], ["mail", "sms"]),
        ("appointment 5", ["cancel"], ["cancel"]),
        ("Termin 5 absagen", ["cancel", "mail", "list"], ["cancel", "mail", "list"]),
        ('translate "cancel appointment 5" into German', ["cancel"], []),
        ('send Ann a message: "cancel it"', ["mail", "cancel"], ["mail"]),
        ('"cancel appointment 5"', ["cancel"], ["cancel"]),
    ],
)
def test_what_may_write_needs_a_word_of_its_own(request_, awarded, called):
    assert acting(request_, *awarded) == called


def test_parts_that_nothing_is_called_for():
    catalog = Catalog(TOOLS.values())
    router = fit_router(catalog)
    routed = routed_parts("Cancel appointment 5, and send Ann an e-mail", router)
    assert routed == {"Cancel appointment 5": "cancel", "send Ann an e-mail": "mail"}
    assert list(left_open(routed, ["cancel"], catalog)) == [
        "'send Ann an e-mail' asks for mail, which is not called"
    ]
    assert list(left_open(routed, ["cancel", "mail"], catalog)) == []
    assert routed_parts("Cancel appointment 5", router) == {}
    assert "zzz qqq" not in routed_parts("Cancel appointment 5, and zzz qqq", router)


def test_what_a_part_is_routed_to_is_asked_for():
    request = "List the appointments, then appointment by number"
    awards = [AwardedApi(n, name, name, request) for n, name in enumerate(["list", "sms"])]
    assert [a.api for a in asked_for(request, awards, TOOLS.__getitem__)[0]] == ["list"]
    routed = {"then appointment by number": "sms"}
    assert asked_for(request, awards, TOOLS.__getitem__, routed) == (awards, [])


DID: list[tuple[str, int]] = []


def list_appointments(day: str) -> list[dict[str, int]]:
    """List the appointments of a day with time, patient and vet."""
    return [{"id": 5}]


def cancel_appointment(appointment_id: int) -> str:
    """Cancel an appointment by its number."""
    DID.append(("cancel", appointment_id))
    return "ok"


EFFECTS = {"list_appointments": "reads", "cancel_appointment": "writes"}


def execute(request, filler=None, protocol="learned", model=None, **how):
    async def main():
        DID.clear()
        source = FunctionSource("c", [list_appointments, cancel_appointment], effects=EFFECTS)
        async with Sources([source]) as sources:
            catalog = await sources.catalog()
            known = offline_model(catalog) if model is None else model
            net = ContractNet(catalog, known, router=fit_router(catalog))
            executor = Executor(net, sources, approve=allow_writes, filler=filler)
            return await executor.execute(request, protocol=protocol, **how)

    return asyncio.run(main())


def test_a_question_that_a_list_answers_cancels_nothing():
    done = execute("what appointments do we have on 2026-12-03")
    assert done.is_done
    assert DID == []
    assert done.apis == ("c__list_appointments",)
    assert done.to_dict()["passed_over"] == list(done.passed_over)
    assert [each.partition(":")[0] for each in done.passed_over] == ["c__cancel_appointment"]


def test_where_nothing_is_left_nothing_is_called():
    done = execute('translate the letter "please cancel appointment 5"')
    assert (done.is_done, done.problem, DID) == (False, "nothing was called", [])


@pytest.mark.parametrize(
    "request_",
    [
        "Do not cancel appointment 5",
        "Did we cancel appointment 5?",
        "Cancel appointment 5 unless it is paid",
        "Termin 5 nicht absagen: cancel appointment 6",
    ],
)
def test_a_model_that_fills_inputs_only_did_not_choose(request_):
    model = ScriptedChatModel([{"inputs": {"appointment_id": 5}, "missing": []}] * 3)
    done = execute(request_, Filler(model))
    assert not done.is_done
    assert DID == []
    assert not [call for call in model.calls if isinstance(call.task, FillInputs)]
    model = ScriptedChatModel([{"inputs": {"appointment_id": 5}, "missing": []}])
    assert execute("Please cancel the appointment called five", Filler(model)).is_done
    assert DID == [("cancel", 5)]


def test_an_agent_that_chose_is_followed():
    inputs = ScriptedChatModel([{"inputs": {"appointment_id": 5}, "missing": []}])
    apis = ["c__cancel_appointment"]
    answer = {"functions": ["cancel"], "categories": [], "candidates": apis, "apis": apis}
    chose = ScriptedChatModel([answer])
    request = "What is there on 2026-12-03? If nothing is urgent, cancel the first one"
    done = execute(request, Filler(inputs), "single-agent", chose)
    assert done.is_done
    assert (DID, done.passed_over) == ([("cancel", 5)], ())


def test_an_execution_that_is_resumed_knows_who_chose(tmp_path):
    file = tmp_path / "state.jsonl"
    request = "List the appointments of 2026-12-03, and did we cancel appointment 5?"
    first = execute(request, journal=file)
    filled = [{"inputs": {"appointment_id": 5}, "missing": []}] * 3
    again = execute(request, Filler(ScriptedChatModel(filled)), journal=file)
    assert not first.is_done
    assert not again.is_done
    assert DID == []
    assert again.passed_over == first.passed_over
