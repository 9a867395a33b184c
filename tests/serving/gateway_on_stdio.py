"""A gateway on stdio, as a program of its own; what is given is the API that is always visible."""

from __future__ import annotations

import asyncio
import sys

from mcp_gateways import make_gateway, make_sources

from cnp_router.serving.clients import Client
from cnp_router.serving.mcp_front import serve_stdio


async def main() -> None:
    async with make_sources() as sources, await make_gateway(sources) as gateway:
        await serve_stdio(gateway, Client())
    print("ended", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
