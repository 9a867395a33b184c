"""`Dataset`: a catalog and a history that belong together, and what was dropped to get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cnp_router.catalog import Catalog, html_table
from cnp_router.history import History

__all__ = ["Dataset", "ReadReport", "Tally"]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many records were read, and for each reason, the first that applies, how many dropped.

    Examples
    --------
    >>> tally = Tally(10, {"unknown API": 3})
    >>> tally.kept
    7
    >>> print(tally)
    7 of 10 (dropped: 3 unknown API)
    """

    read: int
    dropped: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def kept(self) -> int:
        """Records that are in the data set."""
        return self.read - sum(self.dropped.values())

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.dropped.items())
        return f"{self.kept} of {self.read}" + (f" (dropped: {reasons})" if reasons else "")


@dataclass(frozen=True, slots=True)
class ReadReport:
    """What became of the records of a data set's files.

    Examples
    --------
    >>> print(ReadReport(Tally(5), Tally(10, {"unknown API": 3})))
    APIs: 5 of 5
    mashups: 7 of 10 (dropped: 3 unknown API)
    """

    apis: Tally
    mashups: Tally

    def __str__(self) -> str:
        return f"APIs: {self.apis}\nmashups: {self.mashups}"


@dataclass(frozen=True, slots=True, repr=False)
class Dataset:
    """A catalog and the history of its use.

    Parameters
    ----------
    name : str
        Short name, for tables.
    catalog : Catalog
    history : History
        Names only APIs of `catalog`; ``history.skipped`` counts the mashups that did not.
    source : str
        Where the data come from, in words.
    report : ReadReport
        What was read, kept and dropped.

    Examples
    --------
    >>> from cnp_router.datasets import load_sample
    >>> sample = load_sample()
    >>> sample.name, all(api in sample.catalog for m in sample.history for api in m.apis)
    ('sample', True)
    """

    name: str
    catalog: Catalog
    history: History
    source: str
    report: ReadReport

    def __repr__(self) -> str:
        size = f"{len(self.catalog)} APIs, {len(self.history)} mashups"
        return f"Dataset({self.name!r}, {size}, from {self.source!r})"

    def _repr_html_(self) -> str:
        rows = [("APIs", self.report.apis), ("mashups", self.report.mashups)]
        return html_table(repr(self), ("", "kept"), rows, len(rows))
