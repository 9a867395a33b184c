"""What goes wrong with a source, as an error or as the failure of a call."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Sequence

from cnp_router.catalog import Api
from cnp_router.exceptions import (
    CnpRouterError,
    DefinitionChangedError,
    InputError,
    SourceError,
    SourceUnavailableError,
)
from cnp_router.printing import printable
from cnp_router.records import check_json, check_text, shown
from cnp_router.sources.lock_file import Changed, fingerprint
from cnp_router.sources.source import Call, CallFailure, CallResult, Source

__all__ = ["called", "changed_since", "failure_of", "none_left", "refusal", "said"]

_LOGGER = logging.getLogger(__name__)
_GRACE = 60.0  # seconds beyond the time of a call, for a source that has to start again
_HARM = ("reads", "unknown", "writes")  # effects, the most harmless first
_MOST_SHOWN = 500  # characters of what somebody else's code raised


def none_left(problems: Sequence[SourceError]) -> CnpRouterError:
    """Return (not raise) the error that no source gives a tool, for their problems."""
    if len(problems) == 1:
        return problems[0]
    if not problems:
        return InputError("the sources have no tools (give others)")
    return CnpRouterError(f"no source can be used: {'; '.join(map(str, problems))}")


def refusal(name: str, changed: Changed) -> DefinitionChangedError:
    """Return (not raise) the error of a definition that was not accepted."""
    problem = f"the definition of {changed.new.id!r} is not the one that was accepted"
    cure = "see what changed, then accept it with --accept"
    return DefinitionChangedError(name, problem, cure=cure, diff=changed.diff)


def failure_of(error: SourceError) -> CallFailure:
    """Return the failure of a call whose source has an error."""
    if isinstance(error, DefinitionChangedError):
        return CallFailure("changed", str(error))
    if isinstance(error, SourceUnavailableError):
        return CallFailure("unavailable", str(error))
    return CallFailure("unusable", str(error), was_done="no")


def changed_since(judged: Api | None, now: Api) -> CallFailure | None:
    """Return why what a caller decided by a definition does not hold for the current one."""
    if judged is None or judged == now:
        return None
    cure = "look at it and decide anew"
    if fingerprint(judged) != fingerprint(now):
        said = f"the definition of {now.id!r} has changed since the call was decided"
        return CallFailure("changed", f"{said} ({cure})")
    if _HARM.index(now.effects) > _HARM.index(judged.effects):
        said = f"the effects of {now.id!r} are {now.effects!r} now, and were {judged.effects!r}"
        return CallFailure("changed", f"{said} when the call was decided ({cure})")
    return None


async def called(source: Source, call: Call) -> CallResult:
    """Call a source, and make a failure of whatever else it raises or returns.

    A result can be written as strict JSON: no NaN, no infinity, no objects of other kinds.
    """
    most = call.timeout + _GRACE
    try:
        async with asyncio.timeout(most) as limit:
            result = await source.call(call)
    except InputError:  # the caller's mistake
        raise
    except TimeoutError as exc:
        if limit.expired():
            return CallResult.failed("timeout", f"the source was silent for {most:g} s")
        return CallResult.failed("unusable", said(exc))
    except Exception as exc:  # of a source of one's own: other jobs go on
        # Where, and not what it says: that may be what no log should hold.
        where = "".join(traceback.format_tb(exc.__traceback__))
        _LOGGER.debug("a call of %s raised %s\n%s", call.api, type(exc).__name__, where)
        return CallResult.failed("unusable", said(exc))
    if not isinstance(result, CallResult):
        return CallResult.failed("unusable", f"the source returned {shown(result)}")
    try:
        check_json("the result", result.to_dict())
        check_text("text", result.text)
        json.dumps(result.structured, sort_keys=True)  # keys of several types have no order
    except Exception as exc:  # no journal could keep it, and no model be given it
        return CallResult.failed("unusable", said(exc))
    return result


def said(exc: Exception) -> str:
    """Return what an exception says; that of a library after its kind."""
    text = str(exc)
    if not isinstance(exc, CnpRouterError):
        text = f"{type(exc).__name__}{': ' if text else ''}{text}"
    return printable(text, _MOST_SHOWN)
