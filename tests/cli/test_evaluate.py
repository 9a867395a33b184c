from __future__ import annotations

import json

import pytest

from cnp_router.history import History, Mashup

KEYS = {
    "requests": None,
    "skipped": None,
    "ranking": "recall@5 recall@10 recall@20 recall@50 recall@100 ndcg@5 ndcg@10 map@10 "
    "complete@20",
    "recommendation": "precision recall f1 mean_apis",
    "categories": "precision recall f1",
    "recipients": "target_recall recall mean p50 p95 total",
    "calibration": "ece brier",
    "fallback_rate": None,
    "latency_ms": "p50 p95",
}


@pytest.fixture
def evaluate(run, files, sample_model):
    def evaluate(*arguments):
        return run("evaluate", "--model", sample_model, "--history", "held-out.jsonl", *arguments)

    return evaluate


def test_the_keys(evaluate):
    result = evaluate("--json")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    found = {k: " ".join(v) if isinstance(v, dict) else None for k, v in document.items()}
    assert found == KEYS
    assert (document["requests"], document["skipped"]) == (20, 0)
    assert document["recipients"]["target_recall"] == 0.9


def test_the_options_count(evaluate):
    document = json.loads(evaluate("--json", "--target-recall", 0.5, "--threshold", 1).stdout)
    assert document["recipients"]["target_recall"] == 0.5
    assert document["fallback_rate"] == 1
    arguments = ("--json", "--threshold", 1, "--fallback", "broadcast")
    assert json.loads(evaluate(*arguments).stdout)["recipients"]["mean"] == 149


def test_the_table(evaluate):
    result = evaluate()
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["requests", "20"]
    for group, keys in KEYS.items():
        assert any(line.startswith(group) for line in lines)
        for key in (keys or "").split():
            assert any(line.startswith(f"  {key} ") for line in lines)


def test_mashups_of_other_apis_are_counted(evaluate, sample):
    History([*sample.history[:3], Mashup("x", "rain", ("rainfall",))]).write("more.jsonl")
    result = evaluate("--history", "more.jsonl", "--json")
    assert result.exit_code == 1
    assert "duplicate mashup id" in result.stderr
    History([Mashup("x", "rain", ("rainfall",))]).write("more.jsonl")
    document = json.loads(evaluate("--history", "more.jsonl", "--json").stdout)
    assert (document["requests"], document["skipped"]) == (20, 1)


def test_both_are_required(run):
    assert run("evaluate", "--model", "m").exit_code == 2
    assert run("evaluate", "--history", "h").exit_code == 2
