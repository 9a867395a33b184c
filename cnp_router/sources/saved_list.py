"""A saved answer of an MCP server to ``tools/list``: tools to make a catalog of, not to call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, Self

from cnp_router.catalog import Api
from cnp_router.exceptions import DataFileError, InputError, SourceAnswerError
from cnp_router.files import read_json
from cnp_router.records import Record, check_flag, check_text, shown
from cnp_router.sources.configuration import SourceRef
from cnp_router.sources.mcp_tools import api_of
from cnp_router.sources.source import Call, Source, check_source_name

__all__ = ["SavedList"]


class SavedList(Source):
    """The tools of a saved list; they cannot be called.

    Parameters
    ----------
    name : str
        First part of the ids of its APIs.
    tools : iterable of dict
        As an MCP server lists them.
    trusted : bool, default=False
        Whether ``readOnlyHint`` counts.

    Raises
    ------
    InputError
        If a tool cannot be used: it says which.

    Examples
    --------
    >>> import asyncio
    >>> saved = SavedList("time", [{"name": "now", "inputSchema": {"type": "object"}}])
    >>> asyncio.run(saved.apis())
    (Api('time__now', 'now', ''),)
    """

    def __init__(
        self, name: str, tools: Iterable[dict[str, Any]], *, trusted: bool = False
    ) -> None:
        self.name = check_source_name(name)
        self._apis = tuple(
            self._api(Record(tool, f"the saved list of {name!r}", None, place), trusted)
            for place, tool in enumerate(tools, 1)
        )

    @classmethod
    def read(cls, reference: SourceRef, *, trusted: Collection[str] = ()) -> Self:
        """Read a file: a result, a whole JSON-RPC response, a list of tools, or pages of these.

        Parameters
        ----------
        reference : SourceRef
            The path; the name is by default that of the file, without its ending.
        trusted : collection of str, default=()
            The names of sources that are trusted.

        Raises
        ------
        DataFileError
            If the file is not such a list.
        """
        path = Path(reference.place)
        name = reference.name or path.stem
        try:
            tools = list(_tools(read_json(path)))
            return cls(name, tools, trusted=name in trusted)
        except DataFileError:
            raise
        except (InputError, SourceAnswerError) as exc:
            raise DataFileError(path, str(exc)) from None

    async def apis(self) -> tuple[Api, ...]:
        """Return the tools of the list."""
        return self._apis

    async def call(self, call: Call) -> NoReturn:
        """Raise InputError: who could be called is not known."""
        raise InputError(f"{call.api} is one of a saved list (call it by its server)")

    def _api(self, tool: Record, trusted: bool) -> Api:
        notes = tool.get("annotations", _object, default={})
        hint = notes.get("readOnlyHint")
        fields = SimpleNamespace(
            name=tool.get("name"),
            title=tool.get("title", default=None),
            description=tool.get("description", default=None),
            input_schema=tool.get("inputSchema", _object),
            annotations=SimpleNamespace(
                title=None if notes.get("title") is None else check_text("title", notes["title"]),
                read_only_hint=None if hint is None else check_flag("readOnlyHint", hint),
            ),
        )
        return api_of(self.name, fields, trusted)


def _tools(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the tools of a result, a response or a list of tools, or of several of them."""
    if isinstance(value, dict) and "error" in value:
        raise InputError(f"the answer is an error: {shown(value['error'])} (ask the server again)")
    if isinstance(value, dict) and "result" in value:
        value = value["result"]
    if isinstance(value, dict) and isinstance(value.get("tools"), list):
        value = value["tools"]
    if not isinstance(value, list):
        cure = 'write {"tools": [...]}'
        raise InputError(f"not an answer to tools/list: {shown(value)} ({cure})")
    for each in value:
        if isinstance(each, dict) and "name" in each:
            yield each
        else:
            yield from _tools(each)


def _object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name} must be an object, got {shown(value)}")
    return value
