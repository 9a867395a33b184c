"""What is seen of a routing by whoever watches: the end of a span, and counts."""

from __future__ import annotations

from cnp_router import telemetry
from cnp_router.routing.result import Routing

__all__ = ["counted_routing", "watched_routing"]


def watched_routing(routing: Routing, span: telemetry.Span) -> Routing:
    """Return a routing, said in the span of it."""
    span.set(
        cnp_router__apis=routing.n_apis,
        cnp_router__recipients=routing.n_recipients,
        cnp_router__confidence=routing.confidence,
        cnp_router__source=routing.source,
        cnp_router__fits=routing.fits,
    )
    return routing


def counted_routing(routing: Routing) -> None:
    """Count a routing by who decided."""
    if not telemetry.is_on():
        return
    of = {"source": routing.source}
    how = {"confident": routing.is_confident, "fits": routing.fits}
    telemetry.add("cnp_router.routings", 1, {**of, **how})
    telemetry.record("cnp_router.routing.confidence", routing.confidence, of)
