"""Progress of a long step: on standard error, at a terminal, and only after a second."""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING, Self

from cnp_router.cli.output import console
from cnp_router.printing import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_PATIENCE = 1.0  # seconds


class Progress:
    """A bar that vanishes at the end. Call it with each step done."""

    def __init__(self, title: str) -> None:
        self._title = title
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
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


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
    bar.add_task(said)
    bar.start()
    return bar
