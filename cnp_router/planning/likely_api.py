"""`LikelyApi`: who would be asked to do a task, by the words of specifications alone."""

from __future__ import annotations

from collections.abc import Iterable

from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.records import instances
from cnp_router.text import BM25, specification_text, without_quotations

__all__ = ["LikelyApi"]


class LikelyApi:
    """Finds the API whose specification has most of the words of a text, by BM25.

    Parameters
    ----------
    apis : iterable of Api
        At least one.

    Raises
    ------
    InputError
        If there is none.

    Examples
    --------
    >>> likely = LikelyApi([Api("maps", "Maps", "Shows places."), Api("sms", "SMS")])
    >>> likely("Send her an SMS"), likely("Play jazz")
    ('sms', None)
    """

    def __init__(self, apis: Iterable[Api]) -> None:
        self._apis = instances("apis", apis, Api)
        if not self._apis:
            raise InputError("at least one API is needed (got none)")
        self._index = BM25([specification_text(api) for api in self._apis])

    def __call__(self, text: str) -> str | None:
        """Return the id of the likeliest API; None where no word fits. Quotations do not count."""
        scores = self._index.scores(without_quotations(text))
        best = int(scores.argmax())
        return self._apis[best].id if scores[best] > 0 else None
