"""`Reading`: what a text of wishes says of a form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cnp_router.exceptions import InputError
from cnp_router.timetable.form import Form
from cnp_router.timetable.wish_phrases import WORKS

__all__ = ["Reading"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says of a form.

    Parameters
    ----------
    form : Form
        With the changes.
    changes : tuple of str
        What was understood, in words.
    not_understood : tuple of str
        Each part of the text that changed nothing, and why.
    wanted : tuple of str
        Names of the preferences of which the text wants more than before.
    as_before : tuple of str
        What was understood, and was so before.
    """

    form: Form
    changes: tuple[str, ...]
    not_understood: tuple[str, ...]
    wanted: tuple[str, ...] = ()
    as_before: tuple[str, ...] = ()

    def something(self) -> Reading:
        """Return this; InputError if nothing of the text is understood."""
        if not (self.changes or self.as_before):
            said = "; ".join(self.not_understood) or "it is empty"
            raise InputError(
                f"nothing of the text is understood: {said} (say it in other words, such as "
                f"{WORKS})"
            )
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return what was and what was not understood, as a JSON object."""
        parts = ("changes", "as_before", "not_understood")
        return {part: list(getattr(self, part)) for part in parts}
