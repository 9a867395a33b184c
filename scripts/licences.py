"""List the licences of all that is installed with the package, in ``docs/licences.md``.

Usage: ``python scripts/licences.py`` renews the tables of the page from what is installed beside
this Python; with ``--check`` it changes nothing, and exits with 1 if something is needed that the
page does not list as it is, or that has a licence which this project has not accepted.

The page has no versions, and may list what only another Python or system needs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cnp_router.evaluation.table import Table
from cnp_router.exceptions import CnpRouterError
from cnp_router.files import atomic_write, read_text

__all__ = ["LicenceError", "main", "needed", "problems", "refused"]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "licences.md"
PROJECT = "cnp-router"
_MARKS = ("<!-- licences -->\n", "<!-- licences end -->\n")

ACCEPTED = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC"),
        *("MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
    }
)
"""Licences that do not bind who uses the package: it may be used, changed and sold with them.

MPL-2.0 holds for changes of its own files only."""

REASONS = {
    "a2a-sdk": "agents that speak A2A",
    "attrs": "classes of jsonschema",
    "click": "the command line",
    "distributed": "work on several machines",
    "httpx": "the HTTP client of A2A",
    "httpx2": "the HTTP client of OpenAPI",
    "jinja2": "the template of report pages",
    "joblib": "several processes while fitting",
    "jsonschema": "inputs of tools, checked",
    "matplotlib": "plots and drawings",
    "mcp": "MCP, as client and as server",
    "networkx": "communities and exports of graphs",
    "numpy": "arrays",
    "openai": "language models and encoders on a server",
    "openapi-pydantic": "OpenAPI documents, checked",
    "opentelemetry-exporter-prometheus": "metrics for Prometheus",
    "opentelemetry-sdk": "metrics",
    "prometheus-client": "metrics of several processes",
    "pyarrow": "Parquet",
    "pydantic": "messages and answers, checked",
    "pyyaml": "OpenAPI documents in YAML",
    "redis": "shared context on a server",
    "regex": "patterns of tools, in bounded time",
    "rich": "tables and progress in a terminal",
    "scikit-learn": "the learned router",
    "scipy": "sparse matrices, optimisation",
    "starlette": "the HTTP front",
    "threadpoolctl": "threads of linear algebra",
    "uvicorn": "the HTTP server",
}
"""What each package that is needed directly is for."""

_NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
# "BSD License" does not say which: read in the text that they come with.
_BSD = {
    "contourpy": "BSD-3-Clause",
    "cycler": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "kiwisolver": "BSD-3-Clause",
    "partd": "BSD-3-Clause",
    "pyasn1-modules": "BSD-2-Clause",
    "scipy": "BSD-3-Clause",
    "zict": "BSD-3-Clause",
}


class LicenceError(CnpRouterError):
    """Something is not installed whose licence is to be listed."""


@dataclass(frozen=True, order=True)
class Package:
    """What is installed with the project."""

    name: str
    licence: str
    reason: str


def needed(extra: str = "") -> tuple[Package, ...]:
    """Return what the project, or one of its extras, brings into an environment."""
    owners: dict[str, set[str]] = defaultdict(set)
    waiting = [(PROJECT, frozenset({extra}))]
    met = set(waiting)
    while waiting:
        owner, extras = waiting.pop()
        for name, its_extras in _requirements(owner, extras):
            owners[name].add(owner)
            if (name, its_extras) not in met:
                met.add((name, its_extras))
                waiting.append((name, its_extras))
    return tuple(
        sorted(Package(name, licence_of(name), _reason(name, by)) for name, by in owners.items())
    )


def _requirements(owner: str, extras: Collection[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for line in _metadata(owner).get_all("Requires-Dist", ()):
        wanted = Requirement(line)
        marker = wanted.marker
        if marker is None or any(marker.evaluate({"extra": each}) for each in extras or ("",)):
            yield canonicalize_name(wanted.name), frozenset(wanted.extras)


def _reason(name: str, owners: Collection[str]) -> str:
    if PROJECT in owners:
        return REASONS.get(name, "")
    return f"needed by {', '.join(sorted(owners))}"


def licence_of(name: str) -> str:
    """Return the licence of an installed package, by the names of SPDX."""
    told = _metadata(name)
    for expression in told.get_all("License-Expression", ()):
        return str(expression)
    kinds = [
        kind.rpartition(" :: ")[2]
        for kind in told.get_all("Classifier", ())
        if kind.startswith("License :: ") and kind.count(" :: ") > 1
    ]
    # Some have the whole text there.
    short = [said for said in told.get_all("License", ()) if said and len(said) < 30]
    names = [_NAMES.get(each, each) for each in (*short, *kinds)]
    if name in _BSD and {"BSD", "BSD License"} & {*short, *kinds}:
        return _BSD[name]
    return names[0] if names else "unknown"


def _metadata(name: str) -> importlib.metadata.PackageMetadata:
    try:
        return importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        raise LicenceError(f"{name} is not installed (install every extra first)") from None


def is_accepted(licence: str) -> bool:
    """Return whether a licence, or an expression of several, does not bind who uses the package.

    Examples
    --------
    >>> is_accepted("MIT OR GPL-3.0-only"), is_accepted("MIT AND GPL-3.0-only")
    (True, False)
    """
    alternatives = re.split(r" OR ", licence)
    return any(
        all(each.strip("() ") in ACCEPTED for each in choice.split(" AND "))
        for choice in alternatives
    )


def tables() -> dict[str, tuple[Package, ...]]:
    """Return what the base has, and what each extra adds to it."""
    base = needed()
    names = {each.name for each in base}
    extras = _metadata(PROJECT).get_all("Provides-Extra", ())
    return {"": base} | {
        extra: tuple(
            each for each in needed(extra) if each.name not in names or each.name in _direct(extra)
        )
        for extra in extras
    }


def _direct(extra: str) -> set[str]:
    with_it, without = (
        {name for name, _ in _requirements(PROJECT, frozenset({each}))} for each in (extra, "")
    )
    return with_it - without


def renewed() -> str:
    """Return the tables of the page in Markdown."""
    parts = []
    for extra, packages in tables().items():
        table = Table.of(
            "",
            {
                "package": lambda each: each.name,
                "licence": lambda each: each.licence,
                "what for": lambda each: each.reason,
            },
            packages,
            labels=3,
        )
        heading = f"## What `{extra}` adds" if extra else "## Always"
        parts.append(f"{heading}\n\n{table.markdown().strip()}\n")
    return "\n".join(parts)


def refused() -> list[str]:
    """Return what is installed with a licence that this project has not accepted."""
    return [
        f"{each.name}, of {_where(extra)}, has the licence {each.licence!r}"
        for extra, packages in tables().items()
        for each in packages
        if not is_accepted(each.licence)
    ]


def _where(extra: str) -> str:
    return f"the extra {extra}" if extra else "the base"


def problems(page: str) -> list[str]:
    """Return what is wrong with what is installed, or with the page of it."""
    found = refused()
    listed = {
        (cells[0], cells[1])
        for line in page.splitlines()
        if line.startswith("| ")
        for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
    }
    for extra, packages in tables().items():
        for each in packages:
            if not each.reason:
                found.append(f"{each.name}: what for? (say it in REASONS)")
            if (each.name, each.licence) not in listed:
                found.append(
                    f"{each.name} ({each.licence}), of {_where(extra)}, is not on the page"
                )
    return found


def main(argv: Sequence[str] | None = None, *, page: Path = PAGE) -> int:
    """Renew or check the page; return the exit code."""
    parser = argparse.ArgumentParser(description="List the licences of what is installed.")
    parser.add_argument("--check", action="store_true", help="change nothing, say what is wrong")
    chosen = parser.parse_args(argv)
    text = read_text(page)
    if not chosen.check:
        head, _, rest = text.partition(_MARKS[0])
        _, _, tail = rest.partition(_MARKS[1])
        text = f"{head}{_MARKS[0]}\n{renewed()}\n{_MARKS[1]}{tail}"
        with atomic_write(page) as out:
            out.write(text)
    wrong = problems(text)
    sys.stderr.writelines(f"{each}\n" for each in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
