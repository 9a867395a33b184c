"""Which field of a result a parameter may mean, by names and types: no text of a result counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cnp_router.agents.parameters import Parameter
from cnp_router.text.tokenise import singular, split_identifier

__all__ = ["fits", "kind_of", "meant_by", "types_of"]

_BY_FORMAT = {"uri": "url", "uri-reference": "url", "iri": "url", "email": "email"}
_BY_FORMAT |= {"date": "date", "date-time": "datetime", "time": "time"}
# The first that a name or, after all names, a description has is the kind.
_BY_NAME = (
    ("zone", {"timezone", "tz", "zone", "timezones"}),
    ("url", {"url", "urls", "uri", "uris", "link", "href", "website"}),
    ("email", {"email", "emails", "mail"}),
    ("path", {"path", "paths", "file", "files", "filename", "folder", "directory", "dir"}),
    ("datetime", {"datetime", "timestamp"}),
    ("date", {"date", "day"}),
    ("time", {"time"}),
)
_BY_DESCRIPTION = (
    ("zone", re.compile(r"\bIANA\b|\btime ?zone\b", re.IGNORECASE)),
    ("email", re.compile(r"\be-?mail address\b", re.IGNORECASE)),
    ("url", re.compile(r"\bUR[LI]\b")),
    ("date", re.compile(r"YYYY-MM-DD(?![T ])")),
)
_TYPES = {"date": "string"}  # of an outline's entries, those that are not JSON's
# Names for the same: each stands for the first of its line.
_ALIASES = (
    "email mail",
    "latitude lat",
    "longitude lng lon long",
    "timezone tz zone",
    "phone telephone tel mobile",
    "url link href uri",
    "date day",
    "id identifier",
    "number no nr num",
)
_FIRST = {word: line.split()[0] for line in _ALIASES for word in line.split()}
# What a parameter or a field may begin with and mean the same.
_WAYS = {"from", "to", "source", "target", "origin", "destination", "sender", "recipient", "new"}


def meant_by(parameter: Parameter, entry: Mapping[str, Any]) -> int:
    """Return how sure it is that a parameter means a field of a result.

    3: they have the same name. 2: they have names for the same. 1: they are of one kind (an e-mail
    address, a date, an id), which says something only where there is no other. 0: it does not.

    Parameters
    ----------
    parameter : Parameter
    entry : mapping
        ``path`` (a JSON Pointer) and ``type``, as in an outline.

    Examples
    --------
    >>> recipient = Parameter("to", {"type": "string", "format": "email"}, True)
    >>> [meant_by(Parameter(name, {"type": "number"}, True), {"path": path, "type": "number"})
    ...  for name, path in [("lat", "/lat"), ("lat", "/place/latitude"), ("lat", "/lng")]]
    [3, 2, 0]
    >>> meant_by(recipient, {"path": "/person/email", "type": "string"})
    1
    """
    if not fits(entry, parameter.schema):
        return 0
    key, parent = _last(entry["path"])
    if _bare(key) == _bare(parameter.name) or _bare(parent + key) == _bare(parameter.name):
        return 3
    wanted, given = _words(parameter.name), _words(key)
    if not (wanted and given):
        return 0
    if wanted == given or wanted == [*_words(parent), *given]:
        return 2
    if given == ["id"]:
        return int(wanted[-1] == "id")
    kind, same = kind_of(parameter), kind_of(Parameter(key, {"type": "string"}, False))
    return int(kind == same and kind not in (None, "number"))


def fits(entry: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Return whether the type of a field is one that a schema takes; no type takes all."""
    kind, types = _TYPES.get(entry["type"], entry["type"]), types_of(schema)
    return not types or kind in types or (kind == "integer" and "number" in types)


def types_of(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a value may have; none where the schema says nothing."""
    found = schema.get("type")
    listed = found if isinstance(found, list | tuple) else [found]
    types = {each for each in listed if isinstance(each, str)}
    parts = schema.get("anyOf")
    for part in parts if isinstance(parts, list | tuple) else ():
        types |= types_of(part) if isinstance(part, Mapping) else set()
    return types - {"null"}


def kind_of(parameter: Parameter) -> str | None:
    """Return the kind of value that a parameter takes, as far as it can be recognised."""
    schema, types = parameter.schema, types_of(parameter.schema)
    if types and types <= {"integer", "number"}:
        return "number"
    if types == {"array"} and isinstance(schema.get("items"), Mapping):
        schema = schema["items"]
        types = types_of(schema)
    if types - {"string"}:
        return None
    if str(schema.get("format")) in _BY_FORMAT:
        return _BY_FORMAT[schema["format"]]
    words = set(split_identifier(parameter.name).lower().replace("-", " ").split())
    for kind, names in _BY_NAME:
        if words & names or (kind == "zone" and {"time", "zone"} <= words):
            return kind
    for kind, pattern in _BY_DESCRIPTION:
        if pattern.search(parameter.description[:1_000]):
            return kind
    return None


def _last(path: str) -> tuple[str, str]:
    """Return the last key of a path, and the one before it that is no place in a list."""
    keys = [key for key in path.split("/")[1:] if not key.isdecimal()]
    return (keys[-1] if keys else "", keys[-2] if len(keys) > 1 else "")


def _words(name: str) -> list[str]:
    """Return the words of a name, each as the first of those that mean the same."""
    words = [singular(word) for word in split_identifier(name).lower().replace("-", " ").split()]
    joined = " ".join(words).replace("time zone", "timezone").replace("e mail", "email").split()
    told = [_FIRST.get(word, word) for word in joined]
    return [word for word in told if word not in _WAYS] or told


def _bare(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())
