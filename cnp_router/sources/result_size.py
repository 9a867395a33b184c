"""How large a result may be: what is more is cut, and the result says so."""

from __future__ import annotations

import json
from dataclasses import replace

from cnp_router.sources.source import CallResult

__all__ = ["MAX_BYTES", "MOST_SAID", "bounded"]

MAX_BYTES = 1_000_000
MOST_SAID = 2_000  # characters of what a tool says of a failure


def bounded(result: CallResult, max_bytes: int) -> CallResult:
    """Return a result with its size, cut where it is larger than `max_bytes`.

    A structured result is kept whole or not at all: half of it would be another one. So is an
    attachment. Halves of surrogate pairs, which no file can hold, are replaced.
    """
    text = result.text.encode("utf-8", "replace")
    written = json.dumps(result.structured, ensure_ascii=False).encode("utf-8", "replace")
    if result.structured is None or written == text:
        written = b""
    attached = sum(len(each.data) for each in result.attachments)
    size = len(text) + len(written) + attached
    if size <= max_bytes:
        return replace(result, text=text.decode(), n_bytes=max(size, result.n_bytes))
    structured = result.structured
    if len(text) + len(written) > max_bytes:
        structured, written = None, b""
    room = max_bytes - len(text) - len(written)
    kept = []
    for each in result.attachments:
        fits = len(each.data) <= room
        room -= len(each.data) if fits else 0
        kept.append(each if fits else replace(each, data=b""))
    return replace(
        result,
        text=text[:max_bytes].decode("utf-8", "ignore"),
        structured=structured,
        attachments=tuple(kept),
        n_bytes=max(size, result.n_bytes),
        is_cut=True,
    )
