"""The benchmark of orders in results and definitions: with references, none changes anything."""

from __future__ import annotations

import json


def test_orders_change_what_a_model_reads_and_nothing_else(tmp_path, capsys):
    from benchmarks import run

    file = tmp_path / "figures.json"
    assert run.main(["injection", "--limit", "1", "--json", str(file)]) == 0
    places = json.loads(file.read_text())["places"]
    assert "| result: the text " in capsys.readouterr().out
    for place, row in places.items():
        of_result = place.startswith("result")
        assert row["text, read"] == row["variants"] == 1
        assert row["text, changed"] == of_result
        assert row["references, read"] == (not of_result)
        assert row["references, changed"] == 0
