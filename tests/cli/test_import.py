from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tool_servers import wait_until

from cnp_router.catalog import Catalog
from cnp_router.sources.lock_file import LockFile

TOOLS = '''
def roll(sides: int) -> int:
    """Roll a die."""
    return sides

def toss() -> str:
    """Toss a coin."""
    return "heads"
'''
DEAD = {"command": "/no/such/program"}


@pytest.fixture
def sources(run, tmp_path):
    """Write a file of sources and the functions that it names."""
    numbers = iter(range(100))

    def sources(*, code=TOOLS, functions=("roll", "toss"), name="mcp.json", source="dice", **more):
        # A module of another name each time: Python keeps those that it has imported.
        module = Path(f"tools_{next(numbers)}_{tmp_path.name}.py".replace("-", "_"))
        module.write_text(code)
        entry = {"module": f"./{module}", "functions": list(functions), **more.pop("entry", {})}
        document = {"functions": {source: entry}, "mcpServers": more}
        Path(name).write_text(json.dumps(document))

    return sources


def ids(path="apis.jsonl"):
    return Catalog.read(path).ids


def names():
    return {each.name for each in Path().iterdir()}


class TestImport:
    def test_what_it_says(self, run, sources):
        sources(entry={"effects": {"roll": "reads", "toss": "writes"}})
        result = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl")
        assert (result.exit_code, result.stderr) == (0, "")
        table, legend, facts = result.stdout.split("\n\n")
        assert legend.startswith("Reads, writes, unknown: how many tools only read, how many")
        head, row = table.splitlines()
        assert head.split() == [
            "source", "kind", "tools", "reads", "writes", "unknown", "seconds", "problem",
        ]  # fmt: skip
        assert row.split()[:6] == ["dice", "functions", "2", "1", "1", "0"]
        assert facts == (
            "Written   apis.jsonl, 2 APIs\nAccepted  2 new definitions (mcp.json.lock)\n"
        )
        catalog = Catalog.read("apis.jsonl")
        assert catalog.ids == ("dice__roll", "dice__toss")
        assert [api.effects for api in catalog] == ["reads", "writes"]
        assert LockFile("mcp.json.lock").sources == ("dice",)

    def test_unknown_effects_and_their_cure(self, run, sources):
        sources(entry={"effects": {"roll": "reads"}})
        said = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl").stdout
        assert "\nUnknown   what 1 tool may change: each call asks (--trust, " in said
        sources(entry={"effects": {"roll": "reads", "toss": "writes"}})
        assert "\nUnknown" not in run("import", "--mcp", "mcp.json", "--output", "b.jsonl").stdout

    def test_a_second_time(self, run, sources):
        sources()
        first = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl")
        lock, again = Path("mcp.json.lock").read_text(), run(
            "import", "--sources", "mcp.json", "--output", "apis.jsonl"
        )  # fmt: skip
        assert (first.exit_code, again.exit_code) == (0, 0)
        assert "Accepted  0 new definitions (mcp.json.lock)\n" in again.stdout
        assert Path("mcp.json.lock").read_text() == lock

    def test_json(self, run, sources):
        sources(dead=DEAD)
        result = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl", "--json")
        document = json.loads(result.stdout)
        dead, dice = document.pop("sources")
        assert document == {
            "apis": 2,
            "output": "apis.jsonl",
            "lock": "mcp.json.lock",
            "added": ["dice__roll", "dice__toss"],
            "changed": [],
            "removed": [],
        }
        assert (dice["tools"], dice["unknown"], dice["problem"]) == (2, 2, None)
        assert (dead["tools"], dead["kind"]) == (0, "MCP server")
        assert "/no/such/program" in dead["problem"]

    def test_what_a_module_prints_is_not_in_the_result(self, run, sources):
        sources(code=f"print('hello')\n{TOOLS}")
        result = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl", "--json")
        assert json.loads(result.stdout)["apis"] == 2
        assert result.stderr == "hello\n"

    def test_several_files_and_lists(self, run, sources):
        sources()
        sources(name="more.json", source="more")
        Path("tools.json").write_text('[{"name": "now", "inputSchema": {"type": "object"}}]')
        arguments = ("--mcp", "mcp.json", "--mcp", "more.json", "--tools", "time=tools.json")
        result = run("import", *arguments, "--output", "apis.jsonl", "--lock", "my.lock")
        assert (result.exit_code, result.stderr) == (0, "")
        there = {"dice__roll", "dice__toss", "more__roll", "more__toss", "time__now"}
        assert set(ids()) == there
        assert LockFile("my.lock").sources == ("dice", "more", "time")
        assert not Path("mcp.json.lock").exists()

    def test_a_saved_list_alone(self, run):
        tool = {"name": "now", "inputSchema": {}, "annotations": {"readOnlyHint": True}}
        Path("time.json").write_text(json.dumps({"result": {"tools": [tool]}}))
        arguments = ("--tools", "time.json", "--trust", "time", "--output", "apis.jsonl")
        result = run("import", *arguments)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "time    saved list      1      1" in result.stdout
        assert Path("time.json.lock").exists()

    def test_real_servers(self, run):
        entries = {
            name: {"command": sys.executable, "args": ["-m", f"mcp_server_{name}"]}
            for name in ("time", "git")
        }
        Path("mcp.json").write_text(json.dumps({"mcpServers": entries}))
        result = run("import", "--mcp", "mcp.json", "--trust", "git", "--output", "apis.jsonl")
        assert (result.exit_code, result.stderr) == (0, "")
        catalog = Catalog.read("apis.jsonl")
        assert {"time__get_current_time", "git__git_log"} <= set(catalog.ids)
        assert catalog["git__git_log"].effects == "reads"
        assert catalog["git__git_commit"].effects == "writes"
        assert catalog["time__get_current_time"].effects == "unknown"


class TestFailures:
    def test_some_failed(self, run, sources):
        sources(dead=DEAD)
        result = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl")
        assert result.exit_code == 0
        assert result.stderr.startswith("Warning: source 'dead': there is no program")
        assert result.stderr.count("\n") == 1
        assert ids() == ("dice__roll", "dice__toss")

    def test_a_missing_variable_is_a_failure_of_its_source(self, run, sources):
        sources(secret={"command": "run", "env": {"KEY": "${NO_SUCH_VARIABLE}"}})
        result = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl", "--json")
        assert result.exit_code == 0
        assert result.stderr == (
            "Warning: source 'secret': the environment has no variable 'NO_SUCH_VARIABLE' (set it, "
            "or write ${NO_SUCH_VARIABLE:-default})\n"
        )
        failed, _ = json.loads(result.stdout)["sources"]
        assert (failed["source"], failed["kind"]) == ("secret", "MCP server")
        assert ids() == ("dice__roll", "dice__toss")
        assert run("call", "dice__toss", "--sources", "mcp.json").exit_code == 0
        result = run("call", "secret__it", "--sources", "mcp.json")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "secret__it failed (unavailable): source 'secret'" in result.stderr

    def test_all_failed(self, run):
        Path("mcp.json").write_text(json.dumps({"mcpServers": {"a": DEAD, "b": DEAD}}))
        result = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("Error: no source can be used: source 'a': there is no")
        assert result.stderr.count("\n") == 1
        assert names() == {"mcp.json"}

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("--mcp", "mcp.json", "--output", "no/apis.jsonl"), "its folder does not exist"),
            (("--mcp", "other.json", "--output", "a"), "other.json: no such file"),
            (
                ("--mcp", "mcp.json", "--trust", "dcie", "--output", "a"),
                "no source is called 'dcie",
            ),
            (
                ("--mcp", "mcp.json", "--mcp", "mcp.json", "--output", "a"),
                "two sources have the name 'dice': one of mcp.json and one of mcp.json",
            ),
            (("--mcp", "mcp.json", "--tools", "a__b=t", "--output", "a"), "the name of a source"),
            (("--mcp", "bad.json", "--output", "a"), "no variable 'NO_SUCH_VARIABLE'"),
            (("--output", "a"), "Give --sources, --openapi, --a2a or --tools."),
            (("--mcp", "off.json", "--output", "a"), "all sources are disabled"),
        ],
    )
    def test_wrong_arguments(self, run, sources, arguments, said):
        sources()
        entry = {"command": "${NO_SUCH_VARIABLE}"}
        Path("bad.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
        Path("off.json").write_text(json.dumps({"mcpServers": {"a": {"disabled": True}}}))
        before = names()
        result = run("import", *arguments)
        assert (result.exit_code, result.stdout) in ((1, ""), (2, ""))
        assert said in " ".join(result.stderr.split())
        assert names() == before

    @pytest.mark.parametrize(
        ("output", "said"),
        [
            ("mcp.json", "this is one of the --sources"),
            ("./link.json", "this is one of the --sources"),
            ("pets.yaml", "this is the document of an --openapi"),
            ("tools.json", "this is the list of a --tools"),
            ("mcp.json.lock", "this is the lock file"),
            ("named.json", "mcp.json names this file"),
            ("mine.py", "mcp.json names this file"),
        ],
    )
    def test_nothing_that_is_read_is_overwritten(self, run, output, said):
        Path("mine.py").write_text("import sys\nopen('started', 'w')\ndef roll(): ...\n")
        functions = {"it": {"module": "${FOLDER:-.}/mine.py", "functions": ["roll"]}}
        named = {"its": {"document": "named.json"}, "other": {"document": "${NOT_THERE}"}}
        Path("mcp.json").write_text(json.dumps({"functions": functions, "openapi": named}))
        Path("link.json").symlink_to("mcp.json")
        for name in ("pets.yaml", "tools.json", "named.json"):
            Path(name).write_text("{}")
        before = {name: Path(name).read_text() for name in names()}
        arguments = ("--mcp", "mcp.json", "--openapi", "pets.yaml", "--tools", "tools.json")
        result = run("import", *arguments, "--output", output)
        assert (result.exit_code, result.stdout) == (1, "")
        assert said in result.stderr and "give --output another name" in result.stderr
        assert {name: Path(name).read_text() for name in names()} == before

    def test_an_old_catalog_stays_where_all_fail(self, run):
        Path("mcp.json").write_text(json.dumps({"mcpServers": {"a": DEAD}}))
        Path("apis.jsonl").write_text("old")
        assert run("import", "--mcp", "mcp.json", "--output", "apis.jsonl").exit_code == 1
        assert Path("apis.jsonl").read_text() == "old"


class TestChanges:
    @pytest.fixture
    def changed(self, run, sources):
        """One definition has changed since it was accepted, one is gone, one is new."""
        sources()
        assert run("import", "--mcp", "mcp.json", "--output", "apis.jsonl").exit_code == 0
        other = "def roll(sides: int) -> int:\n    '''Roll a die, and \x1b[31m tell me.'''\n"
        sources(code=f"{other}\ndef deal() -> str:\n    '''Deal.'''\n", functions=("roll", "deal"))

    @pytest.mark.usefixtures("changed")
    def test_refused(self, run):
        result = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl")
        assert result.exit_code == 0
        assert ids() == ("dice__deal",)
        warning, *diff = result.stderr.splitlines()
        assert warning == (
            "Warning: source 'dice': the definition of 'dice__roll' is not the one that was "
            "accepted (see what changed, then accept it with --accept)"
        )
        assert '-  "description": "Roll a die.",' in diff
        assert any(line.startswith('+  "description": "Roll a die, and ') for line in diff)
        assert "\x1b" not in result.stderr
        facts = " ".join(result.stdout.split())
        assert "Accepted 1 new definition (mcp.json.lock)" in facts
        assert "Refused dice__roll (changed; --accept takes them)" in facts
        assert "No longer there dice__toss" in facts

    @pytest.mark.usefixtures("changed")
    def test_accepted(self, run):
        result = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl", "--accept")
        assert (result.exit_code, result.stderr) == (0, "")
        assert ids() == ("dice__roll", "dice__deal")
        assert "Accepted         1 new definition, 1 changed one (mcp.json.lock)" in result.stdout
        again = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl")
        assert (again.exit_code, again.stderr) == (0, "")

    def test_where_nothing_else_is_left(self, run, sources):
        sources(functions=["toss"])
        run("import", "--mcp", "mcp.json", "--output", "apis.jsonl")
        Path("apis.jsonl").unlink()
        sources(code=TOOLS.replace("a coin", "two coins"), functions=["toss"])
        result = run("import", "--mcp", "mcp.json", "--output", "apis.jsonl")
        assert result.exit_code == 1
        assert "is not the one that was accepted" in result.stderr
        assert "two coins" in result.stderr
        assert not Path("apis.jsonl").exists()


# As in a terminal: what starts the tests in the background has the signal ignored.
MAIN = (
    "import signal\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from cnp_router.cli import main\n"
    "main()\n"
)


def is_running(pid):
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat")
        return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")
    except (FileNotFoundError, ProcessLookupError):  # it may end at any time
        return False


@pytest.fixture
def hanging(process, tmp_path):
    """Start a command that waits for a server that never answers; return both."""
    hangs = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    works = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}
    entry = {"command": sys.executable, "args": ["-c", hangs]}
    document = {"mcpServers": {"hangs": entry, "time": works}}
    (tmp_path / "mcp.json").write_text(json.dumps(document))
    file = tmp_path / "pid"
    commands = {
        "import": ("import", "--mcp", "mcp.json", "--output", "apis.jsonl"),
        "call": ("call", "hangs__it", "--mcp", "mcp.json"),
    }

    def hanging(command):
        running = process(*commands[command], code=MAIN, cwd=tmp_path)
        assert wait_until(lambda: file.exists() and file.read_text())
        return running, int(file.read_text())

    return hanging


@pytest.mark.skipif(os.name == "nt", reason="no SIGINT to another process")
@pytest.mark.parametrize("command", ["import", "call"])
def test_interrupted(hanging, tmp_path, command):
    """Nothing is left of the server, nor of another one that works, and nothing is written."""
    running, server = hanging(command)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err.strip()) == (130, b"", b"Interrupted.")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mcp.json", "pid"]
    assert wait_until(lambda: not is_running(server))


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_killed(hanging, tmp_path):
    """A server does not outlive the command, however that ends."""
    running, server = hanging("import")
    running.kill()
    running.communicate(timeout=60)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mcp.json", "pid"]
    assert wait_until(lambda: not is_running(server))
