from __future__ import annotations

from dataclasses import replace

from cnp_router.evaluation import Method
from cnp_router.reports.comparison_page import comparison_page
from tests.reports.report_pages import comparison


def test_what_was_negotiated_in_part_is_left_out_and_named():
    whole = comparison()
    routed = whole.rows[1]
    auto = replace(routed, method=Method("auto", "routed", "api"), rounds=7, with_bids=2)
    page = comparison_page(replace(whole, rows=(*whole.rows, auto)))
    after_bidding, final = page.sections[0].figures
    said = "Without auto: 2 of 7 requests were negotiated."
    assert said in after_bidding.says
    assert after_bidding.table.notes == (said,)
    assert "auto, routed" not in [row[0] for row in after_bidding.table.rows]
    assert "auto, routed" in [row[0] for row in final.table.rows]
    assert said not in final.says


def test_where_a_broadcast_asks_nobody_routing_is_said_to_be_dearer():
    broadcast, routed, *others = comparison().rows
    rows = (replace(broadcast, tokens_in=90.0, tokens_out=9.0, uncalled=4, rounds=7), routed)
    page = comparison_page(replace(comparison(), rows=(*rows, *others)))
    assert page.sections[0].title == "What routing saves, and where it is dearer"
    said = "manager-led: routing is dearer than a broadcast, which asks nobody in 4 of 7 requests."
    assert page.sections[0].text == (said,)
    assert said in [note for s in page.sections for table in s.tables for note in table.notes]
    assert comparison_page(comparison()).sections[0].title == "What routing saves"


def test_a_single_agent_has_candidates_and_no_bids():
    tables = [table for s in comparison_page(comparison()).sections for table in s.tables]
    scores = next(table for table in tables if "F1" in table.columns and "stage" in table.columns)
    stages = {(row[0], row[1]) for row in scores.rows}
    assert ("single-agent", "candidates") in stages
    assert ("single-agent", "after bidding") not in stages
    assert ("manager-led", "after bidding") in stages
    assert any(note.startswith("Candidates: ") for note in scores.notes)
