"""The catalog as resources of an MCP server: page by page, and tool by tool."""

from __future__ import annotations

import json
from urllib.parse import quote, unquote

import mcp_types as types

from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.records import shown
from cnp_router.serving.search_answers import tool_to_dict

__all__ = ["CatalogResources"]

_PAGES, _TOOL = "catalog://pages/", "catalog://tools/"
_PAGE = 100  # tools
_MEDIA = "application/json"


class CatalogResources:
    """What one client may see of the catalog."""

    def __init__(self, apis: tuple[Api, ...]) -> None:
        self._apis = apis

    def listed(self) -> list[types.Resource]:
        """Return the pages of the catalog; there is always one."""
        pages = max(1, -(-len(self._apis) // _PAGE))
        said = f"Names and descriptions of {len(self._apis)} tools"
        return [
            types.Resource(
                uri=f"{_PAGES}{page}",
                name=f"catalog-{page}",
                title=f"Catalog, page {page} of {pages}",
                description=said,
                mime_type=_MEDIA,
            )
            for page in range(1, pages + 1)
        ]

    @staticmethod
    def templates() -> list[types.ResourceTemplate]:
        """Return the template of a tool."""
        return [
            types.ResourceTemplate(
                uri_template=f"{_TOOL}{{name}}",
                name="tool",
                description="One tool of the catalog: its description and the schema of its inputs",
                mime_type=_MEDIA,
            )
        ]

    def read(self, uri: str) -> str:
        """Return a page or a tool as JSON; InputError where there is none that may be seen."""
        if uri.startswith(_TOOL):
            name = unquote(uri.removeprefix(_TOOL))
            found = next((api for api in self._apis if api.id == name), None)
            if found is not None:
                return json.dumps(
                    tool_to_dict(found) | {"outputSchema": found.returns}, ensure_ascii=False
                )
        for place, page in enumerate(self.listed()):
            if page.uri == uri:
                return self._page(place)
        raise InputError(f"there is no resource {shown(uri)} ({_PAGES}1 is the first page)")

    def _page(self, place: int) -> str:
        some = self._apis[place * _PAGE : (place + 1) * _PAGE]
        tools = []
        for api in some:
            tool = tool_to_dict(api) | {"uri": _TOOL + quote(api.id, safe="")}
            del tool["inputSchema"]  # that of all tools is long
            tools.append(tool)
        document = {"tools": tools, "total": len(self._apis)}
        return json.dumps(document, ensure_ascii=False)
