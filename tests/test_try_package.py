"""Wheel and sdist as `make package` builds them, without a network; the trials are left to it."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def package() -> Any:
    return script("try_package")


@pytest.fixture(scope="module")
def built(package: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("build")
    pytest.importorskip("setuptools", "77")
    return package.build(tmp_path_factory.mktemp("package"), isolated=False)


def test_wheel_and_sdist_hold_the_package_and_nothing_else(package: Any, built: Any) -> None:
    package.check_contents(built)


@pytest.mark.parametrize("name", ["cnp_router/py.typed", "cnp_router/__init__.pyi"])
def test_a_missing_file_is_found(package: Any, built: Any, tmp_path: Path, name: str) -> None:
    wheel = tmp_path / built.wheel.name
    with zipfile.ZipFile(built.wheel) as old, zipfile.ZipFile(wheel, "w") as new:
        for each in old.namelist():
            if each != name:
                new.writestr(each, old.read(each))
    with pytest.raises(package.PackageError, match=f"the wheel lacks {name}"):
        package.check_contents(package.Built(wheel, built.sdist))


def test_a_needless_file_is_found(package: Any, built: Any, tmp_path: Path) -> None:
    wheel = tmp_path / built.wheel.name
    shutil.copy(built.wheel, wheel)
    with zipfile.ZipFile(wheel, "a") as new:
        new.writestr("tests/conftest.py", "")
    with pytest.raises(package.PackageError, match=r"the wheel has tests/conftest\.py too"):
        package.check_contents(package.Built(wheel, built.sdist))


def test_each_extra_is_tried(package: Any) -> None:
    assert set(script("package_trials").TRIALS) == {"base", *PROJECT["optional-dependencies"]}
    assert set(package.extras()) == set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("extra", ["", *PROJECT["optional-dependencies"]])
def test_each_requirement_has_a_lowest_version(package: Any, extra: str) -> None:
    lines = PROJECT["optional-dependencies"].get(extra, PROJECT["dependencies"])
    assert [pin.partition("==")[0] for pin in package.lowest_versions(extra)] == [
        line.partition(">=")[0] for line in lines
    ]


def test_what_fails_is_said(package: Any, tmp_path: Path) -> None:
    with pytest.raises(package.PackageError, match="exits with 3: no such thing"):
        package.run([sys.executable, "-c", "print('no such thing'); exit(3)"], tmp_path, 60)


def test_what_hangs_is_ended(package: Any, tmp_path: Path) -> None:
    with pytest.raises(package.PackageError, match=r"takes longer than 0\.5 s"):
        package.run([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, 0.5)


def test_links_lead_to_the_repository_where_it_is_known(
    package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("build")
    pytest.importorskip("setuptools", "77")
    (project := tmp_path / "project").mkdir()
    for name in ("setup.py", "LICENSE"):
        shutil.copy(ROOT / name, project)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    urls = '[project.urls]\nRepository = "https://example.org/r/"\n\n[project.scripts]\n'
    (project / "pyproject.toml").write_text(
        text.replace("[project.scripts]\n", urls), encoding="utf-8"
    )
    (project / "README.md").write_text(
        "# cnp-router\n[a](docs/a.md#b) [c](https://c.org) [d](#d) ![e](docs/e.png)\n"
        '<img src="docs/f.svg" alt="f">\n',
        encoding="utf-8",
    )
    (project / "cnp_router").mkdir()
    (project / "cnp_router" / "__init__.py").touch()
    monkeypatch.setattr(package, "ROOT", project)
    wheel = package.build(tmp_path, isolated=False).wheel
    with zipfile.ZipFile(wheel) as opened:
        name = next(each for each in opened.namelist() if each.endswith("/METADATA"))
        description = opened.read(name).decode()
    assert "[a](https://example.org/r/blob/HEAD/docs/a.md#b) [c](https://c.org)" in description
    assert "[d](#d)" in description
    assert "![e](https://example.org/r/raw/HEAD/docs/e.png)" in description
    assert '<img src="https://example.org/r/raw/HEAD/docs/f.svg" alt="f">' in description
