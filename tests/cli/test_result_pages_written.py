"""The option --html of execute, negotiate and replay."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tool_servers import wait_until

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

TOOLS = '''
import asyncio
from pathlib import Path


def forecast(city: str = "Oslo") -> dict[str, str]:
    """Forecast the weather: rain, wind and sun in a city."""
    return {"city": city, "sky": "<b>rain</b>"}


def fail() -> str:
    """Break."""
    raise ValueError("it is broken")


async def wait(seconds: float = 60.0) -> str:
    """Wait for a while."""
    Path("waiting").touch()
    await asyncio.sleep(seconds)
    return "over"
'''
EFFECTS = dict.fromkeys(("forecast", "fail", "wait"), "reads")
LOOK = {"id": "look", "api": "desk__forecast", "inputs": {"city": "Oslo"}}


@pytest.fixture
def execute(run):
    Path("tools.py").write_text(TOOLS)
    entry = {"module": "tools.py", "functions": list(EFFECTS), "effects": EFFECTS}
    Path("mcp.json").write_text(json.dumps({"functions": {"desk": entry}}))

    def execute(*arguments, jobs=None):
        if jobs is not None:
            Path("plan.json").write_text(json.dumps({"request": "The sky?", "jobs": jobs}))
            arguments = ("--plan", "plan.json", *arguments)
        return run("execute", "--sources", "mcp.json", "--html", "page.html", *arguments)

    return execute


def page():
    return Path("page.html").read_text()


def test_an_execution(execute):
    result = execute("--json", jobs=[LOOK])
    assert (result.exit_code, result.stderr) == (0, "Page: page.html\n")
    assert json.loads(result.stdout)["done"]
    assert "Done: an execution" in page()
    assert "&lt;b&gt;rain&lt;/b&gt;" in page()
    assert "<b>" not in page()


@pytest.mark.parametrize("method", ["rounds", "plan", "react"])
def test_every_method(execute, method):
    result = execute("Forecast the weather in Oslo", "--method", method)
    assert "an execution</h1>" in page(), result.stderr


def test_a_dry_run_is_the_page_of_a_plan(execute):
    result = execute("--dry-run", jobs=[LOOK])
    assert result.exit_code == 0
    assert result.stdout.endswith("\nPage  page.html\n")
    assert "A plan, not executed" in page()


def test_also_where_jobs_failed(execute):
    result = execute(jobs=[LOOK, {"id": "no", "api": "desk__fail"}])
    assert result.exit_code == 1
    assert "1 of 2" in page()
    assert "it is broken" in page()


def test_also_where_it_was_interrupted(execute, process):
    execute("--dry-run", jobs=[LOOK, {"id": "wait", "api": "desk__wait", "after": ["look"]}])
    started = process(
        "execute", "--sources", "mcp.json", "--plan", "plan.json", "--html", "page.html"
    )
    with started:
        assert wait_until(Path("waiting").exists)
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=60)
    assert started.returncode == 130
    assert "1 done, 1 cancelled" in page()


def test_a_place_that_cannot_be_written_is_said_before_anything_is_called(execute, run):
    Path("tools.py").write_text(TOOLS)
    result = run("execute", "x", "--sources", "mcp.json", "--html", "none/page.html")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "none" in result.stderr


def test_it_does_not_go_with_a_revision(execute):
    assert execute("no Friday", "--revise", "timetable.json").exit_code == 2


def test_a_round(run, sample_model):
    result = run("negotiate", "--model", sample_model, "--html", "page.html", "Text me: rain.")
    assert result.exit_code == 0
    assert result.stdout.endswith("\nPage  page.html\n")
    assert "A round of the Contract Net" in page()
    assert "contractor-led" in page()


def test_a_round_that_fails_has_a_page_too(run, sample_model):
    result = run(
        "negotiate",
        "--model",
        sample_model,
        "--html",
        "page.html",
        "--budget-messages",
        "3",
        "Rain",
    )
    assert result.exit_code == 1
    assert "A round that failed" in page()
    assert "Page: page.html\n" in result.stderr


@pytest.mark.usefixtures("files")
def test_a_replay(run):
    result = run("replay", "--trajectories", "trajectories.jsonl", "--html", "page.html")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("\nPage  page.html\n")
    assert "Coverage over the log" in page()
    log = ("--trajectories", "trajectories.jsonl", "--html", "page.html")
    result = run("replay", *log, "--json")
    assert (result.stderr, json.loads(result.stdout)["steps"] > 0) == ("Page: page.html\n", True)
