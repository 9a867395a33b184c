"""Folders of models: the fitted router in them, and what was observed beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli.cache import sample_router
from cnp_router.exceptions import ModelNotFoundError
from cnp_router.kept_beside import ONLINE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cnp_router.catalog import Api
    from cnp_router.cli.llm_options import Vectors
    from cnp_router.history import History, UnknownPolicy
    from cnp_router.llm import ChatModel
    from cnp_router.pool import Pool
    from cnp_router.prediction import NextToolPolicy, NextToolRouter
    from cnp_router.training import LearnedRouter
    from cnp_router.training.dense_encoder import Encoder


def online_file(model: Path) -> Path:
    """Return where to write what is observed: in the folder of a model, or in a new one."""
    from cnp_router.storage import check_place

    file = model / ONLINE_FILE
    if not file.exists():
        check_place(model)
    return file


def fitted_router(
    model: Path | None, vectors: Vectors | None = None, *, observed: bool = True
) -> LearnedRouter:
    """Return the router of a folder, or of the sample; it knows what was `observed` there."""
    from cnp_router.training import load_router

    if model is None:
        if vectors is not None and vectors.encoder:
            raise click.UsageError("--encoder needs --model: the bundled sample has none.")
        return sample_router()
    router = load_router(model, **vectors.made(model) if vectors else {})
    return _with_observed(router, model if observed else None)


def reopened_router(
    model: Path, encoder: Encoder | None, *, observed: bool = True
) -> LearnedRouter:
    """Return the router of a folder once more, by the encoder that it was opened with before."""
    from cnp_router.training import load_router

    return _with_observed(load_router(model, encoder=encoder), model if observed else None)


def _with_observed(router: LearnedRouter, model: Path | None) -> LearnedRouter:
    if model is not None and (model / ONLINE_FILE).exists():
        from cnp_router.online import OnlineStore, RouterObserver

        OnlineStore(model / ONLINE_FILE, [RouterObserver(router)], read_only=True)
    return router


def asked_router(
    model: Path | None, catalog: Path | None, vectors: Vectors, *, observed: bool = True
) -> LearnedRouter:
    """Return the router of a folder, or one of a catalog alone, or that of the sample."""
    if catalog is None:
        return fitted_router(model, vectors, observed=observed)
    if model is not None:
        raise click.UsageError("--model and --catalog exclude each other.")
    from cnp_router.catalog import Catalog
    from cnp_router.training import fit_router

    return fit_router(Catalog.read(catalog), **vectors.made())


def next_tool_router(
    model: Path, policy: NextToolPolicy, asked: ChatModel | None
) -> NextToolRouter:
    """Return a router of next tools that knows what has been observed.

    The model that it asks, if any, chooses among that and the APIs of the fitted model. Those that
    were removed from the fitted model's catalog are excluded.
    """
    from cnp_router.online import OnlineStore
    from cnp_router.prediction import NextToolRouter
    from cnp_router.storage import is_model, summary_of

    fitted, observed = is_model(model), (model / ONLINE_FILE).exists()
    if not (fitted or observed):
        raise ModelNotFoundError(f"{model}: no model there, and nothing observed (observe first)")
    catalog: Iterable[Api] = ()
    if fitted:
        removed = summary_of(model).get("removed", ())
        policy = replace(policy, exclude=(*policy.exclude, *removed))
    if asked is not None and fitted:
        from cnp_router.training import load_router

        catalog = load_router(model).catalog
    router = NextToolRouter(model=asked, catalog=catalog, policy=policy)
    if observed:
        OnlineStore(model / ONLINE_FILE, [router], read_only=True)
    return router


def read_past(
    catalog: Path | None,
    histories: tuple[Path, ...],
    unknown: UnknownPolicy = "error",
    pool: Pool | None = None,
) -> tuple[Any, History]:
    """Return catalog, where there is one, and history of some files, or else of the sample.

    The history of a catalog alone is empty. A pool, if there is one, reads the history's files.
    """
    from cnp_router.catalog import Catalog
    from cnp_router.datasets import load_sample
    from cnp_router.history import History

    if not (catalog or histories):
        sample = load_sample()
        return sample.catalog, sample.history
    apis = Catalog.read(catalog) if catalog else None
    if pool is not None and histories:
        from cnp_router.shards import read_history

        return apis, read_history(pool, histories, catalog=apis, unknown=unknown)
    history = History.read(histories, catalog=apis, unknown=unknown) if histories else History([])
    return apis, history


def size(model: Path) -> tuple[int, float]:
    """Return how many files a saved model has, and their megabytes."""
    from cnp_router.files import read_json
    from cnp_router.storage import MANIFEST

    files = read_json(model / MANIFEST)["files"].values()
    return len(files), sum(int(file["bytes"]) for file in files) / 1e6
