"""The benchmark of scale: it runs on tiny sizes, and a step that fails fails alone."""

from __future__ import annotations

import argparse
import doctest
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import scale, scale_child, scale_rankers, scale_tables
from benchmarks.peers import Peer, peer
from benchmarks.processes import megabytes
from benchmarks.scale_child import limited
from benchmarks.scale_quality import Lines, peer_figures
from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.routing import HistoryKNNRouter, SpecificationRouter

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("module", [scale_child, peer])
def test_examples(module):
    found = doctest.testmod(module)
    assert (found.attempted > 0, found.failed) == (True, 0)


def test_all_of_it_on_tiny_sizes(tmp_path):
    file = tmp_path / "results" / "scale.json"
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "run.py", "scale", "--quick", "--json", file],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    results = json.loads(file.read_text())
    steps = results["rows"]["4556x1345"]["steps"]
    assert not [step for step, found in steps.items() if "failed" in found]
    ours = {"learned", "learned, opened", "learned, learning"}
    assert set(steps) == {"data", *ours, *scale_rankers.RANKERS}
    opened = steps["learned, opened"]
    assert 0 < opened["load_seconds"] <= opened["first_answer_seconds"]
    assert set(opened["quality"]) == {"dev-random", "dev-later"}
    assert 0 < steps["learned, learning"]["observe_seconds"] < 60
    assert 0 < steps["BM25"]["quality"]["dev-later"]["recall@20"] <= 1
    assert len(results["growth"]) == 4
    assert "growth with text length" in done.stdout
    assert results["dask"]
    (index,) = results["vectors"].values()
    assert 0.5 < index["recall@40"] <= 1
    learned = results["observing"]["observing"]["learned"]
    observed = [f"the rest observed, {how}" for how in ("50 a call", "200 a call", "in one call")]
    none = ["none", "100 observed, 10 a call", "fitted on 100"]
    assert list(learned) == ["four fifths", *observed, "fitted on all", *none]
    assert all(0 < kinds["dev-random"]["recall@20"] <= 1 for kinds in learned.values())


class TestLimited:
    def test_a_result(self):
        found = limited("operator:add", 1, 2, seconds=60)
        assert (found["result"], found["step_seconds"] > 0) == (3, True)

    def test_too_slow(self):
        assert limited("time:sleep", 60, seconds=0.5)["failed"] == "not done within 0 s"

    @pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
    def test_too_large(self):
        found = limited("time:sleep", 60, seconds=60, gigabytes=0.001)
        assert found["failed"] == "more than 0.001 GB of memory"

    @pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
    def test_what_is_mapped_is_nobodys(self, tmp_path):
        large = tmp_path / "large"
        large.write_bytes(bytes(40_000_000))
        code = (
            "import mmap, sys; file = open(sys.argv[1], 'rb'); "
            "there = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ); "
            "sum(there[::4096]); print(flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(large)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as mapping:
            assert mapping.stdout.readline() == b"\n"
            own = megabytes(mapping.pid, mapped=False)
            assert 1 < own < 35
            assert megabytes(mapping.pid) > own + 40
            mapping.stdin.close()
            mapping.wait()
            assert megabytes(mapping.pid, mapped=False) == megabytes(mapping.pid) == 0

    def test_an_error(self):
        found = limited("operator:truediv", 1, 0, seconds=60)
        assert found["failed"] == "ZeroDivisionError: division by zero"

    def test_a_crash(self):
        assert limited("os:_exit", 3, seconds=60)["failed"] == "ended with exit code 3"


@pytest.fixture
def options(tmp_path):
    return argparse.Namespace(
        seed=0,
        data=None,
        json=tmp_path / "scale.json",
        quick=True,
        only=["4556x1345", "50000x20000"],
        routers=["learned", "BM25"],
        asked=5,
        growth=100,
        limit=60.0,
        peer_limit=60.0,
        memory=12.0,
    )


@pytest.fixture
def answers(monkeypatch):
    """What each step returns, by the name of its function; steps that were done."""
    answers = {
        "make": {"apis": 60, "mashups": 120},
        "fit": {"fit_seconds": 1.5},
        "serve": {"p50": 2.0, "load_seconds": 0.1, "quality": {}},
        "learn": {"observe_seconds": 0.25},
        "rank": {"fit_seconds": 0.5, "p50": 1.0, "quality": {}},
    }

    def limited(where, *arguments, seconds, gigabytes):
        answer = answers[where.partition(":")[2]]
        if isinstance(answer, BaseException):
            raise answer
        return {**answer, "step_seconds": 0.0}

    monkeypatch.setattr(scale, "limited", limited)
    return answers


class TestRows:
    def test_a_step_that_fails_is_reported_and_the_others_go_on(self, options, answers, capsys):
        answers["fit"] = {"failed": "not done within 60 s"}
        found = scale.run(options)
        steps = found["rows"]["4556x1345"]["steps"]
        assert list(steps) == ["data", "learned", "BM25"]
        printed = capsys.readouterr().out
        assert "learned: not done within 60 s" in printed
        assert printed.count("| not done within 60 s |") == 2

    def test_a_row_without_data_is_left(self, options, answers, capsys):
        answers["make"] = {"failed": "OSError: no space"}
        assert list(scale.run(options)["rows"]["50000x20000"]["steps"]) == ["data"]
        assert "4556x1345: no data: OSError: no space" in capsys.readouterr().out

    def test_what_was_done_is_kept_when_it_is_stopped(self, options, answers):
        answers["serve"] = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            scale.run(options)
        kept = json.loads(options.json.read_text())
        assert kept["rows"]["4556x1345"]["steps"]["learned"]["fit_seconds"] == 1.5

    @pytest.mark.parametrize("step", ["make", "observe"])
    def test_observing_that_fails_is_said(self, options, answers, capsys, step):
        options.only = ["observing"]
        answers[step] = {"failed": "not done within 60 s"}
        assert scale.run(options)["observing"]
        assert "observing: not done within 60 s." in capsys.readouterr().out

    def test_absent_peers_are_said(self, options, answers, monkeypatch, capsys):
        options.routers = ["bm25s"]
        monkeypatch.setattr(scale_rankers, "absence", lambda name: "not installed")
        assert scale.run(options)["rows"]["4556x1345"]["steps"]["bm25s"]["skipped"]
        assert "| not installed |" in capsys.readouterr().out

    def test_the_summary_has_what_was_measured(self, options, answers, capsys):
        options.quick = False
        scale.run(options)
        printed = capsys.readouterr().out
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()]
        assert ["route p50 ms at 1,345", "2.00", "3", "1"] in rows
        assert ["4556x1345", "", "0.250", "", "", "", "", ""] in rows
        assert "at 1,000,000" not in printed


class TestGrowth:
    def test_exponents(self, capsys):
        points = {
            str(i): {"apis": apis, "mashups": n, "length": length, "fit_seconds": apis * n**2}
            for i, (apis, n, length) in enumerate(
                [(5, 10, 1), (10, 5, 1), (10, 10, 0.5), (10, 10, 1)]
            )
        }
        points["large"] = {"failed": "not done within 9 s"}
        scale_tables.print_growth(points)
        printed = capsys.readouterr().out
        rows = {
            line.split("|")[1].strip(): line.split("|")[4].strip()
            for line in printed.splitlines()
            if line.startswith("| growth")
        }
        assert rows == {
            "growth with mashups": "2.00",
            "growth with contractors": "1.00",
            "growth with text length": "0.00",
        }
        assert "large: not done within 9 s." in printed


class TestRankers:
    CATALOG = Catalog(
        [
            Api("maps", "Maps", "Shows places on a map."),
            Api("sms", "SMS", "Sends a text message."),
            Api("mail", "Mail", "Sends letters."),
        ]
    )
    HISTORY = History(
        [
            Mashup("m1", "bars on a map", ("maps",)),
            Mashup("m2", "text me the news", ("sms",)),
            Mashup("m3", "a map by text", ("maps", "sms")),
        ]
    )

    @pytest.mark.parametrize(
        ("kind", "router"),
        [
            (scale_rankers.Bm25, SpecificationRouter),
            (scale_rankers.NearestRequests, HistoryKNNRouter),
        ],
    )
    def test_they_rank_as_the_routers_do(self, kind, router):
        ranker = kind()
        ranker.fit(self.CATALOG, self.HISTORY)
        places, scores = ranker.top("a text message on the map", 2)
        assert np.all(np.diff(scores) <= 0)
        best = router(self.CATALOG, self.HISTORY).score("a text message on the map").top(2)
        assert [self.CATALOG.ids[i] for i in places] == [api for api, _ in best]
        assert ranker.scores("a text message on the map")[places] == pytest.approx(scores)

    def test_nothing_is_found_for_unknown_words(self):
        ranker = scale_rankers.NearestRequests()
        ranker.fit(self.CATALOG, self.HISTORY)
        places, _ = ranker.top("zzz", 5)
        assert len(places) == 0

    def test_lines_are_drawn_on_the_requests_given(self):
        class Fixed(Peer):
            def fit(self, catalog, history):
                pass

            def scores(self, request):
                return np.array([0.9, 0.5, 0.1])

        asked = [Mashup("a", "x", ("maps", "sms")), Mashup("b", "y", ("maps", "sms"))]
        lines = Lines(Fixed(), self.CATALOG, asked)
        assert 0.1 < lines.threshold <= 0.5
        assert lines.depth == 2
        figures = peer_figures(Fixed(), lines, self.CATALOG, asked)
        assert (figures["f1"], figures["recipient_recall"], figures["mean_recipients"]) == (1, 1, 2)
