"""On a real cluster: processes on this machine, one of which is killed at times."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from cluster_tasks import (
    Deadly,
    OnlyIn,
    fails,
    fails_to_answer,
    held,
    killed_once,
    large,
    made,
    needs_an_extra,
    part_of,
    pid,
    plus,
    slow,
    threads_of_algebra,
    type_of,
)

from cnp_router import cluster as cluster_module
from cnp_router.cluster import ClusterPool, connected
from cnp_router.exceptions import ClusterError, InputError, MissingExtraError
from cnp_router.pool import LocalPool, spans

distributed = pytest.importorskip("distributed")


def in_this_process(**options: Any) -> Any:
    """Return a cluster of one worker, reached by TCP as those of other machines are."""
    return distributed.LocalCluster(
        n_workers=1,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        **options,
    )


@pytest.fixture(scope="module")
def address(local_cluster: Any) -> str:
    return str(local_cluster.scheduler_address)


@pytest.fixture(scope="module")
def pool(address: str) -> Iterator[ClusterPool]:
    with connected(address) as made:
        yield made


@pytest.fixture(params=["threads", "cluster"])
def any_pool(request: pytest.FixtureRequest) -> Any:
    if request.param == "threads":
        return LocalPool(2, threads=True)
    return request.getfixturevalue("pool")


class TestBothKinds:
    def test_results_come_in_the_order_of_the_items(self, any_pool):
        delays = [0.2, 0.0, 0.1, 0.0]
        assert list(any_pool.each(slow, delays, any_pool.share("s"))) == [
            ("s", delay) for delay in delays
        ]

    def test_there_may_be_nothing_to_do(self, any_pool):
        assert list(any_pool.each(slow, [])) == list(any_pool.grouped(made, part_of, [])) == []

    def test_what_is_begun_is_waited_for(self, any_pool):
        assert any_pool.begin(plus, 2, any_pool.share(40))() == 42

    def test_what_a_group_makes_is_for_its_parts(self, any_pool):
        groups = [("a", [1, 2, 3]), ("b", []), ("c", [4])]
        assert list(any_pool.grouped(made, part_of, groups, any_pool.share("s"))) == [
            ["sa1", "sa2", "sa3"],
            [],
            ["sc4"],
        ]

    def test_errors_are_those_of_the_work(self, any_pool):
        with pytest.raises(InputError, match="not a 3"):
            list(any_pool.each(fails, [1, 2, 3]))

    def test_an_error_may_be_one_of_waiting(self, any_pool):
        with pytest.raises(TimeoutError, match="of the work"):
            list(any_pool.each(fails_to_answer, [1]))


class TestACluster:
    def test_others_do_the_work(self, pool):
        pids = set(pool.each(pid, range(20)))
        assert os.getpid() not in pids
        assert 1 <= len(pids) <= pool.n_workers == 2

    def test_each_process_gets_what_is_shared_once(self, pool):
        found = set(pool.each(held, range(20), pool.share([1, 2, 3])))
        assert len(found) == len({process for process, _ in found})

    def test_linear_algebra_has_one_thread(self, pool):
        assert set(next(pool.each(threads_of_algebra, [0]))) <= {1}

    def test_a_client_stays_open(self, address):
        with distributed.Client(address, set_as_default=False) as client:
            with connected(client) as pool:
                assert pool.begin(plus, 2, pool.share(40))() == 42
            assert client.status == "running"

    def test_who_does_not_answer_is_not_waited_for(self, pool, monkeypatch):
        async def ten_seconds(dask_worker):
            await asyncio.sleep(10)

        assert pool._told(cluster_module._is_at_work) == [False, False]
        monkeypatch.setattr(cluster_module, "_ANSWER_WITHIN", 0.1)
        assert pool._told(ten_seconds) == []

    def test_a_client_that_is_closed(self, address):
        client = distributed.Client(address, set_as_default=False)
        client.close()
        with pytest.raises(ClusterError, match=r"the client is closed"), connected(client):
            pass

    def test_a_worker_of_another_version(self, address, monkeypatch):
        monkeypatch.setattr(cluster_module, "__version__", "99")
        wrong = r"cluster tcp.*: worker .* has cnp-router \d.*, and this is 99 \(pip install 'cnp-r"
        with pytest.raises(ClusterError, match=wrong), connected(address):
            pass

    def test_a_worker_of_another_version_that_comes_later(self, pool, monkeypatch):
        monkeypatch.setattr(cluster_module, "__version__", "99")
        with pytest.raises(ClusterError, match=r"a worker has cnp-router .*, and 99 asks it"):
            list(pool.each(plus, [1], 1))

    def test_what_cannot_be_sent(self, pool):
        with pytest.raises(InputError, match="cannot be sent to other processes"):
            list(pool.each(plus, [1], pool.share(threading.Lock())))

    def test_what_is_of_a_module_that_workers_do_not_find(self, pool, monkeypatch):
        module = types.ModuleType("only_here")
        exec("class Own: pass", vars(module))
        monkeypatch.setitem(sys.modules, "only_here", module)
        said = r"a worker cannot take what it is sent: .*'only_here'.* \(it must find the modules"
        with pytest.raises(ClusterError, match=said):
            list(pool.each(plus, [1], pool.share(module.Own())))

    def test_what_only_the_first_of_them_can_take(self, pool, monkeypatch, tmp_path):
        monkeypatch.setattr(cluster_module, "_LOOK_EVERY", 0.2)
        said = r"a worker cannot take what it is sent: .*'only_there'.* \(it must find the modules"
        with pytest.raises(ClusterError, match=said):
            list(pool.each(type_of, [1], pool.share(OnlyIn(str(tmp_path)))))

    def test_a_worker_that_lacks_an_extra(self, pool):
        said = rf"pyarrow, which {re.escape(socket.gethostname())} has not \(pip .*parquet\]' there"
        with pytest.raises(ClusterError, match=f"^workers: reading Parquet needs {said}"):
            list(pool.each(needs_an_extra, [1]))


class TestLosses:
    @pytest.mark.parametrize("number", [0, 1])
    def test_a_worker_that_dies_while_it_is_sent_something(self, pool, tmp_path, number):
        """The first gets it from the scheduler, the second from the first."""
        pool.client.wait_for_workers(2, timeout=120)
        shared = pool.share(Deadly(str(tmp_path), number))
        assert list(pool.each(type_of, [1, 2, 3], shared)) == ["Deadly"] * 3
        assert (tmp_path / str(number)).exists()

    def test_a_worker_that_dies_while_it_works(self, pool, tmp_path):
        """It has what is shared, and what the group made."""
        shared = pool.share(str(tmp_path / "was-killed"))
        groups = [(name, list(range(6))) for name in "ab"]
        found = list(pool.grouped(made, killed_once, groups, shared))
        assert (tmp_path / "was-killed").exists()
        assert found == [[f"{tmp_path / 'was-killed'}{name}{i}" for i in range(6)] for name in "ab"]

    def test_all_workers_die(self, pool):
        shared = pool.share("s")
        found = pool.each(slow, [0.4] * 8, shared)
        assert next(found) == ("s", 0.4)
        for process in set(pool.client.run(os.getpid).values()):
            os.kill(process, signal.SIGKILL)
        assert list(found) == [("s", 0.4)] * 7

    def test_all_workers_are_paused(self, monkeypatch, local_cluster):
        """As those are that have too little memory: what they had begun is waited for."""
        monkeypatch.setattr(cluster_module, "_LOOK_EVERY", 0.1)
        monkeypatch.setattr(cluster_module, "WORKERS_WITHIN", 0.5)
        with (
            in_this_process(
                threads_per_worker=1, memory_limit=0, loop=local_cluster.loop
            ) as cluster,
            connected(cluster.scheduler_address) as pool,
        ):
            begun = pool.begin(slow, 1.5, "s")
            while not any(pool.client.run(cluster_module._is_at_work).values()):
                time.sleep(0.01)
            (worker,) = cluster.workers.values()
            worker.status = distributed.Status.paused
            assert begun() == ("s", 1.5)
            left = pool.begin(slow, 0.0, "s")
            with pytest.raises(ClusterError, match=r"have been paused for \d+ s \(give them more"):
                left()
            worker.status = distributed.Status.running
            assert left() == ("s", 0.0)

    def test_a_result_that_takes_longer_than_a_look_at_it(self, pool, monkeypatch):
        monkeypatch.setattr(cluster_module, "_LOOK_EVERY", 0.001)
        assert len(pool.begin(large, 30_000_000)()) == 30_000_000

    def test_a_worker_that_comes_late(self, monkeypatch):
        monkeypatch.setattr(cluster_module, "WORKERS_WITHIN", 20.0)
        with (
            in_this_process() as cluster,
            connected(cluster.scheduler_address) as pool,
        ):
            cluster.scale(0)
            while pool.client.nthreads():
                time.sleep(0.05)
            later = threading.Timer(1.0, cluster.scale, [1])
            later.start()
            assert pool.begin(plus, 2, pool.share(40))() == 42
            later.join()
            cluster.scale(0)
            monkeypatch.setattr(cluster_module, "WORKERS_WITHIN", 0.5)
            while pool.client.nthreads():
                time.sleep(0.05)
            with pytest.raises(ClusterError, match="it has no workers"):
                pool.share(40).future()

    def test_work_that_ends_every_worker(self, pool, monkeypatch):
        monkeypatch.setattr(cluster_module, "WORKERS_WITHIN", 300.0)  # on a busy machine

        def kills(_: Any, item: int) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        with pytest.raises(ClusterError, match="ended 4 workers, one after another"):
            list(pool.each(kills, [1]))


class TestNoCluster:
    def test_nobody_answers(self, monkeypatch):
        monkeypatch.setattr(cluster_module, "CONNECT_WITHIN", 0.3)
        said = r"cluster tcp://127.0.0.1:9: it does not answer \(start one: dask scheduler"
        with pytest.raises(ClusterError, match=said), connected("tcp://127.0.0.1:9"):
            pass

    @pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 400 Bad request syntax\r\n\r\n" * 4])
    def test_what_answers_is_no_scheduler(self, monkeypatch, answer):
        monkeypatch.setattr(cluster_module, "CONNECT_WITHIN", 0.5)
        stranger = socket.create_server(("127.0.0.1", 0))
        stranger.settimeout(30)
        met: list[socket.socket] = []

        def meet() -> None:
            with suppress(OSError):
                while True:
                    met.append(stranger.accept()[0])
                    met[-1].sendall(answer)

        thread = threading.Thread(target=meet, daemon=True)
        thread.start()
        address = f"tcp://127.0.0.1:{stranger.getsockname()[1]}"
        said = "what listens there does not answer as a scheduler of Dask"
        with pytest.raises(ClusterError, match=said), connected(address):
            pass
        stranger.shutdown(socket.SHUT_RDWR)
        thread.join(60)
        stranger.close()
        for each in met:
            each.close()

    def test_the_address_of_a_worker(self, local_cluster):
        said = r"that is a worker \(give its scheduler's"
        with (
            in_this_process(loop=local_cluster.loop) as cluster,
            pytest.raises(ClusterError, match=said),
            connected(next(iter(cluster.workers.values())).address),
        ):
            pass

    @pytest.mark.parametrize("scheduler", [7, "", None])
    def test_no_address(self, scheduler):
        with pytest.raises(InputError, match="scheduler must be an address"), connected(scheduler):
            pass

    @pytest.mark.parametrize(
        ("scheduler", "said"),
        [
            ("nonsense", r"missing port number .* \(give the one that the scheduler says"),
            ("http://x:1", r"unknown address scheme .* \(give the one that the scheduler says"),
            ("inproc://1/2", r"it is not like inproc://host/process/number \(give the one"),
            ("tls://127.0.0.1:9", r"no certificate for TLS in .* \(name one under distributed\."),
        ],
    )
    def test_a_word_is_no_address(self, monkeypatch, scheduler, said):
        monkeypatch.setattr(distributed, "Client", type("Client", (), {}))  # none is made
        with pytest.raises(ClusterError, match=said), connected(scheduler):
            pass

    @pytest.mark.parametrize("status", ["pending", "error"])
    def test_an_error_of_the_system_is_that_of_the_work_or_it_is_gone(self, pool, status):
        class Future:
            def __init__(self) -> None:
                self.status = status

            def result(self, timeout: float) -> None:
                raise OSError("Timed out trying to connect")

        expected = (ClusterError, "it is gone") if status == "pending" else (OSError, "Timed out")
        with pytest.raises(expected[0], match=expected[1]):
            pool.waited(Future())

    def test_who_went_when_versions_were_asked_for_is_no_other_version(self):
        gone = ClusterPool(
            types.SimpleNamespace(
                wait_for_workers=lambda n, timeout: None,
                run=lambda ask, on_error: {"tcp://a:1": ask(), "tcp://b:1": OSError("closed")},
            ),
            "tcp://127.0.0.1:9",
        )
        gone.check()

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            ("No module named 'cnp_router'", "has no cnp-router that it finds, and this is"),
            ("No module named 'numpy'", "cannot say which cnp-router it has: .*numpy.* .look into"),
        ],
    )
    def test_who_cannot_say_its_version(self, answer, said):
        error = Exception(f"ModuleNotFoundError({answer!r})")
        client = types.SimpleNamespace(
            wait_for_workers=lambda n, timeout: None, run=lambda ask, on_error: {"tcp://b:1": error}
        )
        with pytest.raises(ClusterError, match=f"worker tcp://b:1 {said}"):
            ClusterPool(client, "tcp://127.0.0.1:9").check()

    def test_what_is_lost_again_and_again_is_given_up(self, monkeypatch):
        monkeypatch.setattr(cluster_module, "time", types.SimpleNamespace(sleep=lambda _: None))
        client = types.SimpleNamespace(status="running", nthreads=dict)
        losing = ClusterPool(client, "tcp://127.0.0.1:9")
        for _ in range(5):
            losing.lost(TimeoutError())
        losing.progressed()
        for _ in range(5):
            losing.lost(TimeoutError())
        with pytest.raises(ClusterError, match="was lost 6 times"):
            losing.lost(TimeoutError())
        client.status = "closed"
        with pytest.raises(ClusterError, match="it is gone"):
            losing.lost(TimeoutError())
        assert losing.n_workers == 1

    def test_times_without_workers_do_not_add_up_when_one_came_between(self, monkeypatch):
        monkeypatch.setattr(cluster_module, "_LOOK_EVERY", 1.0)
        monkeypatch.setattr(cluster_module, "WORKERS_WITHIN", 2.0)
        waiting, problem = ClusterPool(types.SimpleNamespace(), "x"), ("it has had no worker", "")

        class Future:
            status = "pending"

            def __init__(self, *looks: tuple[str, str]) -> None:
                self.looks = list(looks)

            def result(self, timeout: float) -> str:
                if not self.looks:
                    return "done"
                found = self.looks.pop(0)
                monkeypatch.setattr(waiting, "_standstill", lambda: found)
                raise TimeoutError

            def done(self) -> bool:
                return False

        assert waiting.waited(Future(problem, ("", ""), problem)) == "done"
        with pytest.raises(ClusterError, match="it has had no worker for 2 s"):
            waiting.waited(Future(("", ""), problem, problem))

    def test_no_workers(self, monkeypatch, local_cluster):
        monkeypatch.setattr(cluster_module, "FIRST_WORKER_WITHIN", 0.5)
        # On the other's loop: its own would have to begin within 10 s, however busy the machine.
        with (
            distributed.LocalCluster(
                n_workers=0,
                loop=local_cluster.loop,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
            ) as none,
            pytest.raises(ClusterError, match=r"it has no workers \(start some: dask worker"),
            connected(none.scheduler_address),
        ):
            pass

    def test_it_goes_while_others_work(self):
        cluster = in_this_process()
        with (
            pytest.raises(ClusterError, match="it is gone"),
            connected(cluster.scheduler_address) as pool,
        ):
            # To connect again. A first connection needs its time: one that is given up at the
            # moment it stands, as on a busy machine, is left open by Dask.
            pool.client._timeout = 1.0
            found = pool.each(slow, [0.2] * 20)
            next(found)
            cluster.close()
            time.sleep(0.2)
            list(found)

    def test_it_is_gone_when_something_is_to_be_sent(self):
        cluster = in_this_process()
        with (
            pytest.raises(ClusterError, match="it is gone"),
            connected(cluster.scheduler_address) as pool,
        ):
            pool.client._timeout = 1.0
            cluster.close()
            pool.share(40).future()

    def test_without_the_library(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "distributed", None)
        said = r"a cluster needs distributed \(pip install 'cnp-router\[dask\]'\)"
        with pytest.raises(MissingExtraError, match=said), connected("tcp://127.0.0.1:9"):
            pass


@pytest.mark.parametrize("n", [0, 1, 7, 100])
@pytest.mark.parametrize(("most", "least"), [(1, 1), (3, 1), (50, 4), (1000, 300)])
def test_spans_are_all_of_it_and_not_longer(n, most, least):
    found = spans(n, most, least)
    assert [i for start, stop in found for i in range(start, stop)] == list(range(n))
    assert all(start < stop <= start + most for start, stop in found)
    assert len(found) >= min(n, least)
