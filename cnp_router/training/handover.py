"""A router for other processes of this machine: a folder that each of them opens once."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.util import Finalize
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any

from joblib.externals.loky import process_executor
from joblib.externals.loky.backend import resource_tracker

from cnp_router.exceptions import ModelStoreError
from cnp_router.files import writing
from cnp_router.storage import generation_of, load_model

__all__ = ["Handover"]

Build = Callable[[Path, dict[str, Any], dict[str, Any]], Any]

_LEAK: int = getattr(process_executor, "_MAX_MEMORY_LEAK_SIZE", 0)  # bytes


class Folder:
    """A temporary folder that is there as long as it is referred to, with a model in it.

    Where this process is ended before it removes it, joblib's tracker of resources does.
    """

    def __init__(self) -> None:
        with writing(gettempdir()):
            self.path = Path(mkdtemp(prefix="cnp-router-"))
        resource_tracker.register(str(self.path), "folder")
        # At the end of a process that multiprocessing has forked, too.
        Finalize(self, _remove, (self.path, os.getpid()), exitpriority=0)

    @property
    def model(self) -> Path:
        """Where the model is."""
        return self.path / "model"


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a fork of it
        shutil.rmtree(folder, ignore_errors=True)
        resource_tracker.unregister(str(folder), "folder")


@dataclass(frozen=True)
class _Handed:
    """A generation of a model with its files, what its router had learned, and what keeps it."""

    generation: Path
    files: set[Path]
    learned: Sequence[object]
    folder: Folder | None = None

    @classmethod
    def of(
        cls, generation: Path, learned: Sequence[object], folder: Folder | None = None
    ) -> _Handed:
        # Where a link leads to now: tomorrow it may lead elsewhere.
        generation = generation.resolve()
        return cls(generation, set(generation.iterdir()), learned, folder)

    def is_there(self, learned: Sequence[object]) -> bool:
        """Return whether it is of the same router, and whole."""
        if any(a is not b for a, b in zip(self.learned, learned, strict=True)):
            return False
        # Some systems clear away what has been there long.
        with suppress(ModelStoreError, OSError):
            is_model = generation_of(self.generation.parent) == self.generation
            return is_model and set(self.generation.iterdir()) >= self.files
        return False


class Handover:
    """The folder that other processes have a router from, which stays while the router does.

    A router that was loaded or saved, and has learned nothing since, is handed over where it
    stands, as long as no other is saved there: the processes share its mapped arrays. Any other is
    saved to a temporary folder. Writing and opening it takes longer than some hundred answers: who
    asks again, and has learned nothing meanwhile, has it once. A temporary folder goes when it is
    forgotten, or with the router, once nobody needs it any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: _Handed | None = None

    def found(self, generation: Path, learned: Sequence[object]) -> None:
        """Note in which generation of a model the router stands, and what it had learned then."""
        with suppress(OSError):  # a folder that cannot be looked through
            self._last = _Handed.of(generation, learned)

    def of(
        self, router: Any, learned: Sequence[object], build: Build
    ) -> tuple[Callable[..., Any], Path | Folder]:
        """Return what opens a router elsewhere, and where from, which must be kept until then.

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
            last = self._last
            if last is None or not last.is_there(learned):
                folder = Folder()
                router.save(folder.model)
                last = self._last = _Handed.of(generation_of(folder.model), learned, folder)
            return partial(_opened_once, last.generation, build), last.folder or last.generation

    def forget(self) -> None:
        """Give the folder up: the router is another one now."""
        with self._lock:
            self._last = None


def _opened_once(generation: Path, build: Build, **settings: Any) -> Any:
    """Return a router that was handed over, with some attributes; a process keeps the last one.

    Raises
    ------
    ModelStoreError
        If another model has been saved there meanwhile.
    """

    def same(folder: Path, state: dict[str, Any], summary: dict[str, Any]) -> Any:
        if folder != generation:
            raise ValueError(f"{generation.name} is not the model any more")
        return build(folder, state, summary)

    router = _opened.get(generation)
    if router is None:
        _opened.clear()
        router = _opened[generation] = load_model(generation.parent, same)
        _allow_for(generation)
    for name, value in settings.items():
        setattr(router, name, value)
    return router


_opened: dict[Path, Any] = {}


def _allow_for(generation: Path) -> None:
    """Let this process map the files of a model, and stay.

    joblib replaces a process that has grown by more than so many bytes, as one that leaks memory:
    pages of mapped files count, as they are read.
    """
    size = sum(file.stat().st_size for file in generation.iterdir())
    process_executor._MAX_MEMORY_LEAK_SIZE = _LEAK + size
