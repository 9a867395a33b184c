"""The definitions of tools that were accepted, kept in a file: a changed one is noticed."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cnp_router.catalog import Api
from cnp_router.exceptions import DataFileError, InputError
from cnp_router.files import alone, as_path, atomic_write, read_json
from cnp_router.records import Record, check_flag, instances, positions, shown
from cnp_router.sources.source import SEPARATOR, check_source_name

__all__ = ["Changed", "Changes", "LockFile", "fingerprint"]

FORMAT = 1
_CURE = "restore the file, or delete it and accept the definitions anew"
_WIDTH = 96
_MOST_COMPARED = 1_000  # lines of a definition, from the first that differs on
_MOST_NAMED = 5
_MOST_SHOWN = 200  # lines of a diff


def fingerprint(api: Api) -> str:
    """Return what tells one definition from another: all of it that a model is shown.

    Parameters
    ----------
    api : Api

    Returns
    -------
    str of 64 hexadecimal digits
        SHA-256 of the JSON of name, description, parameters and, where there are any, summary
        and keywords, with sorted keys. Categories and effects do not count.

    Examples
    --------
    >>> now, later = Api("time__now", "now", "The time."), Api("time__now", "now", "The time!")
    >>> fingerprint(now) == fingerprint(later)
    False
    >>> fingerprint(now)[:8]
    '5b12b44c'
    """
    text = json.dumps(_definition(api), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Changed:
    """A definition that is not the accepted one.

    Parameters
    ----------
    old : Api
        As it was accepted.
    new : Api
        As the source gives it now.
    """

    old: Api
    new: Api

    @cached_property
    def diff(self) -> str:
        """A unified diff for a person to read: at most some 200 lines, safe on a terminal.

        Where it is longer, its last line says how many lines are not shown.
        """
        old, new = _lines(self.old), _lines(self.new)
        if max(len(old), len(new)) > _MOST_COMPARED:
            pairs = itertools.zip_longest(old, new)
            same = next((place for place, (one, other) in enumerate(pairs) if one != other), 0)
            start = max(0, same - 3)
            left = max(len(old), len(new)) - start - _MOST_COMPARED
            old, new = (lines[start : start + _MOST_COMPARED] for lines in (old, new))
        else:
            left = 0
        name = _visible(self.new.id)
        lines = list(difflib.unified_diff(old, new, f"{name} accepted", f"{name} now", lineterm=""))
        left = max(0, left) + len(lines[_MOST_SHOWN:])
        more = [f"... (about {left:,} more lines are not shown)"] if left else []
        return "\n".join([*lines[:_MOST_SHOWN], *more])


@dataclass(frozen=True)
class Changes:
    """What differs between a source and what was accepted of it. False if nothing does.

    Parameters
    ----------
    added : tuple of Api, default=()
    changed : tuple of Changed, default=()
    removed : tuple of Api, default=()
        As they were accepted.
    """

    added: tuple[Api, ...] = ()
    changed: tuple[Changed, ...] = ()
    removed: tuple[Api, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@dataclass(frozen=True)
class _Pinned:
    """What was accepted of one source, and the ids of those that it no longer has."""

    apis: tuple[Api, ...] = ()
    gone: frozenset[str] = frozenset()


class LockFile:
    """The accepted definitions of all sources, in one JSON file.

    The file is ``{"format": 1, "sources": {name: [object of an API, with "sha256"]}}``, sorted, so
    that a version control system shows what changed. Nothing is executed when it is read. Effects
    and categories are kept, and are no part of the fingerprint. An API that its source no longer
    has stays, with ``"gone": true``: it may come back as something else.

    Several processes can write it: each replaces what it altered itself, and nothing else.

    Parameters
    ----------
    path : str or Path
        Is read if it is there.

    Raises
    ------
    DataFileError
        If the file is there and cannot be used: damaged, of another format, or changed by hand.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> now = Api("time__now", "now", "The time.", parameters={"type": "object"})
    >>> later = Api("time__now", "now", "The time. Send it to me.", parameters={"type": "object"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = LockFile(Path(folder) / "tools.lock.json")
    ...     lock.accept("time", [now])
    ...     lock.write()
    ...     changes = LockFile(Path(folder) / "tools.lock.json").compare("time", [later])
    >>> print(changes.changed[0].diff)
    --- time__now accepted
    +++ time__now now
    @@ -1,6 +1,6 @@
     {
       "name": "now",
    -  "description": "The time.",
    +  "description": "The time. Send it to me.",
       "parameters": {
         "type": "object"
       }
    """

    def __init__(self, path: str | Path) -> None:
        self.path = as_path(path)
        self._sources = self._in_file()
        self._altered: dict[str, bool] = {}  # by source: whether whatever stands there goes

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of which something was accepted, sorted."""
        return tuple(sorted(self._sources))

    def known(self, source: str) -> tuple[Api, ...]:
        """Return the accepted definitions of a source, by id; none if it is not known."""
        return self._sources.get(source, _Pinned()).apis

    def current(self, source: str) -> tuple[Api, ...]:
        """Return those of the accepted ones that the source had when it was last asked."""
        gone = self._sources.get(source, _Pinned()).gone
        return tuple(api for api in self.known(source) if api.id not in gone)

    @property
    def is_altered(self) -> bool:
        """Whether something is not written yet."""
        return bool(self._altered)

    def compare(self, source: str, apis: Iterable[Api]) -> Changes:
        """Return what differs between what a source gives now and what was accepted.

        Raises
        ------
        InputError
            If an id comes twice, or is not one of the source's.
        """
        given = _checked(source, apis)
        known = {api.id: api for api in self.known(source)}
        old = [known.get(api.id) for api in given]
        pairs = [(was, api) for was, api in zip(old, given, strict=True) if was is not None]
        now = {api.id for api in given}
        return Changes(
            tuple(api for api in given if api.id not in known),
            tuple(Changed(*pair) for pair in pairs if not _is_same(*pair)),
            tuple(api for api in known.values() if api.id not in now),
        )

    def accept(self, source: str, apis: Iterable[Api]) -> None:
        """Take these as the definitions of a source, in place of whatever was accepted before.

        Raises
        ------
        InputError
            If the name cannot be used, an id comes twice, or is not one of the source's.
        """
        self._sources[check_source_name(source)] = _Pinned(_checked(source, apis))
        self._altered[source] = True

    def note(self, source: str, apis: Iterable[Api]) -> None:
        """Add what is new in what a source has now; what changed stays as it was accepted.

        What it no longer has is known to be gone. Effects and categories are those of now.

        Raises
        ------
        InputError
            As `accept`.
        """
        given = {api.id: api for api in _checked(check_source_name(source), apis)}
        known = {api.id: api for api in self.known(source)}
        held = known | {i: a for i, a in given.items() if _is_same(a, known.get(i, a))}
        pinned = _Pinned(_sorted(held), frozenset(known.keys() - given.keys()))
        if pinned != self._sources.get(source, _Pinned()):
            self._sources[source] = pinned
            self._altered.setdefault(source, False)

    def forget(self, source: str) -> None:
        """Drop the definitions of a source; one that is not known is no error."""
        self._sources.pop(source, None)
        self._altered[source] = True

    def write(self) -> None:
        """Write the file, atomically, with what others have written there meanwhile.

        That is known here too afterwards. Where another process has accepted another definition
        than was noted here, that one stays.

        Raises
        ------
        DataFileError
            If the place cannot be written, or if a noted definition was not; all else is then.
        """
        with alone(self.path):
            there, differing = self._in_file(), list[str]()
            merged = dict(there)
            for name, replaces in self._altered.items():
                ours = self._sources.get(name)
                if ours is None:
                    merged.pop(name, None)
                elif replaces or name not in there:
                    merged[name] = ours
                else:
                    merged[name], ids = _together(ours, there[name])
                    differing += ids
            self._write(merged)
        self._sources, self._altered = merged, {}
        if differing:
            named = ", ".join(map(repr, differing[:_MOST_NAMED]))
            problem = f"another process accepted other definitions meanwhile, of {named}"
            raise DataFileError(self.path, problem, cure="try again: now it is these that count")

    def _write(self, pinned: dict[str, _Pinned]) -> None:
        sources = {
            name: [
                {**api.to_dict(), "sha256": fingerprint(api)}
                | ({"gone": True} if api.id in each.gone else {})
                for api in each.apis
            ]
            for name, each in pinned.items()
        }
        document = {"format": FORMAT, "sources": sources}
        try:
            text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
        except RecursionError:
            text = json.dumps(document, sort_keys=True, ensure_ascii=False)
        with atomic_write(self.path) as out:
            out.write(f"{text}\n")

    def _in_file(self) -> dict[str, _Pinned]:
        try:
            document = read_json(self.path)
        except DataFileError as exc:
            if not isinstance(exc.__cause__, FileNotFoundError):
                cure = exc.cure if isinstance(exc.__cause__, OSError) else _CURE
                raise DataFileError(self.path, exc.problem, line=exc.line, cure=cure) from exc
            return {}
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            said = shown(document.get("format") if isinstance(document, dict) else document)
            problem = f"not a lock file of format {FORMAT}, got {said}"
            raise DataFileError(self.path, problem, cure=_CURE)
        sources = document.get("sources")
        if not isinstance(sources, dict):
            problem = f"'sources' must be an object, got {shown(sources)}"
            raise DataFileError(self.path, problem, cure=_CURE)
        return {name: self._read(name, entries) for name, entries in sources.items()}

    def _read(self, name: str, entries: Any) -> _Pinned:
        try:
            check_source_name(name)
            if not isinstance(entries, list):
                raise InputError(f"expected a list of APIs, got {shown(entries)}")
            read = [self._api(place, it) for place, it in enumerate(entries, 1)]
            gone = frozenset(api.id for api, is_gone in read if is_gone)
            return _Pinned(_checked(name, [api for api, _ in read]), gone)
        except InputError as exc:
            said = exc.problem if isinstance(exc, DataFileError) else str(exc)
            problem = f"source {shown(name)}: {said}"
            raise DataFileError(self.path, problem, cure=_CURE) from None

    def _api(self, place: int, fields: Any) -> tuple[Api, bool]:
        if not isinstance(fields, dict):
            raise InputError(f"entry {place}: expected an object, got {shown(fields)}")
        record = Record(fields, self.path, None, place)
        api = record.make(Api)
        if record.get("sha256") != fingerprint(api):
            raise record.error(f"the sha256 of {api.id!r} is not that of its definition")
        return api, record.get("gone", check_flag, default=False)

    def __repr__(self) -> str:
        return f"LockFile({str(self.path)!r}, {len(self._sources)} sources)"


def _checked(source: str, apis: Iterable[Api]) -> tuple[Api, ...]:
    """Return the APIs of a source sorted by id, each once."""
    given = instances("apis", apis, Api)
    positions("API", (api.id for api in given))
    start = f"{source}{SEPARATOR}"
    for api in given:
        if not api.id.startswith(start) or api.id == start:
            raise InputError(f"the id {api.id!r} is not one of source {source!r} ({start}tool)")
    return _sorted({api.id: api for api in given})


def _sorted(apis: dict[str, Api]) -> tuple[Api, ...]:
    return tuple(apis[id_] for id_ in sorted(apis))


def _is_same(one: Api, other: Api) -> bool:
    return one is other or fingerprint(one) == fingerprint(other)


def _together(ours: _Pinned, theirs: _Pinned) -> tuple[_Pinned, list[str]]:
    """Return what both know of a source, and the ids of which theirs is another definition."""
    mine, other = ({api.id: api for api in each.apis} for each in (ours, theirs))
    differing = [id_ for id_ in mine if id_ in other and not _is_same(mine[id_], other[id_])]
    both = other | mine | {id_: other[id_] for id_ in differing}
    return _Pinned(_sorted(both), ours.gone | (theirs.gone - mine.keys())), differing


def _definition(api: Api) -> dict[str, Any]:
    parameters = None if api.parameters is None else dict(api.parameters)
    definition: dict[str, Any] = {"name": api.name, "description": api.description}
    definition["parameters"] = parameters
    if api.summary or api.keywords:  # a model is shown them too
        definition |= {"summary": api.summary, "keywords": list(api.keywords)}
    return definition


def _lines(api: Api) -> list[str]:
    """Return a definition as lines that all can be seen whole: long ones are folded."""
    definition = _definition(api)
    parameters = definition["parameters"]
    try:
        if parameters is not None:  # sorted, since their order makes no difference
            ordered = json.dumps(parameters, sort_keys=True, ensure_ascii=False)
            definition["parameters"] = json.loads(ordered)
        text = json.dumps(definition, indent=2, ensure_ascii=False)
    except RecursionError:
        text = json.dumps(definition, sort_keys=True, ensure_ascii=False)
    return [piece for line in text.split("\n") for piece in _folded(_visible(line))]


def _folded(line: str) -> list[str]:
    """Cut a line where the text in it has line ends, and where it is too long."""
    parts = line.replace("\\n", "\\n\n").split("\n")
    cuts = [part[at : at + _WIDTH] for part in parts for at in range(0, len(part), _WIDTH)]
    return cuts or [""]


def _visible(text: str) -> str:
    """Escape what steers a terminal, and any other space than the usual one: it is a change."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
