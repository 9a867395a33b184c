"""What the readers of public layouts share: reading their lists, filtering, counting."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cnp_router.catalog import Api, Catalog
from cnp_router.datasets.dataset import Dataset, ReadReport, Tally
from cnp_router.exceptions import DataFileError
from cnp_router.files import read_json
from cnp_router.history import History, Mashup

__all__ = ["assemble", "plain_text", "read_document", "slug", "unknown_id"]


def read_document(folder: Path, file: str, kind: type, repository: str) -> Any:
    """Read one JSON file of a clone and check that it is a list or an object.

    Parameters
    ----------
    folder : Path
        The clone.
    file : str
        Path inside it.
    kind : {list, dict}
    repository : str
        The GitHub repository the layout is that of, for the message.

    Raises
    ------
    DataFileError
        If the file is missing, not JSON, or not of that kind.
    """
    path = folder / file
    try:
        document = read_json(path)
    except DataFileError as exc:
        if not isinstance(exc.__cause__, FileNotFoundError | NotADirectoryError):
            raise
        raise DataFileError(
            path,
            "no such file",
            cure=f"give the folder of a clone of the GitHub repository {repository}, with {file}",
        ) from exc
    if not isinstance(document, kind):
        expected = "list" if kind is list else "object"
        raise DataFileError(
            path,
            f"expected a JSON {expected}, got {type(document).__name__}",
            cure=f"use the file as it is in the GitHub repository {repository}",
        )
    return document


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
    return f"unknown:{''.join(c for c in name if c.isprintable()).strip()}"


def assemble(
    *,
    name: str,
    folder: Path,
    repository: str,
    apis: Iterable[Api],
    apis_dropped: Mapping[str, int],
    mashups: Iterable[Mashup],
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
    kept_apis = tuple(apis)
    if not kept_apis:
        raise DataFileError(folder, "no usable API", cure=f"use the files of {repository}")
    catalog = Catalog(kept_apis)

    dropped: Counter[str] = Counter(mashups_dropped)
    distinct: dict[str, Mashup] = {}
    for mashup in mashups:
        if mashup.id in distinct:
            dropped["repeated id"] += 1
        else:
            distinct[mashup.id] = mashup
    usable: list[Mashup] = []
    for mashup in distinct.values():
        if not mashup.description:
            dropped["no description"] += 1
        elif not mashup.apis:
            dropped["no API"] += 1
        else:
            usable.append(mashup)
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
        source=f"ProgrammableWeb, as in the GitHub repository {repository}",
        report=ReadReport(_tally(len(catalog), apis_dropped), _tally(len(by_text), dropped)),
    )


def _tally(kept: int, dropped: Mapping[str, int]) -> Tally:
    reasons = {reason: count for reason, count in dropped.items() if count}
    return Tally(kept + sum(reasons.values()), reasons)
