"""Rounds as sequence diagrams: everyone is there, however many; what is left out is said."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hostile_results import SECRET, round_of

from cnp_router import ContractNet, RoundSettings, fit_router, load_sample, offline_model
from cnp_router.protocols import Transcript, Waves
from cnp_router.protocols.messages import (
    Award,
    CallForProposals,
    Failure,
    InformResult,
    Request,
)
from cnp_router.reports.round_page import outcome_page
from cnp_router.reports.sequence import MOST_ARROWS, MOST_LIFELINES, sequence_figure
from tests.reports.report_pages import HOSTILE


def texts(figure):
    return [each.text for each in ElementTree.fromstring(figure.svg).iter("text")]


def titles(figure):
    return [each.text for each in ElementTree.fromstring(figure.svg).iter("title")]


def arrows(figure):
    """Return what is said of each arrow under the pointer; the heads of lifelines have no colon."""
    return [title for title in titles(figure) if " to " in title and ": " in title]


def lifelines(figure):
    dashed = [
        path
        for path in ElementTree.fromstring(figure.svg).iter("path")
        if path.get("stroke-dasharray") == "3 4"
    ]
    return len(dashed)


@pytest.fixture(scope="module")
def router():
    sample = load_sample()
    return fit_router(sample.catalog, sample.history[:150])


def test_each_message_of_a_small_round_is_an_arrow_of_its_own():
    transcript = round_of(4, n_propose=2, n_fail=1)
    figure = sequence_figure(transcript)
    assert len(arrows(figure)) == len(transcript.messages)
    assert lifelines(figure) == 6
    assert [row[0] for row in figure.table.rows] == [str(m.id) for m in transcript.messages]
    assert (
        "Lifelines from left to right: user, manager, api-0, api-1, api-2 and api-3." in figure.says
    )


@pytest.mark.parametrize("n", [149, 1_345])
def test_however_many_are_asked_it_stays_readable(n):
    transcript = round_of(n)
    figure = sequence_figure(transcript)
    assert lifelines(figure) <= MOST_LIFELINES
    assert len(arrows(figure)) <= MOST_ARROWS
    assert len(figure.table.rows) <= 300
    assert len(figure.svg) < 60_000
    shown = texts(figure)
    silent = n - 40
    assert f"cfp \N{MULTIPLICATION SIGN} {silent:,}" in shown
    assert f"refuse \N{MULTIPLICATION SIGN} {silent - 5:,}" in shown
    assert f"{silent:,} others refuse or fail" in figure.says
    assert f"{n:,} cfp" in figure.says
    assert {"accept-proposal: api-0", "propose: api-0"} <= set(shown)
    if n > 300:
        (note,) = figure.table.notes
        assert f"{n} cfp" in note.replace(",", "") or "cfp" in note
        kinds = {row[1] for row in figure.table.rows}
        assert {"propose", "accept-proposal", "failure", "inform-result"} <= kinds


def test_what_says_no_is_dashed_and_named():
    figure = sequence_figure(round_of(4, n_propose=2, n_fail=1))
    root = ElementTree.fromstring(figure.svg)
    for group in root.iter("g"):
        title = group.findtext("title")
        if " to " not in title or ": " not in title:
            continue
        is_dashed = group.find("path").get("stroke-dasharray") is not None
        says_no = any(word in title for word in ("refuse", "failure", "reject", "cancel"))
        assert is_dashed == says_no, title


def test_stages_iterations_and_waves_are_bands(router):
    settings = RoundSettings(iterate=3, waves=Waves())
    net = ContractNet(router.catalog, offline_model(router.catalog), router=router,
                      settings=settings)  # fmt: skip
    outcome = net.run_sync("Text me a map with the weather.", protocol="contractor-led")
    figure = sequence_figure(outcome.transcript)
    bands = [text for text in texts(figure) if text.startswith(("Announcement", "Awards"))]
    assert any("iteration 1" in band for band in bands)
    assert any("iteration 2" in band for band in bands)
    assert any("calls" in band and "proposals" in band and "tokens" in band for band in bands)
    for kind, number in outcome.ledger.messages.items():
        assert f"{number:,} {kind}" in figure.says


def test_times_of_models_results_and_deadlines_are_said():
    transcript = round_of(6, n_propose=3, n_fail=0)
    shown = texts(sequence_figure(transcript))
    assert any("models 3.00 s, longest 0.50 s" in text for text in shown)
    assert "inform-result: 0.25 s, 2 calls" in shown
    call = CallForProposals(id=2, sender="manager", receiver="maps", request="x", reply_by=2.5)
    asked = Transcript("x", "contractor-led", "routed", "tiny", (
        Request(id=1, sender="user", receiver="manager", text="x"), call))  # fmt: skip
    assert any("reply within 2.50 s" in text for text in texts(sequence_figure(asked)))


def test_a_re_award_comes_after_the_failure():
    transcript = Transcript("x", "directed", "routed", "tiny", (
        Request(id=1, sender="user", receiver="manager", text="x"),
        Award(id=2, sender="manager", receiver="a", in_reply_to=1, apis=("a",)),
        Failure(id=3, sender="a", receiver="manager", in_reply_to=2, reason="tool", error="broken",
                api="a", attempts=3, seconds=0.2, was_done="no"),
        Award(id=4, sender="manager", receiver="b", in_reply_to=1, apis=("b",), instead_of=2),
        InformResult(id=5, sender="b", receiver="manager", in_reply_to=4, api="b", text="sunny",
                     digest="0" * 64, attempts=1, seconds=0.1, n_bytes=5),
    ))  # fmt: skip
    kinds = [title.split(": ")[1].split(",")[0] for title in arrows(sequence_figure(transcript))]
    assert kinds == ["request", "accept-proposal", "failure", "accept-proposal", "inform-result"]
    assert "Awards" in texts(sequence_figure(transcript))
    assert "Execution" in texts(sequence_figure(transcript))


@pytest.mark.parametrize("protocol", ["manager-led", "contractor-led", "hierarchical", "learned",
                                      "collaborative", "single-agent"])  # fmt: skip
@pytest.mark.parametrize("announcement", ["routed", "broadcast"])
def test_every_protocol_can_be_drawn(router, protocol, announcement):
    if (protocol, announcement) == ("learned", "broadcast"):
        return
    net = ContractNet(router.catalog, offline_model(router.catalog), router=router)
    outcome = net.run_sync("Text me a map.", protocol=protocol, announcement=announcement)
    figure = sequence_figure(outcome.transcript)
    assert lifelines(figure) <= MOST_LIFELINES
    assert len(arrows(figure)) <= MOST_ARROWS
    assert figure == sequence_figure(outcome.transcript)


def test_no_text_is_markup_and_no_secret_is_shown():
    figure = sequence_figure(round_of(5, n_propose=3, n_fail=1, text=f"{HOSTILE} token={SECRET}"))
    tags = {element.tag for element in ElementTree.fromstring(figure.svg).iter()}
    assert tags <= {"svg", "g", "title", "text", "path", "rect"}
    assert not any(SECRET in cell for row in figure.table.rows for cell in row[4:])
    assert "\x1b" not in figure.svg
    assert "\u202e" not in figure.svg


def test_nothing_was_said():
    figure = sequence_figure(Transcript("x", "learned", "routed", "tiny"))
    assert "0 messages" in figure.says


def test_category_managers_are_no_contractors(sample):
    net = ContractNet(sample.catalog, offline_model(sample.catalog))
    request = "Send me a text message when it rains."
    outcome = net.run_sync(request, protocol="hierarchical", announcement="broadcast")
    called = {m.receiver for m in outcome.transcript.messages if m.performative == "cfp"}
    facts = dict(outcome_page(outcome).facts)
    asked, _, of = facts["contractors asked"].partition(" of ")
    assert int(asked) + int(facts["category managers asked"]) == len(called)
    assert of == "149"
    said = sequence_figure(outcome.transcript).says
    managers = int(re.search(r"(\d+) category managers", said)[1])
    others = re.search(r"(\d+) others", said)
    assert managers <= int(facts["category managers asked"])
    assert others is None or int(others[1]) <= int(asked)


def test_a_column_that_says_nothing_is_left_out(sample):
    net = ContractNet(sample.catalog, offline_model(sample.catalog))
    outcome = net.run_sync("Rain.", protocol="single-agent", announcement="broadcast")
    assert outcome_page(outcome).sections[0].tables[0].columns == ("API",)
