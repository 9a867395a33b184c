"""Fit the priors that come with the package, on the bundled sample.

::

    python scripts/fit_prior.py [--output FILE]

Each episode takes some mashups of the sample for the past and others, with near repeats of past
ones, for new requests, looks at these through views fitted on that past, and so shows what their
scores are worth at that amount of history. The file is the same on every machine up to the last
digits of its numbers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cnp_router.datasets import load_sample
from cnp_router.files import atomic_write
from cnp_router.history import History, Mashup
from cnp_router.routing.selection import mass_positions
from cnp_router.storage import state_to_bytes
from cnp_router.training.corpus import usage_matrix
from cnp_router.training.examples import Past, looked_at
from cnp_router.training.linear import Logistic
from cnp_router.training.prior import PRIOR_FILE, WEIGHT, EpisodePrior, Prior, RecallPrior
from cnp_router.training.ranker import LEVELS, Example, calibration_features
from cnp_router.training.views import feature_names

SIZES = (0, 5, 15, 60, 120, 250)
DRAWS = 4
N_REQUESTS = 90
REPEATS = 0.08
N_SHARES = 100
_DROPPED = 0.2


def episodes(seed: int = 0) -> Iterator[tuple[int, list[Example]]]:
    """Yield how many mashups an episode's past has, and its requests as examples."""
    sample = load_sample()
    rng = np.random.default_rng(seed)
    for size in SIZES:
        for _ in range(DRAWS):
            order = rng.permutation(len(sample.history))
            known = [sample.history[int(i)] for i in order[:size]]
            asked = [sample.history[int(i)] for i in order[size : size + N_REQUESTS]]
            n_repeats = min(round(REPEATS * N_REQUESTS), size)
            asked.extend(_repeat(known[i], rng) for i in rng.permutation(size)[:n_repeats])
            past = Past.of(sample.catalog, History(known), random_state=0)
            requests = past.encoders.encode([mashup.description for mashup in asked])
            usage = [np.sort(usage_matrix(sample.catalog, History([m])).indices) for m in asked]
            views = past.views(np.arange(size), past.usage)
            yield size, [example for example, _ in looked_at(views, requests, usage)]


def _repeat(mashup: Mashup, rng: np.random.Generator) -> Mashup:
    """Return a past request in nearly the same words."""
    kept = [word for word in mashup.description.split() if rng.random() >= _DROPPED]
    return Mashup(mashup.id, " ".join(kept) or mashup.description, mashup.apis)


def fit(seed: int = 0) -> Prior:
    """Return what the episodes teach."""
    seen = list(episodes(seed))
    n_requests = sum(len(examples) for _, examples in seen)
    each = WEIGHT / n_requests
    labels = np.concatenate([e.labels for _, examples in seen for e in examples])
    n_mashups = np.concatenate(
        [np.full(len(e.labels), size) for size, examples in seen for e in examples]
    )
    weight = np.full(len(labels), each)

    def learned(names: Sequence[str], rows: list[NDArray[Any]]) -> EpisodePrior:
        return EpisodePrior.fit(names, np.vstack(rows), labels, n_mashups, weight)

    names = feature_names()
    ranker = learned(names, [e.candidates.features for _, examples in seen for e in examples])
    levels: list[NDArray[Any]] = []
    for size, examples in seen:
        first = ranker.at(size, names).most_probable
        levels.extend(calibration_features(first, e.candidates) for e in examples)
    calibration = learned(LEVELS, levels)
    # Only the first column counts without history: the second is the same for all.
    blind = n_mashups == 0
    shares = np.vstack(levels)[blind] * (1, 0)
    return Prior(
        ranker,
        calibration,
        Logistic.fit(shares, labels[blind], C=1e3),
        _recall(seen, levels, calibration),
    )


def _recall(
    seen: list[tuple[int, list[Example]]], levels: list[NDArray[Any]], calibration: EpisodePrior
) -> RecallPrior:
    """Return what share of the probability mass it takes to include what requests need."""
    taken: dict[int, list[NDArray[Any]]] = {size: [] for size in SIZES}
    rows = iter(levels)
    for size, examples in seen:
        scale = calibration.at(size, LEVELS).most_probable
        for example in examples:
            p = scale.probability(next(rows))
            order = np.argsort(-p, kind="stable")
            taken[size].append(mass_positions(p[order])[example.labels[order]])
    at = (np.arange(N_SHARES) + 0.5) / N_SHARES
    shares = [np.quantile(np.concatenate(own), at) for own in taken.values()]
    return RecallPrior(np.array(SIZES), np.array(shares))


def main() -> None:
    """Fit the priors and write them."""
    parser = argparse.ArgumentParser(description="Fit the priors on the bundled sample.")
    parser.add_argument("--output", type=Path, default=PRIOR_FILE, metavar="FILE")
    options = parser.parse_args()
    with atomic_write(options.output, mode="wb") as out:
        out.write(state_to_bytes(fit().state()))


if __name__ == "__main__":
    main()
