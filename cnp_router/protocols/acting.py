"""`Acting`: what was awarded is done, and told; what fails is awarded to the next one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, get_args, runtime_checkable

from cnp_router.agents.prompts import sendable
from cnp_router.exceptions import InputError
from cnp_router.protocols.messages import (
    MANAGER,
    RESULT_TEXT,
    Award,
    Cancel,
    Failure,
    InformResult,
    WasDone,
)
from cnp_router.protocols.settings import LONGEST
from cnp_router.protocols.substitutes import Candidate, Substitutes
from cnp_router.protocols.transcript import Transcript
from cnp_router.records import check_number, one_line, shown
from cnp_router.sources import FailureKind

__all__ = ["Acting", "Actor", "AwardedApi"]

_ERROR = 500  # characters of an error or a reason that a message holds


@dataclass(frozen=True, slots=True)
class AwardedApi:
    """What a contractor was awarded, and is to do.

    Parameters
    ----------
    award : int
        Id of the message.
    api, contractor : str
    task : str
        The function that was announced, or the whole request.
    """

    award: int
    api: str
    contractor: str
    task: str

    __repr__ = one_line


@runtime_checkable
class Actor(Protocol):
    """Whoever does what was awarded: calls the APIs, and says what came of it."""

    async def act(self, acting: Acting) -> None:
        """Do it. What is still open when this returns, raises or is cancelled gets a `cancel`."""
        ...


class Acting:
    """The awards of a round, for its `Actor`.

    Each award gets one of `done`, `failed` and `cancel`. After `failed`, `next_for` hands the job
    to the next contractor. A `Round` makes it.

    Attributes
    ----------
    request : str
    awards : tuple of AwardedApi
        What is to be done, in the order of awarding. Awards of `next_for` are not among them. An
        API that was awarded for two functions is there twice: only `award` tells jobs apart.
    n_called : int
        Contractors that were called for proposals.
    """

    def __init__(
        self,
        request: str,
        awards: Sequence[tuple[Award, str | None]],
        substitutes: Substitutes,
        send: Callable[..., Any],
        transcript: Callable[[], Transcript],
        n_called: int = 0,
    ) -> None:
        self.request = request
        self.n_called = n_called
        self.awards = tuple(
            AwardedApi(award.id, award.apis[0], award.receiver, function or request)
            for award, function in awards
        )
        self._functions = {award.id: function for award, function in awards}
        self._job = {award.id: award.id for award, _ in awards}  # its first award
        self._given = {(award.apis[0], function) for award, function in awards}
        self._open = {each.award: each for each in self.awards}
        self._failed: dict[int, WasDone] = {}  # and not awarded again
        self._results: list[InformResult] = []
        self._substitutes = substitutes
        self._send = send
        self._transcript = transcript

    @property
    def transcript(self) -> Transcript:
        """What was said in the round until now; after its end, all of it."""
        return self._transcript()

    @property
    def results(self) -> tuple[InformResult, ...]:
        """The results until now, in the order of the awards."""
        return tuple(sorted(self._results, key=lambda each: self._job[each.in_reply_to]))

    def next_for(
        self,
        failed: AwardedApi,
        *,
        among: Callable[[str], bool] | None = None,
        rate: Callable[[str], float] | None = None,
        order: Sequence[str] | None = None,
        approved: bool = False,
    ) -> AwardedApi | None:
        """Award a job that failed to the next one who has not failed it, and return that award.

        Who comes next is decided by `Substitutes`. None if nobody is left: the job has failed.

        Parameters
        ----------
        failed : AwardedApi
        among : callable, optional
            Whether an API may do it.
        rate : callable, optional
            How often an API has succeeded, in [0, 1]. Those that failed more often than not come
            behind the others.
        order : sequence of str, optional
            The only APIs that may do it, best first; `rate` is not looked at then.
        approved : bool, default=False
            Whether somebody has approved that it may be done a second time.

        Raises
        ------
        InputError
            If it has not failed, or was awarded again already; or it may have been done all the
            same, and nobody has approved that it may be done a second time.
        """
        if failed.award not in self._failed:
            raise InputError(
                f"award {failed.award} of {failed.api!r} does not wait for another contractor "
                "(say first that it failed, and ask once)"
            )
        if self._failed[failed.award] == "unknown" and not approved:
            raise InputError(
                f"nobody knows whether {failed.api!r} has done award {failed.award} (ask whether "
                "it may be done a second time, and say approved=True)"
            )
        del self._failed[failed.award]
        function = self._functions[failed.award]
        left = self._left_for(failed, among)
        if order is not None:
            places = {name: place for place, name in enumerate(order)}
            left = sorted((c for c in left if c.api in places), key=lambda c: places[c.api])
        elif rate is not None:
            left.sort(key=lambda c: rate(c.api) < 0.5)
        candidate = next(iter(left), None)
        if candidate is None:
            return None
        award = self._send(
            Award,
            sender=MANAGER,
            receiver=candidate.contractor,
            in_reply_to=candidate.in_reply_to,
            apis=(candidate.api,),
            instead_of=failed.award,
            approved=bool(approved),
        )
        again = AwardedApi(award.id, candidate.api, candidate.contractor, failed.task)
        self._functions[award.id] = function
        self._job[award.id] = self._job[failed.award]
        self._given.add((candidate.api, function))
        self._open[award.id] = again
        return again

    def others_for(
        self, failed: AwardedApi, *, among: Callable[[str], bool] | None = None
    ) -> tuple[str, ...]:
        """Return the APIs that a job which failed could go to, in the order of `next_for`."""
        return tuple(dict.fromkeys(c.api for c in self._left_for(failed, among)))

    def done(
        self,
        awarded: AwardedApi,
        *,
        text: str,
        digest: str,
        attempts: int,
        seconds: float,
        n_bytes: int,
    ) -> None:
        """Tell the result of an award.

        Parameters
        ----------
        awarded : AwardedApi
        text : str
            What came back; the message holds its first 2,000 characters.
        digest : str
            SHA-256 of the whole result, hexadecimal.
        attempts : int >= 0
            How often it was called; 0 where the result was known already.
        seconds : float >= 0, seconds
        n_bytes : int >= 0

        Raises
        ------
        InputError
            If a value cannot be used, or the award has its end already.
        """
        cost = _cost(attempts, seconds, n_bytes)
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise InputError(f"the digest of a result must be SHA-256 in hex, got {shown(digest)}")
        told = self._reply(
            InformResult, awarded, text=_cut(text, RESULT_TEXT), digest=digest, **cost
        )
        self._results.append(told)

    def failed(
        self,
        awarded: AwardedApi,
        *,
        kind: FailureKind,
        error: str,
        attempts: int,
        seconds: float,
        n_bytes: int,
        was_done: WasDone = "no",
    ) -> None:
        """Tell that an award has failed, also one that was given up while it ran.

        Parameters
        ----------
        awarded : AwardedApi
        kind : FailureKind
        error : str
            In words; the message holds its first 500 characters.
        attempts : int >= 0
            How often it was called.
        seconds, n_bytes
            As in `done`.
        was_done : {"no", "unknown"}, default="no"
            Whether it may have been done all the same. What only reads can be said to be not done:
            to do it a second time changes nothing.

        Raises
        ------
        InputError
            As in `done`.
        """
        if kind not in get_args(FailureKind):
            raise InputError(f"unknown kind of failure {shown(kind)}")
        if was_done not in get_args(WasDone):
            raise InputError(f"was_done must be 'no' or 'unknown', got {shown(was_done)}")
        cost = _cost(attempts, seconds, n_bytes)
        told = {"reason": kind, "error": _cut(error, _ERROR), "was_done": was_done}
        self._reply(Failure, awarded, **told, **cost)
        self._failed[awarded.award] = was_done

    def cancel(self, awarded: AwardedApi, why: str) -> None:
        """Take an award back; it is not awarded again.

        Raises
        ------
        InputError
            If the award has its end already.
        """
        contractor = self._close(awarded).contractor
        self._send(
            Cancel,
            sender=MANAGER,
            receiver=contractor,
            in_reply_to=awarded.award,
            why=_cut(why, _ERROR),
        )

    def close(self, why: str) -> None:
        """Take back all awards that are still open: the acting is over."""
        for awarded in list(self._open.values()):
            self.cancel(awarded, why)
        self._failed.clear()

    def __repr__(self) -> str:
        return f"Acting({len(self.awards)} awards, {len(self._open)} open)"

    def _left_for(self, failed: AwardedApi, among: Callable[[str], bool] | None) -> list[Candidate]:
        function = self._functions[failed.award]
        found = self._substitutes.of(self._first_api(failed), function)
        left = [c for c in found if (c.api, function) not in self._given]
        return left if among is None else [c for c in left if among(c.api)]

    def _first_api(self, awarded: AwardedApi) -> str:
        """Return the API that the job of an award was given to at first."""
        first = self._job[awarded.award]
        return next(each.api for each in self.awards if each.award == first)

    def _reply(self, message: type[Any], awarded: AwardedApi, **fields: Any) -> Any:
        own = self._close(awarded)
        ends = {"sender": own.contractor, "receiver": MANAGER, "in_reply_to": own.award}
        return self._send(message, api=own.api, **ends, **fields)

    def _close(self, awarded: AwardedApi) -> AwardedApi:
        own = self._open.get(awarded.award)
        if own != awarded:
            raise InputError(f"{awarded!r} is not an award that is open (each has one end)")
        return self._open.pop(awarded.award)


def _cost(attempts: int, seconds: float, n_bytes: int) -> dict[str, Any]:
    """Return what calls have cost, checked."""
    return {
        "attempts": check_number("attempts", attempts, 0, whole=True),
        "seconds": check_number("seconds", seconds, 0, LONGEST),
        "n_bytes": check_number("n_bytes", n_bytes, 0, whole=True),
    }


def _cut(text: str, most: int) -> str:
    """Return a text as files take it, in at most so many characters; its end says if it was cut."""
    text = sendable(text)
    if len(text) <= most:
        return text
    note = f"... ({len(text):,} characters)"
    return text[: most - len(note)] + note
