"""What a next tool may depend on: each context is one look at the goal and the last steps."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b

from cnp_router.records import shown
from cnp_router.trajectories import Step

__all__ = ["CONTEXTS", "LOCAL_CONTEXTS", "context_keys", "local_followers"]

CONTEXTS = (
    "nothing",
    "last tool",
    "last 2 tools",
    "last 3 tools",
    "last 6 tools",
    "last call",
    "last observation",
    "last 3 tools and how their observations begin",
    "last 3 calls and how their observations begin",
    "kind of goal, last tool",
    "kind of goal, last tool and how its observation begins",
    "goal, last 2 tools",
    "repeats of the last call and observation",
    "place in the trajectory, last tool",
    "first and last tool",
)
"""The contexts that are remembered; a call is a tool with its inputs."""

LOCAL_CONTEXTS = ("this trajectory", "this trajectory, last tool")
"""The contexts that are read off the steps themselves."""

_WORD = re.compile(r"\w+")
_LOOK_BACK = 100
_SHORT = 1_000
_64_BITS = 2**64 - 1
_ODD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio, as in Knuth's multiplicative hashing
_MOST_REPEATS = 3
_LAST_PLACE = 10


def context_keys(steps: Sequence[Step], goal: str) -> list[int]:
    """Return one key of 64 bits for each of `CONTEXTS`: equal keys, equal contexts.

    They are the same in every process.

    Examples
    --------
    >>> keys = context_keys([Step("weather", {"city": "Kyoto"})], "Rain?")
    >>> others = context_keys([Step("weather", {"city": "Nara"})], "Rain?")
    >>> [name for name, a, b in zip(CONTEXTS, keys, others, strict=True) if a != b]
    ['last call', 'last 3 calls and how their observations begin']
    """
    recent = [
        (
            step.tool,
            shown(sorted(step.inputs.items()), most=sys.maxsize) if step.inputs else "",
            _first_words(step.observation[:40]),
        )
        for step in steps[:-4:-1]
    ]
    recent += [("", "", "")] * (3 - len(recent))
    (tool, inputs, begin), (tool2, _, begin2), (tool3, _, begin3) = recent
    observation = steps[-1].observation if steps else ""
    kind = _start_of_goal(goal)
    observed, called = _repeats(steps)
    parts: list[tuple[str, ...]] = [
        (),
        (tool,),
        (tool, tool2),
        (tool, tool2, tool3),
        tuple(step.tool for step in steps[-6:]),
        (tool, inputs),
        (tool, observation),
        (tool, begin, tool2, begin2, tool3, begin3),
        tuple(part for step in recent for part in step),
        (kind, tool),
        (kind, tool, begin),
        (goal, tool, tool2),
        (tool, begin, observed, called),
        (str(min(len(steps) // 3, _LAST_PLACE)), tool),
        (steps[0].tool if steps else "", tool),
    ]
    keys = []
    for place, part in enumerate(parts, start=1):
        key = place
        for text in part:
            hashed = _short_hash(text) if len(text) <= _SHORT else _hash(text)
            key = (key * _ODD + hashed) & _64_BITS
        keys.append(key)
    return keys


def local_followers(steps: Sequence[Step], decay: float) -> tuple[dict[str, float], ...]:
    """Return what was used, and what followed the last tool, earlier in this trajectory.

    Each later occurrence multiplies the weight of the earlier ones by `decay`.

    Examples
    --------
    >>> local_followers([Step("a"), Step("b"), Step("a")], 0.5)
    ({'a': 1.25, 'b': 0.5}, {'b': 1.0})
    """
    used: dict[str, float] = {}
    followed: dict[str, float] = {}
    weight_used = weight_followed = 1.0
    for place in range(len(steps) - 1, max(len(steps) - _LOOK_BACK, 0) - 1, -1):
        tool = steps[place].tool
        used[tool] = used.get(tool, 0.0) + weight_used
        weight_used *= decay
        if place and steps[place - 1].tool == steps[-1].tool:
            followed[tool] = followed.get(tool, 0.0) + weight_followed
            weight_followed *= decay
    return used, followed


def _repeats(steps: Sequence[Step]) -> tuple[str, str]:
    if not steps:
        return "", ""
    last, observed, called = steps[-1], 0, 0
    for step in steps[-_LOOK_BACK:]:
        observed += step.observation == last.observation
        with suppress(RecursionError):  # nested too deep to be compared
            called += step.tool == last.tool and step.inputs == last.inputs
    return str(min(observed, _MOST_REPEATS)), str(min(called, _MOST_REPEATS))


@lru_cache(maxsize=4096)
def _start_of_goal(goal: str) -> str:
    return " ".join(_WORD.findall(goal[:200].lower())[:10])


@lru_cache(maxsize=4096)
def _first_words(text: str) -> str:
    return " ".join(_WORD.findall(text.lower())[:3])


def _hash(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


# Tools, inputs and short observations come again and again; long texts would fill the memory.
_short_hash = lru_cache(maxsize=4096)(_hash)
