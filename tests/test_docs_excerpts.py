"""What the docs show of the repository is in it: pieces of files, and pictures."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *(file for where in ("*.md", "tutorials/*.md") for file in sorted((ROOT / "docs").glob(where))),
]
# <!-- from: examples/x.py -->, then a fenced block: a piece of that file, as it stands there.
_PIECE = re.compile(r"^<!-- from: (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^<!-- from: .*$", re.MULTILINE)
_PICTURE = re.compile(r"!\[[^\]]+\]\(([^)]+)\)")
_MOST_BYTES = 60_000


def pieces(page: str) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in _PIECE.finditer(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_piece_of_a_file_is_in_it(page):
    text = page.read_text(encoding="utf-8")
    found = pieces(text)
    assert len(found) == len(_MARK.findall(text))
    for name, piece in found:
        assert piece in (ROOT / name).read_text(encoding="utf-8"), f"{name} has it no longer"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_picture_is_there_and_small(page):
    for place in _PICTURE.findall(page.read_text(encoding="utf-8")):
        picture = page.parent / place
        assert picture.stat().st_size < _MOST_BYTES
        if picture.suffix == ".svg":
            tag = "{http://www.w3.org/2000/svg}svg"
            assert ElementTree.parse(picture).getroot().tag == tag


def test_no_picture_is_forgotten():
    shown = {
        (page.parent / place).resolve()
        for page in PAGES
        for place in _PICTURE.findall(page.read_text(encoding="utf-8"))
    }
    assert set((ROOT / "docs" / "images").iterdir()) == shown


def test_the_page_on_the_next_tool_shows_the_loop():
    page = (ROOT / "docs" / "next-tool.md").read_text(encoding="utf-8")
    assert [name for name, _ in pieces(page)] == ["examples/agent_loop.py"]
