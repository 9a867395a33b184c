"""`Asking`: questions to servers that declare the methods of coordination, and their answers."""

from __future__ import annotations

import logging
from collections import deque
from typing import Protocol, TypeVar

from pydantic import BaseModel

from cnp_router.context.data_classes import contractor_of
from cnp_router.coordination.rpc import declared_methods, read_message
from cnp_router.exceptions import InputError, SourceError, UnknownApiError
from cnp_router.sources import Source

__all__ = ["Asking", "SourcesByApi"]

_NOTES = 200  # kept

_LOGGER = logging.getLogger(__name__)

Answer = TypeVar("Answer", bound=BaseModel)


class SourcesByApi(Protocol):
    """Whoever knows the source of an API, such as `Sources`."""

    def source_of(self, api_id: str) -> Source:
        """Return it; an UnknownApiError if there is none."""


class Asking:
    """Asks servers, once each question, for a short time.

    Who does not declare a method is not asked, and nobody is started for a question. An answer that
    is wrong, late or missing is noted, and its server counts as one that does not declare the
    method from then on.

    Attributes
    ----------
    notes : deque of str
        What went wrong, the newest last.
    n_messages : int
        Questions and answers until now.
    """

    def __init__(self, sources: SourcesByApi | None, timeout: float) -> None:
        self.notes: deque[str] = deque(maxlen=_NOTES)
        self.n_messages = 0
        self._sources, self._timeout = sources, timeout
        self._wrong: set[tuple[str, str]] = set()

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
        if (contractor_of(api), method) in self._wrong:
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
            answer = await source.request(method, said, timeout=self._timeout)
            self.n_messages += 1
            return read_message(kind, answer)
        except (SourceError, InputError) as exc:
            self._wrong.add((contractor_of(api), method))
            note = f"{method} of source {source.name!r} is not used any more: {exc}"
            self.notes.append(note)
            _LOGGER.warning("%s", note)
            return None

    def trust_again(self) -> None:
        """Ask also those whose answers were wrong before."""
        self._wrong.clear()
