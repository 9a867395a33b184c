"""What passes between the library and a language model: messages, a request, a response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from cnp_router.exceptions import InputError
from cnp_router.llm.schema import check_schema

__all__ = ["ChatMessage", "ChatRequest", "ChatResponse", "Role", "Usage"]

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt.

    Parameters
    ----------
    role : {"system", "user", "assistant"}
    content : str

    Raises
    ------
    InputError
        If there is no such role, or the content cannot be sent as UTF-8.

    Examples
    --------
    >>> ChatMessage("user", "Which APIs?").to_dict()
    {'role': 'user', 'content': 'Which APIs?'}
    """

    role: Role
    content: str

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise InputError(f"role must be 'system', 'user' or 'assistant', got {self.role!r}")
        if not isinstance(self.content, str):
            raise InputError(f"the content of a message must be a string, got {self.content!r}")
        try:
            self.content.encode()
        except UnicodeEncodeError as exc:
            raise InputError(
                f"half of a surrogate pair, {exc.object[exc.start]!a}, in a message (replace it)"
            ) from exc

    def to_dict(self) -> dict[str, str]:
        """Return the message as the JSON object that servers take."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked.

    Parameters
    ----------
    messages : sequence of ChatMessage
        At least one.
    schema : mapping or None, default=None
        JSON schema (Draft 2020-12) of an object that the answer must be. None asks for free text.
    task : object, default=None
        The typed task that the messages were rendered from. It is not sent: only an offline
        model and fakes read it.
    max_tokens : int or None, default=None
        The most tokens an answer may have; None leaves it to the server.
    temperature : float or None, default=None
        None leaves it to the server: some models take no temperature.
    seed : int or None, default=None
        For servers that can sample repeatably.

    Raises
    ------
    InputError
        If there is no message, or the schema cannot be used.

    Examples
    --------
    >>> request = ChatRequest([ChatMessage("user", "Which APIs?")], max_tokens=100)
    >>> request.messages[0].content, request.schema
    ('Which APIs?', None)
    """

    messages: Sequence[ChatMessage]
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    task: object = field(default=None, hash=False)
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", tuple(self.messages))
        if not self.messages:
            raise InputError("a request needs at least one message (got none)")
        strangers = [m for m in self.messages if not isinstance(m, ChatMessage)]
        if strangers:
            raise InputError(f"messages must be ChatMessage objects, got {strangers[0]!r}")
        if self.schema is not None:
            check_schema(self.schema)
        if self.max_tokens is not None and not (
            isinstance(self.max_tokens, int) and self.max_tokens >= 1
        ):
            raise InputError(f"max_tokens must be a whole number from 1, got {self.max_tokens!r}")


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that a request cost.

    Parameters
    ----------
    tokens_in : int
        Of the prompts.
    tokens_out : int
        Of the answers.
    source : {"server", "estimated"}
        Who says so. A sum is ``"server"`` only if all of it is.

    Examples
    --------
    >>> Usage(100, 20, "server") + Usage(50, 5, "estimated")
    Usage(tokens_in=150, tokens_out=25, source='estimated')
    """

    tokens_in: int
    tokens_out: int
    source: Literal["server", "estimated"]

    def __add__(self, other: Usage) -> Usage:
        both = self.source == other.source == "server"
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            "server" if both else "estimated",
        )


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """What a model answered.

    Parameters
    ----------
    text : str
        The answer as it came (the last one, where it was asked twice).
    data : dict or None
        The JSON object in it, which fits the schema of the request; None without a schema.
    usage : Usage
        Of all calls that it took.
    model : str
        Name of the model that answered.
    seconds : float, seconds
        From sending to the answer, retries included, waiting for a free place excluded.
    cached : bool, default=False
        Whether it was answered before, so that nothing was paid now. Usage and seconds are those
        of the first time.
    calls : int, default=1
        Answers it took: 2 where the first one had to be repaired.
    structured_by : {"server", "prompt"} or None, default=None
        Who was given the schema: the server, or only the model in the prompt, because the server
        takes none. None without a schema.
    finish_reason : str or None, default=None
        Why the model stopped, in the server's words.

    Examples
    --------
    >>> ChatResponse("Hello.", None, Usage(9, 2, "estimated"), "tiny", 0.1).cached
    False
    """

    text: str
    data: dict[str, Any] | None
    usage: Usage
    model: str
    seconds: float
    cached: bool = False
    calls: int = 1
    structured_by: Literal["server", "prompt"] | None = None
    finish_reason: str | None = None
