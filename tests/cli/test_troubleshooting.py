"""The messages on the page about troubleshooting are those that people meet."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import socket
from pathlib import Path

import pytest

from cnp_router.catalog import Api
from cnp_router.exceptions import MissingExtraError
from cnp_router.execution import Approval
from cnp_router.execution.approval import declined
from cnp_router.sources.faults import refusal
from cnp_router.sources.lock_file import Changed
from cnp_router.storage import MANIFEST

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^### `(.+)`$", PAGE, re.MULTILINE)


def on_the_page(said: str) -> list[str]:
    """The headings that are in a text, with anything for each `…`."""
    said = " ".join(said.split())
    return [
        message
        for message in MESSAGES
        if re.search(re.escape(message).replace("…", ".*"), said, re.DOTALL)
    ]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path("apis.jsonl").write_text('{"id": "maps", "name": "Maps", "description": "Shows maps."}\n')
    Path("bad.jsonl").write_text('{"id": "maps", "name": "Maps"\n')
    Path("mashups.jsonl").write_text('{"id": "m", "description": "mail", "apis": ["mail"]}\n')
    servers = {"mcpServers": {"files": {"command": "no-such-program-here"}}}
    Path("mcp.json").write_text(json.dumps(servers))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("recommend --catalog none.jsonl x", "…: no such file"),
        ("recommend --catalog bad.jsonl x", "…, line …: not JSON at column"),
        ("fit --catalog apis.jsonl --history mashups.jsonl --output m", "…, line …: unknown API"),
        ("recommend --catalog apis.jsonl --known map x", "unknown API … (did you mean"),
        ("recommend --model none x", "…: no model there"),
        ("execute x --sources mcp.json", "source …: there is no program"),
        ("serve --http --host 0.0.0.0", "--host … is reached from other machines"),
        ("negotiate x --llm openai", "which model?"),
        ("negotiate x --llm openai --llm-model m", "…: there is no API key"),
        ("recommend --catalog apis.jsonl zzz", "Nothing in the catalog fits"),
        ("recommend --catalog apis.jsonl zzz", "Its probabilities are rough"),
    ],
)
def test_what_a_command_says(run, files, kept, arguments, message):
    done = run(*arguments.split())
    said = done.output.replace("\n", " ")
    assert [found for found in on_the_page(said) if found.startswith(message)], said


def test_a_server_that_is_not_there(run, files, kept, monkeypatch):
    monkeypatch.setenv("CNP_ROUTER_MODEL_REQUESTS", "loopback")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
        model = ["--llm", "openai", "--llm-model", "m", "--base-url", url]
        done = run("negotiate", "A map of Oslo", *model)
    assert [found for found in on_the_page(done.output) if found.startswith("…: no connection")]


def test_a_port_that_is_taken(run, files):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        done = run("serve", "--http", "--port", sock.getsockname()[1], "--catalog", "apis.jsonl")
    assert [found for found in on_the_page(done.output) if found.startswith("cannot listen at")]


def test_a_model_of_another_time(run, files, sample_model):
    shutil.copytree(sample_model, "model")
    manifest = json.loads(Path("model", MANIFEST).read_text())
    other = {**manifest, "format_version": manifest["format_version"] - 1}
    Path("model", MANIFEST).write_text(json.dumps(other))
    done = run("recommend", "--model", "model", "x")
    assert [found for found in on_the_page(done.output) if found.startswith("…: written in an")]
    Path("model", MANIFEST).write_text(json.dumps({**manifest, "sha256": "0" * 64}))
    done = run("recommend", "--model", "model", "x")
    assert [found for found in on_the_page(done.output) if found.startswith("…: the model is dam")]


def test_what_python_says():
    api = Api("time__now", "Now", "Says the time.")
    other = dataclasses.replace(api, description="Says it.")
    said = [
        str(MissingExtraError("drawing", package="matplotlib", extra="plot")),
        str(refusal("time", Changed(api, other))),
        declined(None, Approval("job-1", api, {}, "unknown")),
        declined(None, Approval("job-1", api, {}, "writes")),
    ]
    assert all(map(on_the_page, said)), said
