"""References to results in the inputs of a job, and the data that they stand for.

A result is text by others. It never enters a prompt: a model that fills inputs sees an outline
(`cnp_router.execution.outlines`) and answers with references, which `resolve` replaces by data
after the model has answered (the pattern of dual language models; Debenedetti et al., "Defeating
Prompt Injections by Design", 2025).

::

    {"$from": "weather", "path": "/days/0/rain"}      that part of the result of job weather
    {"$text": "It rains: {weather#/forecast}"}        a text with parts of results in it

A path is a JSON Pointer (RFC 6901), in which ``#2`` is the second key of an object, whatever it is
called. An object that happens to have one of the two keys is written with one more dollar sign,
``$$from`` or ``$$text``; a text that happens to look like a part of a result is put into one more
pair of braces, ``{{weather#/forecast}}``.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from cnp_router.exceptions import InputError
from cnp_router.records import shown

__all__ = ["MOST_CHARACTERS", "is_reference", "references_in", "resolve"]

MOST_CHARACTERS = 1_000_000
"""Of all that references stand for in the inputs of one job, as JSON."""

_DEEPEST_INPUTS = 50
_PLACED = re.compile(r"#([1-9][0-9]{0,5})")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_PART = r"[^{}#]+#(?:/[^{}]*)?"
_IN_TEXT = re.compile(rf"\{{(\{{{_PART}\}})\}}|\{{({_PART})\}}")
_ESCAPED = re.compile(r"\$\$+(?:from|text)")


class _Reference(NamedTuple):
    job: str
    path: str
    where: str  # it stands in the inputs

    @classmethod
    def in_text(cls, part: str, where: str) -> _Reference:
        job, _, path = part.partition("#")
        return cls(job, path, where)


def is_reference(value: object) -> bool:
    """Return whether a value is meant as a reference, well-formed or not."""
    return isinstance(value, Mapping) and ("$from" in value or "$text" in value)


def references_in(inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the jobs whose results are referred to, each once, in order.

    Raises
    ------
    InputError
        If a reference is not well-formed.

    Examples
    --------
    >>> references_in({"to": "Bob", "body": {"$text": "{weather#/rain} in {place#}"},
    ...                "at": [{"$from": "place", "path": "/id"}]})
    ('weather', 'place')
    """
    return tuple(dict.fromkeys(part.job for part in _references(inputs)))


def resolve(inputs: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs with data in the place of references.

    What a reference stands for is not read for references again. Its type stays as it is; within
    a text, a number is written as JSON writes it, and so are true, false, objects and lists.

    Parameters
    ----------
    inputs : mapping of str to JSON value
    results : mapping of str to JSON value
        The data of each job that may be referred to, by its id.

    Returns
    -------
    dict of str to JSON value

    Raises
    ------
    InputError
        If a reference is not well-formed, names another job or a path that the result does not
        have, or if all of them together are more than 1,000,000 characters. Messages quote the
        reference, and nothing of a result.

    Examples
    --------
    >>> results = {"weather": {"days": [{"rain": 0.4, "sky": "{place#}"}]}}
    >>> resolve({"chance": {"$from": "weather", "path": "/days/0/rain"},
    ...          "body": {"$text": "{weather#/days/0/sky}, {weather#/days/0/rain}"}}, results)
    {'chance': 0.4, 'body': '{place#}, 0.4'}
    >>> resolve({"filter": {"$$from": "here"}}, {})
    {'filter': {'$from': 'here'}}
    """
    return _Resolving(results).everything(inputs)


def _references(value: Any) -> Iterator[_Reference]:
    """Yield each reference in a value. Those that are not well-formed are an InputError."""
    waiting: deque[tuple[Any, str, int]] = deque([(value, "inputs", 0)])
    while waiting:
        inner, where, depth = waiting.popleft()
        if is_reference(inner) and depth:
            yield from _named_by(inner, where)
        else:
            waiting.extend((part, place, depth + 1) for _, part, place in _parts(inner, where))


def _parts(value: Any, where: str) -> Iterator[tuple[Any, Any, str]]:
    """Yield key or index, value and place of each part of an object or a list."""
    if isinstance(value, Mapping):
        yield from ((key, inner, f"{where}.{key}") for key, inner in value.items())
    elif isinstance(value, list | tuple):
        yield from ((n, inner, f"{where}[{n}]") for n, inner in enumerate(value))


def _named_by(value: Mapping[str, Any], where: str) -> Iterator[_Reference]:
    """Yield what a reference or a text with parts of results names."""
    form = '{"$from": "<job>", "path": "/…"} or {"$text": "… {<job>#/…} …"}'
    cure = f"write {form}, and a key that is meant literally as $$from or $$text"
    name, path, text = value.get("$from"), value.get("path", ""), value.get("$text")
    if value.keys() <= {"$from", "path"} and isinstance(name, str) and isinstance(path, str):
        yield _Reference(name, path, where)
    elif value.keys() == {"$text"} and isinstance(text, str):
        for match in _IN_TEXT.finditer(text):
            if match[2]:
                yield _Reference.in_text(match[2], where)
    else:
        raise InputError(f"{_at(where)} is not a reference: {shown(dict(value))} ({cure})")


class _Resolving:
    def __init__(self, results: Mapping[str, Any]) -> None:
        self.results = results
        self.room = MOST_CHARACTERS

    def everything(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {
            self.key(key): self.value(inner, where, 1)
            for key, inner, where in _parts(inputs, "inputs")
        }

    def value(self, value: Any, where: str, depth: int) -> Any:
        if depth > _DEEPEST_INPUTS:
            raise InputError(f"{_at(where)} is nested deeper than {_DEEPEST_INPUTS} levels")
        if is_reference(value):
            named = list(_named_by(value, where))
            if "$text" not in value:
                return self.data(named[0])
            return _IN_TEXT.sub(lambda match: self.text(match, where), value["$text"])
        parts = [(self.key(k), self.value(v, w, depth + 1)) for k, v, w in _parts(value, where)]
        if isinstance(value, Mapping):
            return dict(parts)
        return [inner for _, inner in parts] if isinstance(value, list | tuple) else value

    def key(self, key: Any) -> Any:
        return key[1:] if isinstance(key, str) and _ESCAPED.fullmatch(key) else key

    def text(self, match: re.Match[str], where: str) -> str:
        if match[1]:
            return match[1]
        found = self.data(_Reference.in_text(match[2], where))
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)

    def data(self, part: _Reference) -> Any:
        if part.job not in self.results:
            known = ", ".join(map(repr, self.results)) or "none"
            raise InputError(
                f"{_at(part.where)} refers to job {shown(part.job)}, which it does not wait for "
                f"(it waits for: {known}; name the job in 'after')"
            )
        found = self.results[part.job]
        for token in _tokens(part):
            try:
                found = _follow(found, token)
            except (LookupError, TypeError):
                raise InputError(
                    f"{_at(part.where)} refers to {shown(part.path)} of job {shown(part.job)}, and "
                    "its result has no such place (use a path of its outline)"
                ) from None
        written = _json(found, part)
        self.room -= len(written)
        if self.room < 0:
            raise InputError(
                f"{_at(part.where)} refers to {shown(part.path)} of job {shown(part.job)}, and "
                f"with it the inputs have more than {MOST_CHARACTERS:,} characters of results "
                "(refer to a part of it)"
            )
        return json.loads(written)  # a copy: whoever is called may change it


def _tokens(part: _Reference) -> list[str]:
    """Return the tokens of a path, as RFC 6901 reads it."""
    path = part.path
    if (path and not path.startswith("/")) or re.search("~(?![01])", path):
        raise InputError(
            f"{_at(part.where)} refers to {shown(path)} of job {shown(part.job)}, which is not a "
            "JSON Pointer (begin it with '/', write '~' as '~0' and '/' in a key as '~1')"
        )
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _follow(value: Any, token: str) -> Any:
    """Return a part of an object or a list; LookupError or TypeError if it is not there."""
    if isinstance(value, Mapping):
        placed = _PLACED.fullmatch(token)
        return value[list(value)[int(placed[1]) - 1] if placed else token]
    if isinstance(value, list | tuple) and _INDEX.fullmatch(token):
        return value[int(token)]
    raise LookupError(token)


def _json(value: Any, part: _Reference) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InputError(
            f"{_at(part.where)} refers to {shown(part.path)} of job {shown(part.job)}, and what is "
            "there is not JSON, or nested too deeply"
        ) from None


def _at(where: str) -> str:
    return where if len(where) <= 80 else f"{where[:77]}..."
