"""`serve_http`: one process, or several that share a socket, until they are told to end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from cnp_router.exceptions import CnpRouterError, InputError
from cnp_router.printing import printable
from cnp_router.serving.http_limits import ACCESS_LOG, Limits

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    import uvicorn

__all__ = ["ServerEndedError", "Worker", "listen", "serve_http"]

_LOGGER = logging.getLogger(__name__)
_BACKLOG = 2048
_LEAST_LIFE = 5.0  # seconds; who ends sooner is replaced more and more slowly
_LONGEST_WAIT = 30.0
_CLOSING = 15.0  # seconds beyond the grace to close sources and write what was learned
_TICK = 0.2
_ANSWERS = ""  # what a worker says when it does; else why it has failed


class ServerEndedError(CnpRouterError):
    """A worker could not begin."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One of the processes that serve.

    Parameters
    ----------
    number : int
        From 0; who takes the place of one that was killed has the same.
    of : int
        How many there are.
    folder : Path
        A private one that all of them share, gone when they have ended.
    """

    number: int
    of: int
    folder: Path


Make = Callable[[Worker], AbstractAsyncContextManager[Any]]
"""Opens an application; it is pickled where there are several workers."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 stands for any that is free.

    Raises
    ------
    InputError
        If that is not possible, as where the port is in use.

    Examples
    --------
    >>> with listen("127.0.0.1", 0) as sock:
    ...     sock.getsockname()[0]
    '127.0.0.1'
    """
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
        family, kind, protocol, _, address = found[0]
        sock = socket.socket(family, kind, protocol)
        try:
            if sys.platform != "win32":  # there it would share the port with whoever has it
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(_BACKLOG)
        except BaseException:
            sock.close()
            raise
    except (OSError, OverflowError, UnicodeError) as exc:
        said = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        cure = "choose another port, or 0 for any" if port else "choose another host"
        raise InputError(f"cannot listen at {host}:{port}: {said} ({cure})") from exc
    sock.setblocking(False)
    return sock


def serve_http(
    make: Make,
    sock: socket.socket,
    *,
    workers: int = 1,
    limits: Limits | None = None,
    grace: float = 10.0,
    log: bool = False,
    ready: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then end gracefully.

    Nothing new is taken then; requests that are being answered have so many seconds. A worker that
    ends by itself, or is killed, is replaced; all of them end with this process, however it ends.

    Parameters
    ----------
    make : callable
        From a `Worker` to an async context manager that gives an application of ASGI.
    sock : socket
        That of `listen`; it is closed.
    workers : int, default=1
        One serves in this process.
    limits : Limits, default=Limits()
    grace : float, seconds, default=10.0
    log : bool, default=False
        Whether each request is a line on standard error.
    ready : callable
        Is called once, when every worker answers requests.
    ending : callable
        Is called once, when it was told to end.

    Raises
    ------
    ServerEndedError
        If one of several workers could not begin; a single one raises its own error.
    """
    how = _How(make, sock, limits or Limits(), grace, log)
    with sock:
        folder = Path(tempfile.mkdtemp(prefix="cnp-router-"))
        try:
            if workers == 1:
                how.set_up_log()
                asyncio.run(_serve(how, Worker(0, 1, folder), ready, ending))
            else:
                _Supervisor(how, workers, folder).run(ready, ending)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _How:
    make: Make
    sock: socket.socket
    limits: Limits
    grace: float
    log: bool

    def set_up_log(self) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        if self.log:
            access = logging.getLogger(ACCESS_LOG)
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
            access.addHandler(handler)
            access.setLevel(logging.INFO)
            access.propagate = False


async def _serve(
    how: _How,
    worker: Worker,
    ready: Callable[[], None],
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve in this process until a signal says otherwise."""
    from cnp_router.serving.http_server import http_server

    server: uvicorn.Server | None = None
    this = asyncio.current_task()
    ended = False

    def end() -> None:
        nonlocal ended
        if not ended:
            ending()
        if server is not None:
            server.force_exit = server.should_exit
            server.should_exit = True
        elif this is not None and not ended:
            this.cancel()
        ended = True

    loop = asyncio.get_running_loop()
    taken = [signal.SIGTERM] if worker.of > 1 else [signal.SIGTERM, signal.SIGINT]
    for each in taken:
        with contextlib.suppress(NotImplementedError):  # Windows: there it is an interruption
            loop.add_signal_handler(each, end)
    try:
        async with how.make(worker) as app:
            server = http_server(app, how.limits, grace=how.grace, ready=ready)
            await server.serve([how.sock])
            for task in (left := set(server.server_state.tasks)):
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=1)
    except asyncio.CancelledError:
        if not ended:
            raise
    finally:
        for each in taken:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(each)


class _OneLine(logging.Formatter):
    """As the command line says what is no result."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.capitalize()}: {printable(record.getMessage())}"


def _work(how: _How, worker: Worker, report: Connection) -> None:
    """Be one of several workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent passes it on, as SIGTERM
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    logging.getLogger("cnp_router").addHandler(handler)
    how.set_up_log()
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(how.grace + _CLOSING)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        asyncio.run(_serve(how, worker, lambda: report.send(_ANSWERS)))
    except CnpRouterError as exc:
        with contextlib.suppress(OSError):  # the parent is gone
            report.send(str(exc))
        sys.exit(1)
    finally:
        if not parent.is_alive():
            shutil.rmtree(worker.folder, ignore_errors=True)


class _Child:
    """One worker, as its parent sees it."""

    def __init__(self, how: _How, worker: Worker) -> None:
        self.how, self.worker = how, worker
        self.name = f"worker {worker.number}"
        self.wait = 0.0  # before it is replaced
        self.start()

    def start(self) -> None:
        """Begin; OSError if the system has no process for it."""
        context = multiprocessing.get_context("spawn")
        report, end = context.Pipe(duplex=False)
        with end:
            process = context.Process(
                target=_work, args=(self.how, self.worker, end), name=self.name
            )
            try:
                process.start()
            except BaseException:
                report.close()
                raise
        self.process: SpawnProcess | None = process
        self.report = report
        self.began = time.monotonic()
        self.ended: float | None = None
        self.answers = False
        self.is_silent = False  # it has ended, or is about to
        self.why = ""  # the error with which it failed

    def hear(self) -> None:
        """Take what it says: that it answers, or why it has failed."""
        try:
            while not self.is_silent and self.report.poll():
                self.why = self.report.recv()
                self.answers = self.why == _ANSWERS
        except (EOFError, OSError):
            self.is_silent = True

    def reason(self) -> str:
        """Return why it has ended."""
        self.hear()
        assert self.process is not None
        self.process.join(1)
        return self.why or f"exit code {self.process.exitcode}"

    def sentinels(self) -> list[int]:
        """Return what is ready to be read when it ends; nothing if it has ended."""
        if self.process is None or self.ended is not None:
            return []
        return [self.process.sentinel]

    def look(self) -> None:
        """Replace it if it has ended, some time later if it ended soon."""
        now = time.monotonic()
        if self.ended is None:
            assert self.process is not None
            if self.process.is_alive():
                return
            self.ended = now
            self.wait = 0.0 if now - self.began > _LEAST_LIFE else self.longer()
            _LOGGER.warning("%s has ended: %s; another begins", self.name, self.reason())
        if now - self.ended >= self.wait:
            self.close()
            try:
                self.start()
            except OSError as exc:
                self.ended, self.wait = now, self.longer()
                problem = "%s cannot begin: %s; it is tried again in %g s"
                _LOGGER.warning(problem, self.name, exc, self.wait)

    def longer(self) -> float:
        return min(max(2 * self.wait, 0.5), _LONGEST_WAIT)

    def terminate(self) -> None:
        if self.process is not None:
            self.process.terminate()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def close(self) -> None:
        """Forget a process that has ended."""
        if self.process is not None:
            self.report.close()
            self.process.join()
            self.process.close()
            self.process = None


class _Supervisor:
    """Starts the workers, replaces those that end, and ends them."""

    def __init__(self, how: _How, workers: int, folder: Path) -> None:
        self.how = how
        self.places = [Worker(number, workers, folder) for number in range(workers)]
        self.children: list[_Child] = []
        self.n_signals = 0

    def run(self, ready: Callable[[], None], ending: Callable[[], None]) -> None:
        """Serve until a signal comes."""
        kept = {each: signal.signal(each, self._noted) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            # What the first one finds out, as which definitions are accepted, the others share.
            if self._begin(self.places[:1]) and self._begin(self.places[1:]):
                ready()
            while not self.n_signals:
                wait([each for child in self.children for each in child.sentinels()], _TICK)
                for child in self.children:
                    child.look()
            ending()
        finally:
            self._end()
            for each, handler in kept.items():
                signal.signal(each, handler)

    def _noted(self, signum: int, frame: FrameType | None) -> None:
        self.n_signals += 1

    def _begin(self, places: list[Worker]) -> bool:
        """Start workers and wait until all answer; return False where a signal came first."""
        for place in places:
            try:
                self.children.append(_Child(self.how, place))
            except OSError as exc:
                raise ServerEndedError(f"worker {place.number} cannot begin: {exc}") from exc
        while not self.n_signals:
            for child in self.children:
                child.hear()
                if child.why or child.is_silent:
                    why = child.why or f"{child.name} has ended: {child.reason()}"
                    raise ServerEndedError(why)
            if all(child.answers for child in self.children):
                return True
            wait([child.report for child in self.children], _TICK)
        return False

    def _end(self) -> None:
        """End all workers: asked first, then not."""
        for child in self.children:
            child.terminate()
        until = time.monotonic() + self.how.grace + _CLOSING
        asked = self.n_signals
        while running := [
            c.process.sentinel for c in self.children if c.process and c.process.is_alive()
        ]:
            if time.monotonic() > until or self.n_signals > asked:
                for child in self.children:
                    child.kill()
            wait(running, _TICK)
        for child in self.children:
            child.close()
