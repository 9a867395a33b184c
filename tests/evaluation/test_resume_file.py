from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import TypeAdapter

from cnp_router.evaluation.resume import ResumeFile
from cnp_router.exceptions import DataFileError

SETTINGS = {"model": "tiny", "threshold": 0.6}
KIND = TypeAdapter(dict[str, str])


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def written(file):
    """The content of a resume file with two records."""
    with ResumeFile(file, SETTINGS, KIND) as kept:
        kept.add({"request": "m1"})
        kept.add({"request": "地図"})
    return file.read_bytes()


def test_records_come_back(file, written):
    with ResumeFile(file, SETTINGS, KIND) as kept:
        assert kept.records == [{"request": "m1"}, {"request": "地図"}]


def test_cut_off_anywhere_it_keeps_the_whole_lines(file, written):
    for end in range(len(written) + 1):
        file.write_bytes(written[:end])
        with ResumeFile(file, SETTINGS, KIND) as kept:
            records = kept.records
            assert len(records) == max(written[:end].count(b"\n") - 1, 0)
            for missing in [{"request": "m1"}, {"request": "地図"}][len(records) :]:
                kept.add(missing)
        assert file.read_bytes() == written


@pytest.mark.parametrize(
    "content",
    [
        b"my diary",
        b"my diary\n",
        b'{"record": "something else"}\n',
        b'{"record": "comparison", "format": 1}\n',
        b"\xff\xfe\x00\n",
        b"\n",
        b"[1]\nrest",
    ],
)
def test_a_file_that_is_none_is_left_alone(file, content):
    file.write_bytes(content)
    with pytest.raises(DataFileError, match=r"is not the file of a comparison \(name another"):
        ResumeFile(file, SETTINGS, KIND)
    assert file.read_bytes() == content


def test_other_settings_are_named(file, written):
    with pytest.raises(DataFileError) as caught:
        ResumeFile(file, {"model": "tiny", "threshold": 0.7, "iterate": 2}, KIND)
    assert str(caught.value) == (
        f"{file}: belongs to another comparison: threshold was 0.6 and is 0.7; iterate was None "
        "and is 2 (continue with the same, or name another file)"
    )
    assert file.read_bytes() == written


def test_another_format(file, written):
    file.write_bytes(written.replace(b'"format": 1', b'"format": 9'))
    with pytest.raises(DataFileError, match="written in format 9, this version has 1"):
        ResumeFile(file, SETTINGS, KIND)


def test_places_that_cannot_be_used(tmp_path):
    with pytest.raises(DataFileError, match="cannot be written: Is a directory"):
        ResumeFile(tmp_path, SETTINGS, KIND)
    with pytest.raises(DataFileError, match="cannot be written: No such file"):
        ResumeFile(tmp_path / "nowhere" / "run.jsonl", SETTINGS, KIND)


def test_one_writer_at_a_time(file, written):
    with (
        ResumeFile(file, SETTINGS, KIND),
        pytest.raises(DataFileError, match=r"another comparison is writing to it \(wait, or name"),
    ):
        ResumeFile(file, SETTINGS, KIND)
    with pytest.raises(DataFileError, match="belongs to another"):
        ResumeFile(file, {}, KIND)
    with ResumeFile(file, SETTINGS, KIND) as kept:
        assert len(kept.records) == 2
    assert file.read_bytes() == written


def test_a_killed_writer_holds_no_lock(file):
    code = (
        "import os, sys\n"
        "from pydantic import TypeAdapter\n"
        "from cnp_router.evaluation.resume import ResumeFile\n"
        "kept = ResumeFile(sys.argv[1], {}, TypeAdapter(dict[str, str]))\n"
        "kept.add({'request': 'm1'})\n"
        "os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, file], check=False)
    assert done.returncode == 9
    with ResumeFile(file, {}, KIND) as kept:
        assert kept.records == [{"request": "m1"}]
