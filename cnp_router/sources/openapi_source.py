"""APIs that an OpenAPI document describes, called over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from cnp_router.catalog import Api
from cnp_router.closest import closest
from cnp_router.exceptions import (
    DataFileError,
    InputError,
    SourceAnswerError,
    SourceError,
    SourceUnavailableError,
    UnknownApiError,
    shown,
)
from cnp_router.records import check_instance, check_number
from cnp_router.sources.openapi_answer import (
    Redactor,
    UnusableAnswerError,
    result_of,
)
from cnp_router.sources.openapi_document import (
    Document,
    fetch_document,
    import_httpx2,
    is_url,
    read_document,
)
from cnp_router.sources.openapi_http import HttpClient, Progress
from cnp_router.sources.openapi_inputs import CONNECTION
from cnp_router.sources.openapi_operations import LeftOut, Operation, Operations, check_base_url
from cnp_router.sources.openapi_request import HttpRequest, build_request
from cnp_router.sources.openapi_security import TOKEN, Credentials, CredentialsError, header_problem
from cnp_router.sources.openapi_text import DocumentError
from cnp_router.sources.result_size import MAX_BYTES
from cnp_router.sources.source import Call, CallFailure, CallResult, Source, check_source_name

__all__ = ["OpenApiSource"]

_FIELDS = ("document", "base_url", "credentials", "headers")


class OpenApiSource(Source):
    """The operations of an OpenAPI document (3.0 or 3.1), each an API.

    An API's id is ``name__operationId``; GET and HEAD read, all other methods write. Parameters
    and the properties of a body are its inputs. What cannot be used is in `left_out`, and a
    warning says so. Credentials come from the environment: the variable of the security scheme
    ``api_key`` of a source ``petstore`` is ``PETSTORE_API_KEY`` (capital letters, and ``_`` for
    all else than letters of ASCII and digits). That of basic authentication is ``user:password``.

    Parameters
    ----------
    name : str
    document : str, Path, mapping or Document
        A file, a URL, or what stands in it. It is read when it is first needed.
    base_url : str, optional
        Of the server, instead of those that the document lists. A document from a URL may only
        name servers of that URL's scheme, host and port, whatever it was redirected to: for others
        give this. One from a file may name any.
    credentials : mapping of str to str, optional
        By name of the security scheme, instead of those of the environment.
    headers : mapping of str to str, optional
        Sent with each call.
    max_bytes : int > 0, bytes, default=1_000_000
        What a result may have; the rest is cut.
    document_timeout : float > 0, seconds, default=30.0
        For fetching a document from its URL.

    Raises
    ------
    InputError
        If an argument cannot be used.

    Examples
    --------
    >>> import asyncio
    >>> document = {
    ...     "openapi": "3.1.0",
    ...     "info": {"title": "Tides", "version": "1"},
    ...     "servers": [{"url": "https://tides.example"}],
    ...     "paths": {"/tides/{port}": {"get": {
    ...         "operationId": "tides",
    ...         "summary": "High and low water of a port",
    ...         "parameters": [{"name": "port", "in": "path", "required": True,
    ...                         "schema": {"type": "string"}}]}}},
    ... }
    >>> (api,) = asyncio.run(OpenApiSource("sea", document).apis())
    >>> api.id, api.effects, api.parameters["required"]
    ('sea__tides', 'reads', ['port'])
    """

    def __init__(
        self,
        name: str,
        document: str | Path | Mapping[str, Any] | Document,
        *,
        base_url: str | None = None,
        credentials: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = MAX_BYTES,
        document_timeout: float = 30.0,
    ) -> None:
        self.name = check_source_name(name)
        check_instance("document", document, str, Path, Mapping, Document)
        self._document = document
        if isinstance(document, str) and is_url(document) and "@" in urlsplit(document).netloc:
            raise InputError("no user or password in the URL of a document (fetch it, give a file)")
        self._base_url = None if base_url is None else check_base_url(base_url)
        self._given = _strings("credentials", credentials)
        self._headers = _checked_headers(headers)
        self._credentials = Credentials(self.name, self._given, self._headers)
        most = check_number("max_bytes", max_bytes, 1, 10**9, whole=True)
        timeout = check_number("document_timeout", document_timeout, 0, 10**6, ends=False)
        self._document_timeout = timeout
        self._operations: Operations | None = None
        self._reading = asyncio.Lock()
        self._client = HttpClient(most)

    @classmethod
    def read(cls, place: str | Path, name: str | None = None, **options: Any) -> Self:
        """Read a document now, and return its source.

        Parameters
        ----------
        place : str or Path
            A file or a URL. Where an event loop is running, only a file.
        name : str, optional
            By default made of the document's title.
        **options
            As those of the class.

        Raises
        ------
        DataFileError
            If there is no document that can be used; with the line where that is known.
        SourceUnavailableError
            If the URL cannot be fetched.
        """
        if is_url(place):
            from cnp_router.llm import run_sync

            url, timeout = str(place), options.get("document_timeout", 30.0)
            document = run_sync(
                lambda: fetch_document(url, source=name or "openapi", timeout=timeout),
                instead="OpenApiSource(name, url)",
            )
        else:
            document = read_document(place)
        if name is None:
            slug = re.sub(r"[^a-z0-9]+", "-", document.title.lower()).strip("-")[:64].strip("-")
            if not slug:
                raise DataFileError(place, "its title makes no name", cure="give a name")
            name = slug
        source = cls(name, document, **options)
        source._operations = source._read(document)
        return source

    @classmethod
    def from_entry(
        cls, name: str, fields: Mapping[str, Any], *, folder: Path, trusted: bool
    ) -> Self:
        """Return the source of an entry of a configuration file.

        Parameters
        ----------
        name : str
        fields : mapping
            ``document`` (a path or URL), ``base_url``, ``credentials``, ``headers``.
        folder : Path
            What a path is relative to.
        trusted : bool
            Makes no difference: what reads is known by its method.

        Raises
        ------
        InputError
            If a field is missing, unknown or cannot be used.
        """
        for field in fields:
            if field not in _FIELDS:
                known = f"it may have {', '.join(_FIELDS)}"
                raise InputError(f"unknown field {shown(field)} ({known})")
        document = fields.get("document")
        if not isinstance(document, str) or not document:
            raise InputError("field 'document' must be a path or a URL")
        place = document if is_url(document) else folder / document
        return cls(name, place, **{key: v for key, v in fields.items() if key != "document"})

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Operations that cannot be used, each with the reason; empty before it is read."""
        return () if self._operations is None else tuple(self._operations.left_out)

    async def apis(self) -> tuple[Api, ...]:
        """Return the operations that can be called; the first time reads the document.

        Raises
        ------
        SourceError
            If the document cannot be read or used.
        """
        operations = await self._loaded()
        return tuple(operation.api for operation in operations.by_id.values())

    async def call(self, call: Call) -> CallResult:
        """Send one request. Whatever goes wrong is the result's failure.

        Statuses: 400 and 422 are the failure ``"inputs"``, 401 and 403 ``"permission"``, 408, 425,
        429 and 503 ``"busy"``, other 5xx ``"lost"`` (nobody knows what was done), other ones
        ``"tool"``. A write with 408 or any 5xx may have been done, unless it is 503 with a
        Retry-After. No connection is ``"unavailable"``, one that broke after sending ``"lost"``.

        Raises
        ------
        UnknownApiError
            If the document has no such operation.
        """
        begin = time.perf_counter()
        is_read = self._operations is not None
        try:
            operations = await self._loaded()
        except SourceUnavailableError as exc:
            return CallResult.failed("unavailable", str(exc))
        except SourceError as exc:
            return CallResult(failure=CallFailure("unusable", str(exc), "no"))
        operation = operations.by_id.get(call.api)
        if operation is None:
            close = closest(call.api, operations.by_id)
            raise UnknownApiError(call.api, close=close)
        try:
            signature = self._credentials.sign(operation.security, operations.schemes)
            inputs = json.loads(json.dumps(dict(call.inputs)))
            options: dict[str, Any] = {"key": call.key, "headers": self._headers}
            request = build_request(operation, inputs, signature=signature, **options)
        except CredentialsError as exc:
            return CallResult.failed("permission", str(exc))
        except InputError as exc:
            return CallResult.failed("inputs", str(exc))
        is_new = self._client.open() or not is_read
        sent = time.perf_counter()
        result = await self._send(operation, request, operations, call.timeout)
        start = sent - begin if is_new else None
        return replace(result, seconds=time.perf_counter() - sent, start_seconds=start)

    async def aclose(self) -> None:
        """Close the connections. Can be called twice."""
        await self._client.aclose()

    async def _loaded(self) -> Operations:
        if self._operations is None:
            async with self._reading:
                if self._operations is None:
                    self._operations = await self._load()
        return self._operations

    async def _load(self) -> Operations:
        document = self._document
        try:
            if isinstance(document, str) and is_url(document):
                found = await fetch_document(
                    document, source=self.name, timeout=self._document_timeout
                )
                return await asyncio.to_thread(self._read, found)
            # In a thread: a large document takes seconds, and others go on meanwhile.
            return await asyncio.to_thread(self._read, document)
        except InputError as exc:
            raise SourceAnswerError(self.name, str(exc)) from exc

    def _read(self, document: str | Path | Mapping[str, Any] | Document) -> Operations:
        """Return the operations of a document; DataFileError if it cannot be used."""
        place = "the OpenAPI document"
        try:
            if isinstance(document, Mapping):
                document = Document(dict(document))
            elif not isinstance(document, Document):
                document = read_document(document)
            place = document.place
            operations = Operations(
                document, self.name, base_url=self._base_url, headers=self._headers
            )
            for scheme in self._given:
                if scheme not in operations.schemes:
                    known = ", ".join(map(repr, operations.schemes)) or "none"
                    raise DocumentError(f"no security scheme {shown(scheme)} (it has {known})")
        except DocumentError as exc:
            raise DataFileError(place, exc.problem, line=exc.line, cure=exc.cure) from exc
        except RecursionError:
            raise DataFileError(place, "nested too deep") from None
        if operations.left_out:
            self._warn(operations.left_out)
        return operations

    def _warn(self, left_out: list[LeftOut]) -> None:
        first = "; ".join(f"{each.operation}: {each.why}" for each in left_out[:3])
        more = f"; and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        warnings.warn(
            f"source {self.name!r}: operations that cannot be used are left out ({first}{more})",
            stacklevel=2,
        )

    async def _send(
        self, operation: Operation, request: HttpRequest, operations: Operations, timeout: float
    ) -> CallResult:
        httpx2 = import_httpx2()
        redact = Redactor(self._credentials.secrets(operations.schemes))
        host = urlsplit(request.server).netloc
        progress = Progress()
        try:
            async with asyncio.timeout(timeout):
                answer = await self._client.exchange(request, progress)
        except TimeoutError:
            was_done: Literal["no"] | None = None if progress.is_sent else "no"
            return CallResult(
                failure=CallFailure("timeout", f"no answer in {timeout:g} s", was_done)
            )
        except UnusableAnswerError as exc:
            return CallResult.failed("unusable", str(exc))
        except (httpx2.HTTPError, OSError) as exc:
            said = redact.text(str(exc)) or type(exc).__name__
            before = isinstance(exc, httpx2.ConnectError | httpx2.ProxyError)
            if before or not progress.is_sent:
                return CallResult.failed("unavailable", f"no connection to {host}: {said}")
            return CallResult.failed("lost", f"the connection to {host} broke: {said}")
        return result_of(
            answer,
            method=request.method,
            redact=redact,
            credentials=self._credentials.refused(operation.security, operations.schemes),
        )


def _strings(name: str, value: Mapping[str, str] | None) -> dict[str, str]:
    """Return a mapping of strings, without showing any of its values."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be an object, got a {type(value).__name__}")
    for key, each in value.items():
        if not isinstance(key, str) or not isinstance(each, str):
            raise InputError(f"{name} must map strings to strings, and {shown(key)} does not")
    return dict(value)


def _checked_headers(value: Mapping[str, str] | None) -> dict[str, str]:
    headers = _strings("headers", value)
    for name, each in headers.items():
        if not TOKEN.fullmatch(name) or name.lower() in CONNECTION:
            raise InputError(f"{shown(name)} is not a header that can be chosen")
        if problem := header_problem(each):
            raise InputError(f"the value of the header {name!r} {problem}")
    return headers
