"""What folds learn from: what they hide teaches nothing, whether or not they share their views."""

from __future__ import annotations

import numpy as np
import pytest
from planted import planted
from word_vectors import WordVectors

from cnp_router.training.dense_encoder import DenseEncoder
from cnp_router.training.examples import FittedViews, Past, _Asked
from cnp_router.training.splits import Split, hiding
from cnp_router.training.views import CoUsageView

WORLD = planted(n_cliques=5, size=4, rounds=6)


@pytest.mark.parametrize("encoder", [None, WordVectors()], ids=["words", "vectors"])
def test_what_is_hidden_is_unknown_to_views_that_are_shared(encoder):
    dense = encoder and DenseEncoder.of(encoder)
    past = Past.of(WORLD.catalog, WORLD.history, random_state=0, dense=dense)
    train, asked = np.arange(0, 120, 2), np.arange(1, 120, 2)
    splits = [Split(train, asked, asked, np.array(own, dtype=int)) for own in ([], [0, 3, 11], [7])]
    some = [_Asked(split, seed, ()) for seed, split in enumerate(splits)]
    shared = FittedViews(past.views(train, past.usage[train]), some)
    for number, split in enumerate(splits):
        found = shared.of(past, number)
        alone = past.views(train, hiding(past.usage[train], split.hidden))
        one, other = (views[CoUsageView].pairs.together.toarray() for views in (found, alone))
        assert np.array_equal(one, other)
        batch = past.requests.take(asked)
        looked = (views.candidates(views.batch(batch)) for views in (found, alone))
        for one, other in zip(*looked, strict=True):
            assert one.positions.tolist() == other.positions.tolist()
            np.testing.assert_allclose(one.features, other.features, atol=1e-3)
