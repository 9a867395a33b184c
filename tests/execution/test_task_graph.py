"""Plans, and how their jobs are run."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.exceptions import DataFileError, InputError
from cnp_router.execution import Job, JobEnd, Plan, run_jobs


def plan(**after):
    return Plan("Do it.", tuple(Job(name, f"do {name}", after=ids) for name, ids in after.items()))


DIAMOND = plan(a=(), b=(), c=("a",), d=("b",), e=("c", "d"))


def ids(levels):
    return [[job.id for job in level] for level in levels]


@st.composite
def plans(draw):
    """Plans without circles, their jobs in any order."""
    n = draw(st.integers(1, 12))
    jobs = [
        Job(f"j{i}", "do", after=tuple(f"j{k}" for k in range(i) if draw(st.booleans())))
        for i in range(n)
    ]
    return Plan("Do it.", tuple(draw(st.permutations(jobs))))


# What a plan is


def test_a_job_has_a_task_or_an_api():
    with pytest.raises(InputError, match="job 'a' has neither task nor API"):
        Job("a", "  ")
    assert Job("a", api="x__y").api == "x__y"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"id": " a"}, "begin or end with a space"),
        ({"id": "a", "task": 3}, "task must be a string"),
        ({"id": "a", "task": "t", "api": "manager"}, "reserved"),
        ({"id": "a", "task": "t", "inputs": [1]}, "inputs must be an object"),
        ({"id": "a", "task": "t", "inputs": {"x": float("nan")}}, "cannot be written as JSON"),
        ({"id": "a", "task": "t", "after": "b"}, "after must be a list of strings"),
        ({"id": "a", "task": "t", "after": ("b", "b")}, "duplicate job id 'b'"),
    ],
)
def test_a_job_that_is_none(fields, problem):
    with pytest.raises(InputError, match=problem):
        Job(**fields)


@pytest.mark.parametrize(
    ("jobs", "problem"),
    [
        ((), "at least one job"),
        ((Job("a", "t"), Job("a", "u")), "duplicate job id 'a'"),
        ((Job("weather", "t"), Job("b", "t", after=("wether",))), "did you mean 'weather'"),
        ((Job("a", "t", after=("zzz",)),), "waits for 'zzz', which is no job"),
        ((Job("a", "t", after=("a",)),), "in a circle: 'a' -> 'a'"),
        (("a",), "jobs must be several Job objects"),
    ],
)
def test_a_plan_that_is_none(jobs, problem):
    with pytest.raises(InputError, match=problem):
        Plan("Do it.", jobs)


def test_a_circle_is_named_in_order():
    with pytest.raises(InputError) as caught:
        plan(start=(), a=("c", "start"), b=("a",), c=("b",))
    circle = str(caught.value).partition("circle: ")[2].partition(" (")[0].split(" -> ")
    assert circle[0] == circle[-1]
    assert {*circle} == {"'a'", "'b'", "'c'"}
    assert circle[circle.index("'a'") + 1] == "'b'"  # b waits for a


def test_a_long_circle_is_cut():
    n = 300
    with pytest.raises(InputError) as caught:
        plan(**{f"j{i}": (f"j{(i + 1) % n}",) for i in range(n)})
    assert "290 more" in str(caught.value)
    assert len(str(caught.value)) < 250


def test_levels_and_parallelism():
    assert ids(DIAMOND.levels) == [["a", "b"], ["c", "d"], ["e"]]
    assert DIAMOND.parallelism == 2
    assert ids(plan(a=(), b=("a",), c=("a", "b")).levels) == [["a"], ["b"], ["c"]]


@given(plans())
def test_the_level_of_a_job_is_one_above_the_highest_that_it_waits_for(plan):
    level = {job.id: n for n, level in enumerate(plan.levels) for job in level}
    assert len(level) == len(plan.jobs)
    for job in plan.jobs:
        assert level[job.id] == max((level[name] + 1 for name in job.after), default=0)
    assert plan.parallelism == max(len(level) for level in plan.levels)


# Its file


def test_a_plan_is_read_as_it_was_written(tmp_path):
    jobs = (
        Job("a", "Träum.", inputs={"x": [1, None]}),
        Job("b", api="x__y", inputs={}, after=("a",)),
    )
    before = Plan("Tu es.", jobs)
    before.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == before


def test_a_file_without_a_request(tmp_path):
    file = tmp_path / "plan.json"
    file.write_text('{"jobs": [{"id": "a", "task": "t"}]}')
    assert Plan.read(file, request="Do it.").request == "Do it."
    with pytest.raises(DataFileError, match="missing field 'request'"):
        Plan.read(file)
    file.write_text('{"request": "Mine.", "jobs": [{"id": "a", "task": "t"}]}')
    assert Plan.read(file, request="Do it.").request == "Mine."


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "expected the JSON object of a plan"),
        ({"request": "r"}, "missing field 'jobs'"),
        ({"request": "r", "jobs": {}}, "must be a list of objects"),
        ({"request": "r", "jobs": ["a"]}, "must be a list of objects"),
        ({"request": "r", "jobs": [], "Jobs": []}, "unknown key 'Jobs'.*mean 'jobs'"),
        ({"request": "r", "jobs": [{"task": "t"}]}, "entry 1: missing field 'id'"),
        (
            {"request": "r", "jobs": [{"id": "a", "task": "t"}, {"id": "b", "afer": ["a"]}]},
            "entry 2: job 'b': unknown key 'afer' .did you mean 'after'",
        ),
        (
            {"request": "r", "jobs": [{"id": "a", "task": "t", "timeout": 3}]},
            "unknown key 'timeout' .use 'id', 'task', 'api', 'inputs', 'after'",
        ),
        (
            {"request": "r", "jobs": [{"id": "a", "task": "t", "after": "b"}]},
            "entry 1: field 'after' must be a list",
        ),
        (
            {"request": "r", "jobs": [{"id": "a", "task": "t", "after": ["b"]}]},
            "plan.json: job 'a' waits for 'b'",
        ),
        ({"request": " ", "jobs": [{"id": "a", "task": "t"}]}, "a request must not be blank"),
    ],
)
def test_a_file_that_is_no_plan(tmp_path, document, problem):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document))
    with pytest.raises(DataFileError, match=problem):
        Plan.read(file)


# Its drawing


def test_a_drawing_shows_levels_apis_inputs_and_what_is_waited_for():
    drawn = Plan(
        "Text me when it rains.",
        (
            Job("place", api="maps__find", inputs={"name": "Kyōto"}),
            Job("forecast", "Forecast rain.", api="weather__today", after=("place",)),
        ),
    ).draw()
    assert drawn.splitlines() == [
        "Text me when it rains.",
        "2 jobs on 2 levels, at most 1 job at a time",
        "",
        "level 1",
        '  place     maps__find {"name": "Kyōto"}',
        "level 2",
        "  forecast  weather__today: Forecast rain.  <- place",
    ]


def test_nothing_in_a_drawing_steers_a_terminal():
    evil = "a\x1b[2J\r\n\u202e\x9b\x07\u2028b"
    drawn = Plan(
        evil, (Job("a", evil, inputs={"x": evil}), Job("b", evil, after=("a",)), Job("c", evil))
    ).draw()
    assert all(c.isprintable() or c == "\n" for c in drawn)
    assert len(drawn.splitlines()) == 8


@pytest.mark.parametrize("n", [1, 200])
def test_a_drawing_is_readable_for_few_and_for_many(n):
    jobs = tuple(Job(f"job-{i}", "w" * 500) for i in range(n))
    last = Job("last", "x", after=tuple(job.id for job in jobs))
    lines = Plan("r" * 500, (*jobs, last)).draw().splitlines()
    assert len(lines) == 3 + 2 + n + 1
    assert max(map(len, lines)) <= 110
    assert lines[-1].endswith("<- job-0" if n == 1 else "<- job-0, job-1, job-2, 197 more")


# Running


class Runner:
    """Runs jobs until it is told that they end, and keeps what happened."""

    def __init__(self, *bad):
        self.bad = bad
        self.started = []
        self.ended = []
        self.running = 0
        self.most = 0
        self.gates = {}

    async def __call__(self, job):
        self.started.append(job.id)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if job.id in self.gates:
                await self.gates[job.id].wait()
            else:
                await asyncio.sleep(0)
            return job.id not in self.bad
        finally:
            self.running -= 1
            self.ended.append(job.id)


def ends(plan, *bad, **options):
    runner = Runner(*bad)
    return asyncio.run(run_jobs(plan, runner, **options)), runner


def test_jobs_run_when_all_that_they_wait_for_succeeded():
    found, runner = ends(DIAMOND)
    assert list(found) == ["a", "b", "c", "d", "e"]
    assert all(end == JobEnd("done") and end.is_done for end in found.values())
    assert runner.started[-1] == "e"


def test_a_job_does_not_wait_for_the_rest_of_its_level():
    async def main():
        runner = Runner()
        runner.gates["b"] = asyncio.Event()
        running = asyncio.create_task(run_jobs(DIAMOND, runner))
        while "c" not in runner.ended:
            await asyncio.sleep(0)
        assert "b" not in runner.ended
        runner.gates["b"].set()
        return await running

    assert all(end.is_done for end in asyncio.run(main()).values())


def test_what_waits_for_a_failed_job_is_skipped_and_everything_else_goes_on():
    found, runner = ends(DIAMOND, "a")
    assert {name: (end.state, end.because) for name, end in found.items()} == {
        "a": ("failed", None),
        "b": ("done", None),
        "c": ("skipped", "a"),
        "d": ("done", None),
        "e": ("skipped", "a"),
    }
    assert sorted(runner.started) == ["a", "b", "d"]


@given(plans(), st.data())
def test_each_job_runs_once_after_what_it_waits_for_or_is_skipped_for_a_failed_one(plan, data):
    names = [job.id for job in plan.jobs]
    bad = data.draw(st.lists(st.sampled_from(names), unique=True))
    most = data.draw(st.integers(1, 5))
    found, runner = ends(plan, *bad, max_concurrency=most)
    assert list(found) == names
    assert len(set(runner.started)) == len(runner.started)
    assert runner.most <= most
    for job in plan.jobs:
        if all(found[name].is_done for name in job.after):
            assert found[job.id].state == ("failed" if job.id in bad else "done")
            begin = runner.started.index(job.id)
            assert all(runner.started.index(name) < begin for name in job.after)
        else:
            assert found[job.id].state == "skipped"
            assert found[found[job.id].because].state == "failed"
            assert job.id not in runner.started


def test_no_more_run_at_a_time_than_allowed():
    wide = plan(**{f"j{i}": () for i in range(20)})
    assert ends(wide, max_concurrency=3)[1].most == 3
    assert ends(wide, max_concurrency=50)[1].most == 20
    with pytest.raises(InputError, match="max_concurrency"):
        ends(wide, max_concurrency=0)


def test_a_bug_in_one_job_cancels_the_others_and_is_raised_as_it_is():
    runner = Runner()
    runner.gates["b"] = asyncio.Event()

    async def run(job):
        if job.id == "c":
            try:
                raise KeyError("inner")
            except KeyError as exc:
                raise ZeroDivisionError("a bug") from exc
        return await runner(job)

    with pytest.raises(ZeroDivisionError, match="a bug") as caught:
        asyncio.run(run_jobs(DIAMOND, run))
    assert isinstance(caught.value.__cause__, KeyError)
    assert runner.ended == ["a", "b"]
    assert runner.running == 0


def test_what_a_job_returns_is_true_or_false():
    async def run(job):
        return "yes"

    with pytest.raises(InputError, match="what came of job 'a' must be true or false"):
        asyncio.run(run_jobs(plan(a=()), run))


@pytest.mark.parametrize("is_deaf", [False, True])
def test_cancelling_cancels_what_runs_and_begins_nothing_more(is_deaf):
    """Also where a job takes no notice of it."""
    runner = Runner()

    async def run(job):
        try:
            return await runner(job)
        except asyncio.CancelledError:
            if is_deaf:
                return True
            raise

    async def main():
        runner.gates = {name: asyncio.Event() for name in "ab"}
        running = asyncio.create_task(run_jobs(DIAMOND, run))
        while len(runner.started) < 2:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(main()) == set()
    assert sorted(runner.ended) == sorted(runner.started) == ["a", "b"]


def test_a_long_chain_needs_no_deep_stack():
    n = 3_000
    chain = plan(j0=(), **{f"j{i}": (f"j{i - 1}",) for i in range(1, n)})
    assert all(end.is_done for end in ends(chain)[0].values())
    assert ends(chain, "j0")[0][f"j{n - 1}"].because == "j0"
    assert len(chain.levels) == n


def test_the_guideline_is_written_read_and_drawn(tmp_path):
    plan = Plan("Text me.", (Job("text", "Text it."),), guideline="Keep it short.")
    plan.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == plan
    assert plan.draw().splitlines()[2] == "Keep it short."
    with pytest.raises(InputError, match="guideline"):
        Plan("Text me.", plan.jobs, guideline=3)
