from __future__ import annotations

import subprocess
import sys

import pytest

from cnp_router.evaluation.checkpoint import Checkpoint
from cnp_router.exceptions import DataFileError

SETTINGS = {"model": "tiny", "threshold": 0.6}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def written(file):
    """The content of a checkpoint with two records."""
    with Checkpoint(file, SETTINGS) as checkpoint:
        checkpoint.add({"request": "m1"})
        checkpoint.add({"request": "地図"})
    return file.read_bytes()


def test_records_come_back_with_their_lines(file, written):
    with Checkpoint(file, SETTINGS) as checkpoint:
        assert checkpoint.records == [(2, {"request": "m1"}), (3, {"request": "地図"})]


def test_cut_off_anywhere_it_keeps_the_whole_lines(file, written):
    for end in range(len(written) + 1):
        file.write_bytes(written[:end])
        with Checkpoint(file, SETTINGS) as checkpoint:
            records = [record for _, record in checkpoint.records]
            assert len(records) == max(written[:end].count(b"\n") - 1, 0)
            for missing in [{"request": "m1"}, {"request": "地図"}][len(records) :]:
                checkpoint.add(missing)
        assert file.read_bytes() == written


@pytest.mark.parametrize(
    "content",
    [
        b"my diary",
        b"my diary\n",
        b'{"record": "something else"}\n',
        b'{"record": "comparison", "format": 2}\n',
        b"\xff\xfe\x00\n",
        b"\n",
        b"[1]\nrest",
    ],
)
def test_a_file_that_is_none_is_left_alone(file, content):
    file.write_bytes(content)
    with pytest.raises(DataFileError, match=r"is no checkpoint of a comparison \(name another"):
        Checkpoint(file, SETTINGS)
    assert file.read_bytes() == content


def test_other_settings_are_named(file, written):
    with pytest.raises(DataFileError) as caught:
        Checkpoint(file, {"model": "tiny", "threshold": 0.7, "iterate": 2})
    assert str(caught.value) == (
        f"{file}: belongs to another comparison: threshold was 0.6 and is 0.7; iterate was None "
        "and is 2 (go on with the same, or name another file)"
    )
    assert file.read_bytes() == written


def test_another_format(file, written):
    file.write_bytes(written.replace(b'"format": 2', b'"format": 9'))
    with pytest.raises(DataFileError, match="written in format 9, and this version has 2"):
        Checkpoint(file, SETTINGS)


def test_places_that_cannot_be_used(tmp_path):
    with pytest.raises(DataFileError, match="cannot be written: Is a directory"):
        Checkpoint(tmp_path, SETTINGS)
    with pytest.raises(DataFileError, match="cannot be written: No such file"):
        Checkpoint(tmp_path / "nowhere" / "run.jsonl", SETTINGS)


def test_one_writer_at_a_time(file, written):
    with (
        Checkpoint(file, SETTINGS),
        pytest.raises(DataFileError, match=r"another comparison is writing to it \(wait, or name"),
    ):
        Checkpoint(file, SETTINGS)
    with pytest.raises(DataFileError, match="belongs to another"):
        Checkpoint(file, {})
    with Checkpoint(file, SETTINGS) as checkpoint:
        assert len(checkpoint.records) == 2
    assert file.read_bytes() == written


def test_a_killed_writer_holds_no_lock(file):
    code = (
        "import os, sys, cnp_router.evaluation.checkpoint as c\n"
        "kept = c.Checkpoint(sys.argv[1], {})\n"
        "kept.add({'request': 'm1'})\n"
        "os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, file], check=False)
    assert done.returncode == 9
    with Checkpoint(file, {}) as checkpoint:
        assert checkpoint.records == [(2, {"request": "m1"})]
