"""The tools that the conformance suite of the protocol asks a server for, behind a gateway."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from typing import Any

from cnp_router.catalog import Api
from cnp_router.serving.clients import Client
from cnp_router.serving.gateway import Called, Gateway
from cnp_router.sources.source import Attachment, Call, CallProgress, CallResult, Source

SUITE = "suite"
_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
_SOUND = b"RIFF$\0\0\0WAVEfmt "
_NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
_SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
_RESULTS = {
    "test_simple_text": CallResult("This is a simple text response for testing."),
    "test_image_content": CallResult(attachments=(Attachment("image/png", _PIXEL),)),
    "test_audio_content": CallResult(attachments=(Attachment("audio/wav", _SOUND),)),
    "test_embedded_resource": CallResult(
        attachments=(
            Attachment("text/plain", b"This is an embedded resource.", "test://embedded-resource"),
        )
    ),
    "test_multiple_content_types": CallResult(
        "Multiple content types test:",
        attachments=(
            Attachment("image/png", _PIXEL),
            Attachment("application/json", b'{"test": 1}', "test://mixed-content-resource"),
        ),
    ),
    "test_error_handling": CallResult.failed("tool", "This tool intentionally returns an error"),
    "test_tool_with_progress": CallResult("done"),
    "json_schema_2020_12_tool": CallResult("done"),
}


class Suite(Source):
    """Answers as the suite wants it."""

    name = SUITE

    async def apis(self) -> tuple[Api, ...]:
        return tuple(
            Api(
                f"{SUITE}__{name}",
                name,
                f"For the conformance suite: {name.replace('_', ' ')}.",
                parameters=_SCHEMA_2020_12 if name.startswith("json_schema") else _NOTHING,
                effects="reads",
            )
            for name in _RESULTS
        )

    async def call(self, call: Call) -> CallResult:
        name = call.api.removeprefix(f"{SUITE}__")
        if name == "test_tool_with_progress" and call.on_progress is not None:
            for done in (0, 50, 100):
                call.on_progress(CallProgress(done, 100))
                await asyncio.sleep(0.01)
        return _RESULTS[name]


class ShortNames(Gateway):
    """A gateway whose visible tools have the very names that the suite wants, without a source."""

    def always(self, client: Client) -> tuple[Api, ...]:
        return tuple(
            dataclasses.replace(api, id=api.id.removeprefix(f"{SUITE}__"))
            for api in super().always(client)
        )

    async def call(self, name: str, *args: Any, **options: Any) -> Called:
        return await super().call(f"{SUITE}__{name}", *args, **options)
