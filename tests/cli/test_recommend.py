from __future__ import annotations

import json
import re

import pytest
from rich.cells import cell_len

from cnp_router.routing import Reason, Recipient, Routing

REQUEST = "Send me a text message when it rains."


@pytest.fixture
def recommend(run, sample_model):
    def recommend(*arguments, **options):
        return run("recommend", "--model", sample_model, *arguments, **options)

    return recommend


class TestTable:
    def test_what_it_says(self, recommend, sample_router):
        result = recommend(REQUEST)
        routing = sample_router.route(REQUEST)
        assert (result.exit_code, result.stderr) == (0, "")
        table, facts = result.stdout.split("\n\n")
        assert table.startswith("   API ")
        for recipient in routing.recipients[:10]:
            mark = r"\*" if recipient.contractor in routing.recommendation else " "
            row = rf"^{mark}  {recipient.contractor} +{recipient.probability:.2f}"
            assert re.search(row, table, re.MULTILINE)
        asked = len(routing.recipients)
        assert f"Recipients      {asked} of 149 contractors, for a recall of 0.90\n" in facts
        assert f"Confidence      {routing.confidence:.2f}, " in facts
        assert f"Messages saved  {149 - asked} of the 149 of a broadcast" in facts

    def test_every_reason_is_shown(self, recommend, monkeypatch, sample_router):
        reasons = (Reason("name", "it says Twilio"), Reason("history", "used before"))
        routing = Routing(
            REQUEST, (Recipient("twilio", 0.9, reasons),), ("twilio",), 0.8, "learned", 149, 0.6,
            "none",
        )  # fmt: skip
        monkeypatch.setattr(type(sample_router), "route", lambda *_, **__: routing)
        assert recommend(REQUEST).stdout == (
            "   API     prob.  why\n"
            "*  twilio   0.90  it says Twilio; used before\n"
            "\n"
            "Recommended     twilio (marked *)\n"
            "Recipients      1 of 149 contractors, for a recall of 0.90\n"
            "Confidence      0.80, at or above the threshold of 0.60\n"
            "Messages saved  148 of the 149 of a broadcast (99%)\n"
        )

    def test_ten_rows_and_how_many_more(self, recommend):
        few = recommend("--top-k", 12, REQUEST).stdout
        assert "\n... and 2 more (--all shows them)\n" in few
        everything = recommend("--top-k", 12, "--all", REQUEST).stdout
        assert "more (--all" not in everything
        assert everything.startswith("   API")
        exactly = recommend("--top-k", 10, REQUEST).stdout
        assert "more (--all" not in exactly
        assert "10 of 149 contractors, as many as asked for" in exactly

    @pytest.mark.parametrize("columns", [34, 40, 60])
    def test_a_narrow_terminal(self, recommend, monkeypatch, columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = recommend(REQUEST).stdout.splitlines()
        assert max(map(cell_len, lines)) <= columns

    def test_no_colours(self, recommend):
        assert "\x1b" not in recommend(REQUEST, color=True).stdout


class TestFallback:
    def test_below_the_threshold_without_one(self, recommend):
        result = recommend("--top-k", 1, "--threshold", 1, REQUEST)
        facts = " ".join(result.stdout.split())
        assert "below the threshold of 1.00: kept as learned, as no fallback is allowed" in facts
        assert "Recipients 1 of 149" in facts

    def test_a_broadcast(self, recommend):
        arguments = ("--top-k", 1, "--threshold", 1, "--fallback", "broadcast")
        result = recommend(*arguments, REQUEST)
        facts = " ".join(result.stdout.split())
        assert "below the threshold of 1.00: the fallback was a broadcast" in facts
        assert "Recipients 149 of 149 contractors, as the fallback says" in facts
        assert "Messages saved 0 of the 149 of a broadcast (0%)" in facts
        assert "... and 139 more" in result.stdout

    def test_widening_by_the_categories_that_the_model_names(self, recommend):
        ask = ("--threshold", 1, "--json", REQUEST)
        learned = json.loads(recommend(*ask).stdout)
        widened = json.loads(recommend("--fallback", "llm", "--llm", "offline", *ask).stdout)
        assert (learned["source"], widened["source"]) == ("learned", "llm")
        assert {r["contractor"] for r in learned["recipients"]} <= {
            r["contractor"] for r in widened["recipients"]
        }
        text = recommend("--threshold", 1, "--fallback", "llm", REQUEST).stdout
        assert "widened to the categories that the language model named" in " ".join(text.split())

    def test_above_the_threshold_it_is_not_used(self, recommend):
        facts = recommend("--threshold", 0, "--fallback", "broadcast", REQUEST).stdout
        assert "at or above the threshold of 0.00" in facts


class TestJson:
    def test_one_document_and_nothing_else(self, recommend, sample_router):
        result = recommend("--json", REQUEST)
        assert (result.exit_code, result.stderr) == (0, "")
        expected = sample_router.route(REQUEST).to_dict()
        assert json.loads(result.stdout) == json.loads(json.dumps(expected))

    def test_all_recipients_are_in_it(self, recommend):
        document = json.loads(recommend("--json", "--top-k", 30, REQUEST).stdout)
        assert len(document["recipients"]) == document["n_recipients"] == 30


class TestKnown:
    def test_known_apis_are_not_asked_again(self, recommend):
        result = recommend("--known", "twilio", "--known", "google-maps", "--json", REQUEST)
        document = json.loads(result.stdout)
        assert document["known"] == ["twilio", "google-maps"]
        asked = {recipient["contractor"] for recipient in document["recipients"]}
        assert not asked & {"twilio", "google-maps"}

    def test_they_are_named(self, recommend):
        assert "\nIn use already  twilio\n" in recommend("--known", "twilio", REQUEST).stdout

    def test_an_unknown_one(self, recommend):
        result = recommend("--known", "twillio", REQUEST)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "Error: unknown API 'twillio' (did you mean 'twilio'?)\n"


class TestRequest:
    @pytest.mark.parametrize("text", ["", "  \n"])
    def test_an_empty_one(self, recommend, text):
        for result in (recommend(text), recommend("-", input=text)):
            assert (result.exit_code, result.stdout) == (2, "")
            assert result.stderr.endswith("\nError: The request is empty. Say what is needed.\n")

    def test_from_standard_input(self, recommend):
        assert recommend("-", input=f"{REQUEST}\n").stdout == recommend(REQUEST).stdout

    def test_standard_input_that_is_not_utf8(self, recommend):
        result = recommend("-", input="Köln".encode("latin-1"))
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "Error: standard input: not UTF-8 (send it as UTF-8)\n"

    @pytest.mark.parametrize("text", ["雨", "?", "x" * 5000, "qqq zzz", "-- rain"])
    def test_any_text_gets_an_answer(self, recommend, text):
        assert recommend("--", text).exit_code == 0


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--target-recall", "0.8", "--top-k", "3"), "--target-recall and --top-k exclude"),
            (("--target-recall", "1"), "Invalid value for '--target-recall'"),
            (("--target-recall", "nan"), "Invalid value for '--target-recall'"),
            (("--top-k", "0"), "Invalid value for '--top-k'"),
            (("--threshold", "1.5"), "Invalid value for '--threshold'"),
            (("--threshold", "nan"), "Invalid value for '--threshold'"),
            (("--fallback", "someone"), "Invalid value for '--fallback'"),
            (("more", "words"), "Got unexpected extra argument"),
            (("--protocol", "auto"), "No such option '--protocol'"),
            (("--llm", "openai"), "need --fallback llm"),
            (("--base-url", "http://127.0.0.1:9/v1"), "need --llm openai"),
            (("--fallback", "llm", "--llm-model", "x"), "need --llm openai"),
        ],
    )
    def test_it_says_what_is_wrong(self, recommend, arguments, message):
        result = recommend(REQUEST, *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr

    def test_no_such_model(self, run):
        result = run("recommend", "--model", "nowhere", REQUEST)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("Error: nowhere")
        assert result.stderr.count("\n") == 1
