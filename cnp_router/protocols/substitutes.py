"""`Substitutes`: who may do what another one was awarded and failed, best first."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from scipy import sparse

from cnp_router.agents import ApiEvidence
from cnp_router.catalog import Api, Catalog
from cnp_router.text import TfidfEncoder, evenly, rows_below, specification_text

__all__ = ["LEAST_LIKENESS", "Candidate", "Likeness", "Substitutes"]

# Cosine of specifications from which an API may do the job of another one without a category in
# common. Of the pairs of the bundled sample that reach it, 41 % share a category, of any pairs 6 %.
LEAST_LIKENESS = 0.1

_MOST_READ = 20_000  # specifications that tell how common words are
_MAKING = threading.Lock()
_DIGITS = 6  # likeness that differs by less is the same: the order is that of any machine


class _Vectors(NamedTuple):
    """Vectors that were made, and whose each is."""

    places: dict[str, int]
    encoder: TfidfEncoder
    rows: sparse.csr_array


class Likeness:
    """How alike the APIs of a catalog are, by the words of their specifications and nothing else.

    Parameters
    ----------
    apis : iterable of Api
    with_server : bool, default=True
        Whether the name of its server counts among the words of a tool. It tells what is meant by a
        short text; among many servers it tells those apart that do the same.

    Examples
    --------
    >>> likeness = Likeness([Api("sms", "SMS", "Sends text messages."), Api("maps", "Maps"),
    ...                      Api("text", "Texter", "Sends a text to phones.")])
    >>> likeness.of("sms", ["maps", "text"])
    {'maps': 0.0, 'text': 0.366447}
    """

    def __init__(self, apis: Iterable[Api], *, with_server: bool = True) -> None:
        self._apis = apis if isinstance(apis, Catalog) else Catalog(apis)
        self._with_server = with_server

    @cached_property
    def _vectors(self) -> _Vectors:
        """Those that tell how common words are; nobody needs them before something fails."""
        some = [self._apis[place] for place in evenly(len(self._apis), _MOST_READ)]
        encoder = TfidfEncoder("content", min_df=1)
        rows = encoder.fit_transform(list(map(self._said, some)))
        return _Vectors({api.id: place for place, api in enumerate(some)}, encoder, rows)

    def _vectors_of(self, names: Sequence[str]) -> sparse.csr_array:
        """Return the vectors of some specifications; those that are new are made."""
        with _MAKING:
            places, encoder, rows = self._vectors
            if new := [name for name in dict.fromkeys(names) if name not in places]:
                texts = [self._said(self._apis[name]) for name in new]
                encoder = encoder.grown(texts)
                wide = rows.data, rows.indices, rows.indptr
                rows = sparse.csr_array(wide, shape=(len(places), len(encoder.terms_)))
                rows = rows_below(rows, encoder.transform(texts))
                places = {**places, **dict(zip(new, itertools.count(len(places))))}
                self._vectors = _Vectors(places, encoder, rows)
        return rows[[places[name] for name in names]]

    def _said(self, api: Api) -> str:
        return specification_text(api, with_server=self._with_server)

    def of(self, api: str, others: Iterable[str]) -> dict[str, float]:
        """Return the cosine of each of some other specifications with one, in [0, 1]."""
        names = list(others)
        if not names:
            return {}
        rows = self._vectors_of([api, *names])
        cosines = (rows[1:] @ rows[[0]].T).toarray().ravel().tolist()
        return {name: round(c, _DIGITS) for name, c in zip(names, cosines, strict=True)}

    def share_category(self, api: str, other: str) -> bool:
        """Return whether two APIs have a category in common."""
        return not set(self._apis[api].categories).isdisjoint(self._apis[other].categories)


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
    likeness : Likeness
        Of the catalog.
    evidence : mapping of str to ApiEvidence, default={}
        What the router knows of APIs.
    in_order : bool, default=False
        Whether the order of the candidates is kept: they are the router's, best first.

    Examples
    --------
    >>> likeness = Likeness([Api("sms", "SMS", "Sends text messages."), Api("maps", "Maps"),
    ...                      Api("text", "Texter", "Sends a text to phones.")])
    >>> proposed = [Candidate(name, name, 9) for name in ("maps", "sms", "text")]
    >>> [each.api for each in Substitutes(proposed, likeness).of("sms", None)]
    ['text']
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        likeness: Likeness,
        evidence: Mapping[str, ApiEvidence] | None = None,
        *,
        in_order: bool = False,
    ) -> None:
        self.candidates = tuple(candidates)
        self.likeness = likeness
        self.evidence = evidence or {}
        self.in_order = in_order

    def of(self, api: str, function: str | None) -> list[Candidate]:
        """Return who could do the job of an API, best first; the API itself is none of them.

        If a function was awarded, those who proposed an API for it. If a whole request was, those
        whose API has a category in common with the one that failed, or is alike. The most alike
        come first, then the most probable.
        """
        others = [c for c in self.candidates if c.api != api and c.function == function]
        like = self.likeness.of(api, {c.api for c in others})
        if function is None:
            shares = self.likeness.share_category
            others = [c for c in others if like[c.api] >= LEAST_LIKENESS or shares(api, c.api)]
        if self.in_order:
            return others
        known = self.evidence
        p = {c.api: known[c.api].probability if c.api in known else 0.0 for c in others}
        return sorted(others, key=lambda c: (-like[c.api], -p[c.api]))
