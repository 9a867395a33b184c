"""The options that say which language models answer and which encoder reads, and their prices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli.help_pages import Registered
from cnp_router.cli.options import Decorator, file, folder, gathered
from cnp_router.cli.output import note
from cnp_router.exceptions import InputError

if TYPE_CHECKING:
    from cnp_router.catalog import Catalog
    from cnp_router.llm import Bill, ChatModel, Prices
    from cnp_router.llm.prices import Paid

PROVIDER = Registered("Language models, for --llm", "cnp_router.llm", "PROVIDERS")


@dataclass(frozen=True, slots=True)
class Chat:
    """Which language models the options ask for; ``llm`` is None where they do not say.

    `roles` are those that have a model of their own, each as ``NAME`` or ``NAME@BASE_URL``.
    """

    llm: str | None
    llm_model: str | None
    base_url: str | None
    roles: Mapping[str, str] = field(default_factory=dict)
    prices: Prices | None = None

    def __post_init__(self) -> None:
        from cnp_router.llm import PROVIDERS

        servers = " or ".join(name for name, each in PROVIDERS.items() if each.has_server)
        if (self.llm_model or self.base_url) and not self.is_server:
            raise click.UsageError(f"--llm-model and --base-url need --llm {servers}.")
        for role, named in self.roles.items():
            name, url = _name_and_server(named)
            if not name.strip():
                raise click.UsageError(f"--{role}-model needs a name: NAME, or NAME@BASE_URL.")
            _, at, rest = name.rpartition("@")
            if url is None and at and _HOST.fullmatch(rest):
                raise click.UsageError(
                    f"--{role}-model {name}: its server has to begin with http:// or https://."
                )
            if url is None and not self.is_server:
                raise click.UsageError(
                    f"--{role}-model {name} needs --llm {servers}, or its server: {name}@BASE_URL."
                )
            if url is None and rest.isalpha() and at:
                note(f"--{role}-model {name}: all of it is taken as the name of a model", "Note")

    @property
    def is_server(self) -> bool:
        """Whether a server is asked by whoever has no model of their own."""
        from cnp_router.llm import PROVIDERS

        return self.llm is not None and PROVIDERS[self.llm].has_server

    def asks_server(self, *roles: str) -> bool:
        """Whether any of these roles asks a server; without roles, whether anyone does."""
        return self.is_server or any(role in self.roles for role in roles or self.roles)

    def model(self, catalog: Catalog | None = None, *, cache: Path | None = None) -> ChatModel:
        """Return the model: the offline one if nothing else was asked for."""
        from cnp_router.llm import ModelsByRole, build_model

        default = build_model(
            self.llm or "offline",
            catalog,
            model=self.llm_model,
            base_url=self.base_url,
            cache=cache if self.is_server else None,
        )
        default.prices = self.prices
        if not self.roles:
            return default
        return ModelsByRole(default, **{r: self._of_role(n, cache) for r, n in self.roles.items()})

    def _of_role(self, named: str, cache: Path | None) -> ChatModel:
        from cnp_router.llm import build_model
        from cnp_router.llm.providers import key_beside

        name, url = _name_and_server(named)
        provider = self.llm if self.llm is not None and self.is_server else "openai"
        key = None if url is None else key_beside(url, self.base_url)
        server = url or self.base_url
        model = build_model(provider, None, model=name, base_url=server, cache=cache, api_key=key)
        model.prices = self.prices
        return model

    def bill(self, calls: Iterable[Paid]) -> Bill | None:
        """Return what some calls have cost; None without ``--prices``."""
        return None if self.prices is None else self.prices.bill(calls)


# What is meant as a server behind an @, and not as a part of a name, as in model@20240620.
_HOST = re.compile(r"(?i)|\S+://.*|[\w.-]+(:\d+|/).*|localhost|([\w-]+\.)+[a-z]{2,}|\d+(\.\d+){3}")


def _name_and_server(named: str) -> tuple[str, str | None]:
    """Return the two parts of ``NAME@BASE_URL``; a name may have an @ of its own."""
    name, at, rest = named.partition("@http")
    return (name, f"http{rest}") if at else (named, None)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Which encoder the options ask for; ``encoder`` is None where they ask for none."""

    encoder: str | None
    encoder_model: str | None
    encoder_cache: Path | None

    def __post_init__(self) -> None:
        if self.encoder is None and (self.encoder_model or self.encoder_cache):
            raise click.UsageError("--encoder-model and --encoder-cache need --encoder.")

    def made(self, model: Path | None = None) -> dict[str, Any]:
        """Return the encoder as an argument, if there is one; a `model` knows its name."""
        if self.encoder is None:
            return {}
        from cnp_router.llm import OpenAIEncoder
        from cnp_router.storage import summary_of

        fitted_with = summary_of(model).get("encoder") if model else None
        name = self.encoder_model or fitted_with
        if not name:
            if model:
                raise InputError(f"{model}: the model was fitted without an encoder (give none)")
            raise click.UsageError("--encoder needs --encoder-model.")
        encoder = OpenAIEncoder(name, base_url=self.encoder, cache=self.encoder_cache)
        click.get_current_context().call_on_close(encoder.close)
        return {"encoder": encoder}


ENCODER = (
    click.option(
        "--encoder",
        metavar="URL",
        help="Server of text vectors, such as http://localhost:11434/v1. A model fitted with "
        "one needs it to read requests; the key is read from OPENAI_API_KEY.",
    ),
    click.option(
        "--encoder-model",
        metavar="NAME",
        help="Name of the server's encoder.  [default: that of the fitted model]",
    ),
    folder("--encoder-cache", help="Keep vectors there, and take those that are there."),
)
encoder_options = gathered("vectors", Vectors, *ENCODER)


# What the roles do that may have a model of their own; a command says which of them it has.
ROLES = {
    "manager": "takes the manager's steps",
    "contractor": "bids for the contractors",
    "planner": "writes the plan",
    "executor": "fills inputs, and does jobs in turns",
}
prices = file(
    "--prices",
    help='What tokens cost, as JSON, to say what was paid: {"currency": "USD", "per": 1000000, '
    '"models": {"NAME": {"in": 2, "out": 8}}}. See docs/planning.md, Prices.',
)


def _chat(
    llm: str | None,
    llm_model: str | None,
    base_url: str | None,
    prices: Path | None = None,
    **models: str | None,
) -> Chat:
    roles = {name.removesuffix("_model"): named for name, named in models.items() if named}
    return Chat(llm, llm_model, base_url, roles, read_prices(prices))


def read_prices(path: Path | None) -> Prices | None:
    """Return the prices of a file, if there is one."""
    from cnp_router.llm import Prices

    return None if path is None else Prices.read(path)


def chat_options(help: str, default: str, roles: Sequence[str] = ()) -> Decorator:
    """Return the options that say which language model answers, with `default` without them.

    Each of the `ROLES` that is named may have a model of its own; then there are prices too.
    """
    where = (
        ": one of the same server, or of the one at the URL, whose key is read from "
        "OPENAI_API_KEY_ and its host. Likewise below"
    )
    by_role = [
        click.option(
            f"--{role}-model",
            metavar="NAME[@URL]",
            help=f"Which model {ROLES[role]}{'' if place else where}.",
        )
        for place, role in enumerate(roles)
    ]
    return gathered(
        "chat",
        _chat,
        click.option("--llm", type=PROVIDER, metavar="NAME", help=f"{help}.  [default: {default}]"),
        click.option(
            "--llm-model",
            metavar="NAME",
            help="Name of the server's model.  [default: gpt-oss:20b with a base URL]",
        ),
        click.option(
            "--base-url",
            metavar="URL",
            help="Of the server, such as http://localhost:11434/v1.  [default: OPENAI_BASE_URL, or "
            "OpenAI; the key is read from OPENAI_API_KEY]",
        ),
        *by_role,
        *([prices] if roles else []),
    )
