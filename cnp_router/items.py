"""`UniqueItems`: what a catalog and a history have in common, wherever their items are kept.

The items are in memory, in a file from which they are read when asked for (`stored_items`), or
such with more at the end: a list that grows shares what it had.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar, cast, overload

from cnp_router.exceptions import InputError
from cnp_router.files import atomic_write, json_line
from cnp_router.records import Record, instances, positions

if TYPE_CHECKING:
    from cnp_router.kept_files import KeptFiles

__all__ = ["Chained", "InMemory", "Item", "ItemKind", "Items", "UniqueItems", "n_shared"]


class _Item(Protocol):
    @property
    def id(self) -> str: ...

    def to_dict(self) -> dict[str, Any]: ...


Item = TypeVar("Item", bound=_Item)


@dataclass(frozen=True)
class ItemKind(Generic[Item]):
    """What items are, and by what they are looked up.

    `keys` say under which strings an item is found, besides its id: functions of a module, so that
    they can be pickled. `listed` are names of those whose different values are listed in a file of
    their own, for whoever wants them all; ``"id"`` may be among them.
    """

    plural: str
    type: type[Item]
    called: str
    make: Callable[[Record], Item]
    keys: Mapping[str, Callable[[Item], Iterable[str]]]
    listed: tuple[str, ...] = ()


class Items(ABC, Generic[Item]):
    """Items with distinct ids, in order, wherever they are."""

    kind: ItemKind[Item]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Item]: ...

    @abstractmethod
    def item(self, place: int) -> Item:
        """Return the item at a place, from 0 to the length."""

    @abstractmethod
    def place(self, item_id: str) -> int | None:
        """Return where the item of an id is."""

    @abstractmethod
    def find(self, key: str, value: str) -> Iterator[int]:
        """Yield the places of the items that are found under a value of a key, ascending."""

    @abstractmethod
    def values(self, key: str) -> tuple[str, ...]:
        """Return all ids, in order, or the different values of another key, sorted."""

    def holds(self, place: int, item: Item) -> bool:
        """Return whether the item at a place is equal to another one."""
        own = self.item(place)
        return own is item or own == item

    @property
    def parts(self) -> tuple[Items[Item], ...]:
        """What these items are kept in, one after the other."""
        return (self,)

    def is_same(self, other: Items[Item]) -> bool:
        """Return whether others are known to be equal without looking at each."""
        return self is other

    def chunks(self, path: str | Path, start: int = 0) -> Iterator[bytes]:
        """Yield the items as JSON Lines; errors name a file, in which `start` items stand."""
        for number, item in enumerate(self, start=start + 1):
            yield json_line(item.to_dict(), path, number)

    @overload
    def __getitem__(self, key: int) -> Item: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, key: int | slice) -> Item | tuple[Item, ...]:
        places = range(len(self))[key]  # a range knows what an index and a slice mean
        return self.item(places) if isinstance(places, int) else tuple(map(self.item, places))


class InMemory(Items[Item]):
    """Items that are all there."""

    def __init__(self, kind: ItemKind[Item], items: tuple[Item, ...]) -> None:
        self.kind = kind
        self.items = items
        self._positions = positions(kind.called, (item.id for item in items))
        self._found: dict[str, dict[str, list[int]]] = {}

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def item(self, place: int) -> Item:
        """Return the item at a place."""
        return self.items[place]

    def place(self, item_id: str) -> int | None:
        """Return where the item of an id is."""
        return self._positions.get(item_id)

    def find(self, key: str, value: str) -> Iterator[int]:
        """Yield the places of the items that are found under a value."""
        return iter(self._by(key).get(value, ()))

    def values(self, key: str) -> tuple[str, ...]:
        """Return all ids, or values of another key."""
        return tuple(self._positions) if key == "id" else tuple(sorted(self._by(key)))

    def _by(self, key: str) -> dict[str, list[int]]:
        if key not in self._found:
            found: dict[str, list[int]] = {}
            for place, item in enumerate(self.items):
                for value in dict.fromkeys(self.kind.keys[key](item)):
                    found.setdefault(value, []).append(place)
            self._found[key] = found  # when it is whole: others may ask meanwhile
        return self._found[key]


class Chained(Items[Item]):
    """Items with more at their end, which are in memory.

    What came is kept in parts, each larger than the next one: many that come one by one are put
    together a few times each, and looked for in a few places.
    """

    def __init__(self, base: Items[Item], more: InMemory[Item]) -> None:
        for item in more.items:
            if base.place(item.id) is not None:
                raise InputError(
                    f"duplicate {base.kind.called} id {item.id!r} (ids must be unique)"
                )
        first, *later = base.parts
        grown = cast("list[InMemory[Item]]", later)  # only the first is ever in a file
        while grown and len(grown[-1]) <= len(more):
            more = InMemory(base.kind, (*grown.pop().items, *more.items))
        self.kind = base.kind
        self._parts: tuple[Items[Item], ...] = (first, *grown, more)
        self._starts = tuple(accumulate(map(len, self._parts), initial=0))

    @property
    def parts(self) -> tuple[Items[Item], ...]:
        """What was there, and what came."""
        return self._parts

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(self._parts)

    def item(self, place: int) -> Item:
        """Return the item at a place."""
        part, own = self._in_part(place)
        return part.item(own)

    def holds(self, place: int, item: Item) -> bool:
        """Return whether the item at a place is equal to another one."""
        part, own = self._in_part(place)
        return part.holds(own, item)

    def _in_part(self, place: int) -> tuple[Items[Item], int]:
        """Return in which part the item at a place is, and where."""
        part = bisect_right(self._starts, place) - 1
        return self._parts[part], place - self._starts[part]

    def place(self, item_id: str) -> int | None:
        """Return where the item of an id is."""
        for start, part in zip(self._starts, self._parts, strict=False):
            if (place := part.place(item_id)) is not None:
                return start + place
        return None

    def find(self, key: str, value: str) -> Iterator[int]:
        """Yield the places of the items that are found under a value."""
        for start, part in zip(self._starts, self._parts, strict=False):
            for place in part.find(key, value):
                yield start + place

    def values(self, key: str) -> tuple[str, ...]:
        """Return all ids, or values of another key."""
        return self._ids if key == "id" else self._all(key)

    @cached_property
    def _ids(self) -> tuple[str, ...]:
        return tuple(chain.from_iterable(part.values("id") for part in self._parts))

    def _all(self, key: str) -> tuple[str, ...]:
        return tuple(sorted({value for part in self._parts for value in part.values(key)}))

    def chunks(self, path: str | Path, start: int = 0) -> Iterator[bytes]:
        """Yield the items as JSON Lines."""
        for own, part in zip(self._starts, self._parts, strict=False):
            yield from part.chunks(path, start + own)


class UniqueItems(Generic[Item]):
    """An immutable list of items with distinct ids."""

    KIND: ClassVar[ItemKind[Any]]

    def __init__(self, items: Iterable[Item]) -> None:
        kind = self.KIND
        self._items: Items[Item] = InMemory(kind, instances(kind.plural, items, kind.type))

    def _of(self, items: Items[Item]) -> Self:
        """Return one like this of other items, which are not looked at."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._items = items
        return made

    def _extended(self, more: Iterable[Item]) -> Self:
        """Return one with more items at its end; what is there is shared, not copied."""
        kind = self.KIND
        new = instances(kind.plural, more, kind.type)
        if not new:
            return self
        chained = Chained(self._items, InMemory(kind, new))
        first = chained.parts[0]
        is_small = isinstance(first, InMemory) and len(chained) > 2 * len(first)
        return self._of(InMemory(kind, tuple(chained)) if is_small else chained)

    def write(self, path: str | Path) -> None:
        """Write all as JSON Lines, atomically.

        Raises
        ------
        DataFileError
            If the place cannot be written.
        """
        with atomic_write(path, "wb") as out:
            for chunk in self._items.chunks(path):
                out.write(chunk)

    def write_indexed(self, path: str | Path, kept: KeptFiles | None = None) -> None:
        """Write all as JSON Lines with an index beside them, for `open_indexed`.

        The files are named after the first: ``catalog.offsets.npy`` beside ``catalog.jsonl``. What
        was opened so is copied, not encoded again; or not even copied, if its files are `kept`.

        Raises
        ------
        InputError
            If one of the files is there already: somebody may have it open.
        DataFileError
            If the place cannot be written, or an item not be written as JSON.
        """
        from cnp_router.stored_items import write_indexed

        write_indexed(path, self._items, kept)

    @classmethod
    def open_indexed(cls, path: str | Path) -> Self:
        """Open what `write_indexed` wrote: items are read when they are asked for.

        The files must not be changed afterwards; they may be deleted, except on Windows.

        Raises
        ------
        ModelCorruptError
            If files are missing, or do not fit each other. What is wrong in a line is raised by
            whoever asks for its item.
        """
        from cnp_router.stored_items import open_indexed

        made = cls.__new__(cls)
        made._items = open_indexed(path, cls.KIND)
        return made

    def n_shared(self, other: Self) -> int:
        """Return how many items both begin with that are known to be equal, none being looked at.

        Others may be equal, too.
        """
        return n_shared(self._items, other._items)

    def holds(self, place: int, item: Item) -> bool:
        """Return whether the item at a place is equal to another one; a stored one is not read."""
        return self._items.holds(place, item)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _equal(self._items, other._items)

    def __hash__(self) -> int:
        ends = (
            self._items.item(place).id for place in {0, len(self) - 1} if 0 <= place < len(self)
        )
        return hash((type(self), len(self), frozenset(ends)))


def _equal(one: Items[Any], other: Items[Any]) -> bool:
    if one is other or len(one) != len(other):
        return one is other
    if n := n_shared(one, other):
        return one[n:] == other[n:]
    return all(a is b or a == b for a, b in zip(one, other, strict=True))


def n_shared(one: Items[Any], other: Items[Any]) -> int:
    """Return how many items both begin with that are known to be equal, each at its place.

    Others may be equal too: those shared are found without looking at any.
    """
    if one is other:
        return len(one)
    first, second = one.parts[0], other.parts[0]
    return len(first) if len(first) == len(second) and first.is_same(second) else 0
