"""`Encoder`: what turns texts into vectors; `DenseEncoder`, which checks what it returns."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cnp_router import telemetry
from cnp_router.exceptions import InputError
from cnp_router.records import shown
from cnp_router.training.parts import GIVEN, Part

__all__ = ["DenseEncoder", "Encoder"]

# Two encoders are taken for one if they say about the same of this.
_PROBE = "Show the weather of each town on a map, and send me a text message when it rains."
_SAME = 0.99  # cosine: another processor or precision changes less, another model much more
_REMEMBERED = 256  # texts
_MOST_OF_REQUEST = 16  # texts: a request and its parts


class Encoder(Protocol):
    """Whatever is called with a list of texts and returns an array of their vectors.

    Such as ``SentenceTransformer(...).encode``, ``StaticModel.from_pretrained(...).encode`` of
    model2vec, an `OpenAIEncoder`, or a function of one's own. The array is of shape
    (n_texts, n_dimensions), finite numbers, as many dimensions each time. Vectors are brought to
    unit length; one of zeros stays: nothing is known of that text. The same text must always get
    the same vector.

    A `name`, where it has one, is how messages call it. Calls are made one at a time, unless it
    has a `thread_safe` that is true. Blank texts are not given to it.

    Examples
    --------
    >>> from cnp_router import Api, Catalog, fit_router
    >>> def letters(texts):
    ...     return [[text.lower().count(letter) for letter in "aeiou"] for text in texts]
    >>> catalog = Catalog([Api("maps", "Maps", "Shows places."), Api("sms", "SMS", "Sends texts.")])
    >>> fit_router(catalog, encoder=letters).summary["encoder"]
    'letters'
    """

    def __call__(self, texts: list[str], /) -> Any:
        """Return the vectors of some texts, in their order."""


class _Recent:
    """The vectors of the last texts, so that the same text is not encoded twice in a row."""

    def __init__(self) -> None:
        self._vectors: OrderedDict[str, NDArray[Any]] = OrderedDict()
        self._lock = threading.Lock()
        self.turn = threading.Lock()

    def of(self, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return the vectors of those texts that are remembered."""
        with self._lock:
            return {text: self._vectors[text] for text in texts if text in self._vectors}

    def add(self, vectors: dict[str, NDArray[Any]]) -> None:
        """Remember some more, and forget the oldest."""
        with self._lock:
            self._vectors.update(vectors)
            while len(self._vectors) > _REMEMBERED:
                self._vectors.popitem(last=False)

    def __reduce__(self) -> tuple[Any, ...]:  # locks are neither pickled nor copied
        return _Recent, ()


@dataclass(frozen=True, eq=False)
class DenseEncoder(Part):
    """The encoder of a model: its name, and the vector of a sentence by which it is recognised.

    The encoder itself is not kept: whoever loads the model gives it again.
    """

    name: str
    probe: Annotated[NDArray[Any], "dimensions"]
    encoder: Annotated[Encoder | None, GIVEN] = None
    _recent: Annotated[_Recent, GIVEN] = field(default_factory=_Recent, repr=False)

    def __post_init__(self) -> None:
        if self.probe.ndim != 1:
            raise ValueError(f"expected one vector, got {self.probe.shape}")

    @classmethod
    def of(cls, encoder: Encoder) -> DenseEncoder:
        """Return it for an encoder, which is tried with one sentence."""
        if not callable(encoder):
            raise InputError(
                f"encoder must be callable, got {shown(encoder)} (give a function of a list of "
                "texts that returns an array of vectors, such as model.encode)"
            )
        name = _name(encoder)
        return cls(name, _checked(encoder, name, [_PROBE])[0], encoder)

    def recognise(self) -> None:
        """Raise InputError unless its encoder is the one that the model was fitted with."""
        other = DenseEncoder.of(self._here())
        cure = f"give the encoder it was fitted with, {self.name!r}, or fit again with this one"
        if other.probe.shape != self.probe.shape:
            sizes = f"{len(other.probe)} dimensions, not {len(self.probe)}"
            raise InputError(f"vectors of {other.name!r} have {sizes} as in the model ({cure})")
        if np.abs(other.probe - self.probe).max() > 1e-6:
            cosine = float(other.probe @ self.probe)
            if cosine < _SAME:
                raise InputError(
                    f"{other.name!r} is not the encoder of the model: the cosine of their vectors "
                    f"of one sentence is {cosine:.2f} ({cure})"
                )

    def __deepcopy__(self, memo: dict[int, Any]) -> DenseEncoder:
        return self  # the encoder is the user's, and may be large or open

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return the vectors: float32 of shape (n_texts, n_dimensions), of length 1 or 0.

        Raises
        ------
        InputError
            If there is no encoder, or what it returns cannot be used.
        """
        found = self._recent.of(texts)
        wanted = [text for text in dict.fromkeys(texts) if text not in found and text.strip()]
        if wanted:
            purpose = "request" if len(wanted) <= _MOST_OF_REQUEST else "fit"
            timed = telemetry.timed("cnp_router.embedding.duration", {"purpose": purpose})
            with self._turn(), timed:
                vectors = _checked(self._here(), self.name, wanted, len(self.probe))
            new = dict(zip(wanted, vectors, strict=True))
            last = list(new)[-_REMEMBERED:]
            self._recent.add({text: new[text].copy() for text in last})  # not all of the array
            found |= new
        blank = np.zeros(len(self.probe), dtype=np.float32)
        every = [found.get(text, blank) for text in texts]
        return np.array(every, dtype=np.float32).reshape(-1, len(self.probe))

    def _here(self) -> Encoder:
        if self.encoder is None:
            raise InputError(
                f"the model was fitted with the encoder {self.name!r} and cannot read a request "
                "without it (give it: load_router(path, encoder=...), or --encoder URL)"
            )
        return self.encoder

    def _turn(self) -> AbstractContextManager[Any]:
        is_safe = getattr(self.encoder, "thread_safe", False)
        return nullcontext() if is_safe else self._recent.turn


def _name(encoder: Any) -> str:
    name = getattr(encoder, "name", None)
    if isinstance(name, str) and name.strip():
        return name
    return str(getattr(encoder, "__qualname__", type(encoder).__qualname__))


def _checked(
    encoder: Encoder, name: str, texts: list[str], n_dimensions: int | None = None
) -> NDArray[Any]:
    """Return the vectors of an encoder, of unit length."""
    wanted = (len(texts), n_dimensions or "n_dimensions")
    returned = encoder(list(texts))
    try:
        vectors = np.asarray(returned, dtype=np.float32)
    except (TypeError, ValueError, RuntimeError) as exc:  # torch has a RuntimeError of its own
        problem = f"what is no array of numbers: {shown(returned)}"
        raise _unusable(name, problem, wanted) from exc
    is_matrix = vectors.ndim == 2 and len(vectors) == len(texts) and vectors.shape[1] > 0
    if not is_matrix or (n_dimensions and vectors.shape[1] != n_dimensions):
        raise _unusable(name, f"an array of shape {vectors.shape}", wanted)
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise _unusable(name, f"numbers that are not finite for {shown(texts[row])}", wanted)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)  # of any scale
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _unusable(name: str, problem: str, wanted: tuple[Any, ...]) -> InputError:
    shape = ", ".join(map(str, wanted))
    return InputError(
        f"the encoder {name!r} returned {problem} (it must return a vector of finite numbers for "
        f"each text, all of one length: an array of shape ({shape}))"
    )
