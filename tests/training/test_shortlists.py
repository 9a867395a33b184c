"""Candidates of many requests in flat arrays, against one request at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from cnp_router.training import shortlists as module
from cnp_router.training.co_occurrence import CoOccurrence
from cnp_router.training.linear import Logistic, sigmoid
from cnp_router.training.shortlists import N_SET_FEATURES, SHORTLIST, Shortlists
from cnp_router.training.views import Candidates

N_APIS, N_FEATURES = 120, 5
FIRST = Logistic(np.array([1.0, -0.5, 0.2, 0.0, 0.3]), -2.0)
SIZES = (70, 0, 3, 41, 40, 100, 1)


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    return [
        Candidates(
            np.sort(rng.choice(N_APIS, n, replace=False)),
            rng.normal(size=(n, N_FEATURES)).round(1).astype(np.float32),
        )
        for n in SIZES
    ]


@pytest.fixture(scope="module")
def pairs():
    usage = np.random.default_rng(1).random((200, N_APIS)) < 0.05
    return CoOccurrence.of(sparse.csr_array(usage.astype(np.float32)))


def by_request(lists, values):
    return np.split(values, lists.starts[1:-1])


def kept_by_request(lists, values):
    return np.split(values, np.cumsum(lists.n_kept)[:-1])


def test_the_best_are_kept_of_equal_ones_the_first(found):
    lists = Shortlists.of(FIRST, found)
    kept = kept_by_request(lists, lists.kept)
    for own, start, rank, places in zip(
        found, lists.starts, by_request(lists, lists.rank), kept, strict=False
    ):
        x = FIRST.log_odds(own.features)
        order = np.argsort(-x, kind="stable")
        assert (places - start).tolist() == order[:SHORTLIST].tolist()
        assert rank[order].tolist() == list(range(len(x)))


def test_features_are_those_of_each_request_alone(found, pairs):
    lists = Shortlists.of(FIRST, found)
    together = kept_by_request(lists, lists.features(pairs, found))
    for own, X in zip(found, together, strict=True):
        x = FIRST.log_odds(own.features)
        kept = np.argsort(-x, kind="stable")[:SHORTLIST]
        p = np.clip(sigmoid(x), 1e-6, 1 - 1e-6)
        expected = np.zeros(N_APIS)
        expected[own.positions] = p
        assert X.shape == (len(kept), N_FEATURES + N_SET_FEATURES)
        if not len(kept):
            continue
        wanted = np.column_stack(
            [
                own.features[kept],
                np.log(p[kept] / (1 - p[kept])),
                np.log1p(np.arange(len(kept))),
                p[kept] / p.max(),
                np.full(len(kept), p.sum()),
                np.full(len(kept), p.max()),
                (pairs.conditional() @ expected)[own.positions[kept]],
            ]
        )
        np.testing.assert_allclose(X, wanted, rtol=1e-5)
        alone = Shortlists.of(FIRST, [own]).features(pairs, [own])
        np.testing.assert_allclose(X, alone, rtol=1e-6)


def test_the_rest_is_told_apart_by_odds_and_rank(found):
    lists = Shortlists.of(FIRST, found)
    left, rest = lists.left, lists.rest_features()
    alone = [Shortlists.of(FIRST, [own]).rest_features() for own in found]
    np.testing.assert_allclose(rest, np.concatenate(alone), rtol=1e-12)
    assert len(left) == sum(max(n - SHORTLIST, 0) for n in SIZES)
    x = FIRST.log_odds(found[0].features)
    p = sigmoid(x)
    behind = np.flatnonzero(lists.rank[: SIZES[0]] >= SHORTLIST)
    wanted = np.column_stack(
        [
            x[behind],
            np.log1p(lists.rank[behind]),
            np.full(len(behind), np.log(p.sum())),
            np.full(len(behind), np.log(p.max())),
        ]
    )
    np.testing.assert_allclose(rest[: len(behind)], wanted, rtol=1e-6)


def test_the_rest_stays_below_the_middle_of_the_shortlist(found):
    lists = Shortlists.of(FIRST, found)
    rng = np.random.default_rng(2)
    short, rest = rng.random(len(lists.kept)) * 0.5, rng.random(len(lists.left))
    every = by_request(lists, lists.combined(short, rest))
    starts = np.cumsum([0, *(max(n - SHORTLIST, 0) for n in SIZES)])
    for own, kept, start, end, n in zip(
        every, kept_by_request(lists, short), starts[:-1], starts[1:], SIZES, strict=True
    ):
        if n <= SHORTLIST:
            assert np.sort(own).tolist() == np.sort(kept).tolist()
            continue
        behind = rest[start:end]
        scale = min(1.0, np.median(kept) / behind.max())
        np.testing.assert_allclose(np.sort(own), np.sort([*kept, *(behind * scale)]))


def test_no_request_has_any():
    none = Candidates(np.zeros(0, dtype=int), np.zeros((0, N_FEATURES), dtype=np.float32))
    nobody = CoOccurrence.of(sparse.csr_array((0, N_APIS)))
    for several in ([none], [none, none]):
        lists = Shortlists.of(FIRST, several)
        assert lists.features(nobody, several).shape == (0, N_FEATURES + N_SET_FEATURES)
        assert lists.rest_features().shape == (0, module.N_REST_FEATURES)
        assert lists.combined(np.zeros(0), np.zeros(0)).tolist() == []
        assert lists.mass.tolist() == lists.best.tolist() == [0] * len(several)
