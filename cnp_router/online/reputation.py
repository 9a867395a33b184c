"""`Reputation`: how often the steps that used an API succeeded, by category, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cnp_router.exceptions import InputError
from cnp_router.records import check_number
from cnp_router.trajectories import Trajectory

if TYPE_CHECKING:
    from cnp_router.history import Mashup

__all__ = ["Reputation"]


class Reputation:
    """Learns from the trajectories of an `OnlineStore` which APIs do what they are asked to.

    A step counts if its ``success`` is known: for its API, and for its API in its ``category``,
    which is that of what was asked for and travels with the step, so that the same records always
    teach the same. Counts are multiplied by `decay` with every `window` of such steps, whichever
    APIs these used. The rate of an API is the mean of a Beta distribution that was uniform at first
    (Laplace 1774). Its rate in a category is that of a Beta distribution whose prior is the API's
    own rate, as strong as `strength` steps (beta-binomial shrinkage, an empirical Bayes estimate:
    Kleinman 1973, Morris 1983): a category of which little is known is judged by the others.

    Parameters
    ----------
    decay : float in (0, 1], default=0.95
    window : int >= 1, default=1000
        Steps.
    strength : float > 0, default=2.0
        So many steps in a category weigh as much as the API's own rate. The uniform prior of that
        rate weighs two steps too.

    Attributes
    ----------
    kind : str
        ``"reputation"``, the name of its state.
    n_steps : int
        Steps that were counted.

    Examples
    --------
    >>> from cnp_router import Step
    >>> reputation = Reputation()
    >>> steps = (Step("sms", success=True), Step("fax", success=False), Step("sms"),
    ...          Step("sms", success=False, category="Weather"))
    >>> reputation.apply([Trajectory("t1", "Tell me when it rains.", steps)])
    >>> [round(reputation.rate(api), 2) for api in ("sms", "fax", "mail")]
    [0.5, 0.33, 0.5]
    >>> [round(reputation.rate("sms", category), 2) for category in ("Weather", "News")]
    [0.33, 0.5]
    """

    kind = "reputation"

    def __init__(self, *, decay: float = 0.95, window: int = 1000, strength: float = 2.0) -> None:
        self.decay = check_number("decay", decay, 0, 1)
        if not self.decay:
            raise InputError("decay must be a number above 0, got 0")
        self.window = check_number("window", window, 1, whole=True)
        self.strength = check_number("strength", strength, 0, 10**6, ends=False)
        self.n_steps = 0
        # Of an API, and of an API in a category: successes and failures as they counted at the
        # last step, and its number.
        self._counts: dict[tuple[str, str | None], tuple[float, float, int]] = {}

    def counts(self, api: str, category: str | None = None) -> tuple[float, float]:
        """Return how many steps of an API succeeded and failed, the older ones counting less.

        In a category, or in all of them.
        """
        successes, failures, last = self._counts.get((api, category), (0.0, 0.0, self.n_steps))
        weight = self.decay ** ((self.n_steps - last) / self.window)
        return successes * weight, failures * weight

    def rate(self, api: str, category: str | None = None) -> float:
        """Return the probability that a step with this API succeeds, in (0, 1).

        It is 1/2 for an API of which nothing is known, and moves back there with time; in a
        category of which nothing is known, it is that of the API.
        """
        alpha, beta = self._posterior(api, category)
        return alpha / (alpha + beta)

    def sample(self, api: str, category: str | None, rng: np.random.Generator) -> float:
        """Return a rate drawn at random from what is known of it (Thompson 1933), in [0, 1].

        To go by such draws instead of by rates tries those of whom little is known, and does so
        less the more is known.
        """
        return float(rng.beta(*self._posterior(api, category)))

    def count(self, api: str, success: bool, category: str | None = None) -> None:
        """Count one step, now. Where a store teaches, it counts what is observed by itself."""
        self.n_steps += 1
        for key in dict.fromkeys([(api, None), (api, category)]):
            successes, failures = self.counts(*key)
            counted = (successes + bool(success), failures + (not success))
            self._counts[key] = (*counted, self.n_steps)

    def check(self, records: Sequence[Trajectory | Mashup]) -> None:
        """Accept any record."""

    def apply(self, records: Sequence[Trajectory | Mashup]) -> None:
        """Count the steps of the trajectories among some records."""
        for record in records:
            for step in record.steps if isinstance(record, Trajectory) else ():
                if step.success is not None:
                    self.count(step.tool, step.success, step.category)

    def state(self) -> dict[str, Any]:
        """Return all counts."""
        return {
            "decay": self.decay,
            "window": self.window,
            "strength": self.strength,
            "n_steps": self.n_steps,
            "apis": [api for api, _ in self._counts],
            "categories": [category for _, category in self._counts],
            "counts": np.array(list(self._counts.values()), dtype=float).reshape(-1, 3),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state; see `Observer`."""
        for name in ("decay", "window", "strength"):
            if state[name] != getattr(self, name):
                raise InputError(
                    f"{name} is {getattr(self, name)}, and what was learned has {state[name]} "
                    "(give the same, or learn in a new store)"
                )
        counts = state["counts"]
        successes, failures, last = np.asarray(counts, dtype=float).reshape(-1, 3).T
        self.n_steps = int(state["n_steps"])
        sound = (successes >= 0).all() and (failures >= 0).all() and (last <= self.n_steps).all()
        if not sound:
            raise ValueError("counts that no steps give")
        names, categories = state["apis"], state["categories"]
        self._counts = {
            (str(api), None if category is None else str(category)): (float(s), float(f), int(n))
            for api, category, s, f, n in zip(
                names, categories, successes, failures, last, strict=True
            )
        }

    def _posterior(self, api: str, category: str | None) -> tuple[float, float]:
        """Return both parameters of the Beta distribution of a rate."""
        successes, failures = self.counts(api)
        alpha, beta = 1 + successes, 1 + failures
        if category is None:
            return alpha, beta
        rate = alpha / (alpha + beta)
        successes, failures = self.counts(api, category)
        return self.strength * rate + successes, self.strength * (1 - rate) + failures

    def __repr__(self) -> str:
        n_apis = sum(category is None for _, category in self._counts)
        return f"Reputation({n_apis:,} APIs, {self.n_steps:,} steps)"
