"""``cnp-router serve``: processes, from their start to their end."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from tool_servers import wait_until

from cnp_router.catalog import Api, Catalog
from cnp_router.cli.app import app
from cnp_router.cli.serve import serve
from cnp_router.context import SqliteContextStore
from cnp_router.online import OnlineStore
from cnp_router.sources import FunctionSource
from cnp_router.training import fit_router
from cnp_router.trajectories import Trajectory

ROOT = Path(__file__).resolve().parents[2]
TOOLS = '''
import asyncio
from pathlib import Path


async def forecast(city: str) -> str:
    """The weather forecast of a city: rain or sun."""
    return f"Rain in {city}"


async def dig(metres: float) -> str:
    """Digs a hole in the garden; a second for each metre."""
    Path("begun").touch()
    await asyncio.sleep(metres)
    return f"{metres} m"
'''


async def forecast(city: str) -> str:
    """The weather forecast of a city: rain or sun."""
    return f"Rain in {city}"


async def dig(metres: float) -> str:
    """Digs a hole in the garden; a second for each metre."""
    return f"{metres} m"


@pytest.fixture
def folder(tmp_path):
    """Where a file of sources is, with a place for temporary files of the server's own."""
    entry = {"module": "garden.py", "functions": ["forecast", "dig"]}
    effects = {"forecast": "reads", "dig": "reads"}
    document = {"functions": {"home": {**entry, "effects": effects}}}
    (tmp_path / "mcp.json").write_text(json.dumps(document))
    (tmp_path / "garden.py").write_text(TOOLS)
    (tmp_path / "tmp").mkdir()
    return tmp_path


class Running:
    """A server that was started."""

    def __init__(self, folder, process):
        self.folder, self.process = folder, process
        self.port = None
        self.said = []  # before it listens

    def wait(self):
        """Wait until it says where it listens."""
        while (line := self.process.stderr.readline()) and self.port is None:
            self.said.append(line)
            if found := re.fullmatch(r"Listening at: http://127\.0\.0\.1:(\d+)\n", line):
                self.port = int(found[1])
                return self
        raise AssertionError(f"it does not listen: {line}{self.process.stderr.read()}")

    def ask(self, path, document=None, token=None):
        """Ask, and return status and body."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            if document is None:
                connection.request("GET", path, headers=headers)
            else:
                headers["Content-Type"] = "application/json"
                connection.request("POST", path, json.dumps(document), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def up(self):
        """Which workers answer, by their numbers."""
        text = self.ask("/metrics")[1]
        found = re.findall(r'^cnp_router_worker_up\{worker="(\d+)"} (\d)$', text, re.M)
        return {int(worker): int(is_up) for worker, is_up in found}

    def wait_for(self, up):
        """Wait until these workers answer: one that gets no turn for 2 s seems not to."""
        assert wait_until(lambda: self.up() == up)

    def workers(self):
        """Process ids of the workers."""
        told = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [pid for pid in map(int, told.split()) if b"spawn_main" in command_of(pid)]

    def hear_that_it_ends(self):
        """Read the line that says so, and nothing beyond it: the rest is for `end`."""
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self.process.stderr.fileno(), 1)
            assert byte, f"it says only {line}"
            line += byte
        assert line == b"Ending ...\n"

    def end(self, sent=signal.SIGTERM):
        """End it, and return exit code and what it said."""
        if sent and self.process.poll() is None:
            self.process.send_signal(sent)
        out, err = self.process.communicate(timeout=30)
        assert out == ""
        self.is_ending = "Ending ...\n" in err
        return self.process.returncode, err.replace("Ending ...\n", "", 1)


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@contextmanager
def started(folder, *arguments, environment=()):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder / "tmp"),
        "COLUMNS": "200",
        **dict(environment),
    }
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "cnp_router", "serve", *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Running(folder, process)
        finally:
            if process.poll() is None:
                process.kill()


def http_server(folder, *arguments, **how):
    given = ("--sources", "mcp.json", "--http", "--port", "0", *arguments)
    return started(folder, *given, **how)


def nothing_is_left(folder):
    return list((folder / "tmp").iterdir()) == []


def only(name):
    return Catalog([Api(name, name, f"The {name} of a city.")])


def found(server):
    _, answer = server.ask("/v1/search", {"query": "the traffic or weather of a city"})
    return [tool["name"] for tool in json.loads(answer)["tools"]]


@contextmanager
def asked(server):
    """Have a server asked all the time by two threads; gives what they were answered, by status."""
    statuses, is_over = [], threading.Event()

    def ask():
        while not is_over.is_set():
            statuses.append(server.ask("/v1/search", {"query": "the weather of a city"})[0])

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for each in asking:
        each.start()
    try:
        yield statuses
    finally:
        is_over.set()
        for each in asking:
            each.join()


class TestHttp:
    def test_from_start_to_end(self, folder):
        with http_server(folder, "--log") as server:
            server.wait()
            found = json.loads(server.ask("/v1/search", {"query": "the weather forecast"})[1])
            call = {"name": found["tools"][0]["name"], "search_id": found["search_id"]}
            status, called = server.ask("/v1/call", {**call, "inputs": {"city": "Kyoto"}})
            page = server.ask("/")
            metrics = server.ask("/metrics")[1]
            code, said = server.end()
        assert (status, json.loads(called)["result"]["text"]) == (200, "Rain in Kyoto")
        assert page[0] == 200 and page[1].startswith("<!doctype html>")
        assert 'cnp_router_worker_up{worker="0"} 1' in metrics
        assert (
            'http_server_request_duration_seconds_count{worker="0",http_request_method="POST",'
            'http_response_status_code="200",http_route="/v1/search"} 1'
        ) in metrics
        assert "cnp_router_tool_calls_total{" in metrics
        assert code == 0
        assert [line.split(" ", 2)[2].rsplit(" ", 2)[0] for line in said.splitlines()] == [
            "anyone POST /v1/search 200",
            "anyone POST /v1/call 200",
            "anyone GET / 200",
            "anyone GET /metrics 200",
        ]
        assert nothing_is_left(folder)

    @pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
    @pytest.mark.parametrize("workers", [1, 2])
    def test_what_runs_is_finished(self, folder, sent, workers):
        with http_server(folder, "--workers", workers) as server:
            server.wait()
            call = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            body = json.dumps({"name": "home__dig", "inputs": {"metres": 0.7}})
            call.request("POST", "/v1/call", body, {"Content-Type": "application/json"})
            while not (folder / "begun").exists():
                time.sleep(0.01)
            server.process.send_signal(sent)
            answer = json.loads(call.getresponse().read())
            call.close()
            code, said = server.end(None)
        assert answer["result"]["text"] == "0.7 m"
        assert (code, said) == (0, "")
        assert nothing_is_left(folder)

    def test_a_second_signal_waits_no_longer(self, folder):
        with http_server(folder, "--grace", 50) as server:
            server.wait()
            call = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            body = json.dumps({"name": "home__dig", "inputs": {"metres": 60}})
            call.request("POST", "/v1/call", body, {"Content-Type": "application/json"})
            while not (folder / "begun").exists():
                time.sleep(0.01)
            server.process.send_signal(signal.SIGINT)
            server.hear_that_it_ends()  # two signals that nobody looks at in between are one
            began = time.monotonic()
            code, said = server.end(signal.SIGINT)
            call.close()
        assert (code, said) == (0, "")
        assert time.monotonic() - began < 25

    def test_a_worker_that_is_killed_is_replaced(self, folder):
        with http_server(folder, "--workers", 2) as server:
            assert server.wait().up().keys() == {0, 1}
            server.wait_for({0: 1, 1: 1})
            for _ in range(6):
                assert server.ask("/v1/search", {"query": "rain"})[0] == 200
            before = server.workers()
            assert len(before) == 2
            os.kill(before[0], signal.SIGKILL)
            while before[0] in server.workers():
                # The other goes on: it says that this one is away, until another has its place.
                assert server.ask("/healthz")[0] == 200
            server.wait_for({0: 1, 1: 1})
            after = server.workers()
            counted = server.ask("/metrics")[1]
            code, said = server.end()
        assert len(after) == 2 and len(set(after) - set(before)) == 1
        assert {'worker="0"', 'worker="1"'} <= set(re.findall(r'worker="\d"', counted))
        assert code == 0
        assert re.fullmatch(r"Warning: worker [01] has ended: exit code -9; another begins\n", said)
        assert nothing_is_left(folder)

    def test_workers_share_what_a_search_gave(self, folder):
        with http_server(folder, "--workers", 2) as server:
            assert server.wait().up().keys() == {0, 1}
            server.wait_for({0: 1, 1: 1})
            found = json.loads(server.ask("/v1/search", {"query": "the weather forecast"})[1])
            asked = {"name": "home__forecast", "search_id": found["search_id"]}
            answers = [
                server.ask("/v1/call", {**asked, "inputs": {"city": f"Kyoto {n}"}})
                for n in range(12)
            ]
            assert server.end()[0] == 0
        assert {status for status, _ in answers} == {200}

    def test_workers_end_with_their_parent(self, folder):
        with http_server(folder, "--workers", 2) as server:
            assert server.wait().up().keys() == {0, 1}
            server.wait_for({0: 1, 1: 1})
            workers = server.workers()
            server.process.kill()
            assert wait_until(lambda: not any(b"spawn_main" in command_of(pid) for pid in workers))
        assert nothing_is_left(folder)

    def test_a_model_learns(self, folder):
        home = FunctionSource("home", [forecast, dig], effects={"forecast": "reads"})
        fit_router(Catalog(asyncio.run(home.apis()))).save(folder / "model")
        with http_server(folder, "--model", "model", "--workers", 2) as server:
            server.wait()
            found = json.loads(server.ask("/v1/search", {"query": "the weather forecast"})[1])
            asked = {"name": "home__forecast", "search_id": found["search_id"]}
            server.ask("/v1/call", {**asked, "inputs": {"city": "Kyoto"}})
            rating = {"search_id": found["search_id"], "rating": 5}
            assert server.ask("/v1/feedback", rating)[0] == 200
            assert server.end() == (0, "")
        _, records = OnlineStore.records_after(folder / "model" / "online.sqlite", 0)
        learned = next(each for each in records if isinstance(each, Trajectory))
        assert [step.tool for step in learned.steps] == ["home__forecast"]
        assert learned.goal == "the weather forecast"

    def test_nothing_is_learned_if_so_asked(self, folder):
        home = FunctionSource("home", [forecast, dig], effects={"forecast": "reads"})
        fit_router(Catalog(asyncio.run(home.apis()))).save(folder / "model")
        with http_server(folder, "--model", "model", "--no-learn") as server:
            server.wait()
            assert json.loads(server.ask("/healthz")[1])["learns"] is False
            assert server.end() == (0, "")
        assert not (folder / "model" / "online.sqlite").exists()

    @pytest.mark.parametrize("workers", [1, 2])
    def test_a_model_is_replaced_while_it_answers(self, folder, workers):
        """By another process that fits; no answer is dropped, and a broken one is not taken."""
        model = folder / "model"
        fit_router(only("weather")).save(model)
        only("traffic").write(folder / "new.jsonl")

        def wait_for(server, outcome):
            counter = f'cnp_router_model_renewals_total{{worker="%d",outcome="{outcome}"}} 1.0'
            counters = [counter % n for n in range(workers)]
            assert wait_until(lambda: all(map(server.ask("/metrics")[1].__contains__, counters)))

        given = ("--http", "--port", 0, "--model", "model", "--workers", workers)
        with started(folder, *given, "--model-check", 0.1) as server:
            assert found(server.wait()) == ["weather"]
            with asked(server) as statuses:
                fit = ("fit", "--catalog", "new.jsonl", "--output", "model", "--overwrite")
                subprocess.run(
                    [sys.executable, "-m", "cnp_router", *fit],
                    cwd=folder,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                    check=True,
                    capture_output=True,
                    timeout=60,
                )
                wait_for(server, "done")
                assert [found(server) for _ in range(8)] == [["traffic"]] * 8
                (folder / "broken").write_text("no manifest")
                (folder / "broken").replace(model / "manifest.json")  # nobody sees an empty one
                wait_for(server, "failed")
                assert [found(server) for _ in range(8)] == [["traffic"]] * 8
            code, said = server.end()
        assert code == 0
        assert len(statuses) > 20
        assert set(statuses) == {200}
        taken, *broken = said.splitlines()
        assert taken == "model: a new model answers, LearnedRouter(1 APIs, 0 mashups)"
        assert len(broken) == workers
        for line in broken:
            assert line.startswith("Warning: the model before goes on answering: model: the model")

    @pytest.mark.skipif(os.name != "posix", reason="an open folder cannot be moved there")
    @pytest.mark.parametrize("is_link", [True, False])
    def test_another_folder_takes_the_place_of_that_of_the_model(self, folder, is_link):
        model = folder / "model"
        fit_router(only("weather")).save(folder / "one" if is_link else model)
        fit_router(only("traffic")).save(folder / "two")
        if is_link:
            model.symlink_to("one")
        with started(
            folder, "--http", "--port", 0, "--model", "model", "--model-check", 0.1
        ) as server:
            server.wait()
            before = json.loads(server.ask("/v1/search", {"query": "weather"})[1])
            with asked(server) as statuses:
                if is_link:
                    (folder / "next").symlink_to("two")
                    (folder / "next").replace(model)
                else:
                    model.rename(folder / "one")
                    begun = len(statuses)
                    while len(statuses) < begun + 8:
                        time.sleep(0.01)
                    (folder / "two").rename(model)
                assert wait_until(lambda: found(server) == ["traffic"])
            rating = {"search_id": before["search_id"], "rating": 5}
            assert server.ask("/v1/feedback", rating)[0] == 200
            assert server.end()[0] == 0
        assert set(statuses) == {200}

    def test_it_says_what_it_starts_serves_and_declines(self, folder):
        document = json.loads((folder / "mcp.json").read_text())
        document["functions"]["home"]["effects"] = {"forecast": "reads"}
        document["mcpServers"] = {"gone": {"command": "/no/such/program"}}
        (folder / "mcp.json").write_text(json.dumps(document))
        with http_server(folder, "--workers", 2, "--share", 5) as server:
            server.wait()
            assert server.end() == (0, "")
            assert server.is_ending
        begun, *problems, summary, declined, listens = server.said
        assert begun == "Starting the sources of mcp.json ...\n"
        assert len(problems) == 1  # by one of the workers, and once
        assert problems[0].startswith("Warning: source 'gone': there is no program")
        assert summary == (
            "2 tools of 2 sources, 1 of the sources failed, 2 workers, learns until it ends, "
            "acts on 5 %; page at /, MCP at /mcp\n"
        )
        assert declined.startswith("Warning: 1 tool of home will be declined")
        assert "only read: home__dig (--trust home believes" in declined
        assert listens.startswith("Listening at: ")

    def test_a_shadow_acts_on_nothing(self, folder):
        with http_server(folder, "--shadow", "--always", "home__dig") as server:
            server.wait()
            found = json.loads(server.ask("/v1/search", {"query": "the weather forecast"})[1])
            assert server.end() == (0, "")
        assert found["acted"] is False
        assert [tool["name"] for tool in found["tools"]] == ["home__forecast", "home__dig"]

    @pytest.mark.parametrize(
        ("arguments", "known"), [((), False), (("--context-ttl", 60), True)], ids=["plain", "ttl"]
    )
    def test_each_call_is_made_unless_it_is_said_otherwise(self, folder, arguments, known):
        with http_server(folder, *arguments) as server:
            server.wait()
            call = {"name": "home__forecast", "inputs": {"city": "Kyoto"}}
            answers = [json.loads(server.ask("/v1/call", call)[1]) for _ in range(2)]
            assert server.end() == (0, "")
        first, second = (answer["result"]["notes"] for answer in answers)
        assert first == []
        assert [note.startswith("known from home__forecast") for note in second] == [True] * known

    def test_how_long_what_a_call_gave_is_used(self, folder):
        arguments = ("--context", "context.sqlite", "--context-ttl", 90)
        with http_server(folder, *arguments) as server:
            server.wait()
            call = {"name": "home__forecast", "inputs": {"city": "Kyoto"}}
            assert server.ask("/v1/call", call)[0] == 200
            assert server.end() == (0, "")

        async def kept():
            async with SqliteContextStore(folder / "context.sqlite") as store:
                return await store.live()

        (entry,) = asyncio.run(kept())
        assert (entry.source, entry.ttl) == ("home__forecast", 90)


class TestTokens:
    def test_a_single_token(self, folder):
        environment = {"DOOR_TOKEN": "token-of-all"}
        arguments = ("--token-env", "DOOR_TOKEN", "--host", "127.0.0.1")
        with http_server(folder, *arguments, environment=environment) as server:
            server.wait()
            assert server.ask("/v1/tools")[0] == 401
            assert server.ask("/v1/tools", token="token-of-all")[0] == 200
            code, said = server.end()
        assert code == 0 and "token" not in said

    def test_a_file_of_clients(self, folder):
        clients = {"alice": {"token": "${ALICE_TOKEN}", "among": ["*__forecast"]}}
        (folder / "clients.json").write_text(json.dumps({"clients": clients}))
        environment = {"ALICE_TOKEN": "alice-token"}
        arguments = ("--clients", "clients.json", "--workers", 2)
        with http_server(folder, *arguments, environment=environment) as server:
            server.wait()
            seen = json.loads(server.ask("/v1/tools", token="alice-token")[1])["tools"]
            assert server.end()[0] == 0
        assert [tool["name"] for tool in seen] == ["home__forecast"]


class TestStdio:
    def test_from_start_to_end(self, folder):
        with started(folder, "--sources", "mcp.json") as server:
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}}
            hello["clientInfo"] = {"name": "test", "version": "1"}
            for number, (method, params) in enumerate(
                [("initialize", hello), ("notifications/initialized", None), ("tools/list", {})]
            ):
                message = {"jsonrpc": "2.0", "method": method, "params": params}
                message |= {} if params is None else {"id": number}
                message = {name: value for name, value in message.items() if value is not None}
                server.process.stdin.write(json.dumps(message) + "\n")
            server.process.stdin.flush()
            answers = [json.loads(server.process.stdout.readline()) for _ in range(2)]
            server.process.stdin.close()
            assert server.process.wait(20) == 0
            assert server.process.stderr.read() == (
                "Starting the sources of mcp.json ...\n"
                "2 tools of 1 source, learns until it ends; MCP on standard input and output\n"
                "Ending ...\n"
            )
            assert server.process.stdout.read() == ""
        names = [tool["name"] for tool in answers[1]["result"]["tools"]]
        assert names == ["search_tools", "route", "call_tool"]
        assert nothing_is_left(folder)

    def test_at_a_terminal_it_says_what_it_waits_for(self, folder):
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "cnp_router", "serve", "--sources", "mcp.json"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")},
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(theirs)
        with process:
            said = process.stderr.readline()
            process.terminate()
            out, err = process.communicate(timeout=30)
        os.close(ours)
        assert said.startswith("MCP on standard input")
        # The signal may come before the sources are started, or then.
        assert (out, err.replace("Starting the sources of mcp.json ...\n", "")) == ("", "")
        assert nothing_is_left(folder)

    def test_it_ends_while_a_module_is_imported(self, folder):
        waits = "import sys, time\nprint('begun', file=sys.stderr, flush=True)\ntime.sleep(60)\n"
        (folder / "garden.py").write_text(waits + TOOLS)
        with started(folder, "--sources", "mcp.json") as server:
            said = [server.process.stderr.readline() for _ in range(2)]
            assert said == ["Starting the sources of mcp.json ...\n", "begun\n"]
            server.process.terminate()
            assert server.process.wait(20) == 0
            assert server.process.stderr.read() == ""
        assert nothing_is_left(folder)


class TestUsage:
    @pytest.mark.parametrize("example", serve.examples)
    def test_the_examples_are_understood(self, example):
        _, command, *arguments = shlex.split(example)
        context = click.Context(app, info_name="cnp-router")
        assert app.get_command(context, command) is serve
        assert serve.make_context(command, arguments, parent=context).params

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--shadow", "--share", "5"], "--shadow and --share exclude each other"),
            (["--share", "101"], "not in the range"),
            (["--share", "nan"], "not a finite number"),
            (["--context-ttl", "59"], "not in the range"),
            (["--context-ttl", "601"], "not in the range"),
            (["--workers", "2"], "--workers goes with --http"),
            (["--port", "80"], "--port goes with --http"),
            (["--log"], "--log goes with --http"),
            (["--token-env", "TOKEN"], "--token-env goes with --http"),
            (["--http", "--port", "65536"], "not in the range"),
            (["--http", "--workers", "0"], "not in the range"),
            (["--http", "--token-env", "A", "--clients", "b"], "exclude each other"),
            (["--http", "--host", "0.0.0.0"], "give --token-env or --clients"),
            (["--http", "--host", "example.com"], "give --token-env or --clients"),
            (["--http", "--host", "::"], "give --token-env or --clients"),
            (["--catalog", "apis.jsonl", "--model", "m"], "--catalog excludes"),
            (["--catalog", "apis.jsonl", "--sources", "mcp.json"], "--catalog excludes"),
        ],
    )
    def test_what_does_not_go_together(self, run, arguments, said):
        result = run("serve", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in result.stderr

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--token-env", "NO_SUCH_TOKEN"], "the environment has no 'NO_SUCH_TOKEN' (set it)"),
            (["--token-env", "SHORT_TOKEN"], "8 characters"),
            (["--clients", "none.json"], "none.json: no such file"),
            (["--model", "nowhere"], "nowhere"),
            (["--sources", "none.json"], "none.json: no such file"),
            (["--catalog", "none.jsonl"], "none.jsonl: no such file"),
            (["--host", "no.such.host.invalid", "--token-env", "LONG_TOKEN"], "cannot listen"),
        ],
    )
    def test_what_is_not_there(self, run, monkeypatch, arguments, said):
        monkeypatch.setenv("SHORT_TOKEN", "tiny-1")
        monkeypatch.setenv("LONG_TOKEN", "long-enough")
        if "--host" in arguments:

            def none(*_, **__):
                raise OSError(-2, "Name or service not known")

            monkeypatch.setattr("socket.getaddrinfo", none)
        result = run("serve", "--http", "--port", "0", *arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert said in result.stderr
        lines = [each for each in result.stderr.splitlines() if not each.startswith("Starting ")]
        assert len(lines) == 1
        assert "tiny-1" not in result.stderr

    def test_the_first_of_several_workers_cannot_begin(self, folder):
        arguments = ("--http", "--port", "0", "--workers", "2", "--model", "nowhere")
        with started(folder, *arguments) as server:
            code, said = server.process.wait(30), server.process.stderr.read()
        assert code == 1
        begun, error = said.splitlines()
        assert begun == "Starting model nowhere ..." and error.startswith("Error: nowhere")
        assert nothing_is_left(folder)

    def test_a_model_whose_folder_may_not_be_written(self, run, monkeypatch):
        home = FunctionSource("home", [forecast, dig], effects={"forecast": "reads"})
        fit_router(Catalog(asyncio.run(home.apis()))).save("model")
        made = os.open

        def refused(path, *arguments):
            if Path(path).name == "searches.sqlite":
                raise PermissionError(13, "Permission denied")
            return made(path, *arguments)

        monkeypatch.setattr("os.open", refused)
        result = run("serve", "--model", "model", "--http", "--port", "0")
        assert result.exit_code == 1
        cure = "(let the user who serves write to that folder, or serve with --no-learn)"
        assert result.stderr.splitlines()[-1].endswith(cure)

    def test_a_port_in_use(self, run):
        from cnp_router.serving.workers import listen

        with listen("127.0.0.1", 0) as taken:
            port = taken.getsockname()[1]
            result = run("serve", "--http", "--port", port)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"Error: cannot listen at 127.0.0.1:{port}: Address ")
        assert result.stderr.endswith("(choose another port, or 0 for any)\n")

    @pytest.mark.parametrize(
        "missing", ["uvicorn", "starlette.applications", "opentelemetry.sdk.metrics"]
    )
    def test_without_the_extra(self, run, monkeypatch, missing, kept):
        import cnp_router.serving as room

        for name in [name for name in sys.modules if name.startswith("cnp_router.serving.")]:
            monkeypatch.delitem(sys.modules, name)
            # What is imported anew would stay there, beside what others have imported.
            monkeypatch.delattr(room, name.rpartition(".")[2], raising=False)
        monkeypatch.setitem(sys.modules, missing, None)
        result = run("serve", "--http", "--port", "0")
        assert result.exit_code == 1
        *_, error = result.stderr.splitlines()
        assert error.startswith("Error: ") and "pip install 'cnp-router[serve]'" in error
        assert "Traceback" not in result.stderr
