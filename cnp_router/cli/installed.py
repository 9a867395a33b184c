"""What is installed, and where it runs: by metadata, and by importing, which may fail."""

from __future__ import annotations

import codecs
import importlib
import importlib.metadata
import locale
import os
import platform
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cnp_router.cli.cache import cache_folder
from cnp_router.cli.finding import Finding, ok
from cnp_router.version import __version__

__all__ = ["EXTRAS", "environment", "packages"]

_NAME = "cnp-router"
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)>=(?P<least>[\w.]+)(; extra == [\"'](?P<extra>\w+)[\"'])?"
)
_REINSTALL = "install it: pip install cnp-router, or in a checkout pip install -e ."

EXTRAS: Mapping[str, str] = {
    "plot": "pictures of comparisons (compare --report) and of graphs (graph draw)",
    "report": "report pages (--html)",
    "mcp": "tools of MCP servers (--sources mcp.json)",
    "openapi": "tools of OpenAPI documents (--openapi)",
    "a2a": "agents of the A2A protocol (--a2a)",
    "dask": "work on several machines (--scheduler)",
    "parquet": "catalogs and histories in Parquet (--history 'part-*.parquet')",
    "redis": "shared context on a Redis server (--context redis://...)",
    "serve": "serving agents and people (serve), with metrics",
}
"""What each extra gives."""


@dataclass(frozen=True, slots=True)
class _Needed:
    name: str
    least: str
    extra: str | None

    def __str__(self) -> str:
        return f"{self.name}>={self.least}"


def packages() -> Iterator[Finding]:
    """Yield what is found of Python, this package, and all that it can need."""
    yield ok(f"Python {platform.python_version()}", sys.executable)
    yield _itself()
    needed = _requirements()
    if needed is None:
        return
    for each in needed:
        if each.extra is None:
            yield _package(each, "pip install --upgrade cnp-router")
    known = {each.extra for each in needed}
    for extra in EXTRAS:
        if extra in known:
            yield _extra(extra, [each for each in needed if each.extra == extra])
    if unknown := [extra for extra in EXTRAS if extra not in known]:
        about = f"extra{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}"
        yield Finding("warning", about, "unknown to this installation, an older one", _REINSTALL)


def _itself() -> Finding:
    about, place = f"{_NAME} {__version__}", Path(__file__).parents[1]
    try:
        installed = importlib.metadata.version(_NAME)
    except importlib.metadata.PackageNotFoundError:
        return Finding("warning", about, f"{place} runs without being installed", _REINSTALL)
    if installed != __version__:
        said = f"{place} runs, and version {installed} is what is installed"
        return Finding("warning", about, said, _REINSTALL)
    return ok(about, str(place))


def _requirements() -> list[_Needed] | None:
    """Return what the package requires, as it was installed; None if it is not."""
    try:
        texts = importlib.metadata.requires(_NAME) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    matches = [_REQUIREMENT.fullmatch(text.strip()) for text in texts]
    return [_Needed(m["name"], m["least"], m["extra"]) for m in matches if m is not None]


def _extra(extra: str, needed: list[_Needed]) -> Finding:
    about = f"extra {extra}"
    gives, command = EXTRAS[extra], f"pip install 'cnp-router[{extra}]'"
    there = [each for each in needed if _version(each.name) is not None]
    if not there:
        return ok(about, f"not installed; {command} gives {gives}")
    found = [_package(each, command) for each in needed]
    wrong = [each for each in found if each.status != "ok"]
    if wrong:
        said = "; ".join(f"{each.about} {each.said}" for each in wrong)
        return Finding("warning", about, f"cannot be used: {said}", f"{command} gives {gives}")
    return ok(about, f"{', '.join(each.about for each in found)}: {gives}")


def _package(needed: _Needed, command: str) -> Finding:
    version = _version(needed.name)
    if version is None:
        return Finding("problem", needed.name, f"is not installed (needed: {needed})", command)
    about = f"{needed.name} {version}"
    if _parts(version) < _parts(needed.least):
        said = f"is older than what is needed: {needed}"
        return Finding("problem", about, said, f"pip install --upgrade '{needed}'")
    for module in _modules(needed.name):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(module)
        except Exception as exc:  # whatever its code does when it is run
            said = f"is broken: import {module} gives {type(exc).__name__}: {exc}"
            cure = f"pip install --force-reinstall '{needed}'"
            return Finding("problem", about, said, cure)
    return ok(about, f"needed: {needed}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _parts(version: str) -> list[int]:
    """Return the numbers of a release, such as 2, 10 and 1 of ``2.10.1rc2``."""
    release = re.match(r"\d+(\.\d+)*", version)
    return [int(part) for part in release[0].split(".")] if release else []


def _modules(name: str) -> list[str]:
    """Return the modules that a package brings, as far as it says which."""
    listed = importlib.metadata.distribution(name).read_text("top_level.txt") or ""
    found = [each for each in listed.split() if each.isidentifier() and not each.startswith("_")]
    guess = name.replace("-", "_").lower()
    return found or [_MODULES.get(name, guess)]


# Of those that do not say it, and whose module has another name.
_MODULES = {
    "a2a-sdk": "a2a",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "opentelemetry-exporter-prometheus": "opentelemetry.exporter.prometheus",
    "prometheus-client": "prometheus_client",
    "pyyaml": "yaml",
    "scikit-learn": "sklearn",
}


def environment() -> Iterator[Finding]:
    """Yield what is found of the terminal, the locale, the command and the cache folder."""
    yield _terminal()
    yield _characters()
    yield _command()
    yield _cache()


def _terminal() -> Finding:
    if not sys.stdout.isatty():
        return ok("terminal", "none: output goes to a file or another program, without colours")
    columns, lines = shutil.get_terminal_size((80, 24))
    colours = "without colours (NO_COLOR is set)" if os.environ.get("NO_COLOR") else "with colours"
    if columns < 60:
        said = f"{columns} columns, so tables are printed as blocks of lines"
        return Finding("warning", "terminal", said, "make it 80 columns wide")
    return ok("terminal", f"{columns} columns, {lines} lines, {colours}")


def _characters() -> Finding:
    out = codecs.lookup(sys.stdout.encoding or "ascii").name
    files = codecs.lookup(sys.getfilesystemencoding()).name
    said = f"output in {out}, names of files in {files}, locale {locale.getlocale()[0] or 'C'}"
    if out == files == "utf-8":
        return ok("characters", said)
    cure = "set PYTHONUTF8=1, or a locale of UTF-8 such as LC_ALL=C.UTF-8"
    return Finding("warning", "characters", f"{said}: others are escaped", cure)


def _command() -> Finding:
    here = Path(sys.executable).with_name(_NAME)
    found = shutil.which(_NAME)
    if found is None:
        said = "is not on the PATH of this shell"
        activate = here.with_name("activate")
        cure = f"source {activate}" if activate.exists() else f"call {here}"
        return Finding("warning", f"command {_NAME}", said, cure)
    return ok(f"command {_NAME}", found)


def _cache() -> Finding:
    cure = "set XDG_CACHE_HOME to a folder that can be written"
    cost = "so the router of the sample is fitted by each command that needs it"
    try:
        folder = cache_folder()
    except RuntimeError:
        return Finding("warning", "cache folder", f"there is no home folder, {cost}", cure)
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        return Finding("warning", "cache folder", f"{folder} cannot be written, {cost}", cure)
    return ok("cache folder", f"{folder} can be written")
