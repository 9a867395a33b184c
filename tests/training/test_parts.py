from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest
from scipy import sparse
from typing_extensions import TypeAliasType

from cnp_router.training.parts import Part

# What NDArray is since numpy 2.5: an alias that the interpreter knows of.
Vectors = TypeAliasType("Vectors", np.ndarray)


@dataclass(frozen=True, eq=False)
class Learned(Part):
    dense: Annotated[Vectors, "words", "components"]  # type: ignore[valid-type]
    counts: Annotated[sparse.csr_array, "words", "words"]


SIZES = {"words": 3, "components": 2}
COUNTS = sparse.csr_array((3, 3))


def test_arrays_are_as_annotated():
    Learned(np.zeros((3, 2)), COUNTS).check(SIZES)


@pytest.mark.parametrize(
    ("dense", "counts"),
    [
        (np.zeros((2, 2)), COUNTS),
        (np.zeros((3, 2)), sparse.csr_array((2, 3))),
        (sparse.csr_array((3, 2)), COUNTS),
        (np.zeros((3, 2)), np.zeros((3, 3))),
    ],
)
def test_those_that_are_not(dense, counts):
    with pytest.raises(ValueError, match="of Learned is"):
        Learned(dense, counts).check(SIZES)


class TestMoved:
    """Places that only come behind the others leave what is there as it is."""

    COUNTS = sparse.csr_array(np.array([[0, 2, 1], [0, 0, 0], [3, 0, 4]], dtype=np.float32))
    DENSE = np.arange(6, dtype=np.float32).reshape(3, 2)

    def moved(self, by, counts=COUNTS):
        return Learned(self.DENSE, counts).moved({"words": sparse.csr_array(by)})

    @pytest.mark.parametrize("size", [3, 5])
    def test_what_grows_is_as_if_it_was_moved(self, size):
        grown = self.moved(sparse.eye_array(3, size, dtype=np.float32))
        expected = np.zeros((size, size), dtype=np.float32)
        expected[:3, :3] = self.COUNTS.toarray()
        np.testing.assert_array_equal(grown.counts.toarray(), expected)
        grown.counts.check_format(full_check=True)
        np.testing.assert_array_equal(grown.dense[:3], self.DENSE)
        assert grown.dense.shape == (size, 2)
        assert not grown.dense[3:].any()
        assert np.shares_memory(grown.counts.data, self.COUNTS.data)
        assert np.shares_memory(grown.counts.indices, self.COUNTS.indices)
        assert grown.dense.dtype == grown.counts.dtype == np.float32

    @pytest.mark.parametrize(
        "by",
        [
            [[1, 0, 0], [0, 0, 0], [0, 0, 1]],  # one is read anew
            [[0, 1, 0], [1, 0, 0], [0, 0, 1]],
            [[1, 0], [0, 1], [0, 0]],
            [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
        ],
    )
    def test_whatever_else_becomes_of_them(self, by):
        matrix = np.array(by, dtype=np.float32)
        moved = self.moved(matrix)
        np.testing.assert_array_equal(
            moved.counts.toarray(), matrix.T @ self.COUNTS.toarray() @ matrix
        )
        np.testing.assert_array_equal(moved.dense, matrix.T @ self.DENSE)

    def test_an_entry_that_is_zero_is_no_place(self):
        by = sparse.eye_array(3, 4, dtype=np.float32, format="csr")
        by.data[1] = 0
        assert not self.moved(by).dense[1].any()

    def test_columns_in_disorder_are_put_in_order(self):
        counts = self.COUNTS.copy()
        counts.indices[:2], counts.data[:2] = [2, 1], [1, 2]
        counts.has_sorted_indices = False
        grown = self.moved(sparse.eye_array(3, 4, dtype=np.float32), counts)
        assert grown.counts.has_sorted_indices
        np.testing.assert_array_equal(grown.counts.toarray()[:3, :3], self.COUNTS.toarray())
