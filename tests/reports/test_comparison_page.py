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
