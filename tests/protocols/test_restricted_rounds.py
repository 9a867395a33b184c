"""A request that may reach some APIs only reaches no others, whoever chooses."""

from __future__ import annotations

import logging

import pytest
from negotiation import (
    CATALOG,
    REQUEST,
    FakeActor,
    PlantedRouter,
    acting,
    award_all,
    hold,
    propose,
)

from cnp_router.agents import (
    ComposeAlone,
    InterpretRequest,
    MatchFunction,
    SelectApis,
    ServeFunction,
)
from cnp_router.catalog import Contractor
from cnp_router.exceptions import InputError
from cnp_router.execution.directed import Directed
from cnp_router.protocols import PROTOCOLS, ContractNet, Proposal, RoundSettings
from cnp_router.routing import TopK

CASES = [
    (name, announcement)
    for name, protocol in PROTOCOLS.items()
    for announcement in protocol.announcements
]


def eager():
    """Return a model whose contractors propose all they have, and whose manager awards it."""
    return acting(
        {},
        {
            **dict.fromkeys((InterpretRequest, MatchFunction, ServeFunction), propose),
            SelectApis: award_all,
            ComposeAlone: lambda task: {
                "functions": [],
                "categories": [],
                "candidates": [api.id for api in task.apis],
                "apis": [api.id for api in task.apis],
            },
        },
    )


def net_of(**more):
    settings = RoundSettings(select=TopK(6), iterate=3)
    return ContractNet(CATALOG, eager(), router=PlantedRouter(), settings=settings, **more)


def reached(outcome):
    """Return every API that appears in a round: called for, proposed, awarded or recommended."""
    found = set(outcome.recommendation) | set(outcome.stages.selected)
    for message in outcome.transcript.messages:
        if isinstance(message, Proposal):
            found |= {each.api for each in message.apis}
        found |= set(getattr(message, "apis", ())) if not isinstance(message, Proposal) else set()
    return found


@pytest.mark.parametrize(("protocol", "announcement"), CASES)
@pytest.mark.parametrize("organisation", ["api", "category"])
@pytest.mark.parametrize(
    "how",
    [
        {"among": ["sms", "mail", "weather"]},
        {"exclude": ["maps", "places", "photos"]},
        {"among": lambda name: name in {"sms", "mail", "weather", "maps"}, "exclude": {"maps"}},
    ],
    ids=["among", "exclude", "both"],
)
def test_no_other_api_is_reached(protocol, announcement, organisation, how):
    actor = FakeActor({"sms": "lost"})
    way = {"protocol": protocol, "announcement": announcement, **how}
    for executed in (None, actor):
        outcome = hold(net_of(organisation=organisation), **way, actor=executed)
        assert reached(outcome) <= {"sms", "mail", "weather"}
        assert outcome.recommendation
    assert {job.api for job in actor.asked} <= {"sms", "mail", "weather"}
    if outcome.routing is not None:
        assert outcome.routing.n_allowed == 3


def test_a_broadcast_goes_to_who_may_be_asked():
    outcome = hold(net_of(), announcement="broadcast", among=["sms", "maps"])
    assert outcome.recipients == ("maps", "sms")
    assert outcome.n_contractors == 2


def test_a_contractor_is_shown_only_what_it_may_propose():
    net = net_of(organisation=[Contractor("all", tuple(CATALOG))])
    hold(net, announcement="broadcast", exclude=["sms"])
    shown = [call.task for call in net.model.calls if isinstance(call.task, InterpretRequest)]
    assert [api.id for api in shown[0].apis] == [name for name in CATALOG.ids if name != "sms"]
    assert len(net.contractors[0].apis) == 6  # the net itself is as it was


def test_run_sync_restricts_too():
    assert net_of().run_sync(REQUEST, among=["sms"]).recommendation == ("sms",)


@pytest.mark.parametrize(("protocol", "announcement"), CASES)
def test_nobody_is_left(protocol, announcement):
    how = {"protocol": protocol, "announcement": announcement}
    with pytest.raises(InputError, match="among leaves none of 6 APIs to announce to"):
        hold(net_of(), among=["evil"], **how)
    with pytest.raises(InputError, match="leave no API that a contractor holds"):
        hold(net_of(organisation=[Contractor("a", (CATALOG["sms"],))]), exclude=["sms"], **how)


def test_what_no_api_is_called_is_logged(caplog):
    with caplog.at_level(logging.WARNING):
        hold(net_of(), announcement="broadcast", exclude=["sms", "evil"])
    assert "the request is restricted by 'evil', which no API is" in caplog.text


def test_an_answer_that_is_none():
    with pytest.raises(InputError, match="must answer True or False, got 'yes'"):
        hold(net_of(), among=lambda name: "yes")


class TestMadeOnce:
    """The rounds of an execution are restricted to the same APIs: that is worked out once."""

    def test_if_nothing_is_left_out_parties_stay_themselves(self):
        parties = net_of().parties
        assert parties.restricted(list(CATALOG.ids), ()) is parties
        assert parties.restricted(None, ["evil"]) is parties
        assert parties.restricted(lambda name: True, ()) is parties

    @pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
    def test_the_same_ids_give_the_same_parties(self, kind):
        parties = net_of().parties
        first = parties.restricted(kind(["sms", "mail"]), kind(["maps"]))
        assert parties.restricted(kind(["sms", "mail"]), kind(["maps"])) is first
        assert parties.restricted(kind(["sms"]), kind(["maps"])).among == ("sms",)
        assert parties.restricted(kind(["sms", "mail"]), kind(["mail"])).among == ("sms",)
        assert set(first.among) == {"sms", "mail"}

    def test_a_list_that_was_changed_is_another_one(self):
        parties, among = net_of().parties, ["sms"]
        assert parties.restricted(among, ()).among == ("sms",)
        among[0] = "mail"
        assert parties.restricted(among, ()).among == ("mail",)

    def test_a_function_is_asked_each_time(self):
        parties, left = net_of().parties, {"sms"}
        assert parties.restricted(left.__contains__, ()).among == ("sms",)
        left.add("mail")
        assert set(parties.restricted(left.__contains__, ()).among) == {"sms", "mail"}
        assert parties.restricted(iter(["sms"]), ()).among == ("sms",)

    def test_few_are_kept(self):
        parties = net_of().parties
        for n in range(20):
            parties.restricted(["sms", f"evil-{n}"], ())
        assert len(parties._kept) == 8

    def test_what_no_api_is_called_is_logged_each_time(self, caplog):
        parties = net_of().parties
        for _ in range(2):
            parties.restricted(None, ["evil"])
        assert len(caplog.records) == 2

    def test_a_bare_string_is_no_list_of_its_letters(self):
        parties = net_of().parties
        parties.restricted(None, ("s", "m"))
        with pytest.raises(InputError, match="must be a list of strings"):
            parties.restricted(None, "sm")

    def test_how_alike_apis_are_is_one_for_all(self):
        parties = net_of().parties
        assert parties.restricted(["sms"], ()).likeness is parties.likeness

    def test_a_round_after_the_first_walks_through_no_catalog(self, monkeypatch):
        net = net_of()
        how = {"protocol": Directed("sms", substitutes=False), "among": ["sms", "mail"]}
        assert hold(net, **how, actor=FakeActor()).results

        def walk(self):
            raise AssertionError("it walks through the catalog")

        for name in ("__iter__", "ids"):
            monkeypatch.setattr(type(CATALOG), name, property(walk) if name == "ids" else walk)
        again = hold(net.with_settings(iterate=0), **how, actor=FakeActor({"sms": "lost"}))
        assert again.recommendation == ()


def test_alike_are_only_those_that_are_asked_for():
    likeness = net_of().parties.likeness
    assert likeness.of("sms", []) == {}
    whole = likeness.of("sms", CATALOG.ids)
    assert list(whole) == list(CATALOG.ids) and whole["sms"] == 1.0
    assert likeness.of("sms", ["mail", "maps"]) == {n: whole[n] for n in ("mail", "maps")}
