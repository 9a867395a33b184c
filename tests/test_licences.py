"""Nothing that is installed with the package binds its users."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def licences() -> Any:
    path = ROOT / "scripts" / "licences.py"
    spec = importlib.util.spec_from_file_location("licences", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["licences"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_each_licence_is_accepted(licences: Any) -> None:
    # Whether the page lists it is for `make docs`: what others release must not turn a test red.
    try:
        found = licences.refused()
    except licences.LicenceError as exc:
        pytest.skip(str(exc))
    assert found == []


def test_each_direct_need_has_a_reason_and_no_other(licences: Any) -> None:
    extras = PROJECT["optional-dependencies"].values()
    lines = [*PROJECT["dependencies"], *(line for lines in extras for line in lines)]
    assert {Requirement(line).name for line in lines} == set(licences.REASONS)


@pytest.mark.parametrize(
    ("licence", "accepted"),
    [
        ("MIT", True),
        ("BSD-3-Clause AND 0BSD AND Zlib", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("MIT AND AGPL-3.0-or-later", False),
        ("GPL-2.0-only", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_which_licences_are_accepted(licences: Any, licence: str, accepted: bool) -> None:
    assert licences.is_accepted(licence) is accepted


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License-Expression": "MIT OR Apache-2.0", "License": "other"}, "MIT OR Apache-2.0"),
        ({"License": "Apache 2.0"}, "Apache-2.0"),
        ({"License": "A whole text, of many lines." * 9}, "unknown"),
        ({"Classifier": "License :: OSI Approved :: MIT License"}, "MIT"),
        ({"Classifier": "License :: OSI Approved"}, "unknown"),
        ({"Classifier": "License :: OSI Approved :: BSD License"}, "BSD License"),
        ({}, "unknown"),
    ],
)
def test_what_a_package_declares(
    licences: Any, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], licence: str
) -> None:
    told = Message()
    for name, value in fields.items():
        told[name] = value
    monkeypatch.setattr(licences, "_metadata", lambda name: told)
    assert licences.licence_of("some-package") == licence


def test_what_is_wrong_is_said(licences: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fine = licences.Package("new", "MIT", "what for")
    monkeypatch.setattr(licences, "tables", lambda: {"mcp": (fine,)})
    assert licences.refused() == []
    assert licences.problems("") == ["new (MIT), of the extra mcp, is not on the page"]
    package = licences.Package("evil", "AGPL-3.0-only", "")
    monkeypatch.setattr(licences, "tables", lambda: {"": (package,)})
    assert licences.problems("| fine | MIT | what for |\n") == [
        "evil, of the base, has the licence 'AGPL-3.0-only'",
        "evil: what for? (say it in REASONS)",
        "evil (AGPL-3.0-only), of the base, is not on the page",
    ]
