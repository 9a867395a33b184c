"""The questions of a form, and what an answer to one means."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.records import shown
from cnp_router.timetable.form_fields import department_of

__all__ = ["QUESTIONS", "Question"]

_YES = {"yes", "y", "true", "ok", "allowed", "fine"}
_NO = {"no", "n", "false", "none", "never"}


@dataclass(frozen=True, slots=True)
class Question:
    """What a form has to say, as a question.

    Parameters
    ----------
    field : str
        Of the form.
    text : str
        The question.
    example : bool, float or str
        What a form may say.
    """

    field: str
    text: str
    example: bool | float | str

    def value(self, answer: str, departments: Collection[str]) -> Any:
        """Return the value of the field that an answer in words gives.

        Raises
        ------
        InputError
            If the answer does not say it. Whether the value is allowed, the form says.

        Examples
        --------
        >>> [question.value("yes", []) for question in QUESTIONS if question.field == "gaps"]
        [True]
        """
        said = answer.strip()
        if self.field == "interests":
            return said
        if self.field == "department":
            return department_of(said, departments)
        if self.field in ("year", "min_credits", "max_credits"):
            return self._number(said)
        if said.lower() in _YES:
            return True
        if said.lower() in _NO:
            return False
        if self.field == "free_day":
            return said
        raise InputError(f"{self.field} must be yes or no, got {shown(answer)}")

    def _number(self, said: str) -> float:
        try:
            return int(said) if self.field == "year" else float(said)
        except ValueError:
            raise InputError(f"{self.field} must be a number, got {shown(said)}") from None


QUESTIONS = (
    Question("department", "Which department do you study at?", "Law and Politics"),
    Question("year", "Which year are you in (1 to 6)?", 2),
    Question("min_credits", "How many credits do you need at least?", 10),
    Question("max_credits", "How many credits do you want at most?", 16),
    Question("first_period", "May there be courses in the first period (yes or no)?", True),
    Question("gaps", "May there be free periods between courses of a day (yes or no)?", True),
    Question("free_day", "Should a day be free (yes, no, or which day)?", "Wed"),
    Question(
        "interests", "What are you interested in, and what else do you wish (or nothing)?", ""
    ),
)
"""What has to be known for a timetable, in the order in which it is asked."""
