"""The data that comes with the package: the sample, and texts that nothing serves."""

from __future__ import annotations

from importlib import resources

from cnp_router.catalog import Catalog
from cnp_router.datasets.dataset import Dataset, ReadReport, Tally
from cnp_router.datasets.out_of_scope import read_out_of_scope, served_by_none
from cnp_router.history import History

__all__ = ["load_out_of_scope", "load_sample"]


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


def load_out_of_scope(catalog: Catalog | None = None) -> tuple[str, ...]:
    """Return the bundled texts that no API serves: noise, chit-chat, sums, general knowledge.

    Parameters
    ----------
    catalog : Catalog, optional
        Texts that one of its APIs may serve are left out, such as sums where there is a
        calculator; None leaves out nothing.

    Returns
    -------
    tuple of str
        Short and long ones, English and some Japanese.

    Examples
    --------
    >>> texts = load_out_of_scope()
    >>> len(texts) >= 150, len(load_out_of_scope(load_sample().catalog)) < len(texts)
    (True, True)
    """
    file = resources.files("cnp_router.datasets") / "nothing" / "texts.jsonl"
    with resources.as_file(file) as path:
        texts = read_out_of_scope(path)
    return tuple(text.text for text in (served_by_none(texts, catalog) if catalog else texts))
