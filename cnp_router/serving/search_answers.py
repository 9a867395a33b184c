"""What a gateway answers: `Search` with each `FoundTool`, and `Called`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cnp_router.catalog import Api
from cnp_router.prediction import Candidate
from cnp_router.records import shown
from cnp_router.routing import Reason, Routing
from cnp_router.sources import CallResult

__all__ = ["Called", "FoundTool", "Search", "tool_to_dict"]

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, repr=False)
class FoundTool:
    """A tool that a search shows.

    Parameters
    ----------
    api : Api
    probability : float in [0, 1] or None
        That the request needs it; None where the decision is not acted on.
    reasons : tuple of Reason, default=()
        Strongest first.
    often_fails : bool, default=False
        Whether it failed more often than not, and so comes behind the others.
    """

    api: Api
    probability: float | None
    reasons: tuple[Reason, ...] = ()
    often_fails: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object, with the schema of its inputs."""
        return {
            **tool_to_dict(self.api),
            "probability": None if self.probability is None else round(self.probability, 4),
            "reasons": [reason.text for reason in self.reasons],
        }

    def __repr__(self) -> str:
        sure = "" if self.probability is None else f", {self.probability:.2f}"
        return f"FoundTool({shown(self.api.id)}{sure})"


@dataclass(frozen=True, slots=True, repr=False)
class Search:
    """What a search found.

    Parameters
    ----------
    search_id : str
        Names it in the calls that follow from it.
    query : str
    routing : Routing
        The whole decision of the router.
    tools : tuple of FoundTool
        The best first; empty where nothing fits. All that the client may see, in the order of the
        catalog, where the decision is not acted on.
    acted : bool, default=True
        Whether the decision is acted on, or only logged.
    """

    search_id: str
    query: str
    routing: Routing
    tools: tuple[FoundTool, ...]
    acted: bool = True

    @property
    def fits(self) -> bool:
        """Whether the router says that anything fits."""
        return self.routing.fits

    @property
    def confidence(self) -> float:
        """The probability that all that the request needs is among what the router chose."""
        return self.routing.confidence

    @property
    def verdict(self) -> str:
        """How sure it is, in words."""
        if not self.acted:
            return f"Not searched: these are the first {len(self.tools)} tools of the catalog."
        return self.routing.verdict if self.fits else f"No tool fits. {self.routing.verdict}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object, as a client is shown it.

        Where the decision is not acted on, nothing of it shows: a client would go by it.
        """
        return {
            "search_id": self.search_id,
            "query": self.query,
            "fits": self.fits if self.acted else None,
            "confidence": round(self.confidence, 4) if self.acted else None,
            "verdict": self.verdict,
            "acted": self.acted,
            "tools": [tool.to_dict() for tool in self.tools],
        }

    def decision_to_dict(self) -> dict[str, Any]:
        """Return it with the whole decision, which recommends nothing where nothing fits."""
        routing = self.routing.to_dict()
        if not self.fits:
            routing["recommendation"] = []
        return self.to_dict() | {"routing": routing}

    def __repr__(self) -> str:
        names = [shown(tool.api.id) for tool in self.tools[:_MOST_NAMED]]
        names += ["..."] * (len(self.tools) > _MOST_NAMED)
        return f"Search({self.search_id[:8]!r}, {', '.join(names) or 'no tool fits'})"


@dataclass(frozen=True, slots=True, repr=False)
class Called:
    """What came of a call.

    Parameters
    ----------
    result : CallResult
        What goes wrong is its `failure`.
    api : str
    search_id : str or None, default=None
        Of the search that it was made for.
    next : tuple of Candidate, default=()
        Tools that are likely to be called next, the likeliest first; empty where that is not sure.
    """

    result: CallResult
    api: str
    search_id: str | None = None
    next: tuple[Candidate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "name": self.api,
            "search_id": self.search_id,
            "result": self.result.to_dict(),
            "next": [
                {"name": each.tool, "probability": round(each.probability, 4)} for each in self.next
            ],
        }

    def __repr__(self) -> str:
        return f"Called({shown(self.api)}, {self.result!r})"


def tool_to_dict(api: Api) -> dict[str, Any]:
    """Return an API as clients are shown it: its name is its id.

    Examples
    --------
    >>> tool_to_dict(Api("time__now", "now", "The time.", parameters={"zone": "string"}))
    {'name': 'time__now', 'description': 'The time.', 'inputSchema': {'type': 'object', \
'properties': {'zone': {'description': 'string'}}}, 'effects': 'unknown'}
    """
    return {
        "name": api.id,
        "description": api.description,
        "inputSchema": _schema(api.parameters),
        "effects": api.effects,
    }


def _schema(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a JSON Schema of an object, of a plain mapping of names to types too."""
    given = dict(parameters or {})
    if not given or given.get("type") == "object" or isinstance(given.get("properties"), Mapping):
        return {"type": "object", **given}
    said = {name: {"description": str(each)} for name, each in given.items()}
    return {"type": "object", "properties": said}
