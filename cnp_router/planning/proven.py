"""`ProvenPlans`: plans that have worked, offered for a near-repeat before a planner is paid."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cnp_router.agents.said import Said
from cnp_router.exceptions import InputError
from cnp_router.execution import Job, Plan
from cnp_router.files import alone, as_path, check_writable, read_jsonl, write_jsonl
from cnp_router.forgetting import Forgetting
from cnp_router.records import Record, check_number, check_request, check_user, shown
from cnp_router.text import content_words, split_identifier, words
from cnp_router.text.prohibition import forbids, only_asks, only_tells

__all__ = ["PLANS_FILE", "Offer", "OfferPlan", "ProvenPlans", "likeness", "named_values"]

PLANS_FILE = "plans.jsonl"
"""In the folder of a model."""

LEAST_LIKENESS = 0.9
_KINDS = ("quoted", "url", "email", "datetime", "date", "time", "zone", "path", "number")
# Function words that another plan comes of.
_TURNING = "after all before except no none not only over under until without"
_TURNS = frozenset(_TURNING.split())
# Capitalised words, but not where a sentence begins.
_NAME = re.compile(r"(?<=[^.!?\s]\s)[A-Z]\w+(?:\s[A-Z]\w+)*")


@dataclass(frozen=True, slots=True)
class Offer:
    """A plan that has worked for a request nearly like this one.

    Parameters
    ----------
    plan : Plan
        For the request of now, with its values in the place of those of before.
    before : str
        The request that the plan was made for.
    likeness : float in [0, 1]
        Of the words of both requests, without named values.
    changed : tuple of pairs of str, default=()
        Named values of before, and what stands in the plan in their place now.
    only_before, only_now : tuple of str, default=()
        Other words that only one of the requests has.
    is_other_profile : bool, default=False
        Whether the user's profile was another one.

    Attributes
    ----------
    differs : tuple of str
        All that is not as it was, a phrase each; empty: the same values and words.
    """

    plan: Plan
    before: str
    likeness: float
    changed: tuple[tuple[str, str], ...] = ()
    only_before: tuple[str, ...] = ()
    only_now: tuple[str, ...] = ()
    is_other_profile: bool = False

    @property
    def differs(self) -> tuple[str, ...]:
        """All that is not as it was, a phrase each."""
        values = (f"{old!r} is {new!r} now" for old, new in self.changed)
        before = (f"{word!r} was said before" for word in self.only_before)
        now = (f"{word!r} is said now" for word in self.only_now)
        profile = ("the profile was another one",) if self.is_other_profile else ()
        return (*values, *before, *now, *profile)


OfferPlan = Callable[[Offer], bool | Awaitable[bool]]
"""Answers whether an offered plan is run; False: the planner is asked."""


class ProvenPlans:
    """Plans whose jobs were all done, by user, in a file that only its owner may read.

    A plan is offered for a request of the same user whose words are nearly the same, its named
    values set aside (what stands in quotes, addresses, dates, times, numbers, paths, names). Where
    values differ, those of now take the place of those of before in the plan, if each of them
    stands in it; otherwise it is not offered. Nor is it where a word that is not said any more
    stands in the plan ("book" is not "cancel"), or where more words have come than gone: who says
    more wants more.

    Parameters
    ----------
    path : str or Path
        A JSON Lines file, made if it does not exist; its folder must.
    least : float in (0, 1], default=0.9
        Likeness from which a plan is offered.
    most : int >= 1, default=500
        Plans that are kept; the oldest go first.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> proven = ProvenPlans(pathlib.Path(tempfile.mkdtemp(), "plans.jsonl"))
    >>> proven.keep(Plan("Show hotels near Gion.", (
    ...     Job("find", api="maps__find", inputs={"query": "hotels near Gion"}),)))
    >>> offer = proven.near("Please show hotels near Shibuya")
    >>> offer.differs, offer.plan.jobs[0].inputs
    (("'Gion' is 'Shibuya' now",), {'query': 'hotels near Shibuya'})
    >>> proven.near("Cancel the hotel near Gion.") is None
    True
    """

    def __init__(self, path: str | Path, *, least: float = LEAST_LIKENESS, most: int = 500) -> None:
        self.path = as_path(path)
        self.least = check_number("least", least, 0, 1)
        self.most = check_number("most", most, 1, whole=True)

    def keep(self, plan: Plan, *, user: str | None = None, profile: str = "") -> None:
        """Keep a plan that has worked; it replaces one of the same user and request.

        Raises
        ------
        DataFileError
            If the file cannot be read or written.
        """
        entry: dict[str, Any] = {"plan": plan.to_dict()}
        if user is not None:
            entry["user"] = check_user(user)
        if profile:
            entry["profile"] = _digest(profile)
        key = _key(entry)
        self._change(lambda there: [*(e for e in there if _key(e) != key), entry][-self.most :])

    def near(
        self,
        request: str,
        *,
        user: str | None = None,
        profile: str = "",
        known: Collection[str] | None = None,
    ) -> Offer | None:
        """Return the plan of the most alike request that can be offered; None if there is none.

        Parameters
        ----------
        request : str
        user : str, optional
            Plans of others are not looked at.
        profile : str, default=""
            What is known of the user now.
        known : collection of str, optional
            APIs that there are: a plan that names another one is not offered.

        Raises
        ------
        DataFileError
            If the file cannot be read.
        """
        check_request(request)
        alike = []
        for plan, entry in self._plans():
            if entry.get("user") == user and (known is None or _apis(plan) <= set(known)):
                score = likeness(plan.request, request)
                if score >= self.least:
                    alike.append((score, plan, entry))
        for score, plan, entry in sorted(alike, key=lambda each: -each[0]):
            offer = _offer(plan, request, score)
            if offer is not None:
                other = entry.get("profile") != (_digest(profile) if profile else None)
                return replace(offer, is_other_profile=other)
        return None

    def forget(self, what: Forgetting) -> int:
        """Remove the plans of some users, and those that name some APIs; return how many.

        Raises
        ------
        DataFileError
            If the file cannot be read or written.
        """
        gone = 0

        def left(there: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
            nonlocal gone
            kept = [e for e in there if not self._is_of(e, what)]
            gone = len(there) - len(kept)
            return kept

        if self.path.exists():
            self._change(left)
        return gone

    def count(self, what: Forgetting) -> int:
        """Return how many plans `forget` would remove."""
        return sum(self._is_of(entry, what) for _, entry in self._plans())

    def __len__(self) -> int:
        return sum(1 for _ in self._plans())

    def __repr__(self) -> str:
        return f"ProvenPlans({str(self.path)!r})"

    def _is_of(self, entry: Mapping[str, Any], what: Forgetting) -> bool:
        named = {job.get("api") for job in entry["plan"]["jobs"]}
        return entry.get("user") in what.users or bool(named & set(what.apis))

    def _plans(self) -> Iterator[tuple[Plan, Mapping[str, Any]]]:
        if not self.path.exists() or not self.path.stat().st_size:
            return
        for line, fields in read_jsonl(self.path):
            record = Record(fields, self.path, line)
            yield Plan.parse(Record(record.get("plan", _object), self.path, line)), fields

    def _change(self, change: Callable[[list[Mapping[str, Any]]], list[Mapping[str, Any]]]) -> None:
        check_writable(self.path)
        with alone(self.path):
            entries = change([entry for _, entry in self._plans()])
            self.path.touch(0o600)
            if entries:
                write_jsonl(self.path, entries)
            else:
                self.path.unlink()


def likeness(before: str, now: str) -> float:
    """Return how alike the words of two requests are, their named values set aside.

    The coefficient of Dice (1945) over the words that carry meaning, in [0, 1].

    Examples
    --------
    >>> likeness("Dim the lights to 30.", "please dim the lights to 50")
    1.0
    >>> likeness("Dim the lights.", "Where is Kyoto?")
    0.0
    """
    one, other = _words(before), _words(now)
    return 2 * len(one & other) / max(len(one) + len(other), 1)


def _offer(plan: Plan, request: str, score: float) -> Offer | None:
    """Return a plan with the values of now; None where these or the words do not fit it."""
    if any(is_so(request) != is_so(plan.request) for is_so in (forbids, only_asks, only_tells)):
        return None
    changed = _pairs(plan.request, request)
    one, other = _words(plan.request), _words(request)
    if (one ^ other) & _TURNS:
        return None
    said = list(_texts(plan))
    stand = {word for text in said for word in content_words(split_identifier(text))}
    if changed is None or stand & (one - other) or len(other - one) > len(one - other):
        return None
    if not all(any(_whole(old).search(text) for text in said) for old in changed):
        return None
    try:
        new = Plan(
            request,
            tuple(_with_values(job, changed) for job in plan.jobs),
            _replaced(plan.guideline, changed),
        )
    except InputError:  # a value stood in a reference
        return None
    pairs = tuple((old, str(value)) for old, value in changed.items())
    return Offer(new, plan.request, score, pairs, (*sorted(one - other),), (*sorted(other - one),))


def named_values(text: str) -> dict[str, list[Any]]:
    """Return the named values of a text, by kind."""
    said = Said(text)
    found = {kind: [each.value for each in said.of(kind)] for kind in _KINDS}
    names = dict.fromkeys(match[0] for match in _NAME.finditer(text))
    others = [str(value) for values in found.values() for value in values]
    found["name"] = [name for name in names if not any(name in other for other in others)]
    return found


def _pairs(before: str, now: str) -> dict[str, Any] | None:
    """Return which value stands for which of before; None where that cannot be said."""
    pairs: dict[str, Any] = {}
    old, new = named_values(before), named_values(now)
    for kind, values in old.items():
        gone = [value for value in values if value not in new[kind]]
        come = [value for value in new[kind] if value not in values]
        if len(gone) != len(come):
            return None
        own = {str(value): other for value, other in zip(gone, come, strict=True)}
        if [own.get(str(value), value) for value in values] != new[kind]:
            return None  # what stays has another place
        pairs |= own
    return pairs


def _words(text: str) -> set[str]:
    """Return the words of a text that carry meaning, without those of its named values."""
    for values in named_values(text).values():
        for value in sorted(map(str, values), key=len, reverse=True):
            text = _whole(value).sub(" ", text)
    turns = (word for word in words(text) if word in _TURNS)
    return {*content_words(text), *turns}


def _texts(plan: Plan) -> Iterator[str]:
    """Yield what a plan says: guideline, tasks, APIs and inputs."""
    yield plan.guideline
    for job in plan.jobs:
        yield from (job.task, job.api or "", *_within(job.inputs or {}))


def _within(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in () if "$from" in value else value.values():
            yield from _within(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _within(inner)
    elif value is not None:
        yield str(value)


def _with_values(job: Job, changed: Mapping[str, Any]) -> Job:
    """Return a job with other values in its task and inputs."""
    inputs = None if job.inputs is None else _replaced(job.inputs, changed)
    return replace(job, task=_replaced(job.task, changed), inputs=inputs)


def _replaced(value: Any, changed: Mapping[str, Any]) -> Any:
    """Return a JSON value with other values in its texts, or in place of a whole one."""
    if isinstance(value, Mapping):
        if "$from" in value:
            return value
        return {key: _replaced(inner, changed) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(inner, changed) for inner in value]
    if isinstance(value, str) and changed:
        either = "|".join(_whole(old).pattern for old in sorted(changed, key=len, reverse=True))
        return re.sub(either, lambda match: str(changed[match[0]]), value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return changed.get(str(value), value) if is_number else value


def _whole(value: str) -> re.Pattern[str]:
    """Return a pattern of a value that is no part of a longer word."""
    return re.compile(rf"(?<!\w){re.escape(value)}(?!\w)")


def _apis(plan: Plan) -> set[str]:
    return {job.api for job in plan.jobs if job.api is not None}


def _key(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    return entry.get("user"), entry["plan"]["request"]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name} must be an object, got {shown(value)}")
    return value
