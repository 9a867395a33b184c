"""Who is measured in `scale` beside the learned router: two baselines that scale, and peers."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.peer import Peer, best
from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.text import BM25, TfidfEncoder, specification_text
from cnp_router.training.corpus import usage_matrix

__all__ = ["MANY_LABELS", "RANKERS", "Bm25", "NearestRequests", "absence", "build"]

MANY_LABELS = 5_000
_DIMENSIONS = 128
_SAMPLED = 20_000  # texts that the vectors are learned from
_AT_ONCE = 10_000

_PEERS = {
    "PECOS XR-Linear": ("benchmarks.peers.pecos", "XRLinear", ("pecos",)),
    "bm25s": ("benchmarks.peers.bm25", "Bm25s", ("bm25s", "Stemmer")),
    "semantic-router": (
        "benchmarks.peers.semantic_routes",
        "SemanticRoutes",
        ("semantic_router", "sklearn"),
    ),
    "scikit-learn kNN": ("benchmarks.peers.neighbours", "Neighbours", ("sklearn",)),
}
RANKERS = ("BM25", "nearest requests", *_PEERS)


class Bm25(Peer):
    """The scores of `SpecificationRouter`, which needs no history."""

    def fit(self, catalog: Catalog, history: History) -> None:
        """Index the specifications."""
        self._index = BM25([specification_text(api) for api in catalog])

    def scores(self, request: str) -> NDArray[Any]:
        """Return the score of each specification."""
        return self._index.scores(request)


class NearestRequests(Peer):
    """The votes of `HistoryKNNRouter`: those of the 30 most similar past requests.

    It looks only at past requests that share a word, and its answer holds only what they used.
    """

    _K = 30

    def fit(self, catalog: Catalog, history: History) -> None:
        """Index the past requests by their words."""
        self._encoder = TfidfEncoder("content", min_df=1)
        past = self._encoder.fit_transform(history.texts)
        self._by_word = past.T.tocsr()
        self._usage = usage_matrix(catalog, history).tocsr()

    def scores(self, request: str) -> NDArray[Any]:
        """Return the share of the votes for each API."""
        places, votes = self.top(request, self._usage.shape[1])
        scores = np.zeros(self._usage.shape[1])
        scores[places] = votes
        return scores

    def top(self, request: str, k: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the best of those that a neighbour used."""
        said = self._encoder.transform([request])
        similarity = np.asarray(said.data @ self._by_word[said.indices])
        near, weights = best(similarity, self._K)
        rows = self._usage[near]
        apis, which = np.unique(rows.indices, return_inverse=True)
        votes = np.bincount(which, np.repeat(weights, np.diff(rows.indptr)), len(apis))
        found, shares = best(votes / (weights.sum() + 1), k)
        return apis[found], shares


def absence(name: str) -> str | None:
    """Return why a ranker cannot be measured here; None if it can."""
    packages = _PEERS[name][2] if name in _PEERS else ()
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return f"{missing[0]} is not installed (pip install --group peers)" if missing else None


def build(name: str, n_labels: int, texts: Callable[[], Sequence[str]]) -> Peer:
    """Return a ranker that has not learned anything yet.

    Parameters
    ----------
    name : str
        One of `RANKERS`.
    n_labels : int
        How many APIs are used in the history. With more than `MANY_LABELS`, PECOS makes a tree.
    texts : callable
        Returns all texts that will be compared, for those that compare vectors.
    """
    own: dict[str, type[Peer]] = {"BM25": Bm25, "nearest requests": NearestRequests}
    if name in own:
        return own[name]()
    module, kind, _ = _PEERS[name]
    if name == "PECOS XR-Linear" and n_labels > MANY_LABELS:
        kind = "XRLinearTree"
    made = getattr(importlib.import_module(module), kind)
    peer: Peer = made(latent_vectors(texts())) if name == "semantic-router" else made()
    return peer


def latent_vectors(texts: Sequence[str]) -> Mapping[str, NDArray[Any]]:
    """Return a unit vector for each text: TF-IDF, and its singular vectors (LSA).

    They stand in for those of a sentence encoder, which is not at hand: a peer that compares
    vectors is measured for its speed; what it finds depends on the encoder.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    step = max(len(texts) // _SAMPLED, 1)
    sample = texts[::step]
    words = TfidfVectorizer(sublinear_tf=True, stop_words="english", dtype=np.float32)
    counted = words.fit_transform(sample)
    svd = TruncatedSVD(min(_DIMENSIONS, counted.shape[1] - 1), random_state=0).fit(counted)
    found: dict[str, NDArray[Any]] = {}
    for begin in range(0, len(texts), _AT_ONCE):
        part = texts[begin : begin + _AT_ONCE]
        vectors = svd.transform(words.transform(part))
        vectors[~vectors.any(axis=1)] = 1.0  # no known word: a vector all the same
        vectors = normalize(vectors).astype(np.float32)
        found.update(zip(part, vectors, strict=True))
    return found
