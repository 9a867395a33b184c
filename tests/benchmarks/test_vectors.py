"""Vectors made beforehand, read by the text that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.data import Splits
from benchmarks.vectors import GivenVectors, load_vectors
from cnp_router.exceptions import DataFileError
from cnp_router.history import History, Mashup
from cnp_router.text import specification_text
from cnp_router.training import fit_router


@pytest.fixture
def splits(catalog, history):
    held = History([Mashup("new", "A new request.", (catalog[0].id,))])
    return Splits("some", catalog, history, {"dev": held})


@pytest.fixture
def parts(splits):
    rng = np.random.default_rng(0)
    mashups = [*(m.id for m in splits.train), "new"]
    return {
        "api_ids": np.array(splits.catalog.ids),
        "api_vectors": rng.normal(size=(len(splits.catalog), 3)).astype(np.float16),
        "mashup_ids": np.array(mashups),
        "mashup_vectors": rng.normal(size=(len(mashups), 3)),
    }


def test_each_text_has_a_vector_of_length_one(splits, parts, tmp_path):
    np.savez(tmp_path / "v.npz", **parts)
    found = load_vectors(tmp_path / "v.npz", splits)
    assert len(found) == len(splits.catalog) + len(splits.train) + 1
    assert all(np.linalg.norm(v) == pytest.approx(1) for v in found.values())
    last = parts["mashup_vectors"][-1]
    assert found["A new request."] == pytest.approx(last / np.linalg.norm(last))
    first = found[specification_text(splits.catalog[0])]
    assert first @ parts["api_vectors"][0] == pytest.approx(
        np.linalg.norm(parts["api_vectors"][0].astype(float)), rel=1e-3
    )
    assert splits.catalog[0].name in load_vectors(
        tmp_path / "v.npz", splits, api_text=lambda api: api.name
    )


def test_a_text_without_a_vector_is_an_error(splits, parts, tmp_path):
    np.savez(tmp_path / "v.npz", **parts | {"mashup_ids": parts["mashup_ids"][::-1] + "x"})
    with pytest.raises(DataFileError, match=r"mashup '.*' has no vector"):
        load_vectors(tmp_path / "v.npz", splits)


@pytest.mark.parametrize("content", [None, b"", b"no zip"])
def test_what_cannot_be_read(splits, tmp_path, content):
    if content is not None:
        (tmp_path / "v.npz").write_bytes(content)
    with pytest.raises(DataFileError, match="no vectors can be read"):
        load_vectors(tmp_path / "v.npz", splits)


def test_a_part_is_missing(splits, parts, tmp_path):
    del parts["mashup_ids"]
    np.savez(tmp_path / "v.npz", **parts)
    with pytest.raises(DataFileError, match=r"no vectors can be read: .*mashup_ids"):
        load_vectors(tmp_path / "v.npz", splits)


def test_as_many_ids_as_vectors(splits, parts, tmp_path):
    np.savez(tmp_path / "v.npz", **parts | {"api_ids": parts["api_ids"][1:]})
    with pytest.raises(DataFileError, match=r"4 API ids, and vectors of shape \(5, 3\)"):
        load_vectors(tmp_path / "v.npz", splits)


def test_they_stand_in_for_an_encoder(splits, parts, tmp_path):
    np.savez(tmp_path / "v.npz", **parts)
    encoder = GivenVectors(tmp_path / "v.npz", splits)
    router = fit_router(splits.catalog, splits.train, encoder=encoder)
    assert router.summary["encoder"] == "v"
    known, unknown = encoder(["A new request.", "never seen"])
    assert np.linalg.norm(known) == pytest.approx(1)
    assert not unknown.any()
    assert router.route("A new request.").recipients
