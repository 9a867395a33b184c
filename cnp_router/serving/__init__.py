"""The router served to any agent: one door to all sources, without a transport of its own."""

from cnp_router.serving.clients import Client, Clients
from cnp_router.serving.gateway import Called, FoundTool, Gateway, GatewaySettings, Search
from cnp_router.serving.logged import Accuracy, LoggedSearch
from cnp_router.serving.renewal import Renewal
from cnp_router.serving.search_log import SearchLog
from cnp_router.serving.teaching import Teaching

__all__ = [
    "Accuracy",
    "Called",
    "Client",
    "Clients",
    "FoundTool",
    "Gateway",
    "GatewaySettings",
    "LoggedSearch",
    "Renewal",
    "Search",
    "SearchLog",
    "Teaching",
]
