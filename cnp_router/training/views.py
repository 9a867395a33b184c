"""The views: each looks at a request from one side and gives every API a score.

A view sees the history, the specifications or both. None of them is a probability; the ranker
weighs them against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cnp_router.training.linear import ridge_weights, times_vector
from cnp_router.training.specifications import EncodedRequests, SpecificationIndex
from cnp_router.training.text import dense_product, unit_rows

__all__ = ["VIEWS", "Neighbours", "Views", "expected_specification", "similar_apis"]

VIEWS = (
    "ridge",  # linear model of the words against each API's use
    "neighbours",  # share of the most similar past requests that used it
    "nearest",  # similarity of the most similar past request that used it
    "centroid",  # similarity to the mean of the past requests that used it
    "words",  # similarity of the words to the specification
    "characters",  # similarity of the character runs to the specification
    "name",  # the request says its whole name
    "name words",  # share of its name that the request says
    "name weight",  # how telling the words are that it says of its name
    "expected specification",  # similarity to the specification that such requests call for
    "category",  # agreement of its categories with those such requests call for
    "co-usage",  # used together with what the linear model expects
    "similar APIs",  # use of the APIs whose specification is most like its own
)
N_VIEWS = len(VIEWS)
N_NEIGHBOURS = 40
N_SIMILAR = 10


@dataclass(frozen=True)
class Neighbours:
    """The past requests most similar to one request.

    Attributes
    ----------
    rows : ndarray of int, most similar first
        Rows of the history.
    similarity : ndarray of float in (0, 1]
    """

    rows: NDArray[Any]
    similarity: NDArray[Any]


@dataclass(frozen=True)
class ViewScores:
    """What the views say of some requests.

    Attributes
    ----------
    apis : ndarray of shape (n_requests, n_views, n_apis), float32
    categories : ndarray of shape (n_requests, n_categories), float32
        The linear model's score of each category.
    neighbours : list of Neighbours, one a request
    """

    apis: NDArray[Any]
    categories: NDArray[Any]
    neighbours: list[Neighbours]


@dataclass
class Views:
    """All views, fitted on one history.

    Attributes
    ----------
    specifications : SpecificationIndex
    usage : csr_array of shape (n_mashups, n_apis), of ones
    history_words : csr_array of shape (n_word_terms, n_mashups)
    history_characters : csr_array of shape (n_character_terms, n_mashups)
        The past requests.
    word_weights : csr_array of shape (n_word_terms, n_labels + n_categories + n_apis)
        Linear weights of the APIs with history and of the categories, then the centroids.
    labels : ndarray of shape (n_labels,)
        The APIs with history.
    counts : ndarray of shape (n_apis,)
        Mashups that used each API.
    """

    specifications: SpecificationIndex
    usage: sparse.csr_array
    history_words: sparse.csr_array
    history_characters: sparse.csr_array
    word_weights: sparse.csr_array
    labels: NDArray[Any]
    membership: sparse.csr_array
    expected: NDArray[Any]
    co_usage: sparse.csc_array
    similar: sparse.csr_array

    def __post_init__(self) -> None:
        self.co_usage = sparse.csc_array(self.co_usage)
        self.counts = np.bincount(self.usage.indices, minlength=self.usage.shape[1]).astype(
            np.float32
        )
        sizes = np.asarray(self.membership.sum(axis=1)).ravel()
        scale = sparse.diags_array((1 / np.maximum(sizes, 1)).astype(np.float32))
        self._category_mean = sparse.csr_array(scale @ self.membership)
        # One product for all that words tell, and one for characters: each has a price of its own.
        index = self.specifications
        self._by_word = sparse.csr_array(
            sparse.hstack([self.word_weights, index.word_columns, self.history_words], "csr")
        )
        self._by_character = sparse.csr_array(
            sparse.hstack([index.character_columns, self.history_characters], "csr")
        )

    @classmethod
    def fit(
        cls,
        specifications: SpecificationIndex,
        requests: EncodedRequests,
        usage: sparse.csr_array,
        membership: sparse.csr_array,
    ) -> Views:
        """Fit every view.

        Parameters
        ----------
        specifications : SpecificationIndex
        requests : EncodedRequests
            The past requests.
        usage : csr_array of shape (n_mashups, n_apis), of ones
            Which API each used. A hidden API has an empty column.
        membership : csr_array of shape (n_apis, n_categories), of ones
        """
        counts = np.bincount(usage.indices, minlength=usage.shape[1])
        labels = np.flatnonzero(counts)
        categories = sparse.csr_array(usage @ membership)
        categories.data = np.ones_like(categories.data)
        targets = sparse.csr_array(
            sparse.hstack([sparse.csc_array(usage)[:, labels], categories], format="csr")
        )
        weights = ridge_weights(requests.word, targets)
        scale = sparse.diags_array((1 / (counts + 1.0)).astype(np.float32))
        centroids = unit_rows(sparse.csr_array(scale @ (sparse.csr_array(usage.T) @ requests.word)))
        return cls(
            specifications=specifications,
            usage=usage,
            history_words=sparse.csr_array(requests.word.T),
            history_characters=sparse.csr_array(requests.character.T),
            word_weights=sparse.csr_array(sparse.hstack([weights, centroids.T], "csr")),
            labels=labels,
            membership=membership,
            expected=expected_specification(specifications, requests.word, usage),
            co_usage=_co_usage(usage, counts),
            similar=similar_apis(specifications, labels),
        )

    def scores(self, requests: EncodedRequests) -> ViewScores:
        """Score every API for some requests."""
        index = self.specifications
        n_apis = index.n_apis
        out = np.zeros((len(requests), N_VIEWS, n_apis), dtype=np.float32)
        n_labels, n_categories = len(self.labels), self.membership.shape[1]
        linear, categories, centroids, specified, past = np.split(
            dense_product(requests.word, self._by_word),
            np.cumsum([n_labels, n_categories, n_apis, n_apis]),
            axis=1,
        )
        spelled, past_spelled = np.split(
            dense_product(requests.character, self._by_character), [n_apis], axis=1
        )
        neighbours = [_nearest(similarity) for similarity in (past + past_spelled) / 2]
        out[:, 0, self.labels] = linear
        for row, near in enumerate(neighbours):
            self._vote(out[row, 1], out[row, 2], near)
        out[:, 3] = centroids
        out[:, 4] = specified
        out[:, 5] = spelled
        out[:, 6] = index.name_mention(requests.texts).toarray()
        weight = index.name_weight(requests.texts)
        out[:, 8] = weight.toarray()
        weight.data = index.name_shares(weight)
        out[:, 7] = weight.toarray()
        latent = requests.word @ index.encoders.projection
        for row, request in enumerate(latent):
            called_for = times_vector(self.expected.T, request)
            length = max(float(np.linalg.norm(called_for)), 1e-9)
            out[row, 9] = times_vector(index.latent, called_for / length)
        out[:, 10] = (self._category_mean @ categories.T).T
        likely = np.clip(out[:, 0], 0, 1)
        out[:, 11] = (self.co_usage @ likely.T).T
        out[:, 12] = (self.similar @ linear.T).T
        return ViewScores(out, categories, neighbours)

    @property
    def category_weights(self) -> sparse.csr_array:
        """The linear model of the categories, shape (n_word_terms, n_categories)."""
        start = len(self.labels)
        return sparse.csr_array(self.word_weights[:, start : start + self.membership.shape[1]])

    def _vote(self, share: NDArray[Any], nearest: NDArray[Any], near: Neighbours) -> None:
        if not len(near.rows):
            return
        starts = self.usage.indptr[near.rows]
        sizes = self.usage.indptr[near.rows + 1] - starts
        apis = self.usage.indices[
            np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
            + np.arange(sizes.sum())
        ]
        weight = np.repeat(near.similarity, sizes)
        np.add.at(share, apis, weight**2)
        share /= np.square(near.similarity).sum()
        np.maximum.at(nearest, apis, weight)

    def extended(self, specifications: SpecificationIndex, membership: sparse.csr_array) -> Views:
        """Return the views of a catalog with more APIs at its end, all of them cold."""
        n_apis = specifications.n_apis
        new = n_apis - self.usage.shape[1]
        return Views(
            specifications=specifications,
            usage=_widen(self.usage, self.usage.shape[0], n_apis),
            history_words=self.history_words,
            history_characters=self.history_characters,
            word_weights=_widen(
                self.word_weights, self.word_weights.shape[0], self.word_weights.shape[1] + new
            ),
            labels=self.labels,
            membership=membership,
            expected=self.expected,
            co_usage=sparse.csc_array(_widen(self.co_usage, n_apis, n_apis)),
            similar=sparse.csr_array(
                sparse.vstack(
                    [
                        self.similar,
                        similar_apis(specifications, self.labels, np.arange(n_apis - new, n_apis)),
                    ],
                    "csr",
                )
            ),
        )

    def check(self, *, n_mashups: int, n_apis: int) -> None:
        """Raise ValueError where the parts do not fit each other."""
        index = self.specifications
        n_terms = len(index.encoders.word.terms_)
        n_all = n_terms + len(index.encoders.character.terms_)
        n_labels, n_categories = len(self.labels), self.membership.shape[1]
        rank = index.encoders.projection.shape[1]
        shapes = {
            "usage": (self.usage, (n_mashups, n_apis)),
            "history_words": (self.history_words, (n_terms, n_mashups)),
            "history_characters": (self.history_characters, (n_all - n_terms, n_mashups)),
            "word_weights": (self.word_weights, (n_terms, n_labels + n_categories + n_apis)),
            "membership": (self.membership, (n_apis, n_categories)),
            "expected": (self.expected, (rank, rank)),
            "co_usage": (self.co_usage, (n_apis, n_apis)),
            "similar": (self.similar, (n_apis, n_labels)),
            "word_columns": (index.word_columns, (n_terms, n_apis)),
            "character_columns": (index.character_columns, (n_all - n_terms, n_apis)),
            "latent": (index.latent, (n_apis, rank)),
        }
        for name, (matrix, shape) in shapes.items():
            if matrix.shape != shape:
                raise ValueError(f"{name} is {matrix.shape}, not {shape}")

    def state(self) -> dict[str, Any]:
        """Return all but the specifications as plain data."""
        return {
            "usage": self.usage,
            "history_words": self.history_words,
            "history_characters": self.history_characters,
            "word_weights": self.word_weights,
            "labels": self.labels,
            "membership": self.membership,
            "expected": self.expected,
            "co_usage": sparse.csr_array(self.co_usage),
            "similar": self.similar,
        }


def _nearest(similarity: NDArray[Any]) -> Neighbours:
    rows = np.flatnonzero(similarity > 0)
    values = similarity[rows]
    if len(values) > N_NEIGHBOURS:
        best = values >= np.partition(values, -N_NEIGHBOURS)[-N_NEIGHBOURS]
        rows, values = rows[best], values[best]
    order = np.argsort(-values, kind="stable")[:N_NEIGHBOURS]
    return Neighbours(rows[order], values[order])


def _widen(matrix: sparse.sparray, rows: int, columns: int) -> sparse.csr_array:
    wider = sparse.csr_array(matrix, copy=True)
    wider.resize((rows, columns))
    return wider


def expected_specification(
    specifications: SpecificationIndex, requests: sparse.csr_array, usage: sparse.csr_array
) -> NDArray[Any]:
    """Return the linear map from a request to the mean specification of what it used.

    Both in the latent space, by ridge regression; a zero-shot view, since what it learned of the
    APIs with history holds for those without (Romera-Paredes and Torr, 2015).

    Parameters
    ----------
    specifications : SpecificationIndex
    requests : csr_array of shape (n_mashups, n_word_terms)
    usage : csr_array of shape (n_mashups, n_apis), of ones

    Returns
    -------
    ndarray of shape (n_components, n_components)
    """
    sizes = np.diff(usage.indptr)
    used = np.flatnonzero(sizes)
    latent = requests[used] @ specifications.encoders.projection
    target = (usage[used] @ specifications.latent) / sizes[used, None]
    gram = latent.T @ latent + np.eye(latent.shape[1], dtype=np.float32)
    return np.asarray(np.linalg.solve(gram, latent.T @ target), dtype=np.float32)


def _co_usage(usage: sparse.csr_array, counts: NDArray[Any]) -> sparse.csc_array:
    """Return ``W[i, j] = P(i | j)``, with two mashups of doubt in the denominator.

    By columns, since the known APIs are looked up there.
    """
    together = sparse.csr_array(usage.T @ usage)
    together.setdiag(0)
    together.eliminate_zeros()
    scale = sparse.diags_array((1 / (counts + 2.0)).astype(np.float32))
    return sparse.csc_array(together @ scale)


def similar_apis(
    specifications: SpecificationIndex,
    labels: NDArray[Any],
    rows: NDArray[Any] | None = None,
    *,
    block: int = 1024,
) -> sparse.csr_array:
    """Return the `N_SIMILAR` APIs with history whose specification is most like each API's own.

    Parameters
    ----------
    specifications : SpecificationIndex
    labels : ndarray of shape (n_labels,), int, ascending
        The APIs with history.
    rows : ndarray of int, optional
        The APIs to look at; by default all.

    Returns
    -------
    csr_array of shape (n_rows, n_labels), rows sum to 1 or 0
    """
    columns = specifications.word_columns
    by_api = sparse.csr_array(columns.T)
    labelled = sparse.csr_array(sparse.csc_array(columns)[:, labels])
    rows = np.arange(specifications.n_apis) if rows is None else rows
    keep = min(N_SIMILAR, len(labels))
    parts = [sparse.csr_array((0, len(labels)), dtype=np.float32)]
    for first in range(0, len(rows), block):
        apis = rows[first : first + block]
        likeness = (by_api[apis] @ labelled).toarray()
        # Not itself.
        own = np.searchsorted(labels, apis)
        inside = own < len(labels)
        inside[inside] &= labels[own[inside]] == apis[inside]
        likeness[np.flatnonzero(inside), own[inside]] = 0
        if keep < len(labels):
            floor = np.partition(likeness, -keep, axis=1)[:, -keep][:, None]
            likeness[likeness < floor] = 0
        likeness /= np.maximum(likeness.sum(axis=1, keepdims=True), 1e-9)
        parts.append(sparse.csr_array(likeness))
    return sparse.csr_array(sparse.vstack(parts, format="csr"))
