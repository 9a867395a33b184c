"""Tools and agents of a framework as contractors: what all frameworks have in common."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cnp_router.catalog import Api, Effects
from cnp_router.exceptions import InputError
from cnp_router.records import check_number, positions, shown
from cnp_router.sources import FunctionSource
from cnp_router.sources.function_tool import FunctionTool
from cnp_router.sources.input_check import input_check
from cnp_router.sources.result_size import MAX_BYTES
from cnp_router.sources.source import SEPARATOR, check_source_name
from cnp_router.subagents import Question

__all__ = ["ForeignTools", "Invoke", "told"]

Invoke = Callable[..., Any]


class _ForeignTool(FunctionTool):
    """A tool whose inputs are checked by its JSON Schema, and given to one function as they are."""

    def arguments(self, inputs: Mapping[str, Any], key: str) -> tuple[Any, Any]:
        """Return a copy of the inputs, checked, and the key where it is taken."""
        self.validator(inputs)
        given = json.loads(json.dumps(dict(inputs)))
        return (given, key) if self.takes_key else (given,), {}


class ForeignTools(FunctionSource):
    """Tools of a framework as a source; each framework has a class of its own that makes them.

    What a tool raises is a failure that says it, and its time is that of the call; a call that is
    given up is cancelled. See `FunctionSource`.

    Parameters
    ----------
    name : str
        As that of a `Source`.
    tools : iterable of (Api, callable)
        Each by its own name as id, and a function of its inputs; a plain one runs in a thread.
    effects : mapping of str to {"reads", "writes", "unknown"}, optional
        By tool; what its `Api` says where nothing is said.
    max_concurrency : int >= 1, default=8
    max_bytes : int >= 1, default=1,000,000
        Of a result; what is larger is cut.

    Raises
    ------
    InputError
        If two tools have the same name, a schema cannot be used, or `effects` names another tool.
    """

    takes_key = False
    """Whether those functions take `Call.key` too."""

    def __init__(
        self,
        name: str,
        tools: Iterable[tuple[Api, Invoke]],
        *,
        effects: Mapping[str, Effects] | None = None,
        max_concurrency: int = 8,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.name = check_source_name(name)
        self.max_concurrency = check_number("max_concurrency", max_concurrency, 1, whole=True)
        self.max_bytes = check_number("max_bytes", max_bytes, 1, whole=True)
        self._effects = dict(effects or {})
        self._hold(tools)

    def _hold(self, tools: Iterable[tuple[Api, Invoke]]) -> None:
        """Have these tools from now on."""
        given, known = list(tools), dict(self._effects)
        positions("tool", (api.id for api, _ in given))
        held: dict[str, FunctionTool] = {}
        for api, invoke in given:
            tool = Api(
                f"{self.name}{SEPARATOR}{api.id}",
                api.name,
                api.description,
                parameters=api.parameters,
                effects=known.pop(api.id, api.effects),
            )
            check = input_check(api.parameters)
            is_async = inspect.iscoroutinefunction(invoke)
            held[tool.id] = _ForeignTool(tool, invoke, is_async, self.takes_key, check)
        if known:
            raise InputError(f"effects of {shown(next(iter(known)))}, which is no tool here")
        self._tools = held


def told(question: Question) -> str:
    """Return what an agent is told: the text, with the arguments behind it."""
    said = [f"{name}: {value}" for name, value in question.arguments.items()]
    return "\n".join([question.text, *said])
