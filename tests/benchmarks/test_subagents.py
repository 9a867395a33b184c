"""The benchmark of agents as tools: its rows, and what must hold of them."""

from __future__ import annotations

import json

import pytest

from benchmarks import run as entry


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    file = tmp_path_factory.mktemp("subagents") / "figures.json"
    argv = ["subagents", "--limit", "12", "--seed", "1", "--json", str(file)]
    assert entry.main(argv) == 0
    return json.loads(file.read_text())["results"]


def test_the_rows(results):
    rows = results["rows"]
    assert all(list(row) == ["method", "tokens", "f1", "cost"] for row in rows)
    assert len({row["method"] for row in rows}) == len(rows)
    assert all("model)" in row["method"] for row in rows)  # which one answered is always said
    assert all(row["tokens"] > 0 and 0 <= row["f1"] <= 1 and row["cost"] > 0 for row in rows)


def test_a_quarter_of_the_tokens_with_the_same_answers(results):
    agents = results["agents"]
    assert agents["tools"] >= 97
    scripted = agents["same_answers"]["scripted"]
    assert scripted["same_answer"] == 1.0
    assert scripted["share_of_tokens"] <= 1 / 4
    assert scripted["largest_share_same_answer"] < 1
    one, many = agents["methods"][:2]
    assert many["tokens"] <= one["tokens"] / 4
    assert one["f1"] == many["f1"] == 1.0  # the script calls what is needed


def test_kinds_and_their_weighted_mean(results):
    for rows in results["agents"]["kinds"].values():
        by_kind = {row["kind"]: row for row in rows}
        kinds = [kind for kind in ("simple", "medium", "complex") if kind in by_kind]
        mean = by_kind["weighted mean"]
        whole = sum(by_kind[kind]["share"] for kind in kinds)
        assert mean["cost_agents"] == pytest.approx(
            sum(by_kind[k]["share"] * by_kind[k]["cost_agents"] for k in kinds) / whole
        )
        assert all(by_kind[k]["cost_agents_mixed"] < by_kind[k]["cost_one_large"] for k in kinds)


def test_rounds_on_two_levels_and_contractors_of_all_sizes(results):
    names = [row["method"] for row in results["levels"]]
    assert sum("category managers" in name for name in names) == 3
    sizes = {row["method"].split()[2] for row in results["sizes"]}
    assert sizes == {"1", "2", "5", "10", "20", "50"}
    for row in (*results["levels"], *results["sizes"]):
        assert {"bid_recall", "proposals_per_truth", "messages", "f1"} <= set(row)
    flat = {row["method"]: row for row in results["levels"]}
    broadcast = flat["flat, broadcast (offline model)"]
    managed = flat["category managers, broadcast (offline model)"]
    assert managed["messages"] < broadcast["messages"]
    assert managed["tokens_of_manager"] < broadcast["tokens_of_manager"]
