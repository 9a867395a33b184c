"""Reader of the ProgrammableWeb data of the MTFM paper in the layout of whale-ynu/MTFM."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from cnp_router.catalog import Api
from cnp_router.datasets._assembly import assemble, read_document, unknown_id
from cnp_router.datasets.dataset import Dataset
from cnp_router.exceptions import DataFileError
from cnp_router.history import Mashup

__all__ = ["read_mtfm"]

_REPOSITORY = "whale-ynu/MTFM"


def read_mtfm(path: str | Path) -> Dataset:
    r"""Read a local clone of the GitHub repository whale-ynu/MTFM.

    Seven of its files are read, each a JSON list with one entry for each API or mashup, in the
    same order. Other files are ignored.

    - ``data/api_name.json``, ``data/mashup_name.json``: names in lower case with hyphens for
      spaces. They serve as ids; a name is the id with spaces for hyphens.
    - ``data/api_description.json``, ``data/mashup_description.json``: lists of words. Stop words
      and punctuation are gone and the words are reduced to their lemmas; they are joined by
      spaces here, so that requests are no plain language.
    - ``data/api_category.json``, ``data/mashup_category.json``: lists of category names.
    - ``data/mashup_used_api.json``: lists of API names.

    APIs and mashups with no name or one that came before are dropped, and so are mashups
    with an unknown API (the thesis's filter). The authors have already cut unknown APIs out of
    the lists and kept the rest of such a mashup, which nobody can tell from the files.

    Parameters
    ----------
    path : str or Path
        The clone.

    Returns
    -------
    Dataset
        ``report`` says what was dropped and why, ``history.skipped`` how many mashups named an
        unknown API.

    Raises
    ------
    DataFileError
        If a file is missing or not in that layout.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> clone = pathlib.Path(tempfile.mkdtemp())
    >>> (clone / "data").mkdir()
    >>> for file, content in {
    ...     "api_name": ["weather", "sms-gateway"],
    ...     "api_description": [["forecast"], ["send", "text"]],
    ...     "api_category": [["science"], ["messaging"]],
    ...     "mashup_name": ["rain-alert"],
    ...     "mashup_description": [["rain", "text"]],
    ...     "mashup_category": [["weather"]],
    ...     "mashup_used_api": [["weather", "sms-gateway"]],
    ... }.items():
    ...     _ = (clone / "data" / f"{file}.json").write_text(json.dumps(content))
    >>> data = read_mtfm(clone)
    >>> data.history.texts, data.catalog["sms-gateway"].name
    (('rain text',), 'sms gateway')
    """
    folder = Path(path)
    names = _names(folder, "data/api_name.json")
    descriptions = _lists(folder, "data/api_description.json", len(names))
    categories = _lists(folder, "data/api_category.json", len(names))
    apis: dict[str, Api] = {}
    apis_dropped: Counter[str] = Counter()
    for name, words, filed in zip(names, descriptions, categories, strict=True):
        if not name:
            apis_dropped["no name"] += 1
        elif name in apis:
            apis_dropped["repeated name"] += 1
        else:
            apis[name] = Api(name, name.replace("-", " "), " ".join(words), filed)

    names = _names(folder, "data/mashup_name.json")
    descriptions = _lists(folder, "data/mashup_description.json", len(names))
    categories = _lists(folder, "data/mashup_category.json", len(names))
    used = _lists(folder, "data/mashup_used_api.json", len(names))
    mashups: list[Mashup] = []
    mashups_dropped: Counter[str] = Counter()
    for name, words, filed, called in zip(names, descriptions, categories, used, strict=True):
        if not name:
            mashups_dropped["no name"] += 1
            continue
        # dict.fromkeys: an API that is listed twice was used once as far as anybody knows.
        known = dict.fromkeys(api if api in apis else unknown_id(api) for api in called)
        mashups.append(
            Mashup(name, " ".join(words), tuple(known), filed, name=name.replace("-", " "))
        )
    return assemble(
        name="mtfm",
        folder=folder,
        repository=_REPOSITORY,
        apis=apis.values(),
        apis_dropped=apis_dropped,
        mashups=mashups,
        mashups_dropped=mashups_dropped,
    )


def _names(folder: Path, file: str) -> list[str]:
    names = read_document(folder, file, list, _REPOSITORY)
    for entry, name in enumerate(names, start=1):
        if not isinstance(name, str):
            raise _wrong(folder / file, entry, "a string", name)
    return [name.strip() for name in names]


def _lists(folder: Path, file: str, count: int) -> list[tuple[str, ...]]:
    entries = read_document(folder, file, list, _REPOSITORY)
    if len(entries) != count:
        names = file.split("_", maxsplit=1)[0] + "_name.json"
        raise DataFileError(
            folder / file,
            f"has {len(entries)} entries where {names} has {count}",
            cure="take both files from the same commit",
        )
    for entry, strings in enumerate(entries, start=1):
        if not isinstance(strings, list) or not all(isinstance(s, str) for s in strings):
            raise _wrong(folder / file, entry, "a list of strings", strings)
    return [tuple(strings) for strings in entries]


def _wrong(path: Path, entry: int, expected: str, value: Any) -> DataFileError:
    return DataFileError(
        path,
        f"entry {entry} must be {expected}, got {type(value).__name__}",
        cure=f"use the file as it is in the GitHub repository {_REPOSITORY}",
    )
