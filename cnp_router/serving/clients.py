"""`Client` and `Clients`: who asks, what they may see and do, and the tokens that tell them."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from typing import Any
from unicodedata import normalize

from cnp_router.exceptions import DataFileError, InputError, shown
from cnp_router.files import as_path, read_json
from cnp_router.records import check_flag, check_user, string_tuple

__all__ = ["Client", "Clients"]

_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_TOKEN = re.compile(r"[!-~]{8,4096}")  # what a header can hold, and is not guessed at once
_KEYS = ("token", "among", "exclude", "allow_write")


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks, and what they may see and do.

    Parameters
    ----------
    name : str, default="anyone"
        What is learned from them is kept under it, so that it can be forgotten.
    among : tuple of str or None, default=None
        Patterns of ids of APIs, as a shell has them (``time__*``): the only ones that they may
        see. None: all.
    exclude : tuple of str, default=()
        Patterns of those that they may not see all the same.
    allow_write : bool, default=False
        Whether they may call what writes, where the gateway allows it too.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> client = Client("alice", among=("time__*",), exclude=("*__set",))
    >>> [client.may_see(api) for api in ("time__now", "time__set", "mail__send")]
    [True, False, False]
    """

    name: str = "anyone"
    among: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    allow_write: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", check_user(self.name))
        if self.among is not None:
            object.__setattr__(self, "among", _patterns("among", self.among))
        object.__setattr__(self, "exclude", _patterns("exclude", self.exclude))
        check_flag("allow_write", self.allow_write)

    def may_see(self, api: str) -> bool:
        """Whether an API is there for this client, by its id."""
        if self.among is not None and not any(fnmatchcase(api, each) for each in self.among):
            return False
        return not any(fnmatchcase(api, each) for each in self.exclude)


def _patterns(name: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return patterns of ids in the normal form that ids have."""
    return tuple(normalize("NFC", each) for each in string_tuple(name, given))


class Clients:
    """Clients by their tokens. Of a token only a hash is kept, with a key of this process.

    Parameters
    ----------
    tokens : mapping of str to str
        By name of a client, the token. At least 8 characters that can be seen, of ASCII.
    clients : iterable of Client

    Raises
    ------
    InputError
        If a client has no token or one that cannot be used, or two have the same.

    Examples
    --------
    >>> clients = Clients({"alice": "alice-token-1"}, [Client("alice", allow_write=True)])
    >>> clients.of("alice-token-1"), clients.of("guessed"), clients.of(None)
    (Client(name='alice', among=None, exclude=(), allow_write=True), None, None)
    >>> clients
    Clients('alice')
    """

    def __init__(self, tokens: Mapping[str, str], clients: Iterable[Client]) -> None:
        self._key = secrets.token_bytes(32)
        self._hashed: list[tuple[bytes, Client]] = []
        for client in clients:
            token = tokens.get(client.name)
            if not isinstance(token, str) or not _TOKEN.fullmatch(token):
                problem = "is missing" if not token else "cannot be sent in a header, or is short"
                raise InputError(
                    f"the token of client {client.name!r} {problem} (give it 8 characters or more, "
                    "of ASCII and without spaces)"
                )
            if (other := self.of(token)) is not None:
                raise InputError(
                    f"clients {other.name!r} and {client.name!r} have the same token "
                    "(give each its own)"
                )
            self._hashed.append((self._hash(token), client))
        if not self._hashed:
            raise InputError("there must be at least one client (got none)")

    @classmethod
    def one(cls, token: str, allow_write: bool = False) -> Clients:
        """Return those of a single token: whoever has it is ``"anyone"``, and may see all."""
        client = Client(allow_write=allow_write)
        return cls({client.name: token}, [client])

    @classmethod
    def read(cls, path: str | Path, *, environ: Mapping[str, str] | None = None) -> Clients:
        """Read a file of clients.

        Parameters
        ----------
        path : str or Path
            A JSON object ``{"clients": {name: {"token", "among"?, "exclude"?, "allow_write"?}}}``.
            A token is a variable of the environment, ``${NAME}``, and never written in the file.
        environ : mapping of str to str, default=None
            The environment; None for that of the process.

        Raises
        ------
        DataFileError
            If the file cannot be used: it names the client and the field, and no token.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "clients.json")
        ...     _ = file.write_text('{"clients": {"alice": {"token": "${ALICE_TOKEN}"}}}')
        ...     Clients.read(file, environ={"ALICE_TOKEN": "alice-token-1"})
        Clients('alice')
        """
        document, file = read_json(path), as_path(path)
        entries = document.get("clients") if isinstance(document, dict) else None
        if not isinstance(entries, dict) or not entries:
            cure = 'write {"clients": {"alice": {"token": "${ALICE_TOKEN}"}}}'
            raise DataFileError(file, "it names no clients", cure=cure)
        there = os.environ if environ is None else environ
        clients, tokens = [], {}
        for name, entry in entries.items():
            try:
                tokens[name], client = _client(name, entry, there)
            except InputError as exc:
                raise DataFileError(file, f"client {shown(name)}: {exc}") from None
            clients.append(client)
        try:
            return cls(tokens, clients)
        except InputError as exc:
            raise DataFileError(file, str(exc)) from None

    def of(self, token: str | None) -> Client | None:
        """Return whose token it is; None if nobody's. It takes as long for any token."""
        if token is None:
            return None
        given, found = self._hash(token), None
        for hashed, client in self._hashed:
            if hmac.compare_digest(hashed, given):
                found = client
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the clients."""
        return tuple(client.name for _, client in self._hashed)

    def _hash(self, token: str) -> bytes:
        return blake2b(token.encode("utf-8", "surrogatepass"), key=self._key).digest()

    def __repr__(self) -> str:
        return f"Clients({', '.join(map(repr, self.names))})"


def _client(name: str, entry: Any, environ: Mapping[str, str]) -> tuple[str, Client]:
    """Return the token and the client of an entry."""
    if not isinstance(entry, dict):
        raise InputError("an entry must be an object")  # it may be the token
    if unknown := [key for key in entry if key not in _KEYS]:
        raise InputError(f"unknown key {shown(unknown[0])} (use {', '.join(_KEYS)})")
    given = entry.get("token")
    found = _VARIABLE.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise InputError(
            "its token must be a variable of the environment, and is not written in the file "
            '(write "${NAME}")'
        )
    token = environ.get(found["name"])
    if not token:
        raise InputError(f"the environment has no variable {found['name']!r} (set it)")
    among = entry.get("among")
    return token, Client(
        name,
        among=None if among is None else string_tuple("among", among),
        exclude=string_tuple("exclude", entry.get("exclude", ())),
        allow_write=check_flag("allow_write", entry.get("allow_write", False)),
    )
