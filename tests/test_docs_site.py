"""What the site is made of: its navigation, its reference, and what the documents become."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import shutil
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from markdown_it import MarkdownIt

import cnp_router

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS]
pytest.importorskip("mkdocs")
SITE = Path(os.environ.get("CNP_ROUTER_SITE", "no-site")).resolve()
SHOWN = SimpleNamespace(meta={}, file=SimpleNamespace(src_uri="docs/any.md"))


@pytest.fixture(scope="module")
def site():
    path = ROOT / "scripts" / "docs_site.py"
    spec = importlib.util.spec_from_file_location("docs_site", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def config():
    from mkdocs.config import load_config

    return load_config(str(ROOT / "mkdocs.yml"))


class TestNavigation:
    def test_it_names_every_page_once(self, site, config):
        named = list(site._leaves(config.nav))
        assert len(named) == len(set(named))
        assert {str(page.relative_to(ROOT)) for page in PAGES} <= set(named)

    def test_it_names_nothing_else(self, site, config):
        assert [path for path in site._leaves(config.nav) if not (ROOT / path).exists()] == []

    def test_nothing_is_fetched_from_elsewhere(self, config):
        assert config.theme["font"] is False
        assert config.repo_url is None
        assert not config.extra_javascript or all(
            "//" not in str(script) for script in config.extra_javascript
        )

    def test_dead_links_and_anchors_are_warnings(self, config):
        import logging

        validation = config.validation
        levels = [validation.nav.omitted_files, validation.nav.not_found]
        levels += [validation.links.not_found, validation.links.anchors]
        assert levels == [logging.WARNING] * 4
        assert validation.links.unrecognized_links == logging.WARNING


class TestReference:
    def test_it_has_every_public_name(self, site):
        named = {name for names in site.reference().values() for name in names}
        assert set(cnp_router.__all__) <= named

    def test_it_has_adapters_fronts_fakes_and_laws(self, site):
        text = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *DOCS])
        imported = set(re.findall(r"from cnp_router\.(adapters[.\w]*) import", text))
        fronts = {
            f"serving.{file.stem}" for file in (ROOT / "cnp_router/serving").glob("*_front.py")
        }
        assert imported | fronts | {"testing", "checks"} <= set(site.reference())

    def test_names_are_found_where_they_are_defined(self, site):
        for module, names in site.reference().items():
            if module.startswith(("adapters.", "serving.")):
                continue
            room = importlib.import_module(f"cnp_router.{module}")
            for name in names:
                value = getattr(room, name)
                if inspect.isclass(value) or inspect.isfunction(value):
                    assert site._path(module, name) == f"{value.__module__}.{value.__qualname__}"

    def test_a_name_that_is_added_is_in_it(self, site, tmp_path):
        package = tmp_path / "cnp_router"
        shutil.copytree(
            ROOT / "cnp_router",
            package,
            ignore=shutil.ignore_patterns("*.npz", "*.jsonl", "__pyc*"),
        )
        stub = package / "__init__.pyi"
        added = "\nfrom cnp_router.newroom import (\n    Thing as Thing,\n)\n"
        stub.write_text(stub.read_text(encoding="utf-8") + added, encoding="utf-8")
        assert site.reference(tmp_path)["newroom"] == ["Thing"]

    def test_private_names_stay_out(self, site, config):
        names = [name for names in site.reference().values() for name in names]
        assert [name for name in names if name.startswith("_") and name != "__version__"] == []
        options = config.plugins["mkdocstrings"].config.handlers["python"]["options"]
        assert options["filters"] == ["!^_"]


class TestNames:
    @pytest.mark.parametrize(
        ("text", "value", "member"),
        [
            ("LearnedRouter", cnp_router.LearnedRouter, ""),
            ("cnp_router.LearnedRouter", cnp_router.LearnedRouter, ""),
            ("LearnedRouter.save", cnp_router.LearnedRouter, ".save"),
            ("TopK(5)", cnp_router.TopK, ""),
            ("fit_router", cnp_router.fit_router, ""),
            ("evaluate()", cnp_router.evaluate, ""),
        ],
    )
    def test_a_public_name_is_a_link(self, site, text, value, member):
        link = site.on_page_content(f"<p><code>{text}</code></p>")
        assert f'identifier="{value.__module__}.{value.__name__}{member}"' in link

    @pytest.mark.parametrize(
        "html",
        [
            "<p><code>evaluate</code> is a command, too</p>",
            "<p><code>sub_agent</code> is in several adapters</p>",
            "<p><code>nothing_of_ours</code></p>",
            '<a href="x.md"><code>TopK</code></a>',
            "<h2>The <code>TopK</code></h2>",
            "<pre><span></span><code>TopK</code></pre>",
        ],
    )
    def test_what_is_none_or_stands_elsewhere_is_not(self, site, html):
        assert site.on_page_content(html) == html


class TestTexts:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
    def test_the_site_shows_what_a_repository_shows(self, site, config, page):
        import markdown

        text = site.on_page_markdown(page.read_text(encoding="utf-8"), page=SHOWN)
        extensions = {"tables", "sane_lists", "pymdownx.superfences"}
        assert extensions <= set(config.markdown_extensions)
        here = markdown.markdown(text, extensions=sorted(extensions))
        there = MarkdownIt("commonmark").enable("table").render(page.read_text(encoding="utf-8"))
        for tag in ("li", "ul", "ol", "tr", "td", "pre", "img", "strong", "blockquote"):
            pattern = rf"<{tag}[ >]"
            assert len(re.findall(pattern, here)) == len(re.findall(pattern, there)), tag

    @pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
    def test_each_page_has_an_outline_and_says_at_once_what_it_is_for(self, page):
        text = page.read_text(encoding="utf-8")
        tokens = MarkdownIt("commonmark").parse(text)
        levels = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(b <= a + 1 for a, b in pairwise(levels))
        assert tokens[3].type == "paragraph_open"

    def test_parts_of_an_item_stay_in_it(self, site):
        text = "1. One\n   - two\n\n   three\n\n```\n   four\n```\n"
        shown = site.on_page_markdown(text, page=SHOWN)
        assert shown == "1. One\n    - two\n\n    three\n\n```\n   four\n```\n"

    def test_examples_with_prompts_are_coloured_as_such(self, site):
        text = "```python\n>>> 1\n1\n```\n\n```python\nx = 1\n```\n"
        assert site.on_page_markdown(text, page=SHOWN) == text.replace("python\n>>>", "pycon\n>>>")

    def test_a_picture_of_the_start_page_is_found_on_the_site(self, site):
        start = SimpleNamespace(meta={}, file=SimpleNamespace(src_uri="README.md"))
        shown = site.on_page_markdown('<img src="docs/images/demo.svg">\n', page=start)
        assert shown == '<img src="images/demo.svg">\n'


@pytest.mark.skipif(not SITE.is_dir(), reason="the site is not built (make check builds it)")
def test_nothing_in_it_is_fetched_from_elsewhere():
    loads = re.compile(
        r"<(?:script|img|iframe|source)\b[^>]*\bsrc(?:set)?=\"?(?:https?:)?//[^>]*>"
        r"|<link\b(?![^>]*rel=\"?(?:canonical|prev|next))[^>]*href=\"?(?:https?:)?//[^>]*>"
    )
    texts = {file: file.read_text(encoding="utf-8") for file in SITE.rglob("*.html")}
    assert texts
    assert {match for text in texts.values() for match in loads.findall(text)} == set()
    # The theme fetches the library of these diagrams when a page has one.
    assert [file for file, text in texts.items() if 'class="mermaid"' in text] == []
