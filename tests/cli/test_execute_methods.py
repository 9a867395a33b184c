"""The command execute: plans by a planner, one agent, shared context, proposals."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from cnp_router.cli.execution_run import ExecutionRun
from cnp_router.cli.llm_options import Chat
from cnp_router.testing import ScriptedChatModel

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


def test_the_help_has_each_option_in_a_group(run):
    from cnp_router.cli.execute import execute

    said = run("execute", "--help").stdout
    assert "\nOptions:\n" not in said
    for title in execute.sections.values():
        assert f"\n{title}:\n  --" in said
    for option in execute.params:
        name = option.opts[0]
        shown = [
            line
            for line in said.split("\n")
            if f"{line} ".startswith((f"  {name} ", f"  {name}, "))
        ]
        assert len(shown) == (name != "text"), name


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
        (["--method", "plan", "--announce", "broadcast"], "--announce, --resume and --date go"),
        (["--method", "react", "--dry-run"], "--method react has no plan"),
        (["--planner-model", "m@http://h"], "--planner-model goes with --method plan, not"),
        (["--method", "plan", "--manager-model", "m@http://h"], "goes with --method rounds, not"),
        (["--method", "react", "--executor-model", "m@http://h"], "with --method rounds or plan"),
        (["--executor-model", "m@localhost:80"], "its server has to begin with http:// or https"),
        (["--executor-model", "m@ftp://h"], "its server has to begin with http:// or https"),
        (["--executor-model", "m@"], "its server has to begin with http:// or https"),
    ],
)
def test_options_that_do_not_go_together(execute, arguments, problem):
    result = execute("Rain?", *arguments)
    assert result.exit_code == 2 and problem in result.stderr


def test_a_name_with_an_at_that_is_no_server_is_said(execute):
    how = [
        "--llm",
        "openai",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--dry-run",
        "--plan",
        "p.json",
    ]
    Path("p.json").write_text(json.dumps({"request": "r", "jobs": [{"id": "a", "task": "t"}]}))
    said = "--executor-model good@nonsense: all of it is taken as the name of a model"
    assert said in execute(*how, "--executor-model", "good@nonsense").stderr
    assert execute(*how, "--executor-model", "good@20240620").stderr == ""


def test_a_tool_that_is_not_there_is_said_with_file_and_job(execute):
    Path("p.json").write_text(
        json.dumps({"request": "r", "jobs": [{"id": "a", "api": "desk__forcast"}]})
    )
    for more in ([], ["--dry-run"], ["--method", "plan"], ["--method", "plan", "--dry-run"]):
        said = execute("--plan", "p.json", *more)
        assert said.exit_code == 1
        assert "p.json: job 'a': unknown API 'desk__forcast' (did you mean" in said.stderr


def test_a_plan_that_is_only_shown_says_what_it_has_cost(execute):
    Path("prices.json").write_text(
        json.dumps({"currency": "USD", "per": 1, "models": {"offline": {"in": 1, "out": 1}}})
    )
    how = [REQUEST, "--method", "plan", "--dry-run", "--prices", "prices.json"]
    drawn = execute(*how)
    assert "Tokens  planner" in drawn.stdout and "Price   " in drawn.stdout
    document = execute(*how, "--json")
    assert json.loads(document.stdout).keys() == {"request", "jobs"}
    assert "Tokens: planner" in document.stderr and "Price: " in document.stderr
    Path("plan.json").write_text(document.stdout)
    assert "Tokens" not in execute("--plan", "plan.json", "--dry-run").stdout  # nobody was asked


def test_the_stand_in_is_named_where_it_could_not_do_it(execute):
    Path("p.json").write_text(
        json.dumps({"request": "r", "jobs": [{"id": "a", "task": "Be kind to somebody."}]})
    )
    cure = "the offline stand-in chooses only what is certain: --llm asks a model"
    assert cure in execute("--plan", "p.json", "--method", "plan").stderr
    assert cure in execute("Be kind to somebody.", "--method", "react").stderr


def test_what_took_too_long_says_which_option_helps(execute):
    said = execute(REQUEST, "--method", "plan", "--timeout", "0.000001")
    assert "took longer than 1e-06 s (--timeout allows more)" in said.stderr
    assert "0 of 0" not in said.stdout


WRITING = '''
import asyncio
from pathlib import Path


async def order(what: str) -> str:
    """Order food from the grocer."""
    Path(f"ordered-{what}").touch()
    if what == "milk":
        await asyncio.sleep(60)
    return f"ordered {what}"
'''


def test_what_was_changed_is_said_whatever_became_of_the_job(run, monkeypatch):
    """Of a run in turns that is interrupted in its second call: both calls."""
    Path("tools.py").write_text(WRITING)
    entry = {"module": "tools.py", "functions": ["order"], "effects": {"order": "writes"}}
    Path("mcp.json").write_text(json.dumps({"functions": {"shop": entry}}))
    plan = {"request": "r", "jobs": [{"id": "s", "task": "Order flour and milk."}]}
    Path("p.json").write_text(json.dumps(plan))
    acts = [
        {"thought": "", "tool": "shop__order", "inputs": {"what": what}, "done": False}
        for what in ("flour", "milk")
    ]
    monkeypatch.setattr(Chat, "model", lambda self, catalog: ScriptedChatModel(acts))
    main = ExecutionRun.main

    async def interrupted(self):
        task = asyncio.create_task(main(self))
        while not Path("ordered-milk").exists() and not task.done():
            await asyncio.sleep(0.01)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None  # as of Ctrl-C

    monkeypatch.setattr(ExecutionRun, "main", interrupted)
    printed = []
    monkeypatch.setattr("cnp_router.cli.execution_report.echo_pairs", printed.extend)
    how = ["--plan", "p.json", "--method", "plan", "--sources", "mcp.json", "--allow-write"]
    with pytest.raises(KeyboardInterrupt):
        run("execute", *how)
    assert [pair for pair in printed if "hanged" in pair[0]] == [
        ("Changed", 'job s: shop__order {"what": "flour"}'),
        ("May have changed", 'job s: shop__order {"what": "milk"}: given up while it ran'),
    ]


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
    before = Path("timetable.json").read_text()
    shown = run("execute", "--revise", "timetable.json", "no Monday", "--dry-run").stdout
    assert "Changed  avoid: Mon" in shown
    assert Path("timetable.json").read_text() == before
    for more in (
        ["--plan", "x.json"],
        ["--method", "plan"],
        ["--timeout", "300"],
        ["--allow-write"],
    ):
        refused = run("execute", "--revise", "timetable.json", "no Monday", *more)
        assert refused.exit_code == 2
        assert f"{more[0]} does not go with --revise" in refused.stderr
    assert Path("timetable.json").read_text() == before
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
