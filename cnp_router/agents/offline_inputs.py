"""The offline model's inputs: what is certain of them, and nothing else.

A stand-in for plumbing. It reads what the prompt of `FillInputs` shows; what it is not certain of
it calls missing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from cnp_router.agents.fill_inputs import FillInputs
from cnp_router.agents.meaning import kind_of, meant_by, types_of
from cnp_router.agents.parameters import Parameter, parameters_of
from cnp_router.agents.said import COUNTING, Said, Value
from cnp_router.text.stop_words import STOP_WORDS
from cnp_router.text.tokenise import singular, split_identifier

__all__ = ["certain_inputs"]

Outlines: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]

LEAST_SHARE = 0.5  # of its calls, in which an input came from one place, for that to be believed

_FREE_TEXT = (
    "body content goal input instruction keywords message note prompt q query question request "
    "search task text topic"
)
_FREE = frozenset(_FREE_TEXT.split())
_CARRIES = frozenset({"body", "content", "message", "note", "text"})  # what others have found
_SAME_NAME = 3
_OF_A_FORM = ("url", "email", "date", "datetime", "time", "zone")  # which words do not have
_SHORTEST_NAMED = 3  # a shorter value of an enumeration stands in many a text by chance
_FROM = frozenset({"from", "source", "origin", "start", "since", "departure"})
_TO = frozenset({"to", "target", "destination", "end", "until", "arrival"})


def certain_inputs(task: FillInputs) -> dict[str, Any]:
    """Return the answer of an offline model: the inputs that it is certain of.

    Of each parameter that is not given it takes the first of: what request or job say beside its
    name ("limit: 5"), the one value it may have, a value of its enumeration that is named, the key
    of the same name in a result, a number that stands beside a word of its name ("5 days"), the
    value of another kind that is said (a URL, an e-mail address, a path, a date, a time, a time
    zone), where it came from in most calls before, for what is required the one field of a result
    that means the same (``lat`` is a latitude, an e-mail address is one whatever it is called), its
    default. A single text that is then still required gets what stands in quotation marks or, if it
    is one of free words, the job or the request; one that carries words to others, such as a body
    or a message, gets the results that the job waits for, if there are any. What is offered, and
    nobody said is to be used, gives only what is required and what neither the job says nor those
    results have: the most similar first.

    Examples
    --------
    >>> from cnp_router import Api
    >>> now = Api("time__now", "now", parameters={
    ...     "properties": {"timezone": {"type": "string"}}, "required": ["timezone"]})
    >>> certain_inputs(FillInputs("What time is it in Asia/Tokyo?", "", now))
    {'inputs': {'timezone': 'Asia/Tokyo'}, 'missing': []}
    >>> certain_inputs(FillInputs("What time is it?", "", now))
    {'inputs': {}, 'missing': ['timezone']}
    """
    return _Certain(task).answer()


class _Certain:
    def __init__(self, task: FillInputs) -> None:
        self.task = task
        self.said = (Said(task.job or task.request), Said(task.request))
        known = parameters_of(task.api)
        self.names = {parameter.name for parameter in known}
        self.open = [parameter for parameter in known if parameter.name not in task.given]
        self.inputs: dict[str, Any] = {}

    def answer(self) -> dict[str, Any]:
        for find in (self.named, self.only_one, self.listed, self.same_key):
            self.fill(find)
        self.of_kinds()
        self.fill(self.hinted)
        self.same_meaning(self.task.results)
        self.quoted(self.said[:1])
        for name, entries in self.task.context.items():  # the most similar first
            self.same_meaning({name: entries}, first=_SAME_NAME)
        self.quoted(self.said)
        self.free_text()
        self.fill(self.default)
        missing = [parameter.name for parameter in self.open if parameter.is_required]
        return {"inputs": self.inputs, "missing": missing}

    def fill(self, find: Callable[[Parameter], Iterator[Any]]) -> None:
        """Fill each open parameter by the one value that is found; of several none is certain."""
        for parameter in list(self.open):
            if len(found := list(find(parameter))) == 1:
                self.take(parameter, found[0])

    def take(self, parameter: Parameter, value: Any) -> None:
        self.inputs[parameter.name] = value
        self.open.remove(parameter)

    def named(self, parameter: Parameter) -> Iterator[Any]:
        words = _spaced(parameter.name)
        others = {form for name in self.names - {parameter.name} for form in (name, _spaced(name))}
        prose = bool(_FREE.intersection(words.split()[-1:]))
        for said in self.said:
            texts = said.beside(parameter.name, others, prose=prose)
            texts = texts or said.beside(words, others, prose=prose)
            values = [v for v in (_typed(text, parameter.schema) for text in texts) if v != ()]
            if values:
                yield from values
                return

    def only_one(self, parameter: Parameter) -> Iterator[Any]:
        if parameter.is_required:
            listed = _enumeration(parameter.schema)
            yield from listed if len(listed) == 1 else ()

    def listed(self, parameter: Parameter) -> Iterator[Any]:
        listed = (value for value in _enumeration(parameter.schema) if isinstance(value, str))
        texts = [v for v in listed if len(v) >= _SHORTEST_NAMED and v.lower() not in STOP_WORDS]
        for said in self.said:
            if named := [value for value in texts if said.has(value)]:
                yield from named
                return

    def same_key(self, parameter: Parameter) -> Iterator[Any]:
        for job, path in self.meant(parameter, self.task.results, _SAME_NAME):
            yield {"$from": job, "path": path}

    def meant(self, parameter: Parameter, results: Outlines, least: int) -> list[tuple[str, str]]:
        """Return the fields of results that a parameter means.

        An amount is none of theirs where the request says a number: it may be this one.
        """
        if "number" in types_of(parameter.schema) and any(said.of("number") for said in self.said):
            return []
        return [
            (name, entry["path"])
            for name, entries in results.items()
            for entry in entries
            if meant_by(parameter, entry) >= least
        ]

    def hinted(self, parameter: Parameter) -> Iterator[Any]:
        for hint in self.task.hints:
            is_certain = hint.count >= LEAST_SHARE * hint.of and hint.source == "result"
            if hint.input == parameter.name and is_certain and hint.path is not None:
                yield {"$from": hint.job, "path": hint.path}
                return  # the most frequent one comes first

    def same_meaning(self, results: Outlines, first: int = 2) -> None:
        """Fill what is required by fields, where one field and one parameter mean each other."""
        for least in range(first, 0, -1):
            found: dict[tuple[str, str], list[Parameter]] = {}
            for parameter in (each for each in self.open if each.is_required):
                places = self.meant(parameter, results, least)
                if len(places) == 1:
                    found.setdefault(places[0], []).append(parameter)
            for (job, path), parameters in found.items():
                if len(parameters) == 1:
                    self.take(parameters[0], {"$from": job, "path": path})

    def default(self, parameter: Parameter) -> Iterator[Any]:
        if parameter.is_required and "default" in parameter.schema:
            yield parameter.schema["default"]

    def of_kinds(self) -> None:
        kinds: dict[str, list[Parameter]] = {}
        for parameter in self.open:
            if (kind := kind_of(parameter)) is not None:
                kinds.setdefault(kind, []).append(parameter)
        self.numbers(kinds.pop("number", []))
        for kind, parameters in kinds.items():
            required = [parameter for parameter in parameters if parameter.is_required]
            wanted = required or parameters
            for parameter in wanted:
                found = self.of_kind(kind, parameter, alone=len(wanted) == 1)
                if found and types_of(parameter.schema) == {"array"}:
                    self.take(parameter, [value.value for value in found])
                elif len(found) == 1:
                    self.take(parameter, found[0].value)

    def numbers(self, parameters: Sequence[Parameter]) -> None:
        """Fill numbers by those that are said beside the name: a lone one may be of anything."""
        found = {each.name: self.of_kind("number", each, alone=False) for each in parameters}
        claims = Counter(value for values in found.values() for value in values)
        for parameter in parameters:
            values = found[parameter.name]
            if len(values) == 1 and claims[values[0]] == 1:
                self.take(parameter, values[0].value)

    def of_kind(self, kind: str, parameter: Parameter, *, alone: bool) -> list[Value]:
        """Return what is said of a kind, and could be meant by a parameter."""
        whole = "integer" in types_of(parameter.schema)
        words = _words(parameter.name)
        ways = [way for way in (_FROM, _TO) if words & way]
        names = {singular(word) for word in words}
        if words <= COUNTING:  # delete_entry(number): "entry 5"
            names |= {singular(word) for word in _words(self.task.api.name)}
        for said in self.said:
            values = [v for v in said.of(kind) if not whole or isinstance(v.value, int)]
            if values:
                placed = [value for value in values if ways and value.before in ways[0]]
                placed = placed or [value for value in values if names.intersection(value.of)]
                return placed or (values if alone else [])
        return []

    def only_text(self) -> Parameter | None:
        """Return the required text that is still open, if it is the only one."""
        texts = [p for p in self.open if p.is_required and types_of(p.schema) <= {"string"}]
        texts = [p for p in texts if "default" not in p.schema and not _enumeration(p.schema)]
        texts = [p for p in texts if kind_of(p) not in _OF_A_FORM]
        return texts[0] if len(texts) == 1 else None

    def quoted(self, said: Sequence[Said]) -> None:
        """Fill the only text by what is said in quotation marks."""
        parameter = self.only_text()
        quoted = next((values for each in said if (values := each.of("quoted"))), [])
        used = [each for value in self.inputs.values() for each in _each(value)]
        free = [each.value for each in quoted if each.value not in used]  # one says one thing
        if parameter is not None and len(quoted) == 1 and free:
            self.take(parameter, free[0])

    def free_text(self) -> None:
        parameter = self.only_text()
        if parameter is None or any(said.of("quoted") for said in self.said):
            return
        words = split_identifier(parameter.name).lower().split()
        if kind_of(parameter) is None and words and words[-1] in _FREE:
            results = [job for job in self.task.results if not re.search("[{}#]", job)]
            if results and words[-1] in _CARRIES:
                self.take(parameter, {"$text": "\n".join(f"{{{job}#}}" for job in results)})
            else:
                self.take(parameter, self.task.job or self.task.request)


def _spaced(name: str) -> str:
    return split_identifier(name).replace("-", " ").lower()


def _words(name: str) -> frozenset[str]:
    return frozenset(_spaced(name).split())


def _each(value: Any) -> list[Any]:
    """Return the items of a list, or the value itself."""
    return value if isinstance(value, list) else [value]


def _enumeration(schema: Mapping[str, Any]) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return list(listed) if isinstance(listed, list | tuple) else []


def _typed(text: str, schema: Mapping[str, Any]) -> Any:
    """Return a text as a value of one of the types of a schema; () where it is none."""
    types = types_of(schema)
    if not types or "string" in types:
        return text
    try:
        value = json.loads(text.removesuffix("."))  # of the sentence
    except ValueError:
        return ()
    kinds = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    kind = kinds.get(type(value))
    return value if kind in types or (kind == "integer" and "number" in types) else ()
