"""Measuring in a child process: its peak memory is its own, and nothing is warm from before."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from cnp_router.routing import Router

__all__ = ["fitted", "in_child", "peak_megabytes"]


def in_child(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Call a function in a new process and return its result, or raise its error."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def fitted(fit: Callable[[], Router]) -> tuple[Router, dict[str, Any]]:
    """Fit a router; return it, and what that and the saved model cost (None: not known)."""
    before, start = peak_megabytes(), time.perf_counter()
    router = fit()
    seconds, peak, saved = time.perf_counter() - start, peak_megabytes(), None
    save: Callable[[Path], object] | None = getattr(router, "save", None)
    if save is not None:
        with tempfile.TemporaryDirectory() as folder:
            save(Path(folder) / "model")
            files = (file for file in Path(folder).rglob("*") if file.is_file())
            saved = sum(file.stat().st_size for file in files) / 1e6
    return router, {
        "fit_seconds": seconds,
        "peak_megabytes": peak,
        "fit_megabytes": None if peak is None or before is None else peak - before,
        "model_megabytes": saved,
    }


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
