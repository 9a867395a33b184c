"""`run_sync`: asynchronous work where no event loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from cnp_router.exceptions import InputError

__all__ = ["run_sync"]

T = TypeVar("T")


def run_sync(work: Callable[[], Coroutine[Any, Any, T]], *, instead: str) -> T:
    """Run asynchronous work to its end.

    Parameters
    ----------
    work : callable
        Makes the coroutine.
    instead : str
        What to write where an event loop is running.

    Returns
    -------
    object
        What the work returns; what it raises is raised as it is.

    Raises
    ------
    InputError
        If an event loop is running.

    Examples
    --------
    >>> async def answer():
    ...     return 42
    >>> run_sync(answer, instead="await answer()")
    42
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise InputError(f"an event loop is running (write: {instead})")
    # Outside of the handler, so that errors of the work do not carry that one along.
    return asyncio.run(work())
