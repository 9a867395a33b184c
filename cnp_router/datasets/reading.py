"""What the readers of public layouts share: a local clone, its files, filtering, counting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cnp_router.catalog import Api, Catalog
from cnp_router.datasets.dataset import Dataset, ReadReport, Tally
from cnp_router.exceptions import DataFileError
from cnp_router.files import read_json
from cnp_router.history import History, Mashup

__all__ = ["Clone", "first_of_each", "unknown_id"]

T = TypeVar("T")


@dataclass(frozen=True)
class Clone:
    """A local clone of the GitHub repository, owner and name, that a data set is in."""

    folder: Path
    repository: str

    def read(self, file: str, kind: type) -> Any:
        """Read one JSON file of the clone and check that it is a list or a dict."""
        try:
            document = read_json(self.folder / file)
        except DataFileError as exc:
            if not isinstance(exc.__cause__, FileNotFoundError | NotADirectoryError):
                raise
            cure = f"give the folder of a clone of the GitHub repository {self.repository}"
            raise DataFileError(exc.path, "no such file", cure=f"{cure}, with {file}") from exc
        if not isinstance(document, kind):
            expected = "list" if kind is list else "object"
            raise self.error(file, f"expected a JSON {expected}, got {type(document).__name__}")
        return document

    def error(self, file: str, problem: str) -> DataFileError:
        """Return what to raise where a file is not in the layout."""
        cure = f"use the file as it is in the GitHub repository {self.repository}"
        return DataFileError(self.folder / file, problem, cure=cure)

    def dataset(
        self,
        name: str,
        apis: Collection[Api],
        mashups: Iterable[Mashup],
        *,
        apis_dropped: Mapping[str, int],
        mashups_dropped: Mapping[str, int],
    ) -> Dataset:
        """Filter and count: from parsed records to a data set, with at least one API.

        Mashups with a repeated id are dropped first, then those without a description, those that
        name no API or an unknown one (the thesis's filter), and last the repeats of a text, so that
        no text can end up in two splits. Of repeats, the first one stays.
        """
        if not apis:
            cure = f"use the files of {self.repository}"
            raise DataFileError(self.folder, "no usable API", cure=cure)
        catalog = Catalog(apis)
        by_id, repeated_ids = first_of_each("id", ((mashup.id, mashup) for mashup in mashups))
        described = [mashup for mashup in by_id.values() if mashup.description]
        usable = [mashup for mashup in described if mashup.apis]
        known = History(usable).known_to(catalog)
        by_text, repeated_texts = first_of_each("text", ((m.description, m) for m in known))
        dropped = {
            **mashups_dropped,
            **repeated_ids,
            "no description": len(by_id) - len(described),
            "no API": len(described) - len(usable),
            "unknown API": known.skipped,
            **repeated_texts,
        }
        return Dataset(
            name=name,
            catalog=catalog,
            history=History(by_text.values(), skipped=known.skipped),
            source=f"ProgrammableWeb, as in the GitHub repository {self.repository}",
            report=ReadReport(_tally(len(catalog), apis_dropped), _tally(len(by_text), dropped)),
        )


def first_of_each(what: str, entries: Iterable[tuple[str, T]]) -> tuple[dict[str, T], Counter[str]]:
    """Drop and count entries whose key is empty or came before.

    Examples
    --------
    >>> first_of_each("name", [("sms", 1), ("", 2), ("sms", 3), ("maps", 4)])
    ({'sms': 1, 'maps': 4}, Counter({'no name': 1, 'repeated name': 1}))
    """
    kept: dict[str, T] = {}
    dropped: Counter[str] = Counter()
    for key, entry in entries:
        if not key or key in kept:
            dropped[f"repeated {what}" if key else f"no {what}"] += 1
        else:
            kept[key] = entry
    return kept, dropped


def unknown_id(name: str) -> str:
    """Return an id for an API that has no entry; none that has one looks like it."""
    return f"unknown:{name!a}"  # an id holds no invisible character, and a name may


def _tally(kept: int, dropped: Mapping[str, int]) -> Tally:
    reasons = {reason: count for reason, count in dropped.items() if count}
    return Tally(kept + sum(reasons.values()), reasons)
