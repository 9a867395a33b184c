"""Reading an OpenAPI document: 3.0 and 3.1, from a file or a URL."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from cnp_router.exceptions import (
    DataFileError,
    MissingExtraError,
    SourceUnavailableError,
    shown,
)
from cnp_router.files import as_path, reason
from cnp_router.sources.openapi_schema import resolve
from cnp_router.sources.openapi_text import (
    MAX_BYTES,
    BrokenReferenceError,
    DocumentError,
    parse_document,
)

__all__ = [
    "METHODS",
    "Document",
    "fetch_document",
    "import_httpx2",
    "is_url",
    "origin",
    "plain_url",
    "read_document",
]

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_MODELS = {"Callback", "Example", "Header", "Link", "Parameter", "PathItem", "Reference"}
_MODELS |= {"RequestBody", "Response", "Schema", "SecurityScheme"}
_MAPS = {"callbacks", "content", "encoding", "examples", "headers", "links", "parameters"}
_MAPS |= {"paths", "requestBodies", "responses", "securitySchemes", "variables"}
_NEWER = ("query", "additionalOperations")  # of 3.2


@dataclass(frozen=True, eq=False, repr=False)
class Document:
    """An OpenAPI document that was found to be one.

    Parameters
    ----------
    root : dict
        As it was read.
    url : str, default=""
        Where it was found, if that was a URL: what relative ones are relative to.
    asked : str, default=""
        The URL that was asked for it, before redirects; by default `url`. Only servers at the same
        origin are used without being asked for.
    place : str, default="the OpenAPI document"
        As errors call it.

    Raises
    ------
    DocumentError
        If it is not OpenAPI 3.0 or 3.1.
    """

    root: dict[str, Any]
    url: str = ""
    asked: str = ""
    place: str = "the OpenAPI document"

    def __post_init__(self) -> None:
        if not self.asked:
            object.__setattr__(self, "asked", self.url)
        _check(self.root)

    @property
    def is_3_0(self) -> bool:
        """Whether its schemas are those of OpenAPI 3.0, which are no JSON Schemas."""
        return str(self.root["openapi"]).startswith("3.0")

    @property
    def title(self) -> str:
        """What it calls itself."""
        return str(self.root["info"]["title"])

    @property
    def schemes(self) -> Mapping[str, Any]:
        """Its security schemes by name; some may be references."""
        return (self.root.get("components") or {}).get("securitySchemes") or {}

    def operations(
        self, leave_out: Callable[[str, str], object]
    ) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
        """Yield method (in lower case), path, operation and path item.

        `leave_out` is told which path has a reference that cannot be followed, and why.
        """
        for path, value in (self.root.get("paths") or {}).items():
            if path.startswith("x-"):
                continue
            if not path.startswith("/"):
                raise DocumentError(f"the path {shown(path)} does not begin with '/'")
            try:
                item = resolve(self.root, value)[0]
            except BrokenReferenceError as exc:
                leave_out(path, str(exc))
                continue
            if not isinstance(item, dict):
                raise DocumentError(f"what stands under the path {shown(path)} is no path item")
            for method in (*METHODS, *_NEWER):
                operation = item.get(method)
                if isinstance(operation, dict):
                    yield method, path, operation, item


def is_url(place: str | Path) -> bool:
    """Whether a place is a URL, not a path."""
    return isinstance(place, str) and place.lower().startswith(("http://", "https://"))


def origin(url: str) -> tuple[str, str | None, int]:
    """Return scheme, host and port of a URL; ValueError if it has none."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def plain_url(url: str) -> str:
    """Return a URL without what may be a secret: user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def read_document(path: str | Path) -> Document:
    """Read a document from a file.

    Raises
    ------
    DataFileError
        If there is none, with the line where that is known.
    """
    file = as_path(path)
    try:
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise DataFileError(path, f"larger than {MAX_BYTES:,} bytes")
        data = file.read_bytes()
    except FileNotFoundError as exc:
        raise DataFileError(path, "no such file", cure="check the path") from exc
    except IsADirectoryError as exc:
        raise DataFileError(path, "is a directory", cure="name a file inside it") from exc
    except (OSError, ValueError) as exc:  # ValueError: a path with a NUL character
        raise DataFileError(path, f"cannot be read: {reason(exc)}") from exc
    return _document(data, str(path), "", "")


async def fetch_document(url: str, *, source: str, timeout: float) -> Document:
    """Fetch a document; redirects are followed, and nothing secret goes along.

    Raises
    ------
    SourceUnavailableError
        If it does not come.
    DataFileError
        If what comes is not an OpenAPI document.
    """
    import asyncio

    httpx2 = import_httpx2()
    place = plain_url(url)
    data = bytearray()
    try:
        async with (
            asyncio.timeout(timeout),
            httpx2.AsyncClient(timeout=None, follow_redirects=True, max_redirects=5) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response,
        ):
            if response.status_code != 200:
                problem = f"{place} answers with HTTP {response.status_code}"
                raise SourceUnavailableError(source, problem, cure="check the URL")
            async for chunk in response.aiter_raw():
                data += chunk
                if len(data) > MAX_BYTES:
                    raise DataFileError(place, f"larger than {MAX_BYTES:,} bytes")
            found = str(response.url)
    except TimeoutError as exc:
        problem = f"{place} did not come in {timeout:g} s"
        raise SourceUnavailableError(source, problem, cure="ask again later") from exc
    except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
        query = urlsplit(url).query
        said = str(exc) if str(exc) and not (query and query in str(exc)) else type(exc).__name__
        problem = f"{place} cannot be fetched: {said}"
        raise SourceUnavailableError(source, problem, cure="check the URL") from None
    # In a thread: a large document takes seconds, and others go on meanwhile.
    return await asyncio.to_thread(_document, bytes(data), place, found, url)


def import_httpx2() -> Any:
    """Return httpx2, or say which extra has it."""
    try:
        import httpx2
    except ImportError as exc:
        purpose = "calling what an OpenAPI document describes"
        raise MissingExtraError(purpose, package="httpx2", extra="openapi") from exc
    return httpx2


def _document(data: bytes, place: str, url: str, asked: str) -> Document:
    try:
        return Document(parse_document(data), url, asked, place)
    except DocumentError as exc:
        raise DataFileError(place, exc.problem, line=exc.line, cure=exc.cure) from exc


def _check(root: dict[str, Any]) -> None:
    try:
        import openapi_pydantic
    except ImportError as exc:
        purpose = "reading an OpenAPI document"
        raise MissingExtraError(purpose, package="openapi-pydantic", extra="openapi") from exc
    from pydantic import ValidationError

    version = root.get("openapi")
    if "swagger" in root:
        raise DocumentError(
            f"Swagger {root['swagger']}, not OpenAPI 3", cure="convert it to OpenAPI 3 first"
        )
    if not isinstance(version, str):
        raise DocumentError("no field 'openapi' with a version", cure="give an OpenAPI document")
    minor = ".".join(version.split(".")[:2])
    if minor not in ("3.0", "3.1", "3.2"):
        raise DocumentError(f"OpenAPI {shown(version)}", cure="OpenAPI 3.0 and 3.1 are read")
    if minor == "3.2":
        warnings.warn(f"OpenAPI {version} is read as 3.1", stacklevel=2)
    # Versions differ in their last number by words only, and the library knows those of its day.
    model = openapi_pydantic.v3.v3_0 if minor == "3.0" else openapi_pydantic.v3.v3_1
    stated = {"openapi": "3.0.3" if minor == "3.0" else "3.1.1"}
    try:
        stated = {**_without_schemas(root), **stated}
        model.OpenAPI.model_validate(stated)
    except ValidationError as exc:
        raise DocumentError(f"not OpenAPI {minor}: {_said(exc)}") from None
    except RecursionError:
        raise DocumentError("nested too deep") from None


def _without_schemas(value: Any, under: str = "") -> Any:
    """Return a document without its schemas, which are checked where they are used.

    One that is none costs its operation, not the document; and the library knows no schemas that
    are true or false.
    """
    if isinstance(value, list):
        return [_without_schemas(each) for each in value]
    if not isinstance(value, dict):
        return value
    if under in _MAPS:  # its keys are names
        return {name: _without_schemas(each) for name, each in value.items()}
    return {
        key: _without_schemas(each, key)
        for key, each in value.items()
        if key != "schema" and (under, key) != ("components", "schemas")
    }


def _said(exc: Any) -> str:
    """Return the first thing that is wrong, where it is, and how many more there are."""
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    # That it is no reference either is said of everything that could be one.
    telling = [error for error in errors if "Reference" not in error["loc"]] or errors
    first = max(telling, key=lambda error: len(error["loc"]))
    where = [str(part) for part in first["loc"] if part not in _MODELS]
    more = f" (and {len(telling) - 1} more)" if len(telling) > 1 else ""
    return f"{'/'.join(where) or 'it'}: {first['msg']}{more}"
