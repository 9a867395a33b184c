"""States as arrays and JSON: dicts of arrays, numbers and strings, as models are kept.

What compiled code will follow or compute with is checked when a state is put together again.
"""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = [
    "LARGE",
    "Arrays",
    "check_numbers",
    "json_bytes",
    "pack",
    "state_from_bytes",
    "state_to_bytes",
    "unpack",
]

Arrays = dict[str, NDArray[Any]]

LARGE = (
    1 << 22
)  # bytes of an array from which on it is looked through once, and not at each loading

_ARRAY, _SPARSE, _TEXT = " array", " sparse", " text"
_PARTS = ("data", "indices", "indptr")
_MANY = 1000  # strings of a list from which on they are an array
_NUMBERS = np.typecodes["AllInteger"] + "fd"


def pack(state: dict[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """Split a state into arrays, named by their path, and what JSON can hold.

    A state is a dict of str, not beginning with a space, to ndarray, sparse array, list of str,
    number, None or such a dict. A sparse array is three arrays, and comes back as csr_array; a long
    list of str is one, of bytes.

    Examples
    --------
    >>> arrays, plain = pack({"a": {"x": np.arange(2), "n": 3}})
    >>> list(arrays), plain
    (['a.x'], {'a': {'x': {' array': 'a.x'}, 'n': 3}})
    >>> unpack(arrays, plain)
    {'a': {'x': array([0, 1]), 'n': 3}}
    """
    arrays: Arrays = {}

    def add(name: str, array: NDArray[Any]) -> str:
        while name in arrays:  # "a.b" may be a key, too
            name += "_"
        arrays[name] = array
        return name

    def walk(value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            if any(key.startswith(" ") for key in value):
                raise ValueError(f"a key of a state begins with a space: {list(value)!r}")
            return {key: walk(inner, (*path, key)) for key, inner in value.items()}
        name = ".".join(path)
        if isinstance(value, np.ndarray):
            return {_ARRAY: add(name, value)}
        if sparse.issparse(value):
            rows = sparse.csr_array(value)  # whatever it was: it is read back as this
            parts = (rows.data, *_narrow(rows.indices, rows.indptr, rows.shape[1]))
            names = [add(f"{name}.{n}", part) for n, part in zip(_PARTS, parts, strict=True)]
            return {_SPARSE: names, "shape": [int(n) for n in rows.shape]}
        if isinstance(value, list) and (joined := _joined(value)) is not None:
            return {_TEXT: add(name, joined), "n": len(value)}
        return value

    return arrays, walk(state, ())


def unpack(arrays: Arrays, plain: dict[str, Any], *, seen: bool = False) -> dict[str, Any]:
    """Put a state together again.

    A KeyError, TypeError or ValueError says that the parts do not fit, or that a sparse array's
    indices, which compiled code will follow, lead nowhere. If the arrays were `seen` before, large
    ones are not looked through again.
    """

    def walk(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
        if not isinstance(value, dict):
            return value
        if _ARRAY in value:
            return arrays[value[_ARRAY]]
        if _TEXT in value:
            return _parted(arrays[value[_TEXT]], value["n"])
        if _SPARSE not in value:
            return {key: walk(inner) for key, inner in value.items()}
        data, indices, indptr = (arrays[name] for name in value[_SPARSE])
        return _sparse(data, indices, indptr, value["shape"], seen)

    if not isinstance(plain, dict):
        raise TypeError(f"expected an object, got {type(plain).__name__}")
    return dict(walk(plain))


def state_to_bytes(state: dict[str, Any]) -> bytes:
    """Return a state as one block of bytes, for a place that holds many, such as a database."""
    arrays, plain = pack(state)
    out = io.BytesIO()
    named = {f".{name}": array for name, array in arrays.items()}  # np.savez has own parameters
    np.savez(out, allow_pickle=False, plain=np.frombuffer(json_bytes(plain), np.uint8), **named)
    return out.getvalue()


def state_from_bytes(data: bytes) -> dict[str, Any]:
    """Return the state that `state_to_bytes` was given.

    Other bytes raise KeyError, OSError, TypeError, ValueError or zipfile.BadZipFile.

    Examples
    --------
    >>> state_from_bytes(state_to_bytes({"x": np.arange(2), "n": 3}))
    {'x': array([0, 1]), 'n': 3}
    """
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        plain = json.loads(file["plain"].tobytes())
        arrays = {name[1:]: file[name] for name in file.files if name != "plain"}
    return unpack(arrays, plain)


def check_numbers(name: str, array: NDArray[Any], *, seen: bool = False) -> None:
    """Raise TypeError or ValueError unless an array holds finite numbers of this machine's kind.

    If it was `seen` before, and is large, only its kind is looked at.
    """
    if array.dtype.char not in _NUMBERS or not array.dtype.isnative:
        raise TypeError(f"{name}: expected numbers, got {array.dtype}")
    if array.dtype.kind != "f" or not array.size or (seen and array.nbytes >= LARGE):
        return
    # Both are NaN if any is; this makes no second array.
    if not (np.isfinite(array.min()) and np.isfinite(array.max())):
        raise ValueError(f"{name}: not all numbers are finite")


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _narrow(
    indices: NDArray[Any], indptr: NDArray[Any], n_columns: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the indices of a matrix in 4 bytes each, where they fit; scipy often makes it 8."""
    if max(n_columns, len(indices)) > np.iinfo(np.int32).max:
        return indices, indptr
    return indices.astype(np.int32, copy=False), indptr.astype(np.int32, copy=False)


def _joined(values: list[Any]) -> NDArray[Any] | None:
    """Return many strings as one array; None if they are few, or JSON alone can hold them."""
    if len(values) < _MANY or not set(map(type, values)) <= {str}:
        return None
    text = "\n".join([*values, ""])  # the end of the last one shows that nothing is cut off
    if text.count("\n") != len(values):  # there are lines inside
        return None
    return np.frombuffer(text.encode(), np.uint8)


def _parted(joined: NDArray[Any], n: Any) -> list[str]:
    if joined.ndim != 1 or joined.dtype != np.uint8:
        raise TypeError("strings are kept as bytes")
    *values, rest = joined.tobytes().decode().split("\n")
    if len(values) != n or rest:
        raise ValueError(f"expected {n} strings, got {len(values)}")
    return values


def _sparse(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: Any, seen: bool
) -> sparse.csr_array:
    """Return a matrix of these very arrays; whatever scipy's constructor would copy or read."""
    if any(type(n) is not int or n < 0 for n in shape) or len(shape) != 2:
        raise ValueError(f"{shape} is not the shape of a matrix")
    if any(part.dtype.kind not in "iu" for part in (indices, indptr)):
        raise TypeError("the indices of a sparse matrix are whole numbers")
    if indices.dtype != indptr.dtype or indices.dtype not in (np.int32, np.int64):
        matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix
    n_rows, n_columns = shape
    if not data.ndim == indices.ndim == indptr.ndim == 1:
        raise ValueError("the parts of a sparse matrix have one dimension")
    if len(indptr) != n_rows + 1 or len(data) != len(indices):
        raise ValueError("the parts of a sparse matrix do not fit each other")
    n = int(indptr[-1])
    if indptr[0] != 0 or not 0 <= n <= len(indices):
        raise ValueError("the rows of a sparse matrix are not where its indices are")
    rows_unseen, columns_unseen = (
        not (seen and part.nbytes >= LARGE) for part in (indptr, indices)
    )
    if rows_unseen and (indptr[1:] < indptr[:-1]).any():
        raise ValueError("a row of a sparse matrix ends before it begins")
    if columns_unseen and n and not (indices.min() >= 0 and indices.max() < n_columns):
        raise ValueError("an index of a sparse matrix is out of bounds")
    matrix = sparse.csr_array((n_rows, n_columns), dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data[:n], indices[:n], indptr
    return matrix
