"""Items that stay in their file until they are asked for, and the index beside it.

Beside ``catalog.jsonl`` stand, as NumPy arrays and JSON:

===========================  ====================================================================
``catalog.offsets.npy``      where each line begins, and where the last one ends
``catalog.KEY.hashes.npy``   sorted 64-bit hashes of the strings under which items are found
``catalog.KEY.places.npy``   the place of the item that each of them is of
``catalog.KEY.json``         the different strings of a key, where they are wanted all at once
===========================  ====================================================================

Large files are mapped into memory: processes share them, and opening them reads nothing.

``catalog.more.jsonl`` holds a few items that came later, where the files of those before are kept
as they are. They are read at once, and have no index.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from array import array
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import DataFileError, InputError, ModelCorruptError
from cnp_router.files import as_path, json_line, object_of, writing
from cnp_router.items import Chained, InMemory, Item, ItemKind, Items
from cnp_router.kept_files import Identity, KeptFiles, hindrance, open_array, open_content
from cnp_router.records import Record

__all__ = ["StoredItems", "open_indexed", "write_indexed"]

_CHUNK = 1 << 24  # bytes that are copied at once
_MORE, _LINE_END = "more.jsonl", ord("\n")
_DECODED = 2048  # items that are kept, once they were read
_MOST_MORE = 1_000  # items behind those that are kept: they are read whenever it is opened
_PARTS = ("hashes", "places")
# What is made of the rest of a `StoredItems`.
_MADE = ("_read", "_decoded", "_ids", "_positions", "_unambiguous")


class StoredItems(Items[Item]):
    """Items of a file that `write_indexed` wrote. Each is checked when it is read.

    Pickled, it is all bytes of the files: whoever has it needs them no more.
    """

    def __init__(self, path: str | Path, kind: ItemKind[Item]) -> None:
        self.path = as_path(path)
        self.kind = kind
        # What the files are known by that are mapped, by what stands behind the stem.
        self._opened: dict[str, Identity | None] = {}
        self._content, self._opened["jsonl"] = open_content(self.path)
        self._offsets = open_array(_beside(self.path, "offsets.npy"))
        self._hashes = {
            key: open_array(_beside(self.path, f"{key}.hashes.npy")) for key in kind.keys
        }
        self._places = {
            key: open_array(_beside(self.path, f"{key}.places.npy")) for key in kind.keys
        }
        self._listed: dict[str, bytes | mmap.mmap] = {}
        for key in kind.listed:
            name = f"{key}.json"
            self._listed[key], self._opened[name] = open_content(_beside(self.path, name))
        self._prepare()
        self._check()

    def _prepare(self) -> None:
        self._read = _Reader(self.path, self.kind, self._content, self._offsets)
        # Not `item` itself: a cache that holds its owner is freed by the collector alone.
        self._decoded = lru_cache(_DECODED)(self._read)

    def _check(self) -> None:
        """Raise ModelCorruptError where sizes do not fit, which costs the same for any number."""
        offsets, size = self._offsets, len(self._content)
        sound = offsets.ndim == 1 and offsets.dtype == np.int64 and len(offsets) > 0
        if not (sound and offsets[0] == 0 and offsets[-1] == size):
            raise self._damaged("its index is of another file")
        n = len(offsets) - 1
        for key in self.kind.keys:
            hashes, places = self._hashes[key], self._places[key]
            sound = hashes.ndim == places.ndim == 1 and len(hashes) == len(places)
            if not (sound and hashes.dtype == places.dtype == np.int64):
                raise self._damaged(f"its index by {key} is none")
        for place in {0, n - 1} if n else ():  # of other items, or disordered, the ends hardly fit
            item = self._read(place)
            for key, values in self.kind.keys.items():
                for value in values(item):
                    lowest, highest = self._span(key, value)
                    if place not in self._places[key][lowest:highest]:
                        raise self._damaged(f"its index by {key} is of other items")

    def _damaged(self, problem: str) -> ModelCorruptError:
        return _damaged(self.path, problem)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Iterator[Item]:
        # Not through the cache, which it would fill with what nobody asks for again.
        return map(self._read, range(len(self)))

    def item(self, place: int) -> Item:
        """Return the item at a place; ModelCorruptError says what is wrong with its line."""
        found: Item = self._decoded(place)
        return found

    def place(self, item_id: str) -> int | None:
        """Return where the item of an id is."""
        if "id" not in self.kind.listed:
            return next(self.find("id", item_id), None)
        return self._positions.get(item_id)

    def find(self, key: str, value: str) -> Iterator[int]:
        """Yield the places of the items that are found under a value.

        Each is looked at, but where all values are listed and no two of them have one hash: the
        files are taken at their word then.
        """
        places = self._places[key][slice(*self._span(key, value))].tolist()
        if places and not 0 <= min(places) <= max(places) < len(self):
            raise self._damaged(f"its index by {key} leads nowhere")
        if key in self._unambiguous and value in self._unambiguous[key]:
            return iter(places)
        values = self.kind.keys[key]
        return (place for place in places if value in values(self.item(place)))

    def values(self, key: str) -> tuple[str, ...]:
        """Return all ids, in order, or the different values of another key, sorted."""
        if key in self.kind.listed:
            return self._ids if key == "id" else tuple(self._list(key))
        if key == "id":
            return tuple(item.id for item in self)
        return tuple(sorted({value for item in self for value in self.kind.keys[key](item)}))

    @cached_property
    def _ids(self) -> tuple[str, ...]:
        return tuple(self._list("id"))

    @cached_property
    def _unambiguous(self) -> dict[str, frozenset[str]]:
        """The listed values of each key that is so listed that none has the hash of another."""
        listed = {k: frozenset(self._list(k)) for k in self.kind.listed if k in self.kind.keys}
        return {k: own for k, own in listed.items() if len(set(map(_hash, own))) == len(own)}

    @cached_property
    def _positions(self) -> dict[str, int]:
        ids = self._ids
        found = dict(zip(ids, range(len(ids)), strict=True))
        if len(found) < len(ids):
            raise self._damaged("its list of ids has one twice")
        return found

    def _list(self, key: str) -> list[str]:
        try:
            found = json.loads(self._listed[key][:])
        except (ValueError, RecursionError) as exc:
            raise self._damaged(f"its list by {key}: {exc}") from exc
        if not isinstance(found, list) or not set(map(type, found)) <= {str}:
            raise self._damaged(f"its list by {key} is none")
        if key == "id" and len(found) != len(self):
            raise self._damaged("its list of ids is of other items")
        return found

    def _span(self, key: str, value: str) -> tuple[int, int]:
        """Return between which places of the index by a key a value is."""
        hashes, wanted = self._hashes[key], np.int64(_hash(value))
        return (int(hashes.searchsorted(wanted, "left")), int(hashes.searchsorted(wanted, "right")))

    def holds(self, place: int, item: Item) -> bool:
        """Return whether the item at a place is another one: mostly, its bytes say so."""
        return self._read.says(place, item) or super().holds(place, item)

    def is_same(self, other: Items[Item]) -> bool:
        """Return whether others are the same bytes."""
        if self is other:
            return True
        if not isinstance(other, StoredItems) or self.kind is not other.kind:
            return False
        same_size = len(self._content) == len(other._content)
        pairs = zip(self.chunks(""), other.chunks(""), strict=same_size)
        return same_size and all(mine == theirs for mine, theirs in pairs)

    def chunks(self, path: str | Path, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes of the file."""
        for begin in range(0, len(self._content), _CHUNK):
            yield self._content[begin : begin + _CHUNK]

    def write(self, path: Path, kept: KeptFiles) -> None:
        """Write the same files elsewhere; those that are kept are linked."""
        if not kept.link(self._opened.get("jsonl"), path):
            with path.open("wb") as out:
                out.writelines(self.chunks(path))
        kept.write(_beside(path, "offsets.npy"), self._offsets)
        for key in self.kind.keys:
            kept.write(_beside(path, f"{key}.hashes.npy"), self._hashes[key])
            kept.write(_beside(path, f"{key}.places.npy"), self._places[key])
        for key, content in self._listed.items():
            target = _beside(path, f"{key}.json")
            if not kept.link(self._opened.get(f"{key}.json"), target):
                target.write_bytes(content)

    def is_in(self, kept: KeptFiles) -> bool:
        """Return whether the file of the items, which is large, is among those that are kept."""
        return kept.has(self._opened.get("jsonl"))

    def index(self) -> _Index:
        """Return the index, to be written again, perhaps with more."""
        index = _Index(self.kind)
        index.is_sorted = True
        index.offsets = [self._offsets]
        for key in self.kind.keys:
            index.hashes[key], index.places[key] = [self._hashes[key]], [self._places[key]]
        for key in self.kind.listed:
            index.listed[key] = dict.fromkeys(self.values(key))
        return index

    def __getstate__(self) -> dict[str, Any]:
        state = {k: v for k, v in self.__dict__.items() if k not in _MADE}
        state["_content"], state["_opened"] = self._content[:], {}
        state["_listed"] = {key: content[:] for key, content in self._listed.items()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()


class _Reader:
    """Reads one item after the other out of the bytes of a file."""

    def __init__(
        self,
        path: Path,
        kind: ItemKind[Any],
        content: bytes | mmap.mmap,
        offsets: NDArray[np.int64],
    ) -> None:
        self.path, self.kind, self.content, self.offsets = path, kind, content, offsets

    def _bounds(self, place: int) -> tuple[int, int]:
        return int(self.offsets[place]), int(self.offsets[place + 1])

    def says(self, place: int, item: Any) -> bool:
        """Return whether an item would be written as the bytes of a place."""
        start, end = self._bounds(place)
        return self.content[start:end] == json_line(item.to_dict(), self.path, place + 1)

    def __call__(self, place: int) -> Any:
        start, end = self._bounds(place)
        number = place + 1
        if not 0 <= start < end <= len(self.content):
            raise _damaged(self.path, "its index leads nowhere", number)
        line = self.content[start:end]
        try:
            if line.find(b"\n") != len(line) - 1:
                raise _damaged(self.path, "no line begins and ends where its index says", number)
            fields = object_of(line.decode(), self.path, number)
            return self.kind.make(Record(fields, self.path, number))
        except UnicodeDecodeError as exc:
            raise _damaged(self.path, "not UTF-8", number) from exc
        except DataFileError as exc:
            raise _damaged(self.path, exc.problem, number) from exc
        except InputError as exc:
            raise _damaged(self.path, str(exc), number) from exc


class _Index:
    """What stands beside a file of items, while it is being written."""

    def __init__(self, kind: ItemKind[Any]) -> None:
        self.kind = kind
        self.is_sorted = False
        self.offsets: list[NDArray[np.int64]] = [np.zeros(1, dtype=np.int64)]
        self.hashes: dict[str, list[NDArray[np.int64]]] = {key: [] for key in kind.keys}
        self.places: dict[str, list[NDArray[np.int64]]] = {key: [] for key in kind.keys}
        self.listed: dict[str, dict[str, None]] = {key: {} for key in kind.listed}

    def add(self, items: Iterable[Any], first: int, path: Path) -> Iterator[bytes]:
        """Yield the lines of items, the first of which is at a place, and index them."""
        self.is_sorted = False
        end = int(self.offsets[-1][-1])
        offsets = array("q")
        hashes = {key: array("q") for key in self.kind.keys}
        places = {key: array("q") for key in self.kind.keys}
        for place, item in enumerate(items, start=first):
            line = json_line(item.to_dict(), path, place + 1)
            yield line
            end += len(line)
            offsets.append(end)
            for key, values in self.kind.keys.items():
                for value in dict.fromkeys(values(item)):
                    hashes[key].append(_hash(value))
                    places[key].append(place)
                    if key in self.listed:
                        self.listed[key][value] = None
            if "id" in self.listed:
                self.listed["id"][item.id] = None
        self.offsets.append(np.frombuffer(offsets, np.int64))
        for key in self.kind.keys:
            self.hashes[key].append(np.frombuffer(hashes[key], np.int64))
            self.places[key].append(np.frombuffer(places[key], np.int64))

    def write(self, path: Path) -> None:
        """Write the files of the index."""
        _save(_beside(path, "offsets.npy"), _joined(self.offsets))
        for key in self.kind.keys:
            hashes, places = _joined(self.hashes[key]), _joined(self.places[key])
            if not self.is_sorted:
                order = np.argsort(hashes, kind="stable")  # places of one hash stay in order
                hashes, places = hashes[order], places[order]
            _save(_beside(path, f"{key}.hashes.npy"), hashes)
            _save(_beside(path, f"{key}.places.npy"), places)
        for key, values in self.listed.items():
            names = list(values) if key == "id" else sorted(values)
            _beside(path, f"{key}.json").write_bytes(json.dumps(names, ensure_ascii=False).encode())


def open_indexed(path: str | Path, kind: ItemKind[Any]) -> Items[Any]:
    """Return the items that `write_indexed` wrote."""
    try:
        items = StoredItems(path, kind)
    except (OSError, ValueError, EOFError) as exc:  # of NumPy, of files that are none of its own
        if hindrance(exc):
            raise
        raise _damaged(as_path(path), f"it cannot be opened: {exc}") from exc
    place = _beside(items.path, _MORE)
    if not place.exists():
        return items
    try:
        more = InMemory(kind, tuple(_read_all(place, kind)))
        return Chained(items, more)
    except InputError as exc:
        raise _damaged(place, str(exc)) from exc


def _read_all(path: Path, kind: ItemKind[Any]) -> Iterator[Any]:
    """Yield the items of a small file without an index."""
    content = path.read_bytes()
    ends = [place + 1 for place, byte in enumerate(content) if byte == _LINE_END]
    if len(content) > (ends[-1] if ends else 0):
        raise _damaged(path, "its last line does not end", len(ends) + 1)
    yield from map(_Reader(path, kind, content, np.array([0, *ends])), range(len(ends)))


def write_indexed(path: str | Path, items: Items[Any], kept: KeptFiles | None = None) -> None:
    """Write items as JSON Lines with the index that `open_indexed` needs, as a stream.

    Lines that were stored are copied, or their files `kept`: then the few items that came later
    stand in a file of their own.
    """
    target = as_path(path)
    there = [place for place in _files_of(target, items.kind) if place.exists()]
    if there:
        raise InputError(f"{there[0]} is there already (write to a new place: others may use it)")
    with writing(path):
        _write_new(target, items, kept)


def _files_of(path: Path, kind: ItemKind[Any]) -> Iterator[Path]:
    """Yield all files that may stand for some items."""
    yield path
    yield from (_beside(path, name) for name in (_MORE, "offsets.npy"))
    yield from (_beside(path, f"{key}.{part}.npy") for key in kind.keys for part in _PARTS)
    yield from (_beside(path, f"{key}.json") for key in kind.listed)


def _write_new(target: Path, items: Items[Any], kept: KeptFiles | None) -> None:
    first, *more = items.parts
    later = _beside(target, _MORE)
    n_more = len(items) - len(first)
    is_kept = isinstance(first, StoredItems) and kept is not None and first.is_in(kept)
    if isinstance(first, StoredItems) and (not n_more or (is_kept and n_more <= _MOST_MORE)):
        first.write(target, kept or KeptFiles())
        if n_more:
            with later.open("xb") as out:
                for part in more:
                    out.writelines(part.chunks(later))
        return
    if isinstance(first, StoredItems):
        index, start = first.index(), len(first)
    else:
        index, start, more = _Index(items.kind), 0, [first, *more]
    with target.open("wb") as out:
        if start:
            out.writelines(first.chunks(target))
        if more:
            new = (item for part in more for item in part)
            out.writelines(index.add(new, start, target))
    index.write(target)


def _save(path: Path, values: NDArray[Any]) -> None:
    with path.open("wb") as out:
        np.save(out, values, allow_pickle=False)


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])


def _beside(path: Path, name: str) -> Path:
    return path.with_name(f"{path.stem}.{name}")


def _hash(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")  # a request may hold anything
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def _damaged(path: Path, problem: str, line: int | None = None) -> ModelCorruptError:
    where = path.name if line is None else f"{path.name}, line {line}"
    home = path.parent.parent if path.parent.name.startswith("generation-") else path.parent
    return ModelCorruptError.of(home, f"{where}: {problem}")
