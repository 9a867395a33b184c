"""A2A agents, against the SDK's own server on this machine."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("a2a.server.routes")

from a2a.types import AgentInterface, AgentSkill
from a2a_server import serve, serving
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from cnp_router.exceptions import (
    InputError,
    MissingExtraError,
    SourceAnswerError,
    SourceError,
    SourceUnavailableError,
    UnknownApiError,
)
from cnp_router.sources import Attachment, Call
from cnp_router.sources.a2a_agent import A2aAgent

KEY = "Bearer zq81-secret-77xw"


@pytest.fixture(autouse=True)
def quiet():
    """The server logs what its agent raises, and what a card lacks: both are meant here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run(coroutine):
    """Run it; no task of the source may be left when it is done."""

    async def checked():
        async with asyncio.timeout(20):
            value = await coroutine
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert [each for each in left if "sse_starlette" not in repr(each)] == []  # the server's
        return value

    return asyncio.run(checked())


@asynccontextmanager
async def agent(streaming=True, options=None, **server):
    given = {"poll_seconds": 0.05, **(options or {})}
    async with (
        serve(streaming=streaming, **server) as (url, behind),
        A2aAgent("w", url, **given) as source,
    ):
        yield source, behind


async def ask(source, text, **fields):
    return await source.call(Call(api="w__forecast", inputs={"text": text}, **fields))


def asked(text, *, streaming=True, options=None, binding="JSONRPC", **fields):
    """Ask the agent once."""

    async def once():
        async with agent(streaming, options, binding=binding) as (source, _):
            return await ask(source, text, **fields)

    return run(once())


both = pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "polling"])


def test_skills_are_tools():
    async def tools():
        async with agent() as (source, _):
            return await source.apis()

    forecast, sea = run(tools())
    assert (forecast.id, forecast.name, forecast.effects) == ("w__forecast", "Forecast", "unknown")
    assert forecast.description == (
        "Forecasts the weather. Examples: Will it rain in Oslo?; Is it windy?"
    )
    assert forecast.categories == ("Weather", "Science")
    assert list(forecast.parameters["properties"]) == forecast.parameters["required"] == ["text"]
    assert (sea.id, sea.categories, sea.description) == ("w__sea", (), "Tells the tides.")


def test_an_agent_without_skills_is_one_tool():
    async def tools():
        async with agent(skills=()) as (source, _):
            (api,) = await source.apis()
            result = await source.call(Call(api=api.id, inputs={"text": "say hi"}))
            return api, result

    api, result = run(tools())
    assert (api.id, api.name) == ("w__ask", "Weather & Sea: an agent!")
    assert api.description == "Knows the weather."
    assert result.text == "hi"


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@both
def test_an_answer(streaming, binding):
    result = asked("say sunny", streaming=streaming, binding=binding)
    assert result.is_done
    assert (result.text, result.structured, result.n_bytes) == ("sunny", None, 5)
    assert result.start_seconds > 0
    assert result.seconds > 0
    assert result.notes == ()


def before(card):
    card.supported_interfaces[0].protocol_version = "0.3"
    return card


@both
@pytest.mark.parametrize(
    ("text", "said"), [("say a", None), ("fail no", "no"), ("ask which?", "which?")]
)
def test_an_agent_of_the_protocol_before(streaming, text, said):
    async def once():
        async with agent(streaming, change=before) as (source, _):
            return await ask(source, text)

    result = run(once())
    assert result.text == (said or "a")
    assert (result.failure and result.failure.message) == said


@both
def test_answers_without_an_artifact(streaming):
    assert asked("message at once", streaming=streaming).text == "at once"
    assert asked("end at last", streaming=streaming).text == "at last"
    nothing = asked("nothing", streaming=streaming)
    assert (nothing.is_done, nothing.text) == (True, "")


def test_pieces_of_a_streamed_artifact_are_put_together():
    assert asked("chunks It ra|ins in |Oslo.").text == "It rains in Oslo."


@both
def test_parts_of_all_kinds(streaming):
    result = asked("parts", streaming=streaming)
    assert result.text == "one\ntwo"
    assert result.structured == {
        "rain": True,
        "mm": 3,
        "share": 0.5,
        "hours": [1, 2],
        "none": None,
    }
    assert isinstance(result.structured["mm"], int)
    assert list(result.structured) == sorted(result.structured)
    assert result.attachments == (
        Attachment("image/png", b"\x89PNG"),
        Attachment("image/png", uri="https://example.org/map.png"),
    )


@both
@pytest.mark.parametrize(
    ("text", "kind", "was_done", "said"),
    [
        ("fail no such place", "tool", "no", "no such place"),
        ("reject not mine", "tool", "no", "not mine"),
        ("stop tired", "tool", "unknown", "tired"),
        ("ask Which city?", "inputs", "unknown", "Which city?"),
        ("auth Log in first.", "permission", "no", "Log in first."),
    ],
)
def test_tasks_that_do_not_end_well(streaming, text, kind, was_done, said):
    async def once():
        async with agent(streaming) as (source, behind):
            result = await ask(source, text)
            return result, behind.cancelled, await ask(source, "say on")

    result, cancelled, after = run(once())
    assert (result.failure.kind, result.failure.message) == (kind, said)
    assert result.failure.was_done == was_done
    assert len(cancelled) == (kind in ("inputs", "permission"))  # it would wait for ever
    assert after.text == "on"


@both
def test_an_agent_that_raises(streaming):
    result = asked("raise boom", streaming=streaming)
    assert result.failure.kind == "tool"
    # Without streaming, the task says only that it failed.
    said = "boom" if streaming else "the agent failed, and does not say why"
    assert result.failure.message == said


@both
def test_progress_is_passed_on(streaming):
    seen = []

    async def once():
        async with agent(streaming) as (source, behind):
            task = asyncio.create_task(ask(source, "wait", on_progress=seen.append))
            await behind.begun.wait()
            while not seen:
                await asyncio.sleep(0.01)
            behind.gate.set()
            return await task

    assert run(once()).text == "waited"
    assert [(each.done, each.message) for each in seen] == [(1.0, "looking")]


@both
@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_giving_up_cancels_the_task_and_leaves_the_agent_usable(streaming, how):
    async def give_up():
        async with agent(streaming) as (source, behind):
            if how == "timeout":
                result = await ask(source, "wait", timeout=2.0)
                assert (result.failure.kind, result.failure.was_done) == ("timeout", "unknown")
                assert result.notes == ()
            else:
                heard = asyncio.Event()
                said = ask(source, "wait", on_progress=lambda step: heard.set())
                task = asyncio.create_task(said)
                await heard.wait()  # the agent's first word is here
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            return len(behind.cancelled), await ask(source, "say again")

    cancelled, after = run(give_up())
    assert cancelled == 1
    assert (after.text, after.start_seconds) == ("again", None)


def test_the_key_is_the_id_of_the_message():
    async def twice():
        async with agent() as (source, behind):
            await ask(source, "say a", key="act-1")
            await ask(source, "say b")
            await ask(source, "say c")
            return [message.message_id for message in behind.asked]

    first, second, third = run(twice())
    assert first == "act-1"
    assert len({first, second, third}) == 3


def test_many_calls_at_once():
    async def many():
        async with agent() as (source, _):
            results = await asyncio.gather(*(ask(source, f"say {n}") for n in range(20)))
            return results

    results = run(many())
    assert [result.text for result in results] == [str(n) for n in range(20)]
    assert sum(result.start_seconds is not None for result in results) == 1


def test_a_large_answer_is_cut_and_a_flood_is_not_read():
    large = asked("flood 12", options={"max_bytes": 10_000})
    assert (len(large.text), large.n_bytes, large.is_cut) == (10_000, 12_000, True)

    async def flood():
        async with agent(options={"max_bytes": 10_000}) as (source, _):
            result = await ask(source, "flood 500")
            return result, await ask(source, "say on")

    result, after = run(flood())
    assert result.failure.kind == "unusable"
    assert "larger than 105,536 bytes (max_bytes)" in result.failure.message
    assert result.n_bytes < 120_000
    assert after.text == "on"


def test_inputs_that_do_not_fit_and_tools_that_are_not_there():
    async def wrong():
        async with agent() as (source, behind):
            for inputs in ({}, {"text": 3}, {"text": "a", "more": 1}):
                result = await source.call(Call(api="w__forecast", inputs=inputs))
                assert (result.failure.kind, result.failure.was_done) == ("inputs", "no")
            with pytest.raises(UnknownApiError, match="did you mean 'w__forecast'"):
                await source.call(Call(api="w__forcast", inputs={"text": "a"}))
            return behind.asked

    assert run(wrong()) == []


def test_headers_are_sent_and_never_shown():
    async def secret():
        async with serve(needs=("authorization", KEY)) as (url, _):
            async with A2aAgent("w", url, headers={"Authorization": KEY}) as source:
                good = await ask(source, f"say your token is {KEY.split()[1]}")
                shown = [repr(source), repr(vars(source)), repr(good), good.text]
            async with A2aAgent("w", url, headers={"Authorization": f"{KEY}-old"}) as source:
                with pytest.raises(SourceUnavailableError, match=r"HTTP 401.*check the headers"):
                    await source.apis()
                bad = await ask(source, "say a")
                return good, bad, [*shown, repr(bad)]

    good, bad, shown = run(secret())
    assert good.text == "your token is ***"
    assert bad.failure.kind == "unavailable"
    assert not any("zq81" in text for text in shown)


def test_headers_that_are_refused_later_are_not_shown():
    async def later():
        needs = ["authorization", KEY]
        async with agent(needs=needs, options={"headers": {"Authorization": KEY}}) as (source, _):
            await source.apis()
            needs[1] = "Bearer other"
            return await ask(source, "say a")

    failure = run(later()).failure
    assert (failure.kind, failure.was_done) == ("permission", "no")
    assert failure.message == "HTTP 401: not let in: Bearer ***"


def echoing(card):
    card.skills[0].description = f"Ask with {KEY}."
    card.skills[0].examples.append(KEY)
    return card


def test_secrets_that_a_card_echoes_do_not_come_into_the_catalog():
    async def apis():
        async with agent(change=echoing, options={"headers": {"X-Key": KEY}}) as (source, _):
            return await source.apis()

    assert "zq81" not in repr([api.to_dict() for api in run(apis())])


def elsewhere(card):
    interface = AgentInterface(
        protocol_binding="JSONRPC", url="http://127.0.0.1:1/x", protocol_version="1.0"
    )
    del card.supported_interfaces[:]
    card.supported_interfaces.append(interface)
    return card


def test_headers_go_to_no_other_server_that_a_card_names():
    async def other():
        async with serve(change=elsewhere) as (url, _):
            async with A2aAgent("w", url, headers={"Authorization": KEY}) as source:
                with pytest.raises(SourceAnswerError, match=r"headers for .* are not for") as error:
                    await source.apis()
            async with A2aAgent("w", url) as source:
                result = await ask(source, "say a")
                return str(error.value), result

    message, result = run(other())
    assert "http://127.0.0.1:1/x" in message
    assert (result.failure.kind, result.failure.was_done) == ("unavailable", "no")


@pytest.mark.parametrize("headers", [{}, {"Authorization": KEY}])
@pytest.mark.parametrize(
    "place",
    ["http://localhost:1/x", "http://169.254.169.254/latest", "ftp://127.0.0.1/", "//x", ""],
)
def test_a_card_sends_messages_to_no_other_host(place, headers):
    def change(card):
        card.supported_interfaces[0].url = place
        return card

    async def other():
        async with (
            serve(change=change) as (url, behind),
            A2aAgent("w", url, headers=headers) as source,
        ):
            with pytest.raises(SourceAnswerError, match="its card sends messages to") as error:
                await source.apis()
            result = await ask(source, "say a")
            return str(error.value), result, behind.asked

    message, result, asked_of_it = run(other())
    assert place in message or place in ("//x", "")
    assert "is not at http://127.0.0.1:" in message
    assert "give that address as the URL, if you trust it" in message
    assert (result.failure.kind, result.failure.was_done) == ("unusable", "no")
    assert asked_of_it == []


@pytest.mark.parametrize(
    ("url", "place", "may"),
    [
        ("https://x.example", "https://x.example:8443/a", True),
        ("http://x.example", "https://x.example/a", True),
        ("https://x.example", "http://x.example/a", False),
        ("https://x.example", "https://x.example.evil.example/a", False),
        ("https://x.example", "https://x.example@evil.example/a", False),
    ],
)
def test_which_places_a_card_may_name(url, place, may):
    from a2a.types import AgentCard

    from cnp_router.sources.a2a_connection import _check_interfaces

    interface = AgentInterface(protocol_binding="JSONRPC", url=place, protocol_version="1.0")
    card = AgentCard(supported_interfaces=[interface])
    if may:
        _check_interfaces("w", card, url, has_headers=False)
    else:
        with pytest.raises(SourceAnswerError, match="is not at"):
            _check_interfaces("w", card, url, has_headers=False)


def unusable_interface(card):
    card.supported_interfaces[0].protocol_binding = "GRPC"
    return card


def same_skill_twice(card):
    card.skills.append(card.skills[0])
    return card


def skill_without_id(card):
    card.skills.append(AgentSkill(name="x"))
    return card


def skill_with_a_bad_id(card):
    card.skills.append(AgentSkill(id="a\u202eb", name="x"))
    return card


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (unusable_interface, r"no interface of JSONRPC or HTTP\+JSON \(it has GRPC\)"),
        (same_skill_twice, "duplicate API id 'w__forecast'"),
        (skill_without_id, "skill 3 of its card, '', cannot be used: its name must be 1 to 128 "),
        (skill_with_a_bad_id, r"skill 3 of its card, 'a\\u202eb', cannot be used: its name must"),
    ],
)
def test_a_card_that_cannot_be_used(change, said):
    async def apis():
        async with agent(change=change) as (source, _):
            with pytest.raises(SourceAnswerError, match=said):
                await source.apis()
            result = await ask(source, "say a")
            assert (result.failure.kind, result.failure.was_done) == ("unusable", "no")

    run(apis())


async def endless(request):
    async def body():
        for _ in range(1000):
            yield b" " * 65_536
            await asyncio.sleep(0.001)  # a server does not wait for a client that is gone

    return StreamingResponse(body())


async def hang(request):
    await asyncio.sleep(0.5)
    return PlainTextResponse("late")


def answering(text, status=200, **headers):
    async def answer(request):
        return Response(text, status, headers=headers)

    return answer


@pytest.mark.parametrize(
    ("endpoint", "kind", "said"),
    [
        (answering("none", 404), SourceAnswerError, r"no agent card at http.* \(HTTP 404\)"),
        (answering("no", 403), SourceUnavailableError, r"refuses its agent card \(HTTP 403\)"),
        (answering("no", 503), SourceUnavailableError, r"no agent card now \(HTTP 503\)"),
        (answering("", 302, location="http://127.0.0.1:1/"), SourceAnswerError, "HTTP 302"),
        (answering("<html>"), SourceAnswerError, "cannot be used: JSONDecodeError"),
        (answering("[1]"), SourceAnswerError, "cannot be used: .*must be a JSON object"),
        (answering('"a"'), SourceAnswerError, "cannot be used"),
        (answering("{}"), SourceAnswerError, r"no interface .* \(it has none\)"),
        (answering('{"skills": 3}'), SourceAnswerError, "cannot be used"),
        (answering('{"skills": [3]}'), SourceAnswerError, "cannot be used"),
        (answering('{"name": "\\ud800"}'), SourceAnswerError, "cannot be used"),
        (answering(b"\xff\xfe"), SourceAnswerError, "cannot be used"),
        (answering("[" * 100_000), SourceAnswerError, "cannot be used"),
        (answering("x", **{"content-encoding": "gzip"}), SourceAnswerError, "it is compressed"),
        (endless, SourceAnswerError, "it is larger than 69,536 bytes"),
        (hang, SourceUnavailableError, r"no agent card from http.* in 0.2 s"),
    ],
)
def test_no_card(endpoint, kind, said):
    async def apis():
        app = Starlette(routes=[Route("/.well-known/agent-card.json", endpoint)])
        options = {"max_bytes": 1000, "start_timeout": 0.2 if endpoint is hang else 20}
        async with serving(app) as url, A2aAgent("w", url, **options) as source:
            with pytest.raises(kind, match=said) as error:
                await source.apis()
            assert str(error.value).startswith("source 'w': ")
            assert "\n" not in str(error.value)
            result = await ask(source, "say a")
            assert result.failure.was_done == "no"

    run(apis())


def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_dead_address_and_one_that_comes_to_life():
    async def dead():
        async with A2aAgent("w", f"http://127.0.0.1:{unused_port()}/a.json?key=zq81") as source:
            with pytest.raises(SourceUnavailableError, match="no connection to http") as error:
                await source.apis()
            assert "zq81" not in str(error.value)
            result = await ask(source, "say a")
            assert (result.failure.kind, result.failure.was_done) == ("unavailable", "no")
            assert result.failure.is_transient
        async with serve() as (url, _), A2aAgent("w", source.url) as source:
            with pytest.raises(SourceError):
                await source.apis()
            source.url = url
            assert (await ask(source, "say b")).text == "b"

    run(dead())


def rpc(endpoint):
    """An agent whose card is right and whose answers are not."""

    async def once():
        async def well_known(request):
            card = {
                "name": "x",
                "capabilities": {"streaming": True},
                "supportedInterfaces": [
                    {"url": f"{url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
                ],
            }
            return PlainTextResponse(json.dumps(card))

        routes = [
            Route("/.well-known/agent-card.json", well_known),
            Route("/rpc", endpoint, methods=["POST"]),
        ]
        async with serving(Starlette(routes=routes)) as url, A2aAgent("w", url) as source:
            return await source.call(Call(api="w__ask", inputs={"text": "a"}, timeout=5))

    return run(once()).failure


def events(*answers):
    async def stream(request):
        if (await request.json())["method"] != "SendStreamingMessage":
            return Response(status_code=500)
        lines = [f"data: {json.dumps(each)}\n\n" for each in answers]
        return Response("".join(lines), media_type="text/event-stream")

    return stream


def result(**fields):
    return {"jsonrpc": "2.0", "id": "1", "result": fields}


BEGUN = result(task={"id": "t1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}})


def odd_data(value):
    return result(message={"messageId": "m", "parts": [{"data": {"a": value}}]})


@pytest.mark.parametrize(
    ("endpoint", "kind", "was_done", "said"),
    [
        (answering("no", 401), "permission", "no", "HTTP 401: no"),
        (answering("later", 429), "busy", "no", "HTTP 429: later"),
        (answering("later", 408), "busy", "unknown", "HTTP 408"),
        (answering("later", 425), "busy", "no", "HTTP 425"),
        (answering("later", 503), "busy", "unknown", "HTTP 503"),
        (answering("later", 503, **{"retry-after": "3"}), "busy", "no", "HTTP 503"),
        (answering("gone", 502), "lost", "unknown", "HTTP 502"),
        (answering("oh", 500), "tool", "unknown", "HTTP 500: oh"),
        (answering("no", 404), "tool", "no", "HTTP 404"),
        (answering("", 307, location="http://127.0.0.1:1"), "tool", "no", "HTTP 307"),
        (answering("<html>"), "unusable", "unknown", "cannot be used"),
        (answering("3"), "unusable", "unknown", "expected an object"),
        (answering('{"result": 3}'), "unusable", "unknown", "cannot be used"),
        (answering('{"result": {}}'), "unusable", "unknown", "the agent answered nothing"),
        (answering('{"error": {"code": -32602, "message": "bad"}}'), "tool", "no", "bad"),
        (answering('{"error": {"code": -32603, "message": "oh"}}'), "tool", "unknown", "oh"),
        (answering('{"error": {"code": -1, "message": "odd"}}'), "tool", "unknown", "odd"),
        (answering('{"error": "odd"}'), "unusable", "unknown", "error is not an object"),
        (events(), "unusable", "unknown", "the agent answered nothing"),
        (events({"jsonrpc": "2.0"}), "unusable", "unknown", "neither 'result' nor 'error'"),
        (events(result(task={"status": {"state": "DONE"}})), "unusable", "unknown", "answered no"),
        (events(BEGUN), "lost", "unknown", "HTTP 500 (its task cannot be looked at)"),
        (events(odd_data(float("nan"))), "unusable", "unknown", "cannot be used"),
        (events(odd_data("\ud800")), "unusable", "unknown", "cannot be used"),
        (endless, "unusable", "unknown", "larger than"),
    ],
)
def test_answers_that_are_none(endpoint, kind, was_done, said):
    failure = rpc(endpoint)
    assert (failure.kind, failure.was_done) == (kind, was_done)
    assert said in failure.message


def test_a_stream_that_breaks_is_gone_on_with_by_looking_at_the_task():
    looked = []

    async def broken(request):
        asked = await request.json()
        if asked["method"] == "GetTask":
            looked.append(asked["params"]["id"])
            state = "TASK_STATE_FAILED" if len(looked) > 1 else "TASK_STATE_WORKING"
            status = {"state": state, "message": {"messageId": "m", "parts": [{"text": "no luck"}]}}
            return PlainTextResponse(json.dumps(result(id="t1", status=status)))

        async def body():
            yield f"data: {json.dumps(BEGUN)}\n\n".encode()
            await asyncio.sleep(0.05)

        # Fewer bytes than were promised: the connection breaks.
        headers = {"content-length": "10000"}
        return StreamingResponse(body(), media_type="text/event-stream", headers=headers)

    failure = rpc(broken)
    assert (failure.kind, failure.message) == ("tool", "no luck")
    assert looked == ["t1", "t1"]


def test_an_agent_that_does_not_cancel_is_left_behind_with_a_note():
    async def deaf(request):
        if (await request.json())["method"] == "CancelTask":
            return PlainTextResponse('{"error": {"code": -32002, "message": "too late"}}')

        async def body():
            yield f"data: {json.dumps(BEGUN)}\n\n".encode()
            status = {"state": "TASK_STATE_INPUT_REQUIRED"}
            update = result(statusUpdate={"taskId": "t1", "status": status})
            yield f"data: {json.dumps(update)}\n\n".encode()
            await asyncio.sleep(0.5)  # it keeps the stream open

        return StreamingResponse(body(), media_type="text/event-stream")

    failure = rpc(deaf)
    assert (failure.kind, failure.was_done) == ("inputs", "unknown")
    assert failure.message == "the agent asks for more"


def test_the_address_of_the_card_itself():
    async def ask_it():
        async with agent() as (source, _):
            source.url += "/.well-known/agent-card.json?version=1"
            return await ask(source, "say high")

    assert run(ask_it()).text == "high"


def test_a_card_that_changes_is_read_again():
    async def again():
        cards = []
        async with agent(change=lambda card: cards.append(card) or card) as (source, _):
            assert len(await source.apis()) == 2
            del cards[0].skills[0]
            after = await source.apis()
            cards[0].skills[0].id = ""
            with pytest.raises(SourceAnswerError):
                await source.apis()
            return after, await source.call(Call(api="w__sea", inputs={"text": "say high"}))

    after, result = run(again())
    assert [api.id for api in after] == ["w__sea"]
    assert (result.text, result.start_seconds) == ("high", None)


def test_closed_and_used_again():
    async def again():
        async with serve() as (url, _):
            source = A2aAgent("w", url)
            await source.aclose()
            first = await ask(source, "say a")
            await source.aclose()
            await source.aclose()
            second = await ask(source, "say b")
            await source.aclose()
            return first, second

    first, second = run(again())
    assert (first.text, second.text) == ("a", "b")
    assert second.start_seconds is not None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("example.org", "url must be an address"),
        ("ftp://example.org", "url must be an address"),
        ("http://", "url must be an address"),
        ("http://a:b", "url must be an address"),
        ("http://a b", "url must be an address"),
        (None, "url must be a string"),
        ("http://ann:zq81@example.org", "must not hold a name or password"),
        ("http://example.org/?key=zq81", "must not hold a query"),
    ],
)
def test_addresses(url, said):
    with pytest.raises(InputError, match=said) as error:
        A2aAgent("w", url)
    assert "zq81" not in str(error.value)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"a b": "c"}, "'a b' cannot be the name of a header"),
        ({"a": "zq81\nb: c"}, "the header 'a' must be a string of ASCII characters"),
        ({"a": "zq81é"}, "the header 'a'"),
        ({"a": 81}, "the header 'a'"),
        (["zq81"], "headers must be an object"),
    ],
)
def test_headers(headers, said):
    with pytest.raises(InputError, match=said) as error:
        A2aAgent("w", "http://127.0.0.1:1", headers=headers)
    assert "81" not in str(error.value)


def test_an_entry_of_a_file_of_sources(tmp_path):
    fields = {"url": "http://127.0.0.1:1", "headers": {"A": "b"}, "start_timeout": 3}
    source = A2aAgent.from_entry("w", fields, folder=tmp_path, trusted=False)
    assert (source.name, source.url, source.start_timeout) == ("w", "http://127.0.0.1:1", 3.0)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "source 'w' has no field 'url'"),
        ({"url": "http://a", "heders": {}}, "source 'w' has an unknown field 'heders'"),
        ({"url": 3}, "source 'w': url must be a string"),
        ({"url": "http://a", "start_timeout": 0}, "source 'w': start_timeout must be"),
    ],
)
def test_an_entry_that_is_wrong(tmp_path, fields, said):
    with pytest.raises(InputError, match=said):
        A2aAgent.from_entry("w", fields, folder=tmp_path)


def test_without_the_sdk(monkeypatch):
    monkeypatch.delitem(sys.modules, "cnp_router.sources.a2a_connection", raising=False)
    monkeypatch.setitem(sys.modules, "a2a.client", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'cnp-router\[a2a\]'"):
        run(A2aAgent("w", "http://127.0.0.1:1").apis())
