"""What comes from outside (names, files, servers) reaches a terminal as text, never as commands."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from chat_server import KEY, ChatServer, completion, refusal, stay_on_this_machine

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup

ROOT = Path(__file__).resolve().parents[2]
# Title of the window, colours with one byte less, deletion, text that runs backwards, nothing.
EVIL = (
    "\x1b]0;owned\x07 \x9b31m\x7f \u202efdp.\u202c \u200b\u2066 [red]x[link] \r\x1b[2Kall is well"
)
SEEN = r"\x1b]0;owned\x07 \x9b31m\x7f \u202efdp.\u202c \u200b\u2066 [red]x[link]"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a hostile catalog and history."""
    place = tmp_path_factory.mktemp("hostile")
    apis = [
        Api(name, f"{name} {EVIL}", f"Does {text}. {EVIL}", ("Weather",))
        for name, text in (("rain", "rain"), ("sms", "text messages"), ("maps", "maps of places"))
    ]
    Catalog(apis).write(place / "apis.jsonl")
    mashups = [
        Mashup(f"m{n}", f"{text} {EVIL} {n}", apis, ordered=True)
        for n in range(20)
        for text, apis in [
            [("Text me rain", ("rain", "sms")), ("Rain on maps", ("rain", "maps"))][n % 2]
        ]
    ]
    History(mashups).write(place / "mashups.jsonl")
    return place


@pytest.fixture(scope="module")
def model(place):
    files = ("--catalog", "apis.jsonl", "--history", "mashups.jsonl")
    code, out, err = asyncio.run(command(place, "fit", *files, "--output", f"model {EVIL}"))
    assert (code, err) == (0, "")
    assert f"model {SEEN}" in out
    return f"model {EVIL}"


async def command(place, *arguments, **environment):
    """Run the real command, check the bytes it writes, and return exit code and texts."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cnp_router", *map(str, arguments)),
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "110", **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = (stream.decode("utf-8") for stream in await process.communicate())
    for text in (out, err):
        raw = {c for c in text if not c.isprintable() and c != "\n"}
        assert raw == set(), f"{raw} in {text!r}"
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("fit", "--catalog", EVIL, "--history", EVIL, "--output", "m"), 1),
        (("recommend", "--model", EVIL, "rain"), 1),
        (("recommend", "rain", EVIL), 2),
        (("recommend", f"--{EVIL}", "rain"), 2),
        (("recommend", "--fallback", EVIL, "rain"), 2),
        (("recommend", "--top-k", EVIL, "rain"), 2),
        (("negotiate", "--protocol", EVIL, "rain"), 2),
        ((EVIL,), 2),
        (("graph", "next", EVIL), 1),
        (("graph", "export", f"{EVIL}.json"), 0),
        (("observe", "--model", "m", "--trajectories", EVIL), 1),
        (("replay", "--trajectories", EVIL), 1),
        (("observe", "--model", "m", b"\xff\x9b"), 2),
    ],
)
def test_arguments_and_names_of_files(place, arguments, code):
    arguments = [os.fsdecode(a) if isinstance(a, bytes) else a for a in arguments]
    found, out, err = asyncio.run(command(place, *arguments))
    assert found == code
    assert "owned" in out + err or "\\udcff" in err
    assert err.count("\n") == {0: 0, 1: 1}.get(code, err.count("\n"))


def test_what_files_say(place, model):
    for arguments in (
        ("recommend", "--model", model, "--known", EVIL, "rain"),
        ("recommend", "--model", model, f"rain {EVIL}"),
        ("negotiate", "--model", model, f"rain {EVIL}"),
        ("evaluate", "--model", model, "--history", "mashups.jsonl"),
        ("compare", "--model", model, "--history", "mashups.jsonl", "--limit", 1),
    ):
        _, out, err = asyncio.run(command(place, *arguments))
        assert out or err.startswith("Error: unknown API ")


def test_a_warning_is_one_line(place):
    Catalog([Api("maps", "Maps"), Api("sms", "SMS")]).write(place / "twins.jsonl")
    text = (place / "twins.jsonl").read_text().replace('"sms"', r'"m\u0430ps"')
    (place / "twins.jsonl").write_text(text)
    History([Mashup("m", "Maps", ("maps",))]).write(place / "one.jsonl")
    files = ("--catalog", "twins.jsonl", "--history", "one.jsonl", "--json")
    code, out, err = asyncio.run(command(place, "graph", "stats", *files))
    assert (code, json.loads(out)["n_apis"], err.count("\n")) == (0, 2, 1)
    assert err.startswith("Warning: ") and ".py" not in err


def test_json_escapes_what_steers_and_can_be_read_back(place, model):
    request = f"rain {EVIL}"
    for verb in ("recommend", "negotiate"):
        code, out, err = asyncio.run(command(place, verb, "--model", model, "--json", request))
        assert (code, err) == (0, "")
        assert json.loads(out)["request"] == request
        assert r"\u009b31m\u007f" in out


@pytest.fixture
def asked(place, model, monkeypatch):
    """Hold a round by a server on this machine."""
    stay_on_this_machine(monkeypatch)

    def asked(reply, *options):
        async def main():
            async with ChatServer(lambda _: reply) as server:
                llm = ("--llm", "openai", "--llm-model", f"m {EVIL}", "--base-url", server.url)
                arguments = ("negotiate", "--model", model, *llm, *options, "rain by text")
                return await command(place, *arguments, OPENAI_API_KEY=KEY)

        return asyncio.run(main())

    return asked


def test_the_error_of_a_server(asked):
    code, out, err = asked(refusal(400, f"no {EVIL}"), "--protocol", "manager-led")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "owned" in err and "all is well" in err


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_answers_of_a_model(asked, options):
    evil = {"apis": [{"api": "rain", "grounds": EVIL}], "grounds": [EVIL], "categories": [EVIL]}
    code, out, err = asked(completion(json.dumps(evil)), *options)
    assert code in (0, 1)
    assert "owned" in out + err
