from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cnp_router.catalog import Api, Catalog
from cnp_router.sources.lock_file import LockFile, fingerprint

PETS = """\
openapi: 3.1.0
info: {title: Pets, version: "1"}
servers: [{url: "URL"}]
paths:
  /pets/{id}:
    get:
      operationId: getPet
      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
      responses: {"200": {description: A pet}}
"""

TOOLS = '''
import asyncio

from cnp_router.sources.source import Attachment, CallResult


def roll(sides: int) -> dict:
    """Roll a die."""
    return {"eyes": sides}


def say(text: str) -> str:
    """Say something."""
    return text


def fail() -> str:
    """Fail."""
    raise ValueError("it is broken")


async def wait() -> str:
    """Wait."""
    await asyncio.sleep(60)


def draw() -> CallResult:
    """Draw."""
    odd, place = Attachment("x/../../y", b"?"), Attachment("a/b", uri="u:1")
    return CallResult("pictures", attachments=(Attachment("image/png", b"png"), odd, place))


def both() -> CallResult:
    """Both."""
    return CallResult("in words", structured=[1])
'''


@pytest.fixture
def call(run, tmp_path):
    """Call a function of a file of sources."""
    Path("tools_of_call.py").write_text(TOOLS)
    functions = ["roll", "say", "fail", "wait", "draw", "both"]
    entry = {"module": "./tools_of_call.py", "functions": functions}
    dead = {"command": "/no/such/program"}
    document = {"functions": {"it": entry}, "mcpServers": {"dead": dead}}
    Path("mcp.json").write_text(json.dumps(document))

    def call(api, *arguments, **options):
        return run("call", api, "--sources", "mcp.json", *arguments, **options)

    return call


class TestResult:
    def test_what_a_tool_prints_is_not_in_it(self, run):
        code = "print('hello')\ndef shout() -> int:\n    print('HELLO')\n    return 4\n"
        Path("tools_that_print.py").write_text(code)
        entry = {"module": "tools_that_print.py", "functions": ["shout"]}
        Path("print.json").write_text(json.dumps({"functions": {"it": entry}}))
        result = run("call", "it__shout", "--sources", "print.json", "--json")
        assert json.loads(result.stdout)["structured"] == 4
        assert result.stderr == "hello\nHELLO\n"

    def test_structured(self, call):
        result = call("it__roll", "--inputs", '{"sides": 6}')
        assert (result.exit_code, result.stderr) == (0, "")
        document, facts = result.stdout.split("\n\n")
        assert json.loads(document) == {"eyes": 6}
        started, sent = facts.splitlines()
        assert started.startswith("Started  it, in 0.")
        assert sent.startswith("Call     0.") and sent.endswith(" bytes")

    def test_text(self, call):
        text = "one\ntwo \x1b[31m red " + "long " * 40 + "\n"
        result = call("it__say", "--inputs", json.dumps({"text": text}))
        lines = result.stdout.splitlines()
        assert lines[0] == "one"
        assert lines[1] == r"two \x1b[31m red " + "long " * 40
        assert lines[2] == ""

    def test_both(self, call):
        assert call("it__both").stdout.startswith("in words\n\n[\n  1\n]\n\n")

    def test_json(self, call):
        result = call("it__roll", "--inputs", '{"sides": 6}', "--json")
        document = json.loads(result.stdout)
        assert (document["api"], document["done"]) == ("it__roll", True)
        assert document["structured"] == {"eyes": 6}
        assert document["start_seconds"] >= 0

    def test_only_its_own_source_is_started_and_accepted(self, call):
        assert call("it__both").exit_code == 0
        assert list(json.loads(Path("mcp.json.lock").read_text())["sources"]) == ["it"]


class TestAttachments:
    def test_listed(self, call):
        facts = call("it__draw").stdout
        assert "Attachment  image/png, 3 bytes (--save DIR writes it)\n" in facts
        assert "Attachment  a/b, u:1\n" in facts

    def test_saved_under_names_of_ours(self, call):
        for _ in range(2):
            result = call("it__draw", "--save", "new/folder")
            assert result.exit_code == 0
        names = sorted(str(each) for each in Path().rglob("it__draw*"))
        assert names == [
            "new/folder/it__draw-1.bin",
            "new/folder/it__draw-1.png",
            "new/folder/it__draw-2.bin",
            "new/folder/it__draw-2.png",
        ]
        assert Path(names[1]).read_bytes() == b"png"
        assert "image/png, 3 bytes (saved as new/folder/it__draw-2.png)" in result.stdout

    def test_json(self, call):
        document = json.loads(call("it__draw", "--save", "here", "--json").stdout)
        picture, _, place = document["attachments"]
        assert (picture["data"], picture["file"]) == ("", "here/it__draw-1.png")
        assert place == {"media_type": "a/b", "data": "", "uri": "u:1"}

    def test_a_place_that_cannot_be_one_is_known_before_the_call(self, call):
        Path("file").write_text("")
        result = call("it__draw", "--save", "file")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "file: cannot be made: File exists (name a folder)" in result.stderr
        assert not Path("mcp.json.lock").exists()


class TestInputs:
    def test_from_a_file_and_from_standard_input(self, call):
        Path("in.json").write_text('{"text": "hé"}', encoding="utf-8")
        assert call("it__say", "--inputs", "@in.json").stdout.startswith("hé\n")
        given = call("it__say", "--inputs", "-", input='{"text": "hé"}')
        assert given.stdout.startswith("hé\n")

    @pytest.mark.parametrize(
        ("inputs", "said"),
        [
            ("{", "--inputs, line 1: not JSON at column 2"),
            ("", "--inputs, line 1: not JSON at column 1"),
            ("[1]", "--inputs must be a JSON object, got [1]"),
            ('{"text": NaN}', "NaN is not a JSON value"),
            ('{"text": "a", "text": "b"}', "key 'text' occurs twice"),
            ("@no.json", "no.json: no such file"),
            ("-", "standard input, line 1: not JSON"),
        ],
    )
    def test_what_cannot_be_used(self, call, inputs, said):
        result = call("it__say", "--inputs", inputs, input="")
        assert (result.exit_code, result.stdout) == (1, "")
        assert said in result.stderr
        assert result.stderr.count("\n") == 1


class Pets(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"name": "Rex", "asked": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_an_openapi_document(run):
    """It is imported by its place, and called by the same."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pets) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            Path("pets.yaml").write_text(PETS.replace("URL", url))
            imported = run("import", "--openapi", "pets.yaml", "--output", "apis.jsonl")
            inputs = ("--inputs", '{"id": 7}')
            called = [
                run("call", "pets__getPet", *inputs, "--sources", "pets.yaml"),
                run("call", "mine__getPet", *inputs, "--openapi", "mine=pets.yaml"),
            ]
        finally:
            server.shutdown()
            thread.join()
    assert (imported.exit_code, imported.stderr) == (0, "")
    assert Catalog.read("apis.jsonl")["pets__getPet"].effects == "reads"
    for result in called:
        assert (result.exit_code, result.stderr) == (0, "")
        assert json.loads(result.stdout.split("\n\n")[0]) == {"name": "Rex", "asked": "/pets/7"}
    assert LockFile("pets.yaml.lock").sources == ("mine", "pets")


class TestFailure:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("it__fail",), "it__fail failed (tool): ValueError: it is broken"),
            (("it__say",), "it__say failed (inputs): inputs: 'text' is a required property"),
            (("it__saz",), "unknown API 'it__saz' (did you mean 'it__say'?)"),
            (("deat__x",), "unknown API 'deat__x' (did you mean 'dead__x'?)"),
            (("dead__x",), "dead__x failed (unavailable): source 'dead': there is no program"),
            (
                ("it__wait", "--timeout", "0.05"),
                "it__wait failed (timeout; nobody knows whether it was done): ",
            ),
        ],
    )
    def test_one_clear_line(self, call, arguments, said):
        result = call(*arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"Error: {said}")
        assert result.stderr.count("\n") == 1

    def test_json(self, call):
        result = call("it__fail", "--json")
        assert (result.exit_code, result.stderr) == (1, "")
        assert json.loads(result.stdout)["failure"]["kind"] == "tool"

    def test_what_the_tool_said_is_printed_once(self, call):
        result = call("it__fail")
        assert "it is broken" not in result.stdout

    def test_no_sources(self, run):
        result = run("call", "it__say")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Give --sources, --openapi or --a2a." in result.stderr

    def test_a_changed_definition(self, call):
        assert call("it__both").exit_code == 0
        lock = Path("mcp.json.lock")
        document = json.loads(lock.read_text())
        for entry in document["sources"]["it"]:
            if entry["id"] == "it__both":
                entry["description"] = "Neither."
                del entry["sha256"]
                entry["sha256"] = fingerprint(Api(**entry))
        lock.write_text(json.dumps(document))
        result = call("it__both")
        assert (result.exit_code, result.stdout) == (1, "")
        assert '-  "description": "Neither.",' in result.stderr
        assert "Error: it__both failed (changed): " in result.stderr
        assert call("it__say", "--inputs", '{"text": "a"}').exit_code == 0
        assert call("it__both", "--accept").exit_code == 0
        assert call("it__both").exit_code == 0
