"""What an agent is asked and what it answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cnp_router.exceptions import ExecutionError
from cnp_router.llm import Usage
from cnp_router.records import check_instance, check_json, check_text, one_line
from cnp_router.sources import CallFailure, CallProgress

__all__ = ["Answer", "Question", "tokens_of", "total", "unique"]

_LOGGER = logging.getLogger("cnp_router.subagents")

OnStream = Callable[[CallProgress], object]


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent answers.

    Parameters
    ----------
    text : str, default=""
    structured : JSON value or None, default=None
        Where it gives one.
    usage : Usage or None, default=None
        What its models were paid, agents that it asked not counted. None: what it booked by
        `Question.book`.
    turns : int or None, default=None
        How many it took. None: how often it called `Question.turn`.
    failure : CallFailure or None, default=None
        Why there is no answer; what it cost is counted all the same.

    Raises
    ------
    InputError
        If a value is of another type, or JSON cannot hold it.
    """

    text: str = ""
    structured: Any = field(default=None, hash=False)
    usage: Usage | None = None
    turns: int | None = None
    failure: CallFailure | None = None

    def __post_init__(self) -> None:
        check_text("text", self.text, any_=True)
        check_json("structured", {"structured": self.structured})
        for name, kind in (("usage", Usage), ("turns", int), ("failure", CallFailure)):
            value = getattr(self, name)
            if value is not None:
                check_instance(name, value, kind)

    __repr__ = one_line


class Question:
    """What an agent is asked; a `SubAgent` makes it.

    Attributes
    ----------
    text : str
        All that it is told: the part of a request that is for it, and no history.
    arguments : dict of str to JSON value
        Those that were given of the agent's own, checked.
    max_turns : int
    turns : int
        How many it has taken.

    Examples
    --------
    >>> seen = []
    >>> question = Question("Rain?", {}, max_turns=1, on_stream=[seen.append])
    >>> question.turn("looking at the sky")
    >>> seen
    [CallProgress(done=1, total=1, message='looking at the sky')]
    >>> question.turn("looking again")
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.ExecutionError: it took more than 1 turns (raise max_turns, or ask for \
less)
    """

    def __init__(
        self,
        text: str,
        arguments: Mapping[str, Any],
        *,
        max_turns: int,
        on_stream: list[OnStream] | None = None,
    ) -> None:
        self.text = text
        self.arguments = dict(arguments)
        self.max_turns = max_turns
        self.turns = 0
        self.booked: list[Usage] = []
        self._on_stream = on_stream or []

    def turn(self, message: str = "") -> None:
        """Begin another turn: an agent says so before it asks its model.

        Raises
        ------
        ExecutionError
            If there were as many as it may take.
        """
        if self.turns >= self.max_turns:
            raise too_many(self.max_turns)
        self.turns += 1
        self.tell(message)

    def tell(self, message: str) -> None:
        """Tell who watches how far it is."""
        progress = CallProgress(self.turns, self.max_turns, message)
        for watch in self._on_stream:
            try:
                watch(progress)
            except Exception:  # who looks on stops no agent
                _LOGGER.warning("a stream callback raised an error", exc_info=True)

    def book(self, usage: Usage) -> None:
        """Count what a model was paid at once, so that it is counted whatever comes of it."""
        self.booked.append(usage)

    def __repr__(self) -> str:  # what is asked may be private
        return f"Question({len(self.text)} characters, turn {self.turns} of {self.max_turns})"


def too_many(most: int) -> ExecutionError:
    """Return (not raise) the error that an agent took too many turns."""
    return ExecutionError(f"it took more than {most} turns (raise max_turns, or ask for less)")


def total(usages: list[Usage]) -> Usage:
    """Return the sum of what models were paid; of nothing, 0 tokens.

    Examples
    --------
    >>> total([Usage(9, 1, "server"), Usage(5, 2, "server")])
    Usage(tokens_in=14, tokens_out=3, source='server')
    """
    return sum(usages[1:], usages[0]) if usages else Usage(0, 0, "estimated")


def tokens_of(usage: Usage) -> int:
    """Return tokens in and out."""
    return usage.tokens_in + usage.tokens_out


def unique(names: Iterable[str]) -> list[str]:
    """Return distinct names: one that was there before is counted.

    Examples
    --------
    >>> unique(["a", "a", "a (2)", "b"])
    ['a', 'a (3)', 'a (2)', 'b']
    """
    there = list(names)
    taken, found = set(there), set[str]()
    distinct = []
    for name in there:
        n, new = 1, name
        while new in found or (n > 1 and new in taken):
            n += 1
            new = f"{name} ({n})"
        found.add(new)
        distinct.append(new)
    return distinct
