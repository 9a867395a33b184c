"""`Cast`, `Arrow`: who is drawn in a sequence diagram, and which messages are one arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from cnp_router.protocols import Transcript
from cnp_router.protocols.messages import (
    MANAGER,
    USER,
    Award,
    CallForProposals,
    Failure,
    Message,
    Proposal,
    Refusal,
    Report,
    Request,
)

__all__ = ["Arrow", "Cast", "arrows_of", "bands_of", "category_managers"]


@dataclass(frozen=True)
class Cast:
    """Who is drawn: each party's lifeline, and what each lifeline is called."""

    lifeline_of: Mapping[str, str]
    lifelines: Mapping[str, str]  # key to name
    n_together: Mapping[str, int]

    @classmethod
    def of(
        cls, messages: Sequence[Message], n_alone: int, managers: frozenset[str] = frozenset()
    ) -> Cast:
        """Return the cast of a round, in which so many contractors or groups have a lifeline.

        Category managers, who are no contractors, are not drawn together with these.
        """
        ranks = _ranks(messages)
        by_rank = sorted(ranks, key=lambda name: ranks[name])
        silent = [name for name in by_rank if ranks[name] == _SILENT]
        if len(silent) > 2 or len(ranks) > n_alone:
            # One place is for those who do not propose, and one for who has no place else.
            loud = [name for name in by_rank if ranks[name] != _SILENT]
            kinds = {name in managers for name in silent}
            places = n_alone - len(kinds)
            alone = loud if len(loud) <= places else loud[: max(places - 1, 0)]
            crowd = loud[len(alone) :]
        else:
            alone, crowd, silent = by_rank, [], []
        own = {name: f"={name}" for name in (USER, MANAGER, *alone)}
        lifelines = {own[name]: name for name in (USER, MANAGER, *alone)}
        lifelines |= {"crowd": f"{len(crowd):,} others propose"} if crowd else {}
        own |= dict.fromkeys(crowd, "crowd")
        together = {"crowd": len(crowd)}
        others = "others" if alone or crowd else "contractors"
        quiet = {
            "managers": ("category managers", [name for name in silent if name in managers]),
            "silent": (others, [name for name in silent if name not in managers]),
        }
        for key, (who, names) in quiet.items():
            if names:
                said = "" if key == "managers" else f" {_what(messages, names)}"  # there is no room
                lifelines[key] = f"{len(names):,} {who}{said}"
                together[key] = len(names)
                own |= dict.fromkeys(names, key)
        return cls(own, lifelines, together)


_SILENT = 3


def category_managers(transcript: Transcript) -> frozenset[str]:
    """Return who was called to pass the call on: nobody, unless the round is hierarchical."""
    return frozenset(
        message.receiver
        for message in transcript.messages
        if transcript.protocol == "hierarchical"
        and isinstance(message, CallForProposals)
        and message.sender == MANAGER
        and message.iteration == 1
    )


def _ranks(messages: Sequence[Message]) -> dict[str, int]:
    """Return of each contractor, by appearance, how little is to be seen of it.

    0 for who manages a net of its own, 1 for who is awarded something, 2 for who proposes.
    """
    ranks: dict[str, int] = {}
    for message in messages:
        for name in (message.sender, message.receiver):
            if name not in (USER, MANAGER):
                ranks.setdefault(name, _SILENT)
        if isinstance(message, Award):
            ranks[message.receiver] = min(ranks[message.receiver], 1)
        elif isinstance(message, Proposal):
            ranks[message.sender] = min(ranks[message.sender], 2)
        elif isinstance(message, CallForProposals) and message.sender != MANAGER:
            ranks[message.sender] = 0
    return ranks


def _what(messages: Sequence[Message], silent: Iterable[str]) -> str:
    """Return what those do who propose nothing."""
    names = set(silent)
    refuse = any(isinstance(m, Refusal) and m.sender in names for m in messages)
    fail = any(isinstance(m, Failure) and m.sender in names for m in messages)
    if refuse or fail:
        return " or ".join(["refuse"] * refuse + ["fail"] * fail)
    return "do not answer"


@dataclass(slots=True)
class Arrow:
    """Messages of one kind between the same two, in the same stage."""

    band: tuple[str, int, int]
    sender: str
    receiver: str
    messages: list[Message] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The performative."""
        return self.messages[0].performative


def arrows_of(messages: Sequence[Message], cast: Cast) -> list[Arrow]:
    """Return the arrows of a round, stage by stage, in the order of sending."""
    bands = bands_of(messages)
    arrows: dict[tuple[object, ...], Arrow] = {}
    for message, band in zip(messages, bands, strict=True):
        ends = cast.lifeline_of[message.sender], cast.lifeline_of[message.receiver]
        key = (band, message.performative, *ends)
        arrows.setdefault(key, Arrow(band, *ends)).messages.append(message)
    first = {band: place for place, band in reversed(list(enumerate(bands)))}
    in_order = sorted(arrows.values(), key=lambda arrow: first[arrow.band])
    # What one party sends to many at a time goes from the left to the right.
    place = {key: number for number, key in enumerate(cast.lifelines)}
    runs = groupby(in_order, key=lambda arrow: (arrow.band, arrow.kind, arrow.sender))
    return [each for _, run in runs for each in sorted(run, key=lambda a: place[a.receiver])]


def bands_of(messages: Sequence[Message]) -> list[tuple[str, int, int]]:
    """Return the stage of each message, with the iteration and wave of its call for proposals."""
    found: dict[int, tuple[str, int, int]] = {}
    for message in messages:
        stage = message.stage
        if stage == "request":
            found[message.id] = ("report" if isinstance(message, Report) else stage, 0, 0)
        elif stage == "execution":
            found[message.id] = (stage, 0, 0)
        elif isinstance(message, CallForProposals):
            found[message.id] = (stage, message.iteration, message.wave)
        elif not isinstance(message, Request):
            _, iteration, wave = found.get(message.in_reply_to, ("", 1, 1))
            found[message.id] = (stage, iteration, wave if stage == "bidding" else 0)
    return [found[message.id] for message in messages]
