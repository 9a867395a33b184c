"""From history to a fitted router: views, ranker, calibration, categories, and how it is kept."""

from cnp_router.training.categories import CategoryClassifier
from cnp_router.training.dense_encoder import Encoder
from cnp_router.training.fit import fit_router
from cnp_router.training.fit_without import Remainder, fit_without, remainder
from cnp_router.training.learned_router import LearnedRouter
from cnp_router.training.persistence import load_router, verify_router

__all__ = [
    "CategoryClassifier",
    "Encoder",
    "LearnedRouter",
    "Remainder",
    "fit_router",
    "fit_without",
    "load_router",
    "remainder",
    "verify_router",
]
