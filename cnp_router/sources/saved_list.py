"""A saved answer of an MCP server to ``tools/list``: tools to make a catalog of, not to call."""

from __future__ import annotations

import logging
from collections.abc import Collection
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

_log = logging.getLogger(__name__)


class SavedList(Source):
    """The tools of a saved list; they cannot be called.

    Parameters
    ----------
    name : str
        First part of the ids of its APIs.
    apis : tuple of Api
    """

    def __init__(self, name: str, apis: tuple[Api, ...]) -> None:
        self.name = check_source_name(name)
        self._apis = apis

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
            If the file is not such a list, or a tool in it cannot be used.

        Examples
        --------
        >>> import asyncio, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "time.json"
        ...     _ = file.write_text('[{"name": "now", "inputSchema": {"type": "object"}}]')
        ...     saved = SavedList.read(SourceRef(str(file)))
        >>> asyncio.run(saved.apis())
        (Api('time__now', 'now', ''),)
        """
        path = Path(reference.place)
        name = reference.named
        document = read_json(path)
        try:
            tools = enumerate(_tools(document), 1)
            records = [Record(_object("a tool", tool), path, None, place) for place, tool in tools]
            if _goes_on(document):
                _log.warning("%s: further pages of the list are not in it (nextCursor)", path)
            return cls(name, tuple(_api(name, each, name in trusted) for each in records))
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


def _api(name: str, tool: Record, trusted: bool) -> Api:
    notes = tool.get("annotations", _object, default={})
    hint, title = notes.get("readOnlyHint"), notes.get("title")
    fields = SimpleNamespace(
        name=tool.get("name"),
        title=tool.get("title", default=None),
        description=tool.get("description", default=None),
        input_schema=tool.get("inputSchema", _object),
        output_schema=tool.get("outputSchema", _object, default=None),
        annotations=SimpleNamespace(
            title=None if title is None else tool.checked(check_text, "title", title),
            read_only_hint=None if hint is None else tool.checked(check_flag, "readOnlyHint", hint),
        ),
    )
    return api_of(name, fields, trusted)


def _tools(document: Any) -> list[dict[str, Any]]:
    """Return the tools of an answer, or of several pages of one."""
    tools = []
    for each in _page(document):
        is_tool = isinstance(each, dict) and "name" in each
        tools += [each] if is_tool else _page(each)
    return tools


def _goes_on(document: Any) -> bool:
    """Return whether the answer, or the last of several pages, says that another page follows."""
    last = document[-1] if isinstance(document, list) and document else document
    result = last.get("result", last) if isinstance(last, dict) else None
    return isinstance(result, dict) and bool(result.get("nextCursor"))


def _page(value: Any) -> list[Any]:
    """Return what a result, a response or a list has in it."""
    if isinstance(value, dict) and "error" in value:
        raise InputError(f"the answer is an error: {shown(value['error'])} (ask the server again)")
    if isinstance(value, dict) and "result" in value:
        value = value["result"]
    if isinstance(value, dict) and "tools" in value:
        value = value["tools"]
    if not isinstance(value, list):
        cure = 'write {"tools": [...]}'
        raise InputError(f"not an answer to tools/list: {shown(value)} ({cure})")
    return value


def _object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name} must be an object, got {shown(value)}")
    return value
