"""Reader of the ProgrammableWeb crawl of 2018 in the layout of zhenqincn/ProgrammableWebDataSet."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from cnp_router.catalog import Api
from cnp_router.datasets._assembly import assemble, plain_text, read_document, slug, unknown_id
from cnp_router.datasets.dataset import Dataset
from cnp_router.exceptions import DataFileError
from cnp_router.history import Mashup
from cnp_router.records import RESERVED_IDS, Record

__all__ = ["read_programmableweb"]

_REPOSITORY = "zhenqincn/ProgrammableWebDataSet"
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
    names come out the same, the later ones end in ``-2``, ``-3``), because mashups refer to APIs
    by name. A name is matched whatever its case, its white space and a closing "API". APIs with
    no name or with one that came before are dropped. The catalog covers 20 categories and the
    mashups all of them, so that many mashups name an API that is unknown here: these are dropped
    whole, as in the thesis. HTML entities in texts are decoded.

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
    folder = Path(path)
    apis, apis_dropped = _apis(folder)
    id_of_name = {_key(api.name): api.id for api in apis}
    mashups = [
        _mashup(Record(fields, folder / _MASHUPS, None, entry=entry), id_of_name)
        for entry, fields in _objects(folder, _MASHUPS)
    ]
    return assemble(
        name="programmableweb",
        folder=folder,
        repository=_REPOSITORY,
        apis=apis,
        apis_dropped=apis_dropped,
        mashups=mashups,
        mashups_dropped={},
    )


def _apis(folder: Path) -> tuple[list[Api], Counter[str]]:
    categories = _categories(folder)
    apis: list[Api] = []
    dropped: Counter[str] = Counter()
    names: set[str] = set()
    ids: set[str] = set(RESERVED_IDS)
    for entry, fields in _objects(folder, _APIS):
        record = Record(fields, folder / _APIS, None, entry=entry)
        name = plain_text(record.text("api_name", default=""))
        if not name:
            dropped["no name"] += 1
        elif _key(name) in names:
            dropped["repeated name"] += 1
        else:
            names.add(_key(name))
            api_id = _unused(slug(name) or "api", ids)
            ids.add(api_id)
            description = plain_text(record.text("api_desc", default=""))
            apis.append(Api(api_id, name, description, _category(record, fields, categories)))
    return apis, dropped


def _mashup(record: Record, id_of_name: dict[str, str]) -> Mashup:
    names = [plain_text(name) for name in record.strings("mashup_related_apis", default=())]
    apis = (id_of_name.get(_key(name), unknown_id(name)) for name in names if name)
    categories = map(plain_text, record.strings("mashup_category", default=()))
    return Mashup(
        id=record.identifier("mashup_id"),
        description=plain_text(record.text("mashup_desc", default="")),
        apis=tuple(dict.fromkeys(apis)),
        categories=tuple(dict.fromkeys(categories)),
        name=record.optional_text("mashup_name"),
    )


def _objects(folder: Path, file: str) -> list[tuple[int, dict[str, Any]]]:
    records = read_document(folder, file, list, _REPOSITORY)
    for entry, fields in enumerate(records, start=1):
        if not isinstance(fields, dict):
            raise DataFileError(
                folder / file,
                f"entry {entry}: expected a JSON object, got {type(fields).__name__}",
                cure=f"use the file as it is in the GitHub repository {_REPOSITORY}",
            )
    return list(enumerate(records, start=1))


def _categories(folder: Path) -> dict[int, str]:
    numbers = read_document(folder, _CATEGORIES, dict, _REPOSITORY)
    for name, number in numbers.items():
        if type(number) is not int:
            raise DataFileError(
                folder / _CATEGORIES,
                f"category {name!r} must have a whole number, got {number!r}",
                cure=f"use the file as it is in the GitHub repository {_REPOSITORY}",
            )
    return {number: name for name, number in numbers.items()}


def _category(
    record: Record, fields: dict[str, Any], categories: dict[int, str]
) -> tuple[str, ...]:
    number = fields.get("api_prim_cate")
    if number is None:
        return ()
    if type(number) is not int or number not in categories:
        raise record.error(
            f"field 'api_prim_cate' must be the number of a category, got {number!r}",
            cure=f"use the numbers in {_CATEGORIES}",
        )
    return (categories[number],)


def _key(name: str) -> str:
    return plain_text(name).casefold().removesuffix(" api")


def _unused(api_id: str, taken: set[str]) -> str:
    candidate, number = api_id, 1
    while candidate in taken:
        number += 1
        candidate = f"{api_id}-{number}"
    return candidate
