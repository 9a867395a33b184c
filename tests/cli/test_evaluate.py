from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pytest

from cnp_router.evaluation.metrics import RANKING
from cnp_router.history import History, Mashup

KEYS = {
    "requests": None,
    "skipped": None,
    "dated": None,
    "with_date": None,
    "days": None,
    "n_mashups": None,
    "learned_from": None,
    "ranking": " ".join(RANKING),
    "recommendation": "precision recall f1 mean_apis",
    "categories": "precision recall f1",
    "recipients": "target_recall recall mean p50 p95 total",
    "calibration": "ece brier",
    "threshold": None,
    "fallback_rate": None,
    "complete_if_sure": None,
    "nothing_fits_rate": None,
    "latency_ms": "p50 p95",
}


LEARNED = "Warning: 20 of 20 requests are among those the model learned from: the figures are of no"


@pytest.fixture
def evaluate(run, files, sample_model):
    def evaluate(*arguments):
        return run("evaluate", "--model", sample_model, "--history", "held-out.jsonl", *arguments)

    return evaluate


def test_figures_of_what_was_learned_from_are_warned_of(evaluate, run, sample):
    History(sample.history[:20]).write("held-out.jsonl")
    result = evaluate("--json", "--html", "seen.html")
    assert result.stderr.startswith(LEARNED)
    assert json.loads(result.stdout)["learned_from"] == 20
    page = Path("seen.html").read_text()
    first = page.index("Warning: 20 of 20 requests are among those the model learned from")
    assert first < page.index("20 past requests")
    assert "had not seen" not in page
    assert "none of which" not in page
    strange = [
        Mashup(f"n{n}", f"{m.description} ({n})", m.apis) for n, m in enumerate(sample.history)
    ]
    History(strange[:5]).write("held-out.jsonl")
    result = evaluate("--html", "new.html")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "none of which the router had learned from" in Path("new.html").read_text()


def test_the_keys(evaluate):
    result = evaluate("--json")
    assert result.exit_code == 0
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


def test_dates_are_given_unless_undated(evaluate, monkeypatch):
    from cnp_router.training import LearnedRouter

    asked, score = [], LearnedRouter.score

    def recorded(self, request, known=(), *, date=None):
        asked.append(date)
        return score(self, request, known, date=date)

    monkeypatch.setattr(LearnedRouter, "score", recorded)
    line = {"id": "m", "description": "Photos on a map.", "apis": ["flickr", "google-maps"]}
    Path("dated.jsonl").write_text(json.dumps(line | {"date": "2012-02-29"}))
    arguments = ("--history", "dated.jsonl", "--complete", "--json")
    document = json.loads(evaluate(*arguments).stdout)
    assert (document["dated"], document["with_date"]) == (True, 1)
    # Once to evaluate, and twice to complete.
    assert asked.count(datetime.date(2012, 2, 29)) == 3
    asked.clear()
    document = json.loads(evaluate(*arguments, "--undated").stdout)
    assert (document["dated"], document["with_date"]) == (False, 1)
    assert set(asked) == {None}
    assert "\nWith a date   0, which the router was not given\n" in evaluate("--undated").stdout


def test_the_table(evaluate):
    result = evaluate()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["Requests", "20"]
    assert max(map(len, lines)) <= 80
    assert "% of the requests, whose confidence is below 0.6\nIf sure " in result.stdout
    assert (
        "% of the others have recipients that hold all they needed\nNothing fits " in result.stdout
    )
    for keys in KEYS.values():
        for key in (keys or "").split():
            # What it is in words, the figure, and its name in JSON.
            (row, *_) = (line for line in lines if line.endswith(f"  {key}"))
            assert len(row.split()) > 4


def test_each_figure_has_words_of_its_own(evaluate):
    _, *groups = evaluate().stdout.split("\n\n")
    assert len(groups) == sum(keys is not None for keys in KEYS.values())
    for group in groups:
        labels = [line.rsplit(maxsplit=2)[0] for line in group.splitlines()[1:]]
        assert len(labels) == len(set(labels))


HITS = ["hit@1", "hit@5", "hit@10"]


def test_completion_is_one_more_key(evaluate):
    document = json.loads(evaluate("--json", "--complete").stdout)
    completion = document.pop("completion")
    assert set(document) == set(KEYS)
    assert list(completion) == ["requests", "text", "graph", "both"]
    assert all(list(completion[name]) == HITS for name in ("text", "graph", "both"))
    assert 0 < completion["requests"] < document["requests"]
    for hits in (completion[name] for name in ("text", "graph", "both")):
        assert 0 <= hits["hit@1"] <= hits["hit@5"] <= hits["hit@10"] <= 1


def test_the_table_of_completion(evaluate):
    completion = json.loads(evaluate("--json", "--complete").stdout)["completion"]
    lines = evaluate("--complete").stdout.splitlines()
    assert any(f"hidden in each of {completion['requests']} mashups" in line for line in lines)
    assert [line.split() for line in lines[-5:-3]] == [["first"] * 3, ["1", "5", "10"]]
    words = {"text": "from the text", "graph": "from the other APIs", "both": "from both"}
    for line, name in zip(lines[-3:], words, strict=True):
        said, *figures = line.rsplit(maxsplit=3)
        assert said.strip() == words[name]
        assert figures == [f"{completion[name][hit]:.3f}" for hit in HITS]


def test_completion_with_nothing_to_complete(evaluate, run, sample, sample_model):
    alone = [m for m in sample.history if len(m.apis) == 1][:3]
    History(alone).write("alone.jsonl")
    arguments = ("evaluate", "--model", sample_model, "--history", "alone.jsonl", "--complete")
    completion = json.loads(run(*arguments, "--json").stdout)["completion"]
    assert completion["requests"] == 0
    assert completion["both"] == dict.fromkeys(HITS)
    assert run(*arguments).stdout.splitlines()[-1].split() == ["from", "both", "-", "-", "-"]


def test_mashups_of_other_apis_are_counted(evaluate):
    asked = History.read("held-out.jsonl")
    History([*asked[:3], Mashup("x", "rain", ("rainfall",))]).write("more.jsonl")
    result = evaluate("--history", "more.jsonl", "--json")
    assert result.exit_code == 1
    assert "duplicate mashup id" in result.stderr
    History([Mashup("x", "rain", ("rainfall",))]).write("more.jsonl")
    document = json.loads(evaluate("--history", "more.jsonl", "--json").stdout)
    assert (document["requests"], document["skipped"]) == (20, 1)


def test_both_are_required(run):
    assert run("evaluate", "--model", "m").exit_code == 2
    assert run("evaluate", "--history", "h").exit_code == 2


def test_a_report_page(evaluate):
    result = evaluate("--html", "report.html", "--json")
    assert result.exit_code == 0
    assert result.stderr.endswith("Page: report.html\n")
    assert json.loads(result.stdout)["requests"] == 20
    html = Path("report.html").read_text()
    assert "Recall against recipients" in html
    assert re.search(
        r"learned from 680 past requests over 149 APIs \(.*model\); requests from", html
    )
    assert "requests from held-out.jsonl; threshold of the confidence 0.6" in html
    assert "cnp-router evaluate --learning-curve" in html


def test_a_report_page_that_cannot_be_written_is_told_before_the_work(run):
    arguments = ("evaluate", "--model", "none", "--history", "none")
    result = run(*arguments, "--html", "nowhere/report.html")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nowhere/report.html: its folder does not exist" in result.stderr


def test_the_learning_curve(run, files, sample, tmp_path):
    from cnp_router.training import fit_router

    fit_router(sample.catalog, sample.history[:20], n_jobs=1).save("small")
    arguments = ("evaluate", "--model", "small", "--history", "held-out.jsonl", "--learning-curve")
    result = run(*arguments, "--json", "--html", "report.html", "--target-recall", 0.7)
    document = json.loads(result.stdout)
    points = document["learning_curve"]["points"]
    assert [point["mashups"] for point in points] == [0, 15, 20]
    assert {point["recipients"]["target_recall"] for point in points} == {0.7}
    assert points[-1]["ranking"] == document["ranking"]
    assert "What more history is worth" in Path("report.html").read_text()
    lines = run(*arguments).stdout.splitlines()
    assert "Fitted again on parts of the past mashups (learning curve)" in lines
    assert [line.split()[0] for line in lines[-3:]] == ["0", "15", "20"]
