"""The registry says all there is to know of a protocol; a protocol of one's own needs no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from negotiation import CATALOG, REQUEST, PlantedRouter, acting, hold

import cnp_router
from cnp_router.agents import InterpretRequest
from cnp_router.exceptions import InputError, TranscriptError
from cnp_router.protocols import (
    PROTOCOLS,
    ContractNet,
    Invitation,
    Protocol,
    Result,
    find_protocol,
    validate,
)
from cnp_router.protocols.auto import Auto

ROOT = Path(cnp_router.__file__).parent
DOCS = ROOT.parent / "docs" / "protocols.md"


def net_of(model, **options):
    return ContractNet(CATALOG, model, router=PlantedRouter(), **options)


def test_the_order_is_that_of_the_tables():
    assert list(PROTOCOLS) == [
        "learned", "manager-led", "contractor-led", "collaborative", "hierarchical", "single-agent",
        "auto", "coordinated",
    ]  # fmt: skip
    assert all(name == protocol.name for name, protocol in PROTOCOLS.items())
    with pytest.raises(TypeError):
        PROTOCOLS["mine"] = None


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=list(PROTOCOLS))
def test_each_says_what_it_is_and_is_run_as_it_says(protocol):
    assert protocol.summary
    assert "\n" not in protocol.summary
    for announcement in protocol.announcements:
        outcome = hold(net_of(acting()), protocol=protocol.name, announcement=announcement)
        assert outcome.announcement in ("routed", "broadcast")
        assert bool(outcome.recipients) <= protocol.has_contractors
    without = ContractNet(CATALOG, acting())
    if protocol.needs_router:
        with pytest.raises(InputError, match="there is no router"):
            hold(without, protocol=protocol.name, announcement="broadcast")
    else:
        assert hold(without, protocol=protocol.name, announcement="broadcast")


def test_the_table_of_the_docs_is_that_of_the_registry():
    head = ["protocol", "manager", "contractors", "a call carries", "a broadcast goes to"]
    rows = [
        [f"`{p.name}`", p.manager, p.contractors, p.carries, p.reaches] for p in PROTOCOLS.values()
    ]
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * 5, *rows]]
    table = "\n".join(re.sub(" +", " ", line) for line in lines).replace(" --- ", "---")
    assert table in DOCS.read_text(encoding="utf-8"), table


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_only_its_own_file_knows_a_protocol_by_name(name):
    own = f"protocols/{name.replace('-', '_')}.py"
    knowing = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "protocols").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if f'"{name}"' in line and "``" not in line and not re.match(r"\s*(>>>|\.\.\.)", line)
    }
    assert knowing <= {own, *DEFAULTS.get(name, ())}


# The default of `ContractNet.run`; a single agent is a role, too.
DEFAULTS = {"contractor-led": ["protocols/net.py"], "single-agent": ["protocols/ledger.py"]}


class FirstComeProtocol(Protocol):
    name = "first-come"
    summary = "Whatever is proposed is awarded; the manager asks no model."

    async def run(self, round_):
        audience = await round_.audience()
        request = round_.request
        proposals = await round_.announce(
            [
                Invitation(c, InterpretRequest(c.apis, request), request=request)
                for c in audience.contractors
            ]
        )
        apis = tuple(dict.fromkeys(p.api for proposal in proposals for p in proposal.apis))
        round_.decide(proposals, apis)
        return Result(apis)


class TestOwn:
    @pytest.mark.parametrize("announcement", ["routed", "broadcast"])
    def test_it_is_run_like_any_other(self, announcement):
        outcome = hold(net_of(acting()), protocol=FirstComeProtocol(), announcement=announcement)
        assert (outcome.protocol, outcome.transcript.protocol) == ("first-come", "first-come")
        assert outcome.recommendation
        assert set(outcome.recommendation) == outcome.stages.proposed
        assert "API selection" in outcome.ledger.by_stage  # awards, but no model call
        assert outcome.ledger.by_stage["API selection"].model_calls == 0
        assert validate(outcome.transcript).recommendation == outcome.recommendation

    def test_it_needs_what_it_says(self):
        class Needy(FirstComeProtocol):
            needs_router = True

        with pytest.raises(InputError, match="there is no router"):
            hold(ContractNet(CATALOG, acting()), protocol=Needy(), announcement="broadcast")

    def test_what_it_returns_is_checked(self):
        class Wrong(FirstComeProtocol):
            async def run(self, round_):
                return ("maps",)

        with pytest.raises(InputError, match=r"what a protocol returns must be of type Result"):
            hold(net_of(acting()), protocol=Wrong())

    def test_it_cannot_report_what_was_not_awarded(self):
        class Cheat(FirstComeProtocol):
            async def run(self, round_):
                await super().run(round_)
                return Result(("maps", "evil"))

        with pytest.raises(TranscriptError, match="it reports what was not awarded"):
            hold(net_of(acting()), protocol=Cheat())

    @pytest.mark.parametrize("protocol", ["fipa", None, 3, ["learned"]])
    def test_what_is_no_protocol(self, protocol):
        with pytest.raises(InputError, match=r"unknown protocol .* or a Protocol of your own"):
            find_protocol(protocol)


class TestReprs:
    def test_they_are_one_line(self):
        net = net_of(acting())
        outcome = hold(net)
        everything = (net, net.parties, outcome, outcome.transcript, outcome.ledger, Auto())
        for shown in everything:
            assert "\n" not in repr(shown)
            assert len(repr(shown)) < 150

    def test_what_agents_wrote_is_escaped_in_notebooks(self):
        def attack(task):
            grounds = "<script>alert(1)</script>"
            said = {"functions": [], "categories": []}
            return {**said, "apis": [task.apis[0].id], "grounds": [grounds]}

        model = acting({}, {InterpretRequest: attack})
        outcome = hold(net_of(model), request=f"<b>{REQUEST}</b>", protocol=FirstComeProtocol())
        for shown in (outcome, outcome.transcript):
            html = shown._repr_html_()
            assert "<script>" not in html
            assert "<b>" not in html
            assert "&lt;script&gt;" in html


def test_a_contractor_with_several_apis_has_the_probability_of_the_most_probable():
    outcome = hold(net_of(acting(), organisation="category"))
    highest = {
        contractor.id: max(
            r.probability
            for r in outcome.routing.recipients
            if r.contractor in {api.id for api in contractor.apis}
        )
        for contractor in net_of(acting(), organisation="category").contractors
        if contractor.id in outcome.recipients
    }
    assert outcome.probabilities == highest
    assert [r["probability"] for r in outcome.to_dict()["recipients"]] == [
        round(highest[name], 6) for name in outcome.recipients
    ]


def test_a_class_is_told_to_be_made_an_instance():
    with pytest.raises(InputError, match=r"Learned is a class \(give an instance: Learned\(\)\)"):
        find_protocol(type(PROTOCOLS["learned"]))
