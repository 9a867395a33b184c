"""`Asking`: questions to servers that declare the methods of coordination, and their answers."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

from pydantic import BaseModel

from cnp_router.context.data_classes import contractor_of
from cnp_router.coordination.rpc import declared_methods, read_message
from cnp_router.exceptions import SourceUnavailableError, UnknownApiError
from cnp_router.printing import printable
from cnp_router.sources import Source

__all__ = ["Asking", "SourcesByApi"]

_NOTES = 200  # kept
_NOTE = 500  # characters
_PAUSE = 60.0  # seconds
_PATIENCE = 1.5  # times what a source may take: it should end by itself

_LOGGER = logging.getLogger(__name__)

Answer = TypeVar("Answer", bound=BaseModel)


class SourcesByApi(Protocol):
    """Whoever knows the source of an API, such as `Sources`."""

    def source_of(self, api_id: str) -> Source:
        """Return it; an UnknownApiError if there is none."""


class Asking:
    """Asks servers, once each question, for a short time.

    Who does not declare a method is not asked, and nobody is started for a question. A wrong answer
    is noted, and its server counts as one that does not declare the method from then on; after one
    that is late or missing, for a minute.

    Attributes
    ----------
    notes : deque of str
        What went wrong, the newest last.
    n_messages : int
        Questions and answers until now.
    """

    def __init__(
        self,
        sources: SourcesByApi | None,
        timeout: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.notes: deque[str] = deque(maxlen=_NOTES)
        self.n_messages = 0
        self._sources, self._timeout = sources, timeout
        self._clock = clock
        self._silent: dict[tuple[str, str], float] = {}  # by source and method: until when

    @property
    def is_mute(self) -> bool:
        """Whether there is nobody to ask."""
        return self._sources is None

    def source_of(self, api: str) -> Source | None:
        """Return the source of an API; None if there is none."""
        if self._sources is None:
            return None
        try:
            return self._sources.source_of(api)
        except UnknownApiError:
            return None

    def is_declared(self, api: str, method: str) -> bool:
        """Return whether the source of an API declares a method, and has answered it so far."""
        if self._silent.get((contractor_of(api), method), -math.inf) > self._clock():
            return False
        source = self.source_of(api)
        return source is not None and method in declared_methods(source.extensions)

    async def ask(
        self, api: str, method: str, params: BaseModel, kind: type[Answer]
    ) -> Answer | None:
        """Ask the source of an API; None where that gives no answer that can be used."""
        source = self.source_of(api)
        if source is None:
            return None
        said = params.model_dump(mode="json", exclude_none=True)
        self.n_messages += 1
        try:
            async with asyncio.timeout(_PATIENCE * self._timeout):
                answer = await source.request(method, said, timeout=self._timeout)
            self.n_messages += 1
            return read_message(kind, answer)
        except Exception as exc:  # of a source of one's own it may be any: nobody else is disturbed
            is_late = isinstance(exc, SourceUnavailableError | TimeoutError)
            until = self._clock() + _PAUSE if is_late else math.inf
            self._silent[contractor_of(api), method] = until
            why = printable(str(exc), _NOTE) or type(exc).__name__
            long = f"for {_PAUSE:g} s" if is_late else "any more"
            note = f"{method} of source {source.name!r} is not used {long}: {why}"
            self.notes.append(note)
            _LOGGER.warning("%s", note)
            return None

    def trust_again(self) -> None:
        """Ask also those whose answers were wrong before."""
        self._silent.clear()
