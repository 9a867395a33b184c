"""Reader of the ProgrammableWeb crawl of 2018 in the layout of zhenqincn/ProgrammableWebDataSet."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from cnp_router.catalog import Api
from cnp_router.datasets.dataset import Dataset
from cnp_router.datasets.reading import Clone, first_of_each, unknown_id
from cnp_router.history import Mashup
from cnp_router.records import RESERVED_IDS, Record, string_tuple

__all__ = ["read_programmableweb"]

_APIS = "apis/api_8459.json"
_CATEGORIES = "apis/categories_20.json"
_MASHUPS = "mashups/mashups.json"


def read_programmableweb(path: str | Path) -> Dataset:
    r"""Read a local clone of the GitHub repository zhenqincn/ProgrammableWebDataSet.

    Three of its files are read. Other files and fields are ignored.

    - ``apis/api_8459.json``: a list of objects with ``api_name``, ``api_desc`` and
      ``api_prim_cate``, the number of a category.
    - ``apis/categories_20.json``: an object, category name to number.
    - ``mashups/mashups.json``: a list of objects with ``mashup_id``, ``mashup_name``,
      ``mashup_desc`` and, where there are any, ``mashup_category`` (names) and
      ``mashup_related_apis`` (names of APIs).

    The API ids are made from the names (``"Google Maps"`` is ``"google-maps"``; should two
    names come out the same, the later ones end in ``-2``, ``-3``, as do reserved ids), because
    mashups refer to APIs by name. A name is matched whatever its case, its white space and a
    closing "API". APIs with no name or with one that came before are dropped. The catalog covers 20
    categories and the mashups all of them, so that many mashups name an API that is unknown here:
    these are dropped whole, as in the thesis. HTML entities in texts are decoded.

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
    >>> for file, content in {
    ...     "apis/api_8459.json": [
    ...         {"api_name": "Weather API", "api_desc": "Forecasts.", "api_prim_cate": 0},
    ...         {"api_name": "SMS", "api_desc": "Sends texts.", "api_prim_cate": 1},
    ...     ],
    ...     "apis/categories_20.json": {"Science": 0, "Messaging": 1},
    ...     "mashups/mashups.json": [
    ...         {"mashup_id": "1", "mashup_desc": "Rain by text",
    ...          "mashup_related_apis": ["Weather", "SMS"]},
    ...         {"mashup_id": "2", "mashup_desc": "Pins", "mashup_related_apis": ["Maps"]},
    ...     ],
    ... }.items():
    ...     (clone / file).parent.mkdir(exist_ok=True)
    ...     _ = (clone / file).write_text(json.dumps(content))
    >>> data = read_programmableweb(clone)
    >>> print(data.report)
    APIs: 2 of 2
    mashups: 1 of 2 (dropped: 1 unknown API)
    >>> data.history[0].apis, data.catalog["weather-api"].categories
    (('weather-api', 'sms'), ('Science',))
    """
    clone = Clone(Path(path), "zhenqincn/ProgrammableWebDataSet")
    entries = ((_key(r.get("api_name", default="")), r) for r in _records(clone, _APIS))
    records, apis_dropped = first_of_each("name", entries)
    apis = _apis(records, _categories(clone))
    ids = {key: api.id for key, api in apis.items()}
    mashups = [_mashup(record, ids) for record in _records(clone, _MASHUPS)]
    return clone.dataset(
        "programmableweb", apis.values(), mashups, apis_dropped=apis_dropped, mashups_dropped={}
    )


def _apis(records: Mapping[str, Record], categories: Mapping[int, str]) -> dict[str, Api]:
    """Return the APIs by the key of their name."""
    apis: dict[str, Api] = {}
    ids = Counter(RESERVED_IDS)
    for key, record in records.items():
        name = _plain(record.get("api_name"))
        api_id = re.sub(r"[\W_]+", "-", name.casefold()).strip("-") or "api"
        while ids[api_id]:
            ids[api_id] += 1
            api_id = f"{api_id}-{ids[api_id]}"
        ids[api_id] += 1
        description = _plain(record.get("api_desc", default=""))
        apis[key] = Api(api_id, name, description, _category(record, categories))
    return apis


def _mashup(record: Record, id_of_name: Mapping[str, str]) -> Mashup:
    names = map(_plain, record.get("mashup_related_apis", string_tuple, default=()))
    apis = (id_of_name.get(_key(name), unknown_id(name)) for name in names if name)
    categories = map(_plain, record.get("mashup_category", string_tuple, default=()))
    return record.checked(
        Mashup,
        id=record.get("mashup_id"),
        description=_plain(record.get("mashup_desc", default="")),
        apis=tuple(dict.fromkeys(apis)),
        categories=tuple(dict.fromkeys(categories)),
        name=record.get("mashup_name", default=None),
    )


def _records(clone: Clone, file: str) -> Iterator[Record]:
    for entry, fields in enumerate(clone.read(file, list), start=1):
        if not isinstance(fields, dict):
            got = type(fields).__name__
            raise clone.error(file, f"entry {entry}: expected a JSON object, got {got}")
        yield Record(fields, clone.folder / file, None, entry=entry)


def _categories(clone: Clone) -> dict[int, str]:
    numbers = clone.read(_CATEGORIES, dict)
    for name, number in numbers.items():
        if type(number) is not int:
            problem = f"category {name!r} must have a whole number, got {number!r}"
            raise clone.error(_CATEGORIES, problem)
    return {number: name for name, number in numbers.items()}


def _category(record: Record, categories: Mapping[int, str]) -> tuple[str, ...]:
    number = record.fields.get("api_prim_cate")
    if number is None:
        return ()
    if type(number) is not int or number not in categories:
        raise record.error(
            f"field 'api_prim_cate' must be the number of a category, got {number!r}",
            cure=f"use the numbers in {_CATEGORIES}",
        )
    return (categories[number],)


def _key(name: str) -> str:
    return _plain(name).casefold().removesuffix(" api")


def _plain(text: str) -> str:
    """Return the text with HTML entities decoded and runs of white space made one space."""
    return " ".join(html.unescape(text).split())
