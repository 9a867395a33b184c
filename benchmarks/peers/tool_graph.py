"""graph-tool-call: words, a graph of tools, and the cosines of vectors where they are given."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from graph_tool_call import ToolGraph
from graph_tool_call.core.tool import ToolSchema, parse_mcp_tool
from graph_tool_call.retrieval.embedding import EmbeddingIndex, wrap_embedding
from numpy.typing import NDArray

from benchmarks.peers.peer import Peer
from cnp_router.catalog import Api, Catalog
from cnp_router.history import History
from cnp_router.text import specification_text

__all__ = ["GraphToolCall"]

_DEEPEST = 20  # places looked at


class GraphToolCall(Peer):
    """Its default search of a graph that it makes of the tools. It learns nothing from a history.

    Parameters
    ----------
    vectors : mapping of str to array or None, default=None
        The vector of each text: specifications and requests.
    """

    def __init__(self, vectors: Mapping[str, NDArray[Any]] | None = None) -> None:
        self._vectors = vectors

    def fit(self, catalog: Catalog, history: History) -> None:
        """Make the graph, with the dependencies that it finds."""
        tools = [_tool(api) for api in catalog]
        self._graph = ToolGraph()
        self._graph.add_tools(tools)
        if self._vectors is not None:
            said = [self._vectors[specification_text(api)] for api in catalog]
            # It also asks for the vectors of the best tools' descriptions.
            described = {tool.description: vector for tool, vector in zip(tools, said, strict=True)}
            known = {**described, **self._vectors}
            index = EmbeddingIndex(
                provider=wrap_embedding(lambda texts: [known[text].tolist() for text in texts])
            )
            for tool, vector in zip(tools, said, strict=True):
                index.add(tool.name, vector.tolist())
            # What `enable_embedding` does after it has made the vectors from texts of its own.
            self._graph._get_retrieval_engine().set_embedding_index(index)
        self._catalog = catalog

    def scores(self, request: str) -> NDArray[Any]:
        """Return the scores of its 20 best; 0 for the others."""
        scores = np.zeros(len(self._catalog))
        with warnings.catch_warnings():
            # That many tools are better searched with vectors.
            warnings.simplefilter("ignore", UserWarning)
            found = self._graph.retrieve_with_scores(request, top_k=_DEEPEST)
        for each in found:
            scores[self._catalog.position(each.tool.name)] = each.score
        return scores


def _tool(api: Api) -> ToolSchema:
    """Return an API as a tool of MCP, and its categories as tags."""
    name = "" if api.name == api.id else f"{api.name}: "
    tool = parse_mcp_tool(
        {"name": api.id, "description": name + api.description, "inputSchema": _schema(api)}
    )
    tool.tags = list(api.categories)
    return tool


def _schema(api: Api) -> dict[str, Any]:
    """Return the parameters as a JSON Schema, also where they are names and types alone."""
    parameters = dict(api.parameters or {})
    if isinstance(parameters.get("properties"), Mapping):
        return parameters
    properties = {
        name: said if isinstance(said, Mapping) else {"type": str(said)}
        for name, said in parameters.items()
    }
    return {"type": "object", "properties": properties}
