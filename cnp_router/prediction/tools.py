"""`ToolList`: the tools a model may choose from, and which of them it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.records import check_id
from cnp_router.text import BM25

__all__ = ["ToolList"]


class ToolList:
    """Tools by id.

    Parameters
    ----------
    tools : iterable of Api or str
        A bare id is a tool of which nothing else is known.

    Attributes
    ----------
    ids : frozenset of str

    Raises
    ------
    InputError
        If an id is blank or given twice.

    Examples
    --------
    >>> tools = ToolList([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    >>> [tool.id for tool in tools.shortlist("Find a good place", [], 1)]
    ['maps']
    """

    def __init__(self, tools: Iterable[Api | str]) -> None:
        if isinstance(tools, str):
            raise InputError(f"tools must be several, got {tools!r} (write [{tools!r}])")
        self._apis: dict[str, Api] = {}
        for tool in tools:
            api = tool if isinstance(tool, Api) else Api(tool, tool)
            check_id("tool", api.id)
            if api.id in self._apis:
                raise InputError(f"tool {api.id!r} is given twice (ids must be unique)")
            self._apis[api.id] = api
        self.ids = frozenset(self._apis)

    def __len__(self) -> int:
        return len(self._apis)

    def __iter__(self) -> Iterator[Api]:
        return iter(self._apis.values())

    def __contains__(self, tool: object) -> bool:
        return tool in self._apis

    def shortlist(self, goal: str, first: Sequence[str], k: int) -> tuple[Api, ...]:
        """Return at most `k` tools: `first`, then those whose specification is nearest to `goal`.

        Parameters
        ----------
        goal : str
        first : sequence of str
            Ids; those that are not in the list are passed over.
        k : int >= 0

        Returns
        -------
        tuple of Api
            If all fit, all of them, the rest in the order given.
        """
        rest = list(self._apis)
        if len(rest) > k:
            nearest = np.argsort(-self._index.scores(goal), kind="stable")[:k]
            rest = [rest[place] for place in nearest]
        ids = dict.fromkeys([*(tool for tool in first if tool in self._apis), *rest])
        return tuple(self._apis[tool] for tool in list(ids)[:k])

    @cached_property
    def _index(self) -> BM25:
        return BM25([f"{api.name} {api.description}" for api in self._apis.values()])
