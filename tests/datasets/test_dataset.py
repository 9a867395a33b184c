from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from cnp_router.datasets import ReadReport, Tally, load_sample


def test_a_tally_adds_up():
    tally = Tally(10, {"unknown API": 3, "repeated id": 1})
    assert tally.kept == 6
    assert str(tally) == "6 of 10 (dropped: 3 unknown API, 1 repeated id)"
    assert str(Tally(4)) == "4 of 4"


def test_a_report_has_a_line_for_each_kind():
    assert str(ReadReport(Tally(1), Tally(2, {"no API": 1}))).splitlines() == [
        "APIs: 1 of 1",
        "mashups: 1 of 2 (dropped: 1 no API)",
    ]


def test_a_dataset_is_frozen_hashable_and_travels():
    sample = load_sample()
    with pytest.raises(AttributeError):
        sample.name = "other"
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert hash(sample) == hash(load_sample())


def test_it_is_shown_on_one_line_and_as_a_table():
    sample = replace(
        load_sample(), name="<b>", report=ReadReport(Tally(1), Tally(2, {"no API": 1}))
    )
    assert repr(sample) == (
        f"Dataset('<b>', {len(sample.catalog)} APIs, {len(sample.history)} mashups, "
        "from 'written for cnp-router')"
    )
    html = sample._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<td>1 of 2 (dropped: 1 no API)</td>" in html
