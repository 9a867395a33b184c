"""A place among the requests that are answered is free with the last byte of an answer."""

from __future__ import annotations

import asyncio

from cnp_router.serving.http_limits import Guard, Limits


def test_a_place_is_free_with_the_last_byte():
    running = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"1", "more_body": True})
        await send({"type": "http.response.body", "body": b"2"})

    guard = Guard(app, limits=Limits(max_concurrent=1))

    async def send(message):
        running.append((message["type"][14:], guard.running))

    bodies = [b""]

    async def receive():
        if not bodies:
            await asyncio.Event().wait()
        bodies.pop()
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"host", b"127.0.0.1")]
    scope = {"type": "http", "path": "/v1/tools", "method": "GET", "headers": headers}
    asyncio.run(guard(scope, receive, send))
    assert running == [("start", 1), ("body", 1), ("body", 0)]
    assert guard.running == 0
