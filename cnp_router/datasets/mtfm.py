"""Reader of the ProgrammableWeb data of the MTFM paper in the layout of whale-ynu/MTFM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cnp_router.catalog import Api
from cnp_router.datasets.dataset import Dataset
from cnp_router.datasets.reading import Clone, first_of_each, unknown_id
from cnp_router.exceptions import DataFileError
from cnp_router.history import Mashup
from cnp_router.records import RESERVED_IDS

__all__ = ["read_mtfm"]


def read_mtfm(path: str | Path) -> Dataset:
    r"""Read a local clone of the GitHub repository whale-ynu/MTFM.

    Seven of its files are read, each a JSON list with one entry for each API or mashup, in the
    same order. Other files are ignored.

    - ``data/api_name.json``, ``data/mashup_name.json``: names in lower case with hyphens for
      spaces. They serve as ids, reserved ones with ``-2`` added; a name has spaces for hyphens.
    - ``data/api_description.json``, ``data/mashup_description.json``: lists of words. Stop words
      and punctuation are gone and the words are reduced to their lemmas; they are joined by
      spaces here, so that requests are not plain language.
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
    clone = Clone(Path(path), "whale-ynu/MTFM")
    rows = _rows(clone, "api", "description", "category")
    kept, apis_dropped = first_of_each("name", ((row[0], row) for row in rows))
    apis = {
        name: Api(name + "-2" * (name in RESERVED_IDS), _spoken(name), " ".join(words), filed)
        for name, words, filed in kept.values()
    }
    mashups: list[Mashup] = []
    rows = _rows(clone, "mashup", "description", "category", "used_api")
    for name, words, filed, used in rows:
        # dict.fromkeys: an API that is listed twice was used once as far as anybody knows.
        ids = dict.fromkeys(apis[api].id if api in apis else unknown_id(api) for api in used)
        if name:
            mashups.append(Mashup(name, " ".join(words), tuple(ids), filed, name=_spoken(name)))
    return clone.dataset(
        "mtfm",
        apis.values(),
        mashups,
        apis_dropped=apis_dropped,
        mashups_dropped={"no name": len(rows) - len(mashups)},
    )


def _spoken(name: str) -> str:
    return name.replace("-", " ")


def _rows(clone: Clone, kind: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return the name of each API or mashup, and a list of strings from each of the files."""
    file = f"data/{kind}_name.json"
    names = clone.read(file, list)
    for entry, name in enumerate(names, start=1):
        if not isinstance(name, str):
            raise clone.error(file, f"entry {entry} must be a string, got {type(name).__name__}")
    lists = []
    for other in (f"data/{kind}_{column}.json" for column in columns):
        entries = clone.read(other, list)
        if len(entries) != len(names):
            problem = f"has {len(entries)} entries where {file} has {len(names)}"
            cure = "take both from the same commit"
            raise DataFileError(clone.folder / other, problem, cure=cure)
        for entry, strings in enumerate(entries, start=1):
            if not isinstance(strings, list) or not all(isinstance(s, str) for s in strings):
                got = type(strings).__name__
                raise clone.error(other, f"entry {entry} must be a list of strings, got {got}")
        lists.append(map(tuple, entries))
    return list(zip((name.strip() for name in names), *lists, strict=True))
