"""`fit_without`: a router that was fitted without what is to be forgotten."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from cnp_router.catalog import Catalog
from cnp_router.exceptions import InputError
from cnp_router.forgetting import Forgetting, Forgotten
from cnp_router.history import History
from cnp_router.records import check_instance
from cnp_router.training.fit import Progress, fit_router
from cnp_router.training.learned_router import LearnedRouter

__all__ = ["Remainder", "fit_without", "remainder"]


@dataclass(frozen=True, eq=False)
class Remainder:
    """What is left of a router's catalog and history.

    Attributes
    ----------
    catalog : Catalog
    history : History
        As the router's own: with the APIs that were removed from the catalog.
    removed : tuple of str
        Of the removed APIs those that are not forgotten.
    apis : tuple of str
        Forgotten APIs that the catalog had, or once had.
    forgotten : Forgotten
        Of the history.
    """

    catalog: Catalog
    history: History
    removed: tuple[str, ...]
    apis: tuple[str, ...]
    forgotten: Forgotten

    def __bool__(self) -> bool:
        return bool(self.apis or self.forgotten)


def remainder(router: LearnedRouter, what: Forgetting) -> Remainder:
    """Return what is left of a router's catalog and history without what is to be forgotten.

    It is False if they hold nothing of that.

    Raises
    ------
    InputError
        If no API is left.
    """
    check_instance("router", router, LearnedRouter)
    check_instance("what", what, Forgetting)
    router = copy.copy(router)
    forgotten, left = Forgotten(), []
    for mashup in router.history:
        rest = what.left_of(mashup)
        forgotten.add(mashup, rest)
        if rest is not None:
            left.append(rest)
    apis = tuple(api for api in what.apis if api in router.catalog or api in router.removed)
    if not (apis or forgotten):
        return Remainder(router.catalog, router.history, router.removed, (), forgotten)
    catalog = [api for api in router.catalog if api.id not in what.apis]
    if not catalog:
        raise InputError("no API would be left (remove the folder of the model instead)")
    removed = tuple(api for api in router.removed if api not in what.apis)
    history = History(left, skipped=int(router.summary.get("skipped", 0)))
    return Remainder(Catalog(catalog), history, removed, apis, forgotten)


def fit_without(
    router: LearnedRouter,
    what: Forgetting,
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> LearnedRouter:
    """Fit a router again on all that it knows but what is to be forgotten.

    With the same seed and encoder, so the result is what would have been fitted had that never
    been there. What the router has observed since it was fitted is fitted on, too. APIs that were
    removed from its catalog stay removed; mashups that used nothing else come last.

    Parameters
    ----------
    router : LearnedRouter
        It stays as it is.
    what : Forgetting
    n_jobs, progress
        As in `fit_router`.

    Returns
    -------
    LearnedRouter
        The same one, if it knows nothing of that.

    Raises
    ------
    InputError
        If no API would be left, or the router was fitted with an encoder and loaded without.

    Examples
    --------
    >>> from cnp_router import Api, Forgetting, Mashup
    >>> catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    >>> mashups = [Mashup("m1", "bars on a map", ("maps",), user="ann"),
    ...            Mashup("m2", "text me the news", ("sms",), user="bob")]
    >>> router = fit_router(catalog, History(mashups))
    >>> [mashup.id for mashup in fit_without(router, Forgetting(users=("ann",))).history]
    ['m2']
    """
    left = remainder(router, what)
    if not left:
        return router
    dense = router.encoders.dense
    if dense is not None and dense.encoder is None:
        raise InputError(
            f"to forget, the model is fitted again with its encoder {dense.name!r} "
            "(give the encoder when it is loaded)"
        )
    gone = frozenset(left.removed)
    serving = [mashup for mashup in left.history if not gone.issuperset(mashup.apis)]
    past = History(serving, skipped=left.history.skipped)
    fitted = fit_router(
        left.catalog,
        past.without(gone),
        encoder=None if dense is None else dense.encoder,
        random_state=router.summary["random_state"],
        n_jobs=n_jobs,
        progress=progress,
    )
    fitted.__dict__.update(router.settings())
    if gone:  # it is known again with its history, if it comes back
        fitted.history, fitted.removed = past, left.removed
        fitted.summary["removed"] = list(left.removed)
        fitted.observe(mashup for mashup in left.history if gone.issuperset(mashup.apis))
    return fitted
