from __future__ import annotations

import json

import pytest

from cnp_router.exceptions import ChatTimeoutError
from cnp_router.protocols import Transcript, validate
from cnp_router.testing import FunctionChatModel

REQUEST = "Send me a text message when it rains."
PROTOCOLS = ["manager-led", "contractor-led", "collaborative", "single-agent"]


@pytest.fixture
def recommend(run, sample_model):
    def recommend(*arguments, **options):
        return run("recommend", "--model", sample_model, *arguments, **options)

    return recommend


@pytest.mark.parametrize("announce", ["routed", "broadcast"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_gives_one_json_document(recommend, protocol, announce):
    result = recommend("--protocol", protocol, "--announce", announce, "--json", REQUEST)
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert (document["protocol"], document["announce"]) == (protocol, announce)
    assert document["request"] == REQUEST
    assert document["model"] == "offline"
    assert document["recommendation"]
    assert document["n_recipients"] == len(document["recipients"])
    ledger = document["ledger"]
    assert ledger["tokens_are"] == "estimated"
    assert ledger["model_calls"] == sum(c["model_calls"] for c in ledger["by_stage"].values())
    assert ledger["messages"]["total"] == sum(
        count for name, count in ledger["messages"].items() if name != "total"
    )
    assert (document["routing"] is None) == (announce == "broadcast")


def test_routed_reaches_the_recipients_of_the_router(recommend, sample_router):
    document = json.loads(recommend("--protocol", "contractor-led", "--json", REQUEST).stdout)
    routing = sample_router.route(REQUEST)
    assert tuple(r["contractor"] for r in document["recipients"]) == routing.contractors
    assert [r["probability"] for r in document["recipients"]] == [
        round(r.probability, 6) for r in routing.recipients
    ]


@pytest.mark.parametrize("organise", ["api", "category", "community"])
def test_every_organisation(recommend, organise):
    result = recommend(
        "--protocol", "contractor-led", "--announce", "broadcast", "--organise", organise, "--json",
        REQUEST,
    )  # fmt: skip
    document = json.loads(result.stdout)
    assert document["organise"] == organise
    assert (document["n_contractors"] == 149) == (organise == "api")
    assert document["n_recipients"] == document["n_contractors"]


def test_contractors_of_a_size(recommend):
    options = ("--organise", "size", "--max-size", 50)
    result = recommend("--protocol", "contractor-led", *options, "--json", REQUEST)
    assert json.loads(result.stdout)["n_contractors"] == 3


def test_the_text_output_says_what_it_cost_and_who_answered(recommend):
    text = recommend("--protocol", "contractor-led", REQUEST).stdout
    assert text.startswith("API ")
    assert "\nProtocol      contractor-led, routed, contractors by api\n" in text
    assert " cfp, " in text
    assert "(estimated)\n" in text
    assert "\nModel         offline, " in text


def test_auto_says_why(recommend):
    sure = recommend("--protocol", "auto", REQUEST)
    assert sure.stdout.count("Why") == 1
    choice = json.loads(recommend("--protocol", "auto", "--json", REQUEST).stdout)["choice"]
    assert choice["protocol"] == "learned"
    unsure = recommend("--protocol", "auto", "--threshold", 1, "--json", REQUEST)
    assert json.loads(unsure.stdout)["choice"]["protocol"] != "learned"


def test_a_transcript_is_written_and_can_be_replayed(recommend, tmp_path):
    path = tmp_path / "round.jsonl"
    options = ("--protocol", "collaborative", "--transcript", path, "--json")
    document = json.loads(recommend(*options, REQUEST).stdout)
    transcript = Transcript.read(path)
    assert list(validate(transcript).recommendation) == document["recommendation"]
    assert transcript.ledger.to_dict() == document["ledger"]


def test_a_budget_is_kept(recommend):
    options = ("--protocol", "contractor-led", "--announce", "broadcast")
    for budget in (("--budget-tokens", 1000), ("--budget-messages", 100)):
        result = recommend(*options, *budget, REQUEST)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "149 calls for proposals would cost about" in result.stderr
        assert "and the budget is" in result.stderr


def test_the_fallback_widens_by_the_categories_that_the_model_names(recommend):
    learned = json.loads(recommend("--threshold", 1, "--json", REQUEST).stdout)
    widened = json.loads(recommend("--threshold", 1, "--fallback", "llm", "--json", REQUEST).stdout)
    assert (learned["source"], widened["source"]) == ("learned", "llm")
    assert {r["contractor"] for r in learned["recipients"]} <= {
        r["contractor"] for r in widened["recipients"]
    }
    text = recommend("--threshold", 1, "--fallback", "llm", REQUEST).stdout
    assert "widened to the categories that the language model named" in " ".join(text.split())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--protocol", "contractor-led", "--known", "twilio"), "--known goes with"),
        (("--transcript", "x.jsonl"), "--transcript needs"),
        (("--protocol", "contractor-led", "--llm-model", "x"), "need --llm openai"),
        (("--protocol", "gossip"), "'gossip' is not one of"),
        (("--protocol", "contractor-led", "--deadline", "0"), "0"),
        (("--protocol", "contractor-led", "--deadline", "nan"), "'nan' is no time"),
        (("--protocol", "contractor-led", "--organise", "size"), "needs --max-size"),
    ],
)
def test_wrong_usage_ends_with_2(recommend, options, problem):
    result = recommend(*options, REQUEST)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


def test_a_server_that_is_not_there_is_an_error(recommend, monkeypatch):
    monkeypatch.setenv("CNP_ROUTER_MODEL_REQUESTS", "loopback")
    options = ("--llm", "openai", "--base-url", "http://127.0.0.1:9/v1")
    result = recommend("--protocol", "manager-led", *options, REQUEST)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: the manager got no answer for the decomposition (step 1): model 'gpt-oss")


@pytest.mark.parametrize(
    "options",
    [
        ("--announce", "broadcast"),
        ("--organise", "category"),
        ("--budget-tokens", 5),
        ("--deadline", 1),
        ("--bid-timeout", 1),
        ("--iterate", 2),
        ("--llm", "openai"),
        ("--base-url", "http://127.0.0.1:9/v1"),
    ],
)
def test_what_needs_a_round_is_not_ignored_without_one(recommend, options):
    result = recommend(*options, REQUEST)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{options[0]} needs a --protocol other than learned." in result.stderr


def test_a_transcript_that_cannot_be_written_is_said_before_anyone_is_asked(recommend, tmp_path):
    place = tmp_path / "no" / "round.jsonl"
    result = recommend("--protocol", "contractor-led", "--transcript", place, REQUEST)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "its folder does not exist" in result.stderr


def test_what_was_paid_is_told_where_a_round_breaks_off(recommend, tmp_path):
    path = tmp_path / "round.jsonl"
    options = ("--protocol", "manager-led", "--announce", "broadcast", "--budget-messages", 3)
    result = recommend(*options, "--transcript", path, REQUEST)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Paid until then: ")
    assert Transcript.read(path).ledger.by_stage["decomposition"].model_calls == 1


def test_when_every_contractor_fails_it_ends_with_an_error(recommend, monkeypatch):
    def answer(request):
        raise ChatTimeoutError("too slow")

    monkeypatch.setattr(
        "cnp_router.cli.rounds.chat_model", lambda *_, **__: FunctionChatModel(answer)
    )
    result = recommend("--protocol", "contractor-led", "--json", REQUEST)
    assert result.exit_code == 1
    failed = json.loads(result.stdout)["ledger"]["failures"]["timeout"]
    assert f"Error: every call for proposals failed: {failed} by timeout" in result.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--protocol", "contractor-led", "--all"), "--all goes with --protocol learned."),
        (("--protocol", "single-agent", "--iterate", 3), "--iterate means nothing to a single"),
        (("--protocol", "single-agent", "--organise", "category"), "--organise means nothing"),
        (
            ("--protocol", "contractor-led", "--announce", "broadcast", "--top-k", 5),
            "--top-k goes with --announce routed.",
        ),
    ],
)
def test_what_would_be_ignored_is_refused(recommend, options, problem):
    result = recommend(*options, REQUEST)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


def test_an_iterated_announcement_beyond_the_budget_is_left_out(recommend):
    options = ("--protocol", "contractor-led", "--json", "--budget-messages", 65)
    plain = recommend(*options, REQUEST)
    more = recommend(*options, "--iterate", 30, REQUEST)
    assert (plain.exit_code, more.exit_code) == (0, 0)
    assert "no second announcement: " in more.stderr
    left, right = json.loads(plain.stdout), json.loads(more.stdout)
    assert left["recommendation"] == right["recommendation"]
    assert left["ledger"]["messages"] == right["ledger"]["messages"]
