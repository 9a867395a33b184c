"""`Part`: something learned, kept and checked by what its fields say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, Final, Self, get_args, get_origin, get_type_hints

import numpy as np
from scipy import sparse

__all__ = ["GIVEN", "ONES", "Memo", "Part", "placed"]

GIVEN: Final = "given"
ONES: Final = "ones"
_KEPT: dict[type[Part], dict[str, Any]] = {}  # what is kept of each: annotations are slow to read


@dataclass(frozen=True, eq=False)
class Part:
    """A dataclass whose fields are saved, loaded and checked by what their annotations say.

    A field is a number, another part, None or such, a tuple of parts, or an array, whose sizes
    are named as in `Corpus.sizes`: ``weights: Annotated[csr_array, "words", "labels"]``. It is
    of float32; if it is marked as `ONES` too, it holds no other number. What is kept elsewhere is
    ``Annotated[..., GIVEN]``.
    """

    def state(self) -> dict[str, Any]:
        """Return what was learned as plain data."""
        return {name: _plain(getattr(self, name)) for name in _kept(type(self))}

    @classmethod
    def from_state(cls, state: dict[str, Any], **given: Any) -> Self:
        """Rebuild it; raises KeyError, TypeError or ValueError if fields miss or more are there."""
        kept = _kept(cls)
        if set(state) != set(kept):
            raise ValueError(f"{cls.__name__} of {sorted(state)}, not {sorted(kept)}")
        return cls(**given, **{name: _rebuilt(kind, state[name]) for name, kind in kept.items()})

    def moved(self, by: Mapping[str, sparse.csr_array], **given: Any) -> Self:
        """Return it with some of the sizes changed, and with what is kept elsewhere.

        `by` holds for the name of a size a matrix of ones: which place before is which now. What
        was at no place before is 0 in every array.
        """
        values = {name: getattr(self, name) for name in _kept(type(self))}
        for name, kind in _kept(type(self)).items():
            marks = [mark for mark in getattr(kind, "__metadata__", ()) if mark != ONES]
            for axis, mark in enumerate(marks):
                if mark in by:
                    values[name] = placed(values[name], by[mark], axis)
        return type(self)(**given, **values)

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise ValueError where an array is not as it was annotated."""
        for name, kind in _kept(type(self)).items():
            if marks := getattr(kind, "__metadata__", ()):
                value, shape = getattr(self, name), tuple(sizes[m] for m in marks if m != ONES)
                base = get_args(kind)[0]
                # NDArray is an alias, which does not say the same in all versions of numpy.
                is_sparse = isinstance(base, type) and issubclass(base, sparse.sparray)
                expected = sparse.sparray if is_sparse else np.ndarray
                if not isinstance(value, expected) or value.shape != shape:
                    found = getattr(value, "shape", type(value))
                    raise ValueError(f"{name} of {type(self).__name__} is {found}, not {shape}")
                if ONES in marks:
                    ones = np.asarray(value.data)
                    if len(ones) and not ones.min() == ones.max() == 1:
                        raise ValueError(f"{name} holds other numbers than 1")


class Memo:
    """What is computed once, by whoever asks first."""

    def once(self, key: Any, make: Any) -> Any:
        """Return what `make` returned when it was first called for `key`."""
        made = self.__dict__.setdefault("_made", {})
        if key not in made:
            made[key] = make()
        return made[key]


def _kept(kind: type[Part]) -> dict[str, Any]:
    if (kept := _KEPT.get(kind)) is None:
        hints = get_type_hints(kind, include_extras=True)
        own = {each.name: hints[each.name] for each in fields(kind)}
        kept = _KEPT[kind] = {
            name: hint
            for name, hint in own.items()
            if GIVEN not in getattr(hint, "__metadata__", ())
        }
    return kept


def placed(array: Any, by: sparse.csr_array, axis: int) -> Any:
    """Return an array, sparse or not, with what was at each place along an axis where it is now."""
    if _only_grows(by) and (grown := _grown(array, by.shape[1], axis)) is not None:
        return grown
    moved = by.T @ array if axis == 0 else array @ by
    if not sparse.issparse(moved):
        return np.ascontiguousarray(moved)
    rows = sparse.csr_array(moved)
    rows.sort_indices()
    return rows


def _only_grows(by: sparse.csr_array) -> bool:
    """Return whether every place stays what it is, and others may follow."""
    n, now = by.shape
    if n > now or by.nnz != n or not np.array_equal(by.indices, np.arange(n)):
        return False
    return bool(np.array_equal(by.indptr, np.arange(n + 1)) and (by.data == 1).all())


def _grown(array: Any, size: int, axis: int) -> Any:
    """Return an array with zeros behind it; what can be, is shared, so that a save can link it.

    None for a sparse one whose indices are in no order.
    """
    if not sparse.issparse(array):
        more = size - array.shape[axis]
        shape = tuple(more if i == axis else n for i, n in enumerate(array.shape))
        return np.concatenate([array, np.zeros(shape, array.dtype)], axis=axis) if more else array
    if not array.has_sorted_indices:
        return None
    shape = tuple(size if i == axis else n for i, n in enumerate(array.shape))
    grown = sparse.csr_array(shape, dtype=array.dtype)
    more = shape[0] - array.shape[0]
    ends = np.full(more, array.indptr[-1], array.indptr.dtype)
    grown.data, grown.indices = array.data, array.indices
    grown.indptr = np.concatenate([array.indptr, ends]) if more else array.indptr
    return grown


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return {str(i): _plain(inner) for i, inner in enumerate(value)}
    return value.state() if hasattr(value, "state") else value


def _rebuilt(kind: Any, value: Any) -> Any:
    options = get_args(kind)
    if get_origin(kind) is tuple:
        return tuple(_rebuilt(options[0], value[str(i)]) for i in range(len(value)))
    if NoneType in options:
        return None if value is None else _rebuilt(options[0], value)
    if hasattr(kind, "from_state"):
        return kind.from_state(value)
    return kind(value) if kind in (int, float) else value
