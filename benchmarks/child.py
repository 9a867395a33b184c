"""Measuring in a child process: its peak memory is its own, and nothing is warm from before."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["folder_bytes", "in_child", "peak_megabytes"]


def in_child(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Call a function in a new process and return its result.

    Raises
    ------
    RuntimeError
        If the process ends without a result.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, function, arguments))
    process.start()
    sender.close()
    try:
        return dict(receiver.recv())
    except EOFError:
        raise RuntimeError(f"{function.__name__}{arguments!r} failed (see above)") from None
    finally:
        process.join()


def peak_megabytes() -> float | None:
    """Return the peak memory of this process so far, if the system tells.

    Fitting uses threads. The children that the system counts are programs started for a moment
    (to count the cores, say), which are charged with a copy of this process.
    """
    try:
        import resource  # not on every system
    except ImportError:
        return None
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / unit


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _send(sender: Any, function: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> None:
    sender.send(function(*arguments))
    sender.close()
