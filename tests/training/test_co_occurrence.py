"""Counts of what was used together."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy import sparse

from cnp_router.catalog import Api, Catalog
from cnp_router.training import co_occurrence as module
from cnp_router.training.catalog_change import CatalogChange
from cnp_router.training.co_occurrence import CoOccurrence, scattered


def used(n_mashups, n_apis, seed=0, share=0.1):
    """Return random uses: some mashups use nothing, some APIs are never used."""
    rng = np.random.default_rng(seed)
    likely = share * rng.exponential(size=n_apis) * (np.arange(n_apis) % 7 > 0)
    dense = rng.random((n_mashups, n_apis)) < likely
    return sparse.csr_array(dense.astype(np.float32))


def plain(pairs):
    return pairs.together.toarray()


def counted(usage):
    dense = usage.toarray()
    together = dense.T @ dense
    np.fill_diagonal(together, 0)
    return together


def test_pairs_and_uses_are_counted():
    usage = used(300, 40)
    pairs = CoOccurrence.of(usage)
    np.testing.assert_array_equal(plain(pairs), counted(usage))
    np.testing.assert_array_equal(pairs.counts, usage.sum(axis=0))
    assert pairs.together.dtype == pairs.counts.dtype == np.float32
    assert (pairs.together.data > 0).all()
    assert pairs.together.has_sorted_indices


def test_parts_counted_apart_merge_exactly():
    usage = used(300, 40)
    parts = [CoOccurrence.of(usage[rows]) for rows in (slice(0, 90), slice(90, 91), slice(91, 300))]
    merged = parts[0].merged(parts[1]).merged(parts[2])
    whole = CoOccurrence.of(usage)
    np.testing.assert_array_equal(plain(merged), plain(whole))
    np.testing.assert_array_equal(merged.counts, whole.counts)


def test_nothing_at_all():
    for usage in (sparse.csr_array((0, 5)), sparse.csr_array((3, 5)), used(3, 0)):
        pairs = CoOccurrence.of(usage)
        assert pairs.together.nnz == 0
        assert pairs.given(np.zeros(0, dtype=int)).index.tolist() == []


def test_given_is_the_share_of_the_mashups_with_some_doubt():
    usage = used(300, 40)
    pairs = CoOccurrence.of(usage)
    expected = counted(usage) / (usage.sum(axis=0) + 2)
    found = pairs.given(np.array([9, 3, 0]))
    dense = np.zeros((40, 3))
    dense[found.index, np.repeat(np.arange(3), found.sizes)] = found.data
    np.testing.assert_allclose(dense, expected[:, [9, 3, 0]], rtol=1e-6)
    np.testing.assert_allclose(pairs.conditional().toarray(), expected, rtol=1e-6)


@pytest.mark.parametrize("cells", [1, 100, 10**6])
def test_expected_of_many_requests_is_that_of_each(monkeypatch, cells):
    monkeypatch.setattr(module, "_CELLS", cells)
    usage = used(300, 40)
    pairs, rng = CoOccurrence.of(usage), np.random.default_rng(1)
    given = counted(usage) / (usage.sum(axis=0) + 2)
    sizes = [12, 0, 1, 25, 7]
    positions = [np.sort(rng.choice(40, n, replace=False)) for n in sizes]
    p = [rng.random(n) for n in sizes]
    kept = [rng.permutation(own)[:6] for own in positions]
    found = pairs.expected(
        np.concatenate(kept),
        np.array([len(own) for own in kept]),
        np.concatenate(positions),
        np.cumsum([0, *sizes]),
        np.concatenate(p),
    )
    wanted = [given[i][:, at] @ own for i, at, own in zip(kept, positions, p, strict=True)]
    np.testing.assert_allclose(found, np.concatenate(wanted), rtol=1e-5)
    assert found.dtype == np.float32


@pytest.mark.parametrize("cells", [1, 100, 10**6])
@pytest.mark.parametrize("most", [5, 2_048])
def test_what_many_requests_call_for_is_what_each_does(monkeypatch, cells, most):
    monkeypatch.setattr(module, "_CELLS", cells)
    monkeypatch.setattr(module, "MOST_PARTNERS", most)
    pairs, rng = CoOccurrence.of(used(300, 40, share=0.2)), np.random.default_rng(1)
    sizes = [12, 0, 1, 25, 7]
    positions = [rng.choice(40, n, replace=False) for n in sizes]
    p = [rng.random(n).astype(np.float32) for n in sizes]
    starts, found, values = pairs.called_for(
        np.concatenate(positions), np.cumsum([0, *sizes]), np.concatenate(p)
    )
    assert values.dtype == np.float32
    for row, (own, expected) in enumerate(zip(positions, p, strict=True)):
        given = pairs.given(own)
        wanted = np.bincount(given.index, given.data * np.repeat(expected, given.sizes), 40)
        there = slice(*starts[row : row + 2])
        np.testing.assert_array_equal(found[there], np.flatnonzero(wanted))
        np.testing.assert_allclose(values[there], wanted[wanted > 0], rtol=1e-6)


def test_of_an_api_with_many_partners_the_first_are_looked_at(monkeypatch):
    usage = used(300, 40, share=0.2)
    whole = CoOccurrence.of(usage)
    monkeypatch.setattr(module, "MOST_PARTNERS", 5)
    pairs = CoOccurrence.of(usage)
    np.testing.assert_array_equal(plain(pairs), plain(whole))  # nothing is lost
    found = pairs.given(np.arange(40))
    assert found.sizes.max() == 5
    (popular,) = np.flatnonzero(pairs.counts == pairs.counts.max())[:1]
    heaviest = np.sort(plain(pairs)[:, popular])[-5:]
    own = pairs.given(np.array([popular]))
    np.testing.assert_allclose(np.sort(own.data), heaviest / (pairs.counts[popular] + 2), rtol=1e-6)
    assert (np.diff(own.index) > 0).all()
    one = pairs.expected(
        np.array([popular]), np.array([1]), np.arange(40), np.array([0, 40]), np.ones(40)
    )
    share = plain(pairs)[popular] / (pairs.counts + 2)
    first = np.argsort(-plain(pairs)[popular], kind="stable")[:5]
    assert one[0] == pytest.approx(share[first].sum(), rel=1e-5)


def test_it_follows_the_catalog():
    """APIs go, come, and come back: counted as if all had been counted again."""
    names = [f"a{i}" for i in range(20)]
    usage = used(200, 20, share=0.2)
    before = Catalog(Api(name, name) for name in names[:15])
    order = [*names[18:], *names[4:12][::-1], "new", *names[12:17]]
    now = Catalog(Api(name, name) for name in order)
    place = [names.index(name) for name in order if name != "new"]
    columns = sparse.csc_array(usage)
    left = sparse.hstack(
        [columns[:, place[:10]], sparse.csc_array((200, 1)), columns[:, place[10:]]], "csr"
    ).astype(np.float32)
    left = sparse.csr_array(left)
    pairs = CoOccurrence.of(sparse.csr_array(columns[:, :15]))
    synced = pairs.synced(CatalogChange.between(before, now), left)
    again = CoOccurrence.of(left)
    np.testing.assert_array_equal(plain(synced), plain(again))
    np.testing.assert_array_equal(synced.counts, again.counts)


def test_state_round_trip_and_check():
    pairs = CoOccurrence.of(used(50, 12))
    again = CoOccurrence.from_state(pairs.state())
    np.testing.assert_array_equal(plain(again), plain(pairs))
    again.check({"apis": 12})
    with pytest.raises(ValueError, match="together"):
        again.check({"apis": 13})
    with pytest.raises(ValueError, match="below 0"):
        CoOccurrence(pairs.together, pairs.counts - 100).check({"apis": 12})


def test_scattered_leaves_nothing_behind():
    keys, wanted = np.array([2, 7]), np.array([0, 2, 2, 7])
    assert scattered(keys, np.array([0.5, 2.0]), wanted, 9).tolist() == [0, 0.5, 0.5, 2]
    assert scattered(keys[:0], 1.0, wanted, 9).tolist() == [0] * 4
    with pytest.raises(IndexError):
        scattered(keys, 1.0, np.array([10**9]), 9)
    assert scattered(keys[:0], 1.0, wanted, 9).tolist() == [0] * 4


def test_threads_have_their_own_place_to_look_up():
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            keys = rng.choice(500, 60, replace=False)
            values = rng.random(60).astype(np.float32)
            if not np.array_equal(scattered(keys, values, keys, 500), values):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
