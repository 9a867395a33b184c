from __future__ import annotations

import itertools
import json
import sys

import pytest
from word_vectors import WordVectors

from cnp_router.catalog import Catalog
from cnp_router.evaluation import evaluate, learning_curve
from cnp_router.exceptions import InputError
from cnp_router.training import fit_router, load_router


@pytest.fixture(scope="module")
def router(sample):
    return fit_router(sample.catalog, sample.history[:40], random_state=3)


@pytest.fixture
def parts(monkeypatch):
    """The histories that are fitted on."""
    fitted, found = fit_router, []

    def recorded(catalog, history, **how):
        found.append([mashup.id for mashup in history])
        return fitted(catalog, history, **how)

    # The room has a function of the name of the module.
    module = sys.modules["cnp_router.evaluation.learning_curve"]
    monkeypatch.setattr(module, "fit_router", recorded)
    return found


def test_each_part_is_in_the_next_and_the_last_is_everything(router, sample, parts):
    stages = []
    curve = learning_curve(
        router,
        sample.history[670:],
        sizes=[20, 0, 5, 5, 1000],
        progress=lambda *stage: stages.append(stage),
    )
    assert [point.mashups for point in curve.points] == [0, 5, 20, 40]
    assert [len(part) for part in parts] == [0, 5, 20, 40]
    for smaller, larger in itertools.pairwise(parts):
        assert set(smaller) < set(larger)
    assert parts[-1] == [mashup.id for mashup in router.history]
    assert stages == [
        *(("0 mashups", 0, 4), ("5 mashups", 1, 4), ("20 mashups", 2, 4), ("40 mashups", 3, 4)),
        ("done", 4, 4),
    ]


def test_everything_is_the_router_itself(router, sample):
    held_out = sample.history[660:]
    curve = learning_curve(router, held_out, sizes=[], target_recall=0.7)
    same = evaluate(router, held_out, target_recall=0.7).to_dict()
    point = curve.to_dict()["points"][-1]
    assert {k: v for k, v in point.items() if k not in ("latency_ms", "mashups")} == {
        k: v for k, v in same.items() if k != "latency_ms"
    }
    assert curve.random_state == 3


def test_what_is_shown(router, sample):
    curve = learning_curve(router, sample.history[670:], sizes=[0])
    assert json.loads(json.dumps(curve.to_dict(), allow_nan=False)) == curve.to_dict()
    assert repr(curve).startswith("LearningCurve(R@5 by mashups 0: ")
    assert "<table>" in curve._repr_html_()
    assert [row[0] for row in curve.table().rows] == ["0", "40"]


def test_mashups_of_removed_apis_are_left_out(router, sample, parts):
    gone = router.history[0].apis[0]
    left = router.synced(Catalog(api for api in sample.catalog if api.id != gone))
    held_out = sample.history[600:].without([gone])
    learning_curve(left, held_out, sizes=[])
    assert parts == [[m.id for m in left.history if gone not in m.apis]]


@pytest.mark.parametrize("size", [-1, 2.5, "many"])
def test_sizes_are_whole_numbers(router, sample, size):
    with pytest.raises(InputError, match="a size of the history must be a whole number"):
        learning_curve(router, sample.history[670:], sizes=[size])


def test_it_is_fitted_again_with_its_encoder(sample, tmp_path):
    encoder = WordVectors()
    fit_router(sample.catalog, sample.history[:20], encoder=encoder).save(tmp_path / "model")
    held_out = sample.history[675:]
    with pytest.raises(InputError, match="again with its encoder 'word vectors'"):
        learning_curve(load_router(tmp_path / "model"), held_out)
    loaded = load_router(tmp_path / "model", encoder=encoder)
    curve = learning_curve(loaded, held_out, sizes=[])
    assert curve.points[0].mashups == 20
