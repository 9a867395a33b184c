"""`AnswerLimits`: how much an agent may say, so that one of them cannot sink a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from cnp_router.agents.prompts import sendable
from cnp_router.records import check_number

__all__ = ["AnswerLimits", "recorded"]

_NAME = 100  # characters of a hallucinated name, which is recorded and used for nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLimits:
    """The most that one answer of an agent may say. What is longer is cut, and recorded.

    Real answers stay far below the defaults.

    Parameters
    ----------
    grounds : int, characters, default=500
        Of each proposed API, and of a refusal.
    function : int, characters, default=1000
        Of each function of a request.
    functions : int, default=10
        How many functions a request is taken apart into. A manager announces each of them.
    apis : int, default=200
        How many APIs a contractor proposes, or a manager or a single agent selects.
    candidates : int, default=500
        How many APIs a single agent selects from.
    categories : int, default=100
        How many categories are named for a function.
    error : int, characters, default=500
        Of the error of a contractor that failed.

    Raises
    ------
    InputError
        If one is not a whole number of at least 1.

    Examples
    --------
    >>> limits = AnswerLimits(grounds=5, functions=1)
    >>> limits.cut({"functions": ["f", "g"], "grounds": "because"})
    ({'functions': ['f'], 'grounds': 'becau'}, ('functions: 2 cut to 1', \
'grounds: 7 characters cut to 5'))
    """

    grounds: int = 500
    function: int = 1_000
    functions: int = 10
    apis: int = 200
    candidates: int = 500
    categories: int = 100
    error: int = 500

    def __post_init__(self) -> None:
        for field in fields(self):
            check_number(f"the limit of {field.name}", getattr(self, field.name), 1, whole=True)

    def cut(self, answer: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return a JSON object within the limits, and a phrase for each key that was cut.

        Its texts are such as prompts and files take, without halves of surrogate pairs.
        """
        sizes = {"functions": self.functions, "mappings": self.functions, "apis": self.apis}
        sizes |= {"candidates": self.candidates, "categories": self.categories}
        sizes |= {"grounds": self.apis}
        texts = {"grounds": self.grounds, "functions": self.function}
        notes: dict[str, str] = {}

        def within(key: str, value: Any) -> Any:
            if isinstance(value, str):
                value = sendable(value)
                most = texts.get(key)
                if most is None or len(value) <= most:
                    return value
                notes[key] = f"{key}: {len(value):,} characters cut to {most:,}"
                return value[:most]
            if isinstance(value, list):
                most = sizes.get(key, len(value))
                if len(value) > most:
                    notes[f"{key} "] = f"{key}: {len(value):,} cut to {most:,}"
                return [within(key, item) for item in value[:most]]
            if isinstance(value, dict):
                return {name: within(name, item) for name, item in value.items()}
            return value

        return within("", dict(answer)), tuple(notes.values())

    def cut_error(self, text: str) -> str:
        """Return the text of an error within the limit; its end says how long it was."""
        most = self.error
        return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def recorded(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return hallucinated names as they are recorded: long ones cut."""
    return tuple(n if len(n) <= _NAME else n[:_NAME] + "..." for n in names)
