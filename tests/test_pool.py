"""Processes that do parts of the work, started from a process that is not the first one."""

from __future__ import annotations

import multiprocessing

import joblib
import pytest
from cluster_tasks import slow

from cnp_router.pool import LocalPool


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
