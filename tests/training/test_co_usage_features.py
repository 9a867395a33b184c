from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from cnp_router.catalog import Api, Catalog
from cnp_router.training import co_usage_features as module
from cnp_router.training.co_usage_features import FEATURES, CoUsageFeatures
from cnp_router.training.corpus import Corpus, Specifications
from cnp_router.training.encoders import EncodedRequests
from cnp_router.training.views import CoUsageView, Neighbours

# Five APIs: 0 and 1 in three mashups, in one of them with 2; 3 alone; 4 never.
USED = [(0, 1), (0, 1), (0, 1, 2), (0,), (3,)]
N = 5
CATEGORIES = [(0,), (1,), (1,), (0, 1), (1,)]
NONE = Neighbours(np.zeros(0, dtype=int), np.zeros(0))


def ones(rows, width):
    dense = np.zeros((len(rows), width), dtype=np.float32)
    for row, columns in enumerate(rows):
        dense[row, list(columns)] = 1
    return sparse.csr_array(dense)


def features_of(used=USED, categories=CATEGORIES, n_categories=2):
    usage = ones(used, N)
    nothing = EncodedRequests(
        [""] * len(used),
        *(2 * [sparse.csr_array((len(used), 0))]),
        np.zeros(0),
        np.zeros((len(used), 0)),
    )
    latent = np.eye(N, 3, dtype=np.float32)
    latent[4] = latent[0]
    none = sparse.csr_array((0, N))
    index = Specifications(
        Catalog(Api(str(i), str(i)) for i in range(N)),
        None,
        word_rows=none.T.tocsr(),
        character_rows=none.T.tocsr(),
        word_columns=none,
        character_columns=none,
        latent=latent,
        vectors=np.zeros((N, 0)),
        vector_index=None,
    )
    corpus = Corpus.of(index, nothing, usage, ones(categories, n_categories))
    return CoUsageFeatures(corpus, CoUsageView.fit(corpus, nothing).pairs)


@pytest.fixture(scope="module")
def past():
    return features_of()


def looked_up(past, known, positions=range(N), text=None, near=NONE):
    """Return the candidates, and the features by API and name."""
    positions = np.array(positions, dtype=int)
    text = np.full(len(positions), 0.2) if text is None else np.array(text)
    found = past.candidates(positions, text, near, known)
    assert found.features.shape == (len(found.positions), len(FEATURES))
    assert found.features.dtype == np.float32
    assert np.isfinite(found.features).all()
    return {
        int(api): dict(zip(FEATURES, row.tolist(), strict=True))
        for api, row in zip(found.positions, found.features, strict=True)
    }


def test_pairs(past):
    found = looked_up(past, [0])
    # 0 is in four mashups, 1 in three, all of them with 0.
    assert found[1]["strongest"] == pytest.approx(np.log(3 / 6 + 0.005))
    assert found[1]["any"] == pytest.approx(3 / 6)
    assert found[1]["reverse"] == pytest.approx(3 / 5)
    assert found[1]["support"] == 1
    assert found[1]["lift"] == pytest.approx(np.log(0.505 / (4 / 7 + 0.005)))
    assert found[3]["support"] == found[3]["any"] == 0
    both = looked_up(past, [0, 1])[2]
    assert both["mean"] == pytest.approx(np.log((1 / 6 + 1 / 5) / 2 + 0.005))
    assert both["any"] == pytest.approx(1 - (5 / 6) * (4 / 5))


def test_sets(past):
    found = looked_up(past, [0, 1])[2]
    assert found["together"] == pytest.approx(1 / (3 + 2))
    assert found["precedents"] == pytest.approx(np.log(4))
    # Squared cosines of {0, 1} with the four mashups that share something with it.
    alike = [1, 1, 4 / 6, 1 / 2]
    assert found["alike"] == pytest.approx((4 / 6) / (sum(alike) + 1))


def test_of_many_mashups_the_newest_are_looked_at(past, monkeypatch):
    monkeypatch.setattr(module, "MOST_MASHUPS", 2)
    found = looked_up(past, [0])[1]  # in (0, 1, 2) and (0,)
    assert found["together"] == pytest.approx(1 / (2 + 2))
    assert found["precedents"] == pytest.approx(np.log(3))
    assert found["alike"] == pytest.approx((1 / 3) / (1 / 3 + 1 + 1))
    # The newest of each known API: (0, 1), (0, 1, 2) and (0,).
    both = looked_up(past, [0, 1])[2]
    assert both["precedents"] == pytest.approx(np.log(3))


def test_neighbours_count_where_they_share_a_known_api(past):
    near = Neighbours(np.array([4, 2]), np.array([0.9, 0.5]))
    found = looked_up(past, [0], near=near)
    assert found[2]["nearest"] == found[1]["nearest"] == 0.5
    assert found[2]["likely neighbours"] == pytest.approx(0.25 / 0.27)
    assert found[3]["nearest"] == found[3]["likely neighbours"] == 0


def test_kinds(past):
    found = looked_up(past, [0])
    assert found[1]["categories"] == 0
    assert found[3]["categories"] == 0.5
    assert found[1]["category co-usage"] > found[3]["category co-usage"] > 0
    assert (found[4]["likeness"], found[1]["likeness"]) == (1, 0)


def test_what_the_text_says(past):
    found = looked_up(past, [0], positions=[0, 1, 3], text=[0.9, 0.4, 0.1])
    assert found[1]["log-odds"] == pytest.approx(np.log(0.4 / 0.6))
    assert found[1]["expected"] == pytest.approx(0.9)
    assert found[1]["mass"] == pytest.approx(0.5)
    assert [found[api]["rank"] for api in (1, 3)] == pytest.approx([0, np.log(2)])
    assert found[3]["ratio"] == pytest.approx(0.25)
    # Not suggested by the text, but used with 0.
    assert found[2]["log-odds"] < -9


def test_sizes(past):
    found = looked_up(past, [0, 3])[1]
    assert found["known"] == pytest.approx(np.log(2))
    assert found["history"] == pytest.approx(np.log(4))
    assert found["most history"] == pytest.approx(np.log(5))
    assert found["least history"] == pytest.approx(np.log(2))


@pytest.mark.parametrize("known", [[4], [3, 4]])
def test_a_known_api_that_was_never_used_with_another(past, known):
    found = looked_up(past, known)
    assert set(found) == set(range(N)) - set(known)
    assert all(features["any"] == 0 for features in found.values())


def test_known_twice_is_known_once(past):
    assert looked_up(past, [1, 0, 1]) == looked_up(past, [0, 1])


def test_only_so_many_join(past, monkeypatch):
    monkeypatch.setattr(module, "N_FROM_TEXT", 1)
    monkeypatch.setattr(module, "N_CO_USED", 1)
    assert set(looked_up(past, [0], text=[0.1, 0.1, 0.1, 0.5, 0.1])) == {1, 3}


def test_nothing_is_left():
    assert looked_up(features_of([(0, 1)] * 3), [0, 1], positions=[0, 1]) == {}


def test_without_categories():
    found = looked_up(features_of(categories=[()] * N, n_categories=0), [0])
    assert found[1]["categories"] == found[1]["category co-usage"] == 0


def test_nothing_is_altered(past):
    positions, text = np.arange(N), np.full(N, 0.2)
    past.candidates(positions, text, NONE, [0, 1])
    assert (text == 0.2).all()
    assert (positions == np.arange(N)).all()
