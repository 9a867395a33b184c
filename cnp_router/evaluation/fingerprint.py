"""What the figures of a comparison depend on, so that those of another one are not mixed in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.llm import ChatModel
from cnp_router.protocols import RoundSettings
from cnp_router.routing import Router
from cnp_router.version import __version__

__all__ = ["fingerprint"]


def fingerprint(
    catalog: Catalog,
    history: History,
    model: ChatModel,
    router: Router | None,
    settings: RoundSettings,
    max_size: int | None,
) -> dict[str, Any]:
    """Return all that the figures of a request depend on, besides its method.

    A budget is not among it: it ends a comparison, and changes no figure.

    Parameters
    ----------
    catalog : Catalog
    history : History
    model : ChatModel
    router : Router or None
    settings : RoundSettings
    max_size : int or None

    Returns
    -------
    dict of str to JSON value
        Data by their digests.

    Examples
    --------
    >>> from cnp_router.agents import offline_model
    >>> from cnp_router.datasets import load_sample
    >>> sample = load_sample()
    >>> facts = fingerprint(sample.catalog, sample.history, offline_model(sample.catalog), None,
    ...                     RoundSettings(), None)
    >>> facts["model"], facts["threshold"], len(facts["catalog"])
    ('offline', 0.6, 16)
    """
    return {
        "cnp-router": __version__,
        "catalog": _digest(api.to_dict() for api in catalog),
        "history": _digest(mashup.to_dict() for mashup in history),
        "model": model.name,
        "server": _server(model),
        "router": None if router is None else _router_digest(router),
        "select": repr(settings.select),
        "threshold": settings.threshold,
        "fallback": settings.fallback,
        "deadline": settings.deadline,
        "bid_timeout": settings.bid_timeout,
        "iterate": settings.iterate,
        "max_size": max_size,
    }


def _server(model: ChatModel) -> str | None:
    """Return the address of the server that answers, without credentials; None if none does."""
    server = model.server
    if server is None:
        return None
    parts = urlsplit(server)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _router_digest(router: Router) -> str:
    """Return what tells routers apart: kind, contractors, and for a fitted one what it learned."""
    history = getattr(router, "history", None)
    summary = getattr(router, "summary", None)
    parts: list[Any] = [type(router).__qualname__, list(router.apis)]
    if isinstance(history, History):
        parts.extend(mashup.to_dict() for mashup in history)
    if isinstance(summary, dict):
        parts.append({name: value for name, value in summary.items() if name != "fit_seconds"})
    return _digest(parts)


def _digest(records: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for record in records:
        text = json.dumps(record, sort_keys=True, ensure_ascii=True, default=str)
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()[:16]
