"""A router for other processes of this machine: a folder that each of them opens once."""

from __future__ import annotations

import shutil
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from cnp_router.storage import load_model

__all__ = ["Handover"]

Build = Callable[[Path, dict[str, Any], dict[str, Any]], Any]


class Folder:
    """A temporary folder that is there as long as it is referred to, with a model in it."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="cnp-router-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    @property
    def model(self) -> Path:
        """Where the model is."""
        return self.path / "model"

    def files(self) -> set[Path]:
        """Return all that is in it."""
        return set(self.path.rglob("*"))


class Handover:
    """The folder that other processes have a router from, which stays while the router does.

    Writing and opening it takes longer than some hundred answers: who asks again, and has learned
    nothing meanwhile, has it once. It goes when it is forgotten, or with the router, once nobody
    needs it any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[Sequence[object], Folder, set[Path]] | None = None

    def of(
        self, router: Any, learned: Sequence[object], build: Build
    ) -> tuple[Callable[..., Any], Folder]:
        """Return what opens a router elsewhere, and the folder, which must be kept until then.

        Parameters
        ----------
        router : Router
            One that can be saved.
        learned : sequence of objects
            What it learned: as long as they are the same objects, it is the same router.
        build : callable
            Makes a router of the folder, as `load_model` takes it; a function that pickle can take.
        """
        with self._lock:
            if self._last is None or not self._is_there(learned):
                folder = Folder()
                router.save(folder.model)
                self._last = learned, folder, folder.files()
            folder = self._last[1]
            return partial(_opened_once, folder.model, build), folder

    def _is_there(self, learned: Sequence[object]) -> bool:
        """Return whether the last one is of the same router, and whole."""
        assert self._last is not None
        before, folder, files = self._last
        same = all(a is b for a, b in zip(before, learned, strict=True))
        return same and folder.files() >= files  # some systems clear away what has been there long

    def forget(self) -> None:
        """Give the folder up: the router is another one now."""
        with self._lock:
            self._last = None


def _opened_once(path: Path, build: Build, **settings: Any) -> Any:
    """Return a router that was handed over, with some attributes; a process keeps the last one."""
    router = _opened.get(path)
    if router is None:
        _opened.clear()
        router = _opened[path] = load_model(path, build)
    for name, value in settings.items():
        setattr(router, name, value)
    return router


_opened: dict[Path, Any] = {}
