"""Servers that are processes, and misbehave: one clear error each, and nothing left running."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tool_servers import SCRIPTS, is_alive, no_process_left, script_entry, wait_until

from cnp_router.exceptions import (
    SourceAnswerError,
    SourceError,
    SourceUnavailableError,
    UnknownApiError,
)
from cnp_router.sources import (
    Call,
    CallProgress,
    CallResult,
    Loaded,
    McpServer,
    Sources,
    mcp_launcher,
    read_sources,
)

LAUNCHER = Path(mcp_launcher.__file__)
TOKEN = "xK9-very-secret"


@pytest.fixture(autouse=True)
def nothing_left(capfd) -> Iterator[None]:
    with no_process_left():
        yield
    written = capfd.readouterr()
    assert (written.out, written.err) == ("", "")


def odd(*start: str, **settings: Any) -> McpServer:
    entry = script_entry("odd", *start)
    settings = {"grace": 0.1, "backoff": (0.01, 0.05), "start_timeout": 20.0, **settings}
    return McpServer("odd", **entry, env={"TOKEN": TOKEN}, **settings)


def run(use: Callable[[McpServer], Awaitable[Any]], *start: str, **settings: Any) -> Any:
    async def whole() -> Any:
        async with odd(*start, **settings) as server:
            return await use(server)

    return asyncio.run(whole())


def call(tool: str, *, timeout: float = 20.0, **inputs: Any) -> Call:
    return Call(api=f"odd__{tool}", inputs=inputs, timeout=timeout)


def one(tool: str, *, timeout: float = 20.0, **inputs: Any) -> CallResult:
    """Return the result of one call, after which the server must still be usable."""

    async def use(server: McpServer) -> CallResult:
        result = await server.call(call(tool, timeout=timeout, **inputs))
        assert (await server.call(call("say", text="still here"))).text == "still here"
        return result

    result: CallResult = run(use)
    return result


def error_of(*start: str, **settings: Any) -> SourceError:
    """Return the error of a server that cannot be used, the same for its list and for a call."""

    async def use(server: McpServer) -> SourceError:
        with pytest.raises(SourceError) as caught:
            await server.apis()
        result = await server.call(call("say"))
        assert result.failure is not None and result.failure.was_done == "no"
        assert result.failure.message == str(caught.value)
        is_answer = isinstance(caught.value, SourceAnswerError)
        assert result.failure.kind == ("unusable" if is_answer else "unavailable")
        return caught.value

    error: SourceError = run(use, *start, **settings)
    return error


class TestStart:
    def test_it_is_started_by_the_first_call_and_not_before(self, tmp_path):
        async def use(server: McpServer) -> CallResult:
            assert server._connection is None
            return await server.call(call("say", text="hello"))

        result = run(use)
        assert result.text == "hello"
        assert result.start_seconds > 0

    def test_parallel_callers_share_one_start(self):
        async def use(server: McpServer) -> list[CallResult]:
            return await asyncio.gather(*(server.call(call("pid")) for _ in range(20)))

        results = run(use)
        assert len({result.text for result in results}) == 1
        assert sum(result.start_seconds is not None for result in results) == 1

    def test_a_caller_who_gives_up_does_not_end_the_start_of_others(self):
        async def use(server: McpServer) -> CallResult:
            first = asyncio.create_task(server.call(call("pid")))
            second = asyncio.create_task(server.call(call("say", text="second")))
            await asyncio.sleep(0.01)
            first.cancel()
            await asyncio.wait({first})
            assert first.cancelled()
            return await second

        assert run(use).text == "second"

    def test_a_program_that_is_not_there(self):
        async def use() -> None:
            async with McpServer("odd", command="no-such-program") as server:
                await server.apis()

        with pytest.raises(SourceUnavailableError) as caught:
            asyncio.run(use())
        assert str(caught.value) == (
            "source 'odd': there is no program 'no-such-program' "
            "(install it, or give its whole path as 'command')"
        )

    def test_a_program_in_a_folder_that_this_user_may_not_enter(self, tmp_path, monkeypatch):
        stat = Path.stat

        def refused(path, **options):
            if path.name == "hidden-program":
                raise PermissionError(13, "Permission denied")
            return stat(path, **options)

        async def use() -> None:
            async with McpServer("odd", command=str(tmp_path / "hidden-program")) as server:
                await server.apis()

        monkeypatch.setattr(Path, "stat", refused)
        with pytest.raises(SourceUnavailableError, match="may not be run by this user"):
            asyncio.run(use())

    @pytest.mark.parametrize("command", ["text", "{folder}/text"])
    def test_a_file_that_may_not_be_run(self, tmp_path, command):
        (tmp_path / "text").write_text("text")
        command = command.format(folder=tmp_path)

        async def use() -> None:
            async with McpServer("odd", command=command, env={"PATH": str(tmp_path)}) as server:
                await server.apis()

        with pytest.raises(SourceUnavailableError, match=r"text' is there, and .*chmod \+x"):
            asyncio.run(use())

    def test_a_folder_that_is_not_there(self, tmp_path):
        error = error_of(cwd=tmp_path / "nowhere")
        assert "there is no folder" in str(error)

    def test_a_file_that_is_no_program(self, tmp_path):
        (tmp_path / "text").write_text("text")
        (tmp_path / "text").chmod(0o755)

        async def use() -> None:
            async with McpServer("odd", command=str(tmp_path / "text")) as server:
                await server.apis()

        with pytest.raises(SourceUnavailableError, match=r"cannot run .*Exec format error"):
            asyncio.run(use())

    def test_it_runs_where_it_is_told_and_sees_what_it_is_given(self, tmp_path, monkeypatch):
        monkeypatch.setenv("UNRELATED", "not for it")
        script = tmp_path / "show.py"
        script.write_text("import os, sys; print(os.getcwd(), sorted(os.environ), file=sys.stderr)")

        async def use() -> None:
            async with McpServer(
                "odd", command=sys.executable, args=["show.py"], cwd=tmp_path, env={"MINE": "1"}
            ) as server:
                await server.apis()

        with pytest.raises(SourceUnavailableError) as caught:
            asyncio.run(use())
        assert str(tmp_path) in str(caught.value)
        assert "'MINE'" in str(caught.value) and "'PATH'" in str(caught.value)
        assert "UNRELATED" not in str(caught.value)

    def test_relative_arguments_are_found_beside_the_file(self, tmp_path, monkeypatch):
        (tmp_path / "show.py").write_text("import sys; print('it was found', file=sys.stderr)")
        entry = {"command": sys.executable, "args": ["show.py"]}
        file = tmp_path / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"odd": entry}}))
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")

        async def use() -> None:
            (source,) = read_sources("../mcp.json").sources
            async with source:
                await source.apis()

        with pytest.raises(SourceUnavailableError, match="it was found"):
            asyncio.run(use())

    @pytest.mark.parametrize(("stream", "before"), [("stdout", 48), ("stderr", 192)])
    def test_a_secret_that_is_cut_is_not_shown_either(self, stream, before):
        says = f"import os, sys; print('x' * {before} + os.environ['TOKEN'], file=sys.{stream})"

        async def use() -> None:
            env = {"TOKEN": TOKEN}
            async with McpServer("odd", command=sys.executable, args=["-c", says], env=env) as it:
                await it.apis()

        with pytest.raises(SourceUnavailableError, match="xxx") as caught:
            asyncio.run(use())
        assert TOKEN[:4] not in str(caught.value)

    def test_it_exits_at_once(self):
        error = error_of("exit")
        assert isinstance(error, SourceUnavailableError)
        assert str(error) == (
            "source 'odd': the process ended with code 7 while it was being started; "
            "on standard error: first | no licence for *** "
            "(run its command by hand to see what is wrong)"
        )

    def test_it_hangs_in_the_handshake(self):
        error = error_of("silent", start_timeout=0.4)
        assert isinstance(error, SourceUnavailableError)
        assert "it did not list its tools within 0.4 s" in str(error)

    def test_it_hangs_in_its_list(self):
        error = error_of("hang-in-list", start_timeout=0.6)
        assert "it did not list its tools within 0.6 s" in str(error)

    def test_it_answers_nonsense(self):
        error = error_of("nonsense")
        assert isinstance(error, SourceAnswerError)
        assert "a message that is none" in str(error)

    def test_it_floods_from_the_start(self):
        error = error_of("flood")
        assert isinstance(error, SourceAnswerError)
        assert "floods its output" in str(error)

    @pytest.mark.parametrize("start", ["banner", "noisy"])
    def test_what_is_no_message_and_no_harm(self, start):
        async def use(server: McpServer) -> CallResult:
            return await server.call(call("say", text="hello"))

        assert run(use, start).text == "hello"

    def test_a_start_is_tried_again_by_the_next_call_only(self, tmp_path):
        counts = tmp_path / "starts"

        async def use(server: McpServer) -> list[CallResult]:
            return [await server.call(call("say", text="hello")) for _ in range(3)]

        first, second, third = run(use, "flaky", str(counts), "2")
        assert first.failure.kind == second.failure.kind == "unavailable"
        assert "code 9" in second.failure.message
        assert third.text == "hello"
        assert counts.read_text() == "3"


class TestList:
    def test_all_pages(self):
        async def use(server: McpServer) -> list[str]:
            return [api.id for api in await server.apis()]

        assert run(use, "pages") == ["odd__t0", "odd__t1", "odd__t2", "odd__t3"]

    @pytest.mark.parametrize(
        ("start", "problem"),
        [
            ("circle", "its list of tools goes in a circle at 'again'"),
            ("endless", "its list of tools has no end: 200 on 200 pages so far"),
            ("text-schema", "tool 3 of its list of tools cannot be used: inputSchema: Input"),
            ("twice", "it has several tools of the name 'say'"),
            ("bad-name", r"its tool 'two\nlines' cannot be used: its name must be"),
        ],
    )
    def test_one_that_cannot_be_used(self, start, problem):
        error = error_of(start)
        assert isinstance(error, SourceAnswerError)
        assert problem in str(error)

    def test_a_tool_whose_schema_is_none_is_left_out_and_named(self):
        async def use(server: McpServer) -> Loaded:
            return await Sources([server]).load()

        loaded = run(use, "no-schema")
        assert "odd__big" not in [api.id for api in loaded.apis]
        (problem,) = loaded.problems
        assert "'odd__big' cannot be checked, so it is left out: not a JSON Schema" in str(problem)

    def test_it_is_asked_for_anew_when_the_server_says_so(self):
        async def use(server: McpServer) -> tuple[int, int, CallResult]:
            before = len(await server.apis())
            assert not server.is_stale
            await server.call(call("change"))
            assert server.is_stale
            after = len(await server.apis())
            assert not server.is_stale
            return before, after, await server.call(call("new", text="hello"))

        before, after, new = run(use)
        assert after == before + 1
        assert new.text == "hello"

    def test_a_tool_that_changed_unseen_is_not_called(self, tmp_path):
        async def use(server: McpServer) -> tuple[list[str], CallResult, CallResult]:
            first = (await server.apis())[0].description
            await server.call(call("die"))  # the call after that starts it anew
            changed = await server.call(call("say", text="hello"))
            assert server.is_stale
            second = (await server.apis())[0].description
            return [first, second], changed, await server.call(call("say", text="hello"))

        versions, changed, after = run(use, "versions", str(tmp_path / "starts"))
        assert versions == ["Version 1", "Version 2"]
        assert (changed.failure.kind, changed.failure.was_done) == ("changed", "no")
        assert after.text == "hello"

    def test_a_tool_that_it_does_not_have(self):
        async def use(server: McpServer) -> None:
            with pytest.raises(UnknownApiError, match="did you mean 'odd__say'"):
                await server.call(call("sya"))
            with pytest.raises(UnknownApiError):
                await server.call(Call(api="even__say"))

        run(use)


class TestCall:
    def test_it_dies(self):
        async def use(server: McpServer) -> list[CallResult]:
            names = ("pid", "die", "pid", "pid")
            return [await server.call(call(name)) for name in names]

        before, lost, after, last = run(use)
        assert (lost.failure.kind, lost.failure.was_done) == ("lost", "unknown")
        assert lost.failure.message == (
            "the connection was lost: the process ended with code 3; "
            "on standard error: out of ink, ***"
        )
        assert after.text != before.text
        assert after.start_seconds > 0
        assert "connected anew: the process ended with code 3" in after.notes[0]
        assert (last.text, last.notes, last.start_seconds) == (after.text, (), None)

    def test_it_is_killed_between_calls(self):
        async def use(server: McpServer) -> CallResult:
            pid = int((await server.call(call("pid"))).text)
            os.kill(pid, signal.SIGKILL)
            assert server._connection is not None
            await server._connection.wait_over()
            return await server.call(call("say", text="hello"))

        result = run(use)
        assert result.text == "hello"
        assert "ended by SIGKILL" in result.notes[0]

    def test_parallel_calls_are_lost_together(self):
        async def use(server: McpServer) -> list[CallResult]:
            calls = [server.call(call(name)) for name in ("hang", "hang", "die")]
            return await asyncio.gather(*calls)

        assert {result.failure.kind for result in run(use)} == {"lost"}

    def test_no_answer_in_time(self):
        async def use(server: McpServer) -> tuple[CallResult, CallResult, CallResult]:
            await server.call(call("say"))
            late = await server.call(call("hang", timeout=0.2))
            return late, await server.call(call("cancelled")), await server.call(call("pid"))

        late, cancelled, pid = run(use)
        assert (late.failure.kind, late.failure.was_done) == ("timeout", "unknown")
        assert late.failure.message == "no answer within 0.2 s"
        assert 0.2 <= late.seconds < 5
        assert cancelled.data == 1
        assert pid.start_seconds is None

    def test_one_that_never_answers_again_is_started_anew(self, monkeypatch):
        monkeypatch.setattr("cnp_router.sources.mcp_server._PROBE_SECONDS", 0.2)

        async def use(server: McpServer) -> tuple[CallResult, CallResult]:
            return (
                await server.call(call("block", timeout=0.2)),
                await server.call(call("say", text="hello")),
            )

        late, after = run(use)
        assert late.failure.kind == "timeout"
        assert after.text == "hello"
        assert "did not answer any more" in after.notes[0]

    def test_cancelling_tells_the_server_and_leaves_it_usable(self):
        async def use(server: McpServer) -> tuple[CallResult, CallResult]:
            pid = await server.call(call("pid"))
            task = asyncio.create_task(server.call(call("hang")))
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            assert (await server.call(call("cancelled"))).data == 1
            return pid, await server.call(call("pid"))

        before, after = run(use)
        assert before.text == after.text

    def test_progress(self):
        steps: list[CallProgress] = []

        async def use(server: McpServer) -> CallResult:
            inputs = {"n": 3}
            return await server.call(
                Call(api="odd__progress", inputs=inputs, on_progress=steps.append)
            )

        assert run(use).text == "done"
        assert steps == [CallProgress(n, 3.0, "step") for n in (1.0, 2.0, 3.0)]

    def test_a_callback_that_fails_is_noted(self):
        async def use(server: McpServer) -> CallResult:
            return await server.call(
                Call(api="odd__progress", inputs={"n": 3}, on_progress=lambda step: 1 / 0)
            )

        result = run(use)
        assert result.text == "done"
        assert result.notes == ("on_progress raised ZeroDivisionError",)

    def test_its_wishes_are_declined_and_noted(self):
        result = one("ask")
        assert result.data == {
            "sampling/createMessage": -32600,
            "elicitation/create": -32600,
            "roots/list": -32600,
        }
        assert result.notes == (
            "declined: the server asked for a model's answer (sampling)",
            "declined: the server asked for an answer of the user (elicitation)",
            "declined: the server asked for the user's folders (roots)",
        )

    def test_the_key_goes_along(self):
        async def use(server: McpServer) -> list[CallResult]:
            return [
                await server.call(Call(api="odd__key", key="job-1")),
                await server.call(Call(api="odd__key")),
            ]

        assert [result.data for result in run(use)] == ["job-1", None]

    @pytest.mark.parametrize(
        ("code", "kind", "was_done"),
        [
            (-32602, "inputs", "no"),
            (-32601, "unusable", "no"),
            (-32600, "unusable", "no"),
            (-32042, "permission", "no"),
            (-32603, "tool", "unknown"),
            (-32000, "lost", "unknown"),
            (17, "tool", "unknown"),
        ],
    )
    def test_errors_of_the_protocol(self, code, kind, was_done):
        failure = one("error", code=code, message=f"it is {TOKEN}").failure
        assert (failure.kind, failure.was_done, failure.message) == (kind, was_done, "it is ***")

    @pytest.mark.parametrize(
        "result",
        [
            {"content": "text"},
            {"content": [{"type": "hologram"}]},
            {"content": [{"type": "image", "data": "no base 64", "mimeType": "image/png"}]},
            {"unheard": "of"},
        ],
    )
    def test_an_answer_that_is_none(self, result):
        failure = one("result", **result).failure
        assert (failure.kind, failure.was_done) == ("unusable", "unknown")

    @pytest.mark.parametrize(
        ("structured", "problem"),
        [
            ({"code": "aaa"}, None),
            ({"code": 7}, "its structured result is not as promised: .code: 7 is not of type"),
            ({"code": "a" * 60 + "!"}, "does not match '^(a+)+$'"),  # `re` would take years
            (None, "its tool promises a structured result, and gives none"),
        ],
    )
    def test_a_structured_result_is_checked(self, structured, problem):
        async def use(server: McpServer) -> CallResult:
            fields = {} if structured is None else {"structuredContent": structured}
            return await server.call(call("result", content=[], **fields))

        result = run(use, "promise")
        if problem is None:
            assert result.data == structured
        else:
            assert result.failure.kind == "unusable"
            assert problem in result.failure.message

    def test_nonsense_in_a_call_ends_the_connection(self):
        async def use(server: McpServer) -> tuple[CallResult, CallResult]:
            return (
                await server.call(call("line", line='{"jsonrpc": "2.0", "id": 7, ')),
                await server.call(call("say", text="hello")),
            )

        result, after = run(use)
        assert (result.failure.kind, result.failure.was_done) == ("unusable", "unknown")
        assert "a message that is none" in result.failure.message
        assert after.text == "hello"

    @pytest.mark.parametrize("line", ["You have mail.", '{"level": 30, "msg": "hello"}', "{", ""])
    def test_what_is_printed_between_messages_is_no_harm(self, line):
        assert one("line", line=line, answer=True).text == "answered"


class TestSize:
    def test_a_long_text_is_cut(self):
        async def use(server: McpServer) -> CallResult:
            return await server.call(call("big", n=50_000))

        result = run(use, max_bytes=1_000)
        assert (len(result.text), result.n_bytes, result.is_cut) == (1_000, 50_000, True)

    def test_an_image_that_is_too_large_is_left_out(self):
        async def use(server: McpServer) -> CallResult:
            return await server.call(call("image", n=1_000))

        result = run(use, max_bytes=1_000)
        assert (result.attachments[0].data, result.n_bytes, result.is_cut) == (b"", 3_000, True)

    def test_a_message_that_is_far_too_large_ends_the_connection(self):
        async def use(server: McpServer) -> tuple[CallResult, CallResult]:
            return (
                await server.call(call("big", n=5_000_000)),
                await server.call(call("say", text="hello")),
            )

        result, after = run(use, max_bytes=1_000)
        assert (result.failure.kind, result.failure.was_done) == ("unusable", "unknown")
        assert "a message of more than 4,000,000 bytes" in result.failure.message
        assert after.text == "hello"

    @pytest.mark.parametrize("kind", ["answers", "line", "notes", "requests", "text"])
    def test_floods_fill_no_memory(self, kind):
        async def use(server: McpServer) -> CallResult:
            await server.call(call("say"))
            tracemalloc.start()
            try:
                result = await server.call(call("flood", kind=kind, timeout=60))
                assert tracemalloc.get_traced_memory()[1] < 60_000_000
            finally:
                tracemalloc.stop()
            assert (await server.call(call("say", text="hello"))).text == "hello"
            return result

        failure = run(use, max_bytes=1_000).failure
        assert (failure.kind, failure.was_done) == ("unusable", "unknown")


class TestEnd:
    def test_closing_twice(self):
        async def use() -> None:
            server = odd()
            await server.call(call("say"))
            await server.aclose()
            await server.aclose()

        asyncio.run(use())

    def test_closing_what_is_being_started(self):
        async def use() -> CallResult:
            server = odd("silent")
            task = asyncio.create_task(server.call(call("say")))
            await asyncio.sleep(0.3)
            await server.aclose()
            return await task

        assert asyncio.run(use()).failure.kind == "unavailable"

    def test_closing_in_a_call(self):
        async def use() -> CallResult:
            server = odd()
            await server.call(call("say"))
            task = asyncio.create_task(server.call(call("hang")))
            await asyncio.sleep(0.1)
            await server.aclose()
            return await task

        assert asyncio.run(use()).failure.kind == "lost"

    def test_closing_in_another_task_than_the_one_that_started(self):
        async def use() -> None:
            servers = [odd() for _ in range(3)]
            await asyncio.gather(*(server.call(call("say")) for server in servers))
            for server in servers:
                await asyncio.create_task(server.aclose())

        asyncio.run(use())

    def test_a_program_that_is_cancelled(self):
        async def use() -> None:
            async with odd() as server:
                await server.call(call("hang"))

        async def whole() -> None:
            task = asyncio.create_task(use())
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()

        asyncio.run(whole())

    def test_children_end_with_it_also_those_that_left_the_group(self, tmp_path):
        file = tmp_path / "pids"

        async def use(server: McpServer) -> list[int]:
            await server.call(call("say"))
            pids = json.loads(file.read_text())
            assert all(is_alive(pid) for pid in pids)
            return pids

        pids = run(use, "children", str(file))
        assert not any(is_alive(pid) for pid in pids)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
    def test_nothing_outlives_a_program_that_is_ended(self, tmp_path, number):
        file = tmp_path / "pids"
        program = textwrap.dedent(f"""
            import asyncio, sys
            from cnp_router.sources import Call, McpServer

            async def use():
                server = McpServer(
                    "odd", command=sys.executable, grace=0.1,
                    args=[{str(SCRIPTS / "odd.py")!r}, "children", {str(file)!r}],
                )
                async with server:
                    await server.call(Call(api="odd__say"))
                    print("ready", flush=True)
                    await server.call(Call(api="odd__hang", timeout=100))

            asyncio.run(use())
        """)
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == b"ready\n"
            pids = json.loads(file.read_text())
            assert all(is_alive(pid) for pid in pids)
            process.send_signal(number)
            process.wait(20)
        assert wait_until(lambda: not any(is_alive(pid) for pid in pids))

    def test_elsewhere_than_on_linux_the_group_ends(self, tmp_path):
        file = tmp_path / "pids"
        program = (
            f"import sys; sys.platform = 'darwin'; sys.path.insert(0, {str(LAUNCHER.parent)!r})"
        )
        program += "; import mcp_launcher; sys.exit(mcp_launcher.main(int(sys.argv[1]), 0.2,"
        program += "sys.argv[2:]))"
        entry = script_entry("odd", "children", str(file))
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(os.getpid()), entry["command"], *entry["args"]],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        assert wait_until(lambda: file.exists() and file.read_text().endswith("]"))
        server, in_group, left = json.loads(file.read_text())
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 128 + signal.SIGKILL
        assert wait_until(lambda: not (is_alive(server) or is_alive(in_group)))
        assert is_alive(left)  # as documented
        os.kill(left, signal.SIGKILL)
        assert wait_until(lambda: not is_alive(left))

    def test_a_launcher_that_was_killed(self):
        async def use(server: McpServer) -> int:
            pid = int((await server.call(call("pid"))).text)
            launcher = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(launcher, signal.SIGKILL)
            return pid

        pid = run(use)
        assert wait_until(lambda: not is_alive(pid))

    def test_a_source_that_nobody_closed(self):
        async def use() -> float:
            server = odd()
            await server.call(call("say"))
            return time.monotonic()

        asyncio.run(use())


def test_secrets_are_not_shown():
    server = odd()
    assert TOKEN not in repr(server) + repr(vars(server).get("_connection"))
