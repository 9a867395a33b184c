"""`Renewal`: a model that was replaced in its folder, as by another fit, is opened and taken."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from cnp_router import telemetry
from cnp_router.exceptions import CnpRouterError
from cnp_router.files import as_path
from cnp_router.kept_files import identity
from cnp_router.records import check_number
from cnp_router.routing import Router
from cnp_router.storage import MANIFEST

__all__ = ["Renewal"]

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)
_AGAIN = 30.0  # seconds until one that failed is tried again, unless it is replaced
_REQUEST = "the weather forecast of a city"  # any: what the first answer makes is there then


class Renewal:
    """Looks whether the model of a folder was replaced, and opens the new one beside the old.

    Make it before the model is loaded: what replaces it from then on is seen. A look costs one
    question to the file system.

    Parameters
    ----------
    folder : str or Path
        Of the model.
    load : callable
        Returns the router of the folder as it is now; it is called in another thread.
    every : float > 0, seconds, default=5.0
        From one look to the next.
    said : callable, optional
        Is given a line for who watches when a new model answers. Default: a log of level INFO.

    Attributes
    ----------
    problem : str
        Why the new model cannot be used; ``""`` if there is none.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> from cnp_router import Api, Catalog, fit_router, load_router
    >>> folder = Path(tempfile.mkdtemp(), "model")
    >>> fit_router(Catalog([Api("maps", "Maps")])).save(folder)
    >>> renewal = Renewal(folder, lambda: load_router(folder))
    >>> renewal.look(lambda router: None) is None
    True
    >>> fit_router(Catalog([Api("sms", "SMS")])).save(folder, overwrite=True)
    >>> renewal.look(lambda router: router.apis)
    (LearnedRouter(1 APIs, 0 mashups), ('sms',))
    """

    def __init__(
        self,
        folder: str | Path,
        load: Callable[[], Router],
        *,
        every: float = 5.0,
        said: Callable[[str], object] = _LOGGER.info,
    ) -> None:
        self.folder = as_path(folder)
        self.every = check_number("every in seconds", every, 0, 10**6, ends=False)
        self.problem = ""
        self._load = load
        self._said = said
        self._taken = self._state()
        self._failed: tuple[int, ...] | None = None
        self._again = 0.0

    def look(self, prepare: Callable[[Router], T]) -> tuple[Router, T] | None:
        """Return a new model's router, and what was prepared for it, if there is one to be taken.

        None too where it cannot be opened, cannot answer, or cannot be prepared for: that is a
        warning, once for each reason, and `problem`. Call it from one thread.

        Parameters
        ----------
        prepare : callable
            From the router to whatever has to be there before it answers; raises what is in the
            way.
        """
        state = self._state()
        if state == self._taken:
            self.problem = ""  # as where the old one was put back
            return None
        if state == self._failed and time.monotonic() < self._again:
            return None
        try:
            router = self._load()
            router.score(_REQUEST)
            found = router, prepare(router)
        except Exception as exc:  # whatever it is: the model that answers goes on
            self._failed, self._again = state, time.monotonic() + _AGAIN
            telemetry.add("cnp_router.model.renewals", 1, {"outcome": "failed"})
            problem = str(exc) if isinstance(exc, CnpRouterError) else repr(exc)
            if problem != self.problem:
                _LOGGER.warning("the model before goes on answering: %s", problem)
            self.problem = problem
            return None
        self._taken, self.problem = state, ""
        return found

    def done(self, router: Router) -> None:
        """Say that the new one answers."""
        telemetry.add("cnp_router.model.renewals", 1, {"outcome": "done"})
        self._said(f"{self.folder}: a new model answers, {router!r}")

    def _state(self) -> tuple[int, ...]:
        """Return what changes whenever a model is saved, which replaces its manifest."""
        try:
            return identity((self.folder / MANIFEST).stat())
        except OSError:
            return ()

    def __repr__(self) -> str:
        return f"Renewal({str(self.folder)!r})"
