"""Building one HTTP request from the inputs of an operation."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from cnp_router.exceptions import InputError, shown
from cnp_router.sources.openapi_inputs import Body, Parameter
from cnp_router.sources.openapi_operations import Operation
from cnp_router.sources.openapi_security import Signature, header_problem

__all__ = ["HttpRequest", "build_request", "written"]

_ACCEPT = "application/json, */*;q=0.5"
_CHARACTERS = {"spaceDelimited": " ", "pipeDelimited": "|"}  # which nothing tells from a value's
_FORM_CHARACTERS = {"form": ",", **_CHARACTERS}  # a form is unescaped before it is parted

Pairs = list[tuple[str, str]]


@dataclass(frozen=True, repr=False)
class HttpRequest:
    """One request, as it goes out: `target` is path and query, escaped."""

    method: str
    server: str
    target: str
    headers: tuple[tuple[str, str], ...]
    content: bytes | None = None

    def __repr__(self) -> str:
        return f"HttpRequest({self.method!r}, {self.server!r})"


def build_request(
    operation: Operation,
    inputs: Mapping[str, Any],
    *,
    key: str = "",
    signature: Signature | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpRequest:
    """Return the request of an operation.

    An input that is null, or an empty list or object outside of a body, is not sent. What is text
    in it cannot change path, host or headers: it is escaped, or refused where that is impossible.

    Parameters
    ----------
    operation : Operation
    inputs : mapping of str to JSON value
        That fit the operation's schema.
    key : str, default=""
        Sent as idempotency key where the operation takes one.
    signature : Signature or None, default=None
    headers : mapping of str to str, optional
        Sent along.

    Raises
    ------
    InputError
        If a value is missing or cannot be sent.
    """
    signature = signature or Signature()
    fixed = list((headers or {}).items())
    parameters, body = operation.inputs.parameters, operation.inputs.body
    _check_names(parameters, body, inputs)
    given: dict[str, list[tuple[Parameter, Any]]] = {place: [] for place in _PLACES}
    for each in parameters:
        value = inputs.get(each.input)
        if value is not None and value not in ([], {}):
            given[each.place].append((each, value))
        elif each.is_required and (value is None or each.place == "path"):
            raise InputError(f"the input {each.input!r} is missing or empty")
    path = _path(operation.path, given["path"])
    names = {each.name for each in parameters} | {name for name, _ in signature.query}
    query = [pair for each, value in given["query"] for pair in _query(each, value, names)]
    query += [(quote(name, safe=""), quote(value, safe="")) for name, value in signature.query]
    cookies = [pair for each, value in given["cookie"] for pair in _query(each, value, set())]
    cookies += list(signature.cookies)
    sent: Pairs = [("Accept", _ACCEPT)]
    sent += [(each.name, _simple(each, value)) for each, value in given["header"]]
    if operation.inputs.key_header is not None and key:
        sent.append((operation.inputs.key_header, key))
    if cookies:
        sent.append(("Cookie", "; ".join(f"{name}={value}" for name, value in cookies)))
    content = None
    if body is not None:
        media_type, content = _content(body, inputs)
        sent += [] if content is None else [("Content-Type", media_type)]
    sent = _without(sent, fixed) + fixed
    sent = _without(sent, signature.headers) + list(signature.headers)
    for name, value in sent:
        if problem := header_problem(value):
            raise InputError(f"the value for the header {name!r} {problem}")
    server = urlsplit(operation.server)
    target = f"{server.path}{path}"
    if query:
        target += "?" + "&".join(f"{name}={value}" for name, value in query)
    return HttpRequest(operation.method, operation.server, target, tuple(sent), content)


_PLACES = ("path", "query", "header", "cookie")


def _check_names(
    parameters: Iterable[Parameter], body: Body | None, inputs: Mapping[str, Any]
) -> None:
    names = {each.input for each in parameters}
    if body is not None:
        names |= {body.key} if body.key is not None else set(body.names)
    for name in inputs:
        if name not in names:
            raise InputError(f"it takes no input {shown(name)} (it takes {shown(sorted(names))})")


def _without(headers: Pairs, others: Iterable[tuple[str, str]]) -> Pairs:
    """Return the headers that are not among others."""
    taken = {name.lower() for name, _ in others}
    return [(name, value) for name, value in headers if name.lower() not in taken]


def written(value: Any) -> str:
    """Return a value as text: what is no string as JSON, a whole number without its point."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _quoted(value: Any) -> str:
    return quote(written(value), safe="")


def _flat(value: Any, explode: bool) -> list[str]:
    """Return the parts of a list or an object, escaped; ``name=value`` where it explodes."""
    if isinstance(value, dict):
        pairs = [(_quoted(name), _quoted(each)) for name, each in value.items()]
        return [f"{n}={v}" for n, v in pairs] if explode else [part for p in pairs for part in p]
    return [_quoted(each) for each in value]


def _path(template: str, given: Iterable[tuple[Parameter, Any]]) -> str:
    values = {each.name: _in_path(each, value) for each, value in given}

    segments = []
    for segment in template.split("/"):
        parts = re.split(r"\{([^{}]*)\}", segment)  # what is between, and every other one a name
        parts[::2] = [quote(part, safe="%:@!$&'()*+,;=~") for part in parts[::2]]
        parts[1::2] = [values[name] for name in parts[1::2]]
        done = "".join(parts)
        if len(parts) > 1 and unquote(done) in ("", ".", ".."):
            # Servers take these away with what stands before them, escaped or not.
            raise InputError(f"{shown(unquote(done))} cannot be a part of the path {template}")
        segments.append(done)
    return "/".join(segments)


def _in_path(parameter: Parameter, value: Any) -> str:
    name, explode = _quoted(parameter.name), parameter.explode
    if parameter.is_json or not isinstance(value, list | dict):
        text = quote(_json(value), safe="") if parameter.is_json else _quoted(value)
        prefix = {"simple": "", "label": ".", "matrix": f";{name}="}[parameter.style]
        return prefix + text
    parts = _flat(value, explode)
    if parameter.style == "simple":
        return ",".join(parts)
    if parameter.style == "label":
        return "." + (".".join(parts) if explode else ",".join(parts))
    if not explode:
        return f";{name}={','.join(parts)}"
    return "".join(f";{part}" if isinstance(value, dict) else f";{name}={part}" for part in parts)


def _simple(parameter: Parameter, value: Any) -> str:
    """Return the value of a header, which nothing escapes."""
    if parameter.is_json:
        return json.dumps(value)
    if isinstance(value, dict):
        pairs = [(written(name), written(each)) for name, each in value.items()]
        mark = "=" if parameter.explode else ","
        return ",".join(f"{name}{mark}{each}" for name, each in pairs)
    return ",".join(written(each) for each in value) if isinstance(value, list) else written(value)


def _query(parameter: Parameter, value: Any, names: set[str]) -> Pairs:
    if parameter.is_json:
        return [(quote(parameter.name, safe=""), quote(_json(value), safe=""))]
    if parameter.style == "form" and parameter.explode and isinstance(value, dict):
        for name in value:
            if name in names:
                raise InputError(f"{name!r} in the input {parameter.input!r} is another parameter")
    return _styled(parameter.name, value, parameter.style, parameter.explode)


def _styled(
    name: str, value: Any, style: str, explode: bool, marks: Mapping[str, str] = _CHARACTERS
) -> Pairs:
    """Return a value as pairs of a query, escaped. The `marks` between values are escaped too."""
    if style == "deepObject":
        return _deep(quote(name, safe=""), value)
    called = quote(name, safe="")
    if not isinstance(value, list | dict):
        return [(called, _quoted(value))]
    if explode and isinstance(value, dict):
        return [(quote(key, safe=""), _quoted(each)) for key, each in value.items()]
    if explode:
        return [(called, _quoted(each)) for each in value]
    mark = marks.get(style)
    if mark is not None and any(mark in written(each) for each in _values(value)):
        raise InputError(f"the values of {name!r} are parted by {mark!r} and cannot contain it")
    return [(called, ("," if mark is None else quote(mark)).join(_flat(value, explode=False)))]


def _values(value: Any) -> list[Any]:
    return [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)


def _deep(name: str, value: Any) -> Pairs:
    """Return ``name[key]=value`` for each value inside; elements of lists are counted from 0."""
    if isinstance(value, dict):
        if any("[" in key or "]" in key for key in value):
            raise InputError(f"a key in {unquote(name)!r} cannot contain '[' or ']'")
        inside = [(quote(key, safe=""), each) for key, each in value.items()]
    elif isinstance(value, list):
        inside = [(str(place), each) for place, each in enumerate(value)]
    else:
        return [] if value is None else [(name, _quoted(value))]
    return [pair for key, each in inside for pair in _deep(f"{name}%5B{key}%5D", each)]


def _content(body: Body, inputs: Mapping[str, Any]) -> tuple[str, bytes | None]:
    """Return media type and bytes of a body; None where there is none."""
    if body.key is not None:
        if body.key not in inputs:
            if body.is_required:
                raise InputError(f"the input {body.key!r} is missing")
            return "", None
        value = inputs[body.key]
    else:
        value = {name: inputs[name] for name in body.names if name in inputs}
        if not value and not body.is_required:
            return "", None
    if body.kind == "json":
        return body.media_type, _json(value).encode()
    if body.kind == "text":
        return body.media_type, written(value).encode()
    if not isinstance(value, dict):
        raise InputError(f"the input {body.key!r} must be an object, got {shown(value)}")
    if body.kind == "form":
        pairs = [pair for name, each in value.items() for pair in _form(body, name, each)]
        return body.media_type, "&".join(f"{name}={each}" for name, each in pairs).encode()
    return _multipart(body, value)


def _encoding(body: Body, name: str) -> Mapping[str, Any]:
    found = body.encoding.get(name)
    return found if isinstance(found, dict) else {}


def _form(body: Body, name: str, value: Any) -> Pairs:
    """Return a property of a form.

    By the specification: objects are JSON unless the document says another style.
    """
    encoding = _encoding(body, name)
    style, explode = encoding.get("style"), encoding.get("explode")
    if value is None:
        return []
    if style is None and explode is None:
        if isinstance(value, list) and "contentType" not in encoding:
            return [(quote(name, safe=""), _quoted(each)) for each in value]
        return [(quote(name, safe=""), _quoted(value))]
    style = style or "form"
    if style not in ("deepObject", *_FORM_CHARACTERS):
        raise InputError(f"the property {name!r} has the style {shown(style)}")
    explode = style == "form" if explode is None else bool(explode)
    return _styled(name, value, style, explode, _FORM_CHARACTERS)


def _multipart(body: Body, value: Mapping[str, Any]) -> tuple[str, bytes]:
    boundary = secrets.token_hex(16)
    lines = []
    for name, whole in value.items():
        kind = str(_encoding(body, name).get("contentType") or "").partition(",")[0].strip()
        for each in whole if isinstance(whole, list) and not kind else [whole]:
            if each is None:
                continue
            part = kind or ("application/json" if isinstance(each, list | dict) else "")
            called = name.translate({34: "%22", 13: "%0D", 10: "%0A"})
            lines += [f"--{boundary}", f'Content-Disposition: form-data; name="{called}"']
            lines += [f"Content-Type: {part}"] if part else []
            lines += ["", _json(each) if part.endswith("json") else written(each)]
    text = "\r\n".join([*lines, f"--{boundary}--", ""])
    return f"multipart/form-data; boundary={boundary}", text.encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
