"""`GatewaySettings`: how much is shown, how long a call may take, and what is acted on."""

from __future__ import annotations

from dataclasses import dataclass

from cnp_router.execution import ExecutionSettings
from cnp_router.records import check_flag, check_id, check_number, string_tuple

__all__ = ["GatewaySettings"]

_BESIDE = 60.0  # seconds: a source is started for a call, shared context is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """How a `Gateway` serves.

    Parameters
    ----------
    k : int >= 1, default=5
        The most tools that a search finds.
    max_k : int >= k, default=50
        The most that a client may ask for.
    always : tuple of str, default=()
        Ids of APIs that each client is shown whatever it asks, where it may see them.
    call_timeout : float, seconds, default=30.0
        For a call, with all its attempts; a source may be started besides.
    attempts : int, default=3
        How often what only reads is called at most, where a later call may succeed.
    wait : tuple of float, seconds, default=(0.5, 5.0)
        The shortest and the longest time between two attempts.
    allow_write : bool, default=False
        Whether clients who may write can call what does not only read.
    share : float in [0, 1], default=1.0
        The share of searches whose decision is acted on. The others show every tool, and the
        decision is only logged: 0 is a shadow of what would be.
    most_shown : int >= 1, default=200
        How many tools those show at most.
    search_seconds : float, seconds, default=3600.0
        How long the id of a search can be used.
    refresh_seconds : float, seconds, default=30.0
        From one look at sources that failed or changed to the next; 0: never.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> GatewaySettings(share=0.05).k
    5
    """

    k: int = 5
    max_k: int = 50
    always: tuple[str, ...] = ()
    call_timeout: float = 30.0
    attempts: int = 3
    wait: tuple[float, float] = (0.5, 5.0)
    allow_write: bool = False
    share: float = 1.0
    most_shown: int = 200
    search_seconds: float = 3600.0
    refresh_seconds: float = 30.0

    def __post_init__(self) -> None:
        check_number("max_k", self.max_k, 1, 1000, whole=True)
        check_number("k", self.k, 1, self.max_k, whole=True)
        always = (check_id("API", each) for each in string_tuple("always", self.always))
        object.__setattr__(self, "always", tuple(dict.fromkeys(always)))
        check_flag("allow_write", self.allow_write)
        check_number("share", self.share, 0, 1)
        check_number("most_shown", self.most_shown, 1, 10**6, whole=True)
        check_number("search_seconds", self.search_seconds, 0, 10**9, ends=False)
        check_number("refresh_seconds", self.refresh_seconds, 0, 10**9)
        object.__setattr__(self, "wait", self.execution.wait)

    @property
    def longest_call(self) -> float:
        """Seconds that a call takes at most, with what is beside it."""
        return self.call_timeout + _BESIDE

    @property
    def execution(self) -> ExecutionSettings:
        """The same for a `Caller`: a client that calls twice means it."""
        return ExecutionSettings(
            call_timeout=self.call_timeout,
            attempts=self.attempts,
            wait=self.wait,
            repeat_calls=True,
        )
