"""Nested plain data to arrays and JSON, and back. Nothing in it can run."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["pack", "state_from_bytes", "state_to_bytes", "unpack"]

_PLAIN = " plain"
_SPARSE = ("data", "indices", "indptr", "shape")


def pack(state: dict[str, Any]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Split a state into named arrays and what JSON can hold.

    Parameters
    ----------
    state : dict
        Of str to ndarray, sparse array, list of str, number, None or such a dict. A sparse array
        comes back as csr_array.

    Returns
    -------
    arrays : dict of str to ndarray
        Named by their path, ``"a/b"``; a sparse matrix is four arrays.
    plain : dict
        The rest, nested as it was; an array is replaced by ``{"array": path}``.

    Examples
    --------
    >>> arrays, plain = pack({"a": {"x": np.arange(2), "n": 3}})
    >>> list(arrays), plain
    (['a/x'], {'a': {'x': {'array': 'a/x'}, 'n': 3}})
    >>> unpack(arrays, plain)
    {'a': {'x': array([0, 1]), 'n': 3}}
    """
    arrays: dict[str, NDArray[Any]] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {
                key: walk(inner, f"{path}/{key}" if path else key) for key, inner in value.items()
            }
        if isinstance(value, np.ndarray):
            arrays[path] = value
            return {"array": path}
        if sparse.issparse(value):
            rows = sparse.csr_array(value)  # whatever it was: it is read back as this
            parts = (rows.data, rows.indices, rows.indptr, np.array(rows.shape))
            for name, part in zip(_SPARSE, parts, strict=True):
                arrays[f"{path}.{name}"] = part
            return {"sparse": path}
        return value

    return arrays, walk(state, "")


def unpack(arrays: dict[str, NDArray[Any]], plain: dict[str, Any]) -> dict[str, Any]:
    """Put a state together again.

    Raises
    ------
    KeyError, TypeError, ValueError
        If the parts do not fit; indices of sparse matrices are checked too, since compiled code
        will follow them.
    """

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            if list(value) == ["array"]:
                return _array(arrays, value["array"])
            if list(value) == ["sparse"]:
                return _matrix(*(_array(arrays, f"{value['sparse']}.{n}") for n in _SPARSE))
            return {key: walk(inner) for key, inner in value.items()}
        return value

    result = walk(plain)
    if not isinstance(result, dict):
        raise TypeError(f"expected an object, got {type(result).__name__}")
    return result


def state_to_bytes(state: dict[str, Any]) -> bytes:
    """Return a state as one block of bytes, for a place that holds many, such as a database.

    Examples
    --------
    >>> state_from_bytes(state_to_bytes({"x": np.arange(2), "n": 3}))
    {'x': array([0, 1]), 'n': 3}
    """
    arrays, plain = pack(state)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False).encode()
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays, **{_PLAIN: np.frombuffer(text, np.uint8)})
    return out.getvalue()


def state_from_bytes(data: bytes) -> dict[str, Any]:
    """Return the state that `state_to_bytes` was given.

    Raises
    ------
    KeyError, OSError, TypeError, ValueError, zipfile.BadZipFile
        If the bytes are none of it.
    """
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return unpack(arrays, json.loads(arrays.pop(_PLAIN).tobytes()))


def _array(arrays: dict[str, NDArray[Any]], name: str) -> NDArray[Any]:
    found = arrays[name]
    # A file inside an .npz that is no array comes as bytes.
    if not isinstance(found, np.ndarray):
        raise TypeError(f"{name} is no array")
    return found


def _matrix(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: NDArray[Any]
) -> sparse.csr_array:
    if any(part.dtype.kind not in "iu" for part in (indices, indptr, shape)):
        raise TypeError("the indices of a sparse matrix are whole numbers")
    matrix = sparse.csr_array((data, indices, indptr), shape=tuple(map(int, shape)))
    matrix.check_format(full_check=True)
    return matrix
