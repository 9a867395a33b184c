"""`PROVIDERS`: whom `--llm` can name, and how their models are built.

An entry names what builds a model as text, so that nothing is imported before it is asked for; it
may live in a room above, as the offline answers do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.llm.cache import CachedChatModel
from cnp_router.llm.chat import ChatModel

__all__ = ["PROVIDERS", "Provider", "build_model"]


@dataclass(frozen=True, slots=True)
class Provider:
    """Whoever supplies models: one line for help texts, and what builds a ChatModel.

    The builder is ``"module:name"`` of a class or function. With a server it is called with
    ``(model, base_url=...)``, else with the catalog.
    """

    summary: str
    builder: str
    has_server: bool = True


PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "offline": Provider(
            "text similarity, with no language model", "cnp_router.agents:offline_model", False
        ),
        "openai": Provider(
            "a server that speaks the OpenAI wire format",
            "cnp_router.llm.openai_model:OpenAIChatModel",
        ),
    }
)


def build_model(
    provider: str,
    catalog: Any,
    *,
    model: str | None = None,
    base_url: str | None = None,
    cache: str | Path | None = None,
) -> ChatModel:
    """Return a model of one of the `PROVIDERS`, its answers kept in the folder `cache` if given.

    Examples
    --------
    >>> build_model("openai", None, base_url="http://localhost:11434/v1")
    OpenAIChatModel('gpt-oss:20b', base_url='http://localhost:11434/v1')
    """
    if provider not in PROVIDERS:
        known = ", ".join(PROVIDERS)
        raise InputError(f"there is no model provider {provider!r} (use one of: {known})")
    has_server = PROVIDERS[provider].has_server
    if not has_server and (model, base_url, cache) != (None, None, None):
        raise InputError(
            f"{provider!r} asks no server (give model, base_url and cache to another provider)"
        )
    module, _, name = PROVIDERS[provider].builder.partition(":")
    build = getattr(import_module(module), name)
    built: ChatModel = build(model, base_url=base_url) if has_server else build(catalog)
    return built if cache is None else CachedChatModel(built, cache)
