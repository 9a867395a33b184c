"""Headings and tables, in Markdown that can be read as it is."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from cnp_router.evaluation import Table
from cnp_router.version import __version__

__all__ = ["environment", "heading", "number", "table", "table_of"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "joblib")


def environment(seed: int) -> dict[str, Any]:
    """Return what the figures depend on besides the code: versions, cores and seed."""
    usable = getattr(os, "sched_getaffinity", None)
    return {
        "seed": seed,
        "cores": len(usable(0)) if usable else os.cpu_count(),
        "platform": platform.system(),
        "python": platform.python_version(),
        "cnp-router": __version__,
        **{name: metadata.version(name) for name in _LIBRARIES},
    }


def heading(title: str, facts: dict[str, Any]) -> None:
    """Print what follows, and under which conditions."""
    print(f"# {title}\n")
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    print()


def table(rows: Sequence[Sequence[str]]) -> None:
    """Print a table, the head first."""
    head, *others = rows
    print(f"{Table('', tuple(head), tuple(map(tuple, others))).markdown()}\n", flush=True)


def table_of(found: Sequence[Mapping[str, str | int | float | None]]) -> None:
    """Print what was found as a table, with a row for each: all have the same keys, the titles."""
    rows = [
        [str(value) if isinstance(value, str | int) else number(value) for value in one.values()]
        for one in found
    ]
    if rows:
        table([list(found[0]), *rows])


def number(value: float | None, digits: int = 3) -> str:
    """Return a number for a cell; nothing for none."""
    return "" if value is None else f"{value:.{digits}f}"
