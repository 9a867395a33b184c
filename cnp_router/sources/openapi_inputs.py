"""What an operation of an OpenAPI document takes, and which part of a request each input is."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cnp_router.exceptions import shown
from cnp_router.sources.openapi_document import Document
from cnp_router.sources.openapi_schema import Schemas, resolve
from cnp_router.sources.openapi_security import TOKEN
from cnp_router.sources.openapi_text import DocumentError, UnusableError

__all__ = ["CONNECTION", "Body", "InputReader", "Inputs", "Parameter"]

Json = dict[str, Any]

_STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
_KEY_HEADER = "idempotency-key"
# Parameters with these names are ignored, says the specification.
_IGNORED = {"accept", "content-type", "authorization"}
CONNECTION = {"host", "content-length", "transfer-encoding", "connection", "te", "trailer"}
CONNECTION |= {"upgrade", "keep-alive", "expect", "proxy-authorization", "proxy-connection"}
CONNECTION |= {"cookie"}
"""Headers of the connection itself, and of what is written for cookies: nobody chooses them."""
_MEDIA_TYPE = re.compile(r"[!#$&^_.+*\w-]+/[!#$&^_.+*\w-]+( *;[ -~]*)?", re.ASCII)


@dataclass(frozen=True)
class Parameter:
    """A parameter: the input that it is, and how it is written into a request."""

    input: str
    name: str
    place: Literal["path", "query", "header", "cookie"]
    style: str
    explode: bool
    is_json: bool = False
    is_required: bool = False


@dataclass(frozen=True)
class Body:
    """A request body: which inputs it is made of, and how.

    `key` is the input that is the whole body; without one, the inputs of these `names` are its
    properties.
    """

    media_type: str
    kind: Literal["json", "form", "multipart", "text"]
    key: str | None
    names: tuple[str, ...] = ()
    is_required: bool = False
    encoding: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Inputs:
    """What one operation takes; `schema` is the JSON Schema of it.

    `key_header` is the header that takes an idempotency key, and `keys` are security schemes that
    are declared as parameters: nobody is asked for either.
    """

    parameters: tuple[Parameter, ...]
    body: Body | None
    schema: Json
    key_header: str | None
    keys: tuple[str, ...]


class InputReader:
    """Reads what the operations of one document take.

    Parameters
    ----------
    document : Document
    keys : mapping of (place, name) to str
        Where security schemes put their keys.
    headers : collection of str
        Names of headers that go along anyway, in lower case.
    """

    def __init__(
        self,
        document: Document,
        keys: Mapping[tuple[str, str], str],
        headers: Collection[str],
    ) -> None:
        self._root = document.root
        self._is_3_0 = document.is_3_0
        self._schemas = Schemas(document.root, is_3_0=document.is_3_0)
        self._keys = keys
        self._headers = headers

    def read(self, method: str, path: str, operation: Json, item: Json) -> Inputs:
        """Return the inputs of an operation.

        An input is called as its parameter, and ``place_name`` where parameters of several places
        have one name. Properties of a body that is an object are inputs of their own; where their
        names collide with those of parameters, or the body is something else, the input ``body``
        is all of it.
        """
        asked: list[tuple[str, Json]] = []
        key_header, keys = None, []
        for (place, name), raw in self._merged(operation, item).items():
            if place == "header":
                if name in _IGNORED or name in self._headers:
                    continue
                if name == _KEY_HEADER:
                    key_header = raw["name"]
                    continue
            if (place, name) in self._keys:
                keys += [self._keys[place, name]] if raw.get("required") else []
                continue
            if place == "header" and name in CONNECTION:
                if raw.get("required"):
                    raise UnusableError(f"the header {raw['name']!r} cannot be chosen")
                continue
            asked.append((place, raw))
        _check_path(path, [raw["name"] for place, raw in asked if place == "path"])
        schema = _Schema(self._schemas)
        parameters = tuple(self._parameter(*each, schema) for each in _named(asked))
        body = self._body(method, operation, schema)
        return Inputs(parameters, body, schema.whole(), key_header, tuple(keys))

    def _merged(self, operation: Json, item: Json) -> dict[tuple[str, str], Json]:
        """Return the parameters by place and name: those of the operation replace the path's."""
        merged: dict[tuple[str, str], Json] = {}
        for each in [*(item.get("parameters") or ()), *(operation.get("parameters") or ())]:
            raw = resolve(self._root, each)[0]
            name = raw.get("name") if isinstance(raw, dict) else None
            if not isinstance(name, str) or raw.get("in") not in _STYLES:
                raise DocumentError(f"a parameter without name or place: {shown(each)}")
            place = raw["in"]
            merged[place, name.lower() if place == "header" else name] = raw
        return merged

    def _parameter(self, called: str, place: Any, raw: Json, schema: _Schema) -> Parameter:
        name = raw["name"]
        style = raw.get("style") or _STYLES[place][0]
        content = raw.get("content") or {}
        if style not in _STYLES[place]:
            raise UnusableError(f"the {place} parameter {name!r} has the style {shown(style)}")
        if place in ("header", "cookie") and not TOKEN.fullmatch(name):
            raise UnusableError(
                f"the {place} parameter {shown(name)} has a name that cannot be sent"
            )
        if content and _kind(next(iter(content))) != "json":
            media_type = next(iter(content))
            raise UnusableError(f"the {place} parameter {name!r} is {shown(media_type)}")
        explode = raw.get("explode")
        own = next(iter(content.values())).get("schema", {}) if content else raw.get("schema", {})
        notes = {"description": raw["description"]} if raw.get("description") else {}
        if raw.get("deprecated"):
            notes["deprecated"] = True
        examples = [raw["example"]] if "example" in raw else []
        for each in (raw.get("examples") or {}).values():
            example = resolve(self._root, each)[0]
            examples += [example["value"]] if "value" in example else []
        if examples:
            notes["examples"] = examples
        required = bool(raw.get("required")) or place == "path"
        schema.add(called, [{} if own is None else own], notes, is_required=required)
        explode = style == "form" if explode is None else explode
        return Parameter(called, name, place, style, explode, bool(content), required)

    def _body(self, method: str, operation: Json, schema: _Schema) -> Body | None:
        raw = resolve(self._root, operation.get("requestBody"))[0]
        # A body of GET is ignored, says 3.0.
        if raw is None or (self._is_3_0 and method in ("get", "head")):
            return None
        content = raw.get("content") if isinstance(raw, dict) else None
        if not isinstance(content, dict):
            raise DocumentError("a request body without content")
        kinds = {media_type: _kind(media_type) for media_type in content}
        usable = [media_type for media_type, kind in kinds.items() if kind is not None]
        if not usable:
            raise UnusableError(f"its body is {', '.join(map(shown, content)) or 'of no type'}")
        media_type = min(usable, key=_rank)
        kind: Any = kinds[media_type]
        media = content[media_type] or {}
        required = raw.get("required")
        encoding = media.get("encoding") or {}
        sent = "application/json" if "*" in media_type else media_type
        own = media.get("schema")
        own = {} if own is None else own
        names = self._spread(kind, own, schema, required)
        if names is not None:
            return Body(sent, kind, None, names, bool(required), encoding)
        if kind in ("form", "multipart") and not _may_be_object(resolve(self._root, own)[0]):
            raise UnusableError(f"its body is {shown(media_type)} of something else than an object")
        key = "body"
        while key in schema.properties:
            key += "_"
        notes = {"description": raw["description"]} if raw.get("description") else {}
        schema.add(key, [own], notes, is_required=bool(required))
        return Body(sent, kind, key, (), bool(required), encoding)

    def _spread(
        self, kind: str, own: Any, schema: _Schema, required_body: bool | None
    ) -> tuple[str, ...] | None:
        """Make inputs of a body's properties; None where it must be one input.

        Where the document does not say whether the body is required, it is if a property is: most
        authors forget it. Where it says no, required properties are so as soon as there is one.
        """
        found = None if kind == "text" else self._schemas.properties(own)
        if found is None or not schema.properties.keys().isdisjoint(found[0]):
            return None
        properties, required = found
        if kind in ("form", "multipart"):
            files = [n for n, each in properties.items() if self._schemas.is_binary(each[0])]
            if not set(files).isdisjoint(required):
                raise UnusableError(f"its body needs a file, {files[0]!r}")
            properties = {n: each for n, each in properties.items() if n not in files}
        for name, parts in properties.items():
            is_optional = required_body is False
            schema.add(name, parts, {}, is_required=not is_optional and name in required)
            if is_optional and (others := [each for each in required if each != name]):
                schema.together[name] = others
        return tuple(properties)


class _Schema:
    """The JSON Schema of the inputs of one operation, while it is made."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._refs: set[str] = set()
        self._required: list[str] = []
        self.properties: Json = {}
        self.together: dict[str, list[str]] = {}  # what goes along with a property

    def add(self, name: str, parts: list[Any], notes: Json, *, is_required: bool) -> None:
        made = []
        for part in parts:
            schema, refs = self._schemas.convert(part)
            self._refs |= refs
            made.append(schema)
        whole = made[0] if len(made) == 1 else {"allOf": made}
        if notes:
            whole = {**(whole if isinstance(whole, dict) else {"allOf": [whole]}), **notes}
        self.properties[name] = whole
        if is_required:
            self._required.append(name)

    def whole(self) -> Json:
        schema: Json = {"type": "object", "properties": self.properties}
        if self._required:
            schema["required"] = self._required
        if self.together:
            schema["dependentRequired"] = self.together
        schema["additionalProperties"] = False
        if definitions := self._schemas.definitions(self._refs):
            schema["$defs"] = definitions
        return schema


def _named(asked: list[tuple[str, Json]]) -> Iterable[tuple[str, str, Json]]:
    """Yield parameters with the name of their input, unique."""
    names = [raw["name"] for _, raw in asked]
    called = [
        name if names.count(name) == 1 else f"{place}_{name}"
        for name, (place, _) in zip(names, asked, strict=True)
    ]
    if len(set(called)) < len(called):
        twice = next(name for name in called if called.count(name) > 1)
        raise UnusableError(f"two inputs would be called {twice!r}")
    return [(name, *each) for name, each in zip(called, asked, strict=True)]


def _check_path(path: str, names: list[str]) -> None:
    wanted = re.findall(r"\{([^{}]*)\}", path)
    for name in wanted:
        if name not in names:
            raise UnusableError(f"its path names {name!r}, which is no parameter")
    for name in names:
        if name not in wanted:
            raise UnusableError(f"its path has no place for the parameter {name!r}")


def _kind(media_type: str) -> Literal["json", "form", "multipart", "text"] | None:
    """Return how a body of a media type is written; None if it cannot be."""
    if not _MEDIA_TYPE.fullmatch(media_type):
        return None
    base = media_type.partition(";")[0].strip().lower()
    if base in ("application/json", "application/*", "*/*") or base.endswith("+json"):
        return "json"
    if base == "application/x-www-form-urlencoded":
        return "form"
    if base == "multipart/form-data":
        return "multipart"
    return "text" if base.startswith("text/") and base != "text/*" else None


def _rank(media_type: str) -> int:
    """Return the place of a media type among those that a body may have, the best first."""
    base = media_type.partition(";")[0].strip().lower()
    if base == "application/json":
        return 0
    kinds = ["json", "form", "multipart", "text"]
    return 1 + kinds.index(_kind(media_type) or "text") + 5 * ("*" in base)


def _may_be_object(schema: Any) -> bool:
    kind = schema.get("type", "object") if isinstance(schema, dict) else "object"
    return "object" in ([kind] if isinstance(kind, str) else kind)
