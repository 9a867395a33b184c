from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from cnp_router.training.completion import N_CO_USED, Completion
from cnp_router.training.features import Candidates
from cnp_router.training.ranker import Example

N = 12


@pytest.fixture(scope="module")
def co_usage():
    """Pairs (0, 1), (2, 3), ... are always used together, and no others."""
    dense = np.zeros((N, N), dtype=np.float32)
    for even in range(0, N, 2):
        dense[even, even + 1] = dense[even + 1, even] = 0.8
    return sparse.csr_array(dense)


def example(co_usage, positions, used):
    features = np.zeros((len(positions), 3), dtype=np.float32)
    return Example(co_usage, Candidates(np.array(positions), features), np.array(used), False)


@pytest.fixture(scope="module")
def completion(co_usage):
    rng = np.random.default_rng(0)
    examples, held_out = [], []
    for _ in range(200):
        pair = 2 * int(rng.integers(N // 2)) + np.arange(2)
        p = np.full(N, 0.1)
        p[pair] = 0.4
        examples.append(example(co_usage, range(N), pair))
        held_out.append(p + rng.uniform(-0.05, 0.05, N))
    return Completion.fit(examples, held_out, random_state=0)


def test_the_partner_of_a_known_api_is_raised(completion, co_usage):
    positions, text = np.arange(N), np.full(N, 0.2)
    found, p = completion.probabilities(positions, text, co_usage, [4])
    assert 4 not in found.tolist()
    assert found[p.argmax()] == 5
    assert p.max() > 0.8
    assert np.sort(p)[-2] < 0.2


def test_a_partner_that_the_text_does_not_suggest_is_found(completion, co_usage):
    found, p = completion.probabilities(np.array([0]), np.array([0.3]), co_usage, [6])
    assert found.tolist() == [0, 7]
    assert np.isfinite(p).all() and (p > 0).all() and (p < 1).all()


def test_nothing_is_left(completion, co_usage):
    found, p = completion.probabilities(np.array([8]), np.array([0.3]), co_usage, [8, 9])
    assert len(found) == len(p) == 0


def test_only_so_many_partners_are_added(completion):
    n = 3 * N_CO_USED
    dense = np.zeros((n, n), dtype=np.float32)
    dense[1:, 0] = np.linspace(0.9, 0.1, n - 1)
    found, _ = completion.probabilities(
        np.array([], dtype=int), np.array([]), sparse.csr_array(dense), [0]
    )
    assert found.tolist() == list(range(1, N_CO_USED + 1))


@pytest.mark.parametrize("apis", [0, 1])
def test_with_nothing_to_learn_from_the_text_decides(co_usage, apis):
    examples = [example(co_usage, range(N), [0])] * apis
    completion = Completion.fit(examples, [np.full(N, 0.1)] * apis, random_state=0)
    text = np.linspace(0.1, 0.9, N)
    found, p = completion.probabilities(np.arange(N), text, co_usage, [2])
    np.testing.assert_allclose(p, text[found])


def test_the_same_seed_gives_the_same_model(completion, co_usage):
    examples = [example(co_usage, range(N), [i, i + 1, i + 2]) for i in range(9)]
    p = [np.linspace(0.1, 0.5, N)] * 9
    states = [Completion.fit(examples, p, random_state=seed).state() for seed in (3, 3, 4)]
    same, again, other = (state["coefficients"].tolist() for state in states)
    assert same == again != other


def test_state_round_trip(completion, co_usage):
    again = Completion.from_state(completion.state())
    arguments = (np.arange(N), np.full(N, 0.2), co_usage, [1, 2])
    np.testing.assert_array_equal(
        again.probabilities(*arguments)[1], completion.probabilities(*arguments)[1]
    )
