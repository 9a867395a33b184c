from __future__ import annotations

import dataclasses
import json
import os
import signal
from pathlib import Path

import pytest
from chat_server import completion, in_a_thread, stay_on_this_machine
from course_choosing import PLAN, next_call

from cnp_router.cli.app import app
from cnp_router.timetable import Board, Form, load_courses

FORM = Form(
    department="Economics and Business",
    year=2,
    min_credits=12,
    max_credits=16,
    first_period=False,
    gaps=True,
    free_day=True,
    interests="statistics, finance, film",
)
ANSWERS = "law\nfirst\n1\n8\n10\nno\nyes\nFriday\n\n"


@pytest.fixture
def form(run):
    FORM.write("form.json")
    return "form.json"


class TestTimetable:
    def test_it_prints_table_courses_and_rules(self, run, form):
        result = run("timetable", "--form", form)
        assert (result.exit_code, result.stderr) == (0, "")
        lines = result.stdout.splitlines()
        assert lines[0].split() == ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
        assert "  yes at most 16 credits" in lines
        assert "  NO" not in result.stdout
        assert "about statistics" in result.stdout
        assert max(map(len, lines)) <= 80

    def test_wishes_in_words(self, run, form):
        result = run("timetable", "no Friday, more law. Abracadabra!", "--form", form)
        assert result.exit_code == 0
        assert result.stdout.startswith("Understood  avoid: Fri\nUnderstood  interested in law\n")
        assert "  yes nothing on Friday" in result.stdout.splitlines()
        assert result.stderr == (
            "Warning: not understood: 'Abracadabra': neither a rule nor what a course is about\n"
            "words that work: 'no Friday', 'at most 14 credits', 'more statistics'\n"
        )

    def test_json_is_one_document(self, run, form):
        result = run("timetable", "no Friday. Abracadabra!", "--form", form, "--json")
        report = json.loads(result.stdout)
        assert report["wishes"]["changes"] == ["avoid: Fri"]
        assert len(report["wishes"]["not_understood"]) == 1
        assert not any((course["slot"] or "").startswith("Fri") for course in report["courses"])
        assert {"id", "name", "keywords", "slot", "credits", "form"} == set(report["courses"][0])
        assert json.loads(run("timetable", "--form", form, "--json").stdout)["wishes"] is None

    def test_out_can_be_revised(self, run, form):
        from cnp_router.planning.proposals import read_proposal

        run("timetable", "--form", form, "--output", "timetable.json")
        revised = read_proposal("timetable.json").revise("no Friday")
        assert revised.broken == ()

    def test_own_courses(self, run, form):
        few = load_courses()[:120]
        Path("own.jsonl").write_text("".join(json.dumps(c.to_dict()) + "\n" for c in few))
        result = run("timetable", "--form", form, "--courses", "own.jsonl", "--json")
        chosen = {course["id"] for course in json.loads(result.stdout)["courses"]}
        assert chosen <= {course.id for course in few}

    def test_words_from_standard_input(self, run, form):
        result = run("timetable", "-", "--form", form, input="no Friday")
        assert "Understood  avoid: Fri" in result.stdout

    def test_what_was_so_already_is_said(self, run, form):
        result = run("timetable", "gaps are fine", "--form", form)
        assert result.stdout.startswith("Nothing had to change (gaps: yes)\n\n")

    def test_interests_that_no_course_has_are_named(self, run):
        dataclasses.replace(FORM, interests="film, dinosaurs, quantum knitting").write("form.json")
        result = run("timetable", "--form", "form.json")
        assert result.exit_code == 0
        assert result.stderr == (
            "Warning: form.json: interests: no course has to do with 'dinosaurs'\n"
            "Warning: form.json: interests: no course has to do with 'knitting'\n"
        )


class TestRevise:
    @pytest.fixture
    def made(self, run, form):
        run("timetable", "--form", form, "--output", "timetable.json")
        return Path("timetable.json")

    def test_the_file_is_changed_and_the_rest_is_kept(self, run, made):
        before = set(json.loads(made.read_text())["chosen"])
        result = run("execute", "--revise", made, "no Friday")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith("Changed  avoid: Fri\nKept     ")
        document = json.loads(made.read_text())
        assert document["form"]["avoid"] == ["Fri"]
        friday = {c.id for c in load_courses() if (c.slot or "").startswith("Fri")}
        assert before - friday <= set(document["chosen"])

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                "no Monday, no Tuesday, no Wednesday, no Thursday, no exams, at least 16 credits",
                "nothing fits these rules together: ",
            ),
            ("Abracadabra!", "nothing of the text is understood"),
            ("at most 3 credits", "at least 12 credits (said before) and at most 3 credits (said"),
        ],
    )
    def test_a_text_that_cannot_be_followed_leaves_the_file(self, run, made, text, said):
        before = made.read_bytes()
        result = run("execute", "--revise", made, text)
        assert result.exit_code == 1
        assert said in result.stderr
        assert made.read_bytes() == before

    def test_a_file_that_is_no_proposal_is_left(self, run, form):
        before = Path(form).read_bytes()
        result = run("execute", "--revise", form, "no Friday")
        assert result.exit_code == 1
        assert "not a proposal: its kind is None" in result.stderr
        assert Path(form).read_bytes() == before


class TestQuestions:
    def test_a_missing_answer_is_an_error_elsewhere_than_at_a_terminal(self, run):
        result = run("timetable", "no Friday, year 2, no gaps")
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr == (
            "Error: the form does not say department, min_credits, max_credits, first_period, "
            'free_day, interests (add to its JSON, with what is true of you: "department": '
            '"Computer Science", "min_credits": 10, "max_credits": 16, "first_period": true, '
            '"free_day": "Wed", "interests": "")\n'
        )

    def test_what_the_form_of_a_file_does_not_say_names_the_file(self, run):
        Path("form.json").write_text('{"department": "Law and Politics", "gaps": true}')
        result = run("timetable", "year 2, no first period", "--form", "form.json")
        assert result.exit_code == 1
        assert result.stderr == (
            "Error: form.json: the form does not say min_credits, max_credits, free_day, interests "
            "(add it; first: How many credits do you need at least?)\n"
        )

    def test_asked_for_what_is_missing(self, run):
        result = run("timetable", "--ask", "--output", "timetable.json", input=ANSWERS)
        assert result.exit_code == 0
        assert "Error: year must be a number, got 'first'" in result.stderr
        assert "Which department do you study at?" in result.stderr
        assert "Which" not in result.stdout
        form = json.loads(Path("timetable.json").read_text())["form"]
        assert form["department"] == "Law and Politics"
        assert (form["year"], form["free_day"], form["interests"]) == (1, "Fri", "")

    def test_nothing_is_asked_that_is_known(self, run, form):
        result = run("timetable", "--form", form, "--ask")
        assert (result.exit_code, result.stderr) == (0, "")

    def test_the_end_of_the_answers(self, run):
        with pytest.raises(KeyboardInterrupt):
            run("timetable", "--ask", "--output", "timetable.json", input="law\n")
        assert not Path("timetable.json").exists()


class TestByModels:
    @pytest.fixture(autouse=True)
    def only_this_machine(self, monkeypatch):
        stay_on_this_machine(monkeypatch)

    def answer(self, body):
        schema = body["response_format"]["json_schema"]["schema"]["properties"]
        told = PLAN if "jobs" in schema else next_call(body["messages"][-1]["content"])
        return completion(told, usage=(1_000, 10))

    @pytest.mark.parametrize("method", ["plan", "react"])
    def test_models_choose_and_the_rules_hold(self, run, form, method):
        prices = {"currency": "USD", "per": 1000, "models": {"large": {"in": 1, "out": 1}}}
        Path("prices.json").write_text(json.dumps(prices))
        with in_a_thread(self.answer) as server:
            result = run(
                *("timetable", "at least 4 credits", "--form", form, "--method", method),
                *("--llm", "openai", "--base-url", server.url, "--llm-model", "large"),
                *("--prices", "prices.json", "--output", "timetable.json"),
            )
        assert (result.exit_code, result.stderr) == (0, "")
        assert f"courses, by {method}\n" in result.stdout
        assert "\nTurns" in result.stdout and "\nPrice" in result.stdout
        assert json.loads(Path("timetable.json").read_text())["method"] == method

    def test_a_timetable_that_is_not_finished_is_an_error(self, run, form):
        done = {"thought": "", "tool": "", "inputs": {}, "done": True}
        with in_a_thread(lambda _: completion(done)) as server:
            result = run(
                *("timetable", "--form", form, "--method", "react", "--json"),
                *("--llm", "openai", "--base-url", server.url, "--output", "timetable.json"),
            )
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: the timetable is not finished: at least 12 credits")
        assert json.loads(result.stdout)["run"]["done"] is False
        assert "(timetable.json is not written)" in " ".join(result.stderr.split())
        assert not Path("timetable.json").exists()

    @pytest.mark.parametrize("method", ["plan", "react"])
    @pytest.mark.skipif(os.name == "nt", reason="no SIGINT to oneself")
    def test_an_interruption_tells_how_far_it_came(self, run, form, method, monkeypatch, capsys):
        added = []

        def adding(board, course):
            if len(added) == 2:
                os.kill(os.getpid(), signal.SIGINT)
            added.append(course)
            return add(board, course)

        add = Board.add
        monkeypatch.setattr(Board, "add", adding)
        told = ["timetable", "--form", form, "--method", method, "--output", "timetable.json"]
        with in_a_thread(self.answer) as server:
            told += ["--llm", "openai", "--base-url", server.url]
            with pytest.raises(KeyboardInterrupt):
                app.main(told, standalone_mode=False)
        said = capsys.readouterr()
        assert said.err.strip() == "Interrupted. Until then:"
        assert f"\n{added[0]} " in said.out and f"\n{added[1]} " in said.out
        assert "\nTokens" in said.out
        assert not Path("timetable.json").exists()

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--method", "plan"], "--method plan needs a language model on a server"),
            (["--method", "react", "--llm", "offline"], "the offline one cannot choose courses"),
            (["--method", "plan", "--planner-model", "a@http://127.0.0.1:9"], "needs a language"),
            (["--llm", "openai"], "A language model goes with --method plan or react."),
        ],
    )
    def test_options_that_do_not_go_together(self, run, form, options, said):
        result = run("timetable", "--form", form, *options)
        assert result.exit_code == 2
        assert said in " ".join(result.stderr.split())


class TestErrors:
    def test_a_conflict_is_named_and_nothing_is_written(self, run, form):
        Path("timetable.json").write_text("as it was")
        text = (
            "no Monday, no Tuesday, no Wednesday, no Thursday, without exams, at least 16 credits"
        )
        result = run("timetable", text, "--form", form, "--output", "timetable.json")
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: nothing fits these rules together: ")
        assert "at least 16 credits" in result.stderr
        assert Path("timetable.json").read_text() == "as it was"

    @pytest.mark.parametrize(
        ("document", "said"),
        [
            ('{"year": 9}', "field 'year' must be a whole number from 1 to 6, got 9"),
            ('{"avoid": ["Sun 1"]}', "field 'avoid' must be"),
            ('{"fixed": ["ST-10"]}', "course 'ST-10' is unknown"),
            ('{"fixed": ["ST-101"], "avoid": ["Mon"]}', "fixed has ST-101"),
            ("{", "not JSON"),
        ],
    )
    def test_a_form_that_cannot_be_used(self, run, document, said):
        Path("form.json").write_text(document)
        result = run("timetable", "--form", "form.json")
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: form.json")
        assert said in result.stderr

    @pytest.mark.parametrize("which", ["form.json", "own.jsonl", "./sub/../form.json"])
    def test_what_is_read_is_not_overwritten(self, run, form, which):
        few = load_courses()[:120]
        Path("own.jsonl").write_text("".join(json.dumps(c.to_dict()) + "\n" for c in few))
        Path("sub").mkdir()
        before = Path(which).read_bytes()
        result = run("timetable", "--form", form, "--courses", "own.jsonl", "--output", which)
        assert result.exit_code == 1
        assert "which is read (give --output another name)" in " ".join(result.stderr.split())
        assert Path(which).read_bytes() == before

    def test_nothing_is_understood(self, run, form):
        result = run("timetable", "Abracadabra!", "--form", form)
        assert result.exit_code == 1
        assert "nothing of the text is understood: 'Abracadabra'" in result.stderr
        assert run("timetable", " ", "--form", form).exit_code == 2

    def test_a_place_that_cannot_be_written(self, run, form):
        result = run("timetable", "--form", form, "--output", "gone/timetable.json")
        assert result.exit_code == 1
        assert "its folder does not exist" in result.stderr
