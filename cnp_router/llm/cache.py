"""`CachedChatModel`: what was answered once is not paid for again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
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

__all__ = ["CacheStats", "CachedChatModel"]

logger = logging.getLogger("cnp_router.llm")

_FORMAT = 1


@dataclass(slots=True)
class CacheStats:
    """What a cache has done so far."""

    hits: int = 0  # answers from the folder
    misses: int = 0  # requests that went to the model
    damaged: int = 0  # entries that could not be used, and were asked anew
    unwritten: int = 0  # answers that could not be kept


class CachedChatModel(WrappedChatModel):
    """A model whose answers are kept in a folder.

    An entry is found by the SHA-256 of the model's name, the messages, the schema and the
    parameters: the same question, asked again, is answered from the folder with the usage and the
    seconds of the first time, and `cached` set. The server's address, the task and keys have no
    part in it and are not written. Errors are not kept. Of identical requests at
    the same time one is asked, and the others are answered from the folder.

    Entries are single files, put in place at once, so that several processes may share a folder.
    A damaged entry is counted, asked anew and replaced.

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
        self.folder = Path(folder)
        self.stats = CacheStats()
        # Of requests under way, by event loop and key: nobody else holds a lock.
        self._locks: WeakValueDictionary[Any, asyncio.Lock] = WeakValueDictionary()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as exc:
            raise DataFileError(
                folder, f"no cache can be there: {exc}", cure="name a folder"
            ) from exc

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Answer from the folder, or else ask the model and keep its answer."""
        asked = asdict(replace(request, task=None))
        key = _digest({"format": _FORMAT, "model": self.name, **asked})
        lock = self._locks.setdefault((asyncio.get_running_loop(), key), asyncio.Lock())
        async with lock:  # whoever comes next finds what the one before has left
            response = self._read(key, request)
            if response is not None:
                self.stats.hits += 1
                return response
            self.stats.misses += 1
            response = await super().complete(request)
            self._write(key, response)
            return response

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def _read(self, key: str, request: ChatRequest) -> ChatResponse | None:
        path = self._path(key)
        try:
            entry = json.loads(path.read_bytes())
            record = entry["response"]
            expected = {"format": _FORMAT, "key": key, "checksum": _digest(record)}
            if entry != {**expected, "response": record}:
                raise ValueError("its checksum, key or format is not the one it should have")
            problem = None if request.schema is None else misfit(record["data"], request.schema)
            if problem is not None:
                raise ValueError(problem)
            kept = {**record, "usage": Usage(**record["usage"]), "cached": True}
            return check_response(self, ChatResponse(**kept))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as exc:
            self.stats.damaged += 1
            logger.warning("cache entry %s cannot be used and is asked anew: %s", path, exc)
            return None

    def _write(self, key: str, response: ChatResponse) -> None:
        path = self._path(key)
        # Not files.atomic_write: its fsync takes milliseconds in which no other answer is read.
        # What a power cut leaves half-written is found by its checksum.
        temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            path.parent.mkdir(exist_ok=True)
            record = asdict(response)
            entry = {"format": _FORMAT, "key": key, "checksum": _digest(record)}
            text = json.dumps({**entry, "response": record}, ensure_ascii=False)
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        except OSError as exc:  # the answer is paid for: it is not lost because a disk is full
            self.stats.unwritten += 1
            logger.warning("an answer could not be kept in %s: %s", self.folder, exc)
            temporary.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"CachedChatModel({self.model!r}, {str(self.folder)!r})"


def _digest(value: Any) -> str:
    # Key order is kept: a model is shown the schema in that order.
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
