"""``recommend --requests``: many requests at once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cnp_router.history import History, Mashup

TEXTS = ["Send me a text message when it rains.", "Photos on a map", "qwzx vrrk"]


@pytest.fixture
def recommend(run, sample_model):
    def recommend(*arguments, **options):
        return run("recommend", "--model", sample_model, "--requests", *arguments, **options)

    return recommend


@pytest.fixture
def requests(run):
    Path("requests.txt").write_text("\n".join(["", *TEXTS, "", ""]), encoding="utf-8")
    return "requests.txt"


def decisions(path="decisions.jsonl"):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


class TestTable:
    def test_a_row_a_request(self, recommend, requests, sample_router):
        result = recommend(requests)
        assert (result.exit_code, result.stderr) == (0, "")
        table, legend, facts = result.stdout.split("\n\n")
        head, *rows = table.splitlines()
        assert head.split() == ["request", "recommended", "recipients", "confidence", "verdict"]
        first = sample_router.route(TEXTS[0])
        assert rows[0].startswith("Send me a text")
        assert f" {len(first.recipients)} " in rows[0]
        assert rows[0].endswith(f"{first.confidence:.2f}  sure")
        assert rows[-1].split() == ["qwzx", "vrrk", "-", "-", "0.00", "nothing", "fits"]
        assert "Confidence: the probability, 0 to 1" in legend
        assert facts.startswith("Requests        3: 2 sure, 0 not sure, 1 nothing fits\n")
        assert max(map(len, result.stdout.splitlines())) <= 80

    def test_what_nothing_fits_is_not_in_the_means(self, recommend, requests, sample_router):
        asked = [len(sample_router.route(text).recipients) for text in TEXTS[:2]]
        said = " ".join(recommend(requests).stdout.split())
        mean = sum(asked) / 2
        assert f"{mean:.1f} of 149 contractors on average; 1 request has none" in said
        document = json.loads(recommend(requests, "--json").stdout)
        assert (document["mean_recipients"], document["not_announced"]) == (mean, 1)
        assert document["share_of_messages_saved"] == pytest.approx(1 - mean / 149, abs=1e-6)

    def test_nothing_fits_any(self, recommend):
        Path("r.txt").write_text(TEXTS[2])
        assert "none: nothing fits any of the requests" in recommend("r.txt").stdout
        document = json.loads(recommend("r.txt", "--json").stdout)
        assert (document["mean_recipients"], document["share_of_messages_saved"]) == (None, None)

    def test_ids_where_there_are_some(self, recommend, sample):
        sample.history[:3].write("history.jsonl")
        result = recommend("history.jsonl")
        head, row = result.stdout.splitlines()[:2]
        assert head.split()[:2] == ["id", "request"]
        assert row.split()[0] == sample.history[0].id

    def test_a_fallback_is_named(self, recommend, requests):
        result = recommend(requests, "--threshold", 1, "--fallback", "broadcast")
        assert "not sure" in result.stdout
        assert " 149 " in result.stdout
        assert "149.0 of 149 contractors on average\n" in result.stdout  # of all three


class TestDocuments:
    def test_json(self, recommend, requests, sample_router):
        document = json.loads(recommend(requests, "--json").stdout)
        assert document["requests"] == 3
        assert (document["sure"], document["not_sure"], document["nothing_fits"]) == (2, 0, 1)
        for line, (text, decision) in enumerate(zip(TEXTS, document["decisions"], strict=True), 2):
            routing = sample_router.route(text)
            own = {"line": line, "id": None, "date": None}
            assert decision == own | json.loads(json.dumps(routing.to_dict()))

    def test_output(self, recommend, requests):
        shown = json.loads(recommend(requests, "--json").stdout)
        result = recommend(requests, "--output", "decisions.jsonl")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith("Written")
        assert "decisions.jsonl" in result.stdout
        assert decisions() == shown["decisions"]

    def test_output_with_json_is_a_summary(self, recommend, requests):
        document = json.loads(recommend(requests, "--output", "decisions.jsonl", "--json").stdout)
        assert document["requests"] == len(decisions())
        assert document["output"] == "decisions.jsonl"
        assert "decisions" not in document

    @pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
    def test_what_steers_a_terminal_is_escaped(self, process, sample_model, tmp_path, encoding):
        (tmp_path / "requests.txt").write_text("\x9b31m \u202e rain ☔\n", encoding="utf-8")
        arguments = ("recommend", "--model", sample_model, "--requests", "requests.txt", "--json")
        command = process(*arguments, cwd=tmp_path, environment={"PYTHONIOENCODING": encoding})
        out, err = command.communicate()
        assert (command.returncode, err) == (0, b"")
        assert b"\x9b" not in out.replace("\u2614".encode(), b"")
        (decision,) = json.loads(out.decode(encoding))["decisions"]
        assert decision["request"] == "\x9b31m \u202e rain ☔"


class TestLines:
    def test_what_a_line_says_of_itself(self, recommend, sample_router):
        line = {"id": "a", "description": TEXTS[0], "known": ["twilio"], "date": "2014-05-01"}
        Path("r.jsonl").write_text(json.dumps(line | {"apis": ["slack"], "more": 1}) + "\n")
        (decision,) = json.loads(recommend("r.jsonl", "--json", "--known", "slack").stdout)[
            "decisions"
        ]
        assert (decision["id"], decision["date"]) == ("a", "2014-05-01")
        assert decision["known"] == ["slack", "twilio"]

    def test_its_date_reaches_the_router(self, recommend, monkeypatch, sample_router):
        route_many, days = type(sample_router).route_many, []

        def watched(self, *arguments, **options):
            days.extend(options["dates"])
            return route_many(self, *arguments, **options)

        monkeypatch.setattr(type(sample_router), "route_many", watched)
        lines = [{"description": "rain", "date": "2014-05-01"}, {"description": "rain"}]
        Path("r.jsonl").write_text("\n".join(map(json.dumps, lines)))
        assert recommend("r.jsonl", "--date", "2015-01-01").exit_code == 0
        assert [str(day) for day in days] == ["2014-05-01", "2015-01-01"]

    def test_each_knows_what_its_own_line_says(self, recommend, sample_router):
        known = [[], [], ["slack"], ["slack", "twilio"], []]
        lines = [{"description": TEXTS[0], "known": own} for own in known]
        Path("r.jsonl").write_text("\n".join(map(json.dumps, lines)))
        decisions = json.loads(recommend("r.jsonl", "--json").stdout)["decisions"]
        assert [own["known"] for own in decisions] == known
        for own, decision in zip(known, decisions, strict=True):
            expected = sample_router.route(TEXTS[0], own)
            assert decision["recommendation"] == list(expected.recommendation)

    def test_standard_input(self, recommend):
        (decision,) = json.loads(recommend("-", "--json", input="rain\n").stdout)["decisions"]
        assert decision["request"] == "rain"
        objects = '{"description": "rain", "id": "x"}\n'
        (decision,) = json.loads(recommend("-", "--json", input=objects).stdout)["decisions"]
        assert (decision["request"], decision["id"]) == ("rain", "x")

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("r.txt", b"", "r.txt: the file is empty"),
            ("r.txt", b" \n\n", "r.txt: the file is empty"),
            ("r.txt", b"a\nb\xff\n", "r.txt, line 2: not UTF-8"),
            ("r.jsonl", b"rain\n", "r.jsonl, line 1: not JSON"),
            ("r.json", b'["rain"]', "r.json, line 1: expected a JSON object, got list"),
            ("r.jsonl", b'{"description": "a"}\n{"text": "b"}', "line 2: missing field 'descr"),
            ("r.jsonl", b'{"description": " "}', "line 1: a request must not be blank"),
            ("r.jsonl", b'{"description": 3}', "line 1: a request must be a string"),
            ("r.jsonl", b'{"description": "a", "date": "May"}', "line 1: field 'date' must be"),
            ("r.jsonl", b'{"description": "a", "known": "twilio"}', "line 1: field 'known' must"),
            ("r.jsonl", b'\n{"description": "a", "known": ["no"]}', "line 2: unknown API 'no'"),
            ("r.jsonl", b'{"description": "a", "id": 1}', "line 1: field 'id' must be a string"),
            (
                "r.jsonl",
                b'{"description": "a", "id": "x"}\n{"description": "b", "id": "x"}',
                "line 2: duplicate id 'x', first on line 1",
            ),
        ],
    )
    def test_bad_ones_are_named_before_anything_is_done(
        self, recommend, monkeypatch, sample_router, name, content, message
    ):
        def never(*_, **__):
            raise AssertionError

        monkeypatch.setattr(type(sample_router), "route", never)
        Path(name).write_bytes(content)
        Path("decisions.jsonl").write_text("old")
        result = recommend(name, "--output", "decisions.jsonl")
        assert (result.exit_code, result.stdout) == (1, "")
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
        assert Path("decisions.jsonl").read_text() == "old"

    @pytest.mark.parametrize("name", ["tickets.csv", "tickets.txt", "-"])
    def test_a_spreadsheet_is_not_asked_line_by_line(self, recommend, name):
        text = "ticket,day,text,used\n1,2026-01-09,Where is my parcel?,orders\n"
        Path("tickets.csv").write_text(text)
        Path("tickets.txt").write_text(text)
        result = recommend(name, input=text)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "this looks like CSV (make it JSON Lines: docs/data.md, " in result.stderr

    def test_commas_in_a_sentence_are_no_columns(self, recommend):
        Path("requests.txt").write_text("photos, maps\nWeather, by text\nrain\n")
        assert json.loads(recommend("requests.txt", "--json").stdout)["requests"] == 3

    @pytest.mark.parametrize("name", ["requests.jsonl.gz", "requests.PARQUET"])
    def test_a_packed_file_is_said_to_be_one(self, recommend, name):
        Path(name).write_bytes(b"\x1f\x8b")
        result = recommend(name)
        assert (result.exit_code, result.stdout) == (1, "")
        said = f"Error: {name}: requests are read from plain text or JSON Lines (unpack it first"
        assert result.stderr.startswith(said)

    def test_an_empty_path(self, recommend):
        result = recommend("")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.endswith("Invalid value for '--requests': The path is empty.\n")

    def test_no_such_file(self, recommend):
        assert "none.txt: no such file (check the path)" in recommend("none.txt").stderr

    def test_empty_standard_input(self, recommend):
        assert "standard input: the file is empty" in recommend("-", input="").stderr


class TestOutput:
    def test_it_does_not_replace_what_is_read(self, recommend, sample):
        History([Mashup("m1", "rain", ("twilio",))]).write("r.jsonl")
        before = Path("r.jsonl").read_text()
        result = recommend("r.jsonl", "--output", "./r.jsonl")
        assert result.exit_code == 1
        assert "this is the file of --requests" in result.stderr
        assert Path("r.jsonl").read_text() == before

    def test_a_place_that_cannot_be_written(self, recommend, requests):
        result = recommend(requests, "--output", "no/such/folder.jsonl")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "its folder does not exist" in result.stderr

    # The signal comes after the second decision.
    INTERRUPTED = (
        "import os, signal\n"
        "from cnp_router.cli import main\n"
        "from cnp_router.training import LearnedRouter\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "decided, done = LearnedRouter._decided, []\n"
        "def third(self, *a, **k):\n"
        "    done.append(1)\n"
        "    if len(done) == 3: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return decided(self, *a, **k)\n"
        "LearnedRouter._decided = third\n"
        "main()\n"
    )

    @pytest.mark.skipif(os.name == "nt", reason="no SIGINT to oneself")
    @pytest.mark.usefixtures("requests")
    def test_an_interruption_leaves_what_was_there(self, process, sample_model, tmp_path):
        there = tmp_path / "decisions.jsonl"
        there.write_text("old")
        names = {path.name for path in tmp_path.iterdir()}
        arguments = ("--model", sample_model, "--requests", "requests.txt", "--output", there)
        command = process("recommend", *arguments, code=self.INTERRUPTED, cwd=tmp_path)
        out, err = command.communicate()
        assert (command.returncode, out, err.strip()) == (130, b"", b"Interrupted.")
        assert there.read_text() == "old"
        assert {path.name for path in tmp_path.iterdir()} == names


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "Give TEXT, which says what is needed, or --requests FILE."),
            (("--requests", "r.txt", "rain"), "TEXT and --requests exclude each other."),
            (("--output", "o.jsonl", "rain"), "--output needs --requests."),
            (("--requests", "r.txt", "--all"), "--all and --why-not need TEXT"),
            (("--requests", "r.txt", "--why-not", "slack"), "--all and --why-not need TEXT"),
        ],
    )
    def test_what_does_not_go_together(self, run, arguments, message):
        result = run("recommend", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
