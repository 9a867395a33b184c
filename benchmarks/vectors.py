"""Vectors that are given by id, in the place of an encoder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Splits
from cnp_router.exceptions import DataFileError
from cnp_router.text import specification_text

__all__ = ["GivenVectors"]


class GivenVectors:
    """The vectors of a ``.npz`` file: `api_ids`, `api_vectors`, `mashup_ids`, `mashup_vectors`.

    Of any other text nothing is known, which a vector of zeros says: half a request, or a text of
    nothing. So whether anything serves a request cannot be measured with it.
    """

    def __init__(self, file: Path, splits: Splits) -> None:
        self.name = file.stem
        try:
            with np.load(file, allow_pickle=False) as kept:
                apis = dict(zip(kept["api_ids"].tolist(), kept["api_vectors"], strict=True))
                mashups = dict(
                    zip(kept["mashup_ids"].tolist(), kept["mashup_vectors"], strict=True)
                )
        except (KeyError, OSError, ValueError) as exc:
            cure = "give a .npz file of api_ids, api_vectors, mashup_ids, mashup_vectors"
            raise DataFileError(file, f"no vectors by id: {exc}", cure=cure) from exc
        texts = {specification_text(api): apis.get(api.id) for api in splits.catalog}
        for history in (splits.train, *splits.held_out.values()):
            texts |= {mashup.description: mashups.get(mashup.id) for mashup in history}
        if missing := sum(vector is None for vector in texts.values()):
            cure = "encode all APIs and mashups"
            raise DataFileError(file, f"no vectors of {missing:,} ids", cure=cure)
        self._vectors: dict[str, Any] = texts
        self._unknown = np.zeros_like(next(iter(apis.values())))

    def __call__(self, texts: Iterable[str]) -> NDArray[Any]:
        """Return the vectors of some texts."""
        return np.array([self._vectors.get(text, self._unknown) for text in texts])
