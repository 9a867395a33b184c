"""`ExecutionSettings`: how long a call and an execution may take, and what is tried again."""

from __future__ import annotations

from dataclasses import dataclass

from cnp_router.exceptions import InputError
from cnp_router.records import check_flag, check_id, check_number, shown

__all__ = ["ExecutionSettings"]

_LONGEST = 10**6  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSettings:
    """How awarded jobs are done.

    Parameters
    ----------
    call_timeout : float, seconds, default=30.0
        For one call.
    timeout : float, seconds, default=300.0
        For the whole execution.
    attempts : int, default=3
        How often a call is tried at most, where a later one may succeed.
    wait : tuple of float, seconds, default=(2.0, 10.0)
        The shortest and the longest time between two attempts.
    max_concurrency : int, default=16
        How many jobs run at a time.
    repeat_calls : bool, default=False
        Whether a call may be made again, with the same inputs, after it has succeeded in the same
        execution. Otherwise its result is given again.
    fallback : str or None, default=None
        Id of the contractor that a job goes to when no other is left.
    direct : bool, default=True
        Whether the router's recommendation is called where the manager or the coordinator is lost.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> ExecutionSettings(attempts=1).call_timeout
    30.0
    """

    call_timeout: float = 30.0
    timeout: float = 300.0
    attempts: int = 3
    wait: tuple[float, float] = (2.0, 10.0)
    max_concurrency: int = 16
    repeat_calls: bool = False
    fallback: str | None = None
    direct: bool = True

    def __post_init__(self) -> None:
        for name in ("call_timeout", "timeout"):
            check_number(f"{name} in seconds", getattr(self, name), 0, _LONGEST, ends=False)
        check_flag("repeat_calls", self.repeat_calls)
        check_flag("direct", self.direct)
        check_number("attempts", self.attempts, 1, 100, whole=True)
        check_number("max_concurrency", self.max_concurrency, 1, whole=True)
        if not isinstance(self.wait, tuple | list) or len(self.wait) != 2:
            raise InputError(f"wait must be two numbers of seconds, got {shown(self.wait)}")
        shortest = check_number("the shortest wait in seconds", self.wait[0], 0, _LONGEST)
        longest = check_number("the longest wait in seconds", self.wait[1], shortest, _LONGEST)
        object.__setattr__(self, "wait", (shortest, longest))
        if self.fallback is not None:
            object.__setattr__(self, "fallback", check_id("contractor", self.fallback))
