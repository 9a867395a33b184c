"""The options that several commands share, and what their values are."""

from __future__ import annotations

import datetime
import functools
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli.help_pages import Command, Registered
from cnp_router.cli.output import note
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.records import parse_date

if TYPE_CHECKING:
    from cnp_router.catalog import Catalog
    from cnp_router.llm import Bill, ChatModel, Prices
    from cnp_router.llm.prices import Paid
    from cnp_router.protocols import RoundSettings
    from cnp_router.routing import SelectionRule

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

# No check of existence: the library's own errors say more, and end with 1, not 2.
PLACE = click.Path(path_type=Path)


def command(
    *examples: str, sections: Mapping[str, str] | None = None
) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a function a command with examples."""
    return click.command(cls=Command, examples=examples, sections=sections)


class Finite(click.FloatRange):
    """A number in a range, but not NaN, which every comparison lets through, nor infinite."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


# What the values of an option are, and how the help calls them.
count = functools.partial(click.option, type=click.IntRange(min=1), metavar="N")
share = functools.partial(click.option, type=Finite(0, 1), metavar="X")
seconds = functools.partial(click.option, type=Finite(min=0, min_open=True), metavar="SECONDS")
file = functools.partial(click.option, type=PLACE, metavar="FILE")
folder = functools.partial(click.option, type=PLACE, metavar="DIR")


def several(*names: str, help: str, default: str = "", **how: Any) -> Decorator:
    """Return an option that can be given more than once; `default` is what the help says of it."""
    help += " Can be given more than once." + (f"  [default: {default}]" if default else "")
    return click.option(*names, multiple=True, help=help, **how)


files = functools.partial(several, type=PLACE, metavar="FILE")


def choice(*names: str, of: Sequence[str], default: str, help: str) -> Decorator:
    """Return an option that takes one of some words."""
    return click.option(
        *names, type=click.Choice(of), default=default, show_default=True, help=help
    )


def gathered(into: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Return a decorator that adds options, and passes what `make` makes of them as `into`.

    `make` takes the values of the options by name.
    """

    def probe() -> None:
        """Take the options, so that their names can be read."""

    for option in options:
        option(probe)
    names = [parameter.name for parameter in probe.__click_params__]  # type: ignore[attr-defined]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(**values: Any) -> Any:
            own = {name: values.pop(name) for name in names}
            return command(**{into: make(**own)}, **values)

        decorated: Callable[..., Any] = run
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add


def given(**values: Any) -> dict[str, Any]:
    """Return the options that were given: for the others, the library has its defaults."""
    nothing = (None, (), False)
    return {name: v for name, v in values.items() if not any(v is each for each in nothing)}


def standard_input() -> bytes:
    """Return all that standard input gives."""
    if sys.stdin is None:
        raise DataFileError("standard input", "is closed", cure="give the request itself")
    return sys.stdin.buffer.read()


def request_text(text: str) -> str:
    """Return a request, from standard input where it is a dash."""
    if text == "-":
        try:
            text = standard_input().decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise DataFileError("standard input", "not UTF-8", cure="send it as UTF-8") from exc
    if not text.strip():
        raise click.UsageError("The request is empty. Say what is needed.")
    return text.strip()


def _date(text: str | None) -> datetime.date | None:
    try:
        return None if text is None else parse_date("a date", text)
    except InputError as exc:
        raise click.BadParameter(f"{exc}.") from None


PROTOCOL = Registered(
    "Protocols",
    "cnp_router.protocols",
    "PROTOCOLS",
    completed=(
        "learned",
        "manager-led",
        "contractor-led",
        "collaborative",
        "hierarchical",
        "single-agent",
        "auto",
        "coordinated",
    ),
)
PROVIDER = Registered("Language models, for --llm", "cnp_router.llm", "PROVIDERS")

fitted_model = folder("--model", required=True, help="Folder of the model.")
router_model = folder("--model", help="Folder of a model.  [default: the bundled sample]")
request_argument = click.argument("text", callback=lambda _, __, text: request_text(text))
held_out = files("--history", "histories", required=True, help="Mashups the model has not seen.")
request_date = click.option(
    "--date",
    metavar="YYYY-MM-DD",
    callback=lambda _, __, text: _date(text),
    help="The day the request is asked.  [default: that of the newest past mashup]",
)
undated = click.option(
    "--undated",
    is_flag=True,
    help="Do not give the router the dates of the mashups, to see what they are worth.",
)
as_json = click.option("--json", "json_", is_flag=True, help="Print one JSON document instead.")


def _html(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Check the place of a report page before anything else is done."""
    if path is not None:
        from cnp_router.reports import check_html

        check_html(path)
    return path


html = file("--html", callback=_html, help="Write a report page there too, as one HTML file.")

threshold = share(
    "--threshold",
    default=0.6,
    show_default=True,
    help="How sure the router has to be, from 0 to 1: below this confidence --fallback decides. "
    "Higher, and it decides more often.",
)
target_recall = share(
    "--target-recall",
    type=Finite(0, 1, min_open=True, max_open=True),
    help="Ask as many as it takes to reach this share of the needed APIs on average. Higher, and "
    "more are asked.  [default: 0.9]",
)
top_k = count("--top-k", help="Ask the N most probable ones instead, whatever that reaches.")


def selection(target_recall: float | None, top_k: int | None) -> SelectionRule:
    """Return the rule that chooses the recipients."""
    from cnp_router.routing import TargetRecall, TopK

    if top_k is None:
        return TargetRecall() if target_recall is None else TargetRecall(target_recall)
    if target_recall is not None:
        raise click.UsageError("--target-recall and --top-k exclude each other.")
    return TopK(top_k)


all_fallbacks = functools.partial(
    choice,
    "--fallback",
    of=["none", "llm", "broadcast"],
    help="What to do below the threshold: keep what was learned (none), ask also those of the "
    "categories that a language model names (llm), or ask everyone (broadcast).",
)


def round_settings(
    *,
    target_recall: float | None,
    top_k: int | None,
    budget_tokens: int | None,
    budget_messages: int | None,
    waves: bool,
    **settings: Any,
) -> RoundSettings:
    """Return the settings that the options ask for; most have the name of their option."""
    from cnp_router.protocols import RoundSettings, TrafficBudget, Waves

    limited = budget_tokens is not None or budget_messages is not None
    return RoundSettings(
        select=selection(target_recall, top_k),
        budget=TrafficBudget(budget_tokens, budget_messages) if limited else None,
        waves=Waves() if waves else None,
        **settings,
    )


round_options = gathered(
    "settings",
    round_settings,
    target_recall,
    top_k,
    threshold,
    all_fallbacks(default="llm"),
    count(
        "--budget-tokens",
        help="Begin nothing that takes a round beyond so many tokens.  [default: no limit]",
    ),
    count("--budget-messages", help="Likewise for its messages.  [default: no limit]"),
    seconds(
        "--deadline",
        help="Ignore proposals later than this after the announcement.  [default: none is late]",
    ),
    seconds(
        "--bid-timeout",
        help="How long one contractor may take; then it has failed.  [default: no limit]",
    ),
    seconds(
        "--timeout",
        default=1800.0,
        show_default=True,
        help="How long a whole round may take, the manager included.",
    ),
    count(
        "--iterate",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="After the awards, ask at most N more, often used with what was awarded.",
    ),
    choice(
        "--evidence",
        of=["none", "manager", "everyone"],
        default="none",
        help="Who sees what the router knows of the routed contractors' APIs: probability and "
        "reason, on the call for proposals.",
    ),
    click.option(
        "--waves",
        is_flag=True,
        help="Call the recipients in waves, the most probable first, until enough is proposed, "
        "instead of all at once: fewer tokens, more time.",
    ),
)
max_size = count(
    "--max-size",
    help="The most APIs a contractor may hold; --organise size needs it.  [default: no limit]",
)
HOLDS = (
    "Which APIs a contractor holds: one each, those of a category, those often used together "
    "(community), or so many (size)."
)
ORGANISATIONS = ("api", "category", "community", "size")


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
prices = file("--prices", help="What tokens cost, by model, as JSON; say what was paid.")


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
