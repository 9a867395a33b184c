"""The gateway for MCP clients: as a server without a transport, on stdio, and over HTTP."""

from cnp_router.serving.mcp_endpoint import http_app
from cnp_router.serving.mcp_handlers import server_of
from cnp_router.serving.mcp_stdio import serve_stdio

__all__ = ["http_app", "serve_stdio", "server_of"]
