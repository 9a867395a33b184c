from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from cnp_router.history import History, Mashup


@pytest.fixture(autouse=True)
def quick(fits, files):
    pass


FILES = ("--catalog", "apis.jsonl", "--history", "mashups.jsonl")


def test_what_it_says(run, tmp_path):
    result = run("fit", *FILES, "--output", "model")
    assert (result.exit_code, result.stderr) == (0, "")
    first, *decides, second, third = result.stdout.splitlines()
    assert first == "Learned from  680 mashups over 149 APIs"
    assert " ".join(" ".join(decides).split()) == (
        "What decides 680 mashups: history decides, and specifications what is new; 100% of what "
        "they used was used more than once"
    )
    assert second.startswith("Fitted in     ")
    assert third.startswith("Saved to      model (")
    assert run("recommend", "--model", "model", "rain").exit_code == 0


def test_the_sample(run, fits, sample):
    assert run("fit", "--sample", "--output", "model").exit_code == 0
    catalog, history, _ = fits[0]
    assert (catalog, history) == (sample.catalog, sample.history)


def test_a_catalog_alone(run, fits, sample):
    result = run("fit", "--catalog", "apis.jsonl", "--output", "model")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Learned from  0 mashups over 149 APIs\n")
    assert fits[0][:2] == (sample.catalog, None)


def test_a_pattern_that_the_shell_has_written_out(run):
    for name in ("part-0.jsonl", "part-1.jsonl"):
        Path(name).write_bytes(Path("mashups.jsonl").read_bytes())
    told = run("fit", *FILES[:2], "--history", "part-0.jsonl", "part-1.jsonl", "--output", "m")
    assert told.exit_code == 2
    assert "(part-1.jsonl) A pattern must be in quotation marks" in told.stderr
    assert "quotation" not in run("fit", "--catalog", "apis.jsonl", "x", "--output", "m").stderr


def test_a_request_that_is_longer_than_a_name_of_a_file(run):
    told = run("recommend", "--model", "m", "rain " * 1_000, "more")
    assert told.exit_code == 2
    assert "Got unexpected extra argument (more)" in told.stderr


def test_whether_a_file_may_be_read_is_found_out_by_reading_it(run, monkeypatch):
    monkeypatch.setattr(os, "access", lambda place, mode: mode == os.F_OK)
    assert run("fit", *FILES, "--output", "model").stderr.startswith("Error: model: cannot be")
    assert run("recommend", "--model", "model", "rain").exit_code == 1


def test_a_pattern_means_all_files_that_match(run, fits, sample):
    lines = [line + b"\n" for line in Path("mashups.jsonl").read_bytes().splitlines()]
    for number, part in enumerate((lines[:300], lines[300:])):
        Path(f"part-{number}.jsonl.gz").write_bytes(gzip.compress(b"".join(part)))
    files = ("--catalog", "apis.jsonl", "--history", "part-*.jsonl.gz")
    result = run("fit", *files, "--output", "model")
    assert (result.exit_code, result.stderr) == (0, "")
    assert fits[0][1] == sample.history


def test_a_pattern_that_nothing_matches(run, fits):
    files = ("--catalog", "apis.jsonl", "--history", "part-*.jsonl.gz")
    result = run("fit", *files, "--output", "model")
    assert (result.exit_code, fits) == (1, [])
    assert "part-*.jsonl.gz: no file matches (check the pattern)" in result.stderr


def test_a_history_of_which_nothing_is_left_is_none(run, fits):
    History([Mashup("x", "rain", ("rainfall",))]).write("strange.jsonl")
    files = ("--catalog", "apis.jsonl", "--history", "strange.jsonl", "--unknown", "skip")
    assert run("fit", *files, "--output", "model").exit_code == 0
    assert fits[0][1] is None


def test_one_is_one(run):
    History([Mashup("x", "rain", ("openweather",))]).write("one.jsonl")
    files = ("--catalog", "apis.jsonl", "--history", "one.jsonl", "--output", "model")
    assert run("fit", *files).stdout.startswith("Learned from  1 mashup over 149 APIs\n")


def test_what_the_history_is_good_for(run, fits, monkeypatch, sample_router):
    decides = "15 mashups: specifications decide, history breaks ties"
    monkeypatch.setitem(sample_router.summary, "decides", decides)
    result = run("fit", *FILES, "--output", "model")
    assert result.stdout.splitlines()[1] == f"What decides  {decides}"


def test_what_is_not_read(run, fits, monkeypatch, sample_router):
    monkeypatch.setitem(sample_router.summary, "boilerplate", 35)
    said = " ".join(run("fit", *FILES, "--output", "model").stdout.split())
    assert "Not read 35 patterns of words that say nothing of what is asked" in said


def test_the_options_reach_the_library(run, fits, sample):
    files = ("--catalog", "apis.jsonl", "--history", "held-out.jsonl", "--history", "more.jsonl")
    History([Mashup("x", "rain", ("openweather",))]).write("more.jsonl")
    assert run("fit", *files, "--output", "m", "--seed", 7, "--jobs", 2).exit_code == 0
    _, history, options = fits[0]
    assert len(history) == 21
    assert (options["random_state"], options["n_jobs"]) == (7, 2)


def test_unknown_apis(run, fits, tmp_path):
    more = History([Mashup("x", "rain", ("rainfall",))])
    more.write("more.jsonl")
    result = run("fit", *FILES, "--history", "more.jsonl", "--output", "model")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "Error: more.jsonl, line 1: unknown API 'rainfall' "
        "(add it to the catalog, or leave such mashups out: fit does with --unknown skip, "
        "Python with unknown='skip')\n"
    )
    assert not (tmp_path / "model").exists()
    result = run("fit", *FILES, "--history", "more.jsonl", "--output", "m", "--unknown", "skip")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Learned from  680 mashups (1 skipped) over 149 APIs\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Give --catalog (and --history, if there is one), or --sample."),
        (FILES[2:], "Give --catalog (and --history, if there is one), or --sample."),
        (("--sample", *FILES), "--sample takes no --catalog and no --history."),
        ((*FILES, "--seed", "-1"), "Invalid value for '--seed'"),
        ((*FILES, "--unknown", "ignore"), "Invalid value for '--unknown'"),
    ],
)
def test_usage(run, fits, arguments, message):
    result = run("fit", *arguments, "--output", "model")
    assert (result.exit_code, result.stdout, fits) == (2, "", [])
    assert f"\nError: {message}" in result.stderr


def test_the_output_is_required(run):
    assert run("fit", "--sample").exit_code == 2


class TestExistingOutput:
    def test_a_model_is_refused_before_fitting(self, run, fits):
        run("fit", "--sample", "--output", "model")
        result = run("fit", "--sample", "--output", "model")
        assert (result.exit_code, result.stdout, len(fits)) == (1, "", 1)
        assert result.stderr == (
            "Error: model: a model is there already (choose another place or overwrite)\n"
        )

    def test_a_model_is_replaced_where_told(self, run):
        run("fit", "--sample", "--output", "model")
        assert run("fit", "--sample", "--output", "model", "--overwrite").exit_code == 0

    @pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
    def test_what_is_no_model_is_never_replaced(self, run, tmp_path, overwrite):
        (tmp_path / "letters").mkdir()
        (tmp_path / "letters" / "dear.txt").write_text("Dear all")
        result = run("fit", "--sample", "--output", "letters", *overwrite)
        assert (result.exit_code, result.stdout) == (1, "")
        assert (tmp_path / "letters" / "dear.txt").read_text() == "Dear all"

    @pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
    def test_nor_is_a_file(self, run, tmp_path, overwrite):
        (tmp_path / "letter").write_text("Dear all")
        result = run("fit", "--sample", "--output", "letter", *overwrite)
        assert (result.exit_code, result.stdout) == (1, "")
        assert (tmp_path / "letter").read_text() == "Dear all"

    @pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
    @pytest.mark.parametrize("output", ["no/model", "letter/model", "m" * 300])
    def test_what_could_not_be_written_is_refused_before_fitting(
        self, run, fits, tmp_path, output, overwrite
    ):
        (tmp_path / "letter").write_text("Dear all")
        result = run("fit", "--sample", "--output", output, *overwrite)
        assert (result.exit_code, result.stdout, fits) == (1, "", [])
        assert result.stderr.startswith(f"Error: {output}: ")

    def test_a_link_is_refused_before_fitting(self, run, fits, tmp_path):
        run("fit", "--sample", "--output", "model")
        (tmp_path / "link").symlink_to(tmp_path / "model", target_is_directory=True)
        result = run("fit", "--sample", "--output", "link", "--overwrite")
        assert (result.exit_code, len(fits)) == (1, 1)
        assert "a link is there" in result.stderr

    def test_the_size_is_that_of_the_model_alone(self, run, fits, tmp_path):
        first = run("fit", "--sample", "--output", "model").stdout
        (tmp_path / "model" / "online.sqlite").write_bytes(b"0" * 5_000_000)
        second = run("fit", "--sample", "--output", "model", "--overwrite").stdout
        assert first.splitlines()[-1] == second.splitlines()[-1]


@pytest.mark.parametrize(
    ("catalog", "history", "message"),
    [
        ("no.jsonl", "mashups.jsonl", "no.jsonl: no such file (check the path)"),
        ("apis.jsonl", "no.jsonl", "no.jsonl: no such file (check the path)"),
        (".", "mashups.jsonl", ".: is a directory (name a file inside it)"),
        ("apis.jsonl", "broken.jsonl", "broken.jsonl, line 1: missing field 'description'"),
    ],
)
def test_unusable_files(run, tmp_path, catalog, history, message):
    (tmp_path / "broken.jsonl").write_text('{"id": "m1", "apis": ["twilio"]}\n')
    result = run("fit", "--catalog", catalog, "--history", history, "--output", "model")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {message}")
    assert not (tmp_path / "model").exists()
