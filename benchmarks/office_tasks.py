"""Tasks for the servers of an office, drawn by a seed, and what would be right.

A session is one user's: five tasks, one after another, about the same few people, towns and orders.
A task is a request in steps, in the order in which the user happens to say them. Each has a *flow*,
two or three steps of which one needs what another finds, and one or two steps beside it. The five
tasks of a session say in five ways where a needed value comes from, each way once:

stated
    The request says the value itself. Nothing needs anything.
named
    The request names the step whose result is meant (a reference in the plan).
implied
    It names nothing; the step that finds the value comes before.
reversed
    It names nothing; the step that finds the value comes after.
recalled
    No step finds the value: an earlier task of the session did.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from benchmarks.office_servers import ABILITIES, fact

__all__ = ["KINDS", "Step", "Task", "make_sessions"]

KINDS = ("stated", "named", "implied", "reversed", "recalled")


@dataclass
class Step:
    """A step of a task.

    Parameters
    ----------
    ability : str
    inputs : dict
        What is right.
    text : str
        As the user says it.
    needs : dict of str to (Step, str)
        By input, the step whose result has it, and in which field.
    """

    ability: str
    inputs: dict[str, Any]
    text: str = ""
    needs: dict[str, tuple[Step, str]] = field(default_factory=dict)

    def is_same(self, other: Step) -> bool:
        """Return whether another step asks for the same."""
        return (self.ability, self.inputs) == (other.ability, other.inputs)

    @property
    def answer(self) -> dict[str, Any]:
        """What a server that works answers."""
        return fact(self.ability, self.inputs)

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return ABILITIES[self.ability].writes


@dataclass(frozen=True)
class Task:
    """A request of a session.

    Parameters
    ----------
    session : int
    kind : str
        One of `KINDS`.
    steps : tuple of Step
        In the order in which they are said.
    """

    session: int
    kind: str
    steps: tuple[Step, ...]

    @property
    def request(self) -> str:
        """All of it as one text."""
        return " ".join(step.text for step in self.steps)


# What begins a flow, and what follows: ability, and by input the step before (by its place) and the
# field of its result.
_FLOWS: dict[str, tuple[tuple[str, dict[str, tuple[int, str]]], ...]] = {
    "message": (("person", {}), ("send", {"to": (0, "email")})),
    "weather": (("place", {}), ("forecast", {"latitude": (0, "lat"), "longitude": (0, "lng")})),
    "parcel": (("order", {}), ("parcel", {"tracking_number": (0, "tracking_number")})),
    "price": (("order", {}), ("convert", {"amount": (0, "amount"), "currency": (0, "currency")})),
    "room": (("hotel", {}), ("reserve", {"hotel_id": (0, "hotel_id")})),
    "visit": (
        ("person", {}),
        ("hotel", {"city": (0, "city")}),
        ("reserve", {"hotel_id": (1, "hotel_id")}),
    ),
    "trip": (
        ("person", {}),
        ("place", {"city": (0, "city")}),
        ("forecast", {"latitude": (1, "lat"), "longitude": (1, "lng")}),
    ),
    "customer": (
        ("order", {}),
        ("person", {"name": (0, "customer")}),
        ("send", {"to": (1, "email")}),
    ),
}
_BESIDE = ("person", "place", "order", "hotel", "train")

# How a step is said: with its values; with what the flow is about; with neither.
_SAID: dict[str, tuple[str, str, str]] = {
    "person": (
        'Look up the person "{name}".',
        "Look up the person that {about} belongs to.",
        "Look up the person that it belongs to.",
    ),
    "place": (
        'Find the coordinates of the city "{city}".',
        "Find the coordinates of the city of {about}.",
        "Find the coordinates of that city.",
    ),
    "forecast": (
        "Forecast the weather at latitude: {latitude}, longitude: {longitude}.",
        "Forecast the weather of tomorrow for {about}.",
        "Forecast the weather of tomorrow there.",
    ),
    "order": ('Look up the order "{order_number}".', "", ""),
    "parcel": (
        'Track the parcel with the tracking number: "{tracking_number}".',
        "Track the parcel of order {about}.",
        "Track the parcel of it.",
    ),
    "convert": (
        'Convert to euros, amount: {amount}, currency: "{currency}".',
        "Convert the amount of order {about} to euros.",
        "Convert the amount of it to euros.",
    ),
    "hotel": (
        'Find a hotel in the city "{city}".',
        "Find a hotel in the city of {about}.",
        "Find a hotel in that city.",
    ),
    "reserve": (
        'Reserve a room for the night of {date}, hotel id: "{hotel_id}".',
        "Reserve a room in the hotel for {about}, for the night of {date}.",
        "Reserve a room in that hotel for the night of {date}.",
    ),
    "train": ('Find the next train, origin: "{origin}", destination: "{destination}".', "", ""),
    "send": (
        'Send a message to {to}: "{text}"',
        'Send a message to {about}: "{text}"',
        'Send them a message: "{text}"',
    ),
}
_FIRST = [
    "Aiko",
    "Bo",
    "Carla",
    "Dev",
    "Elif",
    "Femi",
    "Greta",
    "Hugo",
    "Ines",
    "Jun",
    "Kaya",
    "Luca",
    "Mona",
    "Nils",
    "Olga",
    "Pavel",
]
_SOUNDS = [
    "ba",
    "ke",
    "li",
    "mo",
    "nu",
    "ra",
    "se",
    "ti",
    "vo",
    "za",
    "de",
    "fi",
    "go",
    "ha",
    "jo",
    "pa",
]
_TEXTS = ("See you on Monday.", "Thank you for everything.", "The papers are ready.", "Call me.")


def make_sessions(seed: int, n: int = 12) -> list[list[Task]]:
    """Return the sessions, of five tasks each; no two share a person, a town or an order."""
    rng = random.Random(f"tasks {seed}")
    taken: set[str] = set()

    def fresh(parts: int) -> str:
        while True:
            word = "".join(rng.choice(_SOUNDS) for _ in range(parts)).capitalize()
            if word not in taken:
                taken.add(word)
                return word

    sessions = []
    for number in range(n):
        about = {
            "person": [f"{rng.choice(_FIRST)} {fresh(3)}" for _ in range(2)],
            "city": [fresh(4) for _ in range(2)],
            "order": [f"A-{fresh(2).upper()}{rng.randrange(10, 99)}" for _ in range(2)],
        }
        sessions.append(_Session(number, about, rng).tasks())
    return sessions


class _Session:
    def __init__(self, number: int, about: dict[str, list[str]], rng: random.Random) -> None:
        self.number, self.about, self.rng = number, about, rng
        self.found: list[Step] = []  # first steps of the flows until now
        self.texts = 0

    def tasks(self) -> list[Task]:
        kinds = self.rng.sample(KINDS, len(KINDS))
        while kinds[0] == "recalled":  # nothing was found yet
            self.rng.shuffle(kinds)
        return [self.task(kind) for kind in kinds]

    def task(self, kind: str) -> Task:
        if kind == "recalled":
            first = self.rng.choice(self.found)
            flows = [flow for flow in _FLOWS.values() if flow[0][0] == first.ability]
        else:
            first = None
            flows = list(_FLOWS.values())
        flow = self.flow(self.rng.choice(flows), first)
        self.found.append(flow[0])
        steps = flow[1:] if first is not None else flow
        n_beside = self.rng.choice((1, 2))
        beside: list[Step] = []
        while len(beside) < n_beside:
            other = self.alone(self.rng.choice(_BESIDE))
            if not any(other.is_same(step) for step in (*flow, *beside)):
                beside.append(other)
        givers = {giver.ability for step in steps for giver, _ in step.needs.values()}
        is_plain = kind == "recalled" or bool(givers & {step.ability for step in beside})
        for step in steps:
            bare = not is_plain and kind != "named" and self.rng.random() < 0.5
            step.text = self.said(step, kind, _about(flow[0]), bare=bare)
        if kind == "stated":
            for step in steps:
                step.needs = {}
        return Task(self.number, kind, tuple(self.mixed(kind, steps, beside)))

    def flow(self, flow: Any, first: Step | None) -> list[Step]:
        """Return the steps of a flow, the first of which may be there already."""
        steps = [first or self.alone(flow[0][0])]
        for ability, needs in flow[1:]:
            known = {name: (steps[place], key) for name, (place, key) in needs.items()}
            values = {name: giver.answer[key] for name, (giver, key) in known.items()}
            steps.append(Step(ability, {**values, **self.rest(ability)}, needs=known))
        return steps

    def rest(self, ability: str) -> dict[str, Any]:
        """Return the inputs that no other step gives."""
        if ability == "send":
            self.texts += 1
            return {"text": f"{self.rng.choice(_TEXTS)} ({self.texts})"}
        if ability == "reserve":
            return {"date": f"2027-0{self.rng.randrange(1, 9)}-{self.rng.randrange(10, 28)}"}
        return {}

    def alone(self, ability: str) -> Step:
        """Return a step that needs nothing."""
        pick = self.rng.choice
        inputs: dict[str, Any] = {
            "person": lambda: {"name": pick(self.about["person"])},
            "order": lambda: {"order_number": pick(self.about["order"])},
            "train": lambda: dict(
                zip(("origin", "destination"), self.rng.sample(self.about["city"], 2), strict=True)
            ),
        }.get(ability, lambda: {"city": pick(self.about["city"])})()
        return Step(ability, inputs, _SAID[ability][0].format(**inputs))

    def said(self, step: Step, kind: str, about: str, *, bare: bool) -> str:
        way = 0 if kind == "stated" or not step.needs else 1 + bare
        return _SAID[step.ability][way].format(**step.inputs, about=about)

    def mixed(self, kind: str, flow: list[Step], beside: list[Step]) -> list[Step]:
        """Return all steps in the order in which they are said."""
        steps = [*flow, *beside]
        order = {id(step): place for place, step in enumerate(flow)}
        while True:
            self.rng.shuffle(steps)
            places = [order[id(step)] for step in steps if id(step) in order]
            is_sorted = places == sorted(places)
            if is_sorted != (kind == "reversed"):
                return steps


def _about(first: Step) -> str:
    return str(next(iter(first.inputs.values())))
