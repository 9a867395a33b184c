"""A router and a fallback that always answer the same."""

from __future__ import annotations

import numpy as np

from cnp_router.routing import Router, Scores

NAMES = ("a", "b", "c", "d")


class Fixed(Router):
    """Always the same probabilities."""

    def __init__(self, *probabilities):
        super().__init__(NAMES[: len(probabilities)])
        self.probabilities = np.array(probabilities)

    def _scores(self, request, known, date):
        return Scores(self.apis, self.probabilities)


class Model:
    """A fallback that always names the same APIs."""

    source = "llm"

    def __init__(self, *names):
        self.names = names

    def recipients(self, request, scores, chosen):
        return self.names
