"""What the package hands out by name."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cnp_router

ROOT = Path(__file__).resolve().parents[1]


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


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'cnp_router' has no attribute 'fit'"):
        cnp_router.fit  # noqa: B018


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(cnp_router.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == set(cnp_router.__all__) - {"__version__"}


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cnp_router.__version__ == project["version"]


def test_the_changelog_knows_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {cnp_router.__version__}" in changelog


def test_importing_imports_no_library():
    code = "import sys, cnp_router; print(any(m in sys.modules for m in ('numpy', 'click')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.strip() == b"False"
