"""`Workspace`: the explicit state of what is being made, and the rules that it keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

__all__ = ["Workspace"]


class Workspace(ABC):
    """What jobs work on together: it says how far it is, what is forbidden, and what is missing.

    A model is shown the state and may propose anything; the engine asks the workspace before each
    call, and whether the work is done is decided by `unmet`, whatever a model says.

    Examples
    --------
    >>> class Basket(Workspace):
    ...     "Two different fruits are wanted."
    ...     def __init__(self):
    ...         self.fruits = []
    ...     def state(self):
    ...         return {"fruits": list(self.fruits), "places left": 2 - len(self.fruits)}
    ...     def refusal(self, api, inputs):
    ...         there = api == "basket__put" and inputs.get("fruit") in self.fruits
    ...         return f"{inputs['fruit']} is in the basket" if there else None
    ...     def unmet(self):
    ...         return () if len(self.fruits) == 2 else ("two fruits are needed",)
    >>> basket = Basket()
    >>> basket.fruits.append("a pear")
    >>> basket.refusal("basket__put", {"fruit": "a pear"}), basket.unmet()
    ('a pear is in the basket', ('two fruits are needed',))
    >>> basket.hints(), basket.recommended()
    ((), ())
    """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return how far it is, as a JSON object: what is free, what is chosen, what is done.

        It is all that an executor knows of what is being made. It holds nothing of the user.
        """

    @abstractmethod
    def refusal(self, api: str, inputs: Mapping[str, Any]) -> str | None:
        """Return the rule, in words, that forbids a call now; None if it may be made."""

    @abstractmethod
    def unmet(self) -> tuple[str, ...]:
        """Return the rules that are not met yet, in words; empty: the work is done."""

    def reads(self, api: str) -> bool:
        """Return whether calls of an API are known to leave the state as it is.

        Those run beside others; all other calls are made one at a time, what tools say of
        themselves notwithstanding.
        """
        return False

    def hints(self) -> tuple[str, ...]:
        """Return what a planner should know of the domain, a sentence each."""
        return ()

    def recommended(self) -> tuple[dict[str, Any], ...]:
        """Return the items that a planner is shown as recommended, a JSON object each."""
        return ()
