"""Vectors that an encoder made beforehand, for tracks that compare with one or use one."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Splits
from cnp_router.catalog import Api
from cnp_router.exceptions import DataFileError
from cnp_router.text import specification_text

__all__ = ["GivenVectors", "load_vectors"]

_KEYS = ("api_ids", "api_vectors", "mashup_ids", "mashup_vectors")


class GivenVectors:
    """An encoder that knows the vectors of a file, as `load_vectors` reads it.

    Of any other text nothing is known, which a vector of zeros says: of half a request, or of the
    texts of nothing. So what is measured with it is the ranking, not whether anything fits.
    """

    def __init__(self, path: Path, splits: Splits) -> None:
        self.name = path.stem
        self._vectors = load_vectors(path, splits)
        self._unknown = np.zeros_like(next(iter(self._vectors.values())))

    def __call__(self, texts: list[str]) -> NDArray[Any]:
        """Return the vectors of some texts."""
        return np.array([self._vectors.get(text, self._unknown) for text in texts])


def load_vectors(
    path: Path, splits: Splits, api_text: Callable[[Api], str] = specification_text
) -> dict[str, NDArray[Any]]:
    """Return the unit vector of each text: of the mashups' requests, and of the APIs.

    Parameters
    ----------
    path : Path
        An ``.npz`` file of ``api_ids``, ``api_vectors``, ``mashup_ids`` and ``mashup_vectors``.
    splits : Splits
        Whose texts they are: each API and each mashup, held-out ones too, needs a vector.
    api_text : callable from Api to str, default=specification_text
        The text under which the vector of an API is found.

    Returns
    -------
    dict of str to array of shape (n_dimensions,), float32

    Raises
    ------
    DataFileError
        If the file cannot be read, or a vector is missing.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            api_ids, apis, mashup_ids, mashups = (file[key] for key in _KEYS)
    # Of what is no such file, numpy says in many ways that it is not.
    except (EOFError, KeyError, OSError, TypeError, ValueError, zipfile.BadZipFile) as exc:
        cure = f"an .npz file with {', '.join(_KEYS)}"
        raise DataFileError(path, f"no vectors can be read: {exc}", cure=cure) from exc
    histories = (splits.train, *splits.held_out.values())
    return {
        **_by_text(path, "API", api_ids, apis, ((a.id, api_text(a)) for a in splits.catalog)),
        **_by_text(
            path,
            "mashup",
            mashup_ids,
            mashups,
            ((m.id, m.description) for h in histories for m in h),
        ),
    }


def _by_text(
    path: Path, kind: str, ids: NDArray[Any], vectors: NDArray[Any], texts: Any
) -> dict[str, NDArray[Any]]:
    if vectors.ndim != 2 or len(ids) != len(vectors):
        raise DataFileError(path, f"{len(ids)} {kind} ids, and vectors of shape {vectors.shape}")
    unit = vectors.astype(np.float32)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    places = {name: place for place, name in enumerate(ids.tolist())}
    found = {}
    for name, text in texts:
        if name not in places:
            cure = "encode all APIs and mashups of the folder"
            raise DataFileError(path, f"{kind} {name!r} has no vector", cure=cure)
        found[text] = unit[places[name]]
    return found
