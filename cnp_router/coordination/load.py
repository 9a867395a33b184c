"""`Load`: how many acts each source has under way or waiting."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable

from cnp_router.context.data_classes import contractor_of

__all__ = ["Load"]


class Load:
    """Acts by source: those that run, those that wait for a free place, those that are promised.

    What was just given to a source counts from then on, so that jobs which are awarded at the same
    time do not all go to the same one. A promise that nobody begins is forgotten.

    Parameters
    ----------
    patience : float >= 0, seconds, default=1.0
        How long a promise counts.
    clock : callable, default=time.monotonic
        Returns seconds.

    Examples
    --------
    >>> load = Load()
    >>> load.begin("maps__draw")
    >>> load.of("maps__measure"), load.of("sms__send")
    (2, 1)
    >>> load.end("maps__draw")
    >>> load.of("maps__measure")
    1
    """

    def __init__(
        self, *, patience: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience, self._clock = patience, clock
        self._begun: Counter[str] = Counter()
        self._promised: defaultdict[str, deque[float]] = defaultdict(deque)

    def of(self, api: str) -> int:
        """Return the load of the source of an API, at least 1: what it has, and this one more."""
        source = contractor_of(api)
        promised = self._promised.get(source, ())
        while promised and promised[0] <= self._clock() - self._patience:
            self._promised[source].popleft()
        return 1 + self._begun[source] + len(promised)

    def promise(self, api: str) -> None:
        """Count an act that is awarded now, until it begins."""
        self._promised[contractor_of(api)].append(self._clock())

    def begin(self, api: str) -> None:
        """Count an act that begins; if it was promised, that is redeemed."""
        source = contractor_of(api)
        if self._promised.get(source):
            self._promised[source].popleft()
        self._begun[source] += 1

    def end(self, api: str) -> None:
        """Count an act no longer."""
        source = contractor_of(api)
        self._begun[source] = max(self._begun[source] - 1, 0)

    def __repr__(self) -> str:
        busy = ", ".join(f"{name} {n}" for name, n in self._begun.items() if n)
        return f"Load({busy or 'nothing runs'})"
