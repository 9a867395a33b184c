"""`PROPOSALS`: kinds of finished proposals that a text can change. To add one, add a line here."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from cnp_router.exceptions import DataFileError
from cnp_router.files import read_json
from cnp_router.records import shown

__all__ = ["PROPOSALS", "Revisable", "read_proposal"]

PROPOSALS: Mapping[str, str] = MappingProxyType(
    {"timetable": "cnp_router.timetable.proposal:Proposal"}
)
"""Module and class by the ``"kind"`` that stands in the file of a proposal."""


class Revisable(Protocol):
    """A finished proposal, kept in a file, that a text can change."""

    @classmethod
    def read(cls, path: str | Path) -> Revisable:
        """Read it from a JSON document; DataFileError if it is not one."""

    def revise(self, text: str) -> Revisable:
        """Return it changed as a text says, with the rest kept.

        Raises
        ------
        InfeasibleError
            If nothing fits: names the rules in conflict. This proposal stays as it is.
        InputError
            If the text says nothing that is understood.
        """

    def write(self, path: str | Path) -> None:
        """Write it as a JSON document, atomically."""

    def draw(self, width: int = ...) -> str:
        """Return it as plain text, with what the last revision changed."""

    def report(self) -> dict[str, Any]:
        """Return the same as a JSON object."""


def read_proposal(path: str | Path) -> Revisable:
    """Read a finished proposal of any kind.

    Parameters
    ----------
    path : str or Path
        A JSON document with ``"kind"``, one of `PROPOSALS`.

    Raises
    ------
    DataFileError
        If it is not such a document.

    Examples
    --------
    >>> list(PROPOSALS)
    ['timetable']
    """
    document = read_json(path)
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in PROPOSALS:
        kinds = " or ".join(map(repr, PROPOSALS))
        problem = f"not a proposal: its kind is {shown(kind)}"
        raise DataFileError(path, problem, cure=f"use a file whose kind is {kinds}")
    module, _, name = PROPOSALS[kind].partition(":")
    found: type[Revisable] = getattr(importlib.import_module(module), name)
    return found.read(path)
