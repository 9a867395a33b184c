"""`ApiEvidence`: what the router knows of an API for a request, as a call for proposals carries it.

Contractors never write it: it goes from the routing to the call, and from there into prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from cnp_router.agents.prompts import json_object, quoted, sendable
from cnp_router.records import one_line
from cnp_router.routing import Routing

__all__ = ["ApiEvidence", "beside", "evidence_of"]

_DIGITS = 3
_REASON = 120  # characters: with the probability about 25 tokens


@dataclass(frozen=True, slots=True)
class ApiEvidence:
    """The router's probability that a request needs an API, and why.

    Parameters
    ----------
    api : str
        Id of the API.
    probability : float in [0, 1]
    reason : str, default=""
        The most telling one, in words.

    Examples
    --------
    >>> evidence = ApiEvidence("maps", 0.432, "the request names it")
    >>> evidence
    ApiEvidence(api='maps', probability=0.432, reason='the request names it')
    >>> print(evidence.json())
    {"probability": 0.432, "reason": "the request names it"}
    """

    api: str
    probability: Annotated[float, Field(ge=0, le=1)]
    reason: str = ""

    def json(self) -> str:
        """Return it as prompts show it, beside its API."""
        why = {"reason": quoted(self.reason)} if self.reason else {}
        return json_object({"probability": f"{self.probability:g}", **why})

    __repr__ = one_line


def evidence_of(routing: Routing) -> dict[str, ApiEvidence]:
    """Return the evidence of each recipient of a routing, by API.

    Probabilities are rounded to three digits and reasons cut after 120 characters, here and once:
    prompts, transcripts and selections have the same.

    Examples
    --------
    >>> from cnp_router.routing import Reason, Recipient
    >>> maps = Recipient("maps", 0.9, (Reason("name", "the request names it"),))
    >>> routing = Routing("a map", (maps,), ("maps",), 0.8, "learned", 40, 0.6, "none")
    >>> evidence_of(routing)["maps"].reason
    'the request names it'
    """
    found = {}
    for each in routing.recipients:
        reason = sendable(each.reasons[0].text) if each.reasons else ""
        if len(reason) > _REASON:
            reason = reason[: _REASON - 1] + "…"
        probability = round(each.probability, _DIGITS)
        found[each.contractor] = ApiEvidence(each.contractor, probability, reason)
    return found


def beside(api: str, shown: str, evidence: Mapping[str, ApiEvidence]) -> str:
    """Return a JSON object about an API with its evidence as one more key, if there is any."""
    found = evidence.get(api)
    return shown if found is None else f'{shown[:-1]}, "evidence": {found.json()}}}'
