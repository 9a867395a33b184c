"""`Finding`: what `doctor` says of one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cnp_router.exceptions import CnpRouterError, DataFileError

__all__ = ["Finding", "Status", "failure", "ok"]

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing, and what cures it."""

    status: Status
    about: str
    said: str
    cure: str = ""


def ok(about: str, said: str) -> Finding:
    """Return that something is as it should be."""
    return Finding("ok", about, said)


def failure(about: str, exc: Exception, cure: str = "") -> Finding:
    """Return that something has failed, with the cure that its error names, or else this one."""
    said = getattr(exc, "problem", None) or str(exc) or type(exc).__name__
    if isinstance(exc, CnpRouterError):
        cure = getattr(exc, "cure", None) or ""
    if isinstance(exc, DataFileError):  # which file, and the line: unless it is named already
        said = str(exc).removesuffix(f" ({cure})").removeprefix(f"{about.partition(' ')[2]}: ")
    return Finding("problem", about, said, cure)
