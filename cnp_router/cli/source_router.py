"""`router_of`: the router of sources, by a model that knows them or by what they say of tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cnp_router.cli.models import fitted_router
from cnp_router.cli.source_options import echo_problem
from cnp_router.exceptions import InputError, SourceError

if TYPE_CHECKING:
    from cnp_router.catalog import Catalog
    from cnp_router.cli.llm_options import Vectors
    from cnp_router.sources import Sources
    from cnp_router.training import LearnedRouter

__all__ = ["router_of"]


async def router_of(
    sources: Sources,
    model: Path | None,
    vectors: Vectors,
    *,
    observed: bool = True,
    say: Callable[[SourceError], object] = echo_problem,
) -> LearnedRouter:
    """Return the router of the model, or one of what the sources say of their tools.

    `say` is given what is wrong with single sources, where they are asked for their tools.
    """
    if model is not None:
        from cnp_router.sources.source import SEPARATOR

        router = fitted_router(model, vectors, observed=observed)
        if not any(name.partition(SEPARATOR)[0] in sources.names for name in router.apis):
            raise InputError(
                f"{model}: the model knows no tool of these sources (cnp-router sync "
                f"--model {model} adds them)"
            )
        return router
    from cnp_router.training import fit_router

    catalog = await _catalog(sources, say)
    made = vectors.made()
    return await asyncio.to_thread(fit_router, catalog, **made)


async def _catalog(sources: Sources, say: Callable[[SourceError], object]) -> Catalog:
    """Return what was accepted before, without a start; or what the sources say now."""
    lock = sources.lock
    if lock is not None and not sources.accept and set(sources.names) <= set(lock.sources):
        return sources.known_catalog()
    from cnp_router.catalog import Catalog
    from cnp_router.sources.faults import none_left

    loaded = await sources.load()
    for problem in loaded.problems:
        say(problem) if isinstance(problem, SourceError) else None
    if not loaded.apis:
        raise none_left(loaded.problems)
    return Catalog(loaded.apis)
