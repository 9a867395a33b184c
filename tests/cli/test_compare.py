from __future__ import annotations

import datetime
import json
import re
import signal
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from chat_server import stay_on_this_machine

from cnp_router.catalog import Catalog
from cnp_router.evaluation.report import REPORT_FILES
from cnp_router.exceptions import (
    ChatAnswerError,
    ChatTimeoutError,
    ContextTooLongError,
    DataFileError,
)
from cnp_router.history import History, Mashup
from cnp_router.training import LearnedRouter


@pytest.fixture
def compare(run, files, sample, sample_model):
    new = [
        Mashup(f"n{n}", f"{m.description} And more.", m.apis)
        for n, m in enumerate(sample.history[:20])
    ]
    History(new).write("held-out.jsonl")

    def compare(*arguments):
        return run(*("compare", "--model", sample_model, "--history", "held-out.jsonl", *arguments))

    return compare


QUICK = ("--protocol", "contractor-led", "--protocol", "learned", "--limit", 2)


def without_seconds(result):
    document = json.loads(result.stdout)
    for row in document["rows"]:
        del row["seconds"]
    return document


def test_one_document(compare):
    result = compare("--json", "--limit", 1)
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert {"requests", "contractors", "model", "tokens_are", "rows"} <= set(document)
    assert (document["requests"], document["contractors"]) == (1, 149)
    assert (document["model"], document["tokens_are"]) == ("offline", "estimated")
    assert len(document["rows"]) == 13
    run = document["run"]
    assert (run["apis"], run["mashups"], run["select"]) == (149, 20, "TargetRecall(target=0.9)")
    assert (run["threshold"], run["fallback"], run["waves"]) == (0.6, "llm", None)
    assert {"cnp-router", "date", "catalog", "history", "router", "server"} <= run.keys()
    broadcast = document["rows"][3]
    assert (broadcast["protocol"], broadcast["announce"]) == ("contractor-led", "broadcast")
    assert (broadcast["organise"], broadcast["recipients"]) == ("api", 149)
    learned = document["rows"][0]
    assert (learned["protocol"], learned["stages"]["bid"]) == ("learned", None)
    assert learned["stages"]["final"].keys() == {"precision", "recall", "f1"}


def test_a_catalog_without_categories(run, sample):
    Catalog([replace(api, categories=()) for api in sample.catalog]).write("apis.jsonl")
    History(sample.history[:60]).write("past.jsonl")
    model = ("--catalog", "apis.jsonl", "--history", "past.jsonl", "--output", "plain")
    assert run("fit", *model).exit_code == 0
    asked = ("compare", "--model", "plain", "--history", "past.jsonl", "--limit", 1)
    result = run(*asked, "--json")
    said = "Left out, since no API of the catalog has a category: manager-led.\n"
    assert (result.exit_code, result.stderr[: len(said)]) == (0, said)
    assert "manager-led" not in {row["protocol"] for row in json.loads(result.stdout)["rows"]}
    wanted = run(*asked, "--protocol", "manager-led")
    assert wanted.exit_code == 1
    assert "manager-led rounds need a catalog with categories" in wanted.stderr


def test_the_tables(compare):
    result = compare(*QUICK)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "The model 'offline' answered" in result.stdout
    assert "do not measure a language model's quality" in " ".join(result.stdout.split())
    for title in (
        "Contractors by api: 149",
        "Tokens of a request",
        "Precision, recall and F1 of the APIs in play at each stage",
        "Messages of a request, contractors asked, waves of calls, and APIs in the final set",
        "Costs of a broadcast over those of routing, and the recall that routing keeps",
    ):
        assert title in " ".join(result.stdout.split())
    assert "\x1b" not in result.stdout
    assert "\r" not in result.stdout


def test_what_is_chosen(compare):
    result = compare(
        *("--protocol", "single-agent", "--protocol", "manager-led", "--announce", "routed"),
        *("--organise", "category", "--organise", "community", "--limit", 1, "--json"),
    )
    rows = [
        (r["protocol"], r["announce"], r["organise"]) for r in json.loads(result.stdout)["rows"]
    ]
    assert rows == [
        ("manager-led", "routed", "category"),
        ("manager-led", "routed", "community"),
        ("single-agent", "routed", "api"),
    ]


def test_target_recall_and_threshold_reach_the_router(compare):
    def asked(*arguments):
        result = compare(*QUICK, "--announce", "routed", "--json", *arguments)
        return json.loads(result.stdout)["rows"][0]["recipients"]

    assert asked("--target-recall", 0.3) < asked("--target-recall", 0.95)
    assert asked("--threshold", 1, "--fallback", "broadcast") == 149


def test_evidence(compare):
    plain = compare(*QUICK, "--json")
    shown = compare(*QUICK, "--json", "--evidence", "manager")
    assert (shown.exit_code, shown.stderr) == (0, "")
    documents = [without_seconds(each) for each in (plain, shown)]
    assert [each["evidence"] for each in documents] == ["none", "manager"]
    (broadcast, routed, learned), (one, other, alone) = (each["rows"] for each in documents)
    assert (one, alone) == (broadcast, learned)
    assert other["tokens_in"] > routed["tokens_in"]
    said = compare(*QUICK, "--evidence", "manager").stdout
    assert "the manager was shown the router's evidence" in " ".join(said.split())


def test_waves_reach_fewer(compare):
    def row(*arguments):
        result = compare(*QUICK[:2], "--limit", 2, "--announce", "routed", "--json", *arguments)
        return json.loads(result.stdout)["rows"][0]

    assert row("--waves")["recipients"] < row()["recipients"]
    assert (row()["waves"], row("--waves")["waves"] >= 1) == (1, True)


@pytest.mark.parametrize("undated", [True, False])
def test_past_requests_are_asked_as_of_their_day(compare, monkeypatch, undated):
    asked, score = [], LearnedRouter.score

    def recorded(self, request, known=(), *, date=None):
        asked.append(date)
        return score(self, request, known, date=date)

    monkeypatch.setattr(LearnedRouter, "score", recorded)
    past = History.read("held-out.jsonl")
    day = datetime.date(2012, 2, 29)
    dated = Mashup("dated", past[0].description, past[0].apis, date=day)
    History([dated]).write("held-out.jsonl")
    compare(*QUICK, "--announce", "routed", *(("--undated",) if undated else ()))
    assert asked == [None if undated else day] * 2


def test_resume(compare):
    first = compare(*QUICK, "--json", "--resume", "run.jsonl")
    assert compare(*QUICK, "--json", "--resume", "run.jsonl").stdout == first.stdout
    other = compare(*QUICK, "--resume", "run.jsonl", "--threshold", 0.5)
    assert (other.exit_code, other.stdout) == (1, "")
    assert "threshold was 0.6 and is 0.5" in other.stderr
    strange = compare(*QUICK, "--resume", "held-out.jsonl")
    assert strange.exit_code == 1
    assert "held-out.jsonl: is not the file of a comparison" in strange.stderr
    assert len(History.read("held-out.jsonl")) == 20


def test_a_budget(compare):
    result = compare(*QUICK, "--budget-tokens", 1000, "--resume", "run.jsonl")
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        "What is finished is in run.jsonl: continue with the same command and a larger budget."
        in result.stderr
    )
    assert "contractor-led broadcast by api: an announcement of 149" in result.stderr
    assert "the budget is 1,000" in result.stderr


def test_a_report(compare, tmp_path):
    result = compare(*QUICK, "--report", "report", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    names = {file.name for file in (tmp_path / "report").iterdir()}
    assert names == set(REPORT_FILES)
    assert {"comparison.json", "comparison.md", "traffic-recall.png", "stages.png"} <= names
    assert (tmp_path / "report" / "comparison.json").read_text() == result.stdout


@pytest.fixture
def stubborn(monkeypatch):
    """Some requests always fail, with the error that the test says."""
    from cnp_router.llm.offline import OfflineChatModel

    complete = OfflineChatModel.complete

    def stubborn(error, role, *, requests=(), apis=()):
        async def failing(self, request):
            task = request.task
            asked = task.role == role and (not requests or task.request in requests)
            if asked and (not apis or task.apis[0].id in apis):
                raise error
            return await complete(self, request)

        monkeypatch.setattr(OfflineChatModel, "complete", failing)

    return stubborn


SOME = ("twilio", "stripe", "auth0", "uber")
MORE = (*SOME, "google-maps", "openweather", "slack", "gmail")
ALONE = ("--protocol", "single-agent", "--announce", "routed")


def test_a_request_that_always_fails_is_counted(compare, stubborn):
    first = History.read("held-out.jsonl")[0].description
    stubborn(ContextTooLongError("too long"), "single-agent", requests=[first])
    result = compare(*ALONE, "--limit", 3)
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "means over them, without the rounds that failed and what these cost." in said
    assert "single-agent routed by api 1 0 0 0" in said
    assert "single-agent routed by api: 1 of 3 rounds failed with: " in said
    assert "too long" in said
    assert result.stderr == (
        "Warning: single-agent routed by api: 1 of 3 rounds failed (33.3%). Its means are over the "
        "others.\n"
    )
    document = json.loads(compare(*ALONE, "--limit", 3, "--json").stdout)
    assert [t["failed_rounds"] for t in document["trouble"]] == [1]
    assert "too long" in document["trouble"][0]["reason"]
    assert "failed" not in document["rows"][0]


def test_contractors_that_fail_are_told(compare, stubborn):
    assert "Failed, late and hallucinated" not in compare(*QUICK).stdout
    stubborn(ChatTimeoutError("slow"), "contractor", apis=SOME)
    options = ("--protocol", "contractor-led", "--announce", "broadcast", "--limit", 2)
    result = compare(*options)
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "Failed, late and hallucinated, in all requests together" in said
    assert "contractor-led broadcast by api 0 8 0 0" in said
    assert result.stderr == ""  # 8 of 298
    stubborn(ChatTimeoutError("slow"), "contractor", apis=MORE)
    result = compare(*options)
    assert "16 of 298 calls for proposals failed (5.4%). Who failed could not bid." in result.stderr


def test_five_failed_rounds_in_a_row(compare, stubborn):
    stubborn(ChatAnswerError("nonsense"), "single-agent")
    result = compare(*ALONE, "--resume", "run.jsonl")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "5 rounds in a row failed of single-agent routed by api" in result.stderr
    assert "continue with the same command and --retry-failed, to repeat" in result.stderr
    assert "Use --protocol and --announce to leave out a method." in result.stderr
    result = compare(*ALONE, "--resume", "run.jsonl", "--limit", 5, "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["rows"][0]["tokens_in"]) == (1, None)
    assert document["trouble"][0]["failed_rounds"] == 5
    assert "--retry-failed" in result.stderr
    stubborn(ChatAnswerError("nonsense"), "single-agent", requests=["none"])
    result = compare(*ALONE, "--resume", "run.jsonl", "--limit", 5, "--json", "--retry-failed")
    assert (result.exit_code, json.loads(result.stdout)["trouble"]) == (0, [])


@pytest.fixture
def failing_server(monkeypatch):
    """A server on this machine that refuses every request, with its reason."""

    class Refuse(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"error": {"message": "the GPU is\x1b[31m on fire"}}).encode()
            self.send_response(400)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    stay_on_this_machine(monkeypatch)
    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_a_server_that_always_fails_is_an_error_with_its_reason(compare, failing_server):
    server = ("--llm", "openai", "--llm-model", "tiny", "--base-url", failing_server)
    result = compare(*QUICK, *server)
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert "contractor-led broadcast by api 2 0 0 0" in said
    assert "contractor-led routed by api 2 0 0 0" in said
    assert "broadcast by api: 2 of 2 rounds failed with: every call for proposals failed" in said
    assert "the GPU is" in said
    assert "every round of contractor-led broadcast by api failed, and so of 1 more:" in (
        " ".join(result.stderr.split())
    )
    assert "Traceback" not in result.stderr
    both = ("--report", "report", "--html", "report.html")
    result = compare(*ALONE, "--limit", 2, *server, "--json", *both)
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["rows"][0]["tokens_in"] is None
    assert document["trouble"][0]["failed_rounds"] == 2
    for text in (document["trouble"][0]["reason"], " ".join(result.stderr.split())):
        assert "the GPU is" in text
    assert json.loads(Path("report/comparison.json").read_text()) == document
    html = Path("report.html").read_text()
    assert "This comparison ended early: every round of" in html
    for text in (result.stderr, Path("report/comparison.md").read_text(), html):
        assert "\x1b" not in text


def test_a_report_that_cannot_be_written_at_the_end(compare, monkeypatch):
    def write_report(comparison, folder):
        raise DataFileError(folder, "cannot be written: No space left on device")

    monkeypatch.setattr("cnp_router.evaluation.report.write_report", write_report)
    result = compare(*QUICK, "--report", "report", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["requests"] == 2
    assert "No space left on device" in result.stderr


def test_a_report_that_cannot_be_is_told_before_the_work(compare):
    result = compare("--report", "held-out.jsonl")
    assert result.exit_code == 1
    assert "held-out.jsonl: is a file" in result.stderr


def test_other_mashups_are_counted(compare):
    History([Mashup("x", "rain", ("rainfall",))]).write("more.jsonl")
    result = compare("--history", "more.jsonl", "--protocol", "learned", "--limit", 1)
    assert "1 requests (1 skipped)" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--base-url", "http://localhost:1/v1"), "need --llm openai"),
        (("--limit", 0), "'--limit'"),
        (("--retry-failed",), "--retry-failed needs --resume"),
        (("--protocol", "boss-led"), "'--protocol'"),
    ],
)
def test_wrong_usage(compare, arguments, message):
    result = compare(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


# Once so many rounds are kept, the next one never ends: it is still running however late it is
# stopped. As in a terminal: what starts the tests in the background has the signal ignored.
UNENDING = """
import asyncio, signal
from cnp_router.cli import main
from cnp_router.evaluation.resume import ResumeFile
from cnp_router.llm.offline import OfflineChatModel

add, complete, kept = ResumeFile.add, OfflineChatModel.complete, []

def counting(self, record):
    add(self, record)
    kept.append(record)

async def hanging(self, request):
    if len(kept) >= MOST:
        await asyncio.sleep(3600)
    return await complete(self, request)

ResumeFile.add, OfflineChatModel.complete = counting, hanging
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


def test_interrupted_it_says_how_to_go_on(process, sample, sample_model, tmp_path):
    sample.history[:40].write(tmp_path / "held-out.jsonl")
    arguments = ("compare", "--model", sample_model, "--history", "held-out.jsonl", "--json")
    file = tmp_path / "run.jsonl"
    code = UNENDING.replace("MOST", "400")
    started = process(*arguments, "--resume", "run.jsonl", code=code, cwd=tmp_path)
    while not (file.exists() and file.read_bytes().count(b"\n") > 45):
        assert started.poll() is None, started.communicate()
        time.sleep(0.005)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate()
    assert (started.returncode, out) == (130, b"")
    assert re.search(rb"\d+ of 520 rounds are finished\.", err)
    assert b"What is finished is in run.jsonl: continue with the same command." in err
    assert b"Rounds that were begun are asked again in full: --cache DIR" in err
    assert err.endswith(b"Interrupted.\n")
    assert b"Traceback" not in err


def test_killed_it_goes_on_to_the_same_tables(process, compare, tmp_path, sample_model):
    arguments = ("--model", sample_model, "--history", "held-out.jsonl", "--resume", "run.jsonl")
    file = tmp_path / "run.jsonl"
    some = ("--limit", 12, "--json", "--protocol", "contractor-led")
    code = UNENDING.replace("MOST", "20")
    started = process("compare", *arguments, *some, code=code, cwd=tmp_path)
    while not (file.exists() and file.read_bytes().count(b"\n") > 3):
        assert started.poll() is None, started.communicate()
        time.sleep(0.005)
    started.kill()
    started.communicate()
    kept = file.read_bytes()
    kept = kept[: kept.rfind(b"\n") + 1]
    assert kept.count(b"\n") < 25
    resumed = compare(*some, "--resume", "run.jsonl")
    assert without_seconds(resumed) == without_seconds(compare(*some))
    assert file.read_bytes().startswith(kept)
    assert file.read_bytes().count(b"\n") == 25


def test_a_report_page(compare):
    result = compare(*QUICK, "--html", "report.html", "--json")
    assert (result.exit_code, result.stderr) == (0, "Page: report.html\n")
    assert json.loads(result.stdout)["requests"] == 2
    html = Path("report.html").read_text()
    assert html.startswith("<!doctype html>")
    assert "Tokens by stage of the protocol" in html


def test_a_report_page_that_cannot_be_written_is_told_before_the_work(compare):
    result = compare("--html", "nowhere/report.html")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nowhere/report.html: its folder does not exist" in result.stderr
    result = compare("--html", "held-out.jsonl")
    assert result.exit_code == 1
    assert "held-out.jsonl: is there already, and is not a report page" in result.stderr


def test_requests_that_the_model_learned_from_are_told(run, compare, sample_model, sample):
    sample.history.write("all.jsonl")
    assert json.loads(compare(*QUICK, "--json").stdout)["learned_from"] == 0
    result = run("compare", "--model", sample_model, "--history", "all.jsonl", *QUICK)
    assert "Warning: 2 of 2 requests are among those the model learned from:" in (
        " ".join(result.stderr.split())
    )
