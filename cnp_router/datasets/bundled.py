"""The sample that comes with the package."""

from __future__ import annotations

from importlib import resources

from cnp_router.catalog import Catalog
from cnp_router.datasets.dataset import Dataset, ReadReport, Tally
from cnp_router.history import History

__all__ = ["load_sample"]


def load_sample() -> Dataset:
    """Return the bundled sample: a small catalog of Web APIs and mashups written for it.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> sample = load_sample()
    >>> len(sample.catalog) >= 120, len(sample.history) >= 500
    (True, True)
    >>> sample.catalog["google-maps"].name
    'Google Maps'
    """
    folder = resources.files("cnp_router.datasets") / "sample"
    # as_file: a package may be imported from a zip archive, where there is no path to open.
    with (
        resources.as_file(folder / "apis.jsonl") as apis,
        resources.as_file(folder / "mashups.jsonl") as mashups,
    ):
        catalog = Catalog.read(apis)
        history = History.read(mashups, catalog=catalog)
    return Dataset(
        name="sample",
        catalog=catalog,
        history=history,
        source="written for cnp-router",
        report=ReadReport(Tally(len(catalog)), Tally(len(history))),
    )
