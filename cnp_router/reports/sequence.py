"""`sequence_figure`: a round as a sequence diagram, however many contractors took part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cnp_router.evaluation.table import count
from cnp_router.protocols import Transcript
from cnp_router.protocols.messages import (
    MANAGER,
    USER,
    Award,
    CallForProposals,
    Failure,
    InformResult,
    Proposal,
    Rejection,
    Report,
)
from cnp_router.reports.lifelines import Arrow, Cast, arrows_of, bands_of, category_managers
from cnp_router.reports.listing import limited
from cnp_router.reports.message_texts import message_table, said_by
from cnp_router.reports.page import Figure
from cnp_router.reports.shapes import Shapes, fitted, time_text

__all__ = ["sequence_figure"]

MOST_LIFELINES = 12
MOST_ARROWS = 60

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
    >>> from cnp_router.protocols.messages import Report, Request
    >>> transcript = Transcript("a map", "single-agent", "broadcast", "tiny", (
    ...     Request(id=1, sender="user", receiver="manager", text="a map"),
    ...     Report(id=2, sender="manager", receiver="user", in_reply_to=1, apis=("maps",))))
    >>> figure = sequence_figure(transcript)
    >>> figure.says
    'Lifelines from left to right: user and manager. 2 messages: 1 request, 1 inform.'
    >>> figure.table.rows[1][:4]
    ('2', 'inform', 'manager', 'user')
    """
    managers = category_managers(transcript)
    for n_alone in range(MOST_LIFELINES - 2, 0, -1):
        cast = Cast.of(transcript.messages, n_alone, managers)
        arrows = arrows_of(transcript.messages, cast)
        if len(arrows) <= MOST_ARROWS and len(cast.lifelines) <= MOST_LIFELINES:
            break
    shown = arrows[: MOST_ARROWS - 1] + arrows[-1:] if len(arrows) > MOST_ARROWS else arrows
    svg = _drawn(shown, cast, transcript)
    says = _says(transcript, cast, len(arrows) - len(shown))
    return Figure(title, svg, says, message_table(transcript.messages))


def _drawn(arrows: Sequence[Arrow], cast: Cast, transcript: Transcript) -> str:
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
    shown = limited(name)
    if fitted(shown, width, size=12) == shown:  # it is bold, and therefore wider
        return shown, ""
    room = int(width / 7.1)
    cuts = [n for n in range(1, room + 1) if shown[n - 1 : n] in " -_/."]
    cut = max(cuts, default=room)
    return shown[:cut].strip(), fitted(shown[cut:].strip(), width, size=10)


def _arrow(shapes: Shapes, arrow: Arrow, x: Mapping[str, float], y: float, cast: Cast) -> None:
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


def _label(arrow: Arrow, length: float) -> str:
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


def _title(arrow: Arrow, cast: Cast) -> str:
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
    bands = bands_of(transcript.messages)
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


def _says(transcript: Transcript, cast: Cast, n_left_out: int) -> str:
    names = [limited(name, 40) for name in cast.lifelines.values()]
    shown = f"{', '.join(names[:-1])} and {names[-1]}"
    counts = transcript.ledger.messages
    kinds = ", ".join(
        f"{number:,} {'cfp (call for proposals)' if name == 'cfp' else name}"
        for name, number in counts.items()
    )
    said = f"Lifelines from left to right: {shown}. "
    said += f"{count(transcript.ledger.n_messages)} messages: {kinds}."
    if transcript.seconds:
        said += f" The round took {time_text(transcript.seconds)}."
    if together := sum(cast.n_together.values()):
        said += f" {together:,} of them are drawn together, with the number of their messages."
    if n_left_out:
        said += f" {n_left_out:,} arrows are not drawn."
    return said
