"""`fit_router`: from a catalog and a history to a learned router."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from cnp_router import telemetry
from cnp_router.catalog import Catalog
from cnp_router.cluster import working
from cnp_router.datasets import load_out_of_scope
from cnp_router.exceptions import InputError
from cnp_router.history import History, warn_of_future_dates, warn_of_missing_texts
from cnp_router.pool import Pool, check_jobs, one_thread
from cnp_router.records import check_instance, check_number, shown
from cnp_router.text import Boilerplate
from cnp_router.training.categories import CategoryClassifier
from cnp_router.training.completion import Completion
from cnp_router.training.corpus import filled, has_dates, history_days, matrix_of_ones
from cnp_router.training.decision import judged
from cnp_router.training.dense_encoder import DenseEncoder, Encoder
from cnp_router.training.encoders import as_learned
from cnp_router.training.examples import Fold, Past, all_looks, whole_views
from cnp_router.training.learned_router import LearnedRouter
from cnp_router.training.manner import Texts, fitted_manner
from cnp_router.training.prior import MOST, bundled_prior
from cnp_router.training.ranker import Ranker, RankerPrior
from cnp_router.training.splits import (
    MOST_SPLITS,
    Said,
    asking_again,
    dated_splits,
    hiding_more,
    random_splits,
    untried_of,
)
from cnp_router.training.tail import Tail
from cnp_router.training.views import CategoryView
from cnp_router.version import __version__

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["fit_router"]

logger = logging.getLogger(__name__)
Progress = Callable[[str, int, int], None]


def fit_router(
    catalog: Catalog,
    history: History | None = None,
    *,
    encoder: Encoder | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    scheduler: str | Client | None = None,
    progress: Progress | None = None,
) -> LearnedRouter:
    """Learn a router from a catalog and past compositions, of which there may be few or none.

    What a specification is worth, and what little history is worth, was learned beforehand, from
    the bundled sample; the more past compositions there are, the more they decide themselves.

    Parameters
    ----------
    catalog : Catalog
        All APIs, those without history included.
    history : History, default=None
        Every API that it names must be in the catalog. None is an empty one.
    encoder : Encoder, optional
        A callable from a list of texts to an array of their vectors, as a sentence encoder is: one
        more view looks at requests by them. The model keeps vectors, not the encoder: whoever
        loads it gives the same one again.
    random_state : int, default=0
        Seed: the same seed and data give the same router.
    n_jobs : int or None, default=None
        Folds fitted at the same time, through joblib; None is 1 unless a
        ``joblib.parallel_config`` says otherwise, -1 is one a core.
    scheduler : str or distributed.Client, optional
        Of a Dask cluster, whose workers do most of the work instead: an address such as
        ``"tcp://10.0.0.5:8786"``, or a client. The router is the same, bit for bit, where workers
        have the same processor and libraries. The cluster must be trusted.
    progress : callable, optional
        Called with the stage's name, the steps done and all steps.

    Returns
    -------
    LearnedRouter

    Raises
    ------
    UnknownApiError
        If a mashup names an API that the catalog does not have.
    InputError
        If an argument cannot be used, or what the encoder returns.
    ClusterError
        If the scheduler does not answer, or its workers cannot do the work.
    MissingExtraError
        If there is a scheduler, and distributed is not installed.

    Examples
    --------
    >>> from cnp_router import load_sample
    >>> sample = load_sample()
    >>> router = fit_router(sample.catalog, sample.history)
    >>> sorted(router.recommend("Text me when it will rain in my town tomorrow."))
    ['openweather', 'twilio']
    """
    check_instance("catalog", catalog, Catalog)
    history = History([]) if history is None else check_instance("history", history, History)
    # The trees take no larger seed, and each fold has one of its own.
    last_seed = 2**32 - MOST_SPLITS
    random_state = check_number("random_state", random_state, 0, last_seed, whole=True)
    check_jobs(n_jobs)
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be callable, got {shown(progress)}")
    warn_of_future_dates(history)
    warn_of_missing_texts(history)
    about = {"cnp_router.apis": len(catalog), "cnp_router.mashups": len(history)}
    with ExitStack() as stack:
        # The linear algebra here is sparse or small: threads of its own only wait for each other,
        # and how many there are changes the last digits.
        if not stack.enter_context(one_thread).holds:
            logger.info(
                "linear algebra keeps its threads, since another thread of this process has set "
                "their number: the same seed and data can give another model (set "
                "OMP_NUM_THREADS=1)"
            )
        stack.enter_context(telemetry.span("fit", about))
        pool = stack.enter_context(working(n_jobs, scheduler, threads=True))
        return _fit(catalog, history, encoder, random_state, pool, progress or (lambda *_: None))


def _fit(
    catalog: Catalog,
    history: History,
    encoder: Encoder | None,
    random_state: int,
    pool: Pool,
    progress: Progress,
) -> LearnedRouter:
    started = time.perf_counter()
    days = history_days(history)
    dated = has_dates(days)
    asked, used = history.texts, [mashup.apis for mashup in history]
    boilerplate = Boilerplate.of(asked, used, len(catalog))
    read = as_learned(asked, boilerplate)
    said = Said.of(read, used)
    n = said.n_records  # who repeats a request tells nothing new
    splits = random_splits(said, len(catalog), dated=dated, random_state=random_state)
    if dated:
        splits += dated_splits(filled(days), said, random_state=random_state)
    splits = asking_again(splits, said, random_state=random_state)
    steps = len(splits) + 3
    progress("texts", 0, steps)
    dense = None if encoder is None else DenseEncoder.of(encoder)
    past = Past.of(
        catalog,
        history,
        random_state=random_state,
        n_records=n,
        read=read,
        boilerplate=boilerplate,
        dense=dense,
        pool=pool,
    )
    untried = untried_of(splits, past.usage)
    splits = hiding_more(splits, past.usage, random_state=random_state)
    written = load_out_of_scope(catalog)
    progress("folds", 1, steps)
    shared = pool.share(past)
    whole = pool.begin(whole_views, None, shared)
    seeds = [random_state + i for i in range(len(splits))]
    texts = [written[i::2] if i < 2 else () for i in range(len(splits))]
    folds: list[Fold] = []
    for own in past.folds(splits, seeds, texts, pool, shared):
        folds += own
        progress("folds", 1 + len(folds), steps)
    seen = all_looks(folds, catalog)
    manner = pool.begin(fitted_manner, Texts.of(seen, catalog, written))
    progress("views", len(splits) + 1, steps)
    views = whole().of(past)
    del shared, whole
    progress("ranker", len(splits) + 2, steps)
    found = [pair for own in folds for pair in own.found]
    examples = [example for example, _ in found]
    prior = bundled_prior()
    ranker, answers = Ranker.fit(
        examples,
        prior=RankerPrior.at(n, views),
        random_state=random_state,
        pool=pool,
        untried=untried,
    )
    completion = Completion.fit(examples, answers, random_state=random_state, pool=pool)
    tail = Tail.fit(examples) if n > MOST else Tail(None)
    answerable, decision = judged(folds, answers, seen, *manner(), ranker, tail, views, n, prior)
    classes = past.classes
    categories = None
    if classes:
        natural = [(example.used, scores) for example, scores in found if example.is_natural]
        categories = CategoryClassifier(random_state=random_state).assemble(
            past.encoders.word,
            classes,
            views[CategoryView].weights,
            np.stack([scores for _, scores in natural]),
            views.corpus.called_for(
                matrix_of_ones([used.tolist() for used, _ in natural], len(catalog))
            ),
        )
    router = LearnedRouter(
        catalog=catalog,
        views=views,
        ranker=ranker,
        tail=tail,
        completion=completion,
        answerable=answerable,
        decision=decision,
        history=history,
        categories=categories,
        summary={
            **views.corpus.summary,
            "fitted_on": len(history),
            "categories": len(classes),
            "skipped": history.skipped,
            **({} if dense is None else {"encoder": dense.name}),
            **({"boilerplate": len(boilerplate)} if len(boilerplate) else {}),
            "random_state": random_state,
            "fit_seconds": round(time.perf_counter() - started, 2),
            "versions": {
                "cnp-router": __version__,
                "python": platform.python_version(),
                **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
            },
        },
    )
    progress("done", steps, steps)
    return router
