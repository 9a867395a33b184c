"""`fit_router`: from a catalog and a history to a learned router."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.catalog import Catalog
from cnp_router.exceptions import InputError
from cnp_router.history import History
from cnp_router.records import check_instance, check_number, shown
from cnp_router.training.categories import CategoryClassifier
from cnp_router.training.co_usage_features import CoUsageFeatures
from cnp_router.training.completion import Completion
from cnp_router.training.corpus import (
    Corpus,
    Specifications,
    category_membership,
    entries,
    matrix_of_ones,
    usage_matrix,
)
from cnp_router.training.decision import Answer, Decision
from cnp_router.training.encoders import EncodedRequests, Encoders, specification_text
from cnp_router.training.learned_router import LearnedRouter
from cnp_router.training.ranker import Example, Ranker
from cnp_router.training.views import CategoryView, CoUsageView, HistoryView, Views
from cnp_router.version import __version__

__all__ = ["fit_router"]

Progress = Callable[[str, int, int], None]

# Share of the APIs whose history each fold hides. The folds that hide none calibrate the
# probabilities: they are as new requests will be.
HIDDEN_SHARES = (0.0, 0.0, 0.1, 0.2, 0.3)
# The ranker has some sixty features: more examples than this cost time and teach it nothing.
MAX_EXAMPLES = 5_000
N_COMPONENTS = 200
_BATCH_CELLS = 2_000_000


def fit_router(
    catalog: Catalog,
    history: History,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> LearnedRouter:
    """Learn a router from a catalog and past compositions.

    Parameters
    ----------
    catalog : Catalog
        All APIs, those without history included.
    history : History
        At least two mashups. Every API they name must be in the catalog.
    random_state : int, default=0
        Seed: the same seed and data give the same router.
    n_jobs : int or None, default=None
        Folds fitted at the same time, through joblib; None is 1 unless a
        ``joblib.parallel_config`` says otherwise, -1 is one a core.
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
        If there are fewer than two mashups, or an argument cannot be used.

    Examples
    --------
    >>> from cnp_router import load_sample
    >>> sample = load_sample()
    >>> router = fit_router(sample.catalog, sample.history)
    >>> router.recommend("Text me when it will rain in my town tomorrow.")[0]
    'twilio'
    """
    check_instance("catalog", catalog, Catalog)
    check_instance("history", history, History)
    # The trees take no larger seed, and each fold has one of its own.
    last_seed = 2**32 - len(HIDDEN_SHARES)
    random_state = check_number("random_state", random_state, 0, last_seed, whole=True)
    if n_jobs is not None and check_number("n_jobs", n_jobs, -math.inf, whole=True) == 0:
        raise InputError("n_jobs must not be 0 (leave it out, or give -1 for all cores)")
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be callable, got {shown(progress)}")
    if len(history) < 2:
        raise InputError(f"a router needs at least two mashups to learn from, got {len(history)}")
    import scipy.linalg  # noqa: F401  (its own library too: only what is loaded is limited)
    from threadpoolctl import threadpool_limits

    # The linear algebra here is sparse or small: threads of its own only wait for each other, and
    # how many there are changes the last digits.
    with threadpool_limits(1):
        return _fit(catalog, history, random_state, n_jobs, progress or (lambda *_: None))


def _fit(
    catalog: Catalog,
    history: History,
    random_state: int,
    n_jobs: int | None,
    progress: Progress,
) -> LearnedRouter:
    from joblib import Parallel, delayed

    started = time.perf_counter()
    n_folds = min(len(HIDDEN_SHARES), len(history))
    steps = n_folds + 3
    progress("texts", 0, steps)
    usage = usage_matrix(catalog, history)
    # Of no other category does the history give anything to learn about.
    used = (catalog[int(i)] for i in np.unique(usage.indices))
    classes = tuple(sorted({name for api in used for name in api.categories}))
    encoders, encoded = Encoders.fit(
        [*history.texts, *(specification_text(api) for api in catalog)],
        n_components=N_COMPONENTS,
        random_state=random_state,
    )
    n = len(history)
    past = _Past(
        Specifications.build(catalog, encoders, encoded.take(np.arange(n, len(encoded)))),
        encoded.take(np.arange(n)),
        usage,
        category_membership(catalog, classes),
    )
    rng = np.random.default_rng(random_state)
    fold = rng.permutation(n) % n_folds
    sampled = np.sort(rng.permutation(n)[:MAX_EXAMPLES])
    progress("folds", 1, steps)
    jobs = [
        delayed(_fold)(
            past,
            np.flatnonzero(fold != number),
            sampled[fold[sampled] == number],
            HIDDEN_SHARES[number],
            random_state + number,
        )
        for number in range(n_folds)
    ]
    found: list[tuple[Example, NDArray[Any]]] = []
    folds = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(jobs)
    for done, own in enumerate(folds, start=2):
        found.extend(own)
        progress("folds", done, steps)
    progress("ranker", n_folds + 1, steps)
    examples = [example for example, _ in found]
    ranker, answers = Ranker.fit(examples, random_state=random_state, n_jobs=n_jobs)
    completion = Completion.fit(examples, answers, random_state=random_state, n_jobs=n_jobs)
    progress("views", n_folds + 2, steps)
    views = past.views(np.arange(n), usage)
    categories = None
    if classes:
        natural = [(example.used, scores) for example, scores in found if not example.hidden]
        categories = CategoryClassifier(random_state=random_state).assemble(
            encoders.word,
            classes,
            views[CategoryView].weights,
            np.stack([scores for _, scores in natural]),
            views.corpus.called_for(
                matrix_of_ones([used.tolist() for used, _ in natural], len(catalog))
            ),
        )
    router = LearnedRouter(
        catalog=catalog,
        encoders=encoders,
        views=views,
        ranker=ranker,
        completion=completion,
        decision=Decision.fit(
            [
                Answer(p, example.labels, len(example.used))
                for example, p in zip(examples, answers, strict=True)
                if not example.hidden
            ]
        ),
        history=history,
        categories=categories,
        summary={
            "apis": len(catalog),
            "apis_with_history": len(views.corpus.labels),
            "categories": len(classes),
            "mashups": n,
            "skipped": history.skipped,
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


@dataclass(frozen=True)
class _Past:
    """All that views are fitted on, of which each fold takes a part."""

    specifications: Specifications
    requests: EncodedRequests
    usage: sparse.csr_array
    membership: sparse.csr_array

    def views(self, rows: NDArray[Any], usage: sparse.csr_array) -> Views:
        """Fit the views on some past requests."""
        requests = self.requests.take(rows)
        return Views.fit(Corpus.of(self.specifications, requests, usage, self.membership), requests)


def _fold(
    past: _Past, train: NDArray[Any], test: NDArray[Any], hidden_share: float, seed: int
) -> list[tuple[Example, NDArray[Any]]]:
    """Fit the views on one part of the history and look through them at the other.

    Returns each request as an example, and the scores of the categories.
    """
    usage = past.usage[train]
    if hidden_share:
        rng = np.random.default_rng(seed)
        visible = (rng.random(usage.shape[1]) >= hidden_share).astype(np.float32)
        usage = sparse.csr_array(usage @ sparse.diags_array(visible))
        usage.eliminate_zeros()
    views = past.views(train, usage)
    co_usage = CoUsageFeatures(views.corpus, views[CoUsageView].conditional)
    found = []
    size = max(1, _BATCH_CELLS // usage.shape[1] // 12)
    for start in range(0, len(test), size):
        rows = test[start : start + size]
        batch = views.batch(past.requests.take(rows))
        near, candidates = views[HistoryView].neighbours(batch), views.candidates(batch)
        categories = batch.product("categories").copy()  # not all products of the batch
        for row, own, around, scores in zip(rows, candidates, near, categories, strict=True):
            used = entries(past.usage, np.array([row])).index
            found.append((Example(co_usage, around, own, used, hidden_share > 0), scores))
    return found
