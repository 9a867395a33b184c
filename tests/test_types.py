"""The types of the installed package, as mypy and pyright see them in a user's script."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import cnp_router

SCRIPT = Path(__file__).parent / "typed" / "user_script.py"
WRONG = """\
from cnp_router import Catalog, TopK, fit_router, no_such_name

router = fit_router(Catalog([]), histroy=None)
routing = router.route("a", select=TopK("5"), fallback="everyone")
number: int = routing.confidence
"""
# In which line each mistake is.
MISTAKES = {1, 3, 4, 5}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python into which the package is installed, not a checkout of it; its needs are ours."""
    folder = tmp_path_factory.mktemp("installed") / "env"
    venv.create(folder, symlinks=True)
    places = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", vars=places))
    shutil.copytree(
        Path(cnp_router.__file__).parent,
        site / "cnp_router",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (site / "needs.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin" / "python"


def environment() -> dict[str, str]:
    """Return ours without this checkout, with the Node that `make` installed."""
    node = Path(sys.prefix) / "node" / "node_modules" / "node" / "bin"
    path = f"{node}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")}
    return {**kept, "PATH": path, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder of a user: a script, one with mistakes, and no setting of ours."""
    shutil.copy(SCRIPT, tmp_path)
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "include": ["*.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    return tmp_path


def test_mypy(project: Path, python: Path) -> None:
    pytest.importorskip("mypy")
    options = ("--strict", "--no-incremental", "--python-executable", str(python), "-O", "json")
    done = run(project, "mypy", *options, SCRIPT.name, "wrong.py")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each for each in found if each["file"] != "wrong.py"] == [], done.stderr
    assert {each["line"] for each in found} == MISTAKES


def test_pyright(project: Path, python: Path) -> None:
    pytest.importorskip("pyright")
    # Without Node, it would fetch one.
    if shutil.which("node", path=environment()["PATH"]) is None:
        pytest.skip("there is no Node, in which pyright runs")
    done = run(project, "pyright", "--outputjson", "--pythonpath", str(python))
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert [each for each in found if not each["file"].endswith("wrong.py")] == []
    errors = [each for each in found if each["severity"] == "error"]
    assert {each["range"]["start"]["line"] + 1 for each in errors} >= MISTAKES


def test_it_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", SCRIPT],
        cwd=SCRIPT.parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
