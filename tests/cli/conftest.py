from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnp_router.cli import cache
from cnp_router.cli.app import app
from cnp_router.history import History
from cnp_router.timetable import Form, propose
from cnp_router.trajectories import Step, Trajectory, write_trajectories

ROOT = Path(__file__).resolve().parents[2]
PETSTORE = """\
openapi: 3.1.0
info: {title: Pets, version: "1"}
servers: [{url: "http://127.0.0.1:9"}]
paths:
  /pets:
    get:
      operationId: listPets
      summary: List all pets
      responses: {"200": {description: Pets}}
"""


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a command in an empty folder, 80 columns wide and with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments, **options):
        result = CliRunner().invoke(app, [str(a) for a in arguments], **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def place(run):
    """Where the router of the sample is kept."""
    place = cache.sample_place()
    assert place is not None
    return place


@pytest.fixture
def kept(place, sample_model):
    """The router of the sample, kept from an earlier run."""
    place.parent.mkdir(parents=True)
    shutil.copytree(sample_model, place)
    return place


@pytest.fixture
def fits(monkeypatch, sample_router):
    """Fitting takes no time; the list holds the arguments of each fit."""
    from cnp_router.training import fit_router as fitted

    calls = []

    def fit_router(catalog, history=None, **options):
        calls.append((catalog, history, options))
        if any("__" in api.id for api in catalog):  # of tools, which a round calls
            return fitted(catalog, history, **options)
        return sample_router

    monkeypatch.setattr("cnp_router.training.fit_router", fit_router)
    return calls


@pytest.fixture
def files(run, sample):
    """The data files that the examples name, in the working folder."""
    sample.catalog.write("apis.jsonl")
    sample.history.write("mashups.jsonl")
    asked = [
        replace(m, id=f"new-{m.id}", description=f"{m.description} Soon.")
        for m in sample.history[:20]
    ]
    History(asked).write("held-out.jsonl")
    steps = (Step("openweather", {"city": "Kyoto"}, "Rain in Kyoto.", 100, 9, 1.5), Step("twilio"))
    log = [Trajectory(f"t{n}", "Text me when it rains.", steps) for n in range(8)]
    write_trajectories("trajectories.jsonl", log)
    time = {"command": sys.executable, "args": ["-m", "mcp_server_time"], "trusted": True}
    Path("mcp.json").write_text(json.dumps({"mcpServers": {"time": time}}))
    job = {"id": "now", "api": "time__get_current_time", "inputs": {"timezone": "Asia/Tokyo"}}
    Path("plan.json").write_text(json.dumps({"request": "The time in Tokyo.", "jobs": [job]}))
    likes = {"interests": "statistics, film", "first_period": False, "gaps": True}
    form = {"department": "Law and Politics", "year": 2, "min_credits": 8, "max_credits": 14}
    Path("form.json").write_text(json.dumps({**form, **likes, "free_day": True}))
    propose(Form.read("form.json")).write("timetable.json")
    Path("requests.txt").write_text("Text me when it rains.\nPhotos on a map.\n")
    Path("zone.json").write_text('{"timezone": "Asia/Tokyo"}')
    Path("tools.json").write_text('{"tools": [{"name": "now", "inputSchema": {"type": "object"}}]}')
    Path("petstore.yaml").write_text(PETSTORE)


@pytest.fixture
def process():
    """Start the command line, or some code, as a process of its own, which ends with the test."""
    with ExitStack() as started:

        def process(
            *arguments,
            code=None,
            module="cnp_router",
            environment=(),
            stdout=subprocess.PIPE,
            **options,
        ):
            start = ["-c", code] if code else ["-m", module]
            begun = subprocess.Popen(
                [sys.executable, *start, *map(str, arguments)],
                env={**os.environ, "PYTHONPATH": str(ROOT), **dict(environment)},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                **options,
            )
            started.enter_context(begun)
            started.callback(begun.kill)
            return begun

        yield process
