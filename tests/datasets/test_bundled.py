from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import cnp_router
from cnp_router.datasets import load_sample


@pytest.fixture(scope="module")
def sample():
    return load_sample()


def test_it_is_as_large_as_promised(sample):
    assert len(sample.catalog) >= 120
    assert len(sample.history) >= 500


def test_every_api_is_known_and_nothing_was_dropped(sample):
    assert all(api in sample.catalog for mashup in sample.history for api in mashup.apis)
    assert sample.history.skipped == 0
    assert (sample.report.apis.kept, sample.report.mashups.kept) == (
        len(sample.catalog),
        len(sample.history),
    )
    assert not sample.report.apis.dropped
    assert not sample.report.mashups.dropped


def test_ids_are_unique(sample):
    assert len(set(sample.catalog.ids)) == len(sample.catalog)
    assert len({mashup.id for mashup in sample.history}) == len(sample.history)


def test_no_text_occurs_twice(sample):
    texts = Counter(" ".join(text.casefold().split()) for text in sample.history.texts)
    assert [text for text, count in texts.items() if count > 1] == []
    names = Counter(api.name.casefold() for api in sample.catalog)
    assert [name for name, count in names.items() if count > 1] == []


def test_no_mashup_lists_an_api_twice(sample):
    assert [m.id for m in sample.history if len(set(m.apis)) < len(m.apis)] == []


def test_every_api_says_what_it_does_and_where_it_is_filed(sample):
    assert [a.id for a in sample.catalog if not (a.name and a.description and a.categories)] == []
    assert all(text.strip() for text in sample.history.texts)


def test_it_is_the_same_each_time(sample):
    again = load_sample()
    assert again.catalog == sample.catalog
    assert again.history == sample.history


def test_it_is_read_from_a_zip_archive_too(tmp_path, sample):
    # As importlib.resources promises; a wheel on sys.path is such an archive.
    package = Path(cnp_router.__file__).parent
    room = tmp_path / "tree" / "cnp_router"
    room.mkdir(parents=True)
    for module in package.glob("*.py"):
        shutil.copy(module, room)
    shutil.copytree(package / "datasets", room / "datasets")
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", tmp_path / "tree")
    code = (
        "import cnp_router.datasets as d; "
        "print(d.__file__); sample = d.load_sample(); "
        "print(len(sample.catalog), len(sample.history))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {archive!r}); {code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    place, counts = done.stdout.splitlines()
    assert place.startswith(archive)
    assert counts == f"{len(sample.catalog)} {len(sample.history)}"
