"""The same router, bit for bit, from the workers of a cluster."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from vectors_by_letters import letters

from cnp_router.datasets import load_sample
from cnp_router.exceptions import InputError
from cnp_router.history import History
from cnp_router.training import encoders, examples, fit_router, splits


def arrays(router: Any, folder: Any) -> dict[str, str]:
    router.save(folder)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return {name: file["sha256"] for name, file in manifest["files"].items()}


@pytest.fixture(scope="module")
def few() -> Any:
    """Enough for trees, and for no more than some seconds."""
    sample = load_sample()
    return sample.catalog, History(sample.history[:120])


@pytest.fixture(autouse=True)
def few_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "LITTLE_FOLDS", 4)


def test_a_worker_is_killed_in_the_middle(local_cluster, few, tmp_path):
    """It is the same router all the same."""
    steps: list[Any] = []
    killed: list[int] = []

    def note(stage: str, done: int, total: int) -> None:
        steps.append((stage, done, total))
        if stage == "folds" and done > 1 and not killed:
            killed.append(next(iter(local_cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    router = fit_router(*few, scheduler=local_cluster.scheduler_address, progress=note)
    assert killed
    assert arrays(router, tmp_path / "others") == arrays(fit_router(*few), tmp_path / "alone")
    done = [done for _, done, _ in steps]
    assert done == sorted(done)
    assert steps[-1] == ("done", 7, 7)


def test_splits_that_share_views(local_cluster, tmp_path, monkeypatch):
    """As of a long history, of which some hide part of what was used, and texts are sampled."""
    monkeypatch.setattr(splits, "FEW", 500)
    monkeypatch.setattr(encoders, "MAX_SAMPLED", 400)
    monkeypatch.setattr(examples, "_BATCHES", 1)
    sample = load_sample()
    monkeypatch.setattr(splits, "HIDDEN_SHARES", (0.0, 0.2))  # each asks more than two batches
    catalog, history = sample.catalog, History(replace(m, date=None) for m in sample.history[:560])
    alone = fit_router(catalog, history)
    others = fit_router(catalog, history, scheduler=local_cluster.scheduler_address)
    assert arrays(others, tmp_path / "b") == arrays(alone, tmp_path / "a")


def test_an_encoder_goes_along(local_cluster, few, tmp_path):
    catalog, history = few
    how = {"encoder": letters}
    alone = fit_router(catalog, history[:20], **how)
    others = fit_router(catalog, history[:20], scheduler=local_cluster.scheduler_address, **how)
    assert arrays(others, tmp_path / "b") == arrays(alone, tmp_path / "a")


def test_an_encoder_that_cannot(local_cluster, few, caplog):
    class Held:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __call__(self, texts: list[str]) -> Any:
            return np.ones((len(texts), 2))

    said = (
        r"cannot be sent to other processes: .* pickle .{,80} \(an encoder or a router of your own"
    )
    with pytest.raises(InputError, match=said):
        fit_router(few[0], scheduler=local_cluster.scheduler_address, encoder=Held())
    assert not [r for r in caplog.records if r.levelno > logging.INFO]  # they show past requests
    router = fit_router(few[0], encoder=Held())
    with pytest.raises(InputError, match=said):
        router.route_many(["rain"] * 1200, n_jobs=2)


def test_a_catalog_alone(local_cluster, few, tmp_path):
    alone = fit_router(few[0])
    others = fit_router(few[0], scheduler=local_cluster.scheduler_address)
    assert arrays(others, tmp_path / "b") == arrays(alone, tmp_path / "a")
