"""Gateways over small worlds, for tests."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from cnp_router import Api, Catalog
from cnp_router.routing import SpecificationRouter
from cnp_router.serving import Gateway, GatewaySettings, Teaching
from cnp_router.sources import CallResult, Source, Sources

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}

RAIN = Api("sky__rain", "rain", "Forecasts rain and sun for a city.", (), CITY, "reads")
WIND = Api("sky__wind", "wind", "Forecasts the wind for a city.", (), CITY, "reads")
SEND = Api("mail__send", "send", "Sends a text by mail.", (), TEXT, "writes")
READ = Api("mail__read", "read", "Reads the newest mail.", (), TEXT, "reads")
APIS = (RAIN, WIND, SEND, READ)
QUICK = GatewaySettings(wait=(0, 0), refresh_seconds=0)


class World(Source):
    """A source whose tools answer as the test says, and which keeps what it was called with."""

    def __init__(self, name, answers=None, apis=APIS):
        self.name = name
        self.answers = answers or {}
        self.definitions = {api.id: api for api in apis if api.id.startswith(f"{name}__")}
        self.calls = []
        self.stale = False

    @property
    def is_stale(self):
        return self.stale

    async def apis(self):
        self.stale = False
        return tuple(self.definitions.values())

    async def call(self, call):
        self.calls.append(call)
        answer = self.answers.get(call.api, "fine")
        answer = answer(call) if callable(answer) else answer
        if asyncio.iscoroutine(answer):
            answer = await answer
        return answer if isinstance(answer, CallResult) else CallResult(answer)


class Later(Teaching):
    """Never learns: what is to be learned stays in the log, for a test to look at."""

    def __init__(self):
        super().__init__("nowhere.sqlite")

    def turn(self, *given):
        return 0


@asynccontextmanager
async def gateway(
    *worlds, settings=QUICK, apis=APIS, router=None, classes=None, lock=None, **options
):
    """A gateway over worlds that are closed with it."""
    worlds = worlds or (World("sky"), World("mail"))
    catalog = Catalog(apis)
    async with Sources(worlds, classes=classes, lock=lock) as sources:
        router = router or SpecificationRouter(catalog)
        async with Gateway(router, catalog, sources, settings=settings, **options) as door:
            yield door


def run(work):
    """Run a coroutine to its end, and see that it leaves no task behind."""

    async def whole():
        result = await asyncio.wait_for(work, 120)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(whole())


async def until(is_so):
    """Wait until something is so, for a minute at most."""
    for _ in range(6000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it has not come to pass")
