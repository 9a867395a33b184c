"""Every link between the documents leads somewhere, for who reads them in the repository too."""

from __future__ import annotations

import functools
import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "cnp_router").rglob("*.md")),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
]
_HTML = re.compile(r"""\b(?:href|src|srcset)=["']([^"']+)["']""")


@functools.cache
def tokens(page: Path) -> list[Token]:
    found: list[Token] = []
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        found += [token, *(token.children or [])]
    return found


def links(page: Path) -> list[str]:
    found = []
    for token in tokens(page):
        if token.type in {"html_block", "html_inline"}:
            found += _HTML.findall(token.content)
        found += [str(v) for k, v in token.attrs.items() if k in {"href", "src"}]
    return found


@functools.cache
def anchors(page: Path) -> set[str]:
    """The anchors that a repository's browser gives to the headings of a page."""
    seen: Counter[str] = Counter()
    found = set()
    for token, inline in zip(tokens(page), tokens(page)[1:], strict=False):
        if token.type == "heading_open":
            shown = (each.content for each in inline.children or [] if each.type != "html_inline")
            slug = re.sub(r"[^\w\- ]", "", "".join(shown).strip().lower()).replace(" ", "-")
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return found


def problems(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = page.parent / unquote(parts.path) if parts.path else page
        known = target.exists() and target.resolve().is_relative_to(page_root(page))
        if known and parts.fragment:
            known = target.suffix == ".md" and parts.fragment in anchors(target)
        if not known or link.startswith("/"):
            found.append(link)
    return found


def page_root(page: Path) -> Path:
    return ROOT if page.is_relative_to(ROOT) else page.parent


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    assert problems(page) == []


def test_dead_ones_are_noticed(tmp_path):
    (tmp_path / "other.md").write_text("# Other\n\n## A `b`, c\n\n## A `b`, c\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n[a](other.md#a-b-c) [b](other.md#a-b-c-1) [c](#page) [d](https://example.org/x)\n"
        "[e](gone.md) [f](other.md#gone) [l](gone.md#gone) [g](#gone)\n"
        "[h](/other.md) [i](../../..)\n"
        '![j](gone.svg) <img src="gone.png">\n\n```\n[k](gone-too.md)\n```\n`[l](gone.md)`\n'
    )
    assert problems(page) == [
        "gone.md",
        "other.md#gone",
        "gone.md#gone",
        "#gone",
        "/other.md",
        "../../..",
        "gone.svg",
        "gone.png",
    ]


def test_no_repository_is_named_that_nobody_knows():
    for page in PAGES:
        found = [link for link in links(page) if "cnp-router" in urlsplit(link).netloc + link]
        assert [link for link in found if link.startswith("http")] == []
