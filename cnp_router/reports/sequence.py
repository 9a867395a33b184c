"""`sequence_figure`: a round as a sequence diagram, however many contractors took part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from cnp_router.evaluation.table import Table, count
from cnp_router.llm.redaction import without_secrets
from cnp_router.printing import printable
from cnp_router.protocols import Transcript
from cnp_router.protocols.messages import (
    MANAGER,
    USER,
    Award,
    CallForProposals,
    Cancel,
    Failure,
    InformResult,
    Message,
    Proposal,
    Refusal,
    Rejection,
    Report,
    Request,
)
from cnp_router.reports.page import Figure
from cnp_router.reports.shapes import Shapes, fitted, time_text

__all__ = ["said_by", "sequence_figure"]

MOST_LIFELINES = 12
MOST_ARROWS = 60
MOST_ROWS = 300  # of the table

_FIRST = 54  # pixels from the left to the first lifeline
_TO_MANAGER = 110
_FOR_CONTRACTORS = 1_000
_APART, _FAR_APART = 98, 170  # between two lifelines: at least, and at most
_ROW = 25
_HEAD = 62
_BOX = 92
_LEAST = 530  # pixels in width: what is narrower is made smaller on a phone

# What is drawn with dashes says no; the others ask, offer, or do.
_DASHED = ("refuse", "failure", "reject-proposal", "cancel")
_COLOURS = {
    "propose": "accent",
    "accept-proposal": "good",
    "inform-result": "good",
    "inform": "good",
    "failure": "bad",
    "cancel": "unsure",
}


def sequence_figure(transcript: Transcript, title: str = "The round, message by message") -> Figure:
    """Return the sequence diagram of a round.

    Contractors that do not propose are drawn as one, and so are those that propose and are awarded
    nothing, as far as there is no room for them. Messages of one kind between the same two, in the
    same stage, are one arrow with their number.

    Parameters
    ----------
    transcript : Transcript
    title : str, optional

    Returns
    -------
    Figure
        At most 12 lifelines and 60 arrows; its table has at most 300 messages. What was left out
        is said.

    Examples
    --------
    >>> transcript = Transcript("a map", "single-agent", "broadcast", "tiny", (
    ...     Request(id=1, sender="user", receiver="manager", text="a map"),
    ...     Report(id=2, sender="manager", receiver="user", in_reply_to=1, apis=("maps",))))
    >>> figure = sequence_figure(transcript)
    >>> figure.says
    'Lifelines from left to right: user and manager. 2 messages: 1 request, 1 inform.'
    >>> figure.table.rows[1][:4]
    ('2', 'inform', 'manager', 'user')
    """
    for n_alone in range(MOST_LIFELINES - 2, 0, -1):
        cast = _Cast.of(transcript.messages, n_alone)
        arrows = _arrows(transcript.messages, cast)
        if len(arrows) <= MOST_ARROWS and len(cast.lifelines) <= MOST_LIFELINES:
            break
    shown = arrows[: MOST_ARROWS - 1] + arrows[-1:] if len(arrows) > MOST_ARROWS else arrows
    svg = _drawn(shown, cast, transcript)
    says = _says(transcript, cast, len(arrows) - len(shown))
    return Figure(title, svg, says, _table(transcript.messages))


@dataclass(frozen=True)
class _Cast:
    """Who is drawn: each party's lifeline, and what each lifeline is called."""

    lifeline_of: Mapping[str, str]
    lifelines: Mapping[str, str]  # key to name
    n_together: Mapping[str, int]

    @classmethod
    def of(cls, messages: Sequence[Message], n_alone: int) -> _Cast:
        ranks = _ranks(messages)
        by_rank = sorted(ranks, key=lambda name: ranks[name])
        silent = [name for name in by_rank if ranks[name] == _SILENT]
        if len(silent) > 2 or len(ranks) > n_alone:
            # One place is for those who do not propose, and one for who has no place else.
            loud = [name for name in by_rank if ranks[name] != _SILENT]
            places = n_alone - bool(silent)
            alone = loud if len(loud) <= places else loud[: max(places - 1, 0)]
            crowd = loud[len(alone) :]
        else:
            alone, crowd, silent = by_rank, [], []
        own = {name: f"={name}" for name in (USER, MANAGER, *alone)}
        lifelines = {own[name]: name for name in (USER, MANAGER, *alone)}
        lifelines |= {"crowd": f"{len(crowd):,} others propose"} if crowd else {}
        what = _what(messages, silent)
        others = " others" if alone or crowd else ""
        lifelines |= {"silent": f"{len(silent):,}{others} {what}"} if silent else {}
        own |= dict.fromkeys(crowd, "crowd") | dict.fromkeys(silent, "silent")
        return cls(own, lifelines, {"crowd": len(crowd), "silent": len(silent)})


_SILENT = 3


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
class _Arrow:
    """Messages of one kind between the same two, in the same stage."""

    band: tuple[str, int, int]
    sender: str
    receiver: str
    messages: list[Message] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.messages[0].performative


def _arrows(messages: Sequence[Message], cast: _Cast) -> list[_Arrow]:
    bands = _bands(messages)
    arrows: dict[tuple[object, ...], _Arrow] = {}
    for message, band in zip(messages, bands, strict=True):
        ends = cast.lifeline_of[message.sender], cast.lifeline_of[message.receiver]
        key = (band, message.performative, *ends)
        arrows.setdefault(key, _Arrow(band, *ends)).messages.append(message)
    first = {band: place for place, band in reversed(list(enumerate(bands)))}
    in_order = sorted(arrows.values(), key=lambda arrow: first[arrow.band])
    # What one party sends to many at a time goes from the left to the right.
    place = {key: number for number, key in enumerate(cast.lifelines)}
    runs = groupby(in_order, key=lambda arrow: (arrow.band, arrow.kind, arrow.sender))
    return [each for _, run in runs for each in sorted(run, key=lambda a: place[a.receiver])]


def _bands(messages: Sequence[Message]) -> list[tuple[str, int, int]]:
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


def _drawn(arrows: Sequence[_Arrow], cast: _Cast, transcript: Transcript) -> str:
    apart = min(max(_FOR_CONTRACTORS / max(len(cast.lifelines) - 2, 1), _APART), _FAR_APART)
    left, manager, *others = cast.lifelines
    x = {left: float(_FIRST), manager: _FIRST + max(apart, _TO_MANAGER)}
    x |= {key: x[manager] + 18 + apart * place for place, key in enumerate(others, start=1)}
    bands = list(dict.fromkeys(arrow.band for arrow in arrows))
    height = _HEAD + _ROW * (len(arrows) + len(bands)) + 12 * len(bands) + 44
    width = max(max(x.values()) + _BOX / 2 + 12, _LEAST)
    shapes = Shapes(width, height)
    y, places = float(_HEAD), []
    texts = _band_texts(transcript)
    for band in bands:
        own = [arrow for arrow in arrows if arrow.band == band]
        tall = _ROW * (len(own) + 1) + 4
        shapes.box(2, y, width - 4, tall, fill="well", radius=6)
        places.append((y, texts[band], own))
        y += tall + 8
    for key, name in cast.lifelines.items():
        shapes.line([(x[key], _HEAD - 12), (x[key], y + 6)], colour="rest", dash="3 4", width=1)
        many = cast.n_together.get(key, 0)
        for top in (8, y + 2):
            _head_of(shapes, x[key], top, name, many)
    for top, said, own in places:
        shapes.text(12, top + 17, said, bold=True, colour="soft", halo="well")
        for row, arrow in enumerate(own, start=1):
            _arrow(shapes, arrow, x, top + _ROW * row + 15, cast)
    return shapes.svg()


def _head_of(shapes: Shapes, x: float, y: float, name: str, many: int) -> None:
    """Draw the head of a lifeline; one of many has a double frame."""
    shapes.begin(name)
    if many:
        shapes.box(x - _BOX / 2 + 4, y + 4, _BOX, 34, fill="card", edge="rest", dash="3 3")
    shapes.box(x - _BOX / 2, y, _BOX, 34, fill="card", edge="rest" if many else "ink")
    first, rest = _in_two(name, _BOX - 6)
    if rest:
        size = 10 if many else 11
        shapes.text(x, y + 14, first, size=11, bold=True, anchor="middle")
        shapes.text(x, y + 28, rest, size=size, bold=not many, anchor="middle")
    else:
        shapes.text(x, y + 22, first, size=11, bold=True, anchor="middle")
    shapes.end()


def _in_two(name: str, width: float) -> tuple[str, str]:
    """Return a name as one or two lines."""
    shown = printable(name)
    if fitted(shown, width, size=12) == shown:  # it is bold, and therefore wider
        return shown, ""
    room = int(width / 7.1)
    cuts = [n for n in range(1, room + 1) if shown[n - 1 : n] in " -_/."]
    cut = max(cuts, default=room)
    return shown[:cut].strip(), fitted(shown[cut:].strip(), width, size=10)


def _arrow(shapes: Shapes, arrow: _Arrow, x: Mapping[str, float], y: float, cast: _Cast) -> None:
    kind, begin, end = arrow.kind, x[arrow.sender], x[arrow.receiver]
    colour = _COLOURS.get(kind, "soft")
    dash = "6 4" if kind in _DASHED else ""
    width = 2.2 if isinstance(arrow.messages[0], Award) else 1.4
    shapes.begin(_title(arrow, cast))
    if begin == end:
        shapes.line(
            [(begin, y - 4), (begin + 22, y - 4), (begin + 22, y + 6), (begin + 2, y + 6)],
            colour=colour, dash=dash, width=width,
        )  # fmt: skip
        shapes.head(begin + 1, y + 6, right=False, colour=colour)
        label = begin + 28
    else:
        right = end > begin
        shapes.line([(begin, y + 3), (end, y + 3)], colour=colour, dash=dash, width=width)
        shapes.head(end - 1 if right else end + 1, y + 3, right=right, colour=colour)
        label = min(begin, end) + 10
    shapes.text(
        label, y - 1, _label(arrow, abs(end - begin)), halo="well",
        bold=isinstance(arrow.messages[0], Award),
    )  # fmt: skip
    shapes.end()


def _label(arrow: _Arrow, length: float) -> str:
    """Return what stands at an arrow: its kind, how many, and what it is about."""
    kind, first, n = arrow.kind, arrow.messages[0], len(arrow.messages)
    said = f"{kind} \N{MULTIPLICATION SIGN} {n:,}" if n > 1 else kind
    more = ""
    if isinstance(first, InformResult | Failure) and not (
        isinstance(first, Failure) and first.api is None
    ):
        seconds = sum(getattr(message, "seconds", 0.0) for message in arrow.messages)
        tried = sum(getattr(message, "attempts", 0) for message in arrow.messages)
        more = f"{time_text(seconds)}, {tried} calls" if tried > n else time_text(seconds)
        if isinstance(first, Failure) and n == 1:
            more = f"{first.reason}, {more}"
    elif isinstance(first, Failure):
        kinds = Counter(m.reason for m in arrow.messages if isinstance(m, Failure))
        more = ", ".join(kinds)
    elif n == 1:
        if isinstance(first, Proposal):
            more = ", ".join(each.api for each in first.apis)
        elif isinstance(first, Award | Report):
            more = ", ".join(first.apis)
        elif isinstance(first, CallForProposals | Rejection):
            more = first.receiver
    room = max(length - 16, 300) - 8 * len(said)
    more = fitted(more, room) if more and room > 40 else ""
    return f"{said}: {more}" if more else said


def _title(arrow: _Arrow, cast: _Cast) -> str:
    """Return what is said of an arrow under the pointer."""
    n, first = len(arrow.messages), arrow.messages[0]
    names = {"sender": cast.lifelines[arrow.sender], "receiver": cast.lifelines[arrow.receiver]}
    said = f"{names['sender']} to {names['receiver']}: {arrow.kind}"
    if n > 1:
        parties = {m.sender for m in arrow.messages} | {m.receiver for m in arrow.messages}
        few = sorted(parties - {USER, MANAGER})[:8]
        return f"{said}, {n:,} messages ({', '.join(few)}{', ...' if len(parties) > 9 else ''})"
    what = said_by(first)
    return f"{said}: {what}" if what else said


def _band_texts(transcript: Transcript) -> dict[tuple[str, int, int], str]:
    """Return the label of each stage: what came of it, its tokens, the time of its models."""
    bands = _bands(transcript.messages)
    messages = dict(zip((m.id for m in transcript.messages), bands, strict=True))
    kinds: dict[tuple[str, int, int], Counter[str]] = {}
    for message, band in zip(transcript.messages, bands, strict=True):
        kinds.setdefault(band, Counter())[message.performative] += 1
    several = {
        "iteration": len({band[1] for band in bands if band[0] == "bidding"}) > 1,
        "wave": len({band[2] for band in bands if band[0] == "bidding"}) > 1,
    }
    texts = {}
    for band, said in kinds.items():
        stage, iteration, wave = band
        parts = [_STAGES[stage]]
        if several["iteration"] and iteration:
            parts[0] += f", iteration {iteration}"
        if several["wave"] and wave:
            parts[0] += f", wave {wave}"
        if stage == "bidding":
            parts.append(f"{said['cfp']:,} calls, {said['propose']:,} proposals")
            parts += [
                f"reply within {time_text(message.reply_by)}"
                for message, own in zip(transcript.messages, bands, strict=True)
                if own == band and isinstance(message, CallForProposals) and message.reply_by
            ][:1]
        calls = [
            call
            for call in transcript.calls
            if (messages.get(call.cfp) if call.cfp else _band_of(call.stage, bands)) == band
        ]
        if tokens := sum(call.tokens_in + call.tokens_out for call in calls):
            parts.append(f"{tokens:,} tokens")
        seconds = [call.seconds for call in calls if call.seconds]
        if len(seconds) > 1:
            parts.append(f"models {time_text(sum(seconds))}, longest {time_text(max(seconds))}")
        elif seconds:
            parts.append(f"model {time_text(seconds[0])}")
        texts[band] = "  \N{MIDDLE DOT}  ".join(parts)
    return texts


_STAGES = {
    "request": "Request",
    "bidding": "Announcement and proposals",
    "API selection": "Awards",
    "execution": "Execution",
    "report": "Result",
}


def _band_of(stage: str, bands: Sequence[tuple[str, int, int]]) -> tuple[str, int, int] | None:
    """Return where the manager's own reasoning of a stage is booked."""
    wanted = "API selection" if stage == "API selection" else "request"
    return next((band for band in bands if band[0] == wanted), None)


def said_by(message: Message, most: int = 200) -> str:
    """Return what a message says, for a person, in at most so many characters."""
    return printable(without_secrets(_said(message)), most)


def _said(message: Message) -> str:  # noqa: PLR0911 one line a kind of message
    if isinstance(message, Request):
        return message.text
    if isinstance(message, CallForProposals):
        wanted = message.function or message.request or ""
        return f"{wanted} (in {message.category})" if message.category else wanted
    if isinstance(message, Proposal):
        said = (f"{a.api}: {a.grounds}" if a.grounds else a.api for a in message.apis)
        return ("too late: " if message.late else "") + "; ".join(said)
    if isinstance(message, Refusal):
        return ("too late: " if message.late else "") + message.grounds
    if isinstance(message, Failure):
        return f"{message.reason}: {message.error}" if message.error else message.reason
    if isinstance(message, Award):
        again = f" (instead of award {message.instead_of})" if message.instead_of else ""
        return ", ".join(message.apis) + again
    if isinstance(message, InformResult):
        return f"{message.api}, {time_text(message.seconds)}: {message.text}"
    if isinstance(message, Cancel):
        return message.why
    return "" if isinstance(message, Rejection) else ", ".join(message.apis)


def _says(transcript: Transcript, cast: _Cast, n_left_out: int) -> str:
    names = [printable(name, 40) for name in cast.lifelines.values()]
    shown = f"{', '.join(names[:-1])} and {names[-1]}"
    counts = transcript.ledger.messages
    kinds = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    said = f"Lifelines from left to right: {shown}. "
    said += f"{count(transcript.ledger.n_messages)} messages: {kinds}."
    if transcript.seconds:
        said += f" The round took {time_text(transcript.seconds)}."
    if together := sum(cast.n_together.values()):
        said += f" {together:,} contractors are drawn together, with the number of their messages."
    if n_left_out:
        said += f" {n_left_out:,} arrows are not drawn."
    return said


def _table(messages: Sequence[Message]) -> Table:
    """Return the messages; of very many, those that ask and refuse are left out first."""
    told = [m for m in messages if not isinstance(m, CallForProposals | Refusal | Rejection)]
    rest = [m for m in messages if isinstance(m, CallForProposals | Refusal | Rejection)]
    kept = sorted((told + rest)[:MOST_ROWS], key=lambda message: message.id)
    left = Counter(message.performative for message in (told + rest)[MOST_ROWS:])
    kinds = ", ".join(f"{number:,} {name}" for name, number in left.items())
    return Table(
        "",
        ("no.", "message", "from", "to", "what it says"),
        tuple(
            (
                str(m.id),
                m.performative,
                printable(m.sender, 60),
                printable(m.receiver, 60),
                said_by(m),
            )
            for m in kept
        ),
        labels=5,
        notes=(f"Not listed: {kinds}.",) if left else (),
    )
