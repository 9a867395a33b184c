"""Requests of a server's own methods: in this process, over standard input, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tool_servers import no_process_left, served

from cnp_router.exceptions import SourceAnswerError, SourceUnavailableError
from cnp_router.sources import Call, McpServer, Source
from cnp_router.testing import ScriptedSource

SCRIPT = Path(__file__).parent / "servers" / "coordinating.py"
sys.path.insert(0, str(SCRIPT.parent))

from coordinating import coordinating_server  # noqa: E402

ERAS = ("auto", "legacy")
WAYS = ("object", "process", "url")


@contextlib.asynccontextmanager
async def connected(way: str, mode: str, *args: str) -> AsyncIterator[McpServer]:
    """Yield a source whose server declares methods of its own."""
    with contextlib.ExitStack() as stack:
        where: dict[str, Any] = {"server": coordinating_server(*args)}
        if way == "process":
            where = {"command": sys.executable, "args": [str(SCRIPT), *args]}
        elif way == "url":
            app = coordinating_server(*args).streamable_http_app()
            where = {"url": stack.enter_context(served(app)) + "/mcp"}
        async with McpServer("maps", mode=mode, **where) as source:
            yield source


@pytest.fixture(autouse=True)
def nothing_left():
    with no_process_left():
        yield


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("way", WAYS)
def test_what_a_server_declares_can_be_asked(way, mode):
    async def main():
        async with connected(way, mode) as source:
            assert source.extensions == {}  # nothing is started for it
            (api, *_) = await source.apis()
            (declared,) = source.extensions.values()
            params = {"task": "a map of Kyoto", "capability": "draw", "category": "Mapping"}
            answer = await source.request("capability/negotiate", params)
            result = await source.call(Call(api=api.id, inputs={}))
            return declared, answer, result.text

    declared, answer, text = asyncio.run(main())
    assert "capability/negotiate" in declared["methods"]
    assert answer == {"status": "accepted", "reason": ""}
    assert text == "done: draw"


@pytest.mark.parametrize("mode", ERAS)
def test_what_a_server_does_not_have_is_an_error_in_words(mode):
    async def main():
        async with connected("object", mode) as source:
            with pytest.raises(SourceAnswerError, match=r"'maps': an error for capability/sing"):
                await source.request("capability/sing", {})
            return await source.request("capability/discover", {})

    assert [each["name"] for each in asyncio.run(main())["capabilities"]] == ["draw", "measure"]


@pytest.mark.parametrize("way", ["object", "process"])
def test_no_answer_in_time(way):
    async def main():
        async with connected(way, "auto", "slow") as source:
            with pytest.raises(SourceUnavailableError, match=r"no answer to capability/negotiate"):
                await source.request("capability/negotiate", {"capability": "draw"}, timeout=0.2)
            return (await source.call(Call(api="maps__draw"))).is_done  # the connection is kept

    assert asyncio.run(main())


def test_an_answer_that_is_too_long():
    async def main():
        async with McpServer("maps", server=coordinating_server("long"), max_bytes=5_000) as source:
            with pytest.raises(SourceAnswerError, match=r"at most 5,000 are taken"):
                await source.request("capability/negotiate", {"capability": "draw"})

    asyncio.run(main())


def test_a_process_that_dies_of_a_request():
    async def main():
        async with connected("process", "auto", "dies") as source:
            await source.apis()
            assert source.extensions
            with pytest.raises(SourceUnavailableError):
                await source.request("capability/negotiate", {"capability": "draw"})
            return source.extensions

    assert asyncio.run(main()) == {}  # it is not asked, and so started, again


def test_a_source_has_no_methods_of_its_own():
    source: Source = ScriptedSource("dice", {"roll": ["4"]})
    assert source.extensions == {}
    with pytest.raises(SourceAnswerError, match=r"source 'dice': it has no method 'capability/x'"):
        asyncio.run(source.request("capability/x", {}))
