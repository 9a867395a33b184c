"""What comes back of an HTTP request, as the result of a call."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnp_router.printing import printable
from cnp_router.sources.openapi_text import strict_json
from cnp_router.sources.source import Attachment, CallFailure, CallResult, FailureKind

__all__ = ["Answer", "Redactor", "UnusableAnswerError", "read_bounded", "result_of"]

_KINDS: dict[int, FailureKind] = {
    **dict.fromkeys((400, 413, 414, 415, 422, 431), "inputs"),
    **dict.fromkeys((401, 402, 403, 407), "permission"),
    **dict.fromkeys((408, 425, 429, 503), "busy"),
    **dict.fromkeys((501, 505), "tool"),
}
_TEXT = re.compile(
    r"text/.*|application/(.*[+-])?(xml|yaml|javascript|x-www-form-urlencoded|ndjson|jsonl|sql"
    r"|graphql|toml|csv)"
)
_SHOWN = 300


class UnusableAnswerError(Exception):
    """An answer that is none."""


@dataclass(frozen=True)
class Answer:
    """Status, headers (names in lower case) and body of an answer; `n_bytes` before a cut."""

    status: int
    phrase: str
    headers: Mapping[str, str]
    body: bytes
    n_bytes: int
    is_cut: bool


class Redactor:
    """Takes secrets out of what a server said."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = [secret for secret in secrets if secret]

    def text(self, text: str, *, is_cut: bool = False) -> str:
        """Return a text without the secrets, and without the half of one where it is cut."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
            if is_cut:
                for length in range(min(len(secret) - 1, len(text)), 2, -1):
                    if text.endswith(secret[:length]):
                        text = f"{text[:-length]}***"
                        break
        return text

    def data(self, data: bytes) -> bytes:
        """Return bytes without the secrets."""
        for secret in self._secrets:
            data = data.replace(secret.encode(), b"***")
        return data

    def value(self, value: Any) -> Any:
        """Return a JSON value without the secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.value(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.value(each) for each in value]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return "***" if is_number and str(value) in self._secrets else value


async def read_bounded(
    chunks: AsyncIterator[bytes], most: int, encoding: str
) -> tuple[bytes, int, bool]:
    """Return at most so many bytes, how many came, and whether there were more.

    What is compressed all the same is unpacked within the same bound.
    """
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise UnusableAnswerError(f"compressed by {encoding[:30]!r}, which was not asked for")
    packed = None if encoding in ("", "identity") else zlib.decompressobj(47)
    data, came = bytearray(), 0
    async for chunk in chunks:
        came += len(chunk)
        try:
            data += chunk if packed is None else packed.decompress(chunk, most + 1 - len(data))
        except zlib.error as exc:
            raise UnusableAnswerError("it cannot be unpacked") from exc
        if len(data) > most:
            return bytes(data[:most]), max(came, len(data)), True
    return bytes(data), max(came, len(data)), False


def result_of(
    answer: Answer, *, method: str, redact: Redactor, credentials: str = ""
) -> CallResult:
    """Return the result of a call whose answer is here.

    Statuses become kinds of failure: 400 and 422 ``"inputs"``; 401 and 403 ``"permission"``; 408,
    425, 429 and 503 ``"busy"``; other 5xx ``"lost"``, since nobody knows what was done; all others
    ``"tool"``. A write with 3xx, 408 or 5xx may have been done, unless it is 503 that says when to
    come again. `credentials` is where they come from, as a refusal names it.
    """
    fields = _content(answer, redact) if method != "HEAD" else _head(answer, redact)
    notes = _notes(answer, redact)
    failure = None
    if not 200 <= answer.status < 300:
        failure = _failure(answer, fields["text"], redact, credentials)
        if method not in ("GET", "HEAD") and _is_unsure(answer):
            failure = CallFailure(failure.kind, failure.message, "unknown")
    elif (problem := fields.pop("problem", None)) is not None:
        failure = CallFailure("unusable", problem)
    fields.pop("problem", None)
    n_bytes, is_cut = answer.n_bytes, answer.is_cut
    return CallResult(**fields, failure=failure, n_bytes=n_bytes, is_cut=is_cut, notes=notes)


def _content(answer: Answer, redact: Redactor) -> dict[str, Any]:
    """Return text, structure and attachments of a body, and what is wrong with it."""
    kind, _, rest = answer.headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    body, is_cut = answer.body, answer.is_cut
    if not body:
        return {"text": ""}
    if kind in ("application/json", "text/json") or kind.endswith("+json"):
        text = redact.text(body.decode("utf-8", "replace"), is_cut=is_cut)
        if is_cut:
            return {"text": text}
        try:
            value = strict_json(body.decode("utf-8-sig"))
            clean = redact.value(value)
        except (ValueError, RecursionError):
            return {"text": text, "problem": f"it says that it is {kind}, and is not"}
        if clean != value:
            text = json.dumps(clean, ensure_ascii=False)
        return {"text": text, "structured": clean}
    plain = _text(kind, rest, body, is_cut=is_cut)
    if plain is None:
        media_type = kind or "application/octet-stream"
        return {"text": "", "attachments": (Attachment(media_type, redact.data(body)),)}
    return {"text": redact.text(plain, is_cut=is_cut)}


def _text(kind: str, rest: str, body: bytes, *, is_cut: bool) -> str | None:
    """Return a body as text; None if it is none."""
    if kind:
        if not _TEXT.fullmatch(kind):
            return None
        charset = re.search(r"charset=\"?([\w.:-]+)", rest, re.IGNORECASE)
        try:
            text = body.decode(charset[1] if charset else "utf-8", "replace")
            return text.encode("utf-8", "replace").decode()
        except (LookupError, ValueError):  # a charset that is none, or no charset of texts
            return body.decode("utf-8", "replace")
    if b"\0" in body:
        return None
    try:
        return body.decode("utf-8", "ignore" if is_cut else "strict")
    except UnicodeDecodeError:
        return None


def _head(answer: Answer, redact: Redactor) -> dict[str, Any]:
    """Return the answer to HEAD, which is its headers."""
    headers = redact.value({k: v for k, v in answer.headers.items() if k != "set-cookie"})
    return {"text": json.dumps(headers, ensure_ascii=False), "structured": headers}


def _notes(answer: Answer, redact: Redactor) -> tuple[str, ...]:
    notes = [] if answer.body else [f"HTTP {answer.status}, no body"]
    told = {name: answer.headers.get(name.lower()) for name in ("Retry-After", "Location")}
    notes += [
        f"{name}: {printable(redact.text(value), _SHOWN)}" for name, value in told.items() if value
    ]
    return tuple(notes)


def _failure(answer: Answer, text: str, redact: Redactor, credentials: str) -> CallFailure:
    status = answer.status
    kind = _KINDS.get(status, "lost" if status >= 500 else "tool")
    message = f"HTTP {status} {printable(redact.text(answer.phrase), _SHOWN)}".strip()
    if said := printable(text, _SHOWN):
        message += f": {said}"
    if kind == "permission" and credentials:
        message += f" (check {credentials})"
    if status < 400 and "location" in answer.headers:
        message += " (it redirects to another server, or too often)"
    return CallFailure(kind, message, "unknown" if kind == "lost" else "no")


def _is_unsure(answer: Answer) -> bool:
    """Whether a write with this status, which is no success, may have been done all the same."""
    status = answer.status
    if status == 503:  # proxies answer so as well, after they passed the request on
        return "retry-after" not in answer.headers
    return status < 400 or status == 408 or status >= 500
