"""`read_sources`: people's own ``mcp.json``, with other kinds of sources beside the MCP servers."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, get_args
from urllib.parse import urlsplit

from cnp_router.catalog import Api, DataClass, Effects
from cnp_router.exceptions import DataFileError, InputError, SourceUnavailableError, shown
from cnp_router.files import as_path, read_json
from cnp_router.records import check_flag, check_id, check_number
from cnp_router.sources.source import (
    SEPARATOR,
    Call,
    CallResult,
    Source,
    check_source_name,
)

__all__ = [
    "KINDS",
    "Configured",
    "Kind",
    "SourceRef",
    "files_named",
    "kind_of",
    "read_a2a",
    "read_openapi",
    "read_sources",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of source: what it is called, and its class as ``module:name``.

    One that `hides` is told which texts came from the environment, so that no error shows them.
    """

    label: str
    place: str
    hides: bool = False

    def load(self) -> Any:
        """Import the class."""
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(module), name)


_MCP = Kind("MCP server", "cnp_router.sources.mcp_server:McpServer", hides=True)
KINDS = {
    "mcpServers": _MCP,
    "servers": _MCP,  # as VS Code calls them
    "openapi": Kind("OpenAPI", "cnp_router.sources.openapi_source:OpenApiSource"),
    "a2a": Kind("A2A agent", "cnp_router.sources.a2a_agent:A2aAgent"),
    "functions": Kind("functions", "cnp_router.sources.functions:FunctionSource"),
}
"""The keys of a sources file, and what stands under each."""

_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_NAMED = re.compile(r"(?P<name>[^=/\\:?#]+)=(?P<place>.+)", re.DOTALL)
_YAML = {".yaml", ".yml"}


@dataclass(frozen=True, slots=True)
class Configured:
    """What a file says of sources.

    Parameters
    ----------
    sources : tuple of Source
        In the order of the file; nothing is started. Those that are disabled are left out.
    overrides : dict of str to {"reads", "writes", "unknown"}, default={}
        By API id, the effects that the file gives; ``"source__*"`` stands for all of a source that
        are not named.
    classes : dict of str to {"public", "private", "confidential"}, default={}
        By API id, in the same way, whom what it gives may reach (`cnp_router.context`).
    """

    sources: tuple[Source, ...]
    overrides: dict[str, Effects] = field(default_factory=dict)
    classes: dict[str, DataClass] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceRef:
    """A place, and the name to call it by: ``NAME=PLACE``.

    Parameters
    ----------
    place : str
        A path or a URL.
    name : str or None, default=None

    Examples
    --------
    >>> SourceRef.parse("pets=petstore.yaml")
    SourceRef(place='petstore.yaml', name='pets')
    >>> SourceRef.parse("http://localhost:9999/?a=b").named
    'localhost'
    """

    place: str
    name: str | None = None

    @property
    def named(self) -> str:
        """The name; without one, that of the file without its ending, or of the host.

        Nothing that stands in the document or that the agent says: what is accepted is kept by it.
        """
        if self.name is not None:
            return self.name
        is_url = "://" in self.place
        text = urlsplit(self.place).hostname if is_url else Path(self.place).stem
        return check_source_name(re.sub("_{2,}", "_", text or "").strip("_ "))

    @classmethod
    def parse(cls, text: str) -> SourceRef:
        """Read one; InputError if the name cannot be that of a source."""
        found = _NAMED.fullmatch(text)
        if found is None:
            return cls(text)
        return cls(found["place"].strip(), check_source_name(found["name"].strip()))


def read_sources(
    path: str | Path, *, environ: Mapping[str, str] | None = None, trusted: Collection[str] = ()
) -> Configured:
    """Read a file of sources: an ``mcp.json`` as other clients have it, or an OpenAPI document.

    Parameters
    ----------
    path : str or Path
        A JSON object with ``mcpServers`` (or ``servers``), ``openapi``, ``a2a`` and ``functions``,
        each an object of names and entries; other keys are ignored. Besides those of its kind, an
        entry can have ``trusted`` (what the source says of effects counts), ``effects`` (of tools,
        by name, or ``"*"`` for the others, whatever the source says), ``context`` (whom what tools
        give may reach, in the same way), ``disabled`` and ``max_concurrency``. In any text,
        ``${VAR}`` and ``${VAR:-default}`` are taken from the environment; a source whose variable
        is missing fails when it is used, and the others do not. Relative paths are relative to the
        file. An OpenAPI document is one source.
    environ : mapping of str to str, default=None
        The environment; None for that of the process.
    trusted : collection of str, default=()
        Names of sources that are trusted, whatever the file says.

    Returns
    -------
    Configured

    Raises
    ------
    DataFileError
        If the file cannot be used: it names the entry and the field.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "mcp.json"
    ...     _ = file.write_text('{"mcpServers": {"time": {"command": "${TIME:-uvx}"}}}')
    ...     read_sources(file).sources
    (McpServer('time'),)
    """
    file = as_path(path)
    if file.suffix.lower() in _YAML:
        return Configured((read_openapi(SourceRef(str(path))),))
    document = read_json(path)
    if not isinstance(document, dict):
        raise DataFileError(path, f"expected an object, got {shown(document)}", cure=_keys())
    if any(isinstance(document.get(key), str) for key in ("openapi", "swagger")):
        return Configured((read_openapi(SourceRef(str(path))),))
    reader = _Reader(file, os.environ if environ is None else environ, trusted)
    for key in KINDS:
        reader.read(key, document.get(key))
    if not reader.n_entries:
        raise DataFileError(path, "it names no sources", cure=_keys())
    return Configured(tuple(reader.sources.values()), reader.overrides, reader.classes)


def read_openapi(reference: SourceRef) -> Source:
    """Return the source of an OpenAPI document, a file or a URL, which is read when needed."""
    source: Source = KINDS["openapi"].load()(reference.named, reference.place)
    return source


def read_a2a(reference: SourceRef) -> Source:
    """Return the source of an A2A agent."""
    if "://" not in reference.place:
        raise InputError(f"not the URL of an agent: {shown(reference.place)}")
    source: Source = KINDS["a2a"].load()(reference.named, reference.place)
    return source


def kind_of(source: Source) -> str:
    """Return what the kind of a source is called; that of one's own by its class."""
    if isinstance(source, _Unfilled):
        return source.label
    name, module = type(source).__name__, type(source).__module__
    known = {kind.place: kind.label for kind in KINDS.values()}
    return known.get(f"{module}:{name}") or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def files_named(path: str | Path, *, environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return the documents and modules that a file of sources names; nothing is imported."""
    if as_path(path).suffix.lower() in _YAML:
        return ()
    document = read_json(path)
    reader = _Reader(as_path(path), os.environ if environ is None else environ, ())
    found = []
    for key, field_ in (("openapi", "document"), ("functions", "module")):
        entries = document.get(key) if isinstance(document, dict) else None
        for entry in entries.values() if isinstance(entries, dict) else ():
            place = entry.get(field_) if isinstance(entry, dict) else None
            if isinstance(place, str):
                with suppress(InputError):  # `read_sources` says it
                    found.append(reader.file.parent / reader.expanded(place, []))
    return tuple(found)


def _keys() -> str:
    return f"give it {', '.join(KINDS)}"


class _UnfilledError(InputError):
    """A reference to a variable cannot be filled in."""

    def __init__(self, problem: str, cure: str) -> None:
        self.problem, self.cure = problem, cure
        super().__init__(f"{problem} ({cure})")


class _Unfilled(Source):
    """Stands for a source that cannot be made here: it fails, and the others go on."""

    def __init__(self, error: SourceUnavailableError, label: str) -> None:
        self.name, self.label, self._error = error.source, label, error

    async def apis(self) -> NoReturn:
        error = self._error
        raise SourceUnavailableError(error.source, error.problem, cure=error.cure)

    async def call(self, call: Call) -> CallResult:
        return CallResult.failed("unavailable", str(self._error))


class _Reader:
    """Reads the entries of one file."""

    def __init__(self, file: Path, environ: Mapping[str, str], trusted: Collection[str]) -> None:
        self.file, self.environ, self.trusted = file, environ, trusted
        self.sources: dict[str, Source] = {}
        self.overrides: dict[str, Effects] = {}
        self.classes: dict[str, DataClass] = {}
        self.places: dict[str, str] = {}
        self.n_entries = 0

    def read(self, key: str, entries: Any) -> None:
        """Read what stands under a key, which is None where the file does not have it."""
        if entries is None:
            return
        if not isinstance(entries, dict):
            cure = 'write {"name": {...}}'
            problem = f"{key!r} must be an object of names and entries, got {shown(entries)}"
            raise DataFileError(self.file, problem, cure=cure)
        for name, entry in entries.items():
            self.n_entries += 1
            values: list[str] = []
            try:
                self._read(key, name, entry, values)
            except InputError as exc:
                text = _without(values, str(exc))
                raise DataFileError(self.file, f"{key} {shown(name)}: {text}") from None

    def _read(self, key: str, name: str, entry: Any, values: list[str]) -> None:
        if not isinstance(entry, dict):
            raise InputError(f"an entry must be an object, got {shown(entry)}")
        fields = dict(entry)
        if check_flag("disabled", fields.pop("disabled", False)):
            return
        trusted = check_flag("trusted", fields.pop("trusted", False)) or name in self.trusted
        effects = _by_tool("effects", fields.pop("effects", {}))
        classes = _by_tool("context", fields.pop("context", {}))
        most = fields.pop("max_concurrency", None)
        if most is not None:
            most = check_number("max_concurrency", most, 1, 10**6, whole=True)
        if other := self.places.get(check_source_name(name)):
            raise InputError(f"the name stands under {other!r} too (rename one)")
        source = self._source(key, name, fields, values, trusted)
        if most is not None:
            source.max_concurrency = most
        for tool, effect in effects.items():
            id_ = name + SEPARATOR + tool
            self.overrides[id_] = Api(id_, tool, effects=effect).effects
        for tool, data_class in classes.items():
            if data_class not in get_args(DataClass):
                said = f"got {shown(data_class)} for {shown(tool)}"
                raise InputError(f"context must be public, private or confidential, {said}")
            self.classes[check_id("API", name + SEPARATOR + tool)] = data_class
        self.sources[name], self.places[name] = source, key

    def _source(
        self, key: str, name: str, fields: dict[str, Any], values: list[str], trusted: bool
    ) -> Source:
        kind = KINDS[key]
        try:
            fields = self.expanded(fields, values)
        except _UnfilledError as exc:
            return _Unfilled(SourceUnavailableError(name, exc.problem, cure=exc.cure), kind.label)
        hidden = {"secrets": values} if kind.hides else {}
        source: Source = kind.load().from_entry(
            name, fields, folder=self.file.parent, trusted=trusted, **hidden
        )
        return source

    def expanded(self, value: Any, values: list[str]) -> Any:
        """Return a value with the variables in its texts replaced; `values` notes by what."""
        if isinstance(value, dict):
            return {key: self.expanded(each, values) for key, each in value.items()}
        if isinstance(value, list):
            return [self.expanded(each, values) for each in value]
        if isinstance(value, str):
            return _REFERENCE.sub(lambda match: self._value(match[0], values), value)
        return value

    def _value(self, reference: str, values: list[str]) -> str:
        found = _VARIABLE.fullmatch(reference)
        if found is None:
            raise _UnfilledError(f"{reference} cannot be filled in here", "use a variable, ${NAME}")
        name, default = found["name"], found["default"]
        value = self.environ.get(name, default)
        if value is None:
            cure = f"set it, or write ${{{name}:-default}}"
            raise _UnfilledError(f"the environment has no variable {name!r}", cure)
        if name in self.environ:
            values.append(value)
        return value or default or ""  # as in a shell, ":-" stands in for an empty one too


def _by_tool(name: str, value: object) -> dict[str, Any]:
    """Return what an entry says of its tools, by their names."""
    if not isinstance(value, dict):
        raise InputError(f"{name} must be an object of tools and values, got {shown(value)}")
    return value


def _without(values: list[str], text: str) -> str:
    """Return a text without what came from the environment, which may be secret."""
    from cnp_router.llm.secret import Secret

    for value in values:
        text = Secret(value).redacted(text) if len(value) > 3 else text
    return text
