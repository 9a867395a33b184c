"""Many requests at once, and routing beside an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import inspect
import multiprocessing
import os
import threading

import joblib
import numpy as np
import pytest
from fixed import NAMES, Fixed

from cnp_router import pool
from cnp_router.exceptions import ClusterError, InputError
from cnp_router.routing import (
    HeadScores,
    RecallControl,
    Router,
    Scores,
    SelectionRule,
    SpecificationRouter,
    TopK,
    many,
)
from cnp_router.routing.many import in_pieces
from cnp_router.routing.router import AT_ONCE

DAY = datetime.date(2012, 2, 29)


class Batched(Fixed):
    """Answers several at once, and remembers what it was asked."""

    def __init__(self):
        super().__init__(0.1, 0.8, 0.3, 0.0)
        self.asked = []

    def _scores_many(self, requests, known, dates):
        self.asked.append((len(requests), tuple(known), dates[0]))
        for request in requests:
            yield Scores(self.apis, np.roll(self.probabilities, len(request)))


class Dated(Fixed):
    """Says when it was asked."""

    def __init__(self):
        super().__init__(0.1, 0.8, 0.3, 0.0)

    def _scores(self, request, known, date):
        return Scores(self.apis, self.probabilities, months=date.toordinal())


class Headed(Router):
    """A thousand APIs, of which ten are in a head; 900 reach the threshold."""

    def __init__(self):
        super().__init__(tuple(f"api {i}" for i in range(1000)))
        self.recall_control = RecallControl(np.full(50, 0.01), np.arange(50), np.zeros(50))
        self.asked = []

    def _scores(self, request, known, date):
        self.asked.append(request)
        first = np.arange(len(request), len(request) + 10)
        return HeadScores(
            self.apis,
            positions=first,
            named=np.linspace(0.1, 0.9, 10),
            behind=np.array([0.01, 0.001]),
            sizes=np.array([890, 100]),
            group_of=lambda positions: (positions >= 900).astype(int),
        )


class Failing(Dated):
    def _scores(self, request, known, date):
        if request == "y":
            raise ArithmeticError(f"no scores for {request!r}")
        return Scores(self.apis, self.probabilities)


class Ending(Dated):
    def _scores(self, request, known, date):
        os._exit(1)


class TestMany:
    def test_they_come_in_order(self, catalog):
        router = SpecificationRouter(catalog)
        requests = [f"{api.name} {api.description}" for api in catalog]
        routings = router.route_many(iter(requests), ["maps"], exclude=["sms"], select=TopK(2))
        assert routings == [
            router.route(each, ["maps"], exclude=["sms"], select=TopK(2)) for each in requests
        ]
        assert router.source_counts == {"learned": 2 * len(catalog)}

    def test_only_so_many_are_scored_together(self):
        router = Batched()
        routings = router.route_many(["x"] * (AT_ONCE + 3), ["b"], dates=[DAY] * (AT_ONCE + 3))
        assert router.asked == [(AT_ONCE, (1,), DAY), (3, (1,), DAY)]
        assert {routing.contractors[0] for routing in routings} == {"c"}

    def test_scores_are_made_as_they_are_read(self):
        router = Batched()
        scored = router.score_many(["x"] * 2 * AT_ONCE)
        assert not router.asked
        assert next(scored).top(1) == (("c", 0.8),)
        assert len(router.asked) == 1

    def test_none_are_none(self, router):
        assert router.route_many([]) == []
        assert list(router.score_many(())) == []

    @pytest.mark.parametrize(
        ("requests", "how", "message"),
        [
            ("a map", {}, r"requests must be a list of requests, got 'a map' \(give \['a map'\]\)"),
            (7, {}, "requests must be a list of requests, got 7"),
            (["a map", " "], {}, r"requests\[1\]: a request must not be blank, got ' '"),
            (["a map", None], {}, r"requests\[1\]: a request must be a string, got None"),
            (["a map"], {"dates": [DAY, DAY]}, "dates must be as many as requests, got 2 for 1"),
            (["a map"], {"dates": ["2012"]}, r"dates\[0\]: date must be a datetime.date, got"),
            (
                ["a map"],
                {"dates": [datetime.datetime(2012, 2, 29, 10)]},
                r"date must be a datetime.date, got .* \(its \.date\(\) is the day\)",
            ),
            (["a map"], {"dates": DAY}, "dates must be a list of dates, got"),
        ],
    )
    def test_all_are_checked_before_the_first(self, requests, how, message):
        router = Batched()
        for ask in (router.route_many, router.score_many):
            with pytest.raises(InputError, match=message):
                ask(requests, **how)
        assert not router.asked

    def test_a_wrong_rule_is_said_before_the_first(self):
        router = Batched()
        for how in ({"select": 5}, {"threshold": 2}, {"fallback": "llm"}, {"among": ["z"]}):
            with pytest.raises(InputError):
                router.route_many(["x"], **how)
        assert not router.asked

    def test_a_function_is_asked_once_for_each_api(self, router):
        asked = []
        router.route_many(["x", "y", "z"], among=lambda name: asked.append(name) is None)
        assert asked == list(NAMES)


class TestInProcesses:
    @pytest.fixture(autouse=True)
    def small_pieces(self, monkeypatch):
        monkeypatch.setattr(many, "_LEAST", 2)

    def test_they_come_in_order(self, catalog):
        router = SpecificationRouter(catalog)
        requests = [f"{api.name} {api.description}" for api in catalog] * 3
        how = {"known": ["maps"], "exclude": ["sms"], "select": TopK(2)}
        assert router.route_many(requests, n_jobs=2, **how) == router.route_many(requests, **how)
        assert router.source_counts == {"learned": 2 * len(requests)}

    def test_what_is_behind_the_head_is_named_here(self):
        router = Headed()
        shared = router.route_many(["x", "of them", "y", "z"], n_jobs=2)
        assert [routing.n_recipients for routing in shared] == [900] * 4
        assert not router.asked  # nothing has been scored in this process
        assert shared[1:2] == router.route_many(["of them"])
        assert len(router.asked) == 2

    def test_a_fallback_is_asked_here(self, router):
        asked, lock = [], threading.Lock()  # which pickle cannot take

        class Other:
            source = "broadcast"

            def recipients(self, request, scores, chosen):
                with lock:
                    asked.append((request, scores.top(1)[0][0], list(chosen)))
                return router.apis

        how = {"threshold": 1.0, "fallback": Other(), "select": TopK(1)}
        shared = router.route_many(list("wxyz"), n_jobs=2, **how)
        assert shared == [router.route(each, **how) for each in "wxyz"]
        assert asked[:4] == asked[4:] and len(asked) == 8
        assert router.source_counts == {"broadcast": 8}

    def test_a_rule_of_ones_own_chooses_there(self, router):
        class Here(SelectionRule):
            def choose(self, ranked):
                return [0, 2]

        shared = router.route_many(["x"] * 4, n_jobs=2, select=Here())
        assert shared == router.route_many(["x"] * 4, select=Here())
        assert {routing.n_recipients for routing in shared} == {2}

    def test_each_has_its_date(self):
        days = [DAY + datetime.timedelta(days=i) for i in range(9)]
        scored = Dated().score_many(["x"] * 9, dates=days, n_jobs=2)
        assert [scores.months for scores in scored] == [day.toordinal() for day in days]

    @pytest.mark.parametrize(
        ("n", "n_jobs", "pieces"), [(3, 2, 1), (4, 2, 2), (9, 2, 4), (9, 1, 1)]
    )
    def test_few_requests_start_no_processes(self, n, n_jobs, pieces):
        found = in_pieces(range(n), range(n), n_jobs)
        assert [len(texts) for texts, _ in found] == [len(days) for _, days in found]
        assert [i for texts, _ in found for i in texts] == list(range(n))
        assert len(found) == pieces

    def test_the_configuration_of_joblib_decides_where_nothing_is_given(self):
        assert len(in_pieces("x" * 9, range(9), None)) == 1
        with joblib.parallel_config(n_jobs=2):
            assert len(in_pieces("x" * 9, range(9), None)) == 4
            assert len(in_pieces("x" * 9, range(9), 1)) == 1

    def test_what_fails_in_one_is_raised(self):
        with pytest.raises(ArithmeticError, match="no scores for 'y'"):
            list(Failing().score_many(["x"] * 5 + ["y"], n_jobs=2))

    def test_all_at_once_share_as_many(self, router):
        """joblib would wait for ever to change the number of processes."""
        found = {}

        def ask(n_jobs):
            found[n_jobs] = router.route_many(["x", "y"] * 200, n_jobs=n_jobs)

        threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in (2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert found[2] == found[3]
        with pool._Processes.shared(2) as first, pool._Processes.shared(3) as second:
            assert (first, second) == (2, 2)
        with pool._Processes.shared(3) as later:
            assert later == 3

    def test_who_was_forked_from_one_that_has_processes_has_none(self, router, monkeypatch, caplog):
        monkeypatch.setattr(pool._Processes, "_starter", os.getppid())
        alone = router.route_many(["x"] * 8)
        assert pool.LocalPool(None).n_workers == 1
        assert not caplog.records  # it was asked for no others
        assert pool.LocalPool(2).n_workers == 1
        assert router.route_many(["x"] * 8, n_jobs=2) == alone
        assert "this process was forked from one that shares out work" in caplog.text

    def test_a_process_of_a_pool_of_multiprocessing_has_none(self, monkeypatch, caplog, recwarn):
        monkeypatch.setattr(multiprocessing.current_process(), "_config", {"daemon": True})
        assert pool.LocalPool(None).n_workers == pool.LocalPool(1).n_workers == 1
        assert not caplog.records
        assert pool.LocalPool(-1).n_workers == 1
        assert "this process is one of a pool of multiprocessing" in caplog.text
        assert not recwarn.list

    def test_a_process_that_ends_is_said(self):
        said = "^workers: a process that works has ended: it was killed, .*fewer n_jobs"
        with pytest.raises(ClusterError, match=said):
            Ending().route_many(["x"] * 6, n_jobs=2)

    @pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
    def test_a_number_that_cannot_be(self, router, n_jobs):
        said = rf"n_jobs must be a whole number other than 0, got '?{n_jobs}'? \(leave it out"
        with pytest.raises(InputError, match=said):
            router.route_many(["x"], n_jobs=n_jobs)
        with pytest.raises(InputError, match=said):
            router.score_many(["x"], n_jobs=n_jobs)


@pytest.mark.parametrize("name", ["route", "route_many"])
def test_what_is_awaited_takes_what_waits(name):
    awaited = inspect.signature(getattr(Router, f"a{name}"))
    assert awaited == inspect.signature(getattr(Router, name))


WHO = contextvars.ContextVar("WHO", default="nobody")


class Slow(Fixed):
    """Takes a while, and notes in which thread, and for whom."""

    def __init__(self):
        super().__init__(0.1, 0.8, 0.3, 0.0)
        self.asked = []

    def _scores(self, request, known, date):
        sum(range(20_000))
        self.asked.append((threading.current_thread(), WHO.get()))
        return super()._scores(request, known, date)


class TestBesideAnEventLoop:
    def test_it_answers_as_without_one(self, router):
        async def main():
            known = ["c"]
            how = {"select": TopK(2), "threshold": 0.1, "date": DAY, "exclude": ["d"]}
            one = await router.aroute("x", known, **how)
            assert one == router.route("x", known, **how)
            del how["date"]
            many = await router.aroute_many(["x", "y"], known, dates=[DAY, None], **how)
            assert many == router.route_many(["x", "y"], known, dates=[DAY, None], **how)
            with pytest.raises(InputError, match="must not be blank"):
                await router.aroute(" ")

        asyncio.run(main())

    def test_in_another_thread_with_the_context_of_who_waits(self):
        router = Slow()

        async def main():
            WHO.set("ann")
            await router.aroute("x")
            await router.aroute_many(["x"])

        asyncio.run(main())
        assert [who for _, who in router.asked] == ["ann", "ann"]
        assert threading.current_thread() not in {thread for thread, _ in router.asked}

    def test_the_loop_goes_on_while_thousands_are_routed(self):
        router, ticks = Slow(), 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        async def main():
            ticking = asyncio.create_task(tick())
            many = asyncio.create_task(router.aroute_many(["x"] * 2000))
            while not many.done():
                await router.aroute("x")
            ticking.cancel()
            assert len(await many) == 2000

        asyncio.run(main())
        assert ticks > 10
        assert sum(router.source_counts.values()) == len(router.asked) > 2000

    def test_what_nobody_waits_for_any_more_ends_with_its_batch(self):
        router = Slow()

        async def main():
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(router.aroute_many(["x"] * 50 * AT_ONCE), 0.2)

        asyncio.run(main())  # waits for the thread
        assert 0 < len(router.asked) < 25 * AT_ONCE
        assert len(asyncio.run(router.aroute_many(["x"] * 3))) == 3

    def test_threads_that_count_at_the_same_time_lose_nothing(self, router):
        def route():
            for _ in range(300):
                router.route("x")

        threads = [threading.Thread(target=route) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert router.source_counts == {"learned": 1200}
