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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  (only what is loaded is limited)
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cnp_router.datasets import load_out_of_scope, load_sample
from cnp_router.files import atomic_write
from cnp_router.history import History, Mashup
from cnp_router.storage import state_to_bytes
from cnp_router.text import specification_text
from cnp_router.training.answerable import (
    BOTH,
    SAID,
    SERVED,
    Judge,
    fitting,
    log_probabilities,
    look_weights,
    sides,
)
from cnp_router.training.corpus import usage_matrix
from cnp_router.training.decision import CONFIDENCE, Answer, Decision, confidence_rows
from cnp_router.training.examples import Past, looked_at
from cnp_router.training.linear import Logistic, level, sigmoid
from cnp_router.training.looks import Look, looks
from cnp_router.training.manner import Manner
from cnp_router.training.prior import (
    PRIOR_FILE,
    WEIGHT,
    AnswerablePrior,
    BySize,
    ConfidencePrior,
    EpisodePrior,
    Prior,
)
from cnp_router.training.ranker import LEVELS, Example, Ranker, RankerPrior, calibration_features
from cnp_router.training.views import Views

SIZES = (0, 5, 15, 60, 120, 250)
DRAWS = 4
N_REQUESTS = 90
REPEATS = 0.08
N_SHARES = 100
_DROPPED = 0.2


@dataclass(frozen=True)
class Episode:
    """Some mashups as the past, and requests as views that were fitted on that past see them."""

    size: int
    views: Views
    examples: list[Example]
    looks: list[Look]
    sounding: NDArray[Any]


def episodes(seed: int = 0) -> Iterator[Episode]:
    """Yield the episodes, the shortest pasts first."""
    sample = load_sample()
    written = np.array(load_out_of_scope(sample.catalog))
    rng = np.random.default_rng(seed)
    for number, size in enumerate(np.repeat(SIZES, DRAWS).tolist()):
        order = rng.permutation(len(sample.history))
        known = [sample.history[int(i)] for i in order[:size]]
        asked = [sample.history[int(i)] for i in order[size : size + N_REQUESTS]]
        n_repeats = min(round(REPEATS * N_REQUESTS), size)
        asked.extend(_repeat(known[i], rng) for i in rng.permutation(size)[:n_repeats])
        past = Past.of(sample.catalog, History(known), random_state=0)
        requests = past.encoders.encode([mashup.description for mashup in asked])
        used = [np.sort(usage_matrix(sample.catalog, History([m])).indices) for m in asked]
        views = past.views(np.arange(size), past.usage)
        examples = [
            example for example, _ in looked_at(views, requests, np.arange(len(asked)), used)
        ]
        # Half of the texts that nothing serves are known, the others are new.
        is_new = np.arange(len(written)) % 2 == number % 2
        seen = [
            *(
                Look("whole", text, e.candidates, e.past.co_usage, e.used, False, 0)
                for text, e in zip(requests.texts, examples, strict=True)
            ),
            *looks(views, requests, used, written[is_new].tolist(), seed=number, seen=False),
        ]
        specifications = [specification_text(api) for api in sample.catalog]
        manner = Manner.fit(
            [*specifications, *(mashup.description for mashup in known)],
            written[~is_new].tolist(),
        )
        sounding = manner.log_odds([look.text for look in seen])
        yield Episode(size, views, examples, seen, sounding)


def _repeat(mashup: Mashup, rng: np.random.Generator) -> Mashup:
    """Return a past request in nearly the same words."""
    kept = [word for word in mashup.description.split() if rng.random() >= _DROPPED]
    return Mashup(mashup.id, " ".join(kept) or mashup.description, mashup.apis)


def fit(seed: int = 0) -> Prior:
    """Return what the episodes teach."""
    seen = list(episodes(seed))
    examples = [example for episode in seen for example in episode.examples]
    size_of = [episode.size for episode in seen for _ in episode.examples]
    labels = np.concatenate([example.labels for example in examples])
    n_mashups = np.repeat(size_of, [len(example.labels) for example in examples])
    weight = np.full(len(labels), WEIGHT / len(examples))

    def learned(names: Sequence[str], rows: list[NDArray[Any]]) -> EpisodePrior:
        return EpisodePrior.fit(names, np.vstack(rows), labels, n_mashups, weight)

    names = seen[0].views.feature_names
    ranker = learned(names, [example.candidates.features for example in examples])
    firsts = {size: ranker.at(size, names).most_probable for size in SIZES}
    levels = [
        calibration_features(firsts[size], example.candidates)
        for size, example in zip(size_of, examples, strict=True)
    ]
    calibration = learned(LEVELS, levels)
    # Only the first column counts without history: the second is the same for all.
    blind = n_mashups == 0
    without_history = Logistic.fit(np.vstack(levels)[blind] * (1, 0), labels[blind], C=1e3)
    rankers = {}
    for size in SIZES:
        scale = calibration.at(size, LEVELS)
        own = scale.most_probable if size else without_history
        rankers[size], _ = Ranker.fit(
            [], prior=RankerPrior(ranker.at(size, names), scale, own), random_state=0
        )
    answers = [[_answer(rankers[e.size], x) for x in e.examples] for e in seen]
    recall = _recall(seen, answers)
    answerable, served = _answerable(seen, rankers)
    answers = [
        [replace(own, answerable=float(p)) for own, p in zip(*pair, strict=True)]
        for pair in zip(answers, served, strict=True)
    ]
    return Prior(
        ranker, calibration, without_history, recall, answerable, _confidence(seen, answers, recall)
    )


def _answer(ranker: Ranker, x: Example) -> Answer:
    missed = np.zeros(x.behind.missed.shape[1])
    return Answer(ranker.probabilities(x.past.co_usage, x.candidates), x.labels, missed)


def _recall(seen: list[Episode], answers: list[list[Answer]]) -> BySize:
    """Return what probability is given to what requests need."""
    taken: dict[int, list[NDArray[Any]]] = {size: [] for size in SIZES}
    for episode, own in zip(seen, answers, strict=True):
        for answer in own:
            taken[episode.size].append(answer.probabilities[answer.labels])
    at = (np.arange(N_SHARES) + 0.5) / N_SHARES
    given = [np.quantile(np.concatenate(own), at) for own in taken.values()]
    return BySize(np.array(SIZES), np.array(given))


def _confidence(
    seen: list[Episode], answers: list[list[Answer]], recall: BySize
) -> ConfidencePrior:
    """Return what is known of whether the recipients cover what a request needs."""
    rows = [
        (row, is_covered, episode.size)
        for episode, own in zip(seen, answers, strict=True)
        for answer in own
        for row, is_covered in confidence_rows(answer)
    ]
    X, covered, size = (np.array(column) for column in zip(*rows, strict=True))
    weight = np.full(len(X), WEIGHT / sum(map(len, answers)))
    covering = EpisodePrior.fit(CONFIDENCE, X, covered, size, weight)
    missing = []
    for n in SIZES:
        given = recall.at(n)
        judge = covering.at(n, CONFIDENCE).most_probable
        decision = Decision(judge, given, np.arange(len(given)), np.zeros(len(given)))
        own = [a for e, some in zip(seen, answers, strict=True) if e.size == n for a in some]
        missing.append(decision.missing(own))
    return ConfidencePrior(covering, BySize(np.array(SIZES), np.array(missing)))


def _answerable(
    seen: list[Episode], rankers: dict[int, Ranker]
) -> tuple[AnswerablePrior, list[NDArray[Any]]]:
    """Return what is known of whether anything serves a request, and how probable that is."""
    both_sides = []
    for episode in seen:
        ranker = rankers[episode.size]
        probabilities = [ranker.probabilities(x.co_usage, x.candidates) for x in episode.looks]
        scores = episode.views.likeness_names
        word = episode.views.corpus.specifications.encoders.word
        both_sides.append(sides(episode.sounding, episode.looks, probabilities, word, scores))
    every = [look for episode in seen for look in episode.looks]
    size = np.repeat([e.size for e in seen], [len(e.looks) for e in seen])
    serves = np.array([len(look.used) > 0 for look in every])
    each = WEIGHT / sum(look.kind == "whole" for look in every)

    def learned(judge: Judge, names: Sequence[str], X: NDArray[Any]) -> EpisodePrior:
        weight = np.concatenate([look_weights(e.looks, judge) for e in seen]) * each
        kept = weight > 0
        return EpisodePrior.fit(
            names, X[kept], serves[kept], size[kept], weight[kept], is_rising=True
        )

    S, F = (np.vstack(parts) for parts in zip(*both_sides, strict=True))
    names = fitting(seen[0].views.likeness_names)
    says, fits = learned("says", SAID, S), learned("fits", names, F)
    evidence = np.zeros((len(every), 2))
    for n in SIZES:
        judges = (says.at(n, SAID).most_probable, fits.at(n, names).most_probable)
        evidence[size == n] = log_probabilities(*judges, S[size == n], F[size == n])
    both = learned("both", BOTH, evidence)
    whole = np.array([look.kind == "whole" for look in every])
    added, served = [], np.zeros(len(every))
    for n in SIZES:
        x = both.at(n, BOTH).most_probable.log_odds(evidence)
        added.append(level(x[whole & (size == n)], SERVED))
        served[size == n] = sigmoid(x + added[-1])[size == n]
    ends = np.cumsum([len(e.looks) for e in seen])[:-1]
    by_episode = [
        own[[look.kind == "whole" for look in e.looks]]
        for own, e in zip(np.split(served, ends), seen, strict=True)
    ]
    prior = AnswerablePrior(says, fits, both, BySize(np.array(SIZES), np.array(added)))
    return prior, by_episode


def main() -> None:
    """Fit the priors and write them."""
    parser = argparse.ArgumentParser(description="Fit the priors on the bundled sample.")
    parser.add_argument("--output", type=Path, default=PRIOR_FILE, metavar="FILE")
    options = parser.parse_args()
    with threadpool_limits(1):  # how many threads there are changes the last digits
        prior = fit()
    with atomic_write(options.output, mode="wb") as out:
        out.write(state_to_bytes(prior.state()))


if __name__ == "__main__":
    main()
