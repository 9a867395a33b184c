"""Servers behind a URL: those that speak the protocol, and those that do not."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.server import Server
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ImageContent,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tool_servers import no_process_left, served, wait_until

from cnp_router.exceptions import SourceAnswerError, SourceError, SourceUnavailableError
from cnp_router.sources import Call, CallProgress, CallResult, McpServer

SECRET = "Bearer 7f3a-very-secret"
ERAS = ("auto", "legacy")


@pytest.fixture(autouse=True)
def nothing_left(capfd) -> Iterator[None]:
    threads = set(threading.enumerate())
    with no_process_left():
        yield
    assert wait_until(lambda: set(threading.enumerate()) <= threads)
    written = capfd.readouterr()
    assert (written.out, written.err) == ("", "")


def run(url: str, use: Callable[[McpServer], Awaitable[Any]], **settings: Any) -> Any:
    async def whole() -> Any:
        async with McpServer("web", url=url, **{"backoff": (0.01, 0.05), **settings}) as server:
            return await use(server)

    return asyncio.run(whole())


def call(tool: str, *, timeout: float = 20.0, **inputs: Any) -> Call:
    return Call(api=f"web__{tool}", inputs=inputs, timeout=timeout)


class Good:
    """A server as it should be."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.begun = threading.Event()
        self.n_cancelled = 0
        names = ("say", "wait", "wish", "count", "picture", "headers")
        self.tools = [Tool(name=name, input_schema={"type": "object"}) for name in names]
        self.server = Server("good", on_list_tools=self.list, on_call_tool=self.call)

    def app(self, **settings: Any) -> Any:
        return self.server.streamable_http_app(**settings)

    async def list(self, context: Any, params: Any) -> ListToolsResult:
        """Give two tools a page."""
        begin = int(params.cursor) if params is not None and params.cursor else 0
        more = str(begin + 2) if begin + 2 < len(self.tools) else None
        return ListToolsResult(tools=self.tools[begin : begin + 2], next_cursor=more)

    async def call(self, context: Any, params: CallToolRequestParams) -> Any:
        inputs = params.arguments or {}
        if params.name == "wait":
            self.begun.set()
            try:
                await asyncio.sleep(inputs.get("seconds", 100))
            except asyncio.CancelledError:
                self.n_cancelled += 1
                raise
        if params.name == "wish":
            form = {"type": "object", "properties": {}}
            wish = ElicitRequestFormParams(message="Your password?", requested_schema=form)
            if context.protocol_version >= "2026":
                return InputRequiredResult(input_requests={"it": ElicitRequest(params=wish)})
            await context.session.elicit_form("Your password?", form, context.request_id)
        if params.name == "count":
            for done in (1, 2):
                await context.session.report_progress(done, 2, "counting")
        if params.name == "picture":
            image = ImageContent(data="iVBORw0KGgo=", mime_type="image/png")
            return CallToolResult(content=[image], structured_content={"width": 1})
        if params.name == "headers":
            self.headers.append(dict(context.request.headers))
        return CallToolResult(content=[TextContent(text=inputs.get("text", ""))])


@pytest.fixture
def good() -> Good:
    return Good()


@pytest.mark.parametrize("mode", ERAS)
class TestGood:
    def test_listed_and_called(self, good, mode):
        async def use(server: McpServer) -> tuple[list[str], CallResult, CallResult, str]:
            ids = [api.id for api in await server.apis()]
            first = await server.call(call("say", text="Grüße"))
            assert server._connection is not None
            version = server._connection.client.protocol_version
            return ids, first, await server.call(call("picture")), version

        with served(good.app()) as url:
            ids, said, picture, version = run(f"{url}/mcp", use, mode=mode)
        assert ids == [f"web__{tool.name}" for tool in good.tools]
        assert said.text == "Grüße" and said.start_seconds > 0
        assert picture.attachments[0].data == b"\x89PNG\r\n\x1a\n"
        assert picture.data == {"width": 1}
        assert version == ("2026-07-28" if mode == "auto" else "2025-11-25")

    def test_headers_and_auth_go_along(self, good, mode):
        class Auth(httpx2.Auth):
            def auth_flow(self, request):
                request.headers["X-Signed"] = "yes"
                yield request

        async def use(server: McpServer) -> None:
            assert (await server.call(call("headers"))).is_done
            assert "secret" not in repr(server)

        with served(good.app()) as url:
            settings = {"headers": {"Authorization": SECRET}, "auth": Auth()}
            run(f"{url}/mcp", use, mode=mode, **settings)
        assert good.headers[0]["authorization"] == SECRET
        assert good.headers[0]["x-signed"] == "yes"

    def test_progress(self, good, mode):
        steps: list[CallProgress] = []

        async def use(server: McpServer) -> CallResult:
            return await server.call(Call(api="web__count", on_progress=steps.append))

        with served(good.app()) as url:
            assert run(f"{url}/mcp", use, mode=mode).is_done
        assert [(step.done, step.total, step.message) for step in steps] == [
            (1, 2, "counting"),
            (2, 2, "counting"),
        ]

    def test_no_answer_in_time(self, good, mode):
        async def use(server: McpServer) -> tuple[CallResult, CallResult]:
            await server.apis()
            return (
                await server.call(call("wait", timeout=1.5)),
                await server.call(call("say", text="still here")),
            )

        with served(good.app()) as url:
            late, after = run(f"{url}/mcp", use, mode=mode)
            assert wait_until(lambda: good.n_cancelled == 1)
        assert (late.failure.kind, late.failure.was_done) == ("timeout", "unknown")
        assert (after.text, after.start_seconds) == ("still here", None)

    def test_cancelling_tells_the_server(self, good, mode):
        async def use(server: McpServer) -> CallResult:
            await server.apis()
            task = asyncio.create_task(server.call(call("wait")))
            assert await asyncio.to_thread(good.begun.wait, 20)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            return await server.call(call("say", text="still here"))

        with served(good.app()) as url:
            after = run(f"{url}/mcp", use, mode=mode)
            assert wait_until(lambda: good.n_cancelled == 1)
        assert (after.text, after.start_seconds) == ("still here", None)

    def test_its_wishes_are_declined_and_noted(self, good, mode):
        async def use(server: McpServer) -> CallResult:
            return await server.call(call("wish"))

        with served(good.app()) as url:
            result = run(f"{url}/mcp", use, mode=mode)
        assert not result.is_done
        assert result.notes == (
            "declined: the server asked for an answer of the user (elicitation)",
        )

    def test_it_goes_away_and_comes_back(self, good, mode):
        async def use(server: McpServer) -> tuple[CallResult, CallResult]:
            assert (await server.call(call("say"))).is_done
            ends.close()
            gone = await server.call(call("say"))
            with served_at(port, Good().app()):
                return gone, await server.call(call("say", text="back"))

        with socket.create_server(("127.0.0.1", 0)) as place:
            port = place.getsockname()[1]
        ends = contextlib.ExitStack()
        ends.enter_context(served_at(port, good.app()))
        with ends:
            gone, back = run(f"http://127.0.0.1:{port}/mcp", use, mode=mode)
        assert (gone.failure.kind, gone.failure.was_done) == ("unavailable", "no")
        assert back.text == "back"
        assert "connected anew" in back.notes[0]

    def test_it_is_lost_in_a_call(self, good, mode):
        async def use(server: McpServer) -> CallResult:
            await server.apis()
            task = asyncio.create_task(server.call(call("wait")))
            await asyncio.sleep(0.3)
            await asyncio.to_thread(ends.close)
            return await task

        ends = contextlib.ExitStack()
        url = ends.enter_context(served(good.app()))
        with ends:
            result = run(f"{url}/mcp", use, mode=mode)
        assert result.failure.was_done == "unknown"
        assert result.failure.kind in ("lost", "tool", "unusable")  # it may still say something


@contextlib.contextmanager
def served_at(port: int, app: Any) -> Iterator[None]:
    """Serve at a given port."""
    place = socket.create_server(("127.0.0.1", port))
    with served(app, place):
        yield


class Quiet(ThreadingHTTPServer):
    """A server that does not mind clients that go away."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class Raw:
    """A server that answers what it is told, message by message."""

    def __init__(
        self, answers: Callable[[dict[str, Any]], Any], session: str | None = None
    ) -> None:
        self.answers = answers
        self.session = session
        self.on_delete: Callable[[], object] = lambda: None
        self.n_calls = 0

    @contextlib.contextmanager
    def served(self) -> Iterator[str]:
        raw = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            is_last = False

            def end_headers(self) -> None:
                if self.is_last:  # or the client may send the next request where nobody reads it
                    self.send_header("Connection", "close")
                super().end_headers()

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                message = json.loads(self.rfile.read(length))
                raw.n_calls += message.get("method") == "tools/call"
                answer = raw.answers(message)
                if callable(answer):
                    self.is_last = True
                    with contextlib.suppress(OSError):
                        answer(self)
                    self.close_connection = True
                    return
                status, body, kind = answer
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                if raw.session is not None:
                    self.send_header("mcp-session-id", raw.session)
                self.end_headers()
                self.wfile.write(body)

            def do_DELETE(self) -> None:
                raw.on_delete()
                self.do_GET()

            def do_GET(self) -> None:
                with contextlib.suppress(OSError):
                    self.send_error(405)

            def log_message(self, *args: object) -> None:
                pass

        server = Quiet(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def answered(message: dict[str, Any], **fields: Any) -> tuple[int, bytes, str]:
    body = {"jsonrpc": "2.0", "id": message.get("id"), **fields}
    return 200, json.dumps(body).encode(), "application/json"


def plain(message: dict[str, Any]) -> Any:
    """Answer as a server of the older era does."""
    method = message["method"]
    if method == "initialize":
        result: dict[str, Any] = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "said"}]}
    elif method.startswith("notifications/"):
        return 202, b"", "text/plain"
    else:
        return answered(message, error={"code": -32601, "message": "no such method"})
    return answered(message, result=result)


def in_call(answer: Any) -> Callable[[dict[str, Any]], Any]:
    """Answer calls in some other way than that."""

    def answers(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/call":
            return answer(message) if callable(answer) else answer
        return plain(message)

    return answers


def result_of(answer: Any, **settings: Any) -> CallResult:
    async def use(server: McpServer) -> CallResult:
        await server.apis()
        result = await server.call(call("say", timeout=5))
        raw.answers = plain
        assert (await server.call(call("say"))).text == "said"
        return result

    raw = Raw(in_call(answer))
    with raw.served() as url:
        result: CallResult = run(url, use, **settings)
    assert raw.n_calls == 2, "it was sent again"
    return result


def error_of(url: str, **settings: Any) -> SourceError:
    async def use(server: McpServer) -> SourceError:
        with pytest.raises(SourceError) as caught:
            await server.apis()
        result = await server.call(call("say"))
        assert result.failure is not None and result.failure.was_done == "no"
        return caught.value

    error: SourceError = run(url, use, **settings)
    return error


class TestStart:
    def test_nobody_there(self):
        with socket.create_server(("127.0.0.1", 0)) as place:
            port = place.getsockname()[1]
        error = error_of(f"http://127.0.0.1:{port}/mcp?token=hidden")
        assert isinstance(error, SourceUnavailableError)
        assert str(error) == (
            f"source 'web': no connection to 127.0.0.1:{port}: All connection attempts failed "
            "(check its address, and that it runs)"
        )

    def test_a_web_page(self):
        page = (200, b"<html><body>Welcome!</body></html>", "text/html")
        with Raw(lambda message: page).served() as url:
            error = error_of(url)
        assert isinstance(error, SourceAnswerError)
        assert str(error) == (
            "source 'web': it does not answer as an MCP server does: "
            "Unexpected content type: text/html"
        )

    @pytest.mark.parametrize("status", [404, 500])
    def test_another_status(self, status):
        with Raw(lambda message: (status, b"<html>", "text/html")).served() as url:
            error = error_of(url)
        assert isinstance(error, SourceAnswerError)
        assert f"HTTP {status}" in str(error)

    def test_no_right(self):
        with Raw(lambda message: (401, b"{}", "application/json")).served() as url:
            error = error_of(url, headers={"Authorization": SECRET})
        assert "HTTP 401 Unauthorized" in str(error)
        assert "secret" not in str(error)

    def test_nonsense(self):
        with Raw(lambda message: (200, b'{"a": ', "application/json")).served() as url:
            error = error_of(url)
        assert isinstance(error, SourceAnswerError)
        assert "Failed to parse JSON response" in str(error)

    def test_a_redirect_to_somebody_else_is_not_followed(self):
        def elsewhere(handler: Any) -> None:
            handler.send_response(307)
            handler.send_header("Location", f"{other}?token=hidden")
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        asked = Raw(plain)
        with asked.served() as other, Raw(lambda message: elsewhere).served() as url:
            error = error_of(url)
        assert f"Redirect to {other} not followed" in str(error)

    def test_an_authorisation_that_fails(self):
        class Auth(httpx2.Auth):
            def auth_flow(self, request):
                raise PermissionError("nobody is there to log in")

        with Raw(plain).served() as url:
            error = error_of(url, auth=Auth())
        assert "PermissionError: nobody is there to log in" in str(error)

    def test_a_server_that_hangs_when_it_is_left(self, monkeypatch):
        monkeypatch.setattr("cnp_router.sources.mcp_http._PATIENCE", 0.2)
        end = threading.Event()

        async def use(server: McpServer) -> CallResult:
            result = await server.call(call("say"))
            raw.on_delete = lambda: end.wait(10)
            return result

        raw = Raw(plain, session="one")
        with raw.served() as url:
            try:
                assert run(url, use).text == "said"
            finally:
                end.set()

    def test_silence(self):
        end = threading.Event()
        with Raw(lambda message: lambda handler: end.wait(10)).served() as url:
            try:
                error = error_of(url, start_timeout=0.3)
            finally:
                end.set()
        assert isinstance(error, SourceUnavailableError)
        assert "it did not list its tools within 0.3 s" in str(error)


class TestCall:
    @pytest.mark.parametrize(
        ("status", "kind", "was_done"),
        [
            (401, "permission", "no"),
            (403, "permission", "no"),
            (404, "unavailable", "no"),
            (418, "unusable", "no"),
            (408, "busy", "unknown"),
            (425, "busy", "no"),
            (429, "busy", "no"),
            (500, "unusable", "unknown"),
            (502, "unusable", "unknown"),
            (503, "busy", "unknown"),
        ],
    )
    def test_another_status(self, status, kind, was_done):
        failure = result_of((status, b"<html>", "text/html")).failure
        assert (failure.kind, failure.was_done) == (kind, was_done)
        assert f"HTTP {status}" in failure.message

    @pytest.mark.parametrize("status", [408, 503])
    def test_a_server_that_says_when_to_come_again_did_not_act(self, status):
        def later(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            handler.send_header("Retry-After", "3")
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        failure = result_of(lambda message: later).failure
        assert (failure.kind, failure.was_done) == ("busy", "no")

    def test_a_message_that_echoes_a_secret(self):
        def echo(message: dict[str, Any]) -> Any:
            return answered(message, error={"code": -32602, "message": f"not {SECRET}"})

        failure = result_of(echo, headers={"Authorization": SECRET}).failure
        assert (failure.kind, failure.message) == ("inputs", "not ***")

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
    def test_a_number_that_json_does_not_know(self, number):
        def odd(message: dict[str, Any]) -> Any:
            structured = {"content": [], "structuredContent": {"a": "?"}}
            status, body, kind = answered(message, result=structured)
            return status, body.replace(b'"?"', number.encode()), kind

        failure = result_of(odd).failure
        assert (failure.kind, failure.was_done) == ("unusable", "unknown")

    def test_it_breaks_off(self):
        def broken(handler: Any) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"jsonrpc"')

        failure = result_of(lambda message: broken).failure
        assert (failure.kind, failure.was_done) == ("lost", "unknown")

    def test_it_breaks_off_without_a_word(self):
        failure = result_of(lambda message: lambda handler: None).failure
        assert (failure.kind, failure.was_done) == ("lost", "unknown")

    def test_a_stream_that_ends_too_early(self):
        stream = (200, b'event: message\ndata: {"jsonrpc": "2.0"', "text/event-stream")
        failure = result_of(stream).failure
        assert (failure.kind, failure.was_done) == ("lost", "unknown")

    @pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
    def test_floods(self, kind):
        def flood(handler: Any) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", kind)
            handler.end_headers()
            for _ in range(2_000):
                handler.wfile.write(b'data: "' + b"x" * 65_000)
                if kind != "application/json":
                    handler.wfile.write(b'"\n\n')

        result = result_of(lambda message: flood, max_bytes=1_000)
        assert result.failure.was_done == "unknown"
        assert result.failure.kind in ("unusable", "lost")

    def test_a_compressed_answer_is_not_read(self):
        def packed(handler: Any) -> None:
            body = gzip.compress(b"x" * 50_000_000)
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Encoding", "gzip")
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

        failure = result_of(lambda message: packed).failure
        assert (failure.kind, failure.was_done) == ("unusable", "unknown")
        assert "a compressed answer" in failure.message

    def test_parallel_failures_are_each_its_own(self):
        async def use(server: McpServer) -> list[CallResult]:
            await server.apis()
            raw.answers = in_call(mixed)
            texts = ("bad", "good") * 5
            return await asyncio.gather(*(server.call(call("say", text=t)) for t in texts))

        def mixed(message: dict[str, Any]) -> Any:
            if message["params"]["arguments"]["text"] == "bad":
                return lambda handler: None
            return plain(message)

        raw = Raw(plain)
        with raw.served() as url:
            results = run(url, use)
        assert [result.is_done for result in results] == [False, True] * 5


def test_a_session_that_the_server_forgot():
    """A server that was started anew does not know the session: the call was not done."""

    async def use(server: McpServer) -> list[CallResult]:
        results = [await server.call(call("say", text="one"))]
        sessions = good.server.session_manager._server_instances
        sessions.clear()
        return [*results, *[await server.call(call("say", text="two")) for _ in range(2)]]

    good = Good()
    with served(good.app()) as url:
        first, gone, back = run(f"{url}/mcp", use, mode="legacy")
    assert first.text == "one"
    assert (gone.failure.kind, gone.failure.was_done) == ("unavailable", "no")
    assert back.text == "two"


def test_oauth_as_the_sdk_offers_it(good):
    """Discovery, a token for client credentials, and calls with it."""
    place = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{place.getsockname()[1]}"
    asked: list[str] = []

    async def metadata(request: Request) -> JSONResponse:
        return JSONResponse(
            {
                "issuer": url,
                "authorization_endpoint": f"{url}/authorize",
                "token_endpoint": f"{url}/token",
                "response_types_supported": ["code"],
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            }
        )

    async def token(request: Request) -> JSONResponse:
        asked.append((await request.body()).decode())
        return JSONResponse({"access_token": SECRET, "token_type": "Bearer", "expires_in": 3600})

    class Verifier:
        async def verify_token(self, token: str) -> AccessToken | None:
            return AccessToken(token=token, client_id="me", scopes=[]) if token == SECRET else None

    class Storage:
        tokens: Any = None

        async def get_tokens(self) -> Any:
            return self.tokens

        async def set_tokens(self, tokens: Any) -> None:
            self.tokens = tokens

        async def get_client_info(self) -> Any:
            return None

        async def set_client_info(self, client_info: Any) -> None:
            pass

    async def use(server: McpServer) -> CallResult:
        return await server.call(call("say", text="hello"))

    app = good.app(
        auth=AuthSettings(issuer_url=url, resource_server_url=url, validate_token_resource=False),
        token_verifier=Verifier(),
        custom_starlette_routes=[
            Route("/.well-known/oauth-authorization-server", metadata),
            Route("/token", token, methods=["POST"]),
        ],
    )
    auth = ClientCredentialsOAuthProvider(url, Storage(), "me", "my secret", issuer=url)
    with served(app, place):
        assert run(f"{url}/mcp", use, auth=auth).text == "hello"
        error = error_of(f"{url}/mcp")
    assert len(asked) == 1 and "grant_type=client_credentials" in asked[0]
    assert "HTTP 401" in str(error)
