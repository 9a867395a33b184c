"""Progress of a long step, on standard error: at a terminal, and after a second or at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Self

from cnp_router.cli.output import console, note
from cnp_router.printing import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_PATIENCE = 1.0  # seconds
_TICK = 0.2  # seconds


class Progress:
    """A bar that vanishes at the end. Call it with each step done.

    It comes when the step has taken a second. Where it is to come `at_once`, it does, and where
    there is no terminal, a line says what is done now.
    """

    def __init__(self, title: str, *, at_once: bool = False) -> None:
        self._title = title
        self._at_once = at_once
        self._start = monotonic()
        self._bar: Bar | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how far it is, if it is time to."""
        said = printable(f"{self._title}: {stage}")
        if self._bar is None:
            if not sys.stderr.isatty() or monotonic() < self._start + _PATIENCE:
                return
            self._bar = _started(said)
        task = self._bar.task_ids[0]
        self._bar.update(task, description=said, completed=done, total=total or None)

    def __enter__(self) -> Self:
        if self._at_once and sys.stderr.isatty():
            self._bar = _started(printable(self._title))
        elif self._at_once:
            note(f"{self._title} ...")
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


@asynccontextmanager
async def ticking(
    progress: Progress, state: Callable[[], tuple[str, int, int]]
) -> AsyncIterator[None]:
    """Show stage, done and total several times a second, while something is awaited."""

    async def tick() -> None:
        while True:
            await asyncio.sleep(_TICK)
            progress(*state())

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _started(said: str) -> Bar:
    from rich import progress

    bar = progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        console=console(sys.stderr),
        transient=True,
    )
    bar.add_task(said, total=None)
    bar.start()
    return bar
