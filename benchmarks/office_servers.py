"""MCP servers of an office, for `coordination`: several have the same abilities, none is perfect.

What a server is comes from a `Desk`, which a seed made. The same code serves in this process and,
as a script, on standard input. Each server keeps a log of its own of the calls it got: figures are
counted from these logs, not from what the library says of itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["ABILITIES", "BEGIN", "Ability", "Desk", "Office", "fact", "make_desks", "office_server"]

COORDINATION = "cnp-router/coordination"
METHODS = ("capability/discover", "capability/negotiate")
BEGIN = "office/begin"
"""Method by which a run begins: what a server counts is then 0 again."""

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


@dataclass(frozen=True)
class Ability:
    """What several servers can do, each in words of its own.

    Parameters
    ----------
    inputs : dict of str to dict
        JSON Schema of each.
    answer : callable
        What comes back, by the inputs: the same for every server.
    returns : dict of str to dict
        JSON Schema of each field of it.
    tools : list of tuple of str
        Name and description, in several wordings.
    writes : bool, default=False
    """

    inputs: dict[str, dict[str, Any]]
    answer: Callable[..., dict[str, Any]]
    returns: dict[str, dict[str, Any]]
    tools: tuple[tuple[str, str], ...]
    writes: bool = False


def _hash(*parts: object) -> int:
    return int(hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12], 16)


def _pick(options: str, *parts: object) -> str:
    words = options.split()
    return words[_hash(options, *parts) % len(words)]


def _known(text: str, begin: str) -> None:
    """Raise LookupError for a number that nobody gave out."""
    if not text.startswith(begin) or not text[len(begin) :].isalnum():
        raise LookupError(f"nothing is known of {text!r}")


def _person(name: str) -> dict[str, Any]:
    mail = ".".join(name.lower().split())
    return {"name": name, "email": f"{mail}@example.org", "city": town_of(name), "floor": 3}


def town_of(name: str) -> str:
    """Return the town that a person lives in: one that nobody else does."""
    return f"{name.rsplit(maxsplit=1)[-1]}ton"


def _place(city: str) -> dict[str, Any]:
    lat, lng = _hash("lat", city) % 1200 / 10 - 60, _hash("lng", city) % 3000 / 10 - 150
    return {"city": city, "lat": round(lat, 1), "lng": round(lng, 1), "country": "Freedonia"}


def _forecast(latitude: float, longitude: float) -> dict[str, Any]:
    where = (round(latitude, 1), round(longitude, 1))
    return {"sky": _pick("sunny rain clouds snow", *where), "temperature": _hash(*where) % 35}


def _order(order_number: str) -> dict[str, Any]:
    _known(order_number, "A-")
    seed = _hash(order_number)
    return {
        "customer": f"{_pick('Ada Ben Cleo Dan', seed)} {order_number[2:6].capitalize()}son",
        "tracking_number": f"TR-{seed % 10**8}",
        "amount": seed % 900 + 100,
        "currency": _pick("SEK NOK DKK PLN", order_number),
    }


def _parcel(tracking_number: str) -> dict[str, Any]:
    _known(tracking_number, "TR-")
    return {"status": _pick("packed sent delivered", tracking_number), "depot": "East"}


def _convert(amount: float, currency: str) -> dict[str, Any]:
    return {"euros": round(amount * (_hash(currency) % 90 + 10) / 1000, 2)}


def _hotel(city: str) -> dict[str, Any]:
    return {"hotel_id": f"H-{_hash('hotel', city) % 10**6}", "price": _hash(city) % 90 + 60}


def _reserve(hotel_id: str, date: str) -> dict[str, Any]:
    _known(hotel_id, "H-")
    return {"booking": f"B-{_hash(hotel_id, date) % 10**6}"}


def _train(origin: str, destination: str) -> dict[str, Any]:
    return {"train": f"IC {_hash(origin, destination) % 900}", "minutes": _hash(origin) % 300}


def _send(to: str, text: str) -> dict[str, Any]:
    if "@" not in to:
        raise LookupError(f"nobody is known at {to!r}")
    return {"sent": f"M-{_hash(to, text) % 10**6}"}


_MAIL = {"type": "string", "format": "email", "description": "E-mail address of who gets it."}
_DAY = {"type": "string", "format": "date", "description": "The night, YYYY-MM-DD."}

ABILITIES: dict[str, Ability] = {
    "person": Ability(
        {"name": TEXT},
        _person,
        {"name": TEXT, "email": TEXT, "city": TEXT, "floor": NUMBER},
        (
            ("find_person", "Looks up a person by name, with address and floor."),
            ("lookup_colleague", "The directory entry of a person: who it is and where."),
            ("person_record", "Opens the record of a person in the staff list."),
        ),
    ),
    "place": Ability(
        {"city": TEXT},
        _place,
        {"city": TEXT, "lat": NUMBER, "lng": NUMBER, "country": TEXT},
        (
            ("locate_city", "Finds where a city is on the map: its coordinates."),
            ("geocode", "Coordinates of a city or town."),
            ("city_position", "The position of a city, and its country."),
        ),
    ),
    "forecast": Ability(
        {"latitude": NUMBER, "longitude": NUMBER},
        _forecast,
        {"sky": TEXT, "temperature": NUMBER},
        (
            ("forecast", "Forecasts the weather of tomorrow for a position."),
            ("weather_tomorrow", "Tomorrow's weather, sky and temperature."),
            ("sky", "Says what the weather will be: rain, snow or sun."),
        ),
    ),
    "order": Ability(
        {"order_number": TEXT},
        _order,
        {"customer": TEXT, "tracking_number": TEXT, "amount": NUMBER, "currency": TEXT},
        (
            ("get_order", "Looks up an order by its number."),
            ("order_details", "The details of an order: what it comes to, and how it is sent."),
            ("open_order", "Opens an order of a customer."),
        ),
    ),
    "parcel": Ability(
        {"tracking_number": TEXT},
        _parcel,
        {"status": TEXT, "depot": TEXT},
        (
            ("track_parcel", "Tracks a parcel: where it is now."),
            ("parcel_status", "The status of a parcel or shipment."),
            ("trace_shipment", "Traces a parcel that was sent."),
        ),
    ),
    "convert": Ability(
        {"amount": NUMBER, "currency": TEXT},
        _convert,
        {"euros": NUMBER},
        (
            ("to_euros", "Converts an amount of money to euros."),
            ("exchange", "Exchange of money: what an amount is in euros."),
            ("convert_currency", "Converts a currency to euros at the rate of today."),
        ),
    ),
    "hotel": Ability(
        {"city": TEXT},
        _hotel,
        {"hotel_id": TEXT, "price": NUMBER},
        (
            ("find_hotel", "Finds a hotel in a city, and its price."),
            ("hotel_search", "Searches the hotels of a city for the best one."),
            ("best_hotel", "The best hotel of a city."),
        ),
    ),
    "reserve": Ability(
        {"hotel_id": TEXT, "date": _DAY},
        _reserve,
        {"booking": TEXT},
        (
            ("reserve_room", "Reserves a room in a hotel for a night."),
            ("book_night", "Books a room for a night."),
            ("new_reservation", "Makes the reservation of a room."),
        ),
        writes=True,
    ),
    "train": Ability(
        {"origin": TEXT, "destination": TEXT},
        _train,
        {"train": TEXT, "minutes": NUMBER},
        (
            ("train_connection", "Finds the next train between two cities."),
            ("railway", "The railway timetable: a train from an origin to a destination."),
            ("next_train", "When the next train goes, and how long it takes."),
        ),
    ),
    "send": Ability(
        {"to": _MAIL, "text": TEXT},
        _send,
        {"sent": TEXT},
        (
            ("send_message", "Sends a message to a person."),
            ("write_mail", "Writes a message by e-mail to somebody."),
            ("deliver_note", "Delivers a written message to its reader."),
        ),
        writes=True,
    ),
}


def fact(ability: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every server that works answers; LookupError where nothing is known."""
    return ABILITIES[ability].answer(**inputs)


@dataclass(frozen=True)
class Desk:
    """One server, as a seed made it.

    Parameters
    ----------
    name : str
    tools : tuple of (str, int)
        Ability, and which wording of it.
    seconds : float
        That a call takes.
    failing : float in [0, 1]
        Share of calls that fail: half of them say so, half never answer.
    places : int
        Calls at a time; more wait.
    has_schemas : bool
        Whether it says what its results look like.
    is_coordinating : bool
        Whether it declares the methods of negotiation, and then declines what it has no place for.
    is_process : bool
        Whether it runs in a process of its own.
    seed : int
    """

    name: str
    tools: tuple[tuple[str, int], ...]
    seconds: float
    failing: float
    places: int
    has_schemas: bool
    is_coordinating: bool
    is_process: bool
    seed: int

    @classmethod
    def read(cls, path: Path) -> Desk:
        """Return the desk in a file."""
        found = json.loads(path.read_text())
        return cls(**{**found, "tools": tuple(map(tuple, found["tools"]))})

    def write(self, path: Path) -> None:
        """Write it for a process."""
        path.write_text(json.dumps(asdict(self)))


# Of ten servers. Which one gets which is drawn, each list by itself.
_SECONDS = (0.02, 0.03, 0.05, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
_FAILING = (0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.3, 0.3, 0.6)
_PLACES = (2, 2, 3, 3, 4, 4, 4, 6, 6, 8)
_HALF = (True, False) * 5
_THIRD = (True, True, True, *(False,) * 7)
_EACH = 3  # servers that have an ability, of ten
_NAMES = "north south east west harbor garden river market tower bridge"


def make_desks(seed: int, n: int = 10, processes: int = 2) -> list[Desk]:
    """Return servers: who has which ability, and how good each is, is drawn by the seed.

    Of ten, three have each ability, drawn independently of how fast and reliable they are.
    """
    rng = random.Random(f"desks {seed} {n}")
    names = [f"{name}{turn or ''}" for turn in range(-(-n // 10)) for name in _NAMES.split()][:n]
    tools: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
    for ability, what in ABILITIES.items():
        # Who has least to do gets the next one; which of those is drawn.
        for place in range(max(_EACH * n // 10, 2)):
            free = [name for name in names if ability not in dict(tools[name])]
            least = min(len(tools[name]) for name in free)
            name = rng.choice([each for each in free if len(tools[each]) == least])
            tools[name].append((ability, place % len(what.tools)))

    def drawn(values: tuple[Any, ...]) -> list[Any]:
        dealt = [values[i * len(values) // n] if n < 10 else values[i % 10] for i in range(n)]
        rng.shuffle(dealt)
        return dealt

    seconds, failing, places = drawn(_SECONDS), drawn(_FAILING), drawn(_PLACES)
    schemas, coordinating = drawn(_HALF), drawn(_THIRD)
    apart = set(rng.sample(names, min(processes, n)))
    return [
        Desk(
            name,
            tuple(tools[name]),
            seconds=seconds[i],
            failing=failing[i],
            places=places[i],
            has_schemas=schemas[i],
            is_coordinating=coordinating[i],
            is_process=name in apart,
            seed=seed,
        )
        for i, name in enumerate(names)
    ]


@dataclass
class Office:
    """What a server does: answers, waits, fails; and what it notes of that.

    Parameters
    ----------
    desk : Desk
    note : callable
        Takes each call when it has ended, as a JSON object.
    """

    desk: Desk
    note: Callable[[dict[str, Any]], None]
    running: int = 0
    _turns: dict[str, int] = field(default_factory=dict)
    _free: asyncio.Semaphore | None = None

    def begin(self) -> None:
        """Begin a run."""
        self._turns.clear()

    @property
    def tools(self) -> dict[str, str]:
        """The ability of each tool, by its name."""
        return {ABILITIES[ability].tools[which][0]: ability for ability, which in self.desk.tools}

    async def call(self, tool: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """Answer a call, or raise LookupError."""
        ability = self.tools[tool]
        noted: dict[str, Any] = {
            "server": self.desk.name,
            "tool": tool,
            "ability": ability,
            "inputs": inputs,
        }
        noted |= {"began": time.time(), "end": "given up"}
        self.running += 1
        try:
            self._free = self._free or asyncio.Semaphore(self.desk.places)
            async with self._free:
                await asyncio.sleep(self.desk.seconds)
                how = self._how(ability, inputs)
                if how == "hang":
                    await asyncio.sleep(3600)
            if how == "fail":
                raise LookupError("an internal error")
            found = fact(ability, inputs)
            noted["end"] = "done"
            return found
        except LookupError:
            noted["end"] = "failed"
            raise
        finally:
            self.running -= 1
            self.note({**noted, "ended": time.time()})

    def _how(self, ability: str, inputs: dict[str, Any]) -> str:
        """Return how a call ends: by the seed, the call, and how often it was made here before."""
        key = json.dumps([ability, inputs], sort_keys=True)
        turn = self._turns[key] = self._turns.get(key, 0) + 1
        rng = random.Random(f"{self.desk.seed} {self.desk.name} {key} {turn}")
        if rng.random() >= self.desk.failing:
            return "work"
        return rng.choice(("hang", "fail"))


def office_server(desk: Desk, note: Callable[[dict[str, Any]], None]) -> Any:
    """Return an MCP server of the SDK."""
    from mcp.server import Server
    from mcp.server.lowlevel import NotificationOptions
    from mcp_types import (
        CallToolResult,
        ListToolsResult,
        RequestParams,
        TextContent,
        Tool,
        ToolAnnotations,
    )
    from pydantic import ConfigDict

    office = Office(desk, note)

    class Params(RequestParams):
        model_config = ConfigDict(extra="allow")

    class Declaring(Server[Any]):
        def get_capabilities(self, options: Any = None, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
            found = super().get_capabilities(options or NotificationOptions(), *args, **kwargs)
            if not desk.is_coordinating:
                return found
            key = "extensions" if kwargs.get("protocol_version") else "experimental"
            return found.model_copy(update={key: {COORDINATION: {"methods": list(METHODS)}}})

    def described(ability: str, which: int) -> Tool:
        is_, (name, text) = ABILITIES[ability], ABILITIES[ability].tools[which]
        return Tool(
            name=name,
            description=text,
            input_schema=_object(is_.inputs) | {"additionalProperties": False},
            output_schema=_object(is_.returns) if desk.has_schemas else None,
            annotations=ToolAnnotations(read_only_hint=not is_.writes),
        )

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[described(*tool) for tool in desk.tools])

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        try:
            found = await office.call(params.name, params.arguments or {})
        except LookupError as exc:
            said = TextContent(type="text", text=str(exc.args[0]))
            return CallToolResult(content=[said], is_error=True)
        text = TextContent(type="text", text=json.dumps(found))
        return CallToolResult(
            content=[text], structured_content=found if desk.has_schemas else None
        )

    async def discover(context: Any, params: Params) -> Any:
        known = [described(*tool) for tool in desk.tools]
        return {"capabilities": [{"name": t.name, "description": t.description} for t in known]}

    async def negotiate(context: Any, params: Params) -> Any:
        if office.running >= desk.places:
            return {"status": "declined", "reason": "every place is taken"}
        return {"status": "accepted", "reason": ""}

    async def begin(context: Any, params: Params) -> Any:
        office.begin()
        return {}

    server = Declaring(desk.name, on_list_tools=list_tools, on_call_tool=call_tool)
    server.add_request_handler(BEGIN, Params, begin)
    if desk.is_coordinating:
        server.add_request_handler("capability/discover", Params, discover)
        server.add_request_handler("capability/negotiate", Params, negotiate)
    return server


def _object(properties: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


async def _serve(desk: Desk, log: Path) -> None:
    from mcp.server.stdio import stdio_server

    with log.open("a", buffering=1) as file:
        server = office_server(desk, lambda noted: print(json.dumps(noted), file=file))
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(_serve(Desk.read(Path(sys.argv[1])), Path(sys.argv[2])))
