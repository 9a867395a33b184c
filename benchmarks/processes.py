"""Processes of this machine, seen from outside: for benchmarks and tests that start servers."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["descendants", "megabytes"]


def descendants(pid: int) -> dict[int, str]:
    """Return the living descendants of a process by their ids, and their command lines (Linux)."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(stat.parent.name))
    found: dict[int, str] = {}
    ahead = [pid]
    while ahead:
        for child in children.get(ahead.pop(), []):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{child}/cmdline").read_bytes()
                found[child] = line.replace(b"\0", b" ").decode(errors="replace").strip()
                ahead.append(child)
    return found


def megabytes(pid: int, *, mapped: bool = True) -> float:
    """Return the resident memory of a process (Linux); 0 where it is gone.

    With or without what it has `mapped` from files: that is there once for all processes, and the
    system takes it back where it needs the memory.
    """
    parts = ("VmRSS:",) if mapped else ("RssAnon:", "RssShmem:")
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(parts)) / 1000
    return 0.0
