from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from cnp_router.history import History, Mashup
from cnp_router.training import completion as module
from cnp_router.training import fit_router
from cnp_router.training.co_occurrence import CoOccurrence
from cnp_router.training.co_usage_features import CoUsageFeatures
from cnp_router.training.completion import Completion
from cnp_router.training.corpus import Corpus, Specifications
from cnp_router.training.ranker import Example
from cnp_router.training.views import Behind, Candidates, Neighbours

N = 12
NONE = Neighbours(np.zeros(0, dtype=int), np.zeros(0))


@pytest.fixture(scope="module")
def past():
    """Pairs (0, 1), (2, 3), ... are always used together, and no others."""
    usage = sparse.csr_array(np.repeat(np.eye(N // 2, dtype=np.float32), 2, axis=1))
    usage = sparse.csr_array(sparse.vstack([usage] * 8))
    nothing = sparse.csr_array((N, 0), dtype=np.float32)
    latent = np.zeros((N, 2), dtype=np.float32)
    index = Specifications(*[None] * 6, latent=latent, vectors=None, vector_index=None)
    return CoUsageFeatures(Corpus(index, usage, nothing, *[None] * 9), CoOccurrence.of(usage))


def examples_of(past, used, *, is_natural=True):
    """Return examples whose text suggests every API, and does not say which were used."""
    rng = np.random.default_rng(0)
    found = Candidates(np.arange(N), np.zeros((N, 3), dtype=np.float32))
    examples = [
        Example(past, NONE, found, np.array(u), is_natural, i, 0.0, NOTHING)
        for i, u in enumerate(used)
    ]
    text = [rng.uniform(0.1, 0.3, N) for _ in used]
    return examples, text


NOTHING = Behind(np.zeros((2, 0)), np.zeros((2, 0)), np.zeros(0))
PAIRS = [(2 * (i % 6), 2 * (i % 6) + 1) for i in range(200)]


@pytest.fixture(scope="module")
def completion(past):
    return Completion.fit(*examples_of(past, PAIRS), random_state=0)


def test_the_partner_of_a_known_api_is_raised(completion, past):
    found = completion.complete(np.arange(N), np.full(N, 0.2), past, NONE, [4])
    assert 4 not in found.positions.tolist()
    assert found.positions[found.probabilities.argmax()] == 5
    assert found.probabilities.max() > 0.8
    assert np.sort(found.probabilities)[-2] < 0.2


def test_a_partner_that_the_text_does_not_suggest_is_found(completion, past):
    found = completion.complete(np.array([0]), np.array([0.3]), past, NONE, [6])
    assert found.positions.tolist() == [0, 7]
    assert ((found.probabilities > 0) & (found.probabilities < 1)).all()


def test_nothing_is_left(completion, past):
    found = completion.complete(np.array([8]), np.array([0.3]), past, NONE, [8, 9])
    assert len(found.positions) == len(found.probabilities) == 0


def test_what_was_not_looked_at_stays_behind(completion, past, monkeypatch):
    monkeypatch.setattr("cnp_router.training.co_usage_features.N_FROM_TEXT", 2)
    text = np.linspace(0.9, 0.01, N)
    found = completion.complete(np.arange(N), text, past, NONE, [4])
    assert found.positions.tolist() == [0, 1, 2, 3, *range(5, N)]
    looked_at = np.isin(found.positions, [0, 1, 5])
    assert found.probabilities[~looked_at].max() <= found.probabilities[looked_at].min()
    assert (found.probabilities[~looked_at] <= text[found.positions[~looked_at]]).all()


@pytest.mark.parametrize("used", [[], [(0,)] * 90, PAIRS[: (module.MIN_NATURAL - 1) // 2]])
def test_with_too_little_to_learn_from_the_text_decides(past, used):
    completion = Completion.fit(*examples_of(past, used), random_state=0)
    assert completion.ranker is None
    text = np.linspace(0.1, 0.9, N)
    found = completion.complete(np.arange(N), text, past, NONE, [2])
    assert 2 not in found.positions
    np.testing.assert_array_equal(found.probabilities, text[found.positions])


def test_examples_whose_history_is_hidden_do_not_calibrate(past):
    examples = examples_of(past, PAIRS, is_natural=False)
    assert Completion.fit(*examples, random_state=0).ranker is None


def test_parts_that_are_known():
    rng = np.random.default_rng(0)
    used = np.array([3, 5, 8])
    parts = [part.tolist() for _ in range(60) for part in module._parts_known(used, rng)]
    assert {len(part) for part in parts} == {1, 2}
    assert {api for part in parts for api in part} == {3, 5, 8}
    assert module._parts_known(np.array([3]), rng) == []


def test_no_more_examples_than_the_most(past, monkeypatch):
    taken = []
    monkeypatch.setattr(module, "MAX_EXAMPLES", 40)
    monkeypatch.setattr(
        module.Ranker, "fit", lambda examples, **_: (taken.append(len(examples)), None)
    )
    Completion.fit(*examples_of(past, PAIRS), random_state=0)
    assert taken == [40]


def test_the_same_seed_gives_the_same_model(past):
    def answer(seed):
        triples = [(i % 10, i % 10 + 1, i % 10 + 2) for i in range(60)]
        completion = Completion.fit(*examples_of(past, triples), random_state=seed)
        text = np.linspace(0.1, 0.5, N)
        return completion.complete(np.arange(N), text, past, NONE, [0]).probabilities.tolist()

    assert answer(3) == answer(3) != answer(4)


@pytest.mark.parametrize("learned", [True, False])
def test_state_round_trip(completion, past, learned):
    before = completion if learned else Completion(None)
    again = Completion.from_state(before.state())
    arguments = (np.arange(N), np.full(N, 0.2), past, NONE, [1, 2])
    np.testing.assert_array_equal(
        again.complete(*arguments).probabilities, before.complete(*arguments).probabilities
    )


class TestRouter:
    def test_the_missing_one_of_a_clique_comes_first(self, router, world):
        # Of each clique every API is missing equally often: the text cannot tell which.
        first = [router.route(case.request, case.known).contractors[0] for case in world.cases]
        assert (
            np.mean([a == case.missing for a, case in zip(first, world.cases, strict=True)]) > 0.9
        )

    def test_without_known_apis_completion_has_no_say(self, router, world):
        case = world.cases[0]
        before = router.score(case.request).probabilities
        other = fit_router(world.catalog, world.history)
        other.completion = Completion(None)
        np.testing.assert_array_equal(other.score(case.request).probabilities, before)

    def test_examples_are_out_of_fold(self, world, monkeypatch):
        """A pair that is used once only, in the example itself, leaves no trace in it."""
        pair = (world.cases[0].clique[0], world.cases[-1].clique[0])
        once = Mashup("once", "a request like no other", pair)
        seen = []
        fit = Completion.fit
        monkeypatch.setattr(
            Completion,
            "fit",
            lambda *a, **k: (seen.extend(a[0]), fit(*a, **k))[1],
        )
        fit_router(world.catalog, History([*world.history, once]))
        i, j = sorted(world.catalog.position(api) for api in pair)
        own = [example.past for example in seen if example.used.tolist() == [i, j]]
        assert own  # in one fold, or two: with near duplicates left out, and without
        for past in own:
            assert past.co_usage.together[i, j] == past.co_usage.together[j, i] == 0
        others = [example.past.co_usage.together[i, j] for example in seen]
        assert max(others) > 0
