from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace

import pytest

from cnp_router.evaluation import Comparison, ComparisonRow, Method, comparison_tables, write_report
from cnp_router.evaluation.comparison import RoundResult, TokensOf
from cnp_router.evaluation.metrics import SetScores
from cnp_router.evaluation.plots import PALETTE, recall_against_tokens
from cnp_router.evaluation.report import (
    REPORT_FILES,
    about,
    check_report,
    markdown,
    ratios,
    trouble_table,
    warnings_of,
)
from cnp_router.exceptions import DataFileError, MissingExtraError
from cnp_router.llm import Prices
from cnp_router.protocols import PROTOCOLS
from cnp_router.reports.drawing import SERIES
from tests.reports.report_pages import figures


def row(protocol, announcement, cost, recall, organisation="api", **more):
    return ComparisonRow(
        method=Method(protocol, announcement, organisation),
        rounds=7,
        tokens_in=1000.0 * cost,
        tokens_out=100.0 * cost,
        messages=2.0 * cost,
        model_calls=1.0 * cost,
        recipients=10.0 * cost,
        waves=float(cost > 0),
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
    tokens, scores, sizes, savings, *_ = comparison_tables(comparison)["api"]
    assert tokens.markdown().split("\n") == [
        "**Tokens of a request**",
        "",
        "| protocol       | announcement |        in |     out |     total |",
        "| :------------- | :----------- | --------: | ------: | --------: |",
        "| learned        | routed       |         0 |       0 |         0 |",
        "| contractor-led | broadcast    | 1,000,000 | 100,000 | 1,100,000 |",
        "| contractor-led | routed       |    25,000 |   2,500 |    27,500 |",
        "",
        "In: what models read. Out: what they wrote.",
    ]
    assert scores.columns == ("protocol", "stage", "announcement", "precision", "recall", "F1")
    assert scores.rows == (
        ("learned", "final set", "routed", ".250", ".400", ".300"),
        ("contractor-led", "after bidding", "broadcast", ".010", ".800", ".020"),
        ("contractor-led", "after bidding", "routed", ".010", ".760", ".020"),
        ("contractor-led", "final set", "broadcast", ".250", ".400", ".300"),
        ("contractor-led", "final set", "routed", ".250", ".400", ".300"),
    )
    assert sizes.columns == (
        *("protocol", "announcement", "messages", "contractors asked", "waves", "APIs"),
    )
    assert sizes.rows == (
        ("learned", "routed", "0", "0.0", "0.0", "1.50"),
        ("contractor-led", "broadcast", "2,000", "10,000.0", "1.0", "1.50"),
        ("contractor-led", "routed", "50", "250.0", "1.0", "1.50"),
    )
    assert savings.rows == (("contractor-led", "routed", "40.0", "40.0", "40.0", ".950", "1.000"),)


def test_titles_and_headings_say_what_they_mean_without_the_docs(comparison):
    tables = comparison_tables(comparison)["api"]
    words = " ".join(" ".join([t.title, *t.columns, *sum(t.rows, ())]) for t in tables)
    assert not re.search(r"\b(step|net|recall \d)\b", words)


def test_one_announcement_alone(comparison):
    routed = replace(comparison, rows=comparison.rows[::2])
    tables = comparison_tables(routed)["api"]
    assert tables
    assert "broadcast" not in "".join(table.markdown() for table in tables)


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
    assert about(comparison)[1] == "The model 'tiny' answered. Tokens are counted by the server."
    offline = replace(comparison, is_offline=True, model="offline", tokens_are="estimated")
    assert "do not measure a language model's quality" in about(offline)[1]
    assert about(offline)[1] in markdown(offline)


def test_markdown(comparison):
    text = markdown(replace(comparison, skipped=3))
    assert "7 requests (3 skipped)" in text
    assert "## Contractors by api: 1,345" in text
    assert "| protocol       | announcement |        in |     out |     total |" in text
    assert "hallucinated" not in text
    troubled = (*comparison.rows[:2], row("contractor-led", "routed", 25, 0.76, late=2, failed=1))
    assert (
        "| contractor-led routed by api |             0 |            1 |            2 |"
        in markdown(replace(comparison, rows=troubled))
    )
    assert "without the rounds that failed" not in text


def failed(reason, protocol="contractor-led", announcement="routed", rounds=7):
    """Return a row of which all rounds failed."""
    method = Method(protocol, announcement, "api")
    results = [RoundResult(method, f"m{i}", None, reason) for i in range(rounds)]
    return ComparisonRow.of(method, results)


def test_failed_rounds_and_the_most_frequent_reason_are_shown(comparison):
    reasons = {"the prompt has 9,000 tokens": 2, "nonsense": 1}
    rows = (*comparison.rows[:2], replace(comparison.rows[2], rounds=4, failures=reasons))
    some = replace(comparison, rows=rows)
    without = "means over them, without the rounds that failed and what these cost."
    assert without in markdown(some)
    table = trouble_table(some)
    assert table.columns == (
        *("method", "failed rounds", "failed calls", "late replies", "hallucinated names"),
    )
    assert table.rows == (("contractor-led routed by api", "3", "0", "0", "0"),)
    assert table.notes == (
        "contractor-led routed by api: 2 of 7 rounds failed with: the prompt has 9,000 tokens",
    )
    assert table.notes[0] in markdown(some)
    assert some.to_dict()["trouble"][0]["reason"] == "the prompt has 9,000 tokens"
    assert trouble_table(comparison) is None
    assert comparison.to_dict()["trouble"] == []


def test_reasons_that_differ_in_numbers_only_are_one():
    method = Method("single-agent", "routed", "api")
    errors = ["bad key", "a prompt of 9,000 tokens", "a prompt of 8,001 tokens", "m1: 5.5 s"]
    row = ComparisonRow.of(method, [RoundResult(method, e, None, e) for e in errors])
    assert row.failures == {"a prompt of 9,000 tokens": 2, "bad key": 1, "m1: 5.5 s": 1}
    assert (row.reason, row.failed_rounds) == ("a prompt of 9,000 tokens", 4)


def test_a_method_of_which_all_rounds_failed_has_no_figures(comparison, tmp_path):
    some = replace(comparison, rows=(*comparison.rows[:2], failed("nonsense")))
    tokens, _, sizes, savings, *_ = comparison_tables(some)["api"]
    assert tokens.rows[2] == ("contractor-led", "routed", *"---")
    assert sizes.rows[2] == ("contractor-led", "routed", *"----")
    assert savings.rows == (("contractor-led", "routed", *"-----"),)
    write_report(some, tmp_path / "report")
    only = replace(comparison, rows=(failed("nonsense", "single-agent", "broadcast"),))
    write_report(only, tmp_path / "only")


def test_warnings_from_five_percent_on(comparison):
    def warned(**more):
        rows = (replace(comparison.rows[2], **more),)
        return warnings_of(replace(comparison, rows=rows))

    assert warned(failed=5, cfps=100) == []
    assert warned(failed=6, cfps=100) == [
        "contractor-led routed by api: 6 of 100 calls for proposals failed (6.0%). "
        "Who failed could not bid."
    ]
    assert warned(rounds=95, failures={"nonsense": 5}) == []
    assert warned(rounds=94, failures={"nonsense": 6}) == [
        "contractor-led routed by api: 6 of 100 rounds failed (6.0%). "
        "Its means are over the others."
    ]
    assert warned(late=90, hallucinated=90, cfps=100) == []


def test_over_which_requests_the_means_after_bidding_are(comparison):
    auto = replace(row("auto", "routed", 1, 0.4), with_bids=2)
    all_of_them = replace(comparison.rows[2], with_bids=7)
    tables = comparison_tables(replace(comparison, rows=(auto, all_of_them)))["api"]
    note = "After bidding, auto has means over the 2 of 7 requests that were negotiated."
    assert [table.title for table in tables if note in table.notes] == [tables[1].title]
    assert tables[1].markdown().endswith(f"\n\n{note}")


def test_each_protocol_has_a_colour_of_its_own():
    for palette in (PALETTE, SERIES):
        assert len(set(palette)) == len(palette) >= len(PROTOCOLS)


def test_what_was_negotiated_in_part_does_not_stand_against_the_tokens_of_all(comparison):
    from matplotlib.figure import Figure

    auto = replace(row("auto", "routed", 1, 0.4), with_bids=2)
    some = replace(comparison, rows=(*comparison.rows[1:], auto))
    for stage, spots in (("bid", 2), ("final", 3)):
        axes = Figure().add_subplot()
        recall_against_tokens(axes, some, stage, PALETTE, paper="white")
        assert len(axes.collections) == spots


def test_routed_less_broadcast_is_paired(comparison):
    def results(announcement, tokens):
        method = Method("contractor-led", announcement, "api")
        made = [
            RoundResult(method, f"m{i}", replace(figures(), tokens_in=n, tokens_out=0))
            for i, n in enumerate(tokens)
        ]
        return method, [*made, RoundResult(method, "late", None, "too late")]

    (before, broadcast), (after, routed) = (
        results("broadcast", (200, 400, 600, 800)),
        results("routed", (100, 320, 480, 700)),
    )
    rows = (ComparisonRow.of(before, broadcast), ComparisonRow.of(after, routed, broadcast))
    assert rows[0].against_broadcast == {}
    found = rows[1].against_broadcast["tokens"]
    assert (found.n, found.mean) == (4, -100)
    half = 3.182446 * math.sqrt(800 / 3 / 4)  # t of 3 degrees of freedom
    assert (found.low, found.high) == pytest.approx((-100 - half, -100 + half), rel=1e-6)
    assert rows[1].standard_errors["tokens"] == pytest.approx(126.754, abs=0.001)
    some = replace(comparison, rows=rows)
    *_, paired, errors = comparison_tables(some)["api"]
    assert paired.rows == (
        ("contractor-led", "tokens", "-100", "-126", "-74", "4"),
        ("contractor-led", "recall", "+.000", "+.000", "+.000", "4"),
        ("contractor-led", "F1", "+.000", "+.000", "+.000", "4"),
    )
    assert errors.rows[1] == ("contractor-led", "routed", "127", ".000", ".000")
    document = some.to_dict()["rows"][1]
    assert document["routed_less_broadcast"]["tokens"]["mean"] == -100
    assert document["standard_errors"]["f1"] == 0


def test_it_says_what_was_run(comparison):
    assert "What was run" not in markdown(comparison)
    run = {"cnp-router": "1.2", "date": "2026-01-31", "target_recall": 0.9, "server": None}
    text = markdown(replace(comparison, run=run))
    assert "| target recall | 0.9        |" in text
    assert "| server        | no         |" in text
    assert replace(comparison, run=run).to_dict()["run"] == run


def test_a_price_of_no_tokens_does_not_say_that_a_server_counted_them(comparison):
    prices = Prices("USD", {})
    asked = replace(comparison.rows[2], paid=(TokensOf("manager", "tiny", 1, 1, "estimated", 0),))
    some = replace(
        comparison, prices=prices, tokens_are="estimated", rows=(comparison.rows[0], asked)
    )
    found = [row["price"]["tokens_are"] for row in some.to_dict()["rows"]]
    assert found == ["estimated", "estimated"]


def test_where_nothing_is_negotiated_coordinated_is_said_to_be_learned(comparison):
    some = (*comparison.rows, row("coordinated", "routed", 0, None))
    said = "coordinated has the scores of learned: "
    assert said in markdown(replace(comparison, rows=some))
    assert said not in markdown(comparison)
    other = replace(some[-1], stages={"category": None, "bid": None, "final": None})
    assert said not in markdown(replace(comparison, rows=(*comparison.rows, other)))


def test_what_is_free_of_tokens_is_seen_each_by_its_colour(comparison):
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    some = replace(comparison, rows=(*comparison.rows, row("coordinated", "routed", 0, None)))
    recall_against_tokens(axes, some, "final", PALETTE, paper="white")
    assert len({line.get_color() for line in axes.lines}) == 2


def test_organisations_have_tables_of_their_own(comparison):
    both = replace(
        comparison,
        contractors={"api": 1345, "category": 133},
        rows=(*comparison.rows, row("contractor-led", "routed", 9, 0.7, organisation="category")),
    )
    tables = comparison_tables(both)
    assert list(tables) == ["api", "category"]
    assert [len(each[0].rows) for each in tables.values()] == [3, 1]
    assert "## Contractors by category: 133" in markdown(both)


def test_in_a_notebook_a_comparison_is_a_table_that_is_escaped(comparison):
    hostile = "<img src=x onerror=alert(1)>"
    some = replace(comparison, model=hostile, rows=(*comparison.rows, failed(hostile)))
    page = some._repr_html_()
    assert "<img" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") == 2
    assert "<td>contractor-led broadcast by api</td><td>1,100,000</td>" in page


def test_reprs_are_one_readable_line(comparison):
    assert repr(comparison) == "Comparison(3 methods, 7 requests, answered by 'tiny')"
    assert repr(comparison.rows[2]) == (
        "ComparisonRow(contractor-led routed by api, 7 rounds, 0 failed)"
    )


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
        rows = (*comparison.rows, row("contractor-led", "routed", 9, 0.7, organisation="category"))
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
        with pytest.raises(DataFileError, match="is there already, and is not part of a report"):
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
        def refused(path):
            raise DataFileError(path, "cannot be written: Permission denied")

        monkeypatch.setattr("cnp_router.evaluation.report.check_writable", refused)
        with pytest.raises(DataFileError, match=rf"^{tmp_path}/[^/]+: .*denied"):
            check_report(tmp_path / "a" / "report")

    def test_without_matplotlib_it_is_said_at_once(self, comparison, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingExtraError, match="plot"):
            write_report(comparison, tmp_path / "report")
        assert not (tmp_path / "report").exists()
