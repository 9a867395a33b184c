"""`PROVIDERS`: whom `--llm` can name, and how their models are built.

A provider is a file of its own with a function ``build(catalog, *, model, base_url)`` that returns
a ChatModel, and an entry here. The entry names the function as text, so that nothing is imported
before it is asked for; it may live in a room above, as the offline answers do.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cnp_router.exceptions import InputError
from cnp_router.llm.cache import CachedChatModel
from cnp_router.llm.chat_model import ChatModel

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PROVIDERS", "Provider", "build_model"]


@dataclass(frozen=True, slots=True)
class Provider:
    """Whoever supplies models.

    Parameters
    ----------
    summary : str
        One line for help texts.
    builder : str
        ``"module:function"``.
    has_server : bool
        Whether it asks a server: only such a one takes a model name, a base URL and a cache.
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
            "a server that speaks the OpenAI wire format", "cnp_router.llm.openai_model:build"
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
    """Return a model of a provider.

    Parameters
    ----------
    provider : str
        A name of `PROVIDERS`.
    catalog : Catalog
        For providers that answer from it.
    model, base_url : str, optional
        Name of the model, and the server's address.
    cache : str or Path, optional
        Folder in which the answers of a server are kept.

    Returns
    -------
    ChatModel

    Raises
    ------
    InputError
        If there is no such provider, or it takes no such argument.

    Examples
    --------
    >>> build_model("openai", None, base_url="http://localhost:11434/v1")
    OpenAIChatModel('gpt-oss:20b', base_url='http://localhost:11434/v1')
    """
    if provider not in PROVIDERS:
        known = ", ".join(PROVIDERS)
        raise InputError(f"there is no model provider {provider!r} (use one of: {known})")
    module, _, function = PROVIDERS[provider].builder.partition(":")
    build = getattr(import_module(module), function)
    if not PROVIDERS[provider].has_server:
        if model or base_url or cache:
            raise InputError(
                f"{provider!r} asks no server (give model, base_url and cache to another provider)"
            )
        built: ChatModel = build(catalog)
        return built
    built = build(catalog, model=model, base_url=base_url)
    return built if cache is None else CachedChatModel(built, cache)
