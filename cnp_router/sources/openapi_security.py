"""Credentials of an OpenAPI source: from the environment to one request, and nowhere else."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn
from urllib.parse import quote, quote_plus

from cnp_router.exceptions import shown
from cnp_router.sources.openapi_document import Document
from cnp_router.sources.openapi_schema import resolve
from cnp_router.sources.openapi_text import DocumentError

__all__ = ["TOKEN", "Credentials", "CredentialsError", "Scheme", "Signature", "header_problem"]
__all__ += ["read_schemes"]

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""What the name of a header or a cookie may be (RFC 9110)."""

_COOKIE = re.compile(r"[!#-+\--:<-\[\]-~]*")  # RFC 6265
_TELLING = 8  # fewer characters of a header that the user fixed say nothing

Alternatives = tuple[tuple[str, ...], ...]


class CredentialsError(Exception):
    """There are no credentials for a call; says which variables would be."""


@dataclass(frozen=True)
class Scheme:
    """A way to sign a request: what kind of credential, and where it goes."""

    name: str
    kind: Literal["key", "basic", "bearer"]
    place: Literal["header", "query", "cookie"] = "header"
    key: str = "Authorization"


@dataclass(frozen=True, repr=False)
class Signature:
    """What signs one request."""

    headers: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    cookies: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.headers or self.query or self.cookies)


def read_schemes(document: Document) -> dict[str, Scheme | str]:
    """Return the security schemes by name; a string says why one cannot be used."""
    return {name: _scheme(document, name, raw) for name, raw in document.schemes.items()}


def _scheme(document: Document, name: str, raw: Any) -> Scheme | str:
    scheme = resolve(document.root, raw)[0]
    if not isinstance(scheme, dict):
        raise DocumentError(f"the security scheme {shown(name)} is none")
    kind, place, key = scheme.get("type"), scheme.get("in"), scheme.get("name")
    if kind == "apiKey":
        if place not in ("header", "query", "cookie") or not isinstance(key, str):
            raise DocumentError(f"the security scheme {shown(name)} has no place for its key")
        if place != "query" and not TOKEN.fullmatch(key):
            return f"a key in the {place} {shown(key)}"
        return Scheme(name, "key", place, key)
    if kind == "http":
        way = str(scheme.get("scheme")).lower()
        if way == "basic":
            return Scheme(name, "basic")
        return Scheme(name, "bearer") if way == "bearer" else f"HTTP authentication {shown(way)}"
    return Scheme(name, "bearer") if kind in ("oauth2", "openIdConnect") else shown(kind)


def header_problem(value: str) -> str | None:
    """Return why a value cannot stand in a header, without the value itself."""
    if any(c < " " or c == "\x7f" for c in value):
        return "holds a control character or a line break"
    return "begins or ends with a space" if value != value.strip(" ") else None


class Credentials:
    """The credentials of one source, by security scheme.

    Parameters
    ----------
    source : str
        Name of the source.
    given : mapping of str to str
        Values by the name of their scheme. What is not there is looked up in the environment when
        a request is made: ``SOURCE_SCHEME`` in capital letters, with ``_`` for all else than
        letters of ASCII and digits. A value is a key or token; of basic authentication,
        ``user:password``.
    headers : mapping of str to str
        Sent with each request. A scheme whose header is among them is satisfied.

    Examples
    --------
    >>> Credentials("pet-store", {}, {}).variable("api_key")
    'PET_STORE_API_KEY'
    """

    def __init__(self, source: str, given: Mapping[str, str], headers: Mapping[str, str]) -> None:
        self._source = source
        self._given = dict(given)
        self._headers = dict(headers)
        self._fixed = {name.lower() for name in headers}

    def variable(self, scheme: str) -> str:
        """Return the name of the environment variable of a scheme."""
        return re.sub(r"[^A-Z0-9]", "_", f"{self._source}_{scheme}".upper())

    def sign(self, alternatives: Alternatives, schemes: Mapping[str, Scheme | str]) -> Signature:
        """Return what satisfies one of the alternatives, the first that can be.

        One that asks for nothing counts only if no other can be satisfied.

        Raises
        ------
        CredentialsError
            If none can be satisfied.
        """
        for names in sorted(alternatives, key=lambda names: not names):
            if all(self._has(schemes[name]) for name in names):
                return self._signature([schemes[name] for name in names])
        if not alternatives:
            return Signature()
        raise CredentialsError(f"it needs {self.wanted(alternatives, schemes)} in the environment")

    def refused(self, alternatives: Alternatives, schemes: Mapping[str, Scheme | str]) -> str:
        """Return what to look at where a server refuses, in words: where the credentials are from.

        Examples
        --------
        >>> pets = Credentials("pets", {"key": "k-1"}, {})
        >>> pets.refused([["key"]], {"key": Scheme("key", "key", "header", "X-Key")})
        "credentials of source 'pets'"
        """
        names = {name for each in alternatives for name in each}
        if any(self._given.get(name) for name in names):
            return f"credentials of source {self._source!r}"
        asked = [schemes[name] for name in names]
        if any(
            isinstance(s, Scheme) and s.place == "header" and s.key.lower() in self._fixed
            for s in asked
        ):
            return f"headers of source {self._source!r}"
        return self.wanted(alternatives, schemes)

    def wanted(self, alternatives: Alternatives, schemes: Mapping[str, Scheme | str]) -> str:
        """Return the variables that alternatives ask for, in words."""
        usable = [
            " and ".join(self.variable(name) for name in names)
            for names in alternatives
            if names and all(isinstance(schemes[name], Scheme) for name in names)
        ]
        return ", or ".join(dict.fromkeys(usable))

    def secrets(self, schemes: Iterable[str]) -> tuple[str, ...]:
        """Return all that must not come back in a result, in the forms that servers show."""
        found: dict[str, None] = {}
        for scheme in schemes:
            if value := self._value(scheme):
                found[value] = found[_basic(value)] = None
                if ":" in value and len(value.partition(":")[2]) >= _TELLING:
                    found[value.partition(":")[2]] = None
        for value in self._headers.values():
            for part in (value, *value.split()):
                if len(part) >= _TELLING:
                    found[part] = None
        forms = [
            form
            for value in found
            for form in (value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1])
        ]
        return tuple(sorted(dict.fromkeys(forms), key=len, reverse=True))

    def _value(self, scheme: str) -> str:
        return (self._given.get(scheme) or os.environ.get(self.variable(scheme), "")).strip()

    def _has(self, scheme: Scheme | str) -> bool:
        if isinstance(scheme, str):
            return False
        fixed = scheme.place == "header" and scheme.key.lower() in self._fixed
        return fixed or bool(self._value(scheme.name))

    def _signature(self, schemes: Sequence[Scheme | str]) -> Signature:
        parts: dict[str, list[tuple[str, str]]] = {"header": [], "query": [], "cookie": []}
        for scheme in schemes:
            if isinstance(scheme, str):
                continue
            value = self._value(scheme.name)
            if not value:  # it is among the fixed headers
                continue
            problem = header_problem(value)
            if problem is None and not value.isascii() and scheme.kind != "basic":
                problem = "holds a character that is not ASCII"
            if problem is None and scheme.place == "cookie" and not _COOKIE.fullmatch(value):
                problem = "holds a character that a cookie cannot have"
            if problem is not None:
                raise CredentialsError(f"the value of {self.variable(scheme.name)} {problem}")
            if scheme.kind == "basic":
                value = f"Basic {_basic(value)}"
            elif scheme.kind == "bearer":
                value = f"Bearer {value}"
            parts[scheme.place].append((scheme.key, value))
        return Signature(*(tuple(parts[place]) for place in ("header", "query", "cookie")))

    def __repr__(self) -> str:
        return f"Credentials({self._source!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("credentials are not pickled (make the source anew where it is needed)")


def _basic(value: str) -> str:
    """Return user and password as basic authentication sends them; a user alone has none."""
    both = value if ":" in value else f"{value}:"
    return base64.b64encode(both.encode()).decode()
