"""The only room that talks to a language model: the seam, the OpenAI adapter, the offline model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cnp_router.llm.by_role import AgentRole, ModelsByRole, unwrapped
from cnp_router.llm.cache import CachedChatModel
from cnp_router.llm.chat import (
    ChatMessage,
    ChatModel,
    ChatRequest,
    ChatResponse,
    Usage,
    WrappedChatModel,
    check_response,
    complete_sync,
    run_sync,
)
from cnp_router.llm.completing import completed
from cnp_router.llm.offline import OfflineChatModel
from cnp_router.llm.parsing import with_schema_in_prompt
from cnp_router.llm.prices import Bill, ModelPrice, Prices, money
from cnp_router.llm.providers import PROVIDERS, build_model
from cnp_router.llm.switch import model_requests_allowed
from cnp_router.llm.tokens import estimate_request_tokens, estimated_response

if TYPE_CHECKING:
    from cnp_router.llm.openai_encoder import OpenAIEncoder
    from cnp_router.llm.openai_model import OpenAIChatModel

__all__ = [
    "PROVIDERS",
    "AgentRole",
    "Bill",
    "CachedChatModel",
    "ChatMessage",
    "ChatModel",
    "ChatRequest",
    "ChatResponse",
    "ModelPrice",
    "ModelsByRole",
    "OfflineChatModel",
    "OpenAIChatModel",
    "OpenAIEncoder",
    "Prices",
    "Usage",
    "WrappedChatModel",
    "build_model",
    "check_response",
    "complete_sync",
    "completed",
    "estimate_request_tokens",
    "estimated_response",
    "model_requests_allowed",
    "money",
    "run_sync",
    "unwrapped",
    "with_schema_in_prompt",
]


# Their SDK takes a second to import.
_LATE = {"OpenAIChatModel": "openai_model", "OpenAIEncoder": "openai_encoder"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
