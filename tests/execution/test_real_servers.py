"""Plans over real servers of tools, one of which is killed in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import pytest
from tool_servers import (
    descendants,
    everything_entry,
    fetch_entry,
    filesystem_entry,
    git_entry,
    local_pages,
    make_repository,
    memory_entry,
    time_entry,
)

from cnp_router import ContractNet, Executor, Job, McpServer, Plan, Sources, fit_router
from cnp_router.agents import offline_model
from cnp_router.execution import ExecutionSettings, allow_writes
from cnp_router.protocols import validate

QUICK = ExecutionSettings(attempts=2, wait=(0, 0.1))


def server(name, entry):
    return McpServer(name, **entry, trusted=True)


async def executed(servers, request, *, watch=None, settings=QUICK, **how):
    async with Sources(servers) as sources:
        catalog = await sources.catalog()
        net = ContractNet(catalog, offline_model(catalog), router=fit_router(catalog))
        executor = Executor(
            net, sources, settings=settings, approve=allow_writes, watch=watch and watch(sources)
        )
        execution = await executor.execute(request, **how)
    for transcript in execution.transcripts:
        validate(transcript)
    return execution


def three_jobs(repository, address):
    return Plan(
        "What was committed, what is new, and what time is it?",
        (
            Job("log", api="git__git_log", inputs={"repo_path": str(repository)}),
            Job("news", api="fetch__fetch", inputs={"url": f"{address}/news"}),
            Job("now", api="time__get_current_time", inputs={"timezone": "Asia/Tokyo"}),
        ),
    )


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path / "repository")


def test_three_jobs_over_three_servers(repository):
    with local_pages({"/news": "<p>It rains.</p>"}) as address:
        servers = [
            server("git", git_entry(repository)),
            server("fetch", fetch_entry()),
            server("time", time_entry()),
        ]
        execution = asyncio.run(executed(servers, three_jobs(repository, address)))
    assert execution.is_done, execution.to_dict()
    assert execution.plan.parallelism == 3
    assert "A plan" in execution.results["log"].text
    assert "It rains." in execution.results["news"].text
    assert execution.results["now"].data["timezone"] == "Asia/Tokyo"


def test_a_server_that_is_killed_in_the_middle_is_a_clear_failure_and_others_finish(repository):
    """Each attempt of the git server is killed; nothing else is disturbed."""

    def killing(sources):
        def watch(event):
            if event.job == "log" and event.state == "acting":
                asyncio.get_running_loop().call_soon(kill)

        return watch

    def kill():
        for process, line in descendants().items():
            if "mcp_server_git" in line:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    with local_pages({"/news": "<p>It rains.</p>"}) as address:
        servers = [
            server("git", git_entry(repository)),
            server("fetch", fetch_entry()),
            server("time", time_entry()),
        ]
        plan = three_jobs(repository, address)
        once = ExecutionSettings(attempts=1)
        execution = asyncio.run(executed(servers, plan, watch=killing, settings=once))
    states = {job.id: job.state for job in execution.jobs}
    assert (states["news"], states["now"]) == ("done", "done")
    acts = execution.jobs[0].acts
    assert acts[0].api == "git__git_log"
    assert acts[0].result.failure.kind in ("lost", "unavailable")
    assert execution.jobs[0].state == "done" or execution.jobs[0].problem


def test_a_request_goes_to_a_real_server():
    servers = [server("time", time_entry()), server("fetch", fetch_entry())]
    request = "The current time in Asia/Tokyo"
    execution = asyncio.run(executed(servers, request, protocol="learned"))
    assert execution.is_done, execution.to_dict()
    assert "Asia/Tokyo" in execution.jobs[0].result.text


def test_servers_in_node(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "note.txt").write_text("Buy bread.")
    servers = [
        server("files", filesystem_entry(tmp_path / "files")),
        server("memory", memory_entry(tmp_path / "memory.json")),
        server("every", everything_entry()),
    ]
    note = str((tmp_path / "files" / "note.txt").resolve())
    thing = {
        "name": "bread",
        "entityType": "food",
        "observations": [{"$from": "read", "path": "/content"}],
    }
    plan = Plan(
        "Remember what the note says.",
        (
            Job("read", api="files__read_text_file", inputs={"path": note}),
            Job("sum", api="every__get-sum", inputs={"a": 2, "b": 3}),
            Job(
                "keep",
                api="memory__create_entities",
                inputs={"entities": [thing]},
                after=("read",),
            ),
        ),
    )
    execution = asyncio.run(executed(servers, plan))
    assert execution.is_done, execution.to_dict()
    assert "Buy bread." in (tmp_path / "memory.json").read_text()
