"""A server on this machine that checks each request against an OpenAPI document.

It reads the document on its own: nothing here is shared with what builds the requests. What does
not fit is answered with 4xx and the reasons; what fits, with what was understood.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4, DRAFT202012


@dataclass(frozen=True)
class Reply:
    """An answer, or what goes wrong instead of it."""

    body: Any = b""  # sent as JSON unless it is bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    fault: str | None = None  # "hang", "reset", "cut", "drip"


@dataclass
class Seen:
    """One request as it came, and as it was understood."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    understood: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def header(self, name: str) -> str | None:
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) <= 1, f"the header {name} came twice"
        return values[0] if values else None


class ValidatingServer:
    """Serves one document.

    `keys` are the credentials by security scheme: a token, a key, or ``user:password``. `reply`
    may answer a valid request with something else; None leaves it to the server.
    """

    def __init__(
        self,
        document: dict[str, Any],
        *,
        keys: dict[str, str] | None = None,
        reply: Callable[[Seen], Reply | None] | None = None,
    ) -> None:
        self.document = document
        self.keys = keys or {}
        self.reply = reply
        self.seen: list[Seen] = []
        self.extra: dict[str, Reply] = {}  # by path, beside the document
        self.connections = 0

    async def __aenter__(self) -> ValidatingServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for _ in range(200):
            if not self.connections:
                break
            await asyncio.sleep(0.01)
        if error[0] is None:
            assert self.connections == 0, "connections are still open"

    @property
    def problems(self) -> list[str]:
        return [problem for seen in self.seen for problem in seen.problems]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._answer(reader, writer):
                    pass
        finally:
            self.connections -= 1
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        pairs = [line.split(": ", 1) for line in head[1:] if line]
        seen = Seen(method, target, [(name, value) for name, value in pairs], b"")
        seen.body = await reader.readexactly(int(seen.header("content-length") or 0))
        self.seen.append(seen)
        reply = self.extra.get(target.partition("?")[0])
        if reply is None:
            reply = Checker(self.document, self.keys).reply(seen)
            if not seen.problems and self.reply is not None:
                reply = self.reply(seen) or reply
        return await self._write(seen, reply, reader, writer)

    async def _write(
        self, seen: Seen, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if reply.fault == "hang":
            await reader.read()  # until the client has gone
            return False
        if reply.fault == "reset":
            writer.transport.abort()
            return False
        raw = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        headers = {"Content-Length": str(len(raw))}
        if not isinstance(reply.body, bytes):
            headers["Content-Type"] = "application/json"
        headers |= reply.headers
        lines = [f"{name}: {value}" for name, value in headers.items() if value]
        head = "\r\n".join([f"HTTP/1.1 {reply.status} Said", *lines, "", ""]).encode()
        if seen.method == "HEAD" or reply.status in (204, 304):
            raw = b""
        writer.write(head)
        if reply.fault == "drip":
            for place in range(0, len(raw), 1000):
                writer.write(raw[place : place + 1000])
                await writer.drain()
                await asyncio.sleep(0)
        else:
            writer.write(raw[: len(raw) // 2] if reply.fault == "cut" else raw)
        await writer.drain()
        return (
            reply.fault != "cut" and "Content-Length" in headers and headers["Content-Length"] != ""
        )


class Checker:
    """Checks one request against a document."""

    def __init__(self, document: dict[str, Any], keys: dict[str, str]) -> None:
        self.root = document
        self.keys = keys
        old = document["openapi"].startswith("3.0")
        base = jsonschema.Draft4Validator if old else jsonschema.Draft202012Validator
        checks = {"properties": _properties(base), "required": _required}
        if old:
            checks["type"] = _type_3_0(base)
            checks["enum"] = _enum_3_0(base)
        self._validator = jsonschema.validators.extend(base, checks)
        resource = Resource(document, DRAFT4 if old else DRAFT202012)
        self._registry = Registry().with_resource("doc:", resource)

    def reply(self, seen: Seen) -> Reply:
        path, _, query = seen.target.partition("?")
        prefix = self._prefix()
        if not path.startswith(prefix):
            seen.problems.append(f"{path} is not under {prefix}")
            return Reply({"errors": seen.problems}, 404)
        path = path[len(prefix) :]
        for template, item in self.root["paths"].items():
            pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(template))
            match = re.fullmatch(pattern, path)
            operations = self.follow(item)
            if match and seen.method.lower() in operations:
                return self._check(seen, operations, match.groupdict(), query)
        seen.problems.append(f"no operation {seen.method} {path}")
        return Reply({"errors": seen.problems}, 404)

    def _prefix(self) -> str:
        return urlsplit(self.root.get("servers", [{"url": "/"}])[0]["url"]).path.rstrip("/")

    def follow(self, value: Any) -> Any:
        while isinstance(value, dict) and "$ref" in value:
            found: Any = self.root
            for part in value["$ref"][2:].split("/"):
                found = found[part.replace("~1", "/").replace("~0", "~")]
            value = found
        return value

    def _check(self, seen: Seen, item: dict[str, Any], path: dict[str, str], query: str) -> Reply:
        operation = item[seen.method.lower()]
        problem = self._security(seen, operation, query)
        if problem:
            seen.problems.append(problem)
            return Reply({"errors": seen.problems}, 401)
        parameters = {}
        for each in [*item.get("parameters", []), *operation.get("parameters", [])]:
            parameter = self.follow(each)
            parameters[parameter["in"], parameter["name"]] = parameter
        cookies = dict(
            part.split("=", 1) for part in (seen.header("cookie") or "").split("; ") if part
        )
        pairs = [tuple((part + "=").split("=")[:2]) for part in query.split("&") if part]
        used = set(self._key_names("query"))
        for (place, name), parameter in parameters.items():
            try:
                value = self._parameter(parameter, seen, path, pairs, cookies, used)
            except Exception as exc:
                seen.problems.append(f"{place} {name}: {exc!r}")
                continue
            if value is None:
                if parameter.get("required"):
                    seen.problems.append(f"{place} {name} is missing")
                continue
            seen.understood.setdefault(place, {})[name] = value
            schema = parameter.get("schema")
            if schema is None:
                schema = next(iter(parameter["content"].values()))["schema"]
            self._fits(seen, value, schema, f"{place} {name}")
        seen.problems += [f"unknown query {name}" for name, _ in pairs if unquote(name) not in used]
        status = self._body(seen, operation)
        if seen.problems:
            return Reply({"errors": seen.problems}, status or 422)
        accept = seen.header("accept") or ""
        if "application/json" not in accept and "*/*" not in accept:
            return Reply({"errors": ["not acceptable"]}, 406)
        return Reply({"operation": operation.get("operationId"), **seen.understood})

    def _fits(self, seen: Seen, value: Any, schema: Any, what: str) -> None:
        schema = _absolute(schema)
        validator = self._validator(schema, registry=self._registry)
        with suppress(RecursionError):  # of a schema that is in place inside of itself
            for error in validator.iter_errors(value):
                seen.problems.append(f"{what}: {error.message} at {list(error.path)}")

    # -- security

    def _key_names(self, place: str) -> list[str]:
        schemes = self.root.get("components", {}).get("securitySchemes", {}).values()
        return [s["name"] for s in map(self.follow, schemes) if s.get("in") == place]

    def _security(self, seen: Seen, operation: dict[str, Any], query: str) -> str | None:
        wanted = operation.get("security", self.root.get("security", []))
        if not wanted or any(all(self._signed(seen, n, query) for n in each) for each in wanted):
            return None
        return f"not signed by any of {wanted}"

    def _signed(self, seen: Seen, name: str, query: str) -> bool:
        scheme = self.follow(self.root["components"]["securitySchemes"][name])
        key = self.keys.get(name)
        if scheme["type"] == "apiKey":
            got: str | None
            if scheme["in"] == "header":
                got = seen.header(scheme["name"])
            elif scheme["in"] == "query":
                got = {
                    k: unquote(v) for k, _, v in (p.partition("=") for p in query.split("&"))
                }.get(scheme["name"])
            else:
                cookie = seen.header("cookie") or ""
                got = dict(p.split("=", 1) for p in cookie.split("; ") if p).get(scheme["name"])
            return key is not None and got == key
        wanted = f"Bearer {key}"
        if scheme["type"] == "http" and scheme["scheme"].lower() == "basic":
            wanted = f"Basic {base64.b64encode((key or '').encode()).decode()}"
        return key is not None and seen.header("authorization") == wanted

    # -- parameters

    def _parameter(
        self,
        parameter: dict[str, Any],
        seen: Seen,
        path: dict[str, str],
        pairs: list[tuple[str, str]],
        cookies: dict[str, str],
        used: set[str],
    ) -> Any:
        name, place = parameter["name"], parameter["in"]
        style = parameter.get("style", {"query": "form", "cookie": "form"}.get(place, "simple"))
        explode = parameter.get("explode", style == "form")
        if place == "header":
            raw = seen.header(name)
        elif place == "cookie":
            raw = cookies.get(name)
        elif place == "path":
            raw = path[name]
        else:
            return self._in_query(parameter, style, explode, pairs, used)
        if raw is None or "content" in parameter:
            return None if raw is None else json.loads(unquote(raw))
        schema = self.follow(parameter["schema"])
        if place == "header":
            return self._parted(raw, schema, ",", explode, lambda text: text)
        if style == "label":
            assert raw[0] == "."
            return self._parted(raw[1:], schema, "." if explode else ",", explode, unquote)
        if style == "matrix":
            return self._matrix(raw, name, schema, explode)
        return self._parted(raw, schema, ",", explode, unquote)

    def _matrix(self, raw: str, name: str, schema: Any, explode: bool) -> Any:
        parts = raw.split(";")
        assert parts[0] == ""
        kind = _kind(schema)
        if explode and kind == "object":
            return self._object(dict(p.split("=") for p in parts[1:]), schema, unquote)
        values = [part.partition("=") for part in parts[1:]]
        assert all(unquote(key) == name for key, _, _ in values)
        if explode and kind == "array":
            items = self.follow(schema.get("items", {}))
            return [self.typed(unquote(value), items) for _, _, value in values]
        return self._parted(values[0][2], schema, ",", False, unquote)

    def _parted(
        self, raw: str, schema: Any, mark: str, explode: bool, plain: Callable[[str], str]
    ) -> Any:
        kind = _kind(schema)
        if kind == "array":
            items = self.follow(schema.get("items", {}))
            return [self.typed(plain(part), items) for part in raw.split(mark)]
        if kind == "object":
            parts = raw.split(mark)
            pairs = (
                [p.split("=") for p in parts]
                if explode
                else zip(parts[::2], parts[1::2], strict=True)
            )
            return self._object(dict(pairs), schema, plain)
        return self.typed(plain(raw), schema)

    def _object(self, raw: dict[str, str], schema: Any, plain: Callable[[str], str]) -> Any:
        found = {plain(name): plain(value) for name, value in raw.items()}
        return {name: self.typed(v, self._property(schema, name)) for name, v in found.items()}

    def _property(self, schema: Any, name: str) -> Any:
        own = schema.get("properties", {}).get(name)
        extra = schema.get("additionalProperties", {})
        return self.follow(own if own is not None else extra if isinstance(extra, dict) else {})

    def _in_query(
        self,
        parameter: Any,
        style: str,
        explode: bool,
        pairs: list[tuple[str, str]],
        used: set[str],
    ) -> Any:
        name = parameter["name"]
        mine = [value for key, value in pairs if unquote(key) == name]
        if "content" in parameter:
            used.add(name)
            return json.loads(unquote(mine[0])) if mine else None
        schema = self.follow(parameter["schema"])
        kind = _kind(schema)
        if style == "deepObject":
            found = [(unquote(key), unquote(value)) for key, value in pairs]
            found = [(key, value) for key, value in found if key.startswith(f"{name}[")]
            used.update(key for key, _ in found)
            return (
                self._deep([(key[len(name) :], v) for key, v in found], schema) if found else None
            )
        if kind == "object" and style == "form" and explode:
            names = set(schema.get("properties", {}))
            found = {unquote(key): unquote(value) for key, value in pairs if unquote(key) in names}
            used.update(found)
            return {n: self.typed(v, self._property(schema, n)) for n, v in found.items()} or None
        used.add(name)
        if not mine:
            return None
        if kind == "array" and explode:
            items = self.follow(schema.get("items", {}))
            return [self.typed(unquote(value), items) for value in mine]
        assert len(mine) == 1, f"{name} came {len(mine)} times"
        mark = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(style, ",")
        return self._parted(mine[0], schema, mark, False, unquote)

    def _deep(self, pairs: list[tuple[str, str]], schema: Any) -> Any:
        schema = self.follow(schema)
        if pairs[0][0] == "":
            assert len(pairs) == 1
            return self.typed(pairs[0][1], schema)
        groups: dict[str, list[tuple[str, str]]] = {}
        for key, value in pairs:
            match = re.match(r"\[([^\]]*)\](.*)", key)
            assert match, key
            groups.setdefault(match[1], []).append((match[2], value))
        if _kind(schema) == "array":
            assert list(groups) == [str(n) for n in range(len(groups))]
            return [self._deep(each, schema.get("items", {})) for each in groups.values()]
        return {
            name: self._deep(each, self._property(schema, name)) for name, each in groups.items()
        }

    def typed(self, text: str, schema: Any) -> Any:
        """Return what a text means where a schema says its type."""
        schema = self.follow(schema)
        for part in schema.get("anyOf", []) + schema.get("oneOf", []):
            with suppress(ValueError):
                return self.typed(text, part)
        kind = _kind(schema)
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
        if kind == "boolean":
            if text not in ("true", "false"):
                raise ValueError(f"{text!r} is not boolean")
            return text == "true"
        return json.loads(text) if kind in ("object", "array") else text

    # -- body

    def _body(self, seen: Seen, operation: dict[str, Any]) -> int | None:
        body = self.follow(operation.get("requestBody"))
        if body is None:
            if seen.body:
                seen.problems.append("a body that nobody asked for")
            return None
        sent = seen.header("content-type")
        if sent is None:
            if body.get("required") or seen.body:
                seen.problems.append("the body is missing, or its type")
            return None
        base = sent.partition(";")[0].lower()
        known = {key.partition(";")[0].lower(): media for key, media in body["content"].items()}
        media = known.get(base) or known.get("*/*")
        if media is None:
            seen.problems.append(f"the body is {base}")
            return 415
        schema = media.get("schema", {})
        try:
            value = self._parsed(seen, base, sent, schema, media.get("encoding", {}))
        except Exception as exc:
            seen.problems.append(f"the body cannot be read: {exc!r}")
            return 400
        seen.understood["body"] = value
        self._fits(seen, value, schema, "body")
        return None

    def _parsed(self, seen: Seen, base: str, sent: str, schema: Any, encoding: Any) -> Any:
        text = seen.body.decode()
        if base == "application/x-www-form-urlencoded":
            return self._form(text, self.follow(schema), encoding)
        if base == "multipart/form-data":
            return self._multipart(text, sent, self.follow(schema))
        if base.startswith("text/"):
            return text
        return json.loads(text)

    def _form(self, text: str, schema: Any, encoding: Any) -> Any:
        pairs = [part.split("=") for part in text.split("&") if part]
        value: dict[str, Any] = {}
        names = dict.fromkeys(re.match(r"[^\[]*", unquote_plus(key))[0] for key, _ in pairs)
        for name in names:
            own = self._property(schema, name)
            style = encoding.get(name, {}).get("style", "form")
            explode = encoding.get(name, {}).get("explode", True)
            if style == "deepObject":
                found = [(unquote_plus(key), unquote_plus(v)) for key, v in pairs]
                inside = [(k[len(name) :], v) for k, v in found if k.startswith(f"{name}[")]
                value[name] = self._deep(inside, own)
                continue
            mine = [v for key, v in pairs if unquote_plus(key) == name]
            if _kind(own) == "array" and explode:
                items = self.follow(own.get("items", {}))
                value[name] = [self.typed(unquote_plus(v), items) for v in mine]
            else:
                assert len(mine) == 1
                mark = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(style, "%2C")
                parted = _kind(own) == "array"
                value[name] = (
                    self._parted(mine[0], own, mark, False, unquote_plus)
                    if parted
                    else self.typed(unquote_plus(mine[0]), own)
                )
        return value

    def _multipart(self, text: str, sent: str, schema: Any) -> Any:
        boundary = re.search(r"boundary=(\S+)", sent)[1]
        parts = text.split(f"--{boundary}")
        assert parts[0] == ""
        assert parts[-1].strip() == "--"
        value: dict[str, Any] = {}
        for part in parts[1:-1]:
            head, _, body = part.removeprefix("\r\n").partition("\r\n\r\n")
            name = re.search(r'form-data; name="([^"]*)"', head)[1]
            own = self._property(schema, name)
            if _kind(own) == "array":
                items = self.follow(own.get("items", {}))
                value.setdefault(name, []).append(self.typed(body.removesuffix("\r\n"), items))
            else:
                assert name not in value
                value[name] = self.typed(body.removesuffix("\r\n"), own)
        return value


def _kind(schema: Any) -> str:
    kinds = schema.get("type", "") if isinstance(schema, dict) else ""
    kinds = [kinds] if isinstance(kinds, str) else kinds
    named = [kind for kind in kinds if kind != "null"]
    if not named[:1] or named == [""]:
        return "object" if isinstance(schema, dict) and "properties" in schema else ""
    return str(named[0])


def _absolute(schema: Any) -> Any:
    """Return a schema whose references name the document."""
    if isinstance(schema, list):
        return [_absolute(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: f"doc:{value}" if key == "$ref" and isinstance(value, str) else _absolute(value)
        for key, value in schema.items()
    }


def _type_3_0(base: Any) -> Any:
    def check(validator: Any, kind: Any, instance: Any, schema: Any) -> Any:
        if instance is None and schema.get("nullable"):
            return ()
        return base.VALIDATORS["type"](validator, kind, instance, schema)

    return check


def _enum_3_0(base: Any) -> Any:
    def check(validator: Any, values: Any, instance: Any, schema: Any) -> Any:
        if instance is None and schema.get("nullable"):
            return ()
        return base.VALIDATORS["enum"](validator, values, instance, schema)

    return check


def _properties(base: Any) -> Any:
    def check(validator: Any, properties: Any, instance: Any, schema: Any) -> Any:
        yield from base.VALIDATORS["properties"](validator, properties, instance, schema)
        for name, each in properties.items():
            if isinstance(instance, dict) and name in instance and each.get("readOnly"):
                yield jsonschema.ValidationError(f"{name} is read-only")

    return check


def _required(validator: Any, required: Any, instance: Any, schema: Any) -> Any:
    for name in required:
        hidden = schema.get("properties", {}).get(name, {}).get("readOnly")
        if isinstance(instance, dict) and name not in instance and not hidden:
            yield jsonschema.ValidationError(f"{name} is required")
