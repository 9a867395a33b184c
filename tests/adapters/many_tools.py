"""Ten thousand tools, and fifty of them that a request can mean."""

from __future__ import annotations

import itertools

from cnp_router import Api
from cnp_router.adapters import tool_api

_VERBS = [
    "list",
    "create",
    "delete",
    "update",
    "search",
    "show",
    "send",
    "convert",
    "translate",
    "archive",
]
_NOUNS = [
    "weather",
    "map",
    "invoice",
    "ticket",
    "flight",
    "hotel",
    "photo",
    "song",
    "film",
    "recipe",
    "patient",
    "loan",
    "bus",
]
_COLOURS = ["amber", "azure", "coral", "ivory", "jade"]
_ANIMALS = [
    "badger",
    "beaver",
    "camel",
    "dingo",
    "eagle",
    "falcon",
    "gecko",
    "heron",
    "ibex",
    "jackal",
]

SPECIAL = {
    f"feed_{colour}_{animal}": f"Feed the {colour} {animal}"
    for colour, animal in itertools.product(_COLOURS, _ANIMALS)
}
"""The request that means each of fifty tools, by its name."""


def many_tools(n: int) -> tuple[Api, ...]:
    """Return the fifty tools, and so many others that there are `n`."""
    special = [tool_api(name, f"{request}.") for name, request in SPECIAL.items()]
    others = itertools.islice(itertools.cycle(itertools.product(_VERBS, _NOUNS)), n - len(special))
    plain = [
        tool_api(f"{verb}_{noun}_{i}", f"{verb.title()} the {noun} of branch {i % 997}.")
        for i, (verb, noun) in enumerate(others)
    ]
    return (*plain, *special)
