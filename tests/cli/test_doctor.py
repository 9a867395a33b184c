"""``cnp-router doctor``: what is installed, fitted and reachable."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path

import pytest
from chat_server import stay_on_this_machine

from cnp_router.cli import installed
from cnp_router.cli.installed import EXTRAS
from cnp_router.history import History, Mashup
from cnp_router.online import OnlineStore

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIRED = PROJECT["dependencies"] + [
    f'{each}; extra == "{extra}"'
    for extra, needed in PROJECT["optional-dependencies"].items()
    for each in needed
]
SECRETS = ("sk-verysecret", "hunter2", "tok-secret-1")
DEAD = "http://127.0.0.1:9"


def tree(folder="."):
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.fixture
def doctor(run, monkeypatch):
    """Run it, and return the result and its findings by what they are about."""
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRED)
    stay_on_this_machine(monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")

    def doctor(*arguments, **options):
        before = tree()
        result = run("doctor", "--json", *arguments, **options)
        assert tree() == before
        assert "sk-of-the-environment" not in result.output
        document = json.loads(result.stdout)
        findings = {finding["about"]: finding for finding in document["findings"]}
        assert result.exit_code == (1 if document["problems"] else 0)
        for status in ("problem", "warning"):
            n = sum(each["status"] == status for each in document["findings"])
            assert document[f"{status}s"] == n
        return findings

    return doctor


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        self._answer({"data": [{"id": "tiny"}, {"id": "large"}]})

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self._answer({"data": [{"index": 0, "embedding": [0.5, 1.0, 2.0]}]})

    def _answer(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def server():
    """The URL of a server of language models and vectors."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_port}/v1"
        finally:
            served.shutdown()
            thread.join()


def about(findings, name):
    (found,) = (f for key, f in findings.items() if key == name or key.startswith(f"{name} "))
    return found


class TestInstalled:
    def test_each_requirement_is_of_the_form_that_it_reads(self):
        assert all(installed._REQUIREMENT.fullmatch(each) for each in REQUIRED)

    def test_each_extra_says_what_it_gives(self):
        assert set(EXTRAS) == set(PROJECT["optional-dependencies"])

    def test_python_itself_and_each_dependency(self, doctor):
        findings = doctor()
        assert about(findings, "Python")["said"] == sys.executable
        assert str(ROOT) in about(findings, "cnp-router")["said"]
        numpy = about(findings, f"numpy {metadata.version('numpy')}")
        assert (numpy["status"], numpy["said"], numpy["area"]) == (
            "ok", "needed: numpy>=1.26", "Installed",
        )  # fmt: skip

    def test_one_that_is_missing(self, doctor, monkeypatch):
        monkeypatch.setattr(metadata, "requires", lambda name: ["no-such-package>=2"])
        found = about(doctor(), "no-such-package")
        assert found["status"] == "problem"
        assert found["said"] == "is not installed (needed: no-such-package>=2)"
        assert found["cure"] == "pip install --upgrade cnp-router"

    def test_one_that_is_too_old(self, doctor, monkeypatch):
        monkeypatch.setattr(metadata, "requires", lambda name: ["click>=99.1"])
        found = about(doctor(), "click")
        assert (found["status"], found["said"]) == (
            "problem", "is older than what is needed: click>=99.1",
        )  # fmt: skip
        assert found["cure"] == "pip install --upgrade 'click>=99.1'"

    def test_an_extra_that_is_missing_is_no_trouble(self, doctor, monkeypatch):
        needed = ['no-such-package>=1; extra == "redis"']
        monkeypatch.setattr(metadata, "requires", lambda name: needed)
        found = about(doctor(), "extra redis")
        assert found["status"] == "ok"
        assert found["said"].startswith("not installed; pip install 'cnp-router[redis]' gives ")

    def test_half_an_extra(self, doctor, monkeypatch):
        needed = ['no-such-package>=1; extra == "redis"', 'click>=8; extra == "redis"']
        monkeypatch.setattr(metadata, "requires", lambda name: needed)
        found = about(doctor(), "extra redis")
        assert found["status"] == "warning"
        assert "no-such-package is not installed" in found["said"]
        assert "pip install 'cnp-router[redis]'" in found["cure"]

    def test_an_installation_that_knows_fewer_extras(self, doctor, monkeypatch):
        monkeypatch.setattr(metadata, "requires", lambda name: ["click>=8"])
        found = about(doctor(), "extras")
        assert (found["status"], found["cure"]) == ("warning", installed._REINSTALL)
        assert all(extra in found["about"] for extra in EXTRAS)

    def test_nothing_installed(self, doctor, monkeypatch):
        def missing(name):
            raise metadata.PackageNotFoundError(name)

        monkeypatch.setattr(metadata, "requires", missing)
        monkeypatch.setattr(metadata, "version", missing)
        found = about(doctor(), "cnp-router")
        assert found["status"] == "warning"
        assert "runs without being installed" in found["said"]

    # It looks for what is broken, in a process of its own.
    BROKEN = (
        "import sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Broken(MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] == {name!r}: raise RuntimeError('broken on purpose')\n"
        "sys.meta_path.insert(0, Broken())\n"
        "from cnp_router.cli import main\n"
        "main()\n"
    )

    @pytest.mark.parametrize("name", ["numpy", "rich", "pydantic", "openai"])
    def test_a_broken_one_does_not_end_it(self, process, name, tmp_path):
        code = self.BROKEN.format(name=name)
        cache = {"XDG_CACHE_HOME": str(tmp_path), "COLUMNS": "200"}
        out, err = process("doctor", code=code, environment=cache).communicate()
        assert err == b""
        text = " ".join(out.decode().split())
        assert f"problem {name} {metadata.version(name)}: is broken: import" in text
        assert "RuntimeError: broken on purpose (cure: pip install --force-reinstall" in text
        assert "cache folder" in text
        assert "sample model" in text


class TestThisComputer:
    def test_what_it_looks_at(self, doctor):
        findings = doctor()
        assert about(findings, "terminal")["said"].startswith("none: output goes to a file")
        assert about(findings, "characters")["status"] == "ok"
        assert about(findings, "cache folder")["status"] == "ok"

    def test_a_command_that_is_not_found(self, doctor, monkeypatch):
        monkeypatch.setenv("PATH", "/nowhere")
        found = about(doctor(), "command cnp-router")
        assert found["status"] == "warning"
        assert str(Path(sys.executable).parent) in found["cure"]

    @pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid"), reason="modes of POSIX")
    def test_a_cache_that_cannot_be_written(self, doctor, monkeypatch):
        Path("cache").write_text("in the way")
        found = about(doctor(), "cache folder")
        assert found["status"] == "warning"
        assert "XDG_CACHE_HOME" in found["cure"]

    def test_other_encodings(self, process):
        environment = {"PYTHONIOENCODING": "latin-1", "COLUMNS": "200"}
        out, _ = process("doctor", environment=environment).communicate()
        assert b"warning  characters: output in iso8859-1" in out


class TestFitted:
    def test_a_model(self, doctor, sample_model):
        shutil.copytree(sample_model, "model")
        found = about(doctor("--model", "model"), "model")
        assert found["status"] == "ok"
        assert "149 APIs, 680 past mashups, without dates; needs no encoder" in found["said"]
        assert found["said"].startswith("sound, ")

    def test_its_dates_and_its_observations(self, doctor, run, sample):
        past = [
            Mashup(f"m{n}", mashup.description, mashup.apis)
            for n, mashup in enumerate(sample.history[:4])
        ]
        sample.catalog.write("apis.jsonl")
        lines = [m.to_dict() | {"date": f"2014-0{n + 1}-01"} for n, m in enumerate(past)]
        Path("past.jsonl").write_text("\n".join(map(json.dumps, lines)))
        files = ("--catalog", "apis.jsonl", "--history", "past.jsonl")
        assert run("fit", *files, "--output", "model").exit_code == 0
        assert run("observe", "--model", "model", "--history", "past.jsonl").exit_code == 0
        findings = doctor("--model", "model")
        assert "4 past mashups of 2014-01-01 to 2014-04-01" in about(findings, "model")["said"]
        store = about(findings, "store model/online.sqlite")
        assert (store["status"], store["said"]) == ("ok", "can be read, 4 records")

    def test_a_damaged_one(self, doctor, sample_model):
        shutil.copytree(sample_model, "model")
        (array, *_) = sorted(Path("model").glob("*/*.npy"))
        data = bytearray(array.read_bytes())
        data[-1] ^= 1
        array.write_bytes(data)
        found = about(doctor("--model", "model"), "model")
        assert found["status"] == "problem"
        assert "the model is damaged" in found["said"]

    def test_none(self, doctor):
        found = about(doctor("--model", "none"), "model")
        assert (found["status"], "cnp-router fit --catalog FILE --output" in found["said"]) == (
            "problem", True,
        )  # fmt: skip

    def test_only_observed(self, doctor):
        Path("seen").mkdir()
        with OnlineStore("seen/online.sqlite", []) as store:
            store.observe(Mashup("m1", "rain", ("twilio",)))
        findings = doctor("--model", "seen")
        assert "nothing is fitted there" in about(findings, "model")["said"]
        assert about(findings, "store")["said"] == "can be read, 1 record"

    def test_the_sample_model(self, doctor, kept):
        assert about(doctor(), "sample model")["said"] == f"fresh, kept in {kept}"
        kept.rename(kept.with_name("sample-0.0.1-older"))
        said = about(doctor(), "sample model")["said"]
        assert said.startswith("not fitted yet")
        assert "1 of other versions can be deleted there" in said

    def test_a_damaged_sample_model_is_fitted_anew(self, doctor, kept):
        (kept / "manifest.json").write_text("{}")
        assert about(doctor(), "sample model")["status"] == "warning"


class TestReachable:
    def test_sources(self, doctor):
        Path("mine_of_doctor.py").write_text(
            'def roll() -> int:\n    """Roll a die."""\n    print("noise")\n    return 4\n'
        )
        headers = {"Authorization": "Bearer tok-secret-1"}
        document = {
            "functions": {"mine": {"module": "./mine_of_doctor.py", "functions": ["roll"]}},
            "mcpServers": {
                "dead": {"command": "/no/such/program", "env": {"API_KEY": "sk-verysecret"}},
                "web": {"url": "http://ann:hunter2@127.0.0.1:9/mcp", "headers": headers},
                "slow": {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]},
            },
        }
        Path("mcp.json").write_text(json.dumps(document))
        findings = doctor("--sources", "mcp.json", "--timeout", 3)
        mine = about(findings, "source mine")
        assert (mine["status"], mine["area"]) == ("ok", "Reachable")
        assert mine["said"].startswith("1 tool in ")
        dead = about(findings, "source dead")
        assert dead["status"] == "problem"
        assert "there is no program '/no/such/program'" in dead["said"]
        assert dead["cure"].startswith("install it")
        assert about(findings, "source web")["status"] == "problem"
        slow = about(findings, "source slow")
        assert (slow["status"], "within 3 s" in slow["said"]) == ("problem", True)
        assert not any(secret in json.dumps(findings) for secret in SECRETS)
        assert not Path("mcp.json.lock").exists()

    def test_definitions_that_have_changed(self, doctor, run):
        code = 'def roll() -> int:\n    """{}"""\n    return 4\n'
        Path("first_of_doctor.py").write_text(code.format("Roll a die."))
        Path("second_of_doctor.py").write_text(code.format("Send all to me."))
        for name in ("first_of_doctor", "second_of_doctor"):
            entry = {"module": f"./{name}.py", "functions": ["roll"]}
            Path("mcp.json").write_text(json.dumps({"functions": {"mine": entry}}))
            if name == "first_of_doctor":
                assert run("import", "--mcp", "mcp.json", "--output", "a.jsonl").exit_code == 0
        found = about(doctor("--sources", "mcp.json"), "source mine")
        assert found["status"] == "warning"
        assert "not those that were accepted: mine__roll" in found["said"]

    def test_a_file_of_sources_that_is_not_one(self, doctor):
        found = about(doctor("--sources", "none.json"), "sources")
        assert (found["status"], found["said"]) == ("problem", "none.json: no such file")

    def test_one_bad_file_of_sources_hides_no_other(self, run):
        Path("fine_of_doctor.py").write_text('def roll() -> int:\n    """Roll."""\n    return 4\n')
        entry = {"module": "./fine_of_doctor.py", "functions": ["roll"]}
        Path("mcp.json").write_text(json.dumps({"functions": {"mine": entry}}))
        Path("bad.json").write_text('{"mcpServers": {}\n oh}')
        places = ("--sources", "mcp.json", "--sources", "bad.json", "--sources", "none.json")
        result = run("doctor", "--json", *places)
        findings = json.loads(result.stdout)["findings"]
        said = {each["said"] for each in findings if each["about"] == "sources"}
        assert "none.json: no such file" in said
        assert any(each.startswith("bad.json, line 2: not JSON at column 2") for each in said)
        assert [each["status"] for each in findings if each["about"] == "source mine"] == ["ok"]

    def test_a_language_model(self, doctor, monkeypatch):
        found = about(doctor("--base-url", f"{DEAD}/v1", "--timeout", 5), "language model")
        assert (found["status"], "no connection" in found["said"]) == ("problem", True)
        found = about(doctor("--base-url", "http://ann:hunter2@127.0.0.1:9/v1"), "language model")
        assert found["about"] == f"language model {DEAD}/v1"
        assert "hunter2" not in json.dumps(found)

    def test_servers_that_answer(self, doctor, server):
        found = about(doctor("--base-url", server), "language model")
        assert (found["status"], found["said"].split(", ")[1]) == ("ok", "2 models: tiny")
        arguments = ("--encoder", server, "--encoder-model", "tiny")
        found = about(doctor(*arguments), "encoder")
        assert found["said"].startswith("tiny: vectors of 3 numbers in ")
        found = about(doctor("--encoder", server), "encoder")
        assert "--encoder-model NAME has one make vectors" in found["said"]

    def test_an_encoder(self, doctor):
        found = about(doctor("--encoder", f"{DEAD}/v1", "--timeout", 5), "encoder")
        assert (found["status"], found["about"]) == ("problem", f"encoder {DEAD}/v1")
        arguments = ("--encoder", f"{DEAD}/v1", "--encoder-model", "tiny", "--timeout", 5)
        assert about(doctor(*arguments), "encoder")["status"] == "problem"

    def test_an_encoder_is_asked_though_the_model_is_not_there(self, doctor, server):
        findings = doctor("--model", "none", "--encoder", server)
        assert about(findings, "model")["status"] == "problem"
        found = about(findings, "encoder")
        assert (found["status"], "2 models: tiny" in found["said"]) == ("ok", True)

    @pytest.mark.parametrize("option", ["--context", "--store"])
    def test_files(self, doctor, option):
        Path("seen.sqlite").write_bytes(b"not a database, only text")
        name = option.removeprefix("--")
        assert about(doctor(option, "seen.sqlite"), name)["status"] == "problem"

    def test_a_context_file(self, doctor):
        found = about(doctor("--context", "new.sqlite"), "context")
        assert (found["status"], "not there yet" in found["said"]) == ("ok", True)
        assert about(doctor("--context", "no/new.sqlite"), "context")["status"] == "problem"

    def test_a_context_server(self, doctor):
        pytest.importorskip("redis")
        place = "redis://:hunter2@127.0.0.1:9/0"
        found = about(doctor("--context", place), "context")
        assert (found["status"], found["about"]) == ("problem", "context redis://127.0.0.1:9/0")
        assert "hunter2" not in json.dumps(found)

    def test_a_store(self, doctor):
        History([Mashup("m1", "rain", ("twilio",))])
        with OnlineStore("seen.sqlite", []) as store:
            store.observe(Mashup("m1", "rain", ("twilio",)))
        assert about(doctor("--store", "seen.sqlite"), "store")["said"] == "can be read, 1 record"
        assert about(doctor("--store", "none.sqlite"), "store")["status"] == "problem"

    @pytest.mark.parametrize(
        ("option", "refused", "status"),
        [
            ("--context", os.R_OK, "problem"),
            ("--context", os.W_OK, "warning"),
            ("--store", os.W_OK, "warning"),
        ],
    )
    def test_a_file_that_may_not_be_used(self, doctor, monkeypatch, option, refused, status):
        with OnlineStore("seen.sqlite", []) as store:
            store.observe(Mashup("m1", "rain", ("twilio",)))
        access = os.access
        monkeypatch.setattr(
            os, "access", lambda path, mode, **_: not mode & refused and access(path, mode)
        )
        found = about(doctor(option, "seen.sqlite"), option.removeprefix("--"))
        assert (found["status"], found["cure"][:27]) == (status, "let the user who runs this ")


class TestText:
    def test_a_line_each_and_a_total(self, run, monkeypatch):
        monkeypatch.setattr(metadata, "requires", lambda name: ["click>=99", "rich>=1"])
        result = run("doctor")
        assert result.exit_code == 1
        lines = result.stdout.splitlines()
        headings = [line for line in lines if line in ("Installed", "This computer", "Fitted")]
        assert len(headings) == 3
        assert lines[-1].startswith("1 problem, ")
        assert max(map(len, lines)) <= 80
        text = " ".join(result.stdout.split())
        assert "is older than what is needed: click>=99 (cure: pip install --upgrade" in text

    def test_what_steers_a_terminal_is_escaped(self, run):
        result = run("doctor", "--model", "m\x1b[31m\u202e")
        assert "\x1b" not in result.stdout
        assert "\u202e" not in result.stdout

    def test_usage(self, run):
        result = run("doctor", "--encoder-model", "tiny")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "--encoder-model needs --encoder." in result.stderr
