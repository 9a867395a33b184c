"""What a client of the gateway is shown, against all definitions of the tools behind it."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.serving_server import official
from cnp_router.llm.tokens import estimate_tokens

__all__ = ["REQUESTS", "shown"]

REQUESTS = (
    "What time is it in Tokyo when it is noon in London?",
    "Show me what has changed in the repository since the last commit.",
    "Read the page at this address and summarise it.",
    "Find all files that mention the invoice.",
    "Remember that Ann works at the library.",
    "Which people do I know who live in Kyoto?",
    "Add two numbers.",
    "Make a new branch and commit the staged files.",
    "Think step by step about how to plan the move.",
    "Write these notes into a file.",
)
_BEFORE_A_MODEL = ("name", "description", "inputSchema")


async def shown(servers: dict[str, Any], sources: Path) -> dict[str, Any]:
    """Return characters and estimated tokens of what is shown, as `tools/list` gives it.

    Once of whole definitions, as a client gets them; and once of name, description and schema of
    the inputs alone, which is what clients put before a model.
    """
    texts: list[dict[str, Any]] = []
    for entry in servers.values():
        async with official(entry) as client:
            texts += await _definitions(client)
    command = ["-m", "cnp_router", "serve", "--sources", str(sources)]
    gateway = {"command": sys.executable, "args": command}
    found: list[str] = []
    async with official(gateway) as client:
        own = await _definitions(client)
        for request in REQUESTS:
            answer = await client.call_tool("search_tools", {"query": request, "k": 5})
            found.append("".join(block.text for block in answer.content))
    sizes = [_size([text]) for text in found]
    results: dict[str, Any] = {"servers": len(servers), "tools": len(texts), "rows": {}}
    for name, part in (
        ("whole definitions", lambda each: each),
        ("what is put before a model", _before_a_model),
    ):
        all_tools, fixed = (_size([_compact(part(each)) for each in some]) for some in (texts, own))
        results["rows"][f"{name}, all tools"] = all_tools
        results["rows"][f"{name}, gateway"] = fixed
        results[f"times, {name}"] = all_tools["characters"] / fixed["characters"]
    for name, choose in (("mean", statistics.mean), ("most", max)):
        results["rows"][f"one search, {name}"] = {
            key: choose([size[key] for size in sizes]) for key in sizes[0]
        }
    return results


async def _definitions(client: Any) -> list[dict[str, Any]]:
    """Return each tool that a server lists."""
    found, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += [
            tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools
        ]
        cursor = page.next_cursor
        if cursor is None:
            return found


def _before_a_model(tool: dict[str, Any]) -> dict[str, Any]:
    return {name: tool[name] for name in _BEFORE_A_MODEL if name in tool}


def _compact(tool: dict[str, Any]) -> str:
    return json.dumps(tool, ensure_ascii=False, separators=(",", ":"))


def _size(texts: list[str]) -> dict[str, float]:
    return {
        "characters": sum(map(len, texts)),
        "tokens": sum(map(estimate_tokens, texts)),
    }
