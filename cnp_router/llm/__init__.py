"""The only room that talks to a language model: the seam, the OpenAI adapter, the offline model."""

from cnp_router.llm.cache import CachedChatModel, CacheStats
from cnp_router.llm.chat import (
    ChatModel,
    ChatRequest,
    ChatResponse,
    Message,
    Role,
    Usage,
    complete_sync,
)
from cnp_router.llm.offline import OfflineChatModel, estimated_response
from cnp_router.llm.openai_model import OpenAIChatModel
from cnp_router.llm.switch import Scope, model_requests_allowed
from cnp_router.llm.sync import run_sync
from cnp_router.llm.tokens import estimate_request_tokens, estimate_tokens, estimate_usage

__all__ = [
    "CacheStats",
    "CachedChatModel",
    "ChatModel",
    "ChatRequest",
    "ChatResponse",
    "Message",
    "OfflineChatModel",
    "OpenAIChatModel",
    "Role",
    "Scope",
    "Usage",
    "complete_sync",
    "estimate_request_tokens",
    "estimate_tokens",
    "estimate_usage",
    "estimated_response",
    "model_requests_allowed",
    "run_sync",
]
