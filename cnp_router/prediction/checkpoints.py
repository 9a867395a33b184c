"""Checkpoints: all that was learned up to a record, as a folder of data that is there or not.

========================  ==========================================================
file                      content
========================  ==========================================================
``manifest.json``         format version, last record included, checksums
``state.json``            the state, its arrays left out
``arrays.npz``            its arrays, read with ``allow_pickle=False``
========================  ==========================================================
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import ModelCorruptError, ModelVersionError
from cnp_router.prediction import disk

__all__ = ["SEEN_BYTES", "Checkpoint", "read_checkpoint", "write_checkpoint"]

SEEN_BYTES = 32
"""Of each record observed: 16 of the checksum of its kind and id, 16 of that of its content."""

_FORMAT = "cnp-router online state"
_VERSION = 2


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was learned up to a record.

    Parameters
    ----------
    sequence : int >= 0
        Number of the last record included; 0 before the first.
    state : dict
        ``"observers"``: the state of each, JSON values and numpy arrays at any depth of its
        dicts. ``"seen"``: uint8 array of shape (n, SEEN_BYTES), a row for each record observed.
    """

    sequence: int
    state: dict[str, Any]


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint into a new folder. It is whole when this returns."""
    arrays: dict[str, NDArray[Any]] = {}
    places: list[list[str]] = []
    for place, array in _arrays(checkpoint.state, ()):
        arrays[f"a{len(places)}"] = array
        places.append(list(place))
    packed = io.BytesIO()
    np.savez(packed, **arrays)  # type: ignore[arg-type]  # numpy 2 has a keyword besides arrays
    files = {
        "state.json": _json({"state": _plain(checkpoint.state), "arrays": places}),
        "arrays.npz": packed.getvalue(),
    }
    manifest: dict[str, Any] = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "sequence": checkpoint.sequence,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    manifest["sha256"] = _seal(manifest)
    disk.create_folder(folder)
    for name, data in files.items():
        disk.write_file(folder / name, data)
    disk.write_file(folder / "manifest.json", _json(manifest))
    disk.sync_folder(folder)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint. Nothing in it is executed.

    Raises
    ------
    ModelVersionError
        If another version of the format wrote it.
    ModelCorruptError
        If it is not as it was written.
    """
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        if manifest["format"] != _FORMAT or manifest["sha256"] != _seal(manifest):
            raise ValueError("manifest.json: its checksum differs")
        _check_version(folder, manifest["format_version"])
        files = {name: (folder / name).read_bytes() for name in ("state.json", "arrays.npz")}
        for name, data in files.items():
            if hashlib.sha256(data).hexdigest() != manifest["files"][name]:
                raise ValueError(f"{name}: its checksum differs")
        content = json.loads(files["state.json"])
        with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
            for number, place in enumerate(content["arrays"]):
                _put(content["state"], place, arrays[f"a{number}"])
        _check_store(content["state"])
        return Checkpoint(int(manifest["sequence"]), content["state"])
    except (
        AttributeError,
        KeyError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
    ) as exc:
        raise ModelCorruptError(
            f"{folder}: altered: {exc} (restore it from a backup, or remove the folder above it "
            "and observe again)"
        ) from exc


def _check_version(folder: Path, found: Any) -> None:
    if found != _VERSION:
        raise ModelVersionError(
            f"{folder}: written in another format ({found!r}, this version reads {_VERSION}) "
            "(upgrade cnp-router, or observe again in a new folder)"
        )


def _check_store(state: dict[str, Any]) -> None:
    seen, observers = state["seen"], state["observers"]
    if (
        not isinstance(seen, np.ndarray)
        or seen.dtype != np.uint8
        or seen.shape[1:] != (SEEN_BYTES,)
    ):
        raise ValueError(f"the checksums of the records are no rows of {SEEN_BYTES} bytes")
    if not isinstance(observers, dict):
        raise TypeError("the states of the observers are no object")


def _arrays(
    value: Mapping[str, Any], place: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], NDArray[Any]]]:
    for key, inner in value.items():
        if isinstance(inner, np.ndarray):
            yield (*place, key), inner
        elif isinstance(inner, Mapping):
            yield from _arrays(inner, (*place, key))


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _plain(inner) if isinstance(inner, Mapping) else inner
        for key, inner in value.items()
        if not isinstance(inner, np.ndarray)
    }


def _put(state: dict[str, Any], place: list[str], array: NDArray[Any]) -> None:
    *way, last = place
    for key in way:
        state = state[key]
    state[last] = array


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _seal(manifest: Mapping[str, Any]) -> str:
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
