"""The only room that talks to a language model: the seam, the OpenAI adapter, the offline model."""

from cnp_router.llm.cache import CachedChatModel, CacheStats
from cnp_router.llm.chat import ChatMessage, ChatRequest, ChatResponse, Role, Usage
from cnp_router.llm.chat_model import ChatModel, WrappedChatModel, check_response, complete_sync
from cnp_router.llm.offline import OfflineChatModel, estimated_response
from cnp_router.llm.openai_model import OpenAIChatModel
from cnp_router.llm.parsing import with_schema_in_prompt
from cnp_router.llm.switch import Scope, model_requests_allowed
from cnp_router.llm.sync import run_sync
from cnp_router.llm.tokens import estimate_request_tokens, estimate_tokens, estimate_usage

__all__ = [
    "CacheStats",
    "CachedChatModel",
    "ChatMessage",
    "ChatModel",
    "ChatRequest",
    "ChatResponse",
    "OfflineChatModel",
    "OpenAIChatModel",
    "Role",
    "Scope",
    "Usage",
    "WrappedChatModel",
    "check_response",
    "complete_sync",
    "estimate_request_tokens",
    "estimate_tokens",
    "estimate_usage",
    "estimated_response",
    "model_requests_allowed",
    "run_sync",
    "with_schema_in_prompt",
]
