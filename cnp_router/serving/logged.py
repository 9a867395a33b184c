"""What a `SearchLog` holds: searches, calls, what is over, and how accurate it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cnp_router.records import one_line
from cnp_router.trajectories import Step

__all__ = ["Accuracy", "Begun", "Finished", "LoggedCall", "LoggedSearch"]


@dataclass(frozen=True, slots=True, repr=False)
class LoggedSearch:
    """A search as it stands in the log: what was decided, and what was shown.

    Parameters
    ----------
    id : str
    client : str
        ``""`` once it cannot be used any more: then nothing tells whose it was.
    time : float, seconds since 1970
    query : str
        ``""`` likewise.
    shown : tuple of str
        Ids of the APIs that the client was shown.
    chosen : tuple of str
        Ids of those that the router would have shown, and has where it was acted on.
    confidence : float in [0, 1]
    fits : bool
    acted : bool
        Whether the decision was acted on.
    rating : int or None, default=None
        1 to 5, as the client said.
    called : tuple of str, default=()
        Ids of the APIs that were called for it, each once.
    """

    id: str
    client: str
    time: float
    query: str
    shown: tuple[str, ...]
    chosen: tuple[str, ...]
    confidence: float
    fits: bool
    acted: bool
    rating: int | None = None
    called: tuple[str, ...] = ()

    def __repr__(self) -> str:  # the query may hold what no log should
        return f"LoggedSearch({self.id[:8]!r}, {len(self.shown)} shown, acted={self.acted})"


@dataclass(frozen=True, slots=True, repr=False)
class LoggedCall:
    """A call that was made for a search.

    Parameters
    ----------
    api : str
    inputs : mapping of str to JSON value or None, default=None
        None where they are confidential.
    observation : str, default=""
    success : bool or None, default=None
        Whether the API did what it was asked to; None where that is not known, or says nothing
        about it.
    served : bool, default=False
        Whether the client had a result.
    """

    api: str
    inputs: Mapping[str, Any] | None = field(default=None, hash=False)
    observation: str = ""
    success: bool | None = None
    served: bool = False

    @property
    def step(self) -> Step:
        """The call as a step of a trajectory."""
        return Step(self.api, dict(self.inputs or {}), self.observation, success=self.success)

    def __repr__(self) -> str:  # what went in and came back may be what no log should hold
        return f"LoggedCall({self.api!r}, success={self.success})"


@dataclass(frozen=True, slots=True, repr=False)
class Begun:
    """A call that begins.

    Parameters
    ----------
    search : str
        The id of its search.
    number : int or None
        Its place in the log; None where what comes of it is not to be noted.
    query : str
        Of its search.
    is_correct : bool or None
        Whether the router had chosen the API; None where the same was called before for it.
    steps : tuple of Step
        What was called before for the same search, as far as it was not taught yet: the latest 20.
        Empty where what comes of this one is not to be noted.
    """

    search: str
    number: int | None
    query: str
    is_correct: bool | None
    steps: tuple[Step, ...]

    __repr__ = one_line


@dataclass(frozen=True, slots=True, repr=False)
class Finished:
    """What is over of a search: from its calls something is learned.

    Parameters
    ----------
    search : str
    part : int >= 1
        A search that is called for again after something of it was taught has several.
    client, query : str
    rating : int or None
    calls : tuple of LoggedCall
    """

    search: str
    part: int
    client: str
    query: str
    rating: int | None
    calls: tuple[LoggedCall, ...]

    __repr__ = one_line


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How often what was called was among what the router chose.

    Parameters
    ----------
    n_called : int
        Each API that was called for a search counts once.
    n_correct : int

    Examples
    --------
    >>> Accuracy(4, 3).share, Accuracy(0, 0).share
    (0.75, None)
    """

    n_called: int
    n_correct: int

    @property
    def share(self) -> float | None:
        """From 0 to 1; None where nothing was called."""
        return self.n_correct / self.n_called if self.n_called else None
