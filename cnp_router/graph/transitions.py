"""`TransitionGraph`: which APIs are used together, and which comes after which."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, triu

from cnp_router.catalog import ROWS_SHOWN, Catalog, html_table
from cnp_router.exceptions import InputError, NotFittedError
from cnp_router.graph.counting import Counts, at_least, count, unknown_api
from cnp_router.graph.statistics import GraphStatistics, statistics
from cnp_router.graph.walk import RandomWalk, random_walk_with_restart
from cnp_router.graph.weighting import WEIGHTINGS, Weighting, weighted
from cnp_router.history import History
from cnp_router.records import check_flag, check_number

__all__ = ["NextApi", "TransitionGraph"]


@dataclass(frozen=True, slots=True)
class NextApi:
    """One predicted API, the probability that it is the next one, and how often that was observed.

    The count is that of co-uses with the known ones, summed over them, or of transitions from the
    last one. It is 0 if only the prior speaks for it.
    """

    api: str
    probability: float
    count: int


class TransitionGraph:
    """The graph of what was used together, or in what order, in past compositions.

    ``P(t_j | t_i) = count(t_i, t_j) / sum_k count(t_i, t_k)``, where a count is the number of
    mashups that use both (undirected) or of times the second came right after the first
    (directed; only mashups marked ``ordered`` tell). What needs counts raises NotFittedError before
    `fit`.

    Parameters
    ----------
    directed : bool, default=False
        Learn from the order of ordered mashups rather than from joint use.
    smoothing : float >= 0, default=0.0
        Strength of a Dirichlet prior centred on the overall usage, in observations:
        ``(count(i, j) + smoothing * prior_j) / (sum_k count(i, k) + smoothing)``. An API with
        little history is thus predicted by popularity, one with much by its own row. It acts in
        `scores` and `predict_next`, as ``trust_i * transition_i + (1 - trust_i) * prior``, which
        is the same number without a dense matrix; `transition_` itself is not smoothed.
    min_support : int >= 1, default=1
        Edges counted fewer times are dropped.
    weighting : {"probability", "jaccard", "ppmi", "cosine"}, default="probability"
        What stands in for the counts in the formula above; see `cnp_router.graph.weighting`.

    Attributes
    ----------
    apis_ : tuple of str
        The API ids: in catalog order if a catalog was given, else the sorted ids seen.
    catalog_ : Catalog or None
        The catalog given to `fit`.
    n_mashups_ : int
    usage_ : ndarray of shape (n_apis,), int
        In how many mashups each API is.
    co_usage_ : csr_array of shape (n_apis, n_apis), int, symmetric, zero diagonal
        In how many mashups both are.
    transitions_ : csr_array of shape (n_apis, n_apis), int
        How often the second came right after the first in ordered mashups. An API may follow
        itself, so the diagonal counts.
    edges_ : csr_array of shape (n_apis, n_apis), int
        `co_usage_`, or `transitions_` if directed, where at least `min_support`.
    transition_ : csr_array of shape (n_apis, n_apis), rows sum to 1 or 0
        The weights of `edges_`, each row divided by its sum.
    prior_ : ndarray of shape (n_apis,), sums to 1 (or 0 with nothing counted)
        Each API's share of all uses, or of all transitions if directed.
    trust_ : ndarray of shape (n_apis,), in [0, 1]
        How much each API's own row weighs against `prior_`.
    tie_ranks : ndarray of shape (n_apis,), int
        Each API's place among all, ordered by usage, then by id.

    References
    ----------
    AutoTool (AAAI 2026) for the directed graph, its row maximum as the prediction and as the
    confidence. MacKay and Peto, "A hierarchical Dirichlet language model", Natural Language
    Engineering 1(3), 1995, for the smoothing.

    Examples
    --------
    >>> from cnp_router.history import History, Mashup
    >>> history = History([
    ...     Mashup("m1", "Weather on a map", ("maps", "weather")),
    ...     Mashup("m2", "Photos on a map", ("maps", "photos")),
    ...     Mashup("m3", "Rain where you are, by text", ("maps", "weather", "sms")),
    ...     Mashup("m4", "Remind me by text", ("sms",)),
    ... ])
    >>> graph = TransitionGraph().fit(history)
    >>> graph.apis_
    ('maps', 'photos', 'sms', 'weather')
    >>> graph.co_usage_.toarray().tolist()
    [[0, 1, 1, 2], [1, 0, 0, 0], [1, 0, 0, 1], [2, 0, 1, 0]]
    >>> graph.predict_next(["maps"], k=1)
    (NextApi(api='weather', probability=0.5, count=2),)
    """

    def __init__(
        self,
        *,
        directed: bool = False,
        smoothing: float = 0.0,
        min_support: int = 1,
        weighting: Weighting = "probability",
    ) -> None:
        self.directed = directed
        self.smoothing = smoothing
        self.min_support = min_support
        self.weighting = weighting

    def fit(self, history: History, catalog: Catalog | None = None) -> TransitionGraph:
        """Count the history and return this graph.

        Takes time and memory linear in the sum of the squared mashup sizes.

        Parameters
        ----------
        history : History
            At least one mashup; if directed, at least one ordered.
        catalog : Catalog, optional
            Gives the order of the APIs, their names and categories, and APIs never used. Every
            API of the history must be in it.

        Raises
        ------
        InputError
            If a parameter or the history is not usable.
        UnknownApiError
            If a mashup names an API that the catalog does not have.
        """
        self._check_parameters()
        if len(history) == 0:
            raise InputError("the history is empty (give at least one mashup)")
        if self.directed and not any(mashup.ordered for mashup in history):
            raise InputError(
                "a directed graph needs ordered mashups, and none of the "
                f"{len(history)} is (set 'ordered', or use directed=False)"
            )
        self.catalog_ = catalog
        self._set_counts(len(history), count(history, None if catalog is None else catalog.ids))
        return self

    def partial_fit(self, history: History) -> TransitionGraph:
        """Count more mashups on top of those counted already, if any; return this graph.

        The result is that of `fit` on all of them. Takes time linear in the number of edges and
        in the sum of the squared sizes of the new mashups.

        Parameters
        ----------
        history : History
            With a catalog, every API must be in it. Without one, APIs not seen before are added
            at the end of `apis_`.

        Raises
        ------
        UnknownApiError
            If a mashup names an API that the catalog does not have; nothing is counted then.

        Examples
        --------
        >>> from cnp_router.history import History, Mashup
        >>> graph = TransitionGraph().fit(History([Mashup("m1", "Map by text", ("maps", "sms"))]))
        >>> more = History([Mashup("m2", "Rain on a map", ("maps", "weather"))])
        >>> graph.partial_fit(more).apis_, graph.predict_next(["maps"], k=1)[0].probability
        (('maps', 'sms', 'weather'), 0.5)
        """
        if not hasattr(self, "trust_"):
            return self.fit(history)
        self._check_parameters()
        ids = self.apis_
        if self.catalog_ is None:
            used = {api for mashup in history for api in mashup.apis}
            ids = (*ids, *sorted(used.difference(ids)))
        new = count(history, ids)
        grown = len(ids) - len(self.apis_)
        counts = Counts(
            ids,
            np.pad(self.usage_, (0, grown)) + new.usage,
            _widened(self.co_usage_, grown) + new.co_usage,
            _widened(self.transitions_, grown) + new.transitions,
        )
        self._set_counts(self.n_mashups_ + len(history), counts)
        return self

    def _set_counts(self, n_mashups: int, counts: Counts) -> None:
        self.n_mashups_ = n_mashups
        self.apis_: tuple[str, ...] = counts.apis
        self.usage_: NDArray[np.int64] = counts.usage
        self.co_usage_: csr_array = counts.co_usage
        self.transitions_: csr_array = counts.transitions
        self._positions = {api: position for position, api in enumerate(self.apis_)}
        usage = counts.usage.tolist()
        by_rank = sorted(range(len(usage)), key=lambda place: (-usage[place], counts.apis[place]))
        self.tie_ranks: NDArray[np.intp] = np.argsort(by_rank)
        if self.directed:
            raw = self.transitions_
            sources, targets, total = raw.sum(axis=1), raw.sum(axis=0), raw.sum()
        else:
            raw = self.co_usage_
            sources, targets, total = self.usage_, self.usage_, n_mashups
        self.edges_: csr_array = at_least(self.min_support, raw)
        self.transition_: csr_array = weighted(self.edges_, self.weighting, sources, targets, total)
        self.prior_: NDArray[np.float64] = targets / max(targets.sum(), 1)
        # A weighting may drop every edge of a row: such a row has no evidence either.
        has_row = np.diff(self.transition_.indptr) > 0
        evidence = np.where(has_row, np.asarray(self.edges_.sum(axis=1), dtype=float), 0.0)
        s = self.smoothing
        self.trust_: NDArray[np.float64] = (
            evidence / (evidence + s) if s > 0 else np.ones_like(evidence)
        )

    def scores(self, known_positions: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return how likely each API is the next one.

        Undirected: the mean of the (smoothed) rows of the known APIs, that is, each of them is as
        likely as the others to be the one that calls for the next; then the known ones are set to
        0 and the rest is scaled to sum to 1. Their order and repeats do not matter.
        Directed: the (smoothed) row of the last one. An API may follow itself.

        Without evidence (nothing known, or nothing but APIs without an edge) the prior answers if
        `smoothing` is positive; otherwise every score is 0.

        Parameters
        ----------
        known_positions : array-like of int, shape (n_known,)
            Positions in `apis_`; in order of use if directed.

        Returns
        -------
        ndarray of shape (n_apis,), in [0, 1], sums to 1 or 0

        Raises
        ------
        InputError
            If a position is out of range.
        """
        self.check_fitted()
        known = self._deciding(known_positions)
        if known.size == 0:
            return self.prior_.copy() if self.smoothing > 0 else np.zeros_like(self.prior_)
        trust = self.trust_[known]
        result = np.zeros(len(self.apis_))
        # Not trust @ transition_[known]: the same number at four times the cost.
        for position, weight in zip(known, trust, strict=True):
            start, end = self.transition_.indptr[position : position + 2]
            result[self.transition_.indices[start:end]] += weight * self.transition_.data[start:end]
        result += (1.0 - trust).sum() * self.prior_
        if not self.directed:
            result[known] = 0.0
        total = result.sum()
        # Without smoothing a single row sums to 1 already: leave its exact values alone.
        if total > 0 and not math.isclose(total, 1.0, rel_tol=1e-12):
            result /= total
        return np.asarray(np.minimum(result, 1.0))

    def predict_next(self, known: Iterable[str], *, k: int = 10) -> tuple[NextApi, ...]:
        """Predict the next API.

        Parameters
        ----------
        known : iterable of str
            Ids of the APIs already in use. Undirected: a set, of which none is returned.
            Directed: a prefix in order of use, whose last element decides.
        k : int, default=10
            How many at most. Fewer are returned if fewer have a positive score.

        Returns
        -------
        tuple of NextApi
            By `scores` descending, ties broken by usage, then by id. The first one's probability
            is the confidence.

        Raises
        ------
        InputError
            If `k` is below 1, or `known` is a single string.
        UnknownApiError
            If the graph does not have one of the ids.
        """
        self.check_fitted()
        if isinstance(known, str):
            raise InputError(f"known must be a list of API ids, got the string {known!r}")
        check_number("k", k, 1, whole=True)
        positions = [self.position(api) for api in known]
        scores = self.scores(positions)
        counts = self.edges_[self._deciding(positions)].sum(axis=0)
        order = self.ranked(scores)[:k]
        return tuple(NextApi(self.apis_[p], float(scores[p]), int(counts[p])) for p in order)

    def ranked(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the positions with a positive score, best first, ties by usage, then by id."""
        self.check_fitted()
        positive = np.flatnonzero(scores > 0)
        # Sums of the same numbers in another order differ in the last digits: no tie-breaker.
        rounded = np.round(scores[positive], 12)
        return positive[np.lexsort((self.tie_ranks[positive], -rounded))]

    def position(self, api_id: str) -> int:
        """Return the index of an API in `apis_`; an UnknownApiError if the graph lacks it."""
        self.check_fitted()
        try:
            return self._positions[normalize("NFC", api_id) if type(api_id) is str else api_id]
        except KeyError:
            raise unknown_api(api_id, self.apis_) from None

    def random_walk(
        self,
        seeds: Mapping[str, float],
        *,
        restart: float = 0.15,
        tolerance: float = 1e-8,
        max_iter: int = 200,
    ) -> RandomWalk:
        """Walk the graph with restarts at weighted seeds (personalised PageRank).

        At each step the walker goes back to a seed with probability `restart`, and otherwise
        follows an edge; where no edge leads on it goes back to a seed too. The error shrinks by
        ``1 - restart`` a step, so the defaults converge on any graph (within 118 steps).

        Parameters
        ----------
        seeds : mapping of str to float
            API ids and their non-negative weights, at least one positive.
        restart : float in (0, 1], default=0.15
        tolerance : float, default=1e-8
            Stop when a step changes the distribution by no more than this (L1).
        max_iter : int, default=200

        Returns
        -------
        RandomWalk
            With ``converged`` False if `max_iter` steps were too few.

        Raises
        ------
        InputError, UnknownApiError
            If a parameter is out of its range, or the graph does not have a seed.

        References
        ----------
        Tong, Faloutsos and Pan, "Fast random walk with restart and its applications", ICDM 2006.
        Haveliwala, "Topic-sensitive PageRank", WWW 2002, for weighted seeds.

        Examples
        --------
        >>> from cnp_router.history import History, Mashup
        >>> history = History([
        ...     Mashup("m1", "Weather on a map", ("maps", "weather")),
        ...     Mashup("m2", "Rain by text", ("weather", "sms")),
        ... ])
        >>> walk = TransitionGraph().fit(history).random_walk({"maps": 1.0})
        >>> [reached.api for reached in walk.top(3)]
        ['weather', 'maps', 'sms']
        """
        self.check_fitted()
        weights = np.zeros(len(self.apis_))
        for api, weight in seeds.items():
            weights[self.position(api)] = weight
        return random_walk_with_restart(
            self.apis_, self.transition_, weights, restart, tolerance, max_iter
        )

    def statistics(self) -> GraphStatistics:
        """Return the size and shape of the graph; see `GraphStatistics`."""
        self.check_fitted()
        return statistics(self.usage_, self.edges_, directed=self.directed)

    def check_fitted(self) -> None:
        """Raise `NotFittedError` before `fit`."""
        if not hasattr(self, "trust_"):
            raise NotFittedError("this TransitionGraph is not fitted (call fit(history) first)")

    def __repr__(self) -> str:
        settings = (
            f"directed={self.directed!r}, smoothing={self.smoothing!r}, "
            f"min_support={self.min_support!r}, weighting={self.weighting!r}"
        )
        if not hasattr(self, "trust_"):
            return f"TransitionGraph({settings})"
        n_edges = self.edges_.nnz if self.directed else self.edges_.nnz // 2
        return f"TransitionGraph({settings}; {len(self.apis_)} APIs, {n_edges} edges)"

    def _repr_html_(self) -> str:
        if not hasattr(self, "trust_"):
            return html_table(repr(self), (), (), 0)
        edges = self.edges_.tocoo() if self.directed else triu(self.edges_, format="coo")
        first = np.argsort(-edges.data, kind="stable")[:ROWS_SHOWN]
        rows = [(self.apis_[edges.row[i]], self.apis_[edges.col[i]], edges.data[i]) for i in first]
        head = ("API", "then" if self.directed else "with", "count")
        return html_table(repr(self), head, rows, edges.nnz)

    def _check_parameters(self) -> None:
        check_flag("directed", self.directed)
        check_number("smoothing", self.smoothing, 0, 10**12)
        check_number("min_support", self.min_support, 1, whole=True)
        if self.weighting not in WEIGHTINGS:
            names = ", ".join(map(repr, WEIGHTINGS))
            raise InputError(f"unknown weighting {self.weighting!r} (use one of {names})")

    def _deciding(self, known: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the positions whose rows decide: the last, or all without their order."""
        positions = np.asarray(known, dtype=np.int64).ravel()
        n = len(self.apis_)
        if positions.size and not 0 <= positions.min() <= positions.max() < n:
            raise InputError(f"known positions must be in [0, {n}), got {positions.tolist()!r}")
        return positions[-1:] if self.directed else np.unique(positions)


def _widened(matrix: csr_array, by: int) -> csr_array:
    wider = matrix.copy()
    wider.resize(matrix.shape[0] + by, matrix.shape[1] + by)
    return wider
