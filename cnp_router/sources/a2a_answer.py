"""What an A2A agent answers, out of its events: one message, or a task and its artifacts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from a2a.types import Message, Part, StreamResponse, Task, TaskState
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]

from cnp_router.sources.result_size import MOST_SAID
from cnp_router.sources.source import (
    Attachment,
    CallFailure,
    CallProgress,
    CallResult,
    FailureKind,
)

__all__ = ["Answer"]

_ENDS: dict[int, tuple[FailureKind, str] | None] = {
    TaskState.TASK_STATE_COMPLETED: None,
    TaskState.TASK_STATE_FAILED: ("tool", "the agent failed, and does not say why"),
    TaskState.TASK_STATE_REJECTED: ("tool", "the agent refused, and does not say why"),
    TaskState.TASK_STATE_CANCELED: ("tool", "the agent gave up, and does not say why"),
    TaskState.TASK_STATE_INPUT_REQUIRED: ("inputs", "the agent asks for more"),
    TaskState.TASK_STATE_AUTH_REQUIRED: ("permission", "the agent asks for authentication"),
}
# It had begun, and may have done a part; one that failed says so itself.
_BEGUN = (
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_INPUT_REQUIRED,
)
_WAITING = (TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED)


class Answer:
    """One answer while it comes."""

    def __init__(self, on_progress: Callable[[CallProgress], object]) -> None:
        self.task_id = ""
        self._state: int = TaskState.TASK_STATE_UNSPECIFIED
        self._message: Message | None = None
        self._artifacts: dict[str, list[list[Part]]] = {}  # by id: parts by chunk
        self._on_progress = on_progress
        self._steps = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of its own accord."""
        return self._state in _ENDS or (self._message is not None and not self.task_id)

    @property
    def is_waiting(self) -> bool:
        """Whether the agent waits for the caller, who will not come."""
        return self._state in _WAITING

    def take(self, event: StreamResponse) -> None:
        """Take the next event of a stream."""
        kind = event.WhichOneof("payload")
        if kind == "task":
            self.take_task(event.task)
        elif kind == "message":
            self._message = event.message
        elif kind == "status_update":
            self.task_id = event.status_update.task_id
            self._take_status(event.status_update.status)
        elif kind == "artifact_update":
            self.task_id = event.artifact_update.task_id
            artifact = event.artifact_update.artifact
            chunks = self._artifacts.setdefault(artifact.artifact_id, [])
            if not event.artifact_update.append:
                chunks.clear()
            chunks.append(list(artifact.parts))

    def take_task(self, task: Task) -> None:
        """Take a task as it is now."""
        self.task_id = task.id
        if task.artifacts:
            self._artifacts = {each.artifact_id: [list(each.parts)] for each in task.artifacts}
        self._take_status(task.status)

    def _take_status(self, status: Any) -> None:
        message = status.message if status.HasField("message") else None
        before, self._state, self._message = self._message, status.state, message
        if message is None or message == before or self.is_over:
            return
        self._steps += 1
        said = _text(message.parts)[:MOST_SAID]
        self._on_progress(CallProgress(float(self._steps), None, said))

    def result(self) -> CallResult:
        """Return the result, or the failure that the agent speaks of."""
        texts, parts = [], []
        for chunks in self._artifacts.values():
            texts.append("".join(_text(chunk) for chunk in chunks))
            parts += [part for chunk in chunks for part in chunk]
        end = _ENDS.get(self._state)
        if not parts or end is not None:
            more = [] if self._message is None else list(self._message.parts)
            texts.append(_text(more))
            parts += more
        data = [_plain(part.data) for part in parts if part.WhichOneof("content") == "data"]
        result = CallResult(
            "\n".join(text for text in texts if text),
            data[0] if len(data) == 1 else data or None,
            tuple(_attachments(parts)),
        )
        if end is None:
            return result
        kind, unsaid = end
        said_of_it = "" if self._message is None else _text(self._message.parts)[:MOST_SAID]
        was_done: Literal["no", "unknown"] | None = "unknown" if self._state in _BEGUN else None
        failure = CallFailure(kind, said_of_it or unsaid, was_done)
        return CallResult(result.text, result.structured, result.attachments, failure)


def _text(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if part.WhichOneof("content") == "text")


def _attachments(parts: Iterable[Part]) -> Iterable[Attachment]:
    for part in parts:
        media_type = part.media_type or "application/octet-stream"
        if part.WhichOneof("content") == "raw":
            yield Attachment(media_type, part.raw)
        elif part.WhichOneof("content") == "url":
            yield Attachment(media_type, uri=part.url)


def _plain(value: Any) -> Any:
    """Return the JSON value. Protobuf knows neither whole numbers nor an order of keys."""
    return _whole(MessageToDict(value))


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
