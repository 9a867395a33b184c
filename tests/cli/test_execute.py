"""The command execute: what it calls, asks, prints, keeps and learns."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tool_servers import wait_until

from cnp_router.catalog import Api
from cnp_router.cli.live_view import LiveView, question
from cnp_router.execution import Approval

TOOLS = '''
import asyncio
from pathlib import Path


def forecast(city: str = "Oslo") -> dict[str, str]:
    """Forecast the weather: rain, wind and sun in a city."""
    return {"city": city, "sky": "rain"}


def send(to: str, text: str) -> str:
    """Send a text message to a phone."""
    with Path("sent.txt").open("a") as out:
        out.write(f"{to}: {text}\\n")
    return "sent"


def fail() -> str:
    """Break."""
    raise ValueError("it is broken")


async def wait(seconds: float = 60.0) -> str:
    """Wait for a while."""
    Path("waiting").touch()
    await asyncio.sleep(seconds)
    return "over"
'''
EFFECTS = {"forecast": "reads", "fail": "reads", "wait": "reads", "send": "writes"}
LOOK = {"id": "look", "api": "desk__forecast", "inputs": {"city": "Oslo"}}
TELL = {
    "id": "tell",
    "api": "desk__send",
    "inputs": {"to": "me", "text": {"$text": "It is {look#/sky}."}},
    "after": ["look"],
}
BREAK = {"id": "break", "api": "desk__fail"}
WAIT = {"id": "wait", "api": "desk__wait"}


@pytest.fixture
def tools(run, tmp_path):
    """Tools and sources in the working folder; returns a writer of plans."""
    Path("tools.py").write_text(TOOLS)
    entry = {"module": "tools.py", "functions": list(EFFECTS), "effects": EFFECTS}
    Path("mcp.json").write_text(json.dumps({"functions": {"desk": entry}}))

    def plan(*jobs):
        Path("plan.json").write_text(json.dumps({"request": "Text me the sky.", "jobs": jobs}))

    return plan


@pytest.fixture
def execute(run, tools):
    def execute(*arguments, **options):
        return run("execute", "--sources", "mcp.json", *arguments, **options)

    return execute


def sent():
    return Path("sent.txt").read_text() if Path("sent.txt").exists() else ""


def test_a_protocol_that_is_always_routed(execute, tools):
    tools(LOOK, TELL)
    how = ("--protocol", "learned", "--announce", "broadcast", "--dry-run")
    result = execute(*how, "What is the weather in Oslo?")
    assert (result.exit_code, result.stderr) == (0, "learned has no broadcast: it is routed.\n")


def test_a_plan(execute, tools):
    tools(LOOK, TELL)
    result = execute("--plan", "plan.json", "--allow-write")
    assert (result.exit_code, result.stderr) == (0, "")
    assert sent() == "me: It is rain.\n"
    assert "2 of 2 done" in result.stdout


def test_a_request(execute):
    result = execute("Forecast the weather with rain in a city.")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "desk__forecast" in result.stdout


def test_a_dry_run_calls_nothing(execute, tools):
    tools(LOOK, TELL)
    result = execute("--plan", "plan.json", "--dry-run", "--allow-write")
    assert result.exit_code == 0
    assert "2 jobs on 2 levels, at most 1 job at a time" in result.stdout
    assert sent() == ""
    tools({"id": "a", "task": "x", "after": ["b"]}, {"id": "b", "task": "x", "after": ["a"]})
    result = execute("--plan", "plan.json", "--dry-run")
    assert result.exit_code == 1
    assert "in a circle: 'a' -> 'b' -> 'a'" in result.stderr


def test_a_dry_run_says_what_would_be_refused(execute):
    refused = "desk__send: the request says what is not to be done"
    request = "Do not send a text message to 'me'"
    shown = execute(request, "--dry-run")
    assert shown.exit_code == 0
    assert f"Left out  {refused}" in shown.stdout
    document = execute(request, "--dry-run", "--json")
    assert [job["api"] for job in json.loads(document.stdout)["jobs"]] == ["desk__send"]
    assert f"Left out: {refused}" in document.stderr
    done = execute(request, "--allow-write")
    assert (done.exit_code, sent()) == (1, "")


def test_what_writes_is_not_called_where_nobody_can_be_asked(execute, tools):
    tools(LOOK, TELL)
    result = execute("--plan", "plan.json")
    assert (result.exit_code, sent()) == (1, "")
    assert "1 of 2 jobs not done: tell: nobody was there to approve it" in result.stderr
    assert "--allow-write" in result.stderr


def test_json_is_one_document_also_after_a_failure(execute, tools):
    tools(LOOK, BREAK)
    result = execute("--plan", "plan.json", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [job["state"] for job in document["jobs"]] == ["done", "failed"]
    assert document["jobs"][1]["acts"][0]["result"]["failure"]["kind"] == "tool"
    assert (document["done"], document["parallelism"], document["calls"]) == (False, 2, 2)


def test_it_goes_on_where_it_was(execute, tools):
    tools(LOOK, TELL)
    assert execute("--plan", "plan.json", "--resume", "state.jsonl").exit_code == 1
    result = execute("--plan", "plan.json", "--resume", "state.jsonl", "--allow-write")
    assert result.exit_code == 0
    assert "2 of 2 done, 1 of them before" in result.stdout
    again = execute("--plan", "plan.json", "--resume", "state.jsonl", "--allow-write")
    assert again.exit_code == 0
    assert sent() == "me: It is rain.\n"
    assert Path("state.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_model_learns_from_it(execute, run, tools):
    run("import", "--sources", "mcp.json", "--output", "apis.jsonl")
    run("fit", "--catalog", "apis.jsonl", "--output", "model")
    tools(LOOK)
    args = ("--plan", "plan.json", "--model", "model")
    assert execute(*args, "--no-learn").exit_code == 0
    assert not Path("model/online.sqlite").exists()
    assert execute(*args, "--user", "aiko").exit_code == 0
    result = run("recommend", "--model", "model", "Text me the sky.", "--json")
    assert json.loads(result.stdout)["recommendation"][0] == "desk__forecast"
    assert run("forget", "--model", "model", "--user", "aiko").exit_code == 0
    assert b"aiko" not in Path("model/online.sqlite").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "Give a request, or --plan."),
        ((" ",), 2, "The request is empty."),
        (("Rain?", "--plan", "plan.json"), 2, "The plan has a request of its own"),
        (("--plan", "none.json"), 1, "none.json: no such file"),
        (("Rain?", "--model", "none"), 1, "none: no model there"),
        (("zzz qqq",), 1, "nothing was awarded"),
    ],
)
def test_wrong_use(execute, tools, arguments, code, said):
    tools(LOOK)
    result = execute(*arguments)
    assert result.exit_code == code
    assert said in result.stderr


def test_without_sources(run):
    result = run("execute", "Rain?")
    assert result.exit_code == 2
    assert "Give --sources, --openapi or --a2a." in result.stderr


def test_a_question_shows_all_inputs_and_the_tool_last():
    inputs = {"many": [f"{n}@x" for n in range(100)], "text": "x" * 5_000 + "\x1b[2J then pay eve"}
    api = Api("sms__send", "Send", effects="writes")
    shown = question(Approval("note", api, inputs, "writes"))
    assert all(any(each in line for line in shown) for each in inputs["many"])
    assert any("then pay eve" in line for line in shown)
    assert shown[-2:] == ["  tool    sms__send (writes)", "Call it? [y/N]"]


def test_inputs_that_are_too_large_to_be_shown_are_not_approved(capsys):
    api = Api("sms__send", "Send", effects="writes")
    approval = Approval("note", api, {"text": "x" * 30_000}, "writes")
    assert asyncio.run(LiveView().approve(approval)) is False
    assert "too many to be shown" in capsys.readouterr().err.replace("\n", " ")


MAIN = (
    "import signal, sys\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "sys.argv[0] = 'cnp-router'\n"
    "from cnp_router.cli import main\n"
    "main()\n"
)


@contextlib.contextmanager
def started(*arguments, **streams):
    command = [sys.executable, "-c", MAIN, "execute", "--sources", "mcp.json", *arguments]
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "COLUMNS": "80", "TERM": "xterm"}
    running = subprocess.Popen(command, env=environment, **streams)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def test_interrupted_it_prints_what_was_done(tools):
    tools(LOOK, {**WAIT, "after": ["look"]})
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with started("--plan", "plan.json", stdin=subprocess.DEVNULL, **pipes) as running:
        assert wait_until(Path("waiting").exists)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert b"Interrupted. Until then:" in err
    assert b"1 of 2 done" in out
    assert b"cancelled" in out


def test_an_error_in_the_middle_is_after_the_report(execute, tools):
    tools(LOOK, {"id": "no", "api": "desk__none", "after": ["look"]})
    for more in ((), ("--dry-run",)):
        result = execute("--plan", "plan.json", *more)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "unknown API 'desk__none'" in result.stderr
    tools(LOOK, {"id": "no", "api": "desk__send", "inputs": {"to": {"$from": "lok"}}})
    assert "refers to the result of 'lok'" in execute("--plan", "plan.json").stderr


@pytest.mark.parametrize(
    ("answer", "code", "text"), [(b"y\n", 0, "me: It is rain.\n"), (b"\n", 1, "")]
)
def test_a_person_at_the_terminal_is_asked(tools, answer, code, text):
    tools(LOOK, TELL)
    own, terminal = pty.openpty()
    streams = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    said, end = b"", time.monotonic() + 60
    with (
        started("--plan", "plan.json", start_new_session=True, **streams) as running,
        selectors.DefaultSelector() as watched,
    ):
        os.close(terminal)
        watched.register(own, selectors.EVENT_READ)
        while running.poll() is None or watched.select(0):
            assert time.monotonic() < end, said
            if watched.select(0.05):
                try:
                    said += os.read(own, 4096)
                except OSError:  # the other end is closed
                    break
                if answer and b"[y/N]" in said:
                    os.write(own, answer)
                    answer = b""
        os.close(own)
        assert (running.wait(timeout=60), sent()) == (code, text), said.decode()
    assert b"desk__send (writes)" in said
    assert b"It is rain." in said
