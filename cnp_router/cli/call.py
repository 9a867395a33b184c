"""``cnp-router call``: call one tool oneself."""

from __future__ import annotations

import asyncio
import itertools
import json
import mimetypes
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnp_router.cli import options
from cnp_router.cli.output import counted, echo, echo_json, echo_lines, echo_pairs
from cnp_router.cli.progress import Progress, ticking
from cnp_router.cli.source_options import Origins, echo_diff, source_options
from cnp_router.exceptions import CnpRouterError, DataFileError, DefinitionChangedError, InputError

if TYPE_CHECKING:
    from cnp_router.sources.all_sources import Sources
    from cnp_router.sources.source import CallProgress, CallResult


@options.command(
    "cnp-router call time__get_current_time --inputs @zone.json --mcp mcp.json",
)
@click.argument("api")
@click.option(
    "--inputs",
    "given",
    default="{}",
    metavar="JSON",
    help="A JSON object; @FILE reads it from a file, - from standard input.  [default: {}]",
)
@source_options
@options.seconds("--timeout", default=30.0, show_default=True, help="How long the call may take.")
@options.folder("--save", help="Write images and other attachments there.")
@options.as_json
def call(
    *, api: str, given: str, origins: Origins, timeout: float, save: Path | None, json_: bool
) -> None:
    """Call the tool API, as source__tool, and print what it answers.

    This is your own act: it asks nothing, whatever the tool does. Only the source of the tool is
    started. The inputs are checked by the tool's JSON Schema first.
    """
    if not origins:
        raise click.UsageError("Give --sources, --openapi or --a2a.")
    inputs = _inputs(given)
    if save is not None:
        _make(save)
    with redirect_stdout(sys.stderr):  # what modules and functions print is no part of the result
        result = asyncio.run(_called(origins.opened(), api, inputs, timeout))
    files = [] if save is None else _saved(result, api, save)
    if json_:
        document = {"api": api, **result.to_dict()}
        for attachment, file in zip(document["attachments"], files, strict=False):
            attachment.update({"data": "", "file": str(file)} if file else {})
        echo_json(document)
        if not result.is_done:
            click.get_current_context().exit(1)
        return
    _echo_result(result)
    if result.is_done or result.seconds:  # it was sent
        echo_pairs(_facts(result, api, files))
    if result.failure is not None:
        unknown = "; nobody knows whether it was done" if result.failure.was_done != "no" else ""
        message = result.failure.message or "no reason given"
        raise CnpRouterError(f"{api} failed ({result.failure.kind}{unknown}): {message}")


async def _called(sources: Sources, api: str, inputs: dict[str, Any], timeout: float) -> CallResult:
    from cnp_router.sources.source import Call

    state = (api, 0, 0)

    def told(progress: CallProgress) -> None:
        nonlocal state
        state = progress.message or api, int(progress.done), int(progress.total or 0)

    def now() -> tuple[str, int, int]:
        return (f"starting {sources.waiting[0]}", 0, 0) if sources.waiting else state

    with Progress("Calling") as progress:
        async with sources, ticking(progress, now):
            call = Call(api=api, inputs=inputs, timeout=timeout, on_progress=told)
            result = await sources.call(call)
            if result.failure is not None and result.failure.kind == "changed":
                try:
                    await sources.api(api)
                except DefinitionChangedError as exc:
                    echo_diff(exc)
            return result


def _inputs(given: str) -> dict[str, Any]:
    from cnp_router.files import read_json, value_of

    if given == "-":
        if sys.stdin is None:
            raise DataFileError("standard input", "is closed", cure="give --inputs themselves")
        inputs = value_of(sys.stdin.buffer.read(), "standard input")
    elif given.startswith("@"):
        inputs = read_json(given[1:])
    else:
        inputs = value_of(given.encode(errors="surrogateescape"), "--inputs")
    if not isinstance(inputs, dict):
        raise InputError(f"--inputs must be a JSON object, got {json.dumps(inputs)[:60]}")
    return inputs


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise DataFileError(
            folder, f"cannot be made: {exc.strerror}", cure="name a folder"
        ) from exc


def _saved(result: CallResult, api: str, folder: Path) -> list[Path | None]:
    """Write attachments to files that are not there yet; None for those that are a place only."""
    from cnp_router.files import atomic_write

    files: list[Path | None] = []
    for attachment in result.attachments:
        if not attachment.data:
            files.append(None)
            continue
        ending = mimetypes.guess_extension(attachment.media_type.partition(";")[0]) or ".bin"
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", api)  # a name of ours, never one of the server's
        number = 1
        while (file := folder / f"{stem}-{number}{ending}").exists():
            number += 1
        with atomic_write(file, "wb") as out:
            out.write(attachment.data)
        files.append(file)
    return files


def _echo_result(result: CallResult) -> None:
    """Print the text, and the structured result, where they say more than what else is printed."""
    text, structured = result.text, result.structured
    if (result.failure is not None and text in result.failure.message) or _is_same(
        text, structured
    ):
        text = ""
    if text:
        echo_lines(text)
        echo()
    if structured is not None:
        echo_json(structured)
        echo()


def _is_same(text: str, structured: Any) -> bool:
    try:
        return structured is not None and json.loads(text) == structured
    except (ValueError, RecursionError):
        return False


def _facts(result: CallResult, api: str, files: list[Path | None]) -> Iterator[tuple[str, str]]:
    for attachment, file in itertools.zip_longest(result.attachments, files):
        size = counted(len(attachment.data), "byte") if attachment.data else attachment.uri
        where = "--save DIR writes it" if file is None else f"saved as {file}"
        said = f" ({where})" if attachment.data else ""
        yield "Attachment", f"{attachment.media_type}, {size}{said}"
    if result.start_seconds is not None:
        yield "Started", f"{api.partition('__')[0]}, in {result.start_seconds:.2f} s"
    yield "Call", f"{result.seconds:.3f} s, {counted(result.n_bytes, 'byte')}"
    if result.is_cut:
        yield "Cut", "the result was larger than what is kept"
    for note in result.notes:
        yield "Note", note
