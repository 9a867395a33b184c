"""A live view of an execution at a terminal: its jobs, who acts, and for how long."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Self

from cnp_router.cli.output import console, note
from cnp_router.printing import printable

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from cnp_router.execution import Approval, Approve, JobEvent
    from cnp_router.planning.proven import Offer, OfferPlan

_VERBS = {
    "repeat": "Have it done all the same, by this tool or another one",
    "permission": "Call it once more, now that the right is there",
}
_ENDS = ("done", "failed", "skipped", "cancelled")
_TEXT = 60
_LONGEST = 20_000  # characters of inputs that a person is shown


@dataclass(slots=True)
class _Line:
    """A job in the view."""

    state: str
    api: str
    text: str
    began: float
    asked: int = 0
    ended: float | None = None


class LiveView:
    """Shows `JobEvent`s on standard error as they come, where that is a terminal.

    It vanishes at the end, and while a person is asked.
    """

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._live: Live | None = None

    def __call__(self, event: JobEvent) -> None:
        """Show an event."""
        line = self._lines.setdefault(event.job, _Line("", "", "", monotonic()))
        line.state, line.text = event.state, event.text
        line.api, line.asked = event.api or line.api, event.asked
        if event.state in _ENDS and line.ended is None:
            line.ended = monotonic()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    async def approve(self, approval: Approval) -> bool:
        """Ask at the terminal whether something may be called; the real tool and inputs are shown.

        Anything but y or yes is a no. So are inputs that are too large to be shown whole.
        """
        size = len(_json(approval))
        if size > _LONGEST:
            note(
                f"job {approval.job}: the inputs of {approval.api.id} have {size:,} characters, "
                "too many to be shown and approved here (--allow-write, or approve from Python)",
                "Warning",
            )
            return False
        self._stop()
        try:
            _drop_typed()  # what was typed before the question is no answer to it
            for line in question(approval):
                note(line)
            answer = await _read_line()
        finally:
            self._start()
        return answer.strip().lower() in ("y", "yes")

    async def offer(self, offer: Offer) -> bool:
        """Ask at the terminal whether a plan that has worked is run; it is shown."""
        self._stop()
        try:
            _drop_typed()
            for line in offer_lines(offer):
                note(line)
            note("Run this plan? Otherwise the planner makes one. [y/N]")
            answer = await _read_line()
        finally:
            self._start()
        return answer.strip().lower() in ("y", "yes")

    def _start(self) -> None:
        if sys.stderr.isatty():
            from rich.live import Live

            # Each time anew: one that goes on would wipe out what was asked meanwhile.
            self._live = Live(
                get_renderable=self._table,
                console=console(sys.stderr),
                refresh_per_second=8,
                transient=True,
            )
            self._live.start()

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for title in ("job", "state", "asked", "API", "s", ""):
            table.add_column(title, overflow="ellipsis", no_wrap=True)
        for job, line in self._lines.items():
            seconds = (line.ended or monotonic()) - line.began
            asked = str(line.asked or "")
            cells = (job, line.state, asked, line.api, f"{seconds:.1f}", line.text)
            table.add_row(*(Text(printable(cell, _TEXT)) for cell in cells))
        return table


def question(approval: Approval) -> list[str]:
    """Return what a person is asked, as lines."""
    inputs = _json(approval)
    return [
        f"Job {approval.job}: {approval.reason}.",
        *(f"  {'inputs' if n == 0 else '':6}  {line}" for n, line in enumerate(inputs.split("\n"))),
        f"  tool    {approval.api.id} ({approval.api.effects})",
        f"{_VERBS.get(approval.why, 'Call it')}? [y/N]",
    ]


def offer_lines(offer: Offer) -> list[str]:
    """Return what is said of a plan that has worked, as lines."""
    drawn = offer.plan.draw(console(sys.stderr).width).split("\n")
    differs = "; ".join(offer.differs) or "nothing"
    before = f"A plan has worked for {offer.before!r}."
    return [before, f"What differs: {differs}.", *(f"  {line}" for line in drawn)]


def plan_offer(view: LiveView, *, always: bool) -> OfferPlan:
    """Return who decides on a plan that has worked: the option, or the person at the terminal."""
    asks = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    async def offer(offer: Offer) -> bool:
        if always:
            for line in offer_lines(offer):
                note(line)
            return True
        if asks:
            return await view.offer(offer)
        note(f"a plan has worked for {offer.before!r} (--proven runs it); planning anew")
        return False

    return offer


def _json(approval: Approval) -> str:
    return json.dumps(dict(approval.inputs), ensure_ascii=False, indent=1)


def _drop_typed() -> None:
    if sys.platform != "win32":
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _read_line() -> str:
    """Return the next line that is typed. It can be cancelled, as a thread that reads cannot."""
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
    if sys.platform == "win32":
        return await asyncio.to_thread(sys.stdin.readline)
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        line = os.read(descriptor, 4096).decode("utf-8", "replace")
        if not typed.done():
            typed.set_result(line if line.endswith("\n") else "")  # cut off by Ctrl-D: no answer

    loop.add_reader(descriptor, read)
    try:
        return await typed
    finally:
        loop.remove_reader(descriptor)


def approver(view: LiveView, *, allow_write: bool) -> Approve | None:
    """Return who approves: the option, the person at the terminal, or nobody."""
    from cnp_router.execution import allow_writes

    asks = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    async def approve(approval: Approval) -> bool:
        if allow_write and allow_writes(approval):
            return True
        return await view.approve(approval)

    if asks:
        return approve
    return allow_writes if allow_write else None
