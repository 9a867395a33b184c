"""What workers of a cluster are asked to do in tests: they must be able to import it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from cnp_router.exceptions import InputError, MissingExtraError


def plus(shared: int, item: int) -> int:
    return shared + item


def slow(shared: Any, seconds: float) -> tuple[Any, float]:
    time.sleep(seconds)
    return shared, seconds


def pid(_: Any, item: int) -> int:
    time.sleep(0.02)
    return os.getpid()


def held(shared: Any, item: int) -> tuple[int, int]:
    return os.getpid(), id(shared)


def threads_of_algebra(_: Any, item: int) -> list[int]:
    from threadpoolctl import threadpool_info

    return [library["num_threads"] for library in threadpool_info()]


def made(shared: str, group: str) -> str:
    return f"{shared}{group}"


def part_of(shared: str, made: str, part: int) -> str:
    return f"{made}{part}"


def killed_once(shared: str, made: str, part: int) -> str:
    """Who is first to come to the third part is killed at it."""
    time.sleep(0.05)
    if part == 3:
        try:
            Path(shared).touch(exist_ok=False)
        except FileExistsError:
            return f"{made}{part}"
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{made}{part}"


class Deadly:
    """A value that ends the process which takes it, if so many took it before."""

    def __init__(self, folder: str, number: int) -> None:
        self.taken = folder, number

    def __reduce__(self) -> Any:
        return _take, self.taken


def _take(folder: str, number: int) -> Deadly:
    for i in range(100):
        try:
            Path(folder, str(i)).touch(exist_ok=False)
        except FileExistsError:
            continue
        if i == number:
            os.kill(os.getpid(), signal.SIGKILL)
        break
    return Deadly(folder, number)


class OnlyIn:
    """A value that can be taken in one process alone, the first to take it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return _take_first, (self.folder,)


def _take_first(folder: str) -> OnlyIn:
    Path(folder, str(os.getpid())).touch()
    if len(list(Path(folder).iterdir())) > 1:
        raise ModuleNotFoundError("No module named 'only_there'")
    return OnlyIn(folder)


def needs_an_extra(_: Any, item: int) -> None:
    raise MissingExtraError("reading Parquet", package="pyarrow", extra="parquet")


def type_of(shared: Any, item: int) -> str:
    return type(shared).__name__


def fails(_: Any, item: int) -> int:
    if item == 3:
        raise InputError("not a 3")
    return item


def fails_to_answer(_: Any, item: int) -> int:
    raise TimeoutError("of the work")


def large(_: Any, size: int) -> bytes:
    """Return so many bytes."""
    return bytes(size)


def named_and_slow(folder, seconds):
    """Leave a file named after this process, and take a while."""
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(1)
    return "x" * 5_000_000  # more than a pipe holds
