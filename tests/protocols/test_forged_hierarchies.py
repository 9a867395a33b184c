"""Transcripts of category managers that were forged: `validate` refuses each, by its law."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnp_router.agents import ProposedApi
from cnp_router.exceptions import TranscriptError
from cnp_router.protocols import Transcript, validate
from cnp_router.protocols.messages import (
    Award,
    CallForProposals,
    Failure,
    InformResult,
    Proposal,
    Refusal,
    Rejection,
    Report,
    Request,
)

TEXT = "a map"
MAPPING, MAILING = "manager of Mapping", "manager of Mailing"


def call(number, sender, receiver, **fields):
    return CallForProposals(id=number, sender=sender, receiver=receiver, request=TEXT, **fields)


def bid(number, sender, receiver, to, *apis, **fields):
    proposed = tuple(ProposedApi(name, f"It is {name}.") for name in apis)
    return Proposal(
        id=number, sender=sender, receiver=receiver, in_reply_to=to, apis=proposed, **fields
    )


def award(number, sender, receiver, to, *apis, **fields):
    return Award(id=number, sender=sender, receiver=receiver, in_reply_to=to, apis=apis, **fields)


def no(number, sender, receiver, to):
    return Rejection(id=number, sender=sender, receiver=receiver, in_reply_to=to)


ROUND = (
    Request(id=1, sender="user", receiver="manager", text=TEXT),
    call(2, "manager", MAPPING, for_members=True),
    call(3, "manager", MAILING, for_members=True),
    call(4, MAPPING, "maps", in_reply_to=2),
    call(5, MAPPING, "places", in_reply_to=2),
    call(6, MAILING, "mail", in_reply_to=3),
    bid(7, "maps", MAPPING, 4, "maps"),
    bid(8, "places", MAPPING, 5, "places"),
    bid(9, "mail", MAILING, 6, "mail"),
    bid(10, MAPPING, "manager", 2, "maps", "places"),
    bid(11, MAILING, "manager", 3, "mail"),
    award(12, "manager", MAPPING, 10, "maps"),
    no(13, "manager", MAILING, 11),
    award(14, MAPPING, "maps", 7, "maps"),
    no(15, MAPPING, "places", 8),
    no(16, MAILING, "mail", 9),
    Report(id=17, sender="manager", receiver="user", in_reply_to=1, apis=("maps",)),
)


def transcript(*said, without=(), messages=ROUND, executed=False):
    """Return the round with other messages in the place of those of their ids.

    An id between two whole numbers puts one in; afterwards all count from 1 again.
    """
    by_id = {m.id: m for m in messages if m.id not in without} | {m.id: m for m in said}
    numbers = {old: new for new, old in enumerate(sorted(by_id), 1)}
    kept = []
    for old in sorted(by_id):
        m = by_id[old]
        changes = {"id": numbers[old]}
        if getattr(m, "in_reply_to", None) is not None:
            changes["in_reply_to"] = numbers.get(m.in_reply_to, 99)
        if getattr(m, "results", None):
            changes["results"] = tuple(numbers[each] for each in m.results)
        kept.append(replace(m, **changes))
    return Transcript(
        TEXT, "hierarchical", "broadcast", "tiny", tuple(kept), executed=executed
    )  # fmt: skip


def test_the_round_itself_holds():
    conclusion = validate(transcript())
    assert conclusion.recommendation == ("maps",)
    assert conclusion.recipients == ("maps", "places", "mail")
    assert conclusion.proposed == ("maps", "places", "mail")


FORGED = {
    "proposes what no member proposed": (
        [bid(10, MAPPING, "manager", 2, "maps", "globe")],
        "what no member proposed in time",
    ),
    "proposes what the member of another one proposed": (
        [bid(10, MAPPING, "manager", 2, "maps", "mail")],
        "what no member proposed in time",
    ),
    "proposes what came too late": (
        [bid(7, "maps", MAPPING, 4, "maps", late=True)],
        "what no member proposed in time",
    ),
    "proposes before its members have replied": (
        [bid(6.5, MAPPING, "manager", 2, "maps")],
        "its member has not replied",
    ),
    "proposes without having asked": (
        [bid(3.5, MAPPING, "manager", 2, "maps")],
        "what no member proposed in time",
    ),
    "calls the member of another one": (
        [call(6.5, MAILING, "places", in_reply_to=3)],
        "a member of another one",
    ),
    "calls the member of another one for something else": (
        [
            replace(call(3.5, "manager", MAILING, for_members=True), function="mail"),
            replace(call(6.5, MAILING, "places", in_reply_to=3.5), function="mail"),
        ],
        "a member of another one",
    ),
    "passes on another function": (
        [replace(call(4, MAPPING, "maps", in_reply_to=2), function="globe")],
        "passes on another request",
    ),
    "passes on another category": (
        [replace(call(4, MAPPING, "maps", in_reply_to=2), category="Globes")],
        "passes on another request",
    ),
    "passes on a call of another iteration": (
        [
            replace(call(2, "manager", MAPPING, for_members=True), reply_by=1.0),
            replace(call(11.5, MAPPING, "globe", in_reply_to=2), iteration=2),
        ],
        r"no call 2 waits|another wave",
    ),
    "passes on the call of another one": (
        [call(6, MAPPING, "mail", in_reply_to=3)],
        "another one was called",
    ),
    "passes on what it has replied to": (
        [call(11.5, MAPPING, "globe", in_reply_to=2)],
        "no call 2 waits to be passed on",
    ),
    "passes on a call that there is not": (
        [call(4, MAPPING, "maps", in_reply_to=98)],
        "no call 99 waits to be passed on",
    ),
    "announces by itself": ([call(4, MAPPING, "maps")], "the manager announces"),
    "was not called": (
        [call(6.5, "stranger", "globe", in_reply_to=2)],
        "another one was called",
    ),
    "was called for itself": (
        [call(3, "manager", MAILING)],
        "for its receiver alone",
    ),
    "is asked for itself too": (
        [replace(call(3.5, "manager", MAPPING), function="globe")],
        "both a category manager and a contractor",
    ),
    "is a member too": (
        [replace(call(6.5, MAILING, MAPPING, in_reply_to=3), reply_by=1.0)],
        "a second time|both a category manager",
    ),
    "makes a member a category manager": (
        [call(5, MAPPING, "places", in_reply_to=2, for_members=True)],
        "two levels",
    ),
    "calls the manager": (
        [call(6.5, MAILING, "manager", in_reply_to=3)],
        "goes to no contractor",
    ),
    "calls the user": ([call(6.5, MAILING, "user", in_reply_to=3)], "goes to no contractor"),
    "has a member reply to the manager": (
        [bid(7, "maps", "manager", 4, "maps")],
        "a reply goes to who called",
    ),
    "has a member reply to another one": (
        [bid(7, "maps", MAILING, 4, "maps")],
        "a reply goes to who called",
    ),
    "has the reply of a member that another one gives": (
        [bid(7, "places", MAPPING, 4, "places")],
        "another one was called",
    ),
    "has a member reply after it": (
        [
            replace(call(5, MAPPING, "places", in_reply_to=2), reply_by=1.0),
            bid(10, MAPPING, "manager", 2, "maps"),
            bid(11.5, "places", MAPPING, 5, "places"),
            no(15, MAPPING, "places", 11.5),
        ],
        "has replied already",
        [8],
    ),
    "awards what it was not awarded": (
        [award(15, MAPPING, "places", 8, "places")],
        "awards what it was not awarded itself",
    ),
    "awards before it was awarded": (
        [award(11.5, MAPPING, "maps", 7, "maps")],
        "awards what it was not awarded itself",
        [14],
    ),
    "awards nothing": ([no(14, MAPPING, "maps", 7)], "gave it to nobody"),
    "awards to two": (
        [
            bid(8, "places", MAPPING, 5, "places", "maps"),
            award(15, MAPPING, "places", 8, "maps"),
        ],
        "awards what it was not awarded itself",
    ),
    "awards what a member did not propose": (
        [award(15, MAPPING, "places", 8, "maps"), no(14, MAPPING, "maps", 7)],
        "awards what was not proposed",
    ),
    "awards for another one": (
        [award(14, MAILING, "maps", 7, "maps")],
        "proposed to another one",
    ),
    "awards to another one": ([award(14, MAPPING, "mail", 7, "maps")], "another one proposed"),
    "approves by itself": (
        [award(14, MAPPING, "maps", 7, "maps", approved=True)],
        "needs no approval",
    ),
    "is passed over by an award": (
        [award(12, "manager", "maps", 7, "maps"), no(11.5, "manager", MAPPING, 10)],
        "proposed to another one",
        [14],
    ),
    "is passed over by a rejection": ([no(15, "manager", "places", 8)], "proposed to another one"),
    "is passed over by an award of no proposal": (
        [award(12, "manager", "maps", 1, "maps")],
        "no proposal 1 waits",
    ),
    "decides on the manager's part": (
        [no(13, MAPPING, MAILING, 11)],
        "proposed to another one",
    ),
    "leaves a member without a decision": ([], "proposal 8 has no decision", [15]),
    "leaves its own call without a reply": ([], "call 3 has no reply", [11, 13]),
    "reports by itself": (
        [Report(id=17, sender=MAPPING, receiver="user", in_reply_to=1, apis=("maps",))],
        "the manager reports",
    ),
    "is called once more after a decision": (
        [
            call(12.5, "manager", "globe"),
            Refusal(id=12.6, sender="globe", receiver="manager", in_reply_to=12.5),
        ],
        "after a decision",
    ),
}


@pytest.mark.parametrize("way", FORGED)
def test_a_category_manager_that(way):
    said, law, *without = FORGED[way]
    with pytest.raises(TranscriptError, match=law):
        validate(transcript(*said, without=without[0] if without else ()))


def done(number, sender, to, api, receiver="manager"):
    return InformResult(
        id=number, sender=sender, receiver=receiver, in_reply_to=to, api=api, text="ok",
        digest="0" * 64, attempts=1, seconds=0.1, n_bytes=2)  # fmt: skip


EXECUTED = (
    *ROUND[:-1],
    done(17, MAPPING, 12, "maps"),
    Report(id=18, sender="manager", receiver="user", in_reply_to=1, apis=("maps",), results=(17,)),
)
FAILED = Failure(
    id=17, sender=MAPPING, receiver="manager", in_reply_to=12, reason="tool", api="maps",
    attempts=1, was_done="no")  # fmt: skip
FORGED_ACTS = {
    "has a member inform the manager": (
        [done(17, "maps", 12, "maps")],
        "another one has the award",
    ),
    "has a member inform it": (
        [done(17, "maps", 14, "maps", receiver=MAPPING)],
        "no award 14 is open",
    ),
    "informs of what it awarded": ([done(17, MAPPING, 14, "maps")], "no award 14 is open"),
    "awards once it is acted on": (
        [award(17.5, MAPPING, "maps", 7, "maps")],
        "proposal 7 has no decision",
        [14],
    ),
    "gives it to nobody before it is acted on": ([no(14, MAPPING, "maps", 7)], "gave it to nobody"),
    "is passed over when it failed": (
        [FAILED, award(17.5, "manager", "places", 8, "places", instead_of=12)],
        "no proposal 8 in time",
    ),
    "awards again by itself": (
        [FAILED, award(17.5, MAPPING, "places", 8, "places", instead_of=12)],
        "the manager decides",
    ),
}


def test_the_executed_round_itself_holds():
    assert validate(transcript(messages=EXECUTED, executed=True)).recommendation == ("maps",)


@pytest.mark.parametrize("way", FORGED_ACTS)
def test_a_category_manager_that_acts_and(way):
    said, law, *without = FORGED_ACTS[way]
    forged = transcript(
        *said, without=without[0] if without else (), messages=EXECUTED, executed=True
    )
    with pytest.raises(TranscriptError, match=law):
        validate(forged)
