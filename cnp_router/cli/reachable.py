"""What is fitted, and what can be reached: read and asked for, and never changed."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cnp_router.cli import cache, models
from cnp_router.cli.finding import Finding, failure, ok
from cnp_router.cli.output import counted
from cnp_router.exceptions import CnpRouterError
from cnp_router.kept_beside import MEMORY_FILE, ONLINE_FILE, SEARCHES_FILE

if TYPE_CHECKING:
    from cnp_router.cli.source_options import Origins
    from cnp_router.sources.all_sources import Loaded, Sources

__all__ = ["context_found", "encoder_found", "language_model_found", "model_found",
           "observed_found", "sample_found", "sources_found"]  # fmt: skip

_LET = "let the user who runs this read and write it and its folder"
_SQLITE = b"SQLite format 3\0"
_TOGETHER = 4  # sources that start at a time


def model_found(model: Path) -> Iterator[Finding]:
    """Yield what a fitted model is, its checksums compared, and what was observed beside it."""
    about = f"model {model}"

    def found() -> Finding:
        from cnp_router.storage import is_model, summary_of, verify_model

        if not is_model(model) and (model / ONLINE_FILE).exists():
            return ok(about, "nothing is fitted there; next tools are predicted from what was seen")
        verify_model(model)
        n_files, megabytes = models.size(model)
        said = f"sound, {counted(n_files, 'file')}, {megabytes:.1f} MB"
        return ok(about, f"{said}; {_fitted(model, summary_of(model))}")

    yield _tried(about, found, "fit it again, or name another folder")
    for name in (ONLINE_FILE, MEMORY_FILE, SEARCHES_FILE):
        if (model / name).exists():
            yield observed_found(model / name)


def _fitted(model: Path, summary: dict[str, Any]) -> str:
    from cnp_router.files import read_json
    from cnp_router.history import History
    from cnp_router.storage import MANIFEST
    from cnp_router.training.learned_router import HISTORY

    n_apis, n_mashups = int(summary["apis"]), int(summary["mashups"])
    said = f"{counted(n_apis, 'API')}, {counted(n_mashups, 'past mashup')}"
    history = model / str(read_json(model / MANIFEST)["generation"]) / HISTORY
    days = [m.date for m in History.read(history) if m.date is not None] if n_mashups else []
    said += f" of {min(days)} to {max(days)}" if days else ", without dates" if n_mashups else ""
    encoder = summary.get("encoder")
    said += f"; reads requests with --encoder ({encoder})" if encoder else "; needs no encoder"
    version = summary.get("versions", {}).get("cnp-router")
    return f"{said}; fitted by version {version}" if version else said


def sample_found() -> Finding:
    """Return where the router of the bundled sample is kept, and whether it is of this version."""
    about = "sample model"

    def found() -> Finding:
        from cnp_router.storage import verify_model

        place = cache.sample_place()
        if place is None:
            said = "is not kept: there is no home folder"
            return Finding("warning", about, said, "set XDG_CACHE_HOME to a folder")
        others = [each for each in place.parent.glob("sample-*") if each != place]
        old = f"; {len(others)} of other versions can be deleted there" if others else ""
        if not place.exists():
            return ok(about, f"not fitted yet: the first command that needs it does{old}")
        verify_model(place)
        return ok(about, f"fresh, kept in {place}{old}")

    finding = _tried(about, found)
    if finding.status == "problem":  # it is fitted again by whoever needs it
        return dataclasses.replace(
            finding, status="warning", cure="the next recommend fits it anew"
        )
    return finding


def sources_found(origins: Origins, timeout: float) -> list[Finding]:
    """Return what each source answers, started for it; the lock file is compared, and stays."""
    with redirect_stdout(sys.stderr):  # what modules and functions print is no result
        usable, found = _usable(origins)
        try:
            if usable:
                opened = usable.opened()
                lock, opened.lock = opened.lock, None
                found += asyncio.run(_each_source(opened, lock, timeout))
        except Exception as exc:  # whatever is wrong with them together, or their libraries
            found.append(_masked(failure("sources", exc)))
    return found


def _usable(origins: Origins) -> tuple[Origins, list[Finding]]:
    """Return the places of sources that can be read, and what is wrong with each other one."""
    from cnp_router.sources.configuration import read_a2a, read_openapi, read_sources

    problems: list[Finding] = []

    def readable(places: tuple[Any, ...], read: Callable[[Any], object]) -> tuple[Any, ...]:
        good = []
        for each in places:
            try:
                read(each)
            except Exception as exc:  # the others are looked at all the same
                problems.append(_masked(failure("sources", exc)))
            else:
                good.append(each)
        return tuple(good)

    usable = dataclasses.replace(
        origins,
        files=readable(origins.files, read_sources),
        openapi=readable(origins.openapi, read_openapi),
        a2a=readable(origins.a2a, read_a2a),
        lock=origins.lock_file(),  # beside the first file, also where that cannot be read
    )
    return usable, problems


async def _each_source(sources: Sources, lock: Any, timeout: float) -> list[Finding]:
    places = asyncio.Semaphore(_TOGETHER)

    async def asked(name: str) -> Finding:
        about = f"source {name}"
        async with places:
            try:
                async with asyncio.timeout(timeout):
                    loaded = await sources.load([name])
            except TimeoutError:
                said = f"has not listed its tools within {timeout:g} s"
                cure = "give it more with --timeout, or run its command by hand"
                return Finding("problem", about, said, cure)
        return _masked(_listed(about, name, loaded, lock))

    async with sources:
        return list(await asyncio.gather(*map(asked, sources.names)))


def _listed(about: str, name: str, loaded: Loaded, lock: Any) -> Finding:
    if not loaded.apis and loaded.problems:
        return failure(about, loaded.problems[0], "run its command by hand")
    said = f"{counted(len(loaded.apis), 'tool')} in {loaded.seconds[name]:.1f} s"
    if loaded.problems:
        more = "; ".join(each.problem for each in loaded.problems)
        return Finding("warning", about, f"{said}; {more}", loaded.problems[0].cure or "")
    changes = lock.compare(name, loaded.apis)
    if lock.known(name) and changes.changed:
        ids = ", ".join(each.new.id for each in changes.changed)
        said = f"{said}; definitions are not those that were accepted: {ids}"
        return Finding("warning", about, said, f"look at them: import --accept takes them ({ids})")
    return ok(about, said)


def language_model_found(url: str, timeout: float) -> Finding:
    """Return whether a server answers that speaks OpenAI's wire format, and with which models."""
    about = f"language model {_shown(url)}"

    def found() -> Finding:
        return ok(about, _named_models(url, timeout))

    return _tried(about, found, "start the server, and end its URL in /v1")


def _named_models(url: str, timeout: float) -> str:
    from cnp_router.llm.openai_model_list import model_names

    began = time.perf_counter()
    names = asyncio.run(model_names(url, timeout=timeout))
    more = ", ..." if len(names) > 3 else ""
    said = f"answers in {time.perf_counter() - began:.1f} s, {counted(len(names), 'model')}: "
    return f"{said}{', '.join(names[:3])}{more}"


def encoder_found(url: str, name: str | None, model: Path | None, timeout: float) -> Finding:
    """Return whether a server gives vectors, by an encoder of that name or that of the model."""
    about = f"encoder {_shown(url)}"

    def found() -> Finding:
        from cnp_router.llm import OpenAIEncoder

        which = name or _encoder_of(model)
        if not which:
            said = _named_models(url, timeout)
            return ok(about, f"{said}; --encoder-model NAME has one make vectors")
        encoder = OpenAIEncoder(which, base_url=url, timeout=timeout)
        try:
            began = time.perf_counter()
            size = encoder(["A short text."]).shape[1]
            seconds = time.perf_counter() - began
        finally:
            encoder.close()
        return ok(about, f"{which}: vectors of {counted(size, 'number')} in {seconds:.1f} s")

    return _tried(about, found, "start the server, and end its URL in /v1")


def _encoder_of(model: Path | None) -> str | None:
    """Return the name of the encoder of a model; what is wrong with the model is said of it."""
    from cnp_router.storage import summary_of

    if model is None:
        return None
    try:
        return summary_of(model).get("encoder")
    except CnpRouterError:
        return None


def context_found(place: str, timeout: float) -> Finding:
    """Return whether shared context can be read: of a file, or of a server."""
    if "://" not in place:
        about = f"context {place}"
        return _tried(about, lambda: _file_found(about, Path(place), "context is shared"))
    about = f"context {_shown(place)}"

    def found() -> Finding:
        from cnp_router.context.store_places import store_at

        async def usage() -> None:
            async with store_at(place) as store:
                await store.usage()

        began = time.perf_counter()
        asyncio.run(asyncio.wait_for(usage(), timeout))
        return ok(about, f"answers in {time.perf_counter() - began:.1f} s")

    return _tried(about, found, "start the server")


def observed_found(file: Path) -> Finding:
    """Return whether a file of what was observed, remembered or searched can be read."""
    about = f"store {file}"

    def found() -> Finding:
        if file.name in (MEMORY_FILE, SEARCHES_FILE):
            return _file_found(about, file, "something is kept")
        from cnp_router.online import OnlineStore

        if file.exists() and not os.access(file, os.R_OK):
            return Finding("problem", about, "may not be read by this user", _LET)
        sequence, _ = OnlineStore.records_after(file, sys.maxsize)
        return _written(about, file, f"can be read, {counted(sequence, 'record')}")

    return _tried(about, found)


def _file_found(about: str, file: Path, when: str) -> Finding:
    """Return whether a SQLite file is one, by its first bytes: opening it would make others."""
    if not file.exists():
        if not os.access(file.absolute().parent, os.W_OK | os.X_OK):
            cure = "create the folder, or name another file"
            return Finding("problem", about, "is not there, nor a folder to make it in", cure)
        return ok(about, f"is not there yet; it is made when {when}")
    if not os.access(file, os.R_OK):
        return Finding("problem", about, "may not be read by this user", _LET)
    with file.open("rb") as data:
        first = data.read(len(_SQLITE))
    if first not in (b"", _SQLITE):
        return Finding("problem", about, "is not a SQLite file", "name another file")
    return _written(about, file, f"can be read, {file.stat().st_size / 1e6:.1f} MB")


def _written(about: str, file: Path, said: str) -> Finding:
    """Return what was said of a file that can be read, or that it can only be read."""
    folder = file.absolute().parent
    if os.access(file, os.W_OK) and os.access(folder, os.W_OK | os.X_OK):
        return ok(about, said)
    return Finding("warning", about, f"{said}; this user may not write there", _LET)


def _tried(about: str, find: Callable[[], Finding], cure: str = "") -> Finding:
    try:
        return _masked(find())
    except Exception as exc:  # of whatever library is broken: the others are looked at all the same
        return _masked(failure(about, exc, cure))


def _masked(finding: Finding) -> Finding:
    """Return a finding without what looks like a secret, in whoever's error it came."""
    from cnp_router.llm.redaction import without_secrets

    texts = {name: getattr(finding, name) for name in ("about", "said", "cure")}
    masked = {name: without_secrets(text) for name, text in texts.items()}
    return dataclasses.replace(finding, **masked)


def _shown(url: str) -> str:
    """Return a URL without user, password, query and fragment, where keys hide."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "(not a URL)"
    return (
        f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
        if parts.scheme
        else "(not a URL)"
    )
