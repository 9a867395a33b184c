"""`OpenAIEncoder`: texts to vectors, by any server that speaks OpenAI's embeddings."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import threading
import weakref
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnp_router.exceptions import ContextTooLongError, InputError
from cnp_router.llm.cache import AnswerFolder, CacheStats
from cnp_router.llm.openai_server import OpenAIServer, Session
from cnp_router.printing import printable

__all__ = ["OpenAIEncoder"]

T = TypeVar("T")


class OpenAIEncoder(OpenAIServer):
    """Vectors of texts from OpenAI's embeddings: OpenAI, vLLM, Ollama, llama.cpp, others.

    It is called with texts and returns an array, as `fit_router` wants its encoder. That waits for
    the server; it may be called from any thread, and where an event loop is running. Texts go out
    in batches, several at once. Errors, retries, the key and the limits of what is read are those
    of `OpenAIChatModel`, and so is the switch for model requests.

    Parameters
    ----------
    model : str, optional
        By default ``"text-embedding-3-small"`` at OpenAI itself. A server with a base URL needs a
        name.
    base_url : str, optional
        Of the server, such as ``"http://localhost:11434/v1"`` for Ollama. By default
        ``OPENAI_BASE_URL`` from the environment, or else OpenAI itself.
    api_key : str, optional
        By default ``OPENAI_API_KEY`` from the environment. A server with a base URL may need
        none. It is shown in no log, error or repr, and is not written to the cache.
    cache : str or Path, optional
        A folder in which vectors are kept, by the name of the model and the text. Empty it where
        a server has another model under the same name.
    dimensions : int, optional
        Shorter vectors, from a model that can give them.
    batch_size : int, default=64
        How many texts go into one request.
    max_characters : int, default=8,000
        What is longer is cut off there: most servers refuse a text that is too long.
    timeout : float, seconds, default=120.0
        The longest that one batch may take, retries included.
    max_retries : int, default=2
        How often a request is sent again after a fault that may pass.
    max_concurrency : int, default=4
        How many batches are under way at once.
    max_bytes : int, default=16,777,216
        The most that is read of one answer, on the wire and after decompression.

    Attributes
    ----------
    stats : CacheStats or None
        What came from the folder; None without one.

    Raises
    ------
    InputError
        If an argument is out of range, there is no model name, or the base URL is not one.
    ChatAccessError
        If OpenAI itself is to be asked and there is no key.
    DataFileError
        If the folder cannot be made.

    Examples
    --------
    >>> OpenAIEncoder("nomic-embed-text", base_url="http://localhost:11434/v1")
    OpenAIEncoder('nomic-embed-text', base_url='http://localhost:11434/v1')
    """

    thread_safe = True  # see cnp_router.training.Encoder

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        cache: str | Path | None = None,
        dimensions: int | None = None,
        batch_size: int = 64,
        max_characters: int = 8_000,
        timeout: float = 120.0,
        max_retries: int = 2,
        max_concurrency: int = 4,
        max_bytes: int = 16_777_216,
    ) -> None:
        super().__init__(
            model,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            max_concurrency=max_concurrency,
            max_bytes=max_bytes,
            remote="text-embedding-3-small",
        )
        sizes = {"batch_size": batch_size, "max_characters": max_characters}
        if dimensions is not None:
            sizes["dimensions"] = dimensions
        for what, value in sizes.items():
            if not isinstance(value, int) or value < 1:
                raise InputError(f"{what} must be a whole number from 1, got {value!r}")
        self.dimensions = dimensions
        self.batch_size = batch_size
        self.max_characters = max_characters
        self._kept = None if cache is None else AnswerFolder(cache)
        # Not at exit: connections end with the process, and the loop may be gone.
        weakref.finalize(self, _close_all, self._sessions).atexit = False

    @property
    def stats(self) -> CacheStats | None:
        """What came from the folder; None without one."""
        return None if self._kept is None else self._kept.stats

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector of each text: ndarray of shape (n_texts, n_dimensions), float32.

        Raises
        ------
        LanguageModelError
            If the server gives no vectors; what kind of one says why.
        """
        cut = [text[: self.max_characters] for text in texts]
        if not cut:
            return np.zeros((0, 0), dtype=np.float32)
        found: dict[str, NDArray[np.float32]] = {}
        wanted = []
        for text in dict.fromkeys(cut):
            vector = None if self._kept is None else self._kept.read(self._digest(text), _unpacked)
            if vector is None:
                wanted.append(text)
            else:
                found[text] = vector
        if wanted:
            found.update(zip(wanted, _waited_for(self._batches(wanted)), strict=True))
        sizes = {len(vector) for vector in found.values()}
        if len(sizes) > 1:
            raise self._unusable(f"vectors of different lengths: {sorted(sizes)}", "embeddings")
        return np.stack([found[text] for text in cut])

    def close(self) -> None:
        """Close the connections. It can be called again afterwards."""
        _waited_for(self.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def _batches(self, texts: list[str]) -> list[NDArray[np.float32]]:
        size = self.batch_size
        starts = range(0, len(texts), size)
        tasks = [asyncio.create_task(self._batch(texts[i : i + size])) for i in starts]
        try:
            parts = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [vector for part in parts for vector in part]

    async def _batch(self, texts: list[str]) -> list[NDArray[np.float32]]:
        """Return the vectors of one request, which are kept as soon as they are there."""
        try:
            vectors, _ = await self._timed(lambda session: self._send(session, texts), self.timeout)
        except ContextTooLongError as exc:
            cure = "lower max_characters, or raise the server's limit"
            raise ContextTooLongError(exc.problem, **self._where, cure=cure) from exc
        if self._kept is not None:
            for text, vector in zip(texts, vectors, strict=True):
                packed = base64.b64encode(vector.astype("<f4").tobytes()).decode()
                self._kept.write(self._digest(text), {"vector": packed})
        return vectors

    async def _send(self, session: Session, texts: list[str]) -> list[NDArray[np.float32]]:
        body: dict[str, Any] = {"model": self.name, "input": texts, "encoding_format": "float"}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        text = await self._text(session.client.embeddings.with_raw_response.create, body)
        try:
            data = json.loads(text)["data"]
            by_place = {entry["index"]: entry["embedding"] for entry in data}
            vectors = [np.array(by_place[i], dtype=np.float32) for i in range(len(texts))]
            sound = len(data) == len(texts) and all(_is_vector(each) for each in vectors)
        except (IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
            sound = False
        if not sound:
            problem = f"the response has no {len(texts)} vectors in it: {printable(text, 200)!r}"
            raise self._unusable(problem, "embeddings")
        return vectors

    def _digest(self, text: str) -> str:
        assert self._kept is not None
        asked = {"model": self.name, "dimensions": self.dimensions, "input": text}
        return self._kept.key(asked)


def _is_vector(values: NDArray[Any]) -> bool:
    return values.ndim == 1 and values.size > 0 and bool(np.isfinite(values).all())


def _unpacked(record: dict[str, Any]) -> NDArray[np.float32]:
    vector = np.frombuffer(base64.b64decode(record["vector"]), "<f4").astype(np.float32)
    if not _is_vector(vector):
        raise ValueError("it is not a vector of finite numbers")
    return vector


_loops: dict[int, asyncio.AbstractEventLoop] = {}
_starting = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all encoders: one thread a process, which nobody else waits in."""
    process = os.getpid()  # a fork has the loop, but not its thread
    with _starting:
        if process not in _loops:
            loop = _loops[process] = asyncio.new_event_loop()
            name = "cnp-router encoders"
            threading.Thread(target=loop.run_forever, name=name, daemon=True).start()
        return _loops[process]


def _waited_for(work: Coroutine[Any, Any, T]) -> T:
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:  # such as Ctrl+C: what is under way is not wanted any more
        future.cancel()
        raise


def _close_all(sessions: Any) -> None:
    for loop, session in list(sessions.items()):
        if not loop.is_closed():
            asyncio.run_coroutine_threadsafe(session.client.close(), loop)
