"""The command execute: plans by a planner, one agent, shared context, proposals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

TOOLS = '''
from pathlib import Path


def forecast(city: str) -> dict[str, str]:
    """Forecast the weather: rain, wind and sun in a city."""
    with Path("asked.txt").open("a") as out:
        out.write(f"{city}\\n")
    return {"city": city, "sky": "rain"}


def place(name: str) -> dict[str, str]:
    """Find a place on the map by its name."""
    return {"name": name, "country": "Norway"}
'''
SOURCES = {
    "module": "tools.py",
    "functions": ["forecast", "place"],
    "effects": {"forecast": "reads", "place": "reads"},
    "context": {"forecast": "public"},
}
REQUEST = 'Forecast the weather in "Oslo", and find the place "Bergen" on the map'


@pytest.fixture
def execute(run, tmp_path):
    Path("tools.py").write_text(TOOLS)
    Path("mcp.json").write_text(json.dumps({"functions": {"desk": SOURCES}}))

    def execute(*arguments, **options):
        return run("execute", "--sources", "mcp.json", *arguments, **options)

    return execute


def n_asked():
    return len(Path("asked.txt").read_text().split())


def test_a_planner_makes_the_jobs_and_they_are_done(execute):
    said = json.loads(execute(REQUEST, "--method", "plan", "--json").stdout)
    assert said["done"] and said["method"] == "plan-and-execute"
    apis = {job["api"] for job in said["execution"]["jobs"]}
    assert apis == {"desk__forecast", "desk__place"}
    assert said["ledger"]["by_role"]["planner"]["tokens_in"] > 0


def test_a_plan_is_printed_edited_and_run_again(execute):
    drawn = execute(REQUEST, "--method", "plan", "--dry-run", "--json").stdout
    assert not Path("asked.txt").exists()
    plan = json.loads(drawn)
    job = next(job for job in plan["jobs"] if job["api"] == "desk__forecast")
    job["inputs"] = {"city": "Bodø"}
    Path("plan.json").write_text(json.dumps(plan))
    said = execute("--plan", "plan.json", "--method", "plan")
    assert "Bodø" in said.stdout and Path("asked.txt").read_text() == "Bodø\n"


def test_one_agent_chooses_call_after_call(execute):
    said = execute('Forecast the weather in "Oslo"', "--method", "react").stdout
    assert "1 called" in said and "single-agent" in said


def test_what_is_shared_is_not_asked_again(execute):
    for _ in range(2):
        said = execute('The weather in "Oslo"', "--context", "shared.sqlite", "--json").stdout
    assert n_asked() == 1
    assert json.loads(said)["avoided"] == 1
    assert not Path("shared.sqlite-wal").exists()  # the store was closed
    execute('The weather in "Oslo"')  # without it, executions share nothing
    assert n_asked() == 2


def test_a_store_that_is_gone_is_one_clear_warning_and_nothing_is_lost(execute):
    said = execute('The weather in "Oslo"', "--context", "nowhere/shared.sqlite")
    assert said.exit_code == 1
    assert said.stderr.startswith("Error: context store nowhere/shared.sqlite: cannot be used")
    assert not Path("asked.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--proven"], "--proven goes with --method plan"),
        (["--profile", "p.txt"], "--profile goes with --method plan or react"),
        (["--method", "plan", "--resume", "state"], "--resume and --date go with --method rounds"),
        (["--method", "react", "--dry-run"], "--method react has no plan"),
    ],
)
def test_options_that_do_not_go_together(execute, arguments, problem):
    result = execute("Rain?", *arguments)
    assert result.exit_code == 2 and problem in result.stderr


def test_plans_that_worked_are_said_and_run_with_proven(execute, run):
    run("import", "--sources", "mcp.json", "--output", "apis.jsonl")
    run("fit", "--catalog", "apis.jsonl", "--output", "model")
    how = ["--method", "plan", "--model", "model"]
    execute('Forecast the weather in "Oslo"', *how)
    anew = execute('Forecast the weather in "Bodø"', *how)
    assert "a plan has worked for" in anew.stderr
    assert "planner" in anew.stdout
    again = execute('Forecast the weather in "Vardø"', *how, "--proven")
    assert "Vardø" in again.stdout and "planner" not in again.stdout


def test_a_proposal_is_revised_in_its_file(run):
    form = {
        "department": "Economics and Business", "year": 2, "min_credits": 8, "max_credits": 12,
        "first_period": True, "gaps": True, "free_day": False, "interests": "statistics",
    }  # fmt: skip
    Path("form.json").write_text(json.dumps(form))
    run("timetable", "--form", "form.json", "--output", "timetable.json")
    before = Path("timetable.json").read_text()
    failed = run("execute", "--revise", "timetable.json", "purple elephants")
    assert failed.exit_code == 1
    assert "nothing of the text is understood" in failed.stderr
    assert Path("timetable.json").read_text() == before
    said = run("execute", "--revise", "timetable.json", "no Friday").stdout
    assert "Changed  avoid: Fri" in said
    assert json.loads(Path("timetable.json").read_text())["form"]["avoid"] == ["Fri"]
    assert "Say what is to be changed" in run("execute", "--revise", "t.json").stderr


def test_who_plans_is_told_what_was_asked_before_and_nobody_else(execute, run, monkeypatch):
    from cnp_router.planning import Planner

    told = []
    real = Planner.plan

    async def plan(self, *arguments, **options):
        told.append(self.remembered)
        return await real(self, *arguments, **options)

    monkeypatch.setattr(Planner, "plan", plan)
    run("import", "--sources", "mcp.json", "--output", "apis.jsonl")
    run("fit", "--catalog", "apis.jsonl", "--output", "model")
    how = ["--method", "plan", "--model", "model", "--user", "ann"]
    for city, more in (
        ("Oslo", ["--session", "s1"]),
        ("Bodø", ["--session", "s1", "--no-learn"]),
        ("Vardø", []),
        ("Bergen", ["--user", "bob"]),
    ):
        execute(f'Forecast the weather in "{city}"', *how, *more)
    assert told[0] == told[3] == ""
    assert [each["remembered"] for each in json.loads(told[1])] == ["session", "user"]
    assert [each["remembered"] for each in json.loads(told[2])] == ["user"]
    [before] = json.loads(told[2])
    assert before["data"] == {
        "request": 'Forecast the weather in "Oslo"', "done": True, "by": ["desk__forecast"],
    }  # fmt: skip
    run("forget", "--model", "model", "--user", "ann")
    execute('Forecast the weather in "Oslo"', *how)
    assert told[-1] == ""
