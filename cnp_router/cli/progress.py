"""Progress of a long step: on standard error, at a terminal, and only after a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from cnp_router.cli.output import clipped, terminal_width

__all__ = ["Progress"]

_PATIENCE = 1.0  # seconds
_PAUSE = 0.1  # seconds between two updates


class Progress:
    """One line that is written over and vanishes at the end. Call it with each step done.

    Parameters
    ----------
    title : str
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._stream = sys.stderr
        self._start = time.monotonic()
        self._last = self._start + _PATIENCE - _PAUSE
        self._shown = False

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how far it is, if it is time to."""
        now = time.monotonic()
        if now < self._last + _PAUSE or not self._stream.isatty():
            return
        self._last, self._shown = now, True
        share = f" {done}/{total}" if total else ""
        line = f"{self._title}: {stage}{share} ({now - self._start:.0f} s)"
        self._write("\r\x1b[K" + clipped(line, terminal_width() - 1))

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
