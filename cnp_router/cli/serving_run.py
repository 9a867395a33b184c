"""`Serving`: what `serve` opens, in each of its workers: router, sources, gateway, application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cnp_router.cli import llm_options
from cnp_router.cli.models import asked_router, online_file, reopened_router
from cnp_router.cli.output import counted, note
from cnp_router.cli.source_options import Origins
from cnp_router.exceptions import DataFileError, InputError, MissingExtraError
from cnp_router.kept_beside import SEARCHES_FILE

if TYPE_CHECKING:
    from cnp_router.context import SharedContext
    from cnp_router.serving import Renewal, SearchLog
    from cnp_router.serving.clients import Client, Clients
    from cnp_router.serving.gateway import Gateway
    from cnp_router.serving.workers import Worker
    from cnp_router.sources import Sources
    from cnp_router.training import LearnedRouter
    from cnp_router.training.dense_encoder import Encoder

__all__ = ["Decisions", "Door", "Serving"]


_NAMED = 3  # tools, of those that will be declined


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the options say of searches and calls."""

    k: int
    always: tuple[str, ...]
    allow_write: bool
    shadow: bool
    share: float | None
    call_timeout: float
    context: str | None
    context_ttl: float | None
    no_learn: bool
    model_check: float

    @property
    def acted_on(self) -> float:
        """The share of decisions that is acted on."""
        if self.shadow and self.share is not None:
            raise click.UsageError("--shadow and --share exclude each other.")
        return 0.0 if self.shadow else 1.0 if self.share is None else self.share / 100


@dataclass(frozen=True, slots=True)
class Door:
    """What the options say of HTTP; without it, standard input and output are the door."""

    http: bool
    host: str
    port: int
    workers: int
    token_env: str | None
    clients: Path | None
    timeout: float
    max_body: int
    max_concurrent: int
    grace: float
    log: bool

    def check(self) -> None:
        """Raise UsageError for options that do not go together."""
        from cnp_router.serving.http_limits import is_loopback

        context = click.get_current_context()
        for option in context.command.params:
            name = option.name or ""
            given = context.get_parameter_source(name) == ParameterSource.COMMANDLINE
            if given and name in self.__slots__ and not self.http:
                raise click.UsageError(f"{option.opts[0]} goes with --http.")
        if self.token_env and self.clients:
            raise click.UsageError("--token-env and --clients exclude each other.")
        if not (is_loopback(self.host) or self.host == "::1" or self.token_env or self.clients):
            raise click.UsageError(
                f"--host {self.host} is reached from other machines: give --token-env or --clients."
            )

    def who(self, allow_write: bool) -> Clients | None:
        """Return who may ask, by their tokens; None for whoever reaches it."""
        from cnp_router.serving.clients import Clients

        if self.clients is not None:
            return Clients.read(self.clients)
        if self.token_env is None:
            return None
        token = os.environ.get(self.token_env)
        if not token:
            raise InputError(f"--token-env: the environment has no {self.token_env!r} (set it)")
        return Clients.one(token, allow_write)


@contextmanager
def _silent(is_silent: bool) -> Iterator[None]:
    """Leave unsaid what is wrong with single sources: another worker says it."""
    logger = logging.getLogger("cnp_router.serving.open_tools")
    with warnings.catch_warnings():
        if is_silent:
            warnings.simplefilter("ignore")
        logger.disabled = is_silent
        try:
            yield
        finally:
            logger.disabled = False


def _without_secrets(place: str) -> str:
    """Return a place without what may be secret in a URL."""
    from cnp_router.llm.redaction import without_secrets

    said: str = without_secrets(place.partition("?")[0] if "://" in place else place)
    return said


@contextmanager
def _extra(purpose: str) -> Iterator[None]:
    """Name the extra where a library of it is not installed."""
    try:
        yield
    except ImportError as exc:
        package = str(exc.name).partition(".")[0]
        raise MissingExtraError(purpose, package=package, extra="serve") from exc


def _search_log(file: Path) -> SearchLog:
    from cnp_router.context.sqlite_file import is_refused
    from cnp_router.serving import SearchLog

    try:
        return SearchLog(file)
    except DataFileError as exc:
        if not is_refused(exc.__cause__):
            raise
        cure = "let the user who serves write to that folder, or serve with --no-learn"
        raise DataFileError(file, exc.problem, cure=cure) from exc


class _ToldToEndError(KeyboardInterrupt):
    """SIGTERM came. A SystemExit could be taken for that of a module that is just imported."""


def _end(*_: object) -> None:
    raise _ToldToEndError


@dataclass(frozen=True)
class Serving:
    """What each worker opens. It is pickled: it holds what was asked for, and no secret."""

    origins: Origins
    model: Path | None
    catalog: Path | None
    vectors: llm_options.Vectors
    decisions: Decisions
    door: Door

    def check(self) -> None:
        """Raise UsageError for options that do not go together."""
        self.door.check()
        _ = self.decisions.acted_on
        if self.catalog is not None and (self.origins or self.model):
            raise click.UsageError("--catalog excludes --model and sources.")

    def run(self) -> None:
        """Serve until it is told to end."""
        if self.door.http:
            self._over_http()
            return
        # Until MCP takes it itself; so that what was opened is closed, from the first moment.
        signal.signal(signal.SIGTERM, _end)
        try:
            with tempfile.TemporaryDirectory(prefix="cnp-router-") as folder:
                asyncio.run(self._over_stdio(Path(folder)))
        except _ToldToEndError:
            sys.exit(0)

    @asynccontextmanager
    async def __call__(self, worker: Worker) -> AsyncIterator[Any]:
        """Open the application of one worker."""
        from cnp_router.serving.http_front import app_of
        from cnp_router.serving.prometheus import Metrics, set_up_metrics

        set_up_metrics()
        many = worker.of > 1
        folder = worker.folder
        clients = self.door.who(self.decisions.allow_write)
        async with (
            self._gateway(folder, many=many, speaks=worker.number == 0) as gateway,
            Metrics(folder if many else None, worker.number) as metrics,
        ):
            if worker.number == 0 and not (said := folder / "said").exists():
                said.touch()  # not again by who takes its place
                self._say_what_is_served(gateway)
            yield app_of(gateway, clients, self.limits, anyone=self._anyone, metrics=metrics)

    @property
    def limits(self) -> Any:
        """The limits of one worker."""
        from cnp_router.serving.http_limits import Limits

        return Limits(
            max_body=self.door.max_body,
            max_concurrent=self.door.max_concurrent,
            timeout=self.door.timeout,
        )

    @property
    def _anyone(self) -> Client:
        from cnp_router.serving.clients import Client

        return Client(allow_write=self.decisions.allow_write)

    def _over_http(self) -> None:
        self.door.who(False)  # what is wrong with it is said once
        with _extra("--http"):
            import cnp_router.serving.http_front
            import cnp_router.serving.http_server  # noqa: F401
            from cnp_router.serving.workers import listen, serve_http
        sock = listen(self.door.host, self.door.port)
        host, port = sock.getsockname()[:2]
        place = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._say_start()
        serve_http(
            self,
            sock,
            workers=self.door.workers,
            limits=self.limits,
            grace=self.door.grace,
            log=self.door.log,
            ready=lambda: note(place, "Listening at"),
            ending=lambda: note("Ending ..."),
        )

    async def _over_stdio(self, folder: Path) -> None:
        with _extra("serving MCP"):
            from cnp_router.serving.mcp_front import serve_stdio
        if sys.stdin is not None and sys.stdin.isatty():
            note("MCP on standard input, for a program that starts this one; --http serves people.")
        self._say_start()
        async with self._gateway(folder, many=False) as gateway:
            self._say_what_is_served(gateway)
            try:
                await serve_stdio(gateway, self._anyone)
            finally:
                note("Ending ...")

    def _say_start(self) -> None:
        """Say what is opened, which takes a while."""
        origins = self.origins
        places = [*map(str, origins.files), *(each.place for each in origins.openapi + origins.a2a)]
        what = [f"the sources of {', '.join(map(_without_secrets, places))}"] if places else []
        what += [f"model {self.model}"] if self.model is not None else []
        what += [f"catalog {self.catalog}"] if self.catalog is not None else []
        note(f"Starting {' and '.join(what) or 'the bundled sample'} ...")

    def _say_what_is_served(self, gateway: Gateway) -> None:
        """Say in a line what is served and how, and what of it will be declined."""
        from cnp_router.sources.source import SEPARATOR

        asked, status = self.decisions, gateway.status()
        n_failed = list(status["sources"].values()).count("failed")
        said = counted(status["tools"], "tool")
        said += f" of {counted(len(status['sources']), 'source')}" if self.origins else ""
        facts = [said if self.origins else f"{said} to route to, none to call"]
        facts += [f"{n_failed} of the sources failed"] if n_failed else []
        facts += [counted(self.door.workers, "worker")] if self.door.http else []
        until = "learns until it ends" if self.model is None else f"learns into {self.model}"
        facts.append("learns nothing" if asked.no_learn else until)
        facts += [f"acts on {100 * asked.acted_on:g} %"] if asked.acted_on < 1 else []
        door = "page at /, MCP at /mcp" if self.door.http else "MCP on standard input and output"
        note(f"{', '.join(facts)}; {door}")
        unknown = [api.id for api in gateway.apis() if api.effects == "unknown"]
        if unknown and self.origins and not asked.allow_write:
            names = list(dict.fromkeys(name.partition(SEPARATOR)[0] for name in unknown))
            trust = " ".join(f"--trust {name}" for name in names)
            some = ", ".join(unknown[:_NAMED]) + (", ..." if len(unknown) > _NAMED else "")
            note(
                f"{counted(len(unknown), 'tool')} of {', '.join(names)} will be declined: nothing "
                f"that is believed says that they only read: {some} ({trust} believes servers that "
                "say it; or give effects in the file of sources)",
                "Warning",
            )

    @asynccontextmanager
    async def _gateway(
        self, folder: Path, *, many: bool, speaks: bool = True
    ) -> AsyncIterator[Gateway]:
        """Open sources and gateway; what has no place of its own is kept in the folder."""
        from cnp_router.serving import Gateway, GatewaySettings, Teaching

        asked = self.decisions
        settings = GatewaySettings(
            k=asked.k,
            always=asked.always,
            call_timeout=asked.call_timeout,
            allow_write=asked.allow_write,
            share=asked.acted_on,
        )
        # What is not learned from need not outlive the server, nor a model be writable for it.
        kept = folder if self.model is None or asked.no_learn else self.model
        # A worker that was started by another process has no command of its own.
        with click.Context(click.Command("serve")), contextlib.redirect_stdout(sys.stderr):
            async with contextlib.AsyncExitStack() as stack:
                encoder: Encoder | None = None

                def again() -> LearnedRouter:
                    assert self.model is not None
                    return reopened_router(self.model, encoder, observed=asked.no_learn)

                # Before it is loaded: what replaces it meanwhile is seen.
                renewal = self._renewal(again, speaks)
                with _silent(not speaks):
                    sources, router = await self._tools(stack)
                dense = router.encoders.dense
                encoder = None if dense is None else dense.encoder
                online = online_file(kept) if self.model else folder / "online.sqlite"
                teaching = None if asked.no_learn else Teaching(online, router)
                context = self._context(sources, folder, many=many)
                if context is not None:
                    await stack.enter_async_context(context)
                log = stack.enter_context(_search_log(kept / SEARCHES_FILE))
                gateway = Gateway(
                    router,
                    router.catalog,
                    sources,
                    settings=settings,
                    log=log,
                    teaching=teaching,
                    context=context,
                    renewal=renewal,
                )
                with _silent(not speaks):
                    await stack.enter_async_context(gateway)
                yield gateway

    def _renewal(self, load: Callable[[], LearnedRouter], speaks: bool) -> Renewal | None:
        """Return what looks whether the model was replaced; one of several workers says it."""
        from cnp_router.serving import Renewal

        every = self.decisions.model_check
        if self.model is None or not every:
            return None
        return Renewal(self.model, load, every=every, **{"said": note} if speaks else {})

    async def _tools(
        self, stack: contextlib.AsyncExitStack
    ) -> tuple[Sources | None, LearnedRouter]:
        """Return the sources, if there are any, and the router of what they have."""
        observed = self.decisions.no_learn  # otherwise who teaches reads it
        if not self.origins:
            router = asked_router(self.model, self.catalog, self.vectors, observed=observed)
            return None, router
        from cnp_router.cli.source_router import router_of

        sources = await stack.enter_async_context(self.origins.opened())
        say = bool  # nothing: the gateway asks them too, and says it
        return sources, await router_of(
            sources, self.model, self.vectors, observed=observed, say=say
        )

    def _context(
        self, sources: Sources | None, folder: Path, *, many: bool
    ) -> SharedContext | None:
        """Return what calls share, if anything: in the place that is named, or as long as this."""
        wanted = self.decisions.context or self.decisions.context_ttl
        if sources is None or wanted is None:
            return None
        from cnp_router.context import SharedContext, store_at
        from cnp_router.context.context_entry import TTL

        place = self.decisions.context or (str(folder / "context.sqlite") if many else None)
        store = None if place is None else store_at(place)
        ttl = self.decisions.context_ttl or TTL
        return SharedContext(store, ttl=ttl, classes=sources.classes)
