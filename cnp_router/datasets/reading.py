"""What the readers of public layouts share: a local clone, its files, filtering, counting."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnp_router.catalog import Api, Catalog
from cnp_router.datasets.dataset import Dataset, ReadReport, Tally
from cnp_router.exceptions import DataFileError
from cnp_router.files import read_json
from cnp_router.history import History, Mashup

__all__ = ["Clone", "plain_text", "slug", "unknown_id"]


@dataclass(frozen=True)
class Clone:
    """A local clone of the GitHub repository that a data set is in.

    Parameters
    ----------
    folder : Path
    repository : str
        Owner and name, for the messages.
    """

    folder: Path
    repository: str

    def read(self, file: str, kind: type) -> Any:
        """Read one JSON file and check that it is a list or an object.

        Parameters
        ----------
        file : str
            Path inside the clone.
        kind : {list, dict}

        Raises
        ------
        DataFileError
            If the file is missing, not JSON, or not of that kind.
        """
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
        apis: Iterable[Api],
        mashups: Iterable[Mashup],
        *,
        apis_dropped: Mapping[str, int],
        mashups_dropped: Mapping[str, int],
    ) -> Dataset:
        """Filter and count: from parsed records to a data set.

        Mashups with a repeated id are dropped first, then those without a description, those that
        name no API or an unknown one (the thesis's filter), and last the repeats of a text, so that
        no text can end up in two splits. Of repeats, the first one stays.

        Raises
        ------
        DataFileError
            If no API is left.
        """
        kept = tuple(apis)
        if not kept:
            cure = f"use the files of {self.repository}"
            raise DataFileError(self.folder, "no usable API", cure=cure)
        catalog = Catalog(kept)
        dropped: Counter[str] = Counter(mashups_dropped)
        by_id: dict[str, Mashup] = {}
        for mashup in mashups:
            dropped["repeated id"] += mashup.id in by_id
            by_id.setdefault(mashup.id, mashup)
        usable: list[Mashup] = []
        for mashup in by_id.values():
            if mashup.description and mashup.apis:
                usable.append(mashup)
            else:
                dropped["no API" if mashup.description else "no description"] += 1
        known = History(usable).known_to(catalog)
        by_text: dict[str, Mashup] = {}
        for mashup in known:
            by_text.setdefault(mashup.description, mashup)
        dropped["unknown API"] += known.skipped
        dropped["repeated text"] += len(known) - len(by_text)
        return Dataset(
            name=name,
            catalog=catalog,
            history=History(by_text.values(), skipped=known.skipped),
            source=f"ProgrammableWeb, as in the GitHub repository {self.repository}",
            report=ReadReport(_tally(len(catalog), apis_dropped), _tally(len(by_text), dropped)),
        )


def plain_text(text: str) -> str:
    """Return `text` with HTML entities decoded and white space runs made one space.

    Examples
    --------
    >>> plain_text(" News &amp; maps ")
    'News & maps'
    """
    return " ".join(html.unescape(text).split())


def slug(name: str) -> str:
    """Return `name` in lower case with one hyphen for each run of other than word characters.

    Examples
    --------
    >>> slug("10,000ft"), slug("Google Maps")
    ('10-000ft', 'google-maps')
    """
    return re.sub(r"[\W_]+", "-", name.casefold()).strip("-")


def unknown_id(name: str) -> str:
    """Return an id for an API that has no entry; no slug looks like it."""
    return f"unknown:{name}"


def _tally(kept: int, dropped: Mapping[str, int]) -> Tally:
    reasons = {reason: count for reason, count in dropped.items() if count}
    return Tally(kept + sum(reasons.values()), reasons)
