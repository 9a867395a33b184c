"""A small planted history, its fitted router, and its model folder: made once for the folder."""

from __future__ import annotations

import pytest
from planted import Planted, planted

from cnp_router.training import LearnedRouter, fit_router


@pytest.fixture(scope="session")
def world() -> Planted:
    """With enough mashups for trees."""
    return planted(n_cliques=6, size=4, rounds=5)


@pytest.fixture(scope="session")
def router(world) -> LearnedRouter:
    return fit_router(world.catalog, world.history)


@pytest.fixture(scope="session")
def model(router, tmp_path_factory):
    """The model folder. Not to be changed: copy it first."""
    folder = tmp_path_factory.mktemp("planted") / "model"
    router.save(folder)
    return folder


@pytest.fixture(scope="session")
def small() -> Planted:
    """A history that is fitted in a tenth of a second."""
    return planted(n_cliques=2, size=3, rounds=2)
