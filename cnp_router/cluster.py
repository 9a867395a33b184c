"""`connected`: the workers of a Dask cluster as a `Pool`.

Whatever can reach a scheduler can make its workers run any code: the cluster must be trusted.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from cnp_router.exceptions import ClusterError, InputError, MissingExtraError
from cnp_router.pool import LocalPool, Pool, one_thread, unsendable
from cnp_router.records import shown
from cnp_router.version import __version__

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["ClusterPool", "connected", "working"]

Item = TypeVar("Item")
Made = TypeVar("Made")
Result = TypeVar("Result")

CONNECT_WITHIN = 10.0  # seconds, to connect
FIRST_WORKER_WITHIN = 10.0  # seconds, to have a worker then
WORKERS_WITHIN = 60.0  # seconds without any worker, later
MOST_LOSSES = 5  # times that what was sent to workers is gone with them, and no work done meanwhile
_LOOK_EVERY, _ANSWER_WITHIN, _CLOSE_WITHIN = 5.0, 10.0, 2.0  # seconds
_START_WORKERS = "start some: dask worker ADDRESS"
_START = "start one: dask scheduler, and dask worker ADDRESS for each worker"
_ADDRESS = "give the one that the scheduler says when it starts, such as tcp://10.0.0.5:8786"
_GONE = ("cancelled", "lost")


@contextmanager
def connected(scheduler: str | Client) -> Iterator[ClusterPool]:
    """Give the workers of a cluster, for as long as the block lasts.

    Parameters
    ----------
    scheduler : str or distributed.Client
        The address of the scheduler, such as ``"tcp://10.0.0.5:8786"``; or a client, which stays
        open.

    Raises
    ------
    MissingExtraError
        Where distributed is not installed (``pip install 'cnp-router[dask]'``).
    ClusterError
        If no scheduler answers there, it has no workers, or they have another version of
        cnp_router.
    InputError
        If it is neither an address nor a client.

    Examples
    --------
    >>> from distributed import LocalCluster
    >>> with LocalCluster(n_workers=1, processes=False, protocol="tcp://", host="127.0.0.1",
    ...                   dashboard_address="127.0.0.1:0") as cluster:
    ...     with connected(cluster.scheduler_address) as pool:
    ...         found = list(pool.each(pow, [1, 2, 3], pool.share(10)))
    >>> found
    [10, 100, 1000]
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as exc:
        raise MissingExtraError("a cluster", package="distributed", extra="dask") from exc
    with ExitStack() as stack:
        if isinstance(scheduler, Client):
            if scheduler.scheduler is None:
                raise ClusterError(str(scheduler), "the client is closed", cure="give an open one")
            client, address = scheduler, str(scheduler.scheduler.address)
        elif isinstance(scheduler, str) and scheduler.strip():
            address = scheduler
            try:
                _check_address(address)  # else the client, half made, says it at exit
                client = Client(
                    address, timeout=CONNECT_WITHIN, set_as_default=False, name="cnp-router"
                )
            except OSError as exc:
                raise ClusterError(address, "it does not answer", cure=_START) from exc
            except (ValueError, TypeError) as exc:
                raise ClusterError(address, str(exc), cure=_ADDRESS) from exc
            stack.enter_context(_silent("distributed.client"))
            stack.callback(_close, client)
        else:
            raise InputError(
                f"scheduler must be an address such as 'tcp://127.0.0.1:8786', or a "
                f"distributed.Client, got {shown(scheduler)}"
            )
        pool = ClusterPool(client, address)
        pool.check()
        yield pool


def _check_address(address: str) -> None:
    """Raise an error where a client would be half made, and wait for itself when it ends."""
    import dask
    from distributed.comm import get_address_host_port

    if address.startswith("inproc:"):
        if address.count("/") != "inproc://host/process/number".count("/"):
            raise ValueError("it is not like inproc://host/process/number")
        return
    get_address_host_port(address)
    if address.startswith("tls:") and not dask.config.get("distributed.comm.tls.client.cert"):
        raise ClusterError(
            address,
            "there is no certificate for TLS in the configuration of Dask",
            cure="name one under distributed.comm.tls.client, or give a distributed.Client",
        )
    # A client waits without end for what takes connections and says nothing.
    with ThreadPoolExecutor(1) as thread:  # whoever calls may have a loop of its own
        kind = thread.submit(asyncio.run, _kind(address)).result()
    if kind != "Scheduler":
        raise ClusterError(
            address, f"that is a {kind.lower()}", cure="give its scheduler's address"
        )


async def _kind(address: str) -> str:
    """Return what listens at an address: a Scheduler, a Worker or a Nanny."""
    from distributed import Security
    from distributed.core import connect, send_recv

    told = Security().get_connection_args("client")
    try:
        async with asyncio.timeout(1.2 * CONNECT_WITHIN):
            comm = await connect(address, timeout=CONNECT_WITHIN, **told)
            try:
                return str((await send_recv(comm, op="identity"))["type"])
            finally:
                comm.abort()
    except Exception as exc:  # whatever else a stranger's answer is taken for
        if isinstance(exc, OSError) and not isinstance(exc, TimeoutError):
            raise
        problem = "what listens there does not answer as a scheduler of Dask"
        raise ClusterError(address, problem, cure=_START) from exc


@contextmanager
def working(
    n_jobs: int | None, scheduler: str | Client | None, *, threads: bool = False
) -> Iterator[Pool]:
    """Give the workers of a cluster, or joblib's where there is no scheduler."""
    if scheduler is None:
        yield LocalPool(n_jobs, threads=threads)
        return
    with connected(scheduler) as pool:
        yield pool


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Keep a logger from saying, with tracebacks, what an error says in the end."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def _close(client: Client) -> None:
    with suppress(OSError, TimeoutError):  # the scheduler is gone: there is nothing to say to it
        client.close(timeout=_CLOSE_WITHIN)


class ClusterPool(Pool):
    """The workers of a cluster, through a client.

    What a worker held that died is made again, or sent again. `client` is the client.
    """

    def __init__(self, client: Client, address: str) -> None:
        self.client = client
        self._address = address
        self._losses = 0

    @property
    def n_workers(self) -> int:
        """How many threads all workers have now, one at least."""
        threads: dict[str, int] = self._asked(self.client.nthreads)
        return max(sum(threads.values()), 1)

    @property
    def is_remote(self) -> bool:
        """Whether its workers are on other machines, or could be: true of every cluster."""
        return True

    def check(self) -> None:
        """Raise ClusterError unless there are workers, and all of them have this version."""
        self._wait_for_one(FIRST_WORKER_WITHIN)
        said = self._asked(self.client.run, _version, on_error="return")
        for worker, version in said.items():
            # Of an error of the system, that worker went meanwhile.
            if version != __version__ and not isinstance(version, OSError):
                self._refuse(worker, version)

    def _refuse(self, worker: str, version: Any) -> None:
        if isinstance(version, str):
            has = f"cnp-router {version}"
        elif "No module named 'cnp_router'" in str(version):  # all that Dask passes on is the text
            has = "no cnp-router that it finds"
        else:
            problem = f"worker {worker} cannot say which cnp-router it has: {version}"
            raise self._error(problem, "look into its log")
        raise self._error(
            f"worker {worker} has {has}, and this is {__version__}",
            f"pip install 'cnp-router[dask]=={__version__}' there, and start it again",
        )

    def share(self, value: Any) -> _Shared:
        """Send a value to every worker when it is first needed."""
        return _Shared(self, value)

    def begin(
        self, work: Callable[[Any, Item], Result], item: Item, shared: Any = None
    ) -> Callable[[], Result]:
        """Let a worker begin, and return what waits for it."""
        job = _Job(self, work, (shared, item))
        job.future()
        return job.result

    def each(
        self, work: Callable[[Any, Item], Result], items: Iterable[Item], shared: Any = None
    ) -> Iterator[Result]:
        """Let the workers begin at once, and yield the results in the order of the items."""
        jobs = deque(_Job(self, work, (shared, item)) for item in items)
        for job in jobs:
            job.future()
        return _results(jobs)

    def grouped(
        self,
        make: Callable[[Any, Item], Made],
        work: Callable[[Any, Made, Any], Result],
        groups: Iterable[tuple[Item, Sequence[Any]]],
        shared: Any = None,
    ) -> Iterator[list[Result]]:
        """Let the workers begin at once, the first groups first; a group may have several."""
        found: deque[deque[_Job]] = deque()
        for group, parts in groups:
            made = _Job(self, make, (shared, group))
            found.append(deque(_Job(self, work, (shared, made, part)) for part in parts))
            for job in found[-1]:
                job.future()
        return (list(_results(found.popleft())) for _ in range(len(found)))

    def scatter(self, value: Any) -> Any:
        """Send a value to every worker, and return its future.

        To one worker, of which the others fetch it: to send it to all is no end in Dask where one
        of them dies meanwhile.
        """
        while True:
            self._wait_for_one(WORKERS_WITHIN)
            try:
                with _silent("distributed.protocol"), _silent("distributed.comm"):
                    (future,) = self.client.scatter([value], hash=False)
                self._fetch_everywhere(future)
            except (TypeError, AttributeError) as exc:
                raise unsendable(exc) from exc
            except (OSError, KeyError, CancelledError) as exc:  # that worker went meanwhile
                self.lost(exc)
            except Exception as exc:
                self._alive(exc)
                if type(exc) is not Exception:
                    raise
                raise self._unable(exc) from exc  # of what a worker raised, Dask has the text
            else:
                return future

    def _fetch_everywhere(self, future: Any) -> None:
        """Let every worker fetch a value; where one dies, another takes its part."""
        workers = self._asked(self.client.nthreads)
        fetched = [
            self._asked(
                self.client.submit,
                _nothing,
                future,
                workers=[worker],
                allow_other_workers=True,
                pure=False,
            )
            for worker in workers
        ]
        for each in fetched:
            self.waited(each)

    def submit(self, work: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Return the future of some work."""
        return self._asked(self.client.submit, _run, __version__, work, *args, pure=False)

    def lost(self, exc: BaseException) -> None:
        """Say that what was sent or made is gone; raise ClusterError if that is no chance."""
        self._alive(exc)
        self._losses += 1
        if self._losses > MOST_LOSSES:
            raise self._error(
                f"what was sent to its workers was lost {self._losses} times, and nothing done",
                "look into their logs: most often they have too little memory",
            ) from exc
        time.sleep(0.2 * self._losses)

    def progressed(self) -> None:
        """Say that a piece of work is done, whatever was lost before."""
        self._losses = 0

    def waited(self, future: Any) -> Any:
        """Return the result of a future; wait no longer than there are workers."""
        from distributed import KilledWorker

        without, patience = 0.0, _LOOK_EVERY
        while True:
            try:
                return future.result(timeout=patience)
            except OSError as exc:  # to be waiting for long is one, too
                if future.status == "error":  # the work itself raised it
                    raise
                if not isinstance(exc, TimeoutError):
                    raise self._error("it is gone", _START) from exc
                problem, cure = self._asked(self._standstill)
                without = without + patience if problem else 0.0
                if without >= WORKERS_WITHIN:
                    raise self._error(f"{problem} for {without:.0f} s", cure) from exc
                if future.done():  # a large result, which is fetched anew
                    patience *= 2
            except KilledWorker as exc:
                raise self._error(
                    f"a piece of work ended {exc.allowed_failures + 1} workers, one after another",
                    "look into their logs: most often they have too little memory",
                ) from exc

    def _standstill(self) -> tuple[str, str]:
        """Return why no worker works, and the cure; of two empty texts if one does."""
        if not self.client.nthreads():
            return "it has had no worker", _START_WORKERS
        # Dask lets a piece wait without end whose worker cannot unpickle what another has sent.
        if said := next(filter(None, self._told(_untaken)), None):
            raise self._unable(said)
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        if any(worker["status"] != "paused" for worker in workers):
            return "", ""
        # What a worker had begun before it was paused, it goes on with.
        if any(self._told(_is_at_work)):
            return "", ""
        return "all its workers have been paused", "give them more memory"

    def _told(self, ask: Callable[[Any], Any]) -> list[Any]:
        """Return what workers say of themselves; nothing if one of them does not answer."""

        async def told() -> list[Any]:
            # In the loop of the client, this is to be awaited.
            return list((await self.client.run(ask, on_error="ignore")).values())

        try:
            return list(self.client.sync(told, callback_timeout=_ANSWER_WITHIN))
        except TimeoutError:  # until Dask takes it for gone
            return []

    def _wait_for_one(self, within: float) -> None:
        try:
            self._asked(self.client.wait_for_workers, 1, timeout=within)
        except TimeoutError as exc:
            raise self._error("it has no workers", _START_WORKERS) from exc

    def _alive(self, exc: BaseException) -> None:
        if self.client.status != "running":
            raise self._error("it is gone", _START) from exc

    def _asked(self, ask: Callable[..., Any], *args: Any, **how: Any) -> Any:
        """Return what the client returns, whose scheduler may be gone."""
        try:
            return ask(*args, **how)
        except (OSError, RuntimeError) as exc:
            is_its_own = isinstance(exc, RuntimeError | TimeoutError)
            if is_its_own and self.client.status == "running":
                raise
            raise self._error("it is gone", _START) from exc

    def _unable(self, said: object) -> ClusterError:
        return self._error(
            f"a worker cannot take what it is sent: {said}",
            "it must find the modules that it is made of, as by PYTHONPATH",
        )

    def _error(self, problem: str, cure: str) -> ClusterError:
        return ClusterError(self._address, problem, cure=cure)

    def __repr__(self) -> str:
        return f"ClusterPool({self._address!r})"


class _Shared:
    """A value that all workers have, or will have."""

    def __init__(self, pool: ClusterPool, value: Any) -> None:
        self._pool = pool
        self._value = value
        self._future: Any = None

    def future(self) -> Any:
        """Return its future; what is gone is sent again."""
        if self._future is None or self._future.status in _GONE:
            self._future = self._pool.scatter(self._value)
        return self._future


class _Job:
    """A piece of work, whose arguments may be shared values, or other pieces."""

    def __init__(self, pool: ClusterPool, work: Callable[..., Any], args: Sequence[Any]) -> None:
        self._pool = pool
        self._work = work
        self._args = args
        self._future: Any = None

    def future(self) -> Any:
        """Return its future; what is gone is begun again."""
        if self._future is None or self._future.status in _GONE:
            args = [arg.future() if isinstance(arg, _Shared | _Job) else arg for arg in self._args]
            self._future = self._pool.submit(self._work, args)
        return self._future

    def result(self) -> Any:
        """Wait for the result."""
        while True:
            try:
                result = self._pool.waited(self.future())
            except CancelledError as exc:
                self._pool.lost(exc)
            else:
                self._pool.progressed()
                return result


def _results(jobs: deque[_Job]) -> Iterator[Any]:
    while jobs:  # who has given its result is forgotten: the worker need not keep it
        yield jobs.popleft().result()


def _is_at_work(dask_worker: Any) -> bool:
    return bool(dask_worker.state.executing)


def _untaken(dask_worker: Any) -> str:
    """Return what went wrong when something was taken for which a piece of work waits."""
    for task in dask_worker.state.tasks.values():
        if task.state == "error" and any(each.state == "waiting" for each in task.dependents):
            return str(task.exception_text)
    return ""


def _nothing(value: Any) -> None:
    """Take a value, which a worker has then."""


def _version() -> str:
    return __version__


def _run(version: str, work: Callable[..., Any], *args: Any) -> Any:
    """Do a piece of work in a worker, which may have come when others were at work already."""
    if version != __version__:
        raise ClusterError(
            "",
            f"a worker has cnp-router {__version__}, and {version} asks it",
            cure=f"pip install 'cnp-router[dask]=={version}' there, and start it again",
        )
    with one_thread:
        try:
            return work(*args)
        except MissingExtraError as exc:
            problem = f"{exc.purpose} needs {exc.package}, which {socket.gethostname()} has not"
            cure = f"pip install 'cnp-router[{exc.extra}]' there, and start it again"
            raise ClusterError("", problem, cure=cure) from exc
