"""The operations of an OpenAPI document, each as an `Api` and as what its request is made of."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from cnp_router.catalog import Api
from cnp_router.exceptions import InputError, shown
from cnp_router.sources.openapi_document import METHODS, Document, origin, plain_url
from cnp_router.sources.openapi_inputs import InputReader, Inputs
from cnp_router.sources.openapi_security import Scheme, read_schemes
from cnp_router.sources.openapi_text import DocumentError, UnusableError
from cnp_router.sources.source import SEPARATOR
from cnp_router.sources.tool_name import LONGEST, is_tool_name

__all__ = ["LeftOut", "Operation", "Operations", "check_base_url"]

Json = dict[str, Any]


@dataclass(frozen=True)
class LeftOut:
    """An operation that cannot be used, or all of a path, and why."""

    operation: str
    why: str


@dataclass(frozen=True)
class Operation:
    """One operation, ready to be called: on a `server`, signed by one of `security`."""

    api: Api
    method: str
    path: str
    server: str
    inputs: Inputs
    security: tuple[tuple[str, ...], ...]


class Operations:
    """The operations of one document by their ids, and those that are left out.

    Parameters
    ----------
    document : Document
    source : str
        Name of the source, with which the ids begin.
    base_url : str or None
        Instead of the servers of the document.
    headers : collection of str
        Names of headers that go along anyway: nobody is asked for them.

    Raises
    ------
    DocumentError
        If the document is wrong somewhere, or no operation is left.
    """

    def __init__(
        self, document: Document, source: str, *, base_url: str | None, headers: Collection[str]
    ) -> None:
        self._document = document
        self._source = source
        self._base_url = base_url
        self.schemes = read_schemes(document)
        keys: dict[tuple[str, str], str] = {
            (each.place, each.key.lower() if each.place == "header" else each.key): each.name
            for each in self.schemes.values()
            if isinstance(each, Scheme) and each.kind == "key"
        }
        self._reader = InputReader(document, keys, {name.lower() for name in headers})
        self.left_out: list[LeftOut] = []
        self.by_id: dict[str, Operation] = {}
        found = list(document.operations(self._leave_out))
        for tool, (method, path, raw, item) in zip(self._tools(found), found, strict=True):
            where = f"{method.upper()} {path}"
            try:
                operation = self._operation(tool, method, path, raw, item)
                self.by_id[operation.api.id] = operation
            except UnusableError as exc:
                self._leave_out(where, str(exc))
            except InputError as exc:
                raise DocumentError(f"{where}: {exc}") from exc
            except DocumentError as exc:
                raise DocumentError(f"{where}: {exc.problem}", cure=exc.cure) from exc
        if not self.by_id:
            first = self.left_out[0] if self.left_out else None
            said = f": {first.operation}, {first.why}" if first else ""
            raise DocumentError(f"no operation that can be used{said}")

    def _leave_out(self, where: str, why: str) -> None:
        self.left_out.append(LeftOut(where, why))

    def _tools(self, found: list[tuple[str, str, Json, Json]]) -> list[str]:
        """Return the names of all operations: their ids, or made of method and path.

        Of several with one id, the first keeps it.
        """
        taken: set[str] = set()
        tools: list[str | None] = []
        for _, _, raw, _ in found:
            tool = self._checked(raw.get("operationId"))
            tool = None if tool in taken else tool
            tools.append(tool)
            if tool is not None:
                taken.add(tool)
        done = []
        for tool, (method, path, _, _) in zip(tools, found, strict=True):
            name = tool
            if name is None:
                slug = re.sub(r"[^A-Za-z0-9]+", "_", f"{method}_{path}").strip("_")
                slug = name = slug[: LONGEST - 8]  # a number may follow
                number = 1
                while name in taken:
                    number += 1
                    name = f"{slug}_{number}"
                taken.add(name)
            done.append(name)
        return done

    def _checked(self, operation_id: Any) -> str | None:
        """Return an id that an API can have; None if there is none."""
        found = str(operation_id or "").strip()
        return found if is_tool_name(found) else None

    def _operation(self, tool: str, method: str, path: str, raw: Json, item: Json) -> Operation:
        if method not in METHODS:
            raise UnusableError("it is of OpenAPI 3.2")
        inputs = self._reader.read(method, path, raw, item)
        security = self._security(raw, inputs.keys)
        api = Api(
            f"{self._source}{SEPARATOR}{tool}",
            tool,
            _description(raw, item) or f"{method.upper()} {path}",
            tuple(dict.fromkeys(tag for tag in raw.get("tags") or () if tag.strip())),
            inputs.schema,
            "reads" if method in ("get", "head") else "writes",
        )
        return Operation(api, method.upper(), path, self._server(raw, item), inputs, security)

    def _security(self, raw: Json, keys: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Return the alternatives that can be used; each is a list of schemes."""
        listed = raw.get("security")
        listed = self._document.root.get("security") if listed is None else listed
        alternatives = [(*dict.fromkeys((*names, *keys)),) for names in listed or ()]
        if keys and not alternatives:
            alternatives = [keys]
        why = ""
        usable = []
        for names in alternatives:
            for name in names:
                if name not in self.schemes:
                    raise DocumentError(f"there is no security scheme {shown(name)}")
            schemes = [self.schemes[name] for name in names]
            others = [each for each in schemes if isinstance(each, str)]
            places = [(each.place, each.key) for each in schemes if isinstance(each, Scheme)]
            if others or len(set(places)) < len(places):
                why = others[0] if others else "two credentials in one place"
            else:
                usable.append(names)
        if alternatives and not usable:
            raise UnusableError(f"it needs {why}")
        return tuple(usable)

    def _server(self, raw: Json, item: Json) -> str:
        """Return the URL of the first server that has an absolute one."""
        if self._base_url is not None:
            return self._base_url
        lists = (raw.get("servers"), item.get("servers"), self._document.root.get("servers"))
        servers = next((each for each in lists if each), [{"url": "/"}])
        for server in servers:
            url = _filled(server)
            if self._document.url:
                url = urljoin(self._document.url, url)
            if urlsplit(url).scheme in ("http", "https"):
                return self._allowed(check_base_url(url))
        raise DocumentError("no server with an absolute URL", cure="give base_url")

    def _allowed(self, server: str) -> str:
        """Return a server that the document may name: what comes from a URL, only its origin."""
        asked = self._document.asked
        if asked and origin(server) != origin(asked):
            parts = urlsplit(plain_url(asked))
            problem = f"it is at {parts.scheme}://{parts.netloc}, and names a server elsewhere, "
            cure = f"give base_url={server!r} if requests may go there"
            raise DocumentError(problem + server, cure=cure)
        return server


def check_base_url(url: object) -> str:
    """Return the URL of a server without a slash at its end; InputError if it cannot be used."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if not isinstance(url, str) or parts.scheme not in ("http", "https") or not host:
        seen = re.sub("//.*@", "//", url.partition("?")[0]) if isinstance(url, str) else url
        raise InputError(f"a server must have a URL with http:// or https://, got {shown(seen)}")
    if "@" in parts.netloc:
        raise InputError(f"no user or password in the URL of a server, {host} (use credentials)")
    if parts.query or parts.fragment or re.search(r"[^!-~]|[\\{}<>\"^`|]", url):
        raise InputError(f"the URL of a server must be plain, got {shown(url.partition('?')[0])}")
    return url.rstrip("/?#")


def _filled(server: Json) -> str:
    """Return the URL of a server, its variables at their defaults."""
    variables = server.get("variables") or {}

    def default(match: re.Match[str]) -> str:
        value = (variables.get(match[1]) or {}).get("default")
        if value is None:
            problem = f"the server {shown(server['url'])} has no variable {match[1]!r}"
            raise DocumentError(problem, cure="give it a default, or give base_url")
        return str(value)

    return re.sub(r"\{([^{}]*)\}", default, server["url"])


def _description(raw: Json, item: Json) -> str:
    summary = (raw.get("summary") or item.get("summary") or "").strip()
    text = (raw.get("description") or item.get("description") or "").strip()
    if not summary or text.startswith(summary.rstrip(".")):
        return text or summary
    end = "" if summary.endswith((".", "!", "?")) else "."
    return f"{summary}{end} {text}".strip() if text else summary
