"""The only room that talks to a language model: the seam, the OpenAI adapter, the offline model."""

from typing import TYPE_CHECKING, Any

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
from cnp_router.llm.offline import OfflineChatModel
from cnp_router.llm.parsing import with_schema_in_prompt
from cnp_router.llm.providers import PROVIDERS, build_model
from cnp_router.llm.switch import model_requests_allowed
from cnp_router.llm.tokens import estimate_request_tokens, estimated_response

if TYPE_CHECKING:
    from cnp_router.llm.openai_model import OpenAIChatModel

__all__ = [
    "PROVIDERS",
    "CachedChatModel",
    "ChatMessage",
    "ChatModel",
    "ChatRequest",
    "ChatResponse",
    "OfflineChatModel",
    "OpenAIChatModel",
    "Usage",
    "WrappedChatModel",
    "build_model",
    "check_response",
    "complete_sync",
    "estimate_request_tokens",
    "estimated_response",
    "model_requests_allowed",
    "run_sync",
    "with_schema_in_prompt",
]


def __getattr__(name: str) -> Any:
    if name != "OpenAIChatModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cnp_router.llm.openai_model import OpenAIChatModel  # its SDK takes a second to import

    return OpenAIChatModel
