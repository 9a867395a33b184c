"""What `mkdocs` needs to know of this repository: hooks, which ``mkdocs.yml`` names.

The site shows the documents where they lie, so that a link works in the repository as on the site.
Files outside ``docs/`` that a document links to become pages. The pages of the reference are made
from the docstrings: one a module that ``cnp_router/__init__.pyi`` names, and those of `MODULES`.
"""

from __future__ import annotations

import ast
import functools
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

__all__ = [
    "MODULES",
    "linked",
    "on_config",
    "on_files",
    "on_page_content",
    "on_page_markdown",
    "reference",
]

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "cnp_router"
REFERENCE = "docs/reference"
# Modules whose public names are imported from them, and not from `cnp_router`.
MODULES = (
    "adapters",
    "adapters.fastmcp",
    "adapters.langchain",
    "adapters.openai_agents",
    "adapters.pydantic_ai",
    "checks",
    "serving.http_front",
    "serving.mcp_front",
    "testing",
)

_LANGUAGES = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".jsonl": "json"}
_LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
_FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2$", re.MULTILINE | re.DOTALL)
# What belongs to an item of a list wants 4 columns there, and 2 or 3 in a repository.
_FENCED_OR_INDENTED = re.compile(
    r"(?P<fenced>^(?P<fence>`{3,}).*?^(?P=fence)$)|^ {2,3}(?=\S)", re.MULTILINE | re.DOTALL
)
_BASES = re.compile(r'<p class="doc doc-class-bases">.*?</p>', re.DOTALL)
# The type of a parameter: griffe reads `float, seconds` and `{"a", "b"}` as tuples.
_TUPLE = re.compile(r"(?<=\(<code>)\((?P<types>(?:(?!</code>).)*)\)(?=</code>)", re.DOTALL)
_NO_TEXT = re.compile(r"\s\u2013\s*<div class=\"doc-md-description\">\s*</div>")
# What is a link, a program or a heading stays as it is.
_CODE = re.compile(
    r"(?P<skipped><(?P<tag>a|autoref|pre|h[1-6])\b.*?</(?P=tag)>)|<code>(?P<text>[^<]*)</code>",
    re.DOTALL,
)
_NAME = re.compile(rf"(?:{PACKAGE}\.)?(?P<name>\w+)(?P<member>(?:\.\w+)*)(?P<call>\(.*\))?", re.S)


def reference(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the public names of each page, as ``{"routing": ["BroadcastRouter", ...]}``."""
    pages = _public(root)
    for module in MODULES:
        names = pages.setdefault(module, [])
        names += [name for name in _exported(_file(module, root)) if name not in names]
    return {module: sorted(pages[module], key=str.casefold) for module in sorted(pages)}


def linked(text: str) -> list[str]:
    """Return the relative paths to which a document links.

    Examples
    --------
    >>> linked("[a](x.md#part), [b](https://example.org), [c](#part) and ![d](d.svg)")
    ['x.md', 'd.svg']
    """
    return _LINK.findall(_FENCED.sub("", text))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the reference into the navigation."""
    index = f"{REFERENCE}/README.md"
    chapters = [index, *({module: f"{REFERENCE}/{module}.md"} for module in reference())]
    config.nav = _replaced(config.nav, index, chapters)
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Return the files of the site, each under its path in the repository."""
    found = Files(file for file in files if file.src_dir != config.docs_dir)
    for file in files:
        if file.src_dir == config.docs_dir:
            found.append(_at(f"docs/{file.src_uri}", config, file.dest_uri))
    for module, names in reference().items():
        text = _chapter(module, names)
        page = File.generated(config, f"{REFERENCE}/{module}.md", content=text)
        page.dest_uri = f"reference/{module}.html"
        found.append(page)
    # What the navigation names, and what is linked to from there on.
    wanted = [path for path in _leaves(config.nav) if not path.startswith("docs/")]
    wanted += [target for page in found.documentation_pages() for target in _targets(page)]
    for path in wanted:
        if (ROOT / path).exists() and path not in found.src_uris:
            found.append(page := _page(path, config))
            wanted += _targets(page)
    return found


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Return a document as Python-Markdown needs it."""
    page.meta.setdefault("search", {"boost": _boost(page.file.src_uri)})
    if page.file.src_uri == f"{REFERENCE}/README.md":
        markdown = f"{markdown}\n{_contents()}"
    if page.file.src_uri == "README.md":  # MkDocs leaves tags as they are
        markdown = re.sub(r'\b(src|srcset|href)="docs/', r'\1="', markdown)
    markdown = re.sub(r"^```python\n(?=>>> )", "```pycon\n", markdown, flags=re.MULTILINE)
    return _FENCED_OR_INDENTED.sub(lambda match: match["fenced"] or "    ", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Return a page without private bases of classes, and with links at the names in its prose."""
    # `::` before a program is of another markup; Markdown takes it for text.
    html = re.sub(r"<p>::</p>|(?<=:):(?=</p>\s*<div class=\"(?:language-\w+ )?highlight)", "", html)
    html = _NO_TEXT.sub("", html)
    html = _TUPLE.sub(lambda match: _typed(match["types"]), html)
    html = _BASES.sub(lambda bases: "" if re.search(r">\s*_\w", bases[0]) else bases[0], html)
    paths = _paths()
    return _CODE.sub(lambda match: match["skipped"] or _linked_name(match["text"], paths), html)


def _public(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the names that are imported from `cnp_router`, by module."""
    stub = ast.parse((root / PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    return {
        str(node.module).removeprefix(f"{PACKAGE}."): [alias.name for alias in node.names]
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
    }


def _file(module: str, root: Path = ROOT) -> Path:
    """Return the file of a module of the package."""
    path = root / PACKAGE / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _exported(file: Path) -> list[str]:
    """Return what a module lists in ``__all__``."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise ValueError(f"{file} has no __all__ (list its public names there)")


def _summary(file: Path) -> str:
    """Return the first line of a module's docstring, or nothing."""
    if file.suffix != ".py":
        return ""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def _chapter(module: str, names: list[str]) -> str:
    """Return the page of one module, which mkdocstrings fills."""
    path = f"{PACKAGE}.{module}"
    public = _public().get(module, [])
    own = [name for name in names if name not in public]
    says = [
        f"From `{place}`: {', '.join(f'`{name}`' for name in sorted(some, key=str.casefold))}."
        for place, some in ((PACKAGE, public), (path, own))
        if some
    ]
    return "\n".join(
        [
            f"# {path}\n\n::: {path}\n    options:\n      members: false",
            "      show_root_heading: false\n      show_root_toc_entry: false\n",
            "\n\n".join(says),
            *(f"\n::: {_path(module, name)}" for name in names),
        ]
    )


@functools.cache
def _path(module: str, name: str) -> str:
    """Return the path of a name in the module that defines it, which may be called like it."""
    for node in ast.walk(ast.parse(_file(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return _path(str(node.module).removeprefix(f"{PACKAGE}."), name)
    return f"{PACKAGE}.{module}.{name}"


def _contents() -> str:
    """Return all names by module, as Markdown: each becomes a link."""
    parts = [
        f"## [{module}]({module}.md)\n\n{_summary(_file(module))}\n\n"
        + " · ".join(f"[`{name}`][{_path(module, name)}]" for name in names)
        for module, names in reference().items()
    ]
    return "\n\n".join(parts)


def _replaced(nav: Any, path: str, by: list[Any]) -> Any:
    """Return a navigation with a list in the place of one page."""
    if isinstance(nav, Mapping):
        return {k: by if v == path else _replaced(v, path, by) for k, v in nav.items()}
    return [_replaced(item, path, by) for item in nav] if isinstance(nav, list) else nav


def _leaves(nav: Any) -> Iterator[str]:
    """Yield the paths of a navigation."""
    if isinstance(nav, str):
        yield nav
    else:
        for item in nav.values() if isinstance(nav, Mapping) else nav:
            yield from _leaves(item)


def _targets(page: File) -> list[str]:
    """Return the paths in the repository to which a page links."""
    if not page.is_documentation_page():
        return []
    folder = posixpath.dirname(page.src_uri)
    return [posixpath.normpath(posixpath.join(folder, to)) for to in linked(page.content_string)]


def _at(path: str, config: MkDocsConfig, dest_uri: str | None = None) -> File:
    """Return a file of the site that is shown as it stands in the repository."""
    return File(path, str(ROOT), config.site_dir, config.use_directory_urls, dest_uri=dest_uri)


class _Shown(File):
    """A page that shows a file or a folder which is not a document."""

    def is_documentation_page(self) -> bool:
        return True


def _page(path: str, config: MkDocsConfig) -> File:
    """Return the page of a file outside ``docs/``, or the picture itself."""
    named = path in _leaves(config.nav)
    if Path(path).suffix in {".md", ".svg", ".png"}:
        page = _at(path, config)
        if path.endswith("/README.md"):
            page.name = Path(path).parent.name  # the theme would show it as that of its chapter
    else:
        page = _Shown(path, None, config.site_dir, False, dest_uri=f"{path}.html")
        page.content_string = _shown(ROOT / path, path)
    page.inclusion = InclusionLevel.UNDEFINED if named else InclusionLevel.NOT_IN_NAV
    return page


def _shown(file: Path, path: str) -> str:
    """Return a file, or what a folder holds, as Markdown."""
    if file.is_dir():
        rows = [
            f"| [`{child.name}`]({file.name}/{child.name}) | {_summary(child)} |"
            for child in sorted(file.iterdir())
            if child.name != "__pycache__"
        ]
        return "\n".join([f"# {path}\n\n| file | what it shows |\n|---|---|", *rows])
    text = file.read_text(encoding="utf-8").rstrip("\n")
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"# {path}\n\n{fence}{_LANGUAGES.get(file.suffix, 'text')}\n{text}\n{fence}\n"


@functools.cache
def _paths() -> dict[str, str]:
    """Return the path of each public name that can mean one thing only."""
    pages = reference()
    count = Counter(name for names in pages.values() for name in names)
    return {n: _path(m, n) for m, names in pages.items() for n in names if count[n] == 1}


def _boost(path: str) -> float:
    """Return the weight of a page in a search: what explains comes before what lists."""
    if path.startswith(("docs/tutorials/", "docs/glossary", "docs/troubleshooting")):
        return 2.0
    return 0.3 if path.startswith(REFERENCE) or not path.startswith(("docs/", "README")) else 1.0


def _typed(types: str) -> str:
    """Return what a docstring says of a type, as it says it."""
    return f"{{{types}}}" if types.startswith(("'", "&#39;")) else types


def _linked_name(text: str, paths: Mapping[str, str]) -> str:
    """Return a piece of code in prose, as a link if it is a public name."""
    code = f"<code>{text}</code>"
    match = _NAME.fullmatch(text)
    if not match or match["name"] not in paths:
        return code
    name = match["name"]
    # `compare` is a command, too; `compare()` and `fit_router` are functions only.
    if name.islower() and "_" not in name and not match["call"]:
        return code
    return f'<autoref optional identifier="{paths[name]}{match["member"]}">{code}</autoref>'
