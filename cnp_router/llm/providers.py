"""`PROVIDERS`: whom `--llm` can name, and how their models are built.

An entry names what builds a model as text, so that nothing is imported before it is asked for; it
may live in a room above, as the offline answers do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from cnp_router.exceptions import InputError
from cnp_router.llm.cache import CachedChatModel
from cnp_router.llm.chat import ChatModel

__all__ = ["KEY_VARIABLE", "OPENAI_URL", "PROVIDERS", "Provider", "build_model", "key_beside"]

OPENAI_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True)
class Provider:
    """Whoever supplies models: one line for help texts, and what builds a ChatModel.

    The builder is ``"module:name"`` of a class or function. With a server it is called with
    ``(model, base_url=...)``, and ``api_key=...`` where the server is not the usual one; without,
    with the catalog.
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
    api_key: str | None = None,
) -> ChatModel:
    """Return a model of one of the `PROVIDERS`, its answers kept in the folder `cache` if given.

    The key is `api_key`, or by default what the provider reads from the environment.

    Examples
    --------
    >>> build_model("openai", None, base_url="http://localhost:11434/v1")
    OpenAIChatModel('gpt-oss:20b', base_url='http://localhost:11434/v1')
    """
    if provider not in PROVIDERS:
        known = ", ".join(PROVIDERS)
        raise InputError(f"there is no model provider {provider!r} (use one of: {known})")
    has_server = PROVIDERS[provider].has_server
    if not has_server and (model, base_url, cache, api_key) != (None, None, None, None):
        raise InputError(
            f"{provider!r} asks no server (give model, base_url and cache to another provider)"
        )
    module, _, name = PROVIDERS[provider].builder.partition(":")
    build = getattr(import_module(module), name)
    key = {} if api_key is None else {"api_key": api_key}
    built: ChatModel = build(model, base_url=base_url, **key) if has_server else build(catalog)
    return built if cache is None else CachedChatModel(built, cache)


def key_beside(base_url: str, main: str | None = None) -> str | None:
    """Return the key for a server that is asked beside the main one; None is that of the main one.

    The key of one server is not sent to another: that of ``https://api.example.com`` is read from
    ``OPENAI_API_KEY_API_EXAMPLE_COM``, and is empty if that is not set. Without `main`, the main
    server is that of ``OPENAI_BASE_URL``, or OpenAI.

    Examples
    --------
    >>> key_beside("http://localhost:8000/v1", "http://localhost:11434/v1")
    ''
    >>> key_beside("http://localhost:11434/v1/", "http://localhost:11434/v1") is None
    True
    """
    main = main or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
    try:
        there, here = urlsplit(base_url), urlsplit(main)
        same = there[:2] == here[:2]
        host = there.hostname or ""
    except ValueError:  # whoever is built with it says what is wrong with it
        return ""
    return None if same else os.environ.get(f"{KEY_VARIABLE}_{variable_part(host)}", "")


def variable_part(host: str) -> str:
    """Return a host as a part of the name of a variable."""
    return re.sub("[^A-Z0-9]", "_", host.upper())
