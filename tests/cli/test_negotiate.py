from __future__ import annotations

import datetime
import json
import re

import pytest

from cnp_router.exceptions import ChatTimeoutError
from cnp_router.protocols import PROTOCOLS, Transcript, validate
from cnp_router.testing import FunctionChatModel
from cnp_router.training import LearnedRouter

REQUEST = "Send me a text message when it rains."
WITH_A_MODEL = [name for name, each in PROTOCOLS.items() if "broadcast" in each.announcements]


@pytest.fixture
def negotiate(run, sample_model):
    def negotiate(*arguments, **options):
        return run("negotiate", "--model", sample_model, *arguments, **options)

    return negotiate


def document(result):
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.mark.parametrize("announce", ["routed", "broadcast"])
@pytest.mark.parametrize("protocol", WITH_A_MODEL)
def test_every_protocol_gives_one_json_document(negotiate, protocol, announce):
    found = document(negotiate("--protocol", protocol, "--announce", announce, "--json", REQUEST))
    assert (found["protocol"], found["announce"]) == (protocol, announce)
    assert found["request"] == REQUEST
    assert found["model"] == "offline"
    assert found["recommendation"]
    assert found["n_recipients"] == len(found["recipients"])
    ledger = found["ledger"]
    assert ledger["tokens_are"] == "estimated"
    assert ledger["model_calls"] == sum(c["model_calls"] for c in ledger["by_stage"].values())
    assert ledger["messages"]["total"] == sum(
        count for name, count in ledger["messages"].items() if name != "total"
    )
    assert (found["routing"] is None) == (announce == "broadcast")


def test_the_default_reaches_the_recipients_of_the_router(negotiate, sample_router):
    found = document(negotiate("--json", REQUEST))
    routing = sample_router.route(REQUEST)
    assert (found["protocol"], found["announce"]) == ("contractor-led", "routed")
    assert tuple(r["contractor"] for r in found["recipients"]) == routing.contractors
    assert [r["probability"] for r in found["recipients"]] == [
        round(r.probability, 6) for r in routing.recipients
    ]


def test_the_router_alone(negotiate, sample_router):
    found = document(negotiate("--protocol", "learned", "--json", REQUEST))
    assert tuple(found["recommendation"]) == sample_router.route(REQUEST).recommendation
    assert found["ledger"]["model_calls"] == 0
    text = negotiate("--protocol", "learned", REQUEST).stdout
    assert "\nProtocol  learned\n" in text and "Announced to" not in text


@pytest.mark.parametrize("organise", ["api", "category", "community"])
def test_every_organisation(negotiate, organise):
    options = ("--announce", "broadcast", "--organise", organise, "--json")
    found = document(negotiate(*options, REQUEST))
    assert found["organise"] == organise
    assert (found["n_contractors"] == 149) == (organise == "api")
    assert found["n_recipients"] == found["n_contractors"]


def test_contractors_of_a_size(negotiate):
    options = ("--organise", "size", "--max-size", 50, "--json")
    assert document(negotiate(*options, REQUEST))["n_contractors"] == 3
    result = negotiate(*options[:2], REQUEST)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "organising by size needs the size" in result.stderr


def test_the_text_output_says_what_it_cost_and_who_answered(negotiate):
    text = negotiate(REQUEST).stdout
    assert text.startswith("API ")
    assert "\nProtocol      contractor-led, routed, contractors by api\n" in text
    assert " calls for proposals, " in text
    assert "(estimated)\n" in text
    assert "\nVerdict       Sure: the confidence of 0." in text
    assert "\nModel         offline, " in text
    assert "\nProtocol  single-agent, routed\n" in (
        negotiate("--protocol", "single-agent", REQUEST).stdout
    )


@pytest.mark.parametrize("seen_by", ["manager", "everyone"])
def test_evidence(negotiate, tmp_path, seen_by):
    path = tmp_path / "round.jsonl"
    how = ("--evidence", seen_by, REQUEST)
    found = document(negotiate(*how, "--json", "--transcript", path))
    assert found["evidence"] == seen_by
    transcript = Transcript.read(path)
    assert all(m.evidence for m in transcript.messages if m.performative == "cfp")
    assert validate(transcript).recommendation == tuple(found["recommendation"])
    who = {"manager": "the manager", "everyone": "everyone"}[seen_by]
    assert f"Evidence      for {who}\n" in negotiate(*how).stdout
    result = negotiate(*how, "--announce", "broadcast")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "a broadcast has none" in result.stderr


def test_waves_reach_the_first_recipients_first(negotiate, sample_router):
    at_once = document(negotiate("--json", REQUEST))
    found = document(negotiate("--waves", "--json", REQUEST))
    recipients = [r["contractor"] for r in found["recipients"]]
    assert recipients == list(sample_router.route(REQUEST).contractors[: len(recipients)])
    assert len(recipients) < at_once["n_recipients"]
    assert at_once["ledger"]["waves"] == 1
    assert found["ledger"]["waves"] in (1, 2)
    two = "Mail me a map, and text me where it rains."
    text = negotiate("--waves", "--protocol", "collaborative", two).stdout
    assert re.search(r"\nAnnounced to  \d+ of 149 contractors, in \d waves\n", text)


def test_the_day_of_the_request_reaches_the_router(negotiate, monkeypatch):
    asked, score = [], LearnedRouter.score

    def recorded(self, request, known=(), *, date=None):
        asked.append(date)
        return score(self, request, known, date=date)

    monkeypatch.setattr(LearnedRouter, "score", recorded)
    assert document(negotiate("--date", "2012-02-29", "--json", REQUEST))
    assert asked == [datetime.date(2012, 2, 29)]
    assert negotiate("--date", "2012-2-29", REQUEST).exit_code == 2


def test_auto_says_why(negotiate):
    sure = negotiate("--protocol", "auto", REQUEST)
    assert sure.stdout.count("Why") == 1
    choice = document(negotiate("--protocol", "auto", "--json", REQUEST))["choice"]
    assert choice["protocol"] == "learned"
    unsure = document(negotiate("--protocol", "auto", "--threshold", 1, "--json", REQUEST))
    assert unsure["choice"]["protocol"] != "learned"


def test_a_transcript_is_written_and_is_valid(negotiate, tmp_path):
    path = tmp_path / "round.jsonl"
    options = ("--protocol", "collaborative", "--transcript", path, "--json")
    found = document(negotiate(*options, REQUEST))
    transcript = Transcript.read(path)
    assert list(validate(transcript).recommendation) == found["recommendation"]
    assert transcript.ledger.to_dict() == found["ledger"]


def test_a_budget_is_kept(negotiate):
    for budget in (("--budget-tokens", 1000), ("--budget-messages", 100)):
        result = negotiate("--announce", "broadcast", *budget, REQUEST)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "149 calls for proposals would cost about" in result.stderr
        assert "and the budget is" in result.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--known", "twilio"), "No such option '--known'"),
        (("--llm-model", "x"), "need --llm openai"),
        (("--protocol", "gossip"), "'gossip' is not one of 'learned', 'manager-led'"),
        (("--deadline", "0"), "0"),
        (("--deadline", "nan"), "'nan' is not a finite number"),
        (("--top-k", 3, "--target-recall", 0.5), "exclude each other"),
    ],
)
def test_wrong_usage_ends_with_2(negotiate, options, problem):
    result = negotiate(*options, REQUEST)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


def test_an_empty_request_is_wrong_usage(negotiate):
    result = negotiate(" ")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("\nError: The request is empty. Say what is needed.\n")


def test_the_request_from_standard_input(negotiate):
    assert negotiate("-", input=f"{REQUEST}\n").stdout == negotiate(REQUEST).stdout


def test_a_server_that_is_not_there_is_an_error(negotiate, monkeypatch):
    monkeypatch.setenv("CNP_ROUTER_MODEL_REQUESTS", "loopback")
    options = ("--llm", "openai", "--base-url", "http://127.0.0.1:9/v1")
    result = negotiate("--protocol", "manager-led", *options, REQUEST)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: the manager got no answer for ")
    assert "model 'gpt-oss" in result.stderr


def test_a_transcript_that_cannot_be_written_is_said_before_anyone_is_asked(negotiate, tmp_path):
    place = tmp_path / "no" / "round.jsonl"
    result = negotiate("--transcript", place, REQUEST)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "its folder does not exist" in result.stderr


def test_what_was_paid_is_said_where_a_round_breaks_off(negotiate, tmp_path):
    path = tmp_path / "round.jsonl"
    options = ("--protocol", "manager-led", "--announce", "broadcast", "--budget-messages", 3)
    result = negotiate(*options, "--transcript", path, REQUEST)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Paid until then: ")
    assert Transcript.read(path).ledger.by_stage["decomposition"].model_calls == 1


def test_when_every_contractor_fails_it_ends_with_an_error(negotiate, monkeypatch):
    def answer(request):
        raise ChatTimeoutError("too slow")

    monkeypatch.setattr("cnp_router.agents.offline_model", lambda _: FunctionChatModel(answer))
    result = negotiate("--json", REQUEST)
    assert result.exit_code == 1
    failed = json.loads(result.stdout)["ledger"]["failures"]["timeout"]
    assert (
        f"Error: every call for proposals failed ({failed} by timeout), the first with: "
        in result.stderr
    )


def test_an_iterated_announcement_beyond_the_budget_is_left_out(negotiate):
    asked = document(negotiate("--json", REQUEST))["n_recipients"]
    # The request, three messages for each contractor at most, and the report.
    options = ("--json", "--budget-messages", 2 + 3 * asked)
    plain = negotiate(*options, REQUEST)
    more = negotiate(*options, "--iterate", 30, REQUEST)
    assert (plain.exit_code, more.exit_code) == (0, 0)
    assert "no second announcement: " in more.stderr
    left, right = json.loads(plain.stdout), json.loads(more.stdout)
    assert left["recommendation"] == right["recommendation"]
    assert left["ledger"]["messages"] == right["ledger"]["messages"]


def test_an_announcement_that_a_protocol_does_not_have_is_told(negotiate):
    result = negotiate("--protocol", "learned", "--announce", "broadcast", REQUEST)
    assert (result.exit_code, result.stderr) == (0, "learned has no broadcast: it is routed.\n")


def test_one_call_is_not_calls(negotiate):
    result = negotiate("--protocol", "single-agent", "--announce", "broadcast", REQUEST)
    assert "offline, 1 call\n" in result.stdout
    assert "grounds" not in result.stdout
