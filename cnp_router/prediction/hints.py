"""`ParameterHints`: where the inputs of a tool usually come from, learned from equal values."""

from __future__ import annotations

import json
import math
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, TypeAlias

from cnp_router.prediction.predictor import as_steps
from cnp_router.records import check_number
from cnp_router.trajectories import Step

__all__ = ["Hint", "ParameterHints"]

Scalar: TypeAlias = str | int | float
Origin = Literal["inputs", "observation"]

_LOOK_BACK = 20
# Of a step's inputs or observation: so many values, so deep, in a text of so many characters.
_MOST_VALUES = 100
_DEEPEST = 6
_LONGEST = 10_000
# A text that is shorter is found in too many observations.
_SHORTEST_FOUND = 3
_SLOTS = 32
# A place where a value may come from: tool, inputs or observation, and where in them.
_Slot: TypeAlias = tuple[str, Origin, str | None]


@dataclass(frozen=True, slots=True)
class Hint:
    """A place an input of a tool was filled from before, as it is in the steps at hand.

    Parameters
    ----------
    input : str
        Name of the input; ``a.b`` and ``a[0]`` lie inside an object or a list.
    place, tool : int >= 0, str
        Which step of the prefix the value comes from, and that step's tool.
    source : {"inputs", "observation"}
    key : str or None
        Where in them, spelled as `input`. None: somewhere in an observation that is plain text.
    value : str, int, float or None
        The value that is there now; None where `key` is, and where that step is a bare tool id.
    count, of : int >= 1
        How often the input had the value of that place, and how often it was given at all.
    """

    input: str
    place: int
    tool: str
    source: Origin
    key: str | None
    value: Scalar | None
    count: int
    of: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)


@dataclass(slots=True)
class _Use:
    """How often an input was given, and how often each place had its value."""

    given: int = 0
    slots: dict[_Slot, int] = field(default_factory=dict)


class ParameterHints:
    """Learns which inputs of a tool were filled from which earlier step.

    Of each tool, its latest call among the last 20 steps is looked at. An input counts as filled
    from a place if its value is equal to a text or number in that call's inputs, or in its
    observation if that is JSON. A text of three or more characters counts too if it stands, whole
    words only, in an observation that is plain text.

    Parameters
    ----------
    size : int >= 1, default=10000
        The most tools remembered; the one not used for longest is forgotten. Of each tool, at
        most 100 inputs are, and of each input 32 places.

    Raises
    ------
    InputError
        If `size` is out of range.

    Examples
    --------
    >>> hints = ParameterHints()
    >>> for city in ("Kyoto", "Nara"):
    ...     hints.observe_step([Step("find", {"name": city}, '{"id": "%s-1"}' % city)],
    ...                        Step("weather", {"place": city + "-1"}))
    >>> for hint in hints.hints("weather", [Step("find", {"name": "Oslo"}, '{"id": "Oslo-9"}')]):
    ...     print(hint.input, hint.tool, hint.source, hint.key, hint.value, hint.count, hint.of)
    place find observation id Oslo-9 2 2
    """

    def __init__(self, *, size: int = 10_000) -> None:
        self.size = check_number("size", size, 1, whole=True)
        self._tools: OrderedDict[str, dict[str, _Use]] = OrderedDict()

    def observe_step(self, prefix: Sequence[Step | str], step: Step) -> None:
        """Learn where the inputs of `step`, which followed `prefix`, came from."""
        inputs = _values(step.inputs)
        if not inputs:
            return
        latest = {earlier.tool: earlier for earlier in as_steps(prefix[-_LOOK_BACK:])}.values()
        where: dict[Scalar, list[_Slot]] = {}
        for slot, there in (place for earlier in latest for place in _places(earlier)):
            where.setdefault(there, []).append(slot)
        texts = [earlier for earlier in latest if _fields(earlier.observation) is None]
        uses = self._tools.pop(step.tool, {})
        for name, value in inputs.items():
            use = uses.setdefault(name, _Use())
            use.given += 1
            for slot in where.get(value, []) + _found_in(texts, value):
                if slot not in use.slots and len(use.slots) >= _SLOTS:
                    del use.slots[min(use.slots, key=use.slots.__getitem__)]
                use.slots[slot] = use.slots.get(slot, 0) + 1
        if len(uses) > _MOST_VALUES:
            often = sorted(uses, key=lambda name: -uses[name].given)[:_MOST_VALUES]
            uses = {name: uses[name] for name in often}
        self._tools[step.tool] = uses  # at the end: the tools are in order of last use
        if len(self._tools) > self.size:
            self._tools.popitem(last=False)

    def hints(
        self, tool: str, prefix: Sequence[Step | str], *, inputs: Sequence[str] | None = None
    ) -> tuple[Hint, ...]:
        """Return where the inputs of `tool`, or only some of them, may be filled from.

        By input, each input's most frequent place first. The tool need not be known.
        """
        steps, uses = as_steps(prefix), self._tools.get(tool, {})
        first = max(len(steps) - _LOOK_BACK, 0)
        place_of = {step.tool: first + n for n, step in enumerate(steps[first:])}
        values: dict[_Slot, Scalar | None] = {}
        bare = set()
        for step in (steps[place] for place in place_of.values()):
            values.update(_places(step))
            if not (step.inputs or step.observation):
                bare.add(step.tool)
            elif _fields(step.observation) is None:
                values[step.tool, "observation", None] = None
        found = [
            Hint(name, place_of[slot[0]], *slot, values.get(slot), n, use.given)
            for name, use in uses.items()
            if inputs is None or name in inputs
            for slot, n in use.slots.items()
            if slot in values or slot[0] in bare
        ]
        return tuple(
            sorted(found, key=lambda h: (h.input, -h.count, -h.place, h.source, h.key or ""))
        )

    def state(self) -> dict[str, Any]:
        """Return all it has learned, as JSON values."""
        return {
            "uses": [
                [tool, name, use.given, [[*slot, n] for slot, n in use.slots.items()]]
                for tool, uses in self._tools.items()
                for name, use in uses.items()
            ]
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`; `size` stays.

        KeyError, TypeError or ValueError if it is something else. Nothing is changed then.
        """
        tools: OrderedDict[str, dict[str, _Use]] = OrderedDict()
        for tool, name, given, slots in state["uses"]:
            use = tools.setdefault(str(tool), {})[str(name)] = _Use(int(given))
            for source, origin, key, n in slots:
                if origin not in ("inputs", "observation") or not 1 <= n <= given:
                    raise ValueError(f"no place of an input: {[source, origin, key, n]!r}")
                use.slots[str(source), origin, None if key is None else str(key)] = int(n)
        while len(tools) > self.size:
            tools.popitem(last=False)
        self._tools = tools

    def __repr__(self) -> str:
        return f"ParameterHints({len(self._tools):,} tools)"


def _places(step: Step) -> Iterator[tuple[_Slot, Scalar]]:
    """Yield each place in a step that holds a value, and the value."""
    for key, value in _values(step.inputs).items():
        yield (step.tool, "inputs", key), value
    for key, value in (_fields(step.observation) or {}).items():
        yield (step.tool, "observation", key), value


def _found_in(steps: Sequence[Step], value: Scalar) -> list[_Slot]:
    """Return the observations, of those that are plain text, in which a text stands as a whole."""
    if not isinstance(value, str) or len(value) < _SHORTEST_FOUND:
        return []
    texts = ((step.tool, step.observation[:_LONGEST]) for step in steps)
    inside = [(tool, text) for tool, text in texts if value in text]
    whole = rf"(?<![^\W_]){re.escape(value)}(?![^\W_])" if inside else ""
    return [(tool, "observation", None) for tool, text in inside if re.search(whole, text)]


@lru_cache(maxsize=512)
def _fields(observation: str) -> Mapping[str, Scalar] | None:
    """Return the values in an observation that is a JSON object or list; None if it is none."""
    if not observation.startswith(("{", "[")) or len(observation) > _LONGEST:
        return None
    try:
        return _values(json.loads(observation))
    except (ValueError, RecursionError):
        return None


def _values(value: Any) -> dict[str, Scalar]:
    """Return the texts and numbers in a JSON value by their path, those that say anything."""
    return dict(islice(_walk(value, "", 0), _MOST_VALUES))


def _walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _walk(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list | tuple) and depth < _DEEPEST:
        for place, inner in enumerate(value[:_MOST_VALUES]):
            yield from _walk(inner, f"{path}[{place}]", depth + 1)
    elif isinstance(value, float):
        if math.isfinite(value):
            yield path, value
    elif isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        yield path, value
