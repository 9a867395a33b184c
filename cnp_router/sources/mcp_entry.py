"""What may stand in the entry of an MCP server, checked: values are never shown."""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cnp_router.exceptions import InputError, shown
from cnp_router.records import string_tuple

__all__ = ["entry_fields", "http_url", "plain", "secrets_of", "several", "strings"]

_LOGGER = logging.getLogger(__name__)
_FIELDS = ("command", "args", "env", "cwd", "url", "headers", "type")
_SETTINGS = ("max_bytes", "mode", "start_timeout")  # this library's own
_OF_ALL_KINDS = ("disabled", "effects", "max_concurrency", "trusted")  # read before
_KNOWN = (*_FIELDS, *_SETTINGS, *_OF_ALL_KINDS)
_MISSPELLED = 0.8  # as similar as that to one of them
# Settings that other programs keep in the same files, for themselves.
_OTHERS = {
    "alwaysAllow",
    "autoApprove",
    "description",
    "disabledTools",
    "icon",
    "timeout",
    "version",
}
_LEAST_GUESSED = 6  # characters; a shorter word stands in many a message
_ASSIGNED = re.compile(r"-{0,2}[\w.:-]+=(.*)", re.DOTALL)
_SECRET_FLAG = re.compile(
    r"--?[\w-]*(key|token|secret|password|passwd|auth|header|credential)[\w-]*|-H", re.IGNORECASE
)
_NEIGHBOURS = {"trust"}  # of others too, and similar to one of this library's
_TYPES = {
    "stdio": "command",
    "http": "url",
    "streamable-http": "url",
    "streamableHttp": "url",
    "streamable_http": "url",
}


def entry_fields(name: str, fields: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return what the constructor is to be given for an entry.

    Fields that are not known are those of other programs: they are passed over, with a warning.

    Raises
    ------
    InputError
        If a field is a misspelled one, or does not go with the others.
    """
    given = {key: value for key, value in fields.items() if key in (*_FIELDS, *_SETTINGS)}
    strange = [key for key in fields if key not in given and key not in _OTHERS]
    for key in strange:
        close = difflib.get_close_matches(str(key).lower(), _KNOWN, n=1, cutoff=_MISSPELLED)
        if close and key not in _NEIGHBOURS:
            raise InputError(f"unknown field {shown(key)} (did you mean {close[0]!r}?)")
    if strange:
        names = ", ".join(map(shown, strange))
        known = ", ".join(sorted(_KNOWN))
        _LOGGER.warning("source %r: passed over %s (known are %s)", name, names, known)
    kind = given.pop("type", None)
    if kind is not None:
        if not isinstance(kind, str) or kind not in _TYPES:
            raise InputError(
                f"field 'type' must be 'stdio' or 'http', got {shown(kind)} "
                "(other ways to reach a server are not supported)"
            )
        if given.get(_TYPES[kind]) is None:
            raise InputError(f"field 'type' is {kind!r}, and field {_TYPES[kind]!r} is missing")
    command = given.get("command")
    if command is not None and given.get("cwd") is None:
        given["cwd"] = folder.absolute()
    elif isinstance(given.get("cwd"), str):
        given["cwd"] = folder / given["cwd"]
    if isinstance(command, str) and os.sep in command:
        given["command"] = str(folder.absolute() / command)
    return given


def secrets_of(
    *mappings: Mapping[str, str],
    args: Sequence[str] = (),
    url: str | None = None,
    more: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return what must not be shown, the longest first; what is too short says nothing.

    Of arguments that is what follows ``=``, or a flag that speaks of a secret; of an address its
    password and the values of its query.
    """
    values = [value for mapping in mappings for value in mapping.values()] + list(more)
    parts = {part for value in values for part in (value, *value.split()) if len(part) >= 4}
    said = [found[1] for each in args if (found := _ASSIGNED.fullmatch(each))]
    said += [
        value
        for flag, value in pairwise(args)
        if _SECRET_FLAG.fullmatch(flag) and not value.startswith("-")
    ]
    for each in (*args, url or ""):
        place, _, query = each.partition("?")
        if "://" in place:
            said += [value for _, value in parse_qsl(query)]
            said += re.findall(r"=([^&#]*)", query)  # as it is written
            said += re.findall(r"://[^/@:]*:([^/@]*)@", place)
    words = {word for value in said for word in (value, *value.split()) if not word.endswith(":")}
    parts |= {word for word in words if len(word) >= _LEAST_GUESSED}
    return tuple(sorted(parts, key=len, reverse=True))


def plain(name: str, value: object, *, may_be_empty: bool = False) -> str:
    """Return a string that a process can be given."""
    if not isinstance(value, str) or "\0" in value or not (value.strip() or may_be_empty):
        raise InputError(f"{name} must be a string without zero bytes, got {_hidden(value)}")
    return value


def _hidden(value: object) -> str:
    """Return what a value is, without the value: it may be a secret."""
    return f"a {type(value).__name__}" if not isinstance(value, str) else "another string"


def several(name: str, value: Iterable[str]) -> tuple[str, ...]:
    """Return several strings."""
    try:
        return string_tuple(name, value)
    except InputError:
        raise InputError(f"{name} must be a list of strings") from None


def strings(name: str, value: Mapping[str, str] | None) -> dict[str, str]:
    """Return a mapping of strings to strings."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be an object of strings, got a {type(value).__name__}")
    for key, each in value.items():
        if not isinstance(key, str) or not key or "=" in key or not key.isprintable():
            raise InputError(f"{name} has a name that cannot be used, {shown(key)}")
        good = isinstance(each, str) and "\0" not in each
        if name == "headers":
            good = good and each.isascii() and each.isprintable()
        if not good:
            kind = "one line of ASCII" if name == "headers" else "a string without zero bytes"
            raise InputError(f"{name} {key!r} must be {kind}, got {_hidden(each)}")
    return dict(value)


def http_url(value: object) -> str:
    """Return an address that HTTP reaches."""
    text = plain("url", value)
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
        good = good and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise InputError("url must begin with http:// or https:// and name a host")
    return text
