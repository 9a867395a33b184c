"""`Pool`: who does the same work for many things; here, threads or processes of this machine.

`cnp_router.cluster` has the other kind: workers of a Dask cluster. What both do is the same.
"""

from __future__ import annotations

import functools
import itertools
import logging
import multiprocessing
import os
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from multiprocessing.util import Finalize
from numbers import Integral
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, TypeVar

from cnp_router.exceptions import ClusterError, InputError
from cnp_router.records import shown

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = ["ALONE", "LocalPool", "Pool", "check_jobs", "one_thread", "spans", "unsendable"]

logger = logging.getLogger("cnp_router.pool")

_LOOKS_EVERY = 1.0  # seconds: whether the process that shares out the work is there
_MOST_SAID = 200  # characters of what another library says
_BEFORE_QUEUES = 20  # multiprocessing ends its queues at 10: then nobody can be told to end

Item = TypeVar("Item")
Made = TypeVar("Made")
Result = TypeVar("Result")


class Pool(ABC):
    """Several at work. What they do are functions of modules: they may be in other processes.

    Each function is given first what is shared, which was given to `share`.
    """

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """How many work at the same time."""

    @property
    @abstractmethod
    def is_remote(self) -> bool:
        """Whether what is done goes to other processes, so that small pieces are no waste."""

    @abstractmethod
    def share(self, value: Any) -> Any:
        """Return what stands for a value in the other calls: each process gets it once."""

    @abstractmethod
    def begin(
        self, work: Callable[[Any, Item], Result], item: Item, shared: Any = None
    ) -> Callable[[], Result]:
        """Return what waits for the result of one piece of work, or does it only then."""

    @abstractmethod
    def each(
        self, work: Callable[[Any, Item], Result], items: Iterable[Item], shared: Any = None
    ) -> Iterator[Result]:
        """Yield the result for each item, in their order."""

    @abstractmethod
    def grouped(
        self,
        make: Callable[[Any, Item], Made],
        work: Callable[[Any, Made, Any], Result],
        groups: Iterable[tuple[Item, Sequence[Any]]],
        shared: Any = None,
    ) -> Iterator[list[Result]]:
        """Yield the results of each group, in their order.

        Of a group something large is made, which only those who do its parts need.
        """


class LocalPool(Pool):
    """Threads or processes of this machine, by joblib.

    Parameters
    ----------
    n_jobs : int or None, default=None
        None is 1 unless a ``joblib.parallel_config`` says otherwise, -1 is one a core.
    threads : bool, default=False
        Whether to prefer threads.

    Examples
    --------
    >>> list(LocalPool(2, threads=True).each(pow, [1, 2, 3], shared=10))
    [10, 100, 1000]
    """

    def __init__(self, n_jobs: int | None = None, *, threads: bool = False) -> None:
        self._how: dict[str, Any] = {"n_jobs": check_jobs(n_jobs)}
        if threads:
            self._how["prefer"] = "threads"
        # How many joblib would have is asked last: it says itself where it can start none.
        elif (hindrance := _Processes.hindrance()) and (n_jobs or self.n_workers) != 1:
            logger.warning("%s: it does all of it alone", hindrance)
            self._how["n_jobs"] = 1

    @property
    def n_workers(self) -> int:
        """How many joblib workers there are."""
        if self._how["n_jobs"] == 1:
            return 1
        import joblib

        return int(joblib.effective_n_jobs(joblib.Parallel(**self._how).n_jobs))

    @property
    def is_remote(self) -> bool:
        """False: they are not told apart from this process."""
        return False

    def share(self, value: Any) -> Any:
        """Return the value itself."""
        return value

    def begin(
        self, work: Callable[[Any, Item], Result], item: Item, shared: Any = None
    ) -> Callable[[], Result]:
        """Return what does the work when it is called: memory is taken when it must."""
        return lambda: work(shared, item)

    def each(
        self, work: Callable[[Any, Item], Result], items: Iterable[Item], shared: Any = None
    ) -> Iterator[Result]:
        """Yield the result for each item, in their order."""
        return self._done((work, shared, item) for item in items)

    def grouped(
        self,
        make: Callable[[Any, Item], Made],
        work: Callable[[Any, Made, Any], Result],
        groups: Iterable[tuple[Item, Sequence[Any]]],
        shared: Any = None,
    ) -> Iterator[list[Result]]:
        """Yield the results of each group: one of the workers does a whole one."""
        return self._done((_whole, make, work, shared, group, parts) for group, parts in groups)

    def _done(self, jobs: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        if self._how["n_jobs"] == 1:
            return (work(*args) for work, *args in jobs)
        return self._shared_out(jobs)

    def _shared_out(self, jobs: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        from joblib import Parallel, delayed

        calls = (delayed(work)(*args) for work, *args in jobs)
        try:
            if "prefer" in self._how or self.n_workers == 1:
                yield from _until_closed(Parallel(return_as="generator", **self._how)(calls))
                return
            calls = (delayed(_there)(os.getpid(), work, *args) for work, *args in jobs)
            with _Processes.shared(self.n_workers) as n_jobs:
                yield from _until_closed(Parallel(return_as="generator", n_jobs=n_jobs)(calls))
        except BrokenExecutor as exc:
            raise _broken(exc) from exc
        except PicklingError as exc:
            raise unsendable(exc) from exc


def _until_closed(found: Generator[Result]) -> Iterator[Result]:
    """Yield what is found; joblib warns of what is given up, which whoever closes it wants."""
    try:
        for each in found:  # noqa: UP028  ("yield from" would close it before this does)
            yield each
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* tasks which were still being processed")
            found.close()


def _broken(exc: BrokenExecutor) -> ClusterError:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    if isinstance(exc, TerminatedWorkerError):
        problem = "a process that works has ended: it was killed, perhaps for want of memory"
        return ClusterError("", problem, cure="try again, with fewer n_jobs")
    said = str(exc).partition("\n")[0]
    cure = "a model that has been saved again since it was loaded must be loaded again"
    return ClusterError("", f"a process cannot take its work: {said}", cure=cure)


def unsendable(exc: BaseException) -> InputError:
    """Return the error of who cannot send what other processes need: the first cause is said."""
    while before := exc.__cause__ or exc.__context__:
        exc = before
    said = str(exc).strip('\n" ').rpartition("\n")[2]  # joblib has it at the end of a traceback
    if len(said) > _MOST_SAID:  # it may show all that was to be sent
        said = f"{said[:_MOST_SAID]}..."
    return InputError(
        f"what the workers need cannot be sent to other processes: {said} (an encoder or a router "
        "of your own must be one that pickle can take, and be defined in a module they have)"
    )


class _Processes:
    """The processes of joblib, which all of this process share."""

    _lock = threading.Lock()
    _users = _size = 0
    _starter: int | None = None

    @classmethod
    def hindrance(cls) -> str:
        """Return why there can be none; an empty text if there can."""
        if cls._starter not in (None, os.getpid()):
            return (
                "this process was forked from one that shares out work to others, which joblib "
                "cannot start here"
            )
        if multiprocessing.current_process().daemon:
            return "this process is one of a pool of multiprocessing, which can start no others"
        return ""

    @classmethod
    @contextmanager
    def shared(cls, n_jobs: int) -> Iterator[int]:
        """Give how many there are while somebody uses them: `n_jobs`, or those of who came before.

        joblib waits until all work is done to change their number, and then for ever.
        """
        with cls._lock:
            if cls._starter != os.getpid():
                cls._starter = os.getpid()
                _end_with_this_process()
            cls._size = cls._size if cls._users else n_jobs
            cls._users += 1
            size = cls._size
        try:
            yield size
        finally:
            with cls._lock:
                cls._users -= 1


def _there(starter: int, work: Callable[..., Result], *args: Any) -> Result:
    """Do some work in another process, which ends when the one that has started it is gone."""
    _watch(starter)
    return work(*args)


@functools.cache
def _watch(starter: int) -> None:
    """Have this process end when its starter was killed, for which it may be waiting."""
    if os.getppid() == starter:
        threading.Thread(target=_end_after, args=(starter,), daemon=True).start()


def _end_after(starter: int) -> None:
    while os.getppid() == starter:
        time.sleep(_LOOKS_EVERY)
    os._exit(1)


def _end_with_this_process() -> None:
    """Let the processes of joblib end with this one, where multiprocessing has started it.

    Such a process waits at its end for its own, which wait five minutes for more work.
    """
    if multiprocessing.parent_process() is not None:
        Finalize(None, _end_processes, exitpriority=_BEFORE_QUEUES)


def _end_processes() -> None:
    from joblib.executor import MemmappingExecutor
    from joblib.externals.loky import reusable_executor

    if isinstance(reusable_executor._executor, MemmappingExecutor):
        reusable_executor._executor.terminate()


def _whole(make: Any, work: Any, shared: Any, group: Any, parts: Sequence[Any]) -> list[Any]:
    made = make(shared, group)
    return [work(shared, made, part) for part in parts]


def check_jobs(n_jobs: int | None) -> int | None:
    """Return how many at work were asked for, if any; an InputError where there can be none.

    Examples
    --------
    >>> check_jobs(-1)
    -1
    """
    if n_jobs is None:
        return None
    if isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) and n_jobs:
        return int(n_jobs)
    cure = "leave it out, or give -1 for all cores"
    raise InputError(f"n_jobs must be a whole number other than 0, got {shown(n_jobs)} ({cure})")


def spans(n: int, most: int, least: int = 1) -> list[tuple[int, int]]:
    """Return begin and end of pieces of n things: at most so many each, at least so many pieces.

    Examples
    --------
    >>> spans(10, 4), spans(10, 100, 2), spans(0, 5)
    ([(0, 3), (3, 6), (6, 10)], [(0, 5), (5, 10)], [])
    """
    count = min(max(-(-n // most), least), n)
    ends = [n * place // count for place in range(count + 1)] if count else []
    return list(itertools.pairwise(ends))


ALONE = LocalPool(1)
"""This process alone."""


class _OneThread:
    """Linear algebra with one thread while anybody is at work in this process.

    The number of threads changes the last digits, and there is one worker a core.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._libraries: ThreadpoolController | None = None
        self._limits: Any = None

    def __enter__(self) -> _OneThread:
        import scipy.linalg  # noqa: F401  (only libraries that are loaded are limited)
        from threadpoolctl import ThreadpoolController

        with self._lock:
            self._n_inside += 1
            if self._n_inside == 1:
                self._libraries = ThreadpoolController()
                self._limits = self._libraries.limit(limits=1)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._limits.restore_original_limits()

    @property
    def holds(self) -> bool:
        """Whether it has one: OpenBLAS lets the first thread alone that set the number set it."""
        known = self._libraries.lib_controllers if self._libraries else ()
        return all(each.num_threads == 1 for each in known if each.user_api == "blas")


one_thread = _OneThread()
