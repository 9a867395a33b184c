"""`Substitutes`: who may do what another one was awarded and failed, best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scipy import sparse

from cnp_router.agents import ApiEvidence
from cnp_router.catalog import Api
from cnp_router.text import TfidfEncoder, specification_text

__all__ = ["Candidate", "Substitutes"]

_DIGITS = 6  # likeness that differs by less is the same: the order is that of any machine


@dataclass(frozen=True, slots=True)
class Candidate:
    """An API that a contractor proposed, or that is known to the router."""

    api: str
    contractor: str
    in_reply_to: int  # id of the proposal, or of the request
    function: str | None = None  # that it was proposed for


class Substitutes:
    """The candidates for a job, by what they say of themselves in their specifications.

    No model is asked. Of texts, only the words of specifications count, as words.

    Parameters
    ----------
    candidates : sequence of Candidate
        In the order of proposals, or of the router.
    specifications : mapping of str to Api
        Those of the candidates, and of all that can fail.
    evidence : mapping of str to ApiEvidence, default={}
        What the router knows of APIs.
    in_order : bool, default=False
        Whether the order of the candidates is kept: they are the router's, best first.

    Examples
    --------
    >>> apis = {"sms": Api("sms", "SMS", "Sends text messages."), "maps": Api("maps", "Maps"),
    ...         "text": Api("text", "Texter", "Sends a text to phones.")}
    >>> proposed = [Candidate(name, name, 9) for name in ("maps", "sms", "text")]
    >>> [each.api for each in Substitutes(proposed, apis).of("sms", None)]
    ['text']
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        specifications: Mapping[str, Api],
        evidence: Mapping[str, ApiEvidence] | None = None,
        *,
        in_order: bool = False,
    ) -> None:
        self.candidates = tuple(candidates)
        self.specifications = specifications
        self.evidence = evidence or {}
        self.in_order = in_order

    def of(self, api: str, function: str | None) -> list[Candidate]:
        """Return who could do the job of an API, best first; the API itself is none of them.

        If a function was awarded, those who proposed an API for it. If a whole request was, those
        whose API has a category or words in common with the one that failed. The most alike come
        first, then the most probable.
        """
        others = [c for c in self.candidates if c.api != api and c.function == function]
        likeness = self._likeness(api, {c.api for c in others})
        if function is None:
            own = set(self.specifications[api].categories)
            others = [
                c
                for c in others
                if likeness[c.api] > 0 or own.intersection(self.specifications[c.api].categories)
            ]
        if self.in_order:
            return others
        known = self.evidence
        p = {c.api: known[c.api].probability if c.api in known else 0.0 for c in others}
        return sorted(others, key=lambda c: (-likeness[c.api], -p[c.api]))

    def _likeness(self, api: str, others: Iterable[str]) -> dict[str, float]:
        """Return the cosine of specifications, in [0, 1]."""
        places, rows = self._vectors
        products = (rows @ rows[[places[api]]].T).toarray().ravel()
        return {name: round(float(products[places[name]]), _DIGITS) for name in others}

    @cached_property
    def _vectors(self) -> tuple[dict[str, int], Any]:
        """The place of each specification, and their vectors, of the words that carry meaning."""
        texts = [specification_text(each) for each in self.specifications.values()]
        rows = TfidfEncoder("content", min_df=1).fit_transform(texts)
        return {name: i for i, name in enumerate(self.specifications)}, sparse.csr_array(rows)
