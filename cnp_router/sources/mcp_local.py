"""An MCP server in this process: the same client and the same messages, without a transport."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["LocalServer"]


class LocalServer:
    """A server of the SDK, as what a connection goes over.

    Attributes
    ----------
    ended : asyncio.Event
        Set when it is to be over.
    problem : str
        Why, if that was not this side's wish.
    is_nonsense : bool
        Never: both sides are the SDK.
    """

    is_nonsense = False
    detail = ""
    cure = "look into the server, which runs in this process"

    def __init__(self, server: Any) -> None:
        self.server = server
        self.ended = asyncio.Event()
        self.problem = ""

    def transport(self) -> Any:
        """Return what the SDK's client enters: it connects to a server in memory by itself."""
        return self.server
