from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from cnp_router.evaluation import Comparison, ComparisonRow, Method, comparison_tables, write_report
from cnp_router.evaluation.comparison_report import REPORT_FILES, check_report
from cnp_router.evaluation.comparison_tables import answered_by, markdown, ratios
from cnp_router.evaluation.comparison_trouble import trouble_rows, warnings_of
from cnp_router.evaluation.metrics import SetScores
from cnp_router.exceptions import DataFileError, MissingExtraError


def row(protocol, announce, cost, recall, organise="api", **more):
    return ComparisonRow(
        method=Method(protocol, announce, organise),
        rounds=7,
        tokens_in=1000.0 * cost,
        tokens_out=100.0 * cost,
        messages=2.0 * cost,
        model_calls=1.0 * cost,
        recipients=10.0 * cost,
        mean_apis=1.5,
        seconds=0.1,
        stages={
            "category": None,
            "bid": None if recall is None else SetScores(0.01, recall, 0.02),
            "final": SetScores(0.25, 0.4, 0.3),
        },
        **more,
    )


@pytest.fixture
def comparison():
    return Comparison(
        requests=7,
        skipped=0,
        contractors={"api": 1345},
        model="tiny",
        is_offline=False,
        tokens_are="server",
        rows=(
            row("learned", "routed", 0, None),
            row("contractor-led", "broadcast", 1000, 0.8),
            row("contractor-led", "routed", 25, 0.76),
        ),
    )


def test_the_tables(comparison):
    tokens, scores, sizes, both = comparison_tables(comparison)
    assert tokens.text().split("\n") == [
        "Tokens of a request",
        "",
        "                                    broadcast                 routed",
        "method                 in      out      total      in    out   total",
        "--------------  ---------  -------  ---------  ------  -----  ------",
        "learned                 -        -          -       0      0       0",
        "contractor-led  1,000,000  100,000  1,100,000  25,000  2,500  27,500",
    ]
    assert [line.split() for line in scores.text().split("\n")[5:]] == [
        ["learned", "4", "-", "-", "-", ".250", ".400", ".300"],
        ["contractor-led", "3", ".010", ".800", ".020", ".010", ".760", ".020"],
        ["contractor-led", "4", ".250", ".400", ".300", ".250", ".400", ".300"],
    ]
    assert [line.split() for line in sizes.text().split("\n")[5:]] == [
        ["learned", "-", "-", "1.50", "0.0"],
        ["contractor-led", "1.50", "10,000.0", "1.50", "250.0"],
    ]
    assert [line.split() for line in both.text().split("\n")[5:]] == [
        ["contractor-led", "40.0", "40.0", "40.0", ".950", "1.000"],
    ]


def test_group_titles_end_above_their_last_columns(comparison):
    for table in comparison_tables(comparison):
        over, head = table.text().split("\n")[2:4]
        assert over == over.rstrip()
        assert len(over) == len(head)
        for title, _ in table.groups:
            end = over.index(title) + len(title)
            assert head[end - 1] != " "
            assert head[end : end + 2].strip() == ""


def test_one_announcement_alone(comparison):
    routed = replace(comparison, rows=comparison.rows[::2])
    tables = comparison_tables(routed)
    assert len(tables) == 3
    assert "broadcast" not in "".join(table.text() for table in tables)


def test_ratios(comparison):
    broadcast, routed = comparison.rows[1:]
    assert ratios(broadcast, routed) == {
        "tokens": 40.0,
        "messages": 40.0,
        "model_calls": 40.0,
        "bid_recall": pytest.approx(0.95),
        "final_recall": 1.0,
    }
    nothing = ratios(broadcast, comparison.rows[0])
    assert nothing == {
        "tokens": None,
        "messages": None,
        "model_calls": None,
        "bid_recall": None,
        "final_recall": 1.0,
    }


def test_it_says_who_answered(comparison):
    assert answered_by(comparison) == "The model 'tiny' answered. Tokens are counted by the server."
    offline = replace(comparison, is_offline=True, model="offline", tokens_are="estimated")
    assert "no measure of a language model's quality" in answered_by(offline)
    assert answered_by(offline) in markdown(offline)


def test_markdown(comparison):
    text = markdown(replace(comparison, skipped=3))
    assert "7 requests (3 skipped)" in text
    assert "## Contractors by api: 1,345" in text
    assert "| method         | broadcast in | broadcast out |" in text
    assert "invented" not in text
    troubled = (*comparison.rows[:2], row("contractor-led", "routed", 25, 0.76, late=2, failed=1))
    assert (
        "| contractor-led routed by api |             0 |            1 |            2 |"
        in markdown(replace(comparison, rows=troubled))
    )
    assert "without the rounds that failed" not in text


def nothing(protocol, announce):
    """Return a row of which all rounds failed."""
    return ComparisonRow.of(Method(protocol, announce, "api"), [], failed_rounds=7)


def test_failed_rounds_are_told(comparison):
    rows = (*comparison.rows[:2], replace(comparison.rows[2], rounds=5, failed_rounds=2))
    failed = replace(comparison, rows=rows)
    assert "means over them, without the rounds that failed and what these cost." in markdown(
        failed
    )
    assert trouble_rows(failed) == [
        ["method", "failed rounds", "failed calls", "late replies", "invented names"],
        ["contractor-led routed by api", "2", "0", "0", "0"],
    ]
    assert trouble_rows(comparison) == []
    assert comparison.to_dict()["trouble"] == []


def test_a_method_of_which_all_rounds_failed_has_no_figures(comparison, tmp_path):
    failed = replace(comparison, rows=(*comparison.rows[:2], nothing("contractor-led", "routed")))
    tokens, _, sizes, both = comparison_tables(failed)
    assert tokens.rows[1] == ("contractor-led", "1,000,000", "100,000", "1,100,000", *"---")
    assert sizes.rows[1] == ("contractor-led", "1.50", "10,000.0", "-", "-")
    assert both.rows == (("contractor-led", *"-----"),)
    write_report(failed, tmp_path / "report")
    only = replace(comparison, rows=(nothing("single-agent", "broadcast"),))
    write_report(only, tmp_path / "only")


def test_warnings_from_five_percent_on(comparison):
    def told(**more):
        rows = (replace(comparison.rows[2], **more),)
        return warnings_of(replace(comparison, rows=rows))

    assert told(failed=5, cfps=100) == []
    assert told(failed=6, cfps=100) == [
        "contractor-led routed by api: 6 of 100 calls for proposals failed (6.0%). "
        "Who failed could not bid."
    ]
    assert told(rounds=95, failed_rounds=5) == []
    assert told(rounds=94, failed_rounds=6) == [
        "contractor-led routed by api: 6 of 100 rounds failed (6.0%). "
        "Its means are over the others."
    ]
    assert told(late=90, invented=90, cfps=100) == []


def test_over_which_requests_step_3_is(comparison):
    auto = replace(row("auto", "routed", 1, 0.4), negotiated=2)
    all_of_them = replace(comparison.rows[2], negotiated=7)
    tables = comparison_tables(replace(comparison, rows=(auto, all_of_them)))
    note = "Step 3 of auto is a mean over the 2 of 7 requests that were negotiated."
    assert [table.notes for table in tables] == [(), (note,), ()]
    assert tables[1].text().endswith(f"\n\n{note}")
    assert tables[1].markdown().endswith(f"\n\n{note}")


def test_organisations_have_tables_of_their_own(comparison):
    both = replace(
        comparison,
        contractors={"api": 1345, "category": 133},
        rows=(*comparison.rows, row("contractor-led", "routed", 9, 0.7, organise="category")),
    )
    tables = comparison_tables(both)
    assert [table.organise for table in tables] == ["api"] * 4 + ["category"] * 3
    assert "## Contractors by category: 133" in markdown(both)


class TestReport:
    def test_the_files(self, comparison, tmp_path):
        folder = tmp_path / "new" / "report"
        write_report(comparison, folder)
        assert sorted(file.name for file in folder.iterdir()) == sorted(REPORT_FILES)
        assert json.loads((folder / "comparison.json").read_text()) == comparison.to_dict()
        assert (folder / "comparison.md").read_text() == markdown(comparison)
        for name in REPORT_FILES[2:]:
            data = (folder / name).read_bytes()
            assert data.startswith(b"\x89PNG")
            assert len(data) > 10_000

    def test_several_organisations_and_nothing_but_learned(self, comparison, tmp_path):
        rows = (*comparison.rows, row("contractor-led", "routed", 9, 0.7, organise="category"))
        several = replace(comparison, contractors={"api": 1345, "category": 133}, rows=rows)
        write_report(several, tmp_path / "several")
        write_report(replace(comparison, rows=comparison.rows[:1]), tmp_path / "learned")

    def test_other_files_stay_and_an_earlier_report_is_replaced(self, comparison, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        write_report(comparison, tmp_path)
        write_report(replace(comparison, requests=8), tmp_path)
        assert (tmp_path / "notes.txt").read_text() == "mine"
        assert json.loads((tmp_path / "comparison.json").read_text())["requests"] == 8

    @pytest.mark.parametrize("name", REPORT_FILES)
    def test_what_is_no_report_is_not_replaced(self, comparison, tmp_path, name):
        (tmp_path / name).write_text("mine")
        with pytest.raises(DataFileError, match="is there already, and is no part of a report"):
            write_report(comparison, tmp_path)
        assert [file.name for file in tmp_path.iterdir()] == [name]
        assert (tmp_path / name).read_text() == "mine"

    def test_a_file_is_no_folder(self, tmp_path):
        (tmp_path / "report").write_text("mine")
        with pytest.raises(DataFileError, match="is a file"):
            check_report(tmp_path / "report")

    def test_a_place_that_cannot_be_written(self, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(DataFileError, match=r"notes.txt: is a file \(name another folder"):
            check_report(tmp_path / "notes.txt" / "a" / "report")
        check_report(tmp_path / "a" / "b" / "report")
        assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]

    def test_the_nearest_folder_that_is_there_is_tried(self, tmp_path, monkeypatch):
        def refused(*, dir):
            raise PermissionError(13, f"Permission denied: {dir}")

        monkeypatch.setattr("tempfile.TemporaryFile", refused)
        with pytest.raises(DataFileError, match=rf"report: .*denied: {tmp_path} \(name another"):
            check_report(tmp_path / "a" / "report")

    def test_without_matplotlib_it_is_said_at_once(self, comparison, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingExtraError, match="plot"):
            write_report(comparison, tmp_path / "report")
        assert not (tmp_path / "report").exists()
