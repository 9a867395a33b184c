"""The track of agent logs runs, on little data. What it says is not tested here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from cnp_router.prediction import PREDICTORS
from cnp_router.trajectories import Step, Trajectory, write_trajectories

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "import sys; from benchmarks import next_tool, run;"
    "next_tool._TRAJECTORIES, next_tool._TIMED, next_tool._TOOLS = 6, 50, (5,);"
    "sys.exit(run.main(sys.argv[1:]))"
)


def benchmark(*arguments):
    return subprocess.run(
        [sys.executable, "-c", SMALL, "next_tool", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_log_is_replayed_after_the_others(tmp_path):
    steps = tuple(Step(tool, input_tokens=10) for tool in ("a", "b") * 4)
    for name in ("one", "two"):
        log = [Trajectory(f"{name}-{n}", "Rain?", steps) for n in range(6)]
        write_trajectories(tmp_path / f"trajectories-{name}.jsonl", log)
    file = tmp_path / "results.json"
    done = benchmark("--data", tmp_path, "--json", file, "--plots", tmp_path / "plots")
    assert (done.returncode, done.stderr) == (0, "")
    assert "| one " in done.stdout
    results = json.loads(file.read_text())
    assert list(results["rounds"]) == ["one", "two"]
    assert results["rounds"]["one"]["warm"] == 6
    assert results["rounds"]["one"]["reliability"]["context"][0]["n"] > 0
    assert [one["rules"] for one in results["rules"]["two"]] == ["default", "AutoTool's guards"]
    drawn = {file.name for file in (tmp_path / "plots").iterdir()}
    assert drawn == {"next-tool-risk.svg", "next-tool-calibration.svg"}
    learners = [name for name in PREDICTORS if name != "always-ask"]
    assert [row["predictor"] for row in results["speed"]] == learners


def test_one_log_is_too_few(tmp_path):
    write_trajectories(tmp_path / "trajectories-one.jsonl", [Trajectory("t", "Rain?", ())])
    done = benchmark("--data", tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: {tmp_path}: too few logs of trajectories (1) "
        "(put at least two files trajectories-x.jsonl there)\n"
    )
