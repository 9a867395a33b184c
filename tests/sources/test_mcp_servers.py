"""Servers as people run them: listed, called and ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tool_servers import (
    everything_entry,
    fetch_entry,
    filesystem_entry,
    git_entry,
    local_pages,
    make_repository,
    memory_entry,
    no_process_left,
    time_entry,
)

from cnp_router.catalog import Api
from cnp_router.sources import Call, CallProgress, CallResult, McpServer


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    with no_process_left():
        yield


def use(name: str, entry: dict[str, Any], *calls: Call) -> tuple[tuple[Api, ...], list[CallResult]]:
    """Start a server, list its tools, make some calls and end it."""

    async def run() -> tuple[tuple[Api, ...], list[CallResult]]:
        async with McpServer.from_entry(name, entry, folder=Path(), trusted=True) as server:
            return await server.apis(), [await server.call(call) for call in calls]

    return asyncio.run(run())


def test_the_time():
    call = Call(api="time__get_current_time", inputs={"timezone": "Asia/Tokyo"})
    begin = time.monotonic()
    apis, (first, second) = use("time", time_entry(), call, call)
    whole = time.monotonic() - begin
    assert [(api.id, api.effects) for api in apis] == [
        ("time__get_current_time", "reads"),
        ("time__convert_time", "reads"),
    ]
    assert apis[0].parameters["required"] == ["timezone"]
    assert "timezone" in apis[0].description
    assert first.data["timezone"] == "Asia/Tokyo"
    assert first.n_bytes > 0 and not first.is_cut
    # The start belongs to the first call after it, whoever asked for it.
    assert first.start_seconds > 0.05
    assert first.start_seconds + first.seconds < whole
    assert second.start_seconds is None


def test_a_tool_that_refuses_its_inputs():
    call = Call(api="time__get_current_time", inputs={"timezone": "Atlantis"})
    _, (result,) = use("time", time_entry(), call)
    assert result.failure.kind == "tool"
    assert "Atlantis" in result.failure.message


def test_git(tmp_path):
    repository = make_repository(tmp_path / "repository")
    call = Call(api="git__git_log", inputs={"repo_path": str(repository)})
    apis, (result,) = use("git", git_entry(repository), call)
    effects = {api.id: api.effects for api in apis}
    assert effects["git__git_log"] == "reads"
    assert effects["git__git_commit"] == "writes"
    assert "A plan" in result.text


def test_fetch():
    with local_pages({"/news": "<html><body><p>Rain tomorrow.</p></body></html>"}) as url:
        call = Call(api="fetch__fetch", inputs={"url": f"{url}/news"})
        apis, (result,) = use("fetch", fetch_entry(), call)
    assert [api.effects for api in apis] == ["reads"]
    assert "Rain tomorrow." in result.text


def test_everything():
    steps: list[CallProgress] = []
    apis, (echo, image, structured, long) = use(
        "everything",
        everything_entry(),
        Call(api="everything__echo", inputs={"message": "Grüße"}),
        Call(api="everything__get-tiny-image"),
        Call(api="everything__get-structured-content", inputs={"location": "Chicago"}),
        Call(
            api="everything__trigger-long-running-operation",
            inputs={"duration": 0.2, "steps": 2},
            on_progress=steps.append,
        ),
    )
    assert len(apis) >= 10
    assert echo.text == "Echo: Grüße"
    assert image.attachments[0].media_type == "image/png"
    assert image.attachments[0].data.startswith(b"\x89PNG")
    assert set(structured.structured) == {"temperature", "conditions", "humidity"}
    assert long.is_done
    assert [(step.done, step.total) for step in steps] == [(1, 2), (2, 2)]


def test_files(tmp_path):
    (tmp_path / "plan.txt").write_text("Paint the fence.")
    apis, (read, outside) = use(
        "files",
        filesystem_entry(tmp_path),
        Call(api="files__read_text_file", inputs={"path": str(tmp_path / "plan.txt")}),
        Call(api="files__read_text_file", inputs={"path": "/etc/hostname"}),
    )
    effects = {api.id: api.effects for api in apis}
    assert (effects["files__read_text_file"], effects["files__write_file"]) == ("reads", "writes")
    assert read.text == "Paint the fence."
    assert outside.failure.kind == "tool"


def test_memory(tmp_path):
    fence = {"name": "fence", "entityType": "thing", "observations": ["is red"]}
    _, (created, found) = use(
        "memory",
        memory_entry(tmp_path / "memory.json"),
        Call(api="memory__create_entities", inputs={"entities": [fence]}),
        Call(api="memory__search_nodes", inputs={"query": "red"}),
    )
    assert created.is_done
    assert "fence" in found.text


def test_without_trust_hints_count_nothing():
    async def run() -> set[str]:
        async with McpServer.from_entry(
            "time", time_entry(), folder=Path(), trusted=False
        ) as server:
            return {api.effects for api in await server.apis()}

    assert asyncio.run(run()) == {"unknown"}
