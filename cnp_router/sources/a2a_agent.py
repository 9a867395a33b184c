"""A2A agents: each skill of an agent's card is a tool that is asked in words."""

from __future__ import annotations

import asyncio
import difflib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from cnp_router.catalog import Api
from cnp_router.exceptions import (
    InputError,
    MissingExtraError,
    SourceAnswerError,
    SourceError,
    SourceUnavailableError,
    UnknownApiError,
)
from cnp_router.llm.secret import Secret
from cnp_router.printing import printable
from cnp_router.records import check_number, check_text, shown
from cnp_router.sources.result_size import MAX_BYTES, bounded
from cnp_router.sources.source import (
    SEPARATOR,
    Call,
    CallFailure,
    CallProgress,
    CallResult,
    Source,
    check_source_name,
)
from cnp_router.sources.tool_name import check_tool_name, shown_name

if TYPE_CHECKING:
    from a2a.types import AgentCard, AgentSkill

    from cnp_router.sources.a2a_connection import Connection

__all__ = ["A2aAgent"]

_PARAMETERS = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What the agent is asked to do, in words."}
    },
    "required": ["text"],
    "additionalProperties": False,
}
_WIRE = 4  # times the size of a result: JSON and base 64 around it
_SLACK = 65_536
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SHORTEST_SECRET = 8  # characters; what is shorter may stand in any text


class A2aAgent(Source):
    """An agent that speaks the A2A protocol, by ``a2a-sdk`` (JSON-RPC or HTTP+JSON).

    Its card is read when it is first needed. Each skill is a tool with one input, ``text``; an
    agent without skills is one tool ``ask``. The protocol names no skill in a message: which one
    serves the text is the agent's own decision. Effects are unknown.

    A call is one message in a conversation of its own, with `Call.key` as the id of the message,
    by which an agent can tell a repeated one. Where the card says that the agent streams, it does;
    otherwise, and where a stream breaks, its task is looked at until it ends. Giving up a call,
    or its time running out, cancels the task. An agent that asks back is a failure of kind
    ``"inputs"`` with its question, and its task is cancelled.

    Parameters
    ----------
    name : str
        As that of a `Source`.
    url : str
        Of the agent, where its card is at ``/.well-known/agent-card.json``, or of the card
        itself (it then ends in ``.json``).
    headers : mapping of str to str, default={}
        Sent with each request to the origin of `url`, and to no other; never shown.
    start_timeout : float > 0, seconds, default=30.0
        For the card.
    max_bytes : int >= 1, default=1,000,000
        Of a result; what is larger is cut, and what is larger by far is not read.
    max_concurrency : int >= 1, default=8
    poll_seconds : float > 0, seconds, default=1.0
        Between two looks at a task, at most.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> A2aAgent("weather", "http://127.0.0.1:9999", headers={"Authorization": "Bearer 12345"})
    A2aAgent('weather')
    """

    is_agent = True

    def __init__(
        self,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        start_timeout: float = 30.0,
        max_bytes: int = MAX_BYTES,
        max_concurrency: int = 8,
        poll_seconds: float = 1.0,
    ) -> None:
        self.name = check_source_name(name)
        self.url = _checked_url(url)
        self._headers = {each: Secret(value) for each, value in _checked(headers or {}).items()}
        self.start_timeout = check_number("start_timeout", start_timeout, 0, ends=False)
        self.max_bytes = check_number("max_bytes", max_bytes, 1, whole=True)
        self.max_concurrency = check_number("max_concurrency", max_concurrency, 1, whole=True)
        self.poll_seconds = check_number("poll_seconds", poll_seconds, 0, ends=False)
        tokens = [word for each in self._headers.values() for word in each.reveal().split()]
        self._secrets = [Secret(word) for word in tokens if len(word) >= _SHORTEST_SECRET]
        self._connection: Connection | None = None
        self._apis: dict[str, Api] = {}
        self._starting = asyncio.Lock()

    @classmethod
    def from_entry(
        cls, name: str, fields: Mapping[str, Any], *, folder: Path, trusted: bool = False
    ) -> Self:
        """Return the source of an entry of a file of sources.

        Parameters
        ----------
        name : str
        fields : mapping
            ``url``, and if need be ``headers``, ``start_timeout`` and ``max_bytes``.
        folder : Path
            Makes no difference here.
        trusted : bool, default=False
            Makes no difference here: the protocol says nothing about effects.

        Raises
        ------
        InputError
            If a field is wrong or unknown.
        """
        known = ("url", "headers", "start_timeout", "max_bytes")
        wrong = next((key for key in fields if key not in known), None)
        if wrong is not None:
            said = f"it has {', '.join(map(repr, known))}"
            raise InputError(f"source {name!r} has an unknown field {shown(wrong)} ({said})")
        if "url" not in fields:
            raise InputError(f"source {name!r} has no field 'url' (give the address of the agent)")
        try:
            return cls(name, **fields)
        except InputError as exc:
            raise InputError(f"source {name!r}: {exc}") from None

    async def apis(self) -> tuple[Api, ...]:
        """Return the skills of the agent's card, which is read each time.

        Raises
        ------
        SourceError
            If there is no card that can be used.
        MissingExtraError
            If ``a2a-sdk`` is not installed.
        """
        connection, seconds = await self._connected()
        if seconds is None:
            card = await connection.read_card()
            self._apis = self._tools(card)
        return tuple(self._apis.values())

    async def call(self, call: Call) -> CallResult:
        """Send the text to the agent, and return its answer."""
        try:
            connection, start_seconds = await self._connected()
        except SourceUnavailableError as exc:
            return CallResult.failed("unavailable", str(exc))
        except SourceError as exc:
            return CallResult(failure=CallFailure("unusable", str(exc), "no"))
        if call.api not in self._apis:
            raise UnknownApiError(call.api, close=difflib.get_close_matches(call.api, self._apis))
        text = call.inputs.get("text")
        if not isinstance(text, str) or len(call.inputs) != 1:
            said = f"the one input is 'text', a string, got {shown(dict(call.inputs))}"
            return CallResult.failed("inputs", said, start_seconds=start_seconds)
        start = time.perf_counter()
        result = await self._asked(connection, call, text)
        seconds = time.perf_counter() - start
        result = replace(self._redacted(result), seconds=seconds, start_seconds=start_seconds)
        return bounded(result, self.max_bytes)

    async def _asked(self, connection: Connection, call: Call, text: str) -> CallResult:
        from cnp_router.sources.a2a_answer import Answer

        def progressed(progress: CallProgress) -> None:
            if call.on_progress is not None:
                call.on_progress(replace(progress, message=self._clean(progress.message)))

        answer, failure = Answer(progressed), None
        notes: tuple[str, ...] = ()
        limit = asyncio.timeout(call.timeout)
        try:
            async with limit:
                failure = await connection.ask(text, call.key, answer, self.poll_seconds)
        except asyncio.CancelledError:
            await connection.cancel(answer)
            raise
        except TimeoutError:
            if not limit.expired():  # the caller's own, from on_progress
                raise
            if not answer.is_over:
                failure = CallFailure("timeout", f"no answer in {call.timeout:g} s")
        try:
            result = answer.result()
        except ValueError as exc:  # numbers that JSON does not know
            said = f"the answer cannot be used: {printable(str(exc), 300)}"
            result = CallResult.failed("unusable", said)
        if failure is None:
            failure = result.failure
        if answer.is_waiting or (failure is not None and not answer.is_over and answer.task_id):
            note = await connection.cancel(answer)
            notes = (note,) if note else ()
            if note and failure is not None and answer.is_waiting:
                failure = CallFailure(failure.kind, failure.message, "unknown")
        return replace(result, failure=failure, notes=notes)

    async def _connected(self) -> tuple[Connection, float | None]:
        """Return the connection, and how long it took where it is new."""
        async with self._starting:
            if self._connection is not None:
                return self._connection, None
            start = time.perf_counter()
            try:
                from cnp_router.sources.a2a_connection import Connection
            except ImportError as exc:
                raise MissingExtraError(
                    "calling A2A agents", package="a2a-sdk", extra="a2a"
                ) from exc
            connection = Connection(
                self.name,
                self.url,
                {name: value.reveal() for name, value in self._headers.items()},
                self.start_timeout,
                _WIRE * self.max_bytes + _SLACK,
            )
            try:
                self._apis = self._tools(await connection.read_card())
            except BaseException:
                await connection.aclose()
                raise
            self._connection = connection
            return connection, time.perf_counter() - start

    def _tools(self, card: AgentCard) -> dict[str, Api]:
        """Return the tools that a card speaks of, by id."""
        found = [
            (skill.id, skill.name or skill.id, _described(skill), skill.tags)
            for skill in card.skills
        ]
        apis: dict[str, Api] = {}
        clean = self._clean
        for place, (tool, name, text, tags) in enumerate(found, 1):
            try:
                check_tool_name(tool)
                categories = tuple(dict.fromkeys(map(clean, tags)))
                id_ = f"{self.name}{SEPARATOR}{clean(tool)}"
                api = Api(id_, clean(name), clean(text), categories, _PARAMETERS)
                if apis.setdefault(api.id, api) is not api:
                    raise InputError(f"duplicate API id {api.id!r} (ids must be unique)")
            except InputError as exc:
                called = shown_name(clean(tool))
                problem = f"skill {place} of its card, {called}, cannot be used: {clean(str(exc))}"
                raise SourceAnswerError(self.name, problem) from None
        if not apis:
            name, text = clean(card.name) or "ask", clean(card.description)
            api = Api(f"{self.name}{SEPARATOR}ask", name, text, (), _PARAMETERS)
            apis[api.id] = api
        return apis

    def _redacted(self, result: CallResult) -> CallResult:
        """Return a result without the secrets of the headers, which an agent may echo."""
        failure = result.failure
        if failure is not None:
            said = self._clean(failure.message)
            failure = CallFailure(failure.kind, said, failure.was_done)
        structured = result.structured
        if self._secrets and structured is not None:
            structured = json.loads(self._clean(json.dumps(structured, ensure_ascii=False)))
        notes = tuple(map(self._clean, result.notes))
        text = self._clean(result.text)
        return replace(result, text=text, structured=structured, failure=failure, notes=notes)

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = secret.redacted(text)
        return text

    async def aclose(self) -> None:
        """Disconnect. A later call connects again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()


def _described(skill: AgentSkill) -> str:
    examples = f"Examples: {'; '.join(skill.examples)}" if skill.examples else ""
    return f"{skill.description} {examples}".strip()


def _checked_url(url: object) -> str:
    text = check_text("url", url)
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname
        parts.port  # noqa: B018  (raises where it is none)
    except ValueError:
        usable = False
    if not usable or not text.isprintable() or " " in text:
        raise InputError(f"url must be an address such as 'http://host:1234', got {shown(url)}")
    if parts.username or parts.password:
        raise InputError("url must not hold a name or password (give them as a header)")
    if (parts.query or parts.fragment) and not parts.path.endswith(".json"):
        raise InputError("url must not hold a query, unless it is that of the card itself")
    return text


def _checked(headers: object) -> dict[str, str]:
    if not isinstance(headers, Mapping):
        raise InputError("headers must be an object of names and strings")
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER.fullmatch(name):
            raise InputError(f"{shown(name)} cannot be the name of a header")
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise InputError(f"the header {name!r} must be a string of ASCII characters, one line")
    return dict(headers)
