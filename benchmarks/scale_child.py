"""A step of `scale` in a fresh process, with limits of time and memory: it fails alone."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.processes import descendants, megabytes

__all__ = ["limited"]

_ROOT = Path(__file__).resolve().parents[1]
_LOOK = 0.2  # seconds between looks at the process
_SAID = 300  # characters of an error


def limited(
    function: str, *arguments: Any, seconds: float, gigabytes: float | None = None
) -> dict[str, Any]:
    """Call a function in a new process; return its result, or ``{"failed": why}``.

    Parameters
    ----------
    function : str
        As ``module:name``. It returns an object of JSON.
    *arguments : object
        What it is called with: whatever can be pickled.
    seconds : float
        When it is ended, with all processes that it started.
    gigabytes : float, optional
        Of resident memory of all its processes, without mapped files, beyond which it is ended;
        looked at where the system tells (Linux).

    Examples
    --------
    >>> limited("operator:truth", 1, seconds=60)["result"]
    True
    """
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "given", Path(folder) / "answer"
        given.write_bytes(pickle.dumps((function, arguments)))
        command = [sys.executable, "-m", "benchmarks.scale_child", str(given), str(answer)]
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        began = time.perf_counter()
        child = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            failed = _watched(child, began + seconds, gigabytes)
        finally:
            _end(child)
        taken = time.perf_counter() - began
        if failed is None and answer.exists():
            found = json.loads(answer.read_text())
        else:
            found = {"failed": failed or f"ended with exit code {child.returncode}"}
    return {**found, "step_seconds": taken}


def _watched(child: subprocess.Popen[bytes], end: float, gigabytes: float | None) -> str | None:
    """Wait for a process; return why it must not go on, or None if it has ended."""
    began = time.perf_counter()
    while True:
        try:
            child.wait(_LOOK)
            return None
        except subprocess.TimeoutExpired:
            pass
        if time.perf_counter() > end:
            return f"not done within {end - began:.0f} s"
        if gigabytes is not None:
            family = [child.pid, *descendants(child.pid)]
            if sum(megabytes(pid, mapped=False) for pid in family) / 1000 > gigabytes:
                return f"more than {gigabytes:g} GB of memory"


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _work(given: Path, answer: Path) -> None:
    function, arguments = pickle.loads(given.read_bytes())
    module, _, name = function.partition(":")
    try:
        result = getattr(importlib.import_module(module), name)(*arguments)
    except Exception as exc:  # whatever it is, it is reported
        said = f"{type(exc).__name__}: {exc}"
        result = {"failed": said if len(said) <= _SAID else f"{said[:_SAID]}..."}
    if not isinstance(result, dict):
        result = {"result": result}
    answer.write_text(json.dumps(result))


if __name__ == "__main__":
    _work(Path(sys.argv[1]), Path(sys.argv[2]))
