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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cnp_router.datasets import load_sample
from cnp_router.files import atomic_write
from cnp_router.history import History, Mashup
from cnp_router.storage import state_to_bytes
from cnp_router.training.corpus import usage_matrix
from cnp_router.training.examples import Past, looked_at
from cnp_router.training.prior import PRIOR_FILE, WEIGHT, EpisodePrior
from cnp_router.training.ranker import Example, calibration_features

SIZES = (0, 5, 15, 60, 120, 250)
DRAWS = 4
N_REQUESTS = 90
REPEATS = 0.08
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
            for i in rng.permutation(size)[:n_repeats]:
                asked.append(
                    Mashup(known[i].id, _shortened(known[i].description, rng), known[i].apis)
                )
            past = Past.of(sample.catalog, History(known), random_state=0)
            requests = past.encoders.encode([mashup.description for mashup in asked])
            usage = [np.sort(usage_matrix(sample.catalog, History([m])).indices) for m in asked]
            views = past.views(np.arange(size), past.usage)
            yield size, [example for example, _ in looked_at(views, requests, usage)]


def _shortened(text: str, rng: np.random.Generator) -> str:
    kept = [word for word in text.split() if rng.random() >= _DROPPED]
    return " ".join(kept) or text


def fit(seed: int = 0) -> dict[str, EpisodePrior]:
    """Return the priors by what they are of."""
    seen = list(episodes(seed))
    n_requests = sum(len(examples) for _, examples in seen)
    each = WEIGHT / n_requests
    labels = np.concatenate([e.labels for _, examples in seen for e in examples])
    n_mashups = np.concatenate(
        [np.full(len(e.labels), size) for size, examples in seen for e in examples]
    )
    weight = np.full(len(labels), each)

    def learned(rows: list[NDArray[Any]]) -> EpisodePrior:
        return EpisodePrior.fit(np.vstack(rows), labels, n_mashups, weight)

    ranker = learned([e.candidates.features for _, examples in seen for e in examples])
    levels = []
    for size, examples in seen:
        gaussian = ranker.at(size)
        first = gaussian.logistic(gaussian.mean)
        levels.extend(calibration_features(first, e.candidates) for e in examples)
    return {"ranker": ranker, "calibration": learned(levels)}


def main() -> None:
    """Fit the priors and write them."""
    parser = argparse.ArgumentParser(description="Fit the priors on the bundled sample.")
    parser.add_argument("--output", type=Path, default=PRIOR_FILE, metavar="FILE")
    options = parser.parse_args()
    state = {name: prior.state() for name, prior in fit().items()}
    with atomic_write(options.output, mode="wb") as out:
        out.write(state_to_bytes(state))
    print(f"{options.output}: {', '.join(state)}")


if __name__ == "__main__":
    main()
