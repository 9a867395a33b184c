from __future__ import annotations

import json
import shutil

import pytest

from cnp_router.history import History, Mashup


@pytest.fixture
def model(run, sample_model):
    shutil.copytree(sample_model, "model")
    return "model"


def test_a_sound_model(run, model, sample_router):
    result = run("verify", "--model", model)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "as they were saved\n" in result.stdout
    assert "\nLearned from    680 mashups over 149 APIs\n" in result.stdout
    assert result.stdout.endswith("\nObserved since  0 mashups\n")


def test_one_document(run, model):
    History([Mashup("new", "Rain by text", ("twilio",))]).write("new.jsonl")
    assert run("observe", "--model", model, "--history", "new.jsonl").exit_code == 0
    document = json.loads(run("verify", "--model", model, "--json").stdout)
    assert document.pop("files") > 2
    assert document == {"apis": 149, "mashups": 680, "observed": 1}


def test_one_bit_is_found(run, model, tmp_path):
    file = max(
        (path for path in (tmp_path / model).rglob("*") if path.is_file()),
        key=lambda path: path.stat().st_size,
    )
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    result = run("verify", "--model", model)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "its checksum differs" in result.stderr


def test_no_model(run):
    result = run("verify", "--model", "nowhere")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no model there" in result.stderr
