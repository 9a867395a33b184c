"""Learned routing for the Contract Net: who should receive each announcement.

Everything below is imported when it is first asked for, so that ``import cnp_router`` is quick::

    from cnp_router import fit_router, load_sample

    sample = load_sample()
    router = fit_router(sample.catalog, sample.history)
    router.recommend("Send me a text message when it rains.")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cnp_router.version import __version__

if TYPE_CHECKING:
    from cnp_router.agents import offline_model
    from cnp_router.catalog import Api, Catalog, Contractor
    from cnp_router.datasets import load_sample
    from cnp_router.evaluation import evaluate
    from cnp_router.exceptions import (
        CnpRouterError,
        DataFileError,
        InputError,
        MissingExtraError,
        ModelCorruptError,
        ModelNotFoundError,
        ModelStoreError,
        ModelVersionError,
        NotFittedError,
        UnknownApiError,
    )
    from cnp_router.graph import TransitionGraph
    from cnp_router.history import History, Mashup
    from cnp_router.llm import OpenAIChatModel
    from cnp_router.protocols import ContractNet, RoundSettings, Transcript
    from cnp_router.routing import Router, Routing, TargetRecall, TopK
    from cnp_router.training import CategoryClassifier, LearnedRouter, fit_router, load_router

__all__ = [
    "Api",
    "Catalog",
    "CategoryClassifier",
    "CnpRouterError",
    "ContractNet",
    "Contractor",
    "DataFileError",
    "History",
    "InputError",
    "LearnedRouter",
    "Mashup",
    "MissingExtraError",
    "ModelCorruptError",
    "ModelNotFoundError",
    "ModelStoreError",
    "ModelVersionError",
    "NotFittedError",
    "OpenAIChatModel",
    "RoundSettings",
    "Router",
    "Routing",
    "TargetRecall",
    "TopK",
    "Transcript",
    "TransitionGraph",
    "UnknownApiError",
    "__version__",
    "evaluate",
    "fit_router",
    "load_router",
    "load_sample",
    "offline_model",
]

_ROOMS = {
    "agents": ("offline_model",),
    "catalog": ("Api", "Catalog", "Contractor"),
    "datasets": ("load_sample",),
    "evaluation": ("evaluate",),
    "graph": ("TransitionGraph",),
    "history": ("History", "Mashup"),
    "llm": ("OpenAIChatModel",),
    "protocols": ("ContractNet", "RoundSettings", "Transcript"),
    "routing": ("Router", "Routing", "TargetRecall", "TopK"),
    "training": ("CategoryClassifier", "LearnedRouter", "fit_router", "load_router"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _ROOM_OF:
        room = _ROOM_OF[name]
    elif name in __all__:
        room = "exceptions"
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
