"""Build wheel and sdist, look into them, and try them in fresh environments.

Usage: ``make package``, or ``python scripts/try_package.py [--python PATH ...] [--quick]``.

For each of Python 3.11, 3.12 and 3.13 that is found, and each that ``--python`` names, the wheel is
installed alone and tried. With the first of them, so are the sdist, each extra alone, and all of it
once more with the lowest versions that ``pyproject.toml`` allows. What is tried is in
``package_trials.py``; where an extra is missing, its error must name the pip command.

The environments are temporary. It installs by uv, if that is on the path, or else by pip, from the
index that it is configured for. It exits with 1 if anything fails.
"""

from __future__ import annotations

import argparse
import email
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from packaging.requirements import Requirement

from cnp_router.evaluation.table import Table
from cnp_router.exceptions import CnpRouterError

__all__ = ["PackageError", "build", "check_contents", "main"]

ROOT = Path(__file__).resolve().parents[1]
TRIALS = ROOT / "scripts" / "package_trials.py"
PYTHONS = ("3.11", "3.12", "3.13")
REQUEST = "Warn me by text message before it rains, and show it on a map."
_LEFT_OUT = shutil.ignore_patterns(
    *(
        ".git",
        ".venv",
        "__pycache__",
        "build",
        "dist",
        "site",
        "*.egg-info",
        ".*_cache",
        ".hypothesis",
    )
)
_BESIDE = {
    *("LICENSE", "README.md", "CITATION.cff", "CHANGELOG.md", "MANIFEST.in", "pyproject.toml"),
    *("PKG-INFO", "setup.cfg", "setup.py"),
}
_RELATIVE = re.compile(r"\]\((?!https?:|mailto:|#)[^)]*\)|\bsrc(?:set)?=\"(?!https?:)[^\"]*")
_BUILD_SECONDS = 300
_INSTALL_SECONDS = 600
_TRIAL_SECONDS = 180


class PackageError(CnpRouterError):
    """The package is not as it should be."""


@dataclass(frozen=True)
class Built:
    """The two files that would be published."""

    wheel: Path
    sdist: Path


@dataclass(frozen=True)
class Row:
    """How one environment went."""

    python: str
    what: str
    versions: str
    seconds: float
    megabytes: float
    packages: int
    problems: tuple[str, ...]


def run(
    command: Sequence[str | Path],
    folder: Path,
    seconds: float,
    environment: dict[str, str] | None = None,
) -> str:
    """Run a command in a folder and return its output; end all of it if that takes too long.

    What it keeps for a while is kept in the folder, too.

    Raises
    ------
    PackageError
        If it fails.
    """
    shown = " ".join(Path(part).name if "/" in str(part) else str(part) for part in command)
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**(os.environ if environment is None else environment), "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as exc:
            raise PackageError(f"{shown!r} takes longer than {seconds:g} s") from exc
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        last = " / ".join(said.strip().splitlines()[-3:])
        raise PackageError(f"{shown!r} exits with {process.returncode}: {last}")
    return said


def build(folder: Path, *, isolated: bool = True) -> Built:
    """Build both from a copy of the checkout, in which no earlier build has left anything.

    Parameters
    ----------
    folder : Path
        Where to put copy and files.
    isolated : bool, default=True
        With the newest setuptools; False takes the one that is installed, without a network.
    """
    copy = folder / "checkout"
    shutil.copytree(ROOT, copy, ignore=_LEFT_OUT)
    out = folder / "dist"
    alone = () if isolated else ("--no-isolation",)
    run([sys.executable, "-m", "build", *alone, "--outdir", out, copy], folder, _BUILD_SECONDS)
    return Built(next(out.glob("*.whl")), next(out.glob("*.tar.gz")))


def check_contents(built: Built) -> None:
    """Raise PackageError unless the package is in both files, whole, and nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = f"{project['name'].replace('-', '_')}-{project['version']}"
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "cnp_router").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(built.wheel) as wheel:
        files = {each for each in wheel.namelist() if not each.endswith("/")}
        metadata = wheel.read(f"{name}.dist-info/METADATA").decode()
    about = {each for each in files if each.startswith(f"{name}.dist-info/")}
    _compare("the wheel", files - about, package)
    if f"{name}.dist-info/licenses/LICENSE" not in about:
        raise PackageError("the wheel lacks the LICENSE")
    with tarfile.open(built.sdist) as sdist:
        inside = {each.name.removeprefix(f"{name}/") for each in sdist if each.isfile()}
    inside = {each for each in inside if not each.startswith("cnp_router.egg-info/")}
    _compare("the sdist", inside, package | _BESIDE)
    _check_metadata(metadata, project)


def _compare(what: str, found: set[str], expected: set[str]) -> None:
    if missing := sorted(expected - found):
        raise PackageError(f"{what} lacks {', '.join(missing[:5])} ({len(missing)} files)")
    if needless := sorted(found - expected):
        raise PackageError(f"{what} has {', '.join(needless[:5])} too ({len(needless)} files)")


def _check_metadata(text: str, project: dict[str, object]) -> None:
    told = email.message_from_string(text)
    for field, expected in {
        "Name": project["name"],
        "Version": project["version"],
        "Summary": project["description"],
        "License-Expression": project["license"],
        "Requires-Python": project["requires-python"],
        "Description-Content-Type": "text/markdown",
    }.items():
        if told[field] != expected:
            raise PackageError(f"the wheel's {field} is {told[field]!r}, expected {expected!r}")
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    if set(told.get_all("Provides-Extra", ())) != set(extras):
        raise PackageError(f"the wheel's extras are {told.get_all('Provides-Extra')}")
    description = str(told.get_payload())
    if "# cnp-router" not in description:
        raise PackageError("the wheel's description is not the README")
    if broken := _RELATIVE.search(description):
        raise PackageError(f"a package index cannot follow {broken[0]!r} of the README")


class Trial:
    """Fresh environments of one Python, one after another."""

    def __init__(self, python: Path, version: str, folder: Path) -> None:
        self.python = python
        self.version = version
        self.folder = folder

    def of(self, built: Path, extra: str = "", *, lowest: bool = False) -> Row:
        """Install a file with an extra, try it, and say how that went."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            environment = Path(place).resolve() / "env"
            problems: list[str] = []
            start = time.perf_counter()
            try:
                self._install(environment, built, extra, lowest)
            except PackageError as exc:
                problems.append(str(exc))
            seconds = time.perf_counter() - start
            size, packages = _size(environment)
            if not problems:
                problems = list(_tried(environment, extra))
        what = extra or ("base, from the sdist" if built.suffix == ".gz" else "base")
        versions = "lowest" if lowest else "newest"
        return Row(self.version, what, versions, seconds, size, packages, tuple(problems))

    def _install(self, environment: Path, built: Path, extra: str, lowest: bool) -> None:
        run([self.python, "-m", "venv", "--without-pip", environment], self.folder, _TRIAL_SECONDS)
        wanted = f"{built}[{extra}]" if extra else str(built)
        pins = ["--only-binary", ":all:", *lowest_versions(extra)] if lowest else []
        python = str(environment / "bin" / "python")
        uv = shutil.which("uv")
        command = [uv, "pip"] if uv else [sys.executable, "-m", "pip", "--python", python]
        into = ["--python", python] if uv else ["--no-compile"]
        run([*command, "install", "--quiet", *into, wanted, *pins], self.folder, _INSTALL_SECONDS)


def lowest_versions(extra: str) -> list[str]:
    """Return what an extra needs, or without one the base, in the lowest versions allowed.

    Not both: some libraries of extras need newer ones than the base does.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = []
    for line in project["optional-dependencies"][extra] if extra else project["dependencies"]:
        needed = Requirement(line)
        lowest = next(each.version for each in needed.specifier if each.operator == ">=")
        pins.append(f"{needed.name}=={lowest}")
    return pins


def _tried(environment: Path, extra: str) -> Iterator[str]:
    """Yield what does not work in an environment."""
    bin_folder = environment / "bin"
    python, cli = bin_folder / "python", bin_folder / "cnp-router"
    trial: list[str | Path] = [python, "-I", TRIALS]
    commands: list[list[str | Path]] = [[*trial, extra]]
    if not extra:
        commands = [
            [python, "-I", "-W", "error", "-c", "import cnp_router"],
            [cli, "--version"],
            [cli, "recommend", REQUEST],
            [*trial, "base"],
            *([*trial, each, "--missing"] for each in extras()),
        ]
    for command in commands:
        with tempfile.TemporaryDirectory(dir=environment.parent) as place:
            folder = Path(place).resolve()
            (home := folder / "home").mkdir()
            (work := folder / "work").mkdir()
            try:
                run(command, work, _TRIAL_SECONDS, _bare(home, bin_folder))
            except PackageError as exc:
                yield str(exc)


def _bare(home: Path, bin_folder: Path) -> dict[str, str]:
    """Return the environment of someone who has nothing set up."""
    system = os.environ.get("PATH", os.defpath)
    return {"HOME": str(home), "PATH": f"{bin_folder}{os.pathsep}{system}", "LANG": "C.UTF-8"}


def extras() -> tuple[str, ...]:
    """Return the names of the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return tuple(project["optional-dependencies"])


def _size(environment: Path) -> tuple[float, int]:
    """Return the megabytes that an environment holds, and how many packages."""
    files = [path for path in environment.rglob("*") if path.is_file() and not path.is_symlink()]
    packages = sum(path.name == "METADATA" for path in files)
    return sum(path.stat().st_size for path in files) / 1e6, packages


def found_pythons(named: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Yield each Python that is there and runs, with its version, each version once."""
    seen = set()
    for name in (*named, *(f"python{version}" for version in PYTHONS)):
        path = shutil.which(name)
        if path is None:
            continue
        asked = [path, "-I", "-c", "import sys; print(*sys.version_info[:3], sep='.')"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
        version = done.stdout.strip()
        minor = version.rpartition(".")[0]
        if not done.returncode and minor not in seen:
            seen.add(minor)
            yield Path(path), version


def _rows(built: Built, folder: Path, named: Sequence[str], quick: bool) -> Iterator[Row]:
    for number, (python, version) in enumerate(found_pythons(named)):
        trial = Trial(python, version, folder)
        yield trial.of(built.wheel)
        if number or quick:
            continue
        yield trial.of(built.sdist)
        for extra in extras():
            yield trial.of(built.wheel, extra)
        for extra in ("", *extras()):
            yield trial.of(built.wheel, extra, lowest=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Build and try; return the exit code."""
    parser = argparse.ArgumentParser(description="Build the package and try it.")
    parser.add_argument("--python", action="append", default=[], help="another Python; repeatable")
    parser.add_argument("--quick", action="store_true", help="the wheel alone, without extras")
    chosen = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupted)
    start = time.perf_counter()
    rows = []
    try:
        with tempfile.TemporaryDirectory(prefix="cnp-router-package-") as place:
            folder = Path(place).resolve()
            built = build(folder)
            check_contents(built)
            sys.stderr.write(f"{built.wheel.name}, {built.sdist.name}: complete\n")
            for row in _rows(built, folder, chosen.python, chosen.quick):
                went = "; ".join(row.problems) or "works"
                sys.stderr.write(f"{row.python} {row.what} {row.versions}: {went}\n")
                rows.append(row)
    except PackageError as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return 130
    tried = {row.python.rpartition(".")[0] for row in rows}
    missing = [version for version in PYTHONS if version not in tried]
    notes = [f"Not found: Python {version}." for version in missing]
    table = Table.of(
        "",
        {
            "Python": lambda row: row.python,
            "installed": lambda row: row.what,
            "versions": lambda row: row.versions,
            "install [s]": lambda row: f"{row.seconds:.0f}",
            "size [MB]": lambda row: f"{row.megabytes:.0f}",
            "packages": lambda row: str(row.packages),
            "result": lambda row: "fails" if row.problems else "works",
        },
        rows,
        labels=3,
        notes=[
            *notes,
            f"Installed by {'uv' if shutil.which('uv') else 'pip'}, without compiled files."
            f" It took {time.perf_counter() - start:.0f} s.",
        ],
    )
    sys.stdout.write(f"{table.markdown()}\n")
    return 1 if any(row.problems for row in rows) or not rows else 0


def _interrupted(signal_number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
