"""Where tools come from and how they are called."""

from cnp_router.sources.a2a_agent import A2aAgent
from cnp_router.sources.all_sources import Loaded, Sources
from cnp_router.sources.configuration import Configured, read_sources
from cnp_router.sources.functions import FunctionSource
from cnp_router.sources.lock_file import Changed, Changes, LockFile, fingerprint
from cnp_router.sources.mcp_server import McpServer
from cnp_router.sources.openapi_source import OpenApiSource
from cnp_router.sources.source import (
    Attachment,
    Call,
    CallFailure,
    CallProgress,
    CallResult,
    FailureKind,
    Source,
)

__all__ = [
    "A2aAgent",
    "Attachment",
    "Call",
    "CallFailure",
    "CallProgress",
    "CallResult",
    "Changed",
    "Changes",
    "Configured",
    "FailureKind",
    "FunctionSource",
    "Loaded",
    "LockFile",
    "McpServer",
    "OpenApiSource",
    "Source",
    "Sources",
    "fingerprint",
    "read_sources",
]
