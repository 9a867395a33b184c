"""Processes that do parts of the work, started from a process that is not the first one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import types
import warnings
from pathlib import Path

import joblib
import pytest
import threadpoolctl
from cluster_tasks import slow

from cnp_router.catalog import Api, Catalog
from cnp_router.pool import LocalPool, one_thread
from cnp_router.training import fit_router


def share_out(backend, seconds):
    with joblib.parallel_config(backend):
        found = list(LocalPool(2).each(slow, [seconds] * 4, shared="x"))
    assert found == [("x", seconds)] * 4


@pytest.mark.parametrize(("backend", "seconds"), [("loky", 0.5), ("loky", 0), ("threading", 0)])
def test_a_process_of_multiprocessing_ends_with_its_own(backend, seconds, capfd):
    """It waits for joblib's processes at its end, and these wait five minutes for more work."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=share_out, args=[backend, seconds])
    process.start()
    process.join(120)
    try:
        assert process.exitcode == 0
    finally:
        process.kill()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="there, a parent that is gone is not told")
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL], ids=lambda by: by.name)
def test_processes_end_when_the_one_that_started_them_is_killed(by, tmp_path):
    """They would wait for it: each holds the pipe open that another writes to."""
    code = (
        "import cluster_tasks, cnp_router.pool, sys\n"
        "pool, work = cnp_router.pool.LocalPool(2), cluster_tasks.named_and_slow\n"
        "list(pool.each(work, range(99), sys.argv[1]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), "."])},
    )
    try:
        assert eventually(lambda: len(list(tmp_path.iterdir())) == 2)
    finally:
        process.send_signal(by)
        process.wait()
    workers = [int(file.name) for file in tmp_path.iterdir()]
    assert eventually(lambda: not any(map(is_there, workers)))


def eventually(holds):
    until = time.monotonic() + 60
    while not holds() and time.monotonic() < until:
        time.sleep(0.1)
    return holds()


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that has ended, and that nobody has asked about, still has its number.
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text("ascii").rpartition(")")[2].split()[0] != "Z"


class Libraries:
    """Of linear algebra, which take a limit or do not."""

    def __init__(self, n_threads: int = 1) -> None:
        self.given: list[int] = []
        algebra = types.SimpleNamespace(user_api="blas", num_threads=n_threads)
        self.lib_controllers = [algebra, types.SimpleNamespace(user_api="openmp", num_threads=2)]

    def limit(self, limits: int) -> Libraries:
        self.given.append(limits)
        return self

    def restore_original_limits(self) -> None:
        self.given.pop()


def test_algebra_has_its_threads_again_when_the_last_who_works_is_done(monkeypatch):
    libraries = Libraries()
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", lambda: libraries)
    for _ in range(2):
        with one_thread:
            with one_thread:
                assert libraries.given == [1]
            assert libraries.given == [1]
        assert libraries.given == []


@pytest.mark.parametrize("n_threads", [1, 2])
def test_algebra_that_keeps_its_threads_is_said(monkeypatch, caplog, n_threads):
    """As that of OpenBLAS does in a thread, once another one has set their number."""
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", lambda: Libraries(n_threads))
    caplog.set_level("INFO", "cnp_router")
    fit_router(Catalog([Api("rain", "Rain")]))
    warned = [each for each in caplog.messages if each.endswith("(set OMP_NUM_THREADS=1)")]
    assert len(warned) == n_threads - 1


def test_who_gives_up_what_is_at_work_is_not_warned_of_it():
    found = LocalPool(2).each(slow, [0.0, *[0.3] * 9], "s")
    assert next(found) == ("s", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.close()
