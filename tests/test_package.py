"""What the package hands out by name."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cnp_router
from cnp_router import exceptions

ROOT = Path(__file__).resolve().parents[1]
STUB = Path(cnp_router.__file__).with_suffix(".pyi")


@pytest.mark.parametrize("name", cnp_router.__all__)
def test_every_public_name_is_there(name):
    assert getattr(cnp_router, name) is not None
    assert name in dir(cnp_router)


def test_names_are_the_objects_of_their_rooms():
    from cnp_router.catalog import Catalog
    from cnp_router.exceptions import UnknownApiError
    from cnp_router.training import fit_router

    assert cnp_router.Catalog is Catalog
    assert cnp_router.UnknownApiError is UnknownApiError
    assert cnp_router.fit_router is fit_router


@pytest.mark.parametrize(
    ("room", "kind", "waits", "awaited"),
    [
        ("protocols", "ContractNet", "run_sync", "run"),
        ("execution", "Executor", "execute_sync", "execute"),
        ("subagents", "Orchestrator", "serve_sync", "serve"),
    ],
)
def test_what_waits_takes_what_is_awaited(room, kind, waits, awaited):
    """Both signatures are written out, for type checkers: they must not drift apart."""
    found = getattr(importlib.import_module(f"cnp_router.{room}"), kind)
    expected = inspect.signature(getattr(found, awaited))
    assert inspect.signature(getattr(found, waits)) == expected


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'cnp_router' has no attribute 'fit'"):
        cnp_router.fit  # noqa: B018


def test_everything_is_imported_by_a_star():
    names: dict[str, object] = {}
    exec("from cnp_router import *", names)
    assert set(cnp_router.__all__) == set(names) - {"__builtins__"}


def test_every_error_is_among_them():
    errors = {n for n, value in vars(exceptions).items() if isinstance(value, type)}
    assert {n for n in errors if n.endswith("Error")} <= set(cnp_router.__all__)


def test_the_stub_lists_each_name_once_and_hands_it_on():
    aliases = [
        alias
        for node in ast.parse(STUB.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    # "import a as a" is how a stub says that a name is public.
    assert [alias.asname for alias in aliases] == [alias.name for alias in aliases]
    assert sorted(alias.name for alias in aliases) == cnp_router.__all__


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(p.name for p in (ROOT / "docs").glob("*.md"))]
)
def test_what_the_docs_import_is_public(page):
    text = (ROOT / ("" if page == "README.md" else "docs") / page).read_text(encoding="utf-8")
    for names in re.findall(r"^(?:>>> )?from cnp_router import ([\w, ]+)$", text, re.MULTILINE):
        assert set(names.split(", ")) <= set(cnp_router.__all__)


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")],
    ids=lambda page: page.name,
)
def test_no_example_imports_from_an_inner_room(page):
    text = page.read_text(encoding="utf-8")
    # Adapters and fronts are imported from their own module: each needs its library.
    inner = r"^(?:>>> )?(?:from|import) cnp_router\.(?!adapters\b|serving\.\w+_front\b).*$"
    assert re.findall(inner, text, re.MULTILINE) == []


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cnp_router.__version__ == project["version"]


def test_the_citation_is_of_the_version_and_the_project():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    said = dict(re.findall(r"^([\w-]+): (.+)$", citation, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert said["version"] == cnp_router.__version__
    assert (said["title"], said["license"]) == (project["name"], project["license"])
    assert said["cff-version"] == "1.2.0"


def test_the_changelog_knows_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {cnp_router.__version__}" in changelog


def test_importing_imports_no_library():
    code = "import sys, cnp_router; print(any(m in sys.modules for m in ('numpy', 'click')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.strip() == b"False"
