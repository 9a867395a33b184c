"""`CachedChatModel`: what was answered once is not paid for again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from cnp_router.exceptions import DataFileError
from cnp_router.llm.chat import (
    ChatModel,
    ChatRequest,
    ChatResponse,
    Usage,
    WrappedChatModel,
    check_response,
)
from cnp_router.llm.schema import misfit

__all__ = ["AnswerFolder", "CacheStats", "CachedChatModel"]

T = TypeVar("T")

logger = logging.getLogger("cnp_router.llm")

_FORMAT = 2


@dataclass(slots=True)
class CacheStats:
    """What a cache has done so far."""

    hits: int = 0  # answers from the folder
    misses: int = 0  # requests that went to the model
    damaged: int = 0  # entries that could not be used, and were asked anew
    unwritten: int = 0  # answers that could not be kept


class AnswerFolder:
    """Answers in a folder, each in a file of its own, found by a digest of what was asked.

    Files are put in place at once, so that several processes may share a folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder: Path = Path(folder)
        self.stats: CacheStats = CacheStats()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as exc:
            raise DataFileError(
                folder, f"no cache can be there: {exc}", cure="name a folder"
            ) from exc

    def key(self, asked: dict[str, Any]) -> str:
        """Return by what the answer is found."""
        return _digest({"format": _FORMAT, **asked})

    def read(self, key: str, use: Callable[[dict[str, Any]], T]) -> T | None:
        """Return what `use` makes of a kept answer; None if there is none that can be used."""
        path = self._path(key)
        try:
            entry = json.loads(path.read_bytes())
            record = entry["response"]
            expected = {"format": _FORMAT, "key": key, "checksum": _digest(record)}
            if entry != {**expected, "response": record}:
                raise ValueError("its checksum, key or format is not the one it should have")
            found = use(record)
        except FileNotFoundError:
            self.stats.misses += 1
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as exc:
            self.stats.misses += 1
            self.stats.damaged += 1
            logger.warning("cache entry %s cannot be used and is asked anew: %s", path, exc)
            return None
        self.stats.hits += 1
        return found

    def write(self, key: str, record: dict[str, Any]) -> None:
        """Keep an answer, if the disk allows."""
        path = self._path(key)
        # Not files.atomic_write: its fsync takes milliseconds in which no other answer is read.
        # What a power cut leaves half-written is found by its checksum.
        temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            path.parent.mkdir(exist_ok=True)
            entry = {"format": _FORMAT, "key": key, "checksum": _digest(record)}
            text = json.dumps({**entry, "response": record}, ensure_ascii=False)
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        except OSError as exc:  # the answer is paid for: it is not lost because a disk is full
            self.stats.unwritten += 1
            logger.warning("an answer could not be kept in %s: %s", self.folder, exc)
            temporary.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


class CachedChatModel(WrappedChatModel):
    """A model whose answers are kept in a folder.

    An entry is found by the SHA-256 of the model's name, the messages, the schema and the
    parameters: the same question, asked again, is answered from the folder with the usage and the
    seconds of the first time, and `cached` set. The server's address, the task and keys have no
    part in it and are not written. Errors are not kept. Of identical requests at
    the same time one is asked, and the others are answered from the folder.

    Several processes may share a folder. A damaged entry is counted, asked anew and replaced.

    Parameters
    ----------
    model : ChatModel
        Who answers what is not there yet.
    folder : str or Path
        Created if it does not exist.

    Attributes
    ----------
    stats : CacheStats
        What was answered from where.

    Raises
    ------
    DataFileError
        If the folder cannot be made.

    Examples
    --------
    >>> import tempfile
    >>> from cnp_router.llm import ChatMessage, complete_sync
    >>> from cnp_router.testing import ScriptedChatModel
    >>> model = CachedChatModel(ScriptedChatModel(["Hello."]), tempfile.mkdtemp())
    >>> request = ChatRequest([ChatMessage("user", "Hi")])
    >>> [complete_sync(model, request).cached for _ in range(2)]
    [False, True]
    >>> model.stats
    CacheStats(hits=1, misses=1, damaged=0, unwritten=0)
    """

    def __init__(self, model: ChatModel, folder: str | Path) -> None:
        super().__init__(model)
        self._kept = AnswerFolder(folder)
        # Of requests under way, by event loop and key: nobody else holds a lock.
        self._locks: WeakValueDictionary[Any, asyncio.Lock] = WeakValueDictionary()

    @property
    def folder(self) -> Path:
        """Where the answers are kept."""
        return self._kept.folder

    @property
    def stats(self) -> CacheStats:
        """What was answered from where."""
        return self._kept.stats

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Answer from the folder, or else ask the model and keep its answer."""
        asked = asdict(replace(request, task=None))
        key = self._kept.key({"model": self.name_for(request), **asked})
        lock = self._locks.setdefault((asyncio.get_running_loop(), key), asyncio.Lock())
        async with lock:  # whoever comes next finds what the one before has left
            response = self._kept.read(key, lambda record: self._response(record, request))
            if response is None:
                response = await super().complete(request)
                self._kept.write(key, asdict(response))
            return response

    def _response(self, record: dict[str, Any], request: ChatRequest) -> ChatResponse:
        problem = None if request.schema is None else misfit(record["data"], request.schema)
        if problem is not None:
            raise ValueError(problem)
        kept = {**record, "usage": Usage(**record["usage"]), "cached": True}
        return check_response(self, ChatResponse(**kept))

    def __repr__(self) -> str:
        return f"CachedChatModel({self.model!r}, {str(self.folder)!r})"


def _digest(value: Any) -> str:
    # Key order is kept: a model is shown the schema in that order.
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
