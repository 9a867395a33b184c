from __future__ import annotations

import subprocess
import sys

import pytest

from cnp_router.evaluation import Method
from cnp_router.evaluation.comparison import RoundResult
from cnp_router.evaluation.resume import ResumeFile
from cnp_router.exceptions import DataFileError

SETTINGS = {"model": "tiny", "threshold": 0.6}
METHOD = Method("single-agent", "broadcast", "api")
RECORDS = [RoundResult(METHOD, name, None, "nonsense") for name in ("m1", "地図")]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def written(file):
    """The content of a resume file with two records."""
    with ResumeFile(file, SETTINGS) as kept:
        for record in RECORDS:
            kept.add(record)
    return file.read_bytes()


def test_records_come_back(file, written):
    with ResumeFile(file, SETTINGS) as kept:
        assert kept.records == RECORDS


def test_cut_off_anywhere_it_keeps_the_whole_lines(file, written):
    for end in range(len(written) + 1):
        file.write_bytes(written[:end])
        with ResumeFile(file, SETTINGS) as kept:
            records = kept.records
            assert len(records) == max(written[:end].count(b"\n") - 1, 0)
            for missing in RECORDS[len(records) :]:
                kept.add(missing)
        assert file.read_bytes() == written


@pytest.mark.parametrize(
    "content",
    [
        b"my diary",
        b"my diary\n",
        b'{"record": "something else"}\n',
        b'{"record": "comparison", "format": 4}\n',
        b"\xff\xfe\x00\n",
        b"\n",
        b"[1]\nrest",
        b'{"record": "comparison", "format": 4, "settings": {"model": "tiny"}}',
    ],
)
def test_a_file_that_is_none_is_left_alone(file, content):
    file.write_bytes(content)
    with pytest.raises(DataFileError, match=r"is not the file of a comparison \(name another"):
        ResumeFile(file, SETTINGS)
    assert file.read_bytes() == content


def test_other_settings_are_named(file, written):
    with pytest.raises(DataFileError) as caught:
        ResumeFile(file, {"model": "tiny", "threshold": 0.7, "iterate": 2})
    assert str(caught.value) == (
        f"{file}: belongs to another comparison: threshold was 0.6 and is 0.7; iterate was None "
        "and is 2 (continue with the same, or name another file)"
    )
    assert file.read_bytes() == written


def test_another_format(file, written):
    file.write_bytes(written.replace(b'"format": 4', b'"format": 9'))
    with pytest.raises(DataFileError, match="written in format 9, this version has 4"):
        ResumeFile(file, SETTINGS)


def test_places_that_cannot_be_used(tmp_path):
    with pytest.raises(DataFileError, match="is a directory"):
        ResumeFile(tmp_path, SETTINGS)
    with pytest.raises(DataFileError, match="its folder does not exist"):
        ResumeFile(tmp_path / "nowhere" / "run.jsonl", SETTINGS)


def test_one_writer_at_a_time(file, written):
    with (
        ResumeFile(file, SETTINGS),
        pytest.raises(DataFileError, match=r"another comparison is writing to it \(wait, or name"),
    ):
        ResumeFile(file, SETTINGS)
    with pytest.raises(DataFileError, match="belongs to another"):
        ResumeFile(file, {})
    with ResumeFile(file, SETTINGS) as kept:
        assert len(kept.records) == 2
    assert file.read_bytes() == written


def test_a_killed_writer_holds_no_lock(file):
    code = (
        "import os, sys\n"
        "from cnp_router.evaluation.comparison import Method, RoundResult\n"
        "from cnp_router.evaluation.resume import ResumeFile\n"
        "kept = ResumeFile(sys.argv[1], {})\n"
        "method = Method('single-agent', 'broadcast', 'api')\n"
        "kept.add(RoundResult(method, 'm1', None, 'nonsense'))\n"
        "os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, file], check=False)
    assert done.returncode == 9
    with ResumeFile(file, {}) as kept:
        assert kept.records == RECORDS[:1]
