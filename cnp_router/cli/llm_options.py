"""The options that say which language model answers, and the model they ask for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from cnp_router.catalog import Catalog
    from cnp_router.llm import ChatModel

__all__ = ["chat_model", "llm_options"]

Function = TypeVar("Function", bound=Callable[..., Any])


def llm_options(command: Function) -> Function:
    """Add which language model answers."""
    for option in reversed(
        (
            click.option(
                "--llm",
                type=click.Choice(["offline", "openai"]),
                default="offline",
                show_default=True,
                help="Who answers for the agents: text similarity, or a server that speaks the "
                "OpenAI wire format.",
            ),
            click.option(
                "--llm-model",
                metavar="NAME",
                help="Name of the server's model.  [default: gpt-oss:20b with a base URL]",
            ),
            click.option(
                "--base-url",
                metavar="URL",
                help="Of the server, such as http://localhost:11434/v1.  [default: "
                "OPENAI_BASE_URL, or OpenAI; the key is read from OPENAI_API_KEY]",
            ),
        )
    ):
        command = option(command)
    return command


def chat_model(
    llm: str,
    llm_model: str | None,
    base_url: str | None,
    catalog: Catalog,
    *,
    cache: Path | None = None,
) -> ChatModel:
    """Return the model that the options ask for.

    Parameters
    ----------
    llm : {"offline", "openai"}
    llm_model, base_url : str or None
        For a server.
    catalog : Catalog
        For the offline model.
    cache : Path or None
        Folder in which the answers of a server are kept.

    Raises
    ------
    UsageError
        If a server is described and the offline model asked for.
    """
    from cnp_router.llm import PROVIDERS, build_model

    if not PROVIDERS[llm].has_server:
        if llm_model or base_url:
            raise click.UsageError("--llm-model and --base-url need --llm openai.")
        cache = None
    return build_model(llm, catalog, model=llm_model, base_url=base_url, cache=cache)
