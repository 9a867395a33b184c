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
