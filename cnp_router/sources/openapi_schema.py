"""Schemas of an OpenAPI document as JSON Schema 2020-12, with what they refer to in ``$defs``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

from cnp_router.exceptions import shown
from cnp_router.sources.openapi_text import BrokenReferenceError, DocumentError, UnusableError

__all__ = ["Schemas", "resolve"]

Json = dict[str, Any]

# Where a schema has schemas in it. Those "in place" look at the same value as the schema itself.
_ALTERNATIVES = ("anyOf", "oneOf")
_CONDITIONS = ("not", "if", "then", "else")
_ONE: tuple[str, ...] = (
    "items",
    "additionalProperties",
    "contains",
    "propertyNames",
    "unevaluatedItems",
)
_ONE += ("unevaluatedProperties", "contentSchema")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_LISTED = ("prefixItems", "allOf", *_ALTERNATIVES)
_IN_PLACE = {"allOf", "dependentSchemas", *_ALTERNATIVES, *_CONDITIONS}

# What is not JSON Schema, or would change what a reference is relative to. Local definitions are
# found by their place in the document, as everything else.
_DROPPED = {"nullable", "readOnly", "writeOnly", "discriminator", "xml", "externalDocs", "example"}
_DROPPED |= {"$id", "$schema", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$comment"}
_DROPPED |= {"$defs", "definitions", "$vocabulary"}

# A body whose schema says nothing else is spread: its properties are inputs of their own.
_SPREAD = {"type", "properties", "required", "allOf", "additionalProperties", "title", "default"}
_SPREAD |= {"description", "deprecated", "examples", "nullable"} | _DROPPED

_COMPONENT = "#/components/schemas/"


def resolve(root: Json, value: Any) -> tuple[Any, str | None]:
    """Follow the references of an object; return what it names, and by which reference.

    Raises
    ------
    BrokenReferenceError
        If one leaves the document, leads nowhere or in a circle.
    """
    seen: dict[str, None] = {}
    ref = None
    while isinstance(value, dict) and isinstance(value.get("$ref"), str):
        ref = value["$ref"]
        if ref in seen:
            raise BrokenReferenceError(f"the reference {shown(ref)} leads back to itself")
        seen[ref] = None
        value = _lookup(root, ref)
    return value, ref


def _lookup(root: Json, ref: str) -> Any:
    if not ref.startswith("#"):
        raise BrokenReferenceError(
            f"the reference {shown(ref)} leaves the document",
            cure="bundle it into one document first",
        )
    value: Any = root
    for token in _tokens(ref):
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        else:
            raise BrokenReferenceError(f"the reference {shown(ref)} leads nowhere")
    return value


def _tokens(ref: str) -> list[str]:
    path = unquote(ref[1:])
    if path and not path.startswith("/"):
        raise BrokenReferenceError(
            f"the reference {shown(ref)} is no path inside the document",
            cure="write it as '#/components/...'",
        )
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


class Schemas:
    """Converts the schemas of one document. What is referred to is converted once.

    Properties that are read-only are left out: all inputs are requests.
    """

    def __init__(self, root: Json, *, is_3_0: bool) -> None:
        self._root = root
        self._is_3_0 = is_3_0
        self._done: dict[str, tuple[Any, frozenset[str]]] = {}
        # A value is never checked by a schema that is in place inside of itself: nobody would end.
        self._circles = _Circles(lambda ref: self._in_place(ref, all_=True))
        self._strict_circles = _Circles(lambda ref: self._in_place(ref, all_=False))

    def convert(self, schema: Any) -> tuple[Any, frozenset[str]]:
        """Return a schema as JSON Schema, and the references in it."""
        refs: set[str] = set()
        return self._schema(schema, refs, None), frozenset(refs)

    def definitions(self, refs: Iterable[str]) -> Json:
        """Return the ``$defs`` of some references, with all that they refer to, by name."""
        found: Json = {}
        waiting = sorted(refs, reverse=True)
        while waiting:
            ref = waiting.pop()
            if _name(ref) not in found:
                found[_name(ref)], more = self._definition(ref)
                waiting += sorted(more, reverse=True)
        return dict(sorted(found.items()))

    def properties(self, schema: Any) -> tuple[dict[str, list[Any]], list[str]] | None:
        """Return the properties of an object and the names of those required.

        None where the schema says more than that, so that its properties alone are not the same.
        """
        found: dict[str, list[Any]] = {}
        required: dict[str, None] = {}
        hidden: set[str] = set()
        parts = list(self._parts(schema, (), set()))
        for part in parts:
            if not isinstance(part, dict) or not _SPREAD.issuperset(_keywords(part)):
                return None
            if part.get("type", "object") not in ("object", ["object"]) or part.get("nullable"):
                return None
            extra = part.get("additionalProperties")
            if extra not in (None, False) or (extra is False and len(parts) > 1):
                return None
            for name, each in _mapping(part.get("properties")).items():
                found.setdefault(name, []).append(each)
                if self._is_read_only(each):
                    hidden.add(name)
            required.update(dict.fromkeys(_sequence(part.get("required"))))
        kept = {name: each for name, each in found.items() if name not in hidden}
        return (kept, [name for name in required if name not in hidden]) if found else None

    def is_binary(self, schema: Any) -> bool:
        """Whether a schema stands for the bytes of a file, or a list of them."""
        schema, _ = resolve(self._root, schema)
        if not isinstance(schema, dict):
            return False
        if schema.get("type") == "array":
            return self.is_binary(schema.get("items", {}))
        media = schema.get("contentMediaType")
        return schema.get("format") == "binary" or (media is not None and "type" not in schema)

    def _parts(self, schema: Any, above: tuple[int, ...], seen: set[int]) -> Iterator[Any]:
        """Yield a schema and those that it joins by ``allOf`` and ``$ref``, each once."""
        if id(schema) in above:
            raise DocumentError("a schema that contains itself by 'allOf'")
        if id(schema) in seen:
            return
        above = (*above, id(schema))
        seen.add(id(schema))
        if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
            yield from self._parts(_lookup(self._root, schema["$ref"]), above, seen)
            if self._is_3_0:
                return
            schema = {key: value for key, value in schema.items() if key != "$ref"}
            if not _keywords(schema):
                return
        yield schema
        for part in _sequence(_mapping(schema).get("allOf")):
            yield from self._parts(part, above, seen)

    def _definition(self, ref: str) -> tuple[Any, frozenset[str]]:
        if ref not in self._done:
            refs: set[str] = set()
            schema = self._schema(_lookup(self._root, ref), refs, ref)
            self._done[ref] = (schema, frozenset(refs))
        return self._done[ref]

    def _schema(self, schema: Any, refs: set[str], place: str | None) -> Any:
        """Convert a schema; `place` is the reference whose value it looks at."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise UnusableError(f"expected a schema, got {shown(schema)}")
        if isinstance(schema.get("$ref", schema.get("$dynamicRef")), str):
            return self._reference(schema, refs, place)
        return self._keywords(schema, refs, place)

    def _reference(self, schema: Json, refs: set[str], place: str | None) -> Json:
        ref = str(schema.get("$ref", schema.get("$dynamicRef")))
        resolve(self._root, {"$ref": ref})
        if place is not None and self._strict_circles.joins(place, ref):
            raise DocumentError(f"the schema {shown(ref)} contains itself")
        refs.add(ref)
        # In 3.0 whatever stands beside a reference is ignored; a description does no harm.
        beside = {k: v for k, v in schema.items() if k not in ("$ref", "$dynamicRef")}
        if self._is_3_0:
            beside = {k: v for k, v in beside.items() if k == "description"}
        name = _name(ref).replace("~", "~0").replace("/", "~1")
        return {"$ref": f"#/$defs/{quote(name)}", **self._keywords(beside, refs, place)}

    def _keywords(self, schema: Json, refs: set[str], place: str | None) -> Json:
        hidden = {
            name
            for part in [schema, *_sequence(schema.get("allOf"))]
            if isinstance(part, dict) and "$ref" not in part
            for name, each in _mapping(part.get("properties")).items()
            if self._is_read_only(each)
        }
        done: Json = {}
        for key, value in schema.items():
            if key in _DROPPED or key.startswith("x-") or self._is_circular(key, value, place):
                continue
            if value is None and key not in ("default", "const"):
                continue
            inside = place if key in _IN_PLACE else None
            if key == "required" and isinstance(value, list):
                done[key] = [name for name in value if name not in hidden]
            elif key in _NAMED and isinstance(value, dict):
                skipped = hidden if key == "properties" else ()
                kept = {name: each for name, each in value.items() if name not in skipped}
                done[key] = {n: self._schema(each, refs, inside) for n, each in kept.items()}
            elif key in _LISTED and isinstance(value, list):
                done[key] = [self._schema(each, refs, inside) for each in value]
            elif key in _ONE or key in _CONDITIONS:
                done[key] = self._schema(value, refs, inside)
            else:
                done[key] = value
        return _modern(schema, done)

    def _is_read_only(self, schema: Any) -> bool:
        if isinstance(schema, dict) and schema.get("readOnly") is True:
            return True
        target, ref = resolve(self._root, schema)
        return ref is not None and isinstance(target, dict) and target.get("readOnly") is True

    def _is_circular(self, key: str, value: Any, place: str | None) -> bool:
        """Whether a keyword asks of a value what asks the same of it in turn.

        A pet is one of cat and dog, and a cat is a pet and more: the cat is checked as a pet, and
        the pet not as one of cat and dog.
        """
        if place is None or key not in _IN_PLACE or key == "allOf":
            return False
        return any(self._circles.joins(place, ref) for ref in _refs_in_place({key: value}))

    def _in_place(self, ref: str, *, all_: bool) -> list[str]:
        return list(_refs_in_place(_lookup(self._root, ref), all_=all_))


def _refs_in_place(schema: Any, *, all_: bool = True) -> Iterator[str]:
    """Yield what a value is checked by besides a schema: all of it, or what always holds."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict):
            continue
        ref = each.get("$ref", each.get("$dynamicRef"))
        if isinstance(ref, str):
            yield ref
        waiting += _sequence(each.get("allOf"))
        if all_:
            for key in _ALTERNATIVES:
                waiting += _sequence(each.get(key))
            waiting += [each[key] for key in _CONDITIONS if key in each]
            waiting += _mapping(each.get("dependentSchemas")).values()


class _Circles:
    """Which references lie on a circle together (Tarjan 1972, without recursion)."""

    def __init__(self, edges: Callable[[str], list[str]]) -> None:
        self._edges = edges
        self._circle: dict[str, int] = {}
        self._own: set[str] = set()  # with an edge to itself
        self._order: dict[str, int] = {}

    def joins(self, one: str, other: str) -> bool:
        """Whether each of two references leads to the other; for the same one, to itself."""
        if one not in self._order:
            self._search(one)
        if one == other:
            return one in self._own
        return self._circle.get(one) == self._circle.get(other, -1)

    def _search(self, start: str) -> None:
        low: dict[str, int] = {}
        path: list[str] = []
        trail = [(start, iter(self._enter(start, low, path)))]
        while trail:
            node, rest = trail[-1]
            for other in rest:
                if other not in self._order:
                    trail.append((other, iter(self._enter(other, low, path))))
                    break
                if other not in self._circle:
                    low[node] = min(low[node], self._order[other])
            else:
                trail.pop()
                if trail:
                    above = trail[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == self._order[node]:
                    while node not in self._circle:
                        self._circle[path.pop()] = self._order[node]

    def _enter(self, node: str, low: dict[str, int], path: list[str]) -> list[str]:
        self._order[node] = low[node] = len(self._order)
        path.append(node)
        others = self._edges(node)
        if node in others:
            self._own.add(node)
        return others


def _name(ref: str) -> str:
    """Return the name of a definition: that of a schema of the components, or else its path."""
    path = "/".join(part.replace("/", "~1") for part in _tokens(ref))
    return path.removeprefix("components/schemas/") or "document"


def _keywords(schema: Json) -> set[str]:
    return {key for key in schema if not key.startswith("x-")}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _modern(schema: Json, done: Json) -> Json:
    """Turn what only OpenAPI 3.0 says into what JSON Schema says."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(done.get(exclusive), bool) and done.pop(exclusive) and limit in done:
            done[exclusive] = done.pop(limit)
    if "example" in schema and "examples" not in done:
        done["examples"] = [schema["example"]]
    return _nullable(done) if schema.get("nullable") is True else done


def _nullable(done: Json) -> Json:
    kind = done.get("type")
    in_place = {"$ref", "allOf", "not", *_ALTERNATIVES} & done.keys()
    if isinstance(kind, str) and not in_place:
        done["type"] = [kind, "null"]
        if "enum" in done and None not in done["enum"]:
            done["enum"] = [*done["enum"], None]
        return done
    if kind is None and not in_place:
        return done
    notes: Json = {key: done.pop(key) for key in ("title", "description") if key in done}
    return {**notes, "anyOf": [done, {"type": "null"}]}
