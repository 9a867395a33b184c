"""`Outcomes`: how often the steps that used an API succeeded, the newest counting most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cnp_router.exceptions import InputError
from cnp_router.records import check_number
from cnp_router.trajectories import Trajectory

if TYPE_CHECKING:
    from cnp_router.history import Mashup

__all__ = ["Outcomes"]


class Outcomes:
    """Learns from the trajectories of an `OnlineStore` which APIs do what they are asked to.

    A step counts if its ``success`` is known. Counts of success and of failure are multiplied by
    `decay` with every `window` of such steps, whichever APIs these used; the rate is the mean of a
    Beta distribution that was uniform at first (Laplace, 1774).

    Parameters
    ----------
    decay : float in (0, 1], default=0.95
    window : int >= 1, default=1000
        Steps.

    Attributes
    ----------
    kind : str
        ``"outcomes"``, the name of its state.
    n_steps : int
        Steps that were counted.

    Examples
    --------
    >>> from cnp_router import Step
    >>> outcomes = Outcomes()
    >>> steps = (Step("sms", success=True), Step("fax", success=False), Step("sms"))
    >>> outcomes.apply([Trajectory("t1", "Tell me when it rains.", steps)])
    >>> [round(outcomes.rate(api), 2) for api in ("sms", "fax", "mail")]
    [0.67, 0.33, 0.5]
    """

    kind = "outcomes"

    def __init__(self, *, decay: float = 0.95, window: int = 1000) -> None:
        self.decay = check_number("decay", decay, 0, 1)
        if not self.decay:
            raise InputError("decay must be a number above 0, got 0")
        self.window = check_number("window", window, 1, whole=True)
        self.n_steps = 0
        # Of each API: successes and failures as they counted at its last step, and its number.
        self._counts: dict[str, tuple[float, float, int]] = {}

    def counts(self, api: str) -> tuple[float, float]:
        """Return how many steps of an API succeeded and failed, the older ones counting less."""
        successes, failures, last = self._counts.get(api, (0.0, 0.0, self.n_steps))
        weight = self.decay ** ((self.n_steps - last) / self.window)
        return successes * weight, failures * weight

    def rate(self, api: str) -> float:
        """Return the probability that a step with this API succeeds, in (0, 1).

        It is 1/2 for an API of which nothing is known, and moves back there with time.
        """
        successes, failures = self.counts(api)
        return (1 + successes) / (2 + successes + failures)

    def check(self, record: Trajectory | Mashup) -> None:
        """Accept any record."""

    def apply(self, records: Sequence[Trajectory | Mashup]) -> None:
        """Count the steps of the trajectories among some records."""
        for record in records:
            for step in record.steps if isinstance(record, Trajectory) else ():
                if step.success is not None:
                    self.n_steps += 1
                    successes, failures = self.counts(step.tool)
                    counted = (successes + step.success, failures + (not step.success))
                    self._counts[step.tool] = (*counted, self.n_steps)

    def state(self) -> dict[str, Any]:
        """Return all counts."""
        return {
            "decay": self.decay,
            "window": self.window,
            "n_steps": self.n_steps,
            "apis": list(self._counts),
            "counts": np.array(list(self._counts.values()), dtype=float).reshape(-1, 3),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state; see `Observer`."""
        for name in ("decay", "window"):
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
        self._counts = {
            str(api): (float(s), float(f), int(n))
            for api, s, f, n in zip(state["apis"], successes, failures, last, strict=True)
        }

    def __repr__(self) -> str:
        return f"Outcomes({len(self._counts):,} APIs, {self.n_steps:,} steps)"
