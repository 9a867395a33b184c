"""Serves with two workers, some of which fail: ``python workers_that_fail.py WHAT``."""

from __future__ import annotations

import asyncio
import logging
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.serving import workers
from cnp_router.serving.workers import ServerEndedError, Worker, listen, serve_http


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Nothing but a start and an end."""
    for step in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{step}.complete"})


@dataclass(frozen=True)
class Make:
    """Opens what does nothing; or fails in the worker that is named."""

    what: str

    @asynccontextmanager
    async def __call__(self, worker: Worker) -> AsyncIterator[Any]:
        if self.what == f"raise {worker.number}":
            raise RuntimeError("not foreseen")
        if self.what == f"refuse {worker.number}":
            raise InputError("it is refused (why not)")
        if self.what == f"leave {worker.number}":
            os._exit(3)
        if self.what == "slow" and worker.number == 1:
            await asyncio.sleep(0.5)
        Path(f"{worker.number}-{os.getpid()}").touch()
        yield app


def no_process(at: int) -> None:
    """Have the system refuse one start."""
    start, n_starts = SpawnProcess.start, 0

    def refused(self: SpawnProcess) -> None:
        nonlocal n_starts
        n_starts += 1
        if n_starts == at:
            raise OSError(11, "Resource temporarily unavailable")
        start(self)

    SpawnProcess.start = refused  # type: ignore[method-assign]


def kill_one(and_wait: bool) -> None:
    """Kill a worker, wait until another has its place if there can be one, and end."""
    killed = multiprocessing.active_children()[0]
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    until = time.monotonic() + 20
    while and_wait and len(begun()) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0 if and_wait else 0.7)
    os.kill(os.getpid(), signal.SIGTERM)


def begun() -> list[int]:
    """Return the numbers of the workers that began, with those that took a place."""
    return sorted(int(path.name.partition("-")[0]) for path in Path().glob("[01]-*"))


def main(what: str) -> None:
    """Serve, and print when it listens and how it ends."""
    logging.basicConfig(format="Warning: %(message)s", stream=sys.stdout)
    # Whoever ends has not lived for long, however busy the machine was until it began to serve.
    workers._LEAST_LIFE = math.inf
    if what.startswith("no process"):
        no_process(int(what[-1]))

    def ready() -> None:
        sys.stdout.write(f"listening: {begun()}\n")
        if what == "no process 3":
            threading.Thread(target=kill_one, args=(True,)).start()
        elif what == "end while a place is empty":
            no_process(1)
            threading.Thread(target=kill_one, args=(False,)).start()
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        serve_http(Make(what), listen("127.0.0.1", 0), workers=2, grace=1, ready=ready)
    except ServerEndedError as exc:
        sys.stdout.write(f"Error: {exc}\n")
    sys.stdout.write(f"left: {len(multiprocessing.active_children())} {len(begun())}\n")


if __name__ == "__main__":
    main(sys.argv[1])
